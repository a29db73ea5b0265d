//! Binding: from a plan and the terms of its kinds to the operations that will run, byte for byte.
//!
//! What is over a limit or cannot be stored whole is refused here, with the path, and nothing has been written.

use std::collections::BTreeMap;

use crate::body::Body;
use crate::bound::BoundOperation;
use crate::entry::Bound;
use crate::ids::{Digest, Kind, SessionId};
use crate::json::JsonFault;
use crate::key::{self, Key, Seed};
use crate::limits::{
    BACKOFF_FIRST_MS, BODY_BYTES_MAX, DEADLINE_MAX_MS, LAG_MAX_MS, PLACE_BYTES_MAX, PLAN_OPERATIONS_MAX,
    TEXT_BYTES_MAX,
};
use crate::plan::{OperationTerms, Plan, PlanError, PlannedOperation, Terms};
use crate::record::Extra;

impl Plan {
    /// Binds the plan to a session whose operations so far have these occurrences.
    ///
    /// # Errors
    /// See [`PlanError`]; nothing has changed.
    pub fn bind(
        &self,
        session: &SessionId,
        terms: &Terms,
        occurrences: &BTreeMap<Key, Occurrence>,
    ) -> Result<Bound, PlanError> {
        let limit = |what, path: &str, found: usize, max: usize| {
            if found > max {
                let (found, max) = (found as u64, max as u64);
                Err(PlanError::Limit { what, path: path.to_owned(), found, max })
            } else {
                Ok(())
            }
        };
        limit("operations", "$.operations", self.operations.len(), PLAN_OPERATIONS_MAX)?;
        for (name, text) in [
            ("$.verdict", &self.verdict),
            ("$.rationale", &self.rationale),
            ("$.agent", &self.agent),
            ("$.task", &self.task),
        ] {
            limit("bytes", name, text.as_deref().map_or(0, str::len), TEXT_BYTES_MAX)?;
        }
        let mut seen = occurrences.clone();
        let mut operations = Vec::with_capacity(self.operations.len());
        for (n, planned) in self.operations.iter().enumerate() {
            let path = format!("$.operations[{n}]");
            limit("bytes", &format!("{path}.repo"), planned.repo.len(), PLACE_BYTES_MAX)?;
            limit("bytes", &format!("{path}.target"), planned.target.len(), PLACE_BYTES_MAX)?;
            if let Some(allow) = terms.allow.as_deref().filter(|allow| !allow.contains(&planned.kind)) {
                return Err(PlanError::not_allowed(planned.kind.clone(), path, allow));
            }
            let terms = terms.operations.get(n).ok_or_else(|| PlanError::Shape {
                why: format!("{path} has no terms: the caller must resolve them for each operation"),
            })?;
            let next_number = u32::try_from(seen.values().map(|o| o.count).sum::<u64>()).unwrap_or(u32::MAX);
            operations.push(bind_one(session, planned, n, terms, &mut seen, next_number)?);
        }
        Ok(Bound {
            lane: 0,
            turn: self.turn_number(),
            digest: self.digest()?,
            verdict: self.verdict.clone().unwrap_or_default(),
            operations,
            rationale: self.rationale.clone(),
            dir: terms.dir.clone(),
            allow: terms.allow.clone(),
            extra: Extra::default(),
        })
    }
}

impl PlanError {
    /// A kind that is not among those that may come from outside.
    #[must_use]
    pub fn not_allowed(kind: Kind, path: String, allow: &[Kind]) -> Self {
        let names: Vec<&str> = allow.iter().map(Kind::as_str).collect();
        let allowed = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Self::NotAllowed { kind, path, allowed }
    }
}

/// How often an operation occurs in a session, by the key of its first occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// How many are bound.
    pub count: u64,
    /// The digest of their bodies.
    pub digest: Digest,
    /// The number of the first, from 1.
    pub first: u32,
}

