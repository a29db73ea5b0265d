//! Settling: what an outcome, a finding or late evidence becomes in the journal.

use crate::absence;
use crate::bound::RecoveryClass;
use crate::entry::{Doubted, Entry, Failed, Succeeded};
use crate::ids::{Attempt, OpNumber};
use crate::key::Key;
use crate::limits::{BACKOFF_MAX_MS, LOOK_FIRST_MS, LOOK_MAX_MS, LOOKS_UNKNOWN_MAX, RESTARTS_MAX};
use crate::misfit::Misfit;
use crate::operation::State;
use crate::outcome::{Counts, Evidence, Fault, Finding, Outcome, Receipt, Retry, Via};
use crate::record::Extra;
use crate::session::Operation;
use crate::time::{Mark, Now, Pause};
use crate::turn::Turn;

impl Turn {
    pub(crate) fn or_broken(mut self, result: Result<(), Misfit>) -> Self {
        self.broken = self.broken.or(result.err());
        self
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
                // A last refusal ends the operation only if no other attempt is open: else it waits as well.
                let open = operation.unaccounted().any(|a| a.number != attempt);
                self.refuse(&operation, attempt, via, fault, (retry, open), now)
            }
            Outcome::NotSent(fault) => {
                let rest =
                    Some(Pause::from_now(now, backoff_ms(&operation, attempt, attempt.value().min(8))));
                self.fail(op, key, attempt, Via::Engine, fault, Counts::Nothing, false, rest, now)
            }
            Outcome::Unknown(fault) => self.doubt(&operation, attempt, Some(fault), None, false, now),
            Outcome::Ended(fault) => {
                self.doubt(&operation, attempt, Some(fault), Some(now.mark.clone()), true, now)
            }
            Outcome::Over(fault) => {
                self.doubt(&operation, attempt, Some(fault), Some(now.mark.clone()), false, now)
            }
        }
    }

    pub(crate) fn settle_evidence(&mut self, op: OpNumber, seen: &Evidence, now: &Now) -> Result<(), Misfit> {
        let (fault, by_itself) = match &seen.observed {
            Outcome::Ended(fault) => (fault, true),
            Outcome::Over(fault) => (fault, false),
            Outcome::Landed(_) | Outcome::NotLanded(..) | Outcome::NotSent(_) | Outcome::Unknown(_) => {
                return self.settled(op, seen.attempt, seen.observed.clone(), Via::Late, now);
            }
        };
        let Some(operation) = self.session().operation(op).cloned() else { return Ok(()) };
        let ended = seen.ended.clone().or_else(|| Some(now.mark.clone()));
        self.doubt(&operation, seen.attempt, Some(fault.clone()), ended, by_itself, now)
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

    /// An answer: it did not land. The last one that the operation has fails it for good, unless another attempt is
    /// open.
    fn refuse(
        &mut self,
        operation: &Operation,
        attempt: Attempt,
        via: Via,
        fault: Fault,
        (retry, open): (Retry, bool),
        now: &Now,
    ) -> Result<(), Misfit> {
        let last = retry == Retry::Never || operation.answers + 1 >= operation.bound.attempts_max;
        let wait = match retry {
            Retry::Never | Retry::Backoff => backoff_ms(operation, attempt, operation.answers),
            Retry::After { ms } => ms,
        };
        let rest = (!last || open).then(|| Pause::from_now(now, wait));
        self.fail(operation.number, operation.bound.key, attempt, via, fault, Counts::Answer, last, rest, now)
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

    pub(crate) fn doubt(
        &mut self,
        operation: &Operation,
        attempt: Attempt,
        why: Option<Fault>,
        ended: Option<Mark>,
        by_itself: bool,
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
            by_itself: by_itself.then_some(true),
            extra: Extra::default(),
        };
        self.push(entry.into(), now)
    }

    /// What a reconciler found, judged by time.
    pub(crate) fn found(
        &mut self,
        op: OpNumber,
        found: Finding,
        began: &Mark,
        now: &Now,
    ) -> Result<(), Misfit> {
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
            // Its worker ended by itself and it is not there: a refusal, if not in so many words.
            Finding::NotLanded if operation.attempt().is_some_and(|a| a.by_itself) => {
                let why = operation.fault.as_ref().map(|f| format!(": {}", f.message)).unwrap_or_default();
                let fault =
                    Fault::new("not_found", format!("it ended, and the look-up did not find it{why}"));
                self.refuse(&operation, attempt, Via::Reconciled, fault, (Retry::Backoff, false), now)
            }
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
            by_itself: None,
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
