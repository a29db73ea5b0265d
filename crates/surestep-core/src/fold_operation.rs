//! The fold of the entries that speak of one operation: intents, settles, doubts, and what people say.

use crate::bound::RecoveryClass;
use crate::entry::{Approved, Denied, Doubted, Failed, Intended, Skipped, Succeeded};
use crate::fold::{Context, move_by, order};
use crate::ids::{Attempt, OpNumber};
use crate::key::Key;
use crate::limits::RESTARTS_MAX;
use crate::misfit::Misfit;
use crate::operation::{Event, State};
use crate::outcome::{Counts, Via};
use crate::session::{AttemptRecord, Operation, Session};
use crate::time::Mark;

impl Session {
    pub(crate) fn intended(&mut self, e: &Intended, at: Context) -> Result<(), Misfit> {
        if self.cancelled.is_some() {
            return Err(order("intended", "the turn is cancelled"));
        }
        let turn =
            self.turn().filter(|t| t.ended.is_none()).ok_or_else(|| order("intended", "no turn is open"))?;
        let lowest = self.operations_of(turn).iter().find(|o| !o.state.is_settled()).map(|o| o.number);
        if lowest != Some(e.op) {
            return Err(order("intended", format!("operation {} is not the lowest unsettled one", e.op)));
        }
        let epoch = self.epoch;
        let operation = self.named(e.op, &e.key)?;
        let event = if operation.state == State::InDoubt { Event::Repeat } else { Event::Intend };
        let current = operation.attempts.last().map_or(Attempt::LOST, |a| a.number);
        if e.attempt != current.next() {
            return Err(Misfit::WrongAttempt { op: e.op, current, named: e.attempt });
        }
        if event == Event::Repeat && operation.bound.recovery != RecoveryClass::Repeat {
            return Err(order("intended", format!("operation {} may have landed", e.op)));
        }
        move_by(operation, event)?;
        operation.rest = None;
        operation.looks = 0;
        operation.looks_unknown = 0;
        operation.person = false;
        operation.attempts.push(AttemptRecord {
            number: e.attempt,
            epoch,
            revision: at.revision,
            at: at.at,
            intended: Mark::new(e.boot.clone(), e.since_boot_ms),
            budget_ms: e.budget_ms,
            deadline: e.deadline,
            machine: e.machine.clone().unwrap_or_default(),
            reads: Vec::new(),
            ended: None,
            by_itself: false,
            absent: false,
        });
        Ok(())
    }

    pub(crate) fn succeeded(&mut self, e: &Succeeded) -> Result<(), Misfit> {
        let operation = self.open_attempt(e.op, &e.key, e.attempt)?;
        if operation.attempts.is_empty() {
            return Err(order("succeeded", format!("operation {} was never attempted", e.op)));
        }
        move_by(operation, Event::Land)?;
        operation.landed = Some((e.receipt.clone(), e.via));
        operation.rest = None;
        operation.person = false;
        self.requests.extend(e.request.clone());
        Ok(())
    }

    pub(crate) fn failed(&mut self, e: &Failed, at: Context) -> Result<(), Misfit> {
        let cancelled = self.cancelled.is_some();
        // What the adapter or the engine says of its own attempt says nothing of another one, which may still be open.
        let of_all = match e.via {
            Via::Reconciled | Via::Operator => true,
            Via::Executed | Via::Late | Via::Engine => false,
        };
        let named = self.named(e.op, &e.key)?.unaccounted().any(|a| a.number == e.attempt);
        let operation = if named && !of_all {
            self.named(e.op, &e.key)?
        } else {
            self.open_attempt(e.op, &e.key, e.attempt)?
        };
        for attempt in &mut operation.attempts {
            attempt.absent |= of_all || attempt.number == e.attempt;
        }
        let event = match (operation.unaccounted().next().is_some(), e.last) {
            (true, _) => Event::StillInDoubt,
            (false, true) => Event::NotLandedForGood,
            (false, false) => Event::NotLanded,
        };
        move_by(operation, event)?;
        if cancelled && operation.state == State::Retrying {
            move_by(operation, Event::Cancel)?;
        }
        if operation.state == State::Retrying && operation.bound.needs_approval() && !operation.approved {
            move_by(operation, Event::AskFirst)?;
        }
        match e.counts {
            Counts::Answer => operation.answers = operation.answers.saturating_add(1),
            Counts::Restart => operation.restarts = operation.restarts.saturating_add(1).min(RESTARTS_MAX),
            Counts::Nothing => {}
        }
        if e.via == Via::Operator {
            operation.restarts = 0;
        }
        operation.fault = Some(e.fault.clone());
        operation.doubts.push((at.at, e.fault.clone()));
        operation.rest = e.rest.clone();
        operation.person = false;
        self.requests.extend(e.request.clone());
        Ok(())
    }

