//! Settling: what an outcome, a finding or late evidence becomes in the journal.

use crate::absence;
use crate::bound::RecoveryClass;
use crate::call::Call;
use crate::entry::{Doubted, Entry, Failed, Succeeded};
use crate::ids::{Attempt, OpNumber};
use crate::key::Key;
use crate::limits::{
    BACKOFF_MAX_MS, LOOK_DEADLINE_MS, LOOK_FIRST_MS, LOOK_MAX_MS, LOOKS_UNKNOWN_MAX, RECHECK_AFTER_MS,
    RESTARTS_MAX,
};
use crate::misfit::Misfit;
use crate::operation::State;
use crate::outcome::{Counts, Evidence, Fault, Finding, Outcome, Receipt, Retry, Via};
use crate::record::Extra;
use crate::session::Operation;
use crate::time::{Mark, Now, Pause};
use crate::turn::{Next, Turn};

/// An attempt whose intent is durable: the only thing that may be executed.
#[must_use]
#[derive(Debug)]
pub struct Intent {
    turn: Turn,
    call: Call,
    intended: Mark,
    send_within_ms: u64,
}

impl Intent {
    /// The attempt, for the effect.
    #[must_use]
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// Whether it may still be sent, asked right before it is: no clock may be past the deadline, nor a repeat
    /// window over. `Some`: it was not sent; settle with this.
    #[must_use]
    pub fn refuses_to_send(&self, now: &Now) -> Option<Outcome> {
        let elapsed = now.mark.since(&self.intended);
        let in_time = elapsed.is_some_and(|ms| ms < self.send_within_ms) && now.wall < self.call.deadline;
        (!in_time).then(|| {
            Outcome::NotSent(Fault::new(
                "not_sent",
                "its time was over before it could be sent; nothing was sent",
            ))
        })
    }

    /// Whether so much time passed since the intent was staged that hold and head must be read again before sending.
    #[must_use]
    pub fn must_recheck(&self, now: &Now) -> bool {
        now.mark.since(&self.intended).is_none_or(|ms| ms > RECHECK_AFTER_MS)
    }

    /// Takes what was seen of the attempt.
    #[must_use]
    pub fn settle(self, seen: Outcome, now: &Now) -> Turn {
        let Self { mut turn, call, .. } = self;
        turn.fresh = None;
        let result = turn.settled(call.op, call.attempt, seen, Via::Executed, now);
        turn.or_broken(result)
    }
}

/// An operation that may have landed: the remote must be asked.
#[must_use]
#[derive(Debug)]
pub struct Doubt {
    turn: Turn,
    call: Call,
    began: Mark,
}

impl Doubt {
    /// The attempt that is asked about, for the reconciler.
    #[must_use]
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// Takes what was found. The look-up counts as begun when [`Turn::next`](crate::Turn::next) handed it out.
    #[must_use]
    pub fn resolve(self, found: Finding, now: &Now) -> Turn {
        let Self { mut turn, call, began } = self;
        let result = turn.found(call.op, found, &began, now);
        turn.or_broken(result)
    }
}

impl Turn {
    pub(crate) fn or_broken(mut self, result: Result<(), Misfit>) -> Self {
        self.broken = self.broken.or(result.err());
        self
    }

    pub(crate) fn execute(mut self, op: OpNumber, attempt: Attempt) -> Next {
        // Taken out here: whatever happens to this value, the attempt is not handed out twice.
        self.fresh = None;
        match self.call(op, attempt) {
            Some(call) => {
                let operation = self.session().operation(op);
                let intended = operation.and_then(Operation::attempt).map(|a| a.intended.clone());
                let intended = intended.unwrap_or_else(|| call.deadline_mark.clone());
                let repeated = operation.is_some_and(|o| o.unaccounted().count() > 1);
                let window = operation
                    .filter(|_| repeated)
                    .map(|o| absence::repeat_left_ms(o, &self.proof, &intended));
                let send_within_ms = window.unwrap_or(u64::MAX).min(call.operation.deadline_ms);
                Next::Execute(Intent { turn: self, call, intended, send_within_ms })
            }
            None => self.rest_broken(),
        }
    }

    pub(crate) fn look(mut self, op: OpNumber, now: &Now) -> Next {
        self.looked.insert(op);
        let attempt =
            self.session().operation(op).and_then(Operation::attempt).map_or(Attempt::LOST, |a| a.number);
        match self.call(op, attempt) {
            Some(mut call) => {
                call.deadline = now.wall.plus_ms(LOOK_DEADLINE_MS);
                call.deadline_mark =
                    Mark::new(now.mark.boot.clone(), now.mark.since_boot_ms.saturating_add(LOOK_DEADLINE_MS));
                Next::Reconcile(Doubt { turn: self, call, began: now.mark.clone() })
            }
            None => self.rest_broken(),
        }
    }

    /// There is no such operation: cannot be, since `need` named it. Rest, do nothing.
    fn rest_broken(self) -> Next {
        Next::Rest(crate::turn::Rested { envelope: self.envelope, why: crate::report::Rest::NoPlan })
    }