/// A planned operation's body in canonical form, or why it is refused, with its path in the plan.
pub fn bind_body(planned: &PlannedOperation, n: usize) -> Result<Body, PlanError> {
    Body::bind(planned.body.as_str(), BODY_BYTES_MAX).map_err(|mut e| {
        e.path = format!("$.operations[{n}].body{}", e.path.strip_prefix('$').unwrap_or(&e.path));
        if let JsonFault::TooLong { max } = e.why {
            let found = planned.body.as_str().len() as u64;
            return PlanError::Limit { what: "bytes", path: e.path, found, max: max as u64 };
        }
        PlanError::Json(e)
    })
}

fn bind_one(
    session: &SessionId,
    planned: &PlannedOperation,
    n: usize,
    terms: &OperationTerms,
    seen: &mut BTreeMap<Key, Occurrence>,
    bound_so_far: u32,
) -> Result<BoundOperation, PlanError> {
    let path = format!("$.operations[{n}]");
    let body = bind_body(planned, n)?;
    let digest = body.digest();
    let deadline_ms = planned.deadline_s.map_or(terms.deadline_ms, |s| s.saturating_mul(1_000));
    let lag_ms = planned.lag_s.map_or(0, |s| s.saturating_mul(1_000)).max(terms.lag_ms);
    for (what, name, found, max) in [
        ("milliseconds", "deadline_s", deadline_ms, DEADLINE_MAX_MS),
        ("milliseconds", "lag_s", lag_ms, LAG_MAX_MS),
    ] {
        if found > max {
            return Err(PlanError::Limit { what, path: format!("{path}.{name}"), found, max });
        }
    }
    let attempts_max = planned.attempts.unwrap_or(terms.attempts_max);
    if deadline_ms == 0 || attempts_max == 0 {
        return Err(PlanError::Shape {
            why: format!("{path}: `deadline_s` and `attempts` must be at least 1"),
        });
    }
    let mut operation = BoundOperation {
        kind: planned.kind.clone(),
        repo: planned.repo.clone(),
        target: planned.target.clone(),
        body,
        key: Key::derive(&Seed { session: "", kind: "", repo: "", target: "", body: "", occurrence: 1 }),
        occurrence: 1,
        recovery: terms.recovery,
        deadline_ms,
        lag_ms,
        local: terms.local,
        distinguishes: terms.distinguishes,
        attempts_max,
        backoff_ms: BACKOFF_FIRST_MS,
        within_ms: terms.within_ms,
        call_id: planned.call_id.clone(),
        approval: planned.approval.or(terms.approval),
        identity: terms.identity.clone(),
        place: terms.place.clone().map(|(repo, target)| vec![repo, target]),
        then_ask: terms.then_ask.then_some(true),
        extra: Extra::default(),
    };
    let first =
        operation.derived_key(session, 1).map_err(|e| PlanError::Shape { why: format!("{path}: {e}") })?;
    let entry =
        seen.entry(first).or_insert(Occurrence { count: 0, digest, first: bound_so_far.saturating_add(1) });
    if entry.digest != digest {
        let (other, bound) = (entry.first, entry.digest);
        return Err(PlanError::Mismatch { path, key: first, other, bound, offered: digest });
    }
    entry.count += 1;
    operation.occurrence = entry.count;
    operation.key = operation
        .derived_key(session, entry.count)
        .map_err(|e| PlanError::Shape { why: format!("{path}: {e}") })?;
    Ok(operation)
}

impl BoundOperation {
    /// The key that the formula gives for this operation as the so-manieth of its equals.
    ///
    /// # Errors
    /// When its identity fields cannot be read from the body.
    pub fn derived_key(&self, session: &SessionId, occurrence: u64) -> Result<Key, key::IdentityError> {
        let identity = match &self.identity {
            None => None,
            Some(fields) => {
                let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
                Some(key::identity_text(&self.body, &fields)?)
            }
        };
        let (repo, target) = self.key_place();
        Ok(Key::derive(&Seed {
            session: session.as_str(),
            kind: self.kind.as_str(),
            repo,
            target,
            body: identity.as_deref().unwrap_or(self.body.as_str()),
            occurrence,
        }))
    }

    /// `repo` and `target` as they take part in the key: in the kind's normal form where it has one.
    pub(crate) fn key_place(&self) -> (&str, &str) {
        match self.place.as_deref() {
            Some([repo, target]) => (repo, target),
            Some(_) | None => (&self.repo, &self.target),
        }
    }
}