    pub(crate) fn doubted(&mut self, e: &Doubted, at: Context) -> Result<(), Misfit> {
        let operation = self.named(e.op, &e.key)?;
        let last = operation.attempts.last().map(|a| a.number);
        let Some(attempt) = operation.attempts.iter_mut().find(|a| a.number == e.attempt) else {
            let current = last.unwrap_or(Attempt::LOST);
            return Err(Misfit::WrongAttempt { op: e.op, current, named: e.attempt });
        };
        attempt.reads.extend(e.read.clone());
        if attempt.ended.is_none() {
            attempt.ended.clone_from(&e.ended);
        }
        attempt.by_itself |= e.by_itself == Some(true);
        move_by(operation, Event::Doubt)?;
        if let Some(why) = &e.why {
            operation.fault = Some(why.clone());
            operation.doubts.push((at.at, why.clone()));
        }
        if let Some(looks) = e.looks {
            operation.looks = operation.looks.saturating_add(1);
            operation.looks_unknown = looks;
        }
        operation.rest = e.rest.clone().or(operation.rest.take());
        operation.person = e.person.unwrap_or(operation.person);
        Ok(())
    }

    pub(crate) fn approved(&mut self, e: &Approved) -> Result<(), Misfit> {
        let body = self.operation(e.op).map(|operation| operation.bound.body.digest());
        if body != Some(e.digest) || e.whole.is_some() && self.approval_digest(e.op) != e.whole {
            return Err(order("approved", format!("operation {} is not what was approved", e.op)));
        }
        let operation = self.named(e.op, &e.key)?;
        move_by(operation, Event::Approve)?;
        operation.approved = true;
        self.requests.extend(e.request.clone());
        Ok(())
    }

    pub(crate) fn denied(&mut self, e: &Denied) -> Result<(), Misfit> {
        move_by(self.named(e.op, &e.key)?, Event::Deny)?;
        self.requests.extend(e.request.clone());
        Ok(())
    }

    pub(crate) fn skipped(&mut self, e: &Skipped) -> Result<(), Misfit> {
        let operation = self.named(e.op, &e.key)?;
        if e.may_have_landed != (operation.state == State::InDoubt) {
            return Err(order("skipped", format!("operation {} is {}", e.op, operation.state)));
        }
        move_by(operation, Event::Skip)?;
        operation.may_have_landed = e.may_have_landed;
        operation.rest = None;
        operation.person = false;
        self.requests.extend(e.request.clone());
        Ok(())
    }

    fn named(&mut self, op: OpNumber, key: &Key) -> Result<&mut Operation, Misfit> {
        self.operations
            .get_mut(op.index())
            .filter(|operation| operation.bound.key == *key)
            .ok_or(Misfit::NoSuchOperation { op, key: *key })
    }

    fn open_attempt(&mut self, op: OpNumber, key: &Key, named: Attempt) -> Result<&mut Operation, Misfit> {
        let operation = self.named(op, key)?;
        let current = operation.attempts.last().map_or(Attempt::LOST, |a| a.number);
        if current != named {
            return Err(Misfit::WrongAttempt { op, current, named });
        }
        Ok(operation)
    }
}
