//! The registry: which kinds of effect an engine can carry out, each with its recovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use surestep_core::bind::bind_body;
use surestep_core::limits::ATTEMPTS_DEFAULT;
use surestep_core::{Approval, Kind, OperationTerms, Plan, PlanError, RecoveryClass, Session, Terms};

use crate::effect::{Effect, Planned, Reconciler, Recovery};
use crate::secret;

/// What configuration may change of a kind's terms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tuning {
    /// The visibility lag, in milliseconds; unlike a plan, configuration may lower it.
    pub lag_ms: Option<u64>,
    /// The deadline, in milliseconds.
    pub deadline_ms: Option<u64>,
    /// Refusals before an operation fails.
    pub attempts_max: Option<u32>,
    /// Whether a person must say yes before each operation of the kind, even if its plan does not say so. Like every
    /// term it is stored when the plan is bound, and holds whoever runs it later. Default: what the plan says.
    pub approval: Option<Approval>,
}

#[derive(Clone)]
struct Registered {
    effect: Arc<dyn Effect>,
    recovery: Recovery,
}

/// Effects by kind.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    kinds: BTreeMap<Kind, Registered>,
    tuning: BTreeMap<Kind, Tuning>,
    tuning_of_all: Tuning,
}

impl Registry {
    /// Adds a kind; false if it was there already.
    pub(crate) fn add(&mut self, effect: Arc<dyn Effect>, recovery: Recovery) -> Result<(), Kind> {
        let kind = effect.kind();
        if self.kinds.contains_key(&kind) {
            return Err(kind);
        }
        self.kinds.insert(kind, Registered { effect, recovery });
        Ok(())
    }

    pub(crate) fn tune(&mut self, kind: Option<Kind>, tuning: Tuning) {
        match kind {
            Some(kind) => drop(self.tuning.insert(kind, tuning)),
            None => self.tuning_of_all = tuning,
        }
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.keys()
    }

    pub(crate) fn effect(&self, kind: &Kind) -> Option<Arc<dyn Effect>> {
        self.kinds.get(kind).map(|r| r.effect.clone())
    }

    pub(crate) fn reconciler(&self, kind: &Kind) -> Option<Arc<dyn Reconciler>> {
        match &self.kinds.get(kind)?.recovery {
            Recovery::Ask(reconciler) => Some(reconciler.clone()),
            Recovery::Repeat { then, .. } => then.clone(),
            Recovery::Halt => None,
        }
    }

    fn unknown(&self, kind: &Kind, path: String) -> PlanError {
        let known: Vec<&str> = self.kinds().map(Kind::as_str).collect();
        PlanError::UnknownKind { kind: kind.clone(), path, known: known.join(", ") }
    }

    /// The terms of a plan's operations: every kind is checked before anything is written.
    pub(crate) fn terms(
        &self,
        plan: &Plan,
        dir: Option<&str>,
        allow: Option<&[Kind]>,
    ) -> Result<Terms, PlanError> {
        let mut operations = Vec::with_capacity(plan.operations.len());
        for (n, planned) in plan.operations.iter().enumerate() {
            let path = || format!("$.operations[{n}]");
            if let Some(allow) = allow.filter(|allow| !allow.contains(&planned.kind)) {
                return Err(PlanError::not_allowed(planned.kind.clone(), path(), allow));
            }
            let registered =
                self.kinds.get(&planned.kind).ok_or_else(|| self.unknown(&planned.kind, path()))?;
            let body = bind_body(planned, n)?;
            let body = secret::placeholders(&body).unwrap_or(body);
            let seen = Planned { repo: &planned.repo, target: &planned.target, body: &body, dir };
            let terms =
                registered.effect.terms(&seen).map_err(|fault| PlanError::Refused { path: path(), fault })?;
            let tuning = self.tuning.get(&planned.kind).copied().unwrap_or(self.tuning_of_all);
            let (recovery, within_ms, then_ask) = match &registered.recovery {
                Recovery::Ask(_) if terms.can_ask => (RecoveryClass::Ask, None, false),
                Recovery::Repeat { within_ms, then } => {
                    (RecoveryClass::Repeat, Some(*within_ms), then.is_some() && terms.can_ask)
                }
                Recovery::Ask(_) | Recovery::Halt => (RecoveryClass::Halt, None, false),
            };
            operations.push(OperationTerms {
                recovery,
                within_ms,
                then_ask,
                deadline_ms: tuning.deadline_ms.unwrap_or(terms.deadline_ms),
                lag_ms: tuning.lag_ms.filter(|_| !terms.local).unwrap_or(terms.lag_ms),
                local: terms.local,
                distinguishes: terms.distinguishes,
                attempts_max: tuning.attempts_max.unwrap_or(ATTEMPTS_DEFAULT),
                approval: tuning.approval,
                identity: terms.identity,
                place: terms.place,
            });
        }
        Ok(Terms { operations, dir: dir.map(str::to_owned), allow: allow.map(<[Kind]>::to_vec) })
    }

    /// Every kind of the open turn is known here, and allowed.
    pub(crate) fn knows(&self, session: &Session, allow: Option<&[Kind]>) -> Result<(), PlanError> {
        let Some(turn) = session.turn().filter(|t| t.ended.is_none()) else { return Ok(()) };
        let unsettled = session.operations_of(turn).iter().filter(|o| !o.state.is_settled());
        for operation in unsettled {
            if !self.kinds.contains_key(&operation.bound.kind) {
                return Err(self.unknown(&operation.bound.kind, format!("operation {}", operation.number)));
            }
        }
        match session.not_allowed(allow) {
            Some(operation) => {
                let path = format!("operation {}", operation.number);
                let list =
                    turn.allow.as_deref().filter(|list| !list.contains(&operation.bound.kind)).or(allow);
                Err(PlanError::not_allowed(operation.bound.kind.clone(), path, list.unwrap_or_default()))
            }
            None => Ok(()),
        }
    }
}