    fn call(&self, op: OpNumber, attempt: Attempt) -> Option<Call> {
        let session = self.session();
        let operation = session.operation(op)?;
        let record = operation.attempt()?;
        let turn = session.turns.iter().find(|t| t.number == operation.turn)?;
        let end = record.intended.since_boot_ms.saturating_add(record.budget_ms);
        Some(Call {
            session: session.id.clone(),
            op,
            operation: operation.bound.clone(),
            dir: turn.dir.clone(),
            epoch: session.epoch,
            attempt,
            deadline: record.deadline,
            deadline_mark: Mark::new(record.intended.boot.clone(), end),
            first_intended: operation.attempts.first().map(|a| a.at),
            hint: None,
            traceparent: session.opened.as_ref().and_then(|o| o.traceparent.clone()),
        })
    }

    /// What the adapter, or the engine, says of an attempt.
    pub(crate) fn settled(
        &mut self,
        op: OpNumber,
        attempt: Attempt,
        seen: Outcome,
        via: Via,
        now: &Now,
    ) -> Result<(), Misfit> {
        let Some((operation, key)) = self.session().operation(op).map(|o| (o.clone(), o.bound.key)) else {
            return Ok(());
        };
        match seen {
            Outcome::Landed(receipt) => self.land(&operation, receipt, via, now),
            Outcome::NotLanded(fault, retry) => {
                let answers = operation.answers + 1;
                let last = retry == Retry::Never || answers >= operation.bound.attempts_max;
                let wait = match retry {
                    Retry::Never | Retry::Backoff => backoff_ms(&operation, attempt, operation.answers),
                    Retry::After { ms } => ms,
                };
                // A last refusal ends the operation only if no other attempt is open: else it waits as well.
                let open = operation.unaccounted().any(|a| a.number != attempt);
                let rest = (!last || open).then(|| Pause::from_now(now, wait));
                self.fail(op, key, attempt, via, fault, Counts::Answer, last, rest, now)
            }
            Outcome::NotSent(fault) => {
                let rest =
                    Some(Pause::from_now(now, backoff_ms(&operation, attempt, attempt.value().min(8))));
                self.fail(op, key, attempt, Via::Engine, fault, Counts::Nothing, false, rest, now)
            }
            Outcome::Unknown(fault) => self.doubt(&operation, attempt, Some(fault), None, now),
            Outcome::Over(fault) => {
                let ended = Some(now.mark.clone());
                self.doubt(&operation, attempt, Some(fault), ended, now)
            }
        }
    }

    pub(crate) fn settle_evidence(&mut self, op: OpNumber, seen: &Evidence, now: &Now) -> Result<(), Misfit> {
        if let Outcome::Over(fault) = &seen.observed {
            let Some(operation) = self.session().operation(op).cloned() else { return Ok(()) };
            let ended = seen.ended.clone().or_else(|| Some(now.mark.clone()));
            return self.doubt(&operation, seen.attempt, Some(fault.clone()), ended, now);
        }
        self.settled(op, seen.attempt, seen.observed.clone(), Via::Late, now)
    }

    fn land(&mut self, operation: &Operation, receipt: Receipt, via: Via, now: &Now) -> Result<(), Misfit> {
        let entry = Succeeded {
            op: operation.number,
            key: operation.bound.key,
            attempt: operation.attempt().map_or(Attempt::LOST, |a| a.number),
            via,
            receipt: receipt.bounded(),
            by: None,
            because: None,
            request: None,
            extra: Extra::default(),
        };
        self.push(entry.into(), now)
    }

    #[expect(clippy::too_many_arguments, reason = "one entry, field by field")]
    fn fail(
        &mut self,
        op: OpNumber,
        key: Key,
        attempt: Attempt,
        via: Via,
        fault: Fault,
        counts: Counts,
        last: bool,
        rest: Option<Pause>,
        now: &Now,
    ) -> Result<(), Misfit> {
        let entry = Failed {
            op,
            key,
            attempt,
            via,
            fault: fault.bounded(),
            counts,
            last,
            rest,
            by: None,
            because: None,
            overridden: None,
            request: None,
            extra: Extra::default(),
        };
        self.push(entry.into(), now)
    }

