//! What the machine hands out to be done: an attempt to make, or a doubt to look into. Each can be answered once.

use crate::absence;
use crate::call::Call;
use crate::ids::{Attempt, OpNumber, TurnNumber};
use crate::limits::{LOOK_DEADLINE_MS, RECHECK_AFTER_MS};
use crate::outcome::{Fault, Finding, Outcome, Via};
use crate::session::{Operation, Session};
use crate::time::{Mark, Now};
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

    /// The turn that it belongs to.
    #[must_use]
    pub fn turn_number(&self) -> TurnNumber {
        self.turn.session().operation(self.call.op).map_or(TurnNumber::FIRST, |operation| operation.turn)
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
    /// The session as it stands.
    #[must_use]
    pub const fn session(&self) -> &Session {
        self.turn.session()
    }

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
}