    fn doubt(
        &mut self,
        operation: &Operation,
        attempt: Attempt,
        why: Option<Fault>,
        ended: Option<Mark>,
        now: &Now,
    ) -> Result<(), Misfit> {
        // What would be repeated at once waits as a refusal would.
        let repeats = operation.bound.recovery == RecoveryClass::Repeat;
        let exponent = u32::try_from(operation.attempts.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let entry = Doubted {
            op: operation.number,
            key: operation.bound.key,
            attempt,
            why: why.map(Fault::bounded),
            read: None,
            ended,
            rest: repeats.then(|| Pause::from_now(now, backoff_ms(operation, attempt, exponent))),
            looks: None,
            person: None,
            extra: Extra::default(),
        };
        self.push(entry.into(), now)
    }

    /// What a reconciler found, judged by time.
    fn found(&mut self, op: OpNumber, found: Finding, began: &Mark, now: &Now) -> Result<(), Misfit> {
        let session = self.session();
        let Some(operation) = session.operation(op).cloned() else { return Ok(()) };
        let attempt = operation.attempt().map_or(Attempt::LOST, |a| a.number);
        let twin = !operation.bound.distinguishes && session.has_equal(&operation);
        let wait_ms = absence::wait_ms(&operation, session.epoch, &self.proof, began);
        let key = operation.bound.key;
        match found {
            Finding::Landed(receipt) if !twin => self.land(&operation, receipt, Via::Reconciled, now),
            Finding::Landed(receipt) => {
                let message = format!(
                    "the look-up found `{}`, but it cannot tell this operation from an equal one of the session",
                    receipt.reference
                );
                self.looked_in_vain(&operation, Fault::new("twin", message), now)
            }
            Finding::NotLanded if wait_ms > 0 => {
                let message = "not found; it is too early to believe that it did not land";
                self.looked_too_early(&operation, Fault::new("not_found", message), wait_ms, now)
            }
            Finding::Conflict(fault) if wait_ms > 0 => self.looked_too_early(&operation, fault, wait_ms, now),
            Finding::NotLanded if operation.restarts + 1 >= RESTARTS_MAX => {
                let message = format!("did not land in {RESTARTS_MAX} attempts that were lost to restarts");
                self.looked(&operation, Fault::new("restarts", message), LOOK_MAX_MS, 0, Some(true), now)
            }
            Finding::NotLanded => {
                let fault = Fault::new("not_found", "the look-up did not find it, and it can no longer land");
                self.fail(op, key, attempt, Via::Reconciled, fault, Counts::Restart, false, None, now)
            }
            Finding::Conflict(fault) => {
                self.fail(op, key, attempt, Via::Reconciled, fault, Counts::Answer, true, None, now)
            }
            Finding::Unknown(fault) => self.looked_in_vain(&operation, fault, now),
        }
    }

    fn looked_too_early(
        &mut self,
        operation: &Operation,
        why: Fault,
        wait_ms: u64,
        now: &Now,
    ) -> Result<(), Misfit> {
        let wait_ms = wait_ms.min(poll_ms(operation.looks));
        self.looked(operation, why, wait_ms, 0, None, now)
    }

    fn looked_in_vain(&mut self, operation: &Operation, why: Fault, now: &Now) -> Result<(), Misfit> {
        let unknown = operation.looks_unknown.saturating_add(1);
        let person = (unknown >= LOOKS_UNKNOWN_MAX || why.code == "twin").then_some(true);
        self.looked(operation, why, poll_ms(operation.looks), unknown, person, now)
    }

    fn looked(
        &mut self,
        operation: &Operation,
        why: Fault,
        wait_ms: u64,
        looks_unknown: u32,
        person: Option<bool>,
        now: &Now,
    ) -> Result<(), Misfit> {
        let why = why.bounded();
        let entry = Doubted {
            op: operation.number,
            key: operation.bound.key,
            attempt: operation.attempt().map_or(Attempt::LOST, |a| a.number),
            // An equal finding adds no evidence.
            why: (operation.fault.as_ref() != Some(&why)).then_some(why),
            read: None,
            ended: None,
            rest: Some(Pause::from_now(now, wait_ms)),
            looks: Some(looks_unknown),
            person,
            extra: Extra::default(),
        };
        self.push(Entry::from(entry), now)
    }

    /// Takes what this process saw of its own attempt although the commit that said so failed: legal while that
    /// attempt is still the open one.
    #[must_use]
    pub fn first_hand(mut self, op: OpNumber, attempt: Attempt, seen: Outcome, now: &Now) -> Self {
        let open = self
            .session()
            .operation(op)
            .is_some_and(|o| o.state.is_open() && o.attempt().is_some_and(|a| a.number == attempt));
        if !open {
            return self;
        }
        let result = self.claim(now).and_then(|_| self.settled(op, attempt, seen, Via::Executed, now));
        self.or_broken(result)
    }

    /// Whether an operation is open.
    #[must_use]
    pub fn is_open(&self, op: OpNumber) -> bool {
        self.session().operation(op).is_some_and(|o| matches!(o.state, State::Intended | State::InDoubt))
    }
}

/// Full jitter without a random source: a share of the exponential cap that SHA-256 of key and attempt picks.
fn backoff_ms(operation: &Operation, attempt: Attempt, exponent: u32) -> u64 {
    let cap = operation.bound.backoff_ms.saturating_mul(1_u64 << exponent.min(20)).clamp(1, BACKOFF_MAX_MS);
    let digest = crate::ids::Digest::of(format!("{}#{attempt}", operation.bound.key).as_bytes());
    let draw = digest.bytes().iter().take(8).fold(0_u64, |n, byte| (n << 8) | u64::from(*byte));
    draw % (cap + 1)
}

fn poll_ms(looks: u32) -> u64 {
    LOOK_FIRST_MS.saturating_mul(1_u64 << looks.min(20)).min(LOOK_MAX_MS)
}
