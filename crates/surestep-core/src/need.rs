//! What a session needs now: the order of things inside a step (docs/protocol.md), as one pure function.
//!
//! Doubts first, then binding, then the lowest unsettled operation, then the end. The same function answers a
//! caller who does not hold the session (whether a step would do anything at all) and the turn that does.

use crate::absence::{self, Proof};
use crate::bound::RecoveryClass;
use crate::entry::End;
use crate::envelope::Envelope;
use crate::ids::{Attempt, OpNumber};
use crate::limits::RESTARTS_MAX;
use crate::operation::State;
use crate::outcome::{Evidence, Outcome};
use crate::report::{About, Question, Report, Rest};
use crate::session::{AttemptRecord, Operation, Session, ending};
use crate::time::Now;
use crate::turn::Turn;

/// What must happen next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Need {
    Rest(Rest),
    Execute(OpNumber, Attempt),
    Evidence(OpNumber, Evidence),
    Look(OpNumber),
    Bind,
    Intend(OpNumber),
    Finish(End),
}

/// What a need is judged by, besides the session.
struct View<'a> {
    session: &'a Session,
    proof: &'a Proof,
    late: &'a [Evidence],
    now: &'a Now,
    looked: &'a dyn Fn(OpNumber) -> bool,
    fresh: Option<(OpNumber, Attempt)>,
    offered: bool,
}

impl Turn {
    pub(crate) fn need(&self, now: &Now) -> Need {
        View {
            session: self.session(),
            proof: &self.proof,
            late: &self.late,
            now,
            looked: &|op| self.looked.contains(&op),
            fresh: self.fresh,
            offered: self.offered.is_some(),
        }
        .need()
    }

    /// Why the session would rest if it did now.
    pub(crate) fn standing(&self, now: &Now) -> Rest {
        standing(self.session(), &self.proof, now)
    }
}

impl Envelope {
    /// Why a step would do nothing now; `None` when it has work. Needs no hold and writes nothing.
    #[must_use]
    pub fn rests(&self, proof: &Proof, late: &[Evidence], to_bind: bool, now: &Now) -> Option<Rest> {
        let view = View {
            session: &self.session,
            proof,
            late,
            now,
            looked: &|_| false,
            fresh: None,
            offered: to_bind,
        };
        match view.need() {
            Need::Rest(rest) => Some(rest),
            Need::Execute(..)
            | Need::Evidence(..)
            | Need::Look(_)
            | Need::Bind
            | Need::Intend(_)
            | Need::Finish(_) => None,
        }
    }

    /// Where the session stands, as if nothing could be done: for people who look at it.
    #[must_use]
    pub fn standing(&self, now: &Now) -> Rest {
        standing(&self.session, &Proof::default(), now)
    }
}

impl View<'_> {
    fn need(&self) -> Need {
        let session = self.session;
        if let Some(handed) = &session.handed_off {
            return Need::Rest(Rest::HandedOff { to: handed.to.clone() });
        }
        let mut rest = None;
        for operation in session.operations.iter().filter(|o| o.state.is_open()) {
            let need = self.open(operation);
            let Need::Rest(why) = need else { return need };
            rest = rest.or(Some(why));
        }
        if let Some(why) = rest {
            return Need::Rest(why);
        }
        if self.offered {
            return Need::Bind;
        }
        let Some(turn) = session.turn() else { return Need::Rest(Rest::NoPlan) };
        if let Some(report) = Report::of(session, turn) {
            return Need::Rest(Rest::Finished(report));
        }
        let operations = session.operations_of(turn);
        if let Some(outcome) = ending(operations, session.cancelled.is_some()) {
            return Need::Finish(outcome);
        }
        match operations.iter().find(|o| !o.state.is_settled()) {
            Some(operation) => self.ready(operation),
            None => Need::Rest(Rest::NoPlan),
        }
    }

    /// An attempt is open: make it if it is ours and new, else find out.
    fn open(&self, operation: &Operation) -> Need {
        let number = operation.number;
        let attempt = operation.attempt().map_or(Attempt::LOST, |a| a.number);
        if operation.state == State::Intended && self.fresh == Some((number, attempt)) {
            return Need::Execute(number, attempt);
        }
        if let Some(evidence) = self.receipt(operation).or_else(|| self.evidence(operation)) {
            return Need::Evidence(number, evidence.clone());
        }
        let person =
            || Need::Rest(Rest::NeedsPerson(question(operation, self.session, self.proof, self.now)));
        let asks = match operation.bound.recovery {
            RecoveryClass::Ask => true,
            RecoveryClass::Halt => false,
            // Nothing new is intended in a cancelled turn, nor after so many refusals: what is open is asked about.
            RecoveryClass::Repeat
                if self.session.cancelled.is_none()
                    && operation.answers < operation.bound.attempts_max
                    && absence::may_repeat(operation, self.proof, &self.now.mark) =>
            {
                let lost = operation.attempts.len() as u32 > operation.bound.attempts_max + RESTARTS_MAX;
                if lost || operation.person {
                    return person();
                }
                return match self.pause(operation) {
                    Some(rest) => Need::Rest(rest),
                    None => Need::Intend(number),
                };
            }
            RecoveryClass::Repeat => operation.bound.can_ask(),
        };
        if !asks {
            // Nothing but a person's word can follow once it is taken over, and read on this boot: without that the
            // wait before *not landed* could be true would never begin here.
            let noted = !operation.unaccounted().any(|attempt| attempt.is_unread(&self.now.mark));
            return if operation.state == State::InDoubt && noted { person() } else { Need::Look(number) };
        }
        match self.pause(operation) {
            Some(rest) => Need::Rest(rest),
            // One look-up per operation and step.
            None if (self.looked)(number) => Need::Rest(Rest::Until {
                at: self.now.wall,
                wait_ms: 1,
                why: format!(
                    "operation {number} ({}) may have landed: the next look-up",
                    operation.bound.kind
                ),
            }),
            None => Need::Look(number),
        }
    }

    /// What an open operation waits for.
    fn pause(&self, operation: &Operation) -> Option<Rest> {
        rest_of(operation, self.session, self.proof, self.now)
    }

    fn evidence(&self, operation: &Operation) -> Option<&Evidence> {
        self.late.iter().find(|e| {
            e.op == operation.number
                && e.key == operation.bound.key
                && operation.unaccounted().any(|attempt| {
                    speaks_of(e, attempt)
                        && match &e.observed {
                            Outcome::Landed(_) | Outcome::NotLanded(..) | Outcome::NotSent(_) => true,
                            Outcome::Ended(_) | Outcome::Over(_) => attempt.ended.is_none(),
                            Outcome::Unknown(_) => false,
                        }
                })
        })
    }

    /// A late landing of any attempt, accounted for or not.
    fn receipt(&self, operation: &Operation) -> Option<&Evidence> {
        self.late.iter().find(|e| {
            e.op == operation.number
                && e.key == operation.bound.key
                && matches!(e.observed, Outcome::Landed(_))
                && operation.attempts.iter().any(|attempt| speaks_of(e, attempt) || is_of_lost(e, attempt))
        })
    }

    /// Nothing is open: may the lowest unsettled operation begin?
    fn ready(&self, operation: &Operation) -> Need {
        // Somebody said that it did not land, and here is its receipt: it is not made a second time.
        // (Also after a restore: out of doubt it may have come back to where a person is asked for a yes, or gave it.)
        let undone = matches!(operation.state, State::Retrying | State::AwaitingApproval | State::Planned);
        if let Some(receipt) = self.receipt(operation).filter(|_| undone) {
            return Need::Evidence(operation.number, receipt.clone());
        }
        let standing = match operation.state {
            State::AwaitingApproval => {
                Some(Rest::NeedsPerson(question(operation, self.session, self.proof, self.now)))
            }
            State::Planned | State::Retrying => rest_of(operation, self.session, self.proof, self.now),
            State::Intended
            | State::InDoubt
            | State::Succeeded
            | State::Failed
            | State::Denied
            | State::Skipped
            | State::Cancelled => Some(Rest::NoPlan),
        };
        standing.map_or(Need::Intend(operation.number), Need::Rest)
    }
}

/// Late evidence speaks of one attempt under one epoch: after a restored backup attempt numbers come again.
fn speaks_of(evidence: &Evidence, attempt: &AttemptRecord) -> bool {
    attempt.number == evidence.attempt && attempt.epoch == evidence.epoch
}

/// After a restore epochs start above those that were lost: what an owner of an older one saw, it saw of a lost attempt.
fn is_of_lost(evidence: &Evidence, attempt: &AttemptRecord) -> bool {
    attempt.number == Attempt::LOST && evidence.epoch <= attempt.epoch
}

/// Whether late evidence says by itself what became of an attempt that is not accounted for.
pub(crate) fn settles(evidence: &Evidence, operation: &Operation) -> bool {
    let decides = match &evidence.observed {
        Outcome::Landed(_) | Outcome::NotLanded(..) | Outcome::NotSent(_) => true,
        Outcome::Ended(_) | Outcome::Over(_) | Outcome::Unknown(_) => false,
    };
    decides
        && evidence.op == operation.number
        && evidence.key == operation.bound.key
        && operation.unaccounted().any(|attempt| speaks_of(evidence, attempt))
}

fn rest_of(operation: &Operation, session: &Session, proof: &Proof, now: &Now) -> Option<Rest> {
    let wait_ms = operation.rest.as_ref().map_or(0, |rest| rest.left_ms(now));
    if wait_ms == 0 {
        return None;
    }
    if operation.person {
        return Some(Rest::NeedsPerson(question(operation, session, proof, now)));
    }
    let what = format!("operation {} ({})", operation.number, operation.bound.kind);
    let why = match operation.state {
        State::Intended | State::InDoubt => format!("{what} may have landed: the next look-up"),
        State::Planned
        | State::AwaitingApproval
        | State::Retrying
        | State::Succeeded
        | State::Failed
        | State::Denied
        | State::Skipped
        | State::Cancelled => format!("{what} was refused: the next attempt"),
    };
    Some(Rest::Until { at: now.wall.plus_ms(wait_ms), wait_ms, why })
}

fn standing(session: &Session, proof: &Proof, now: &Now) -> Rest {
    if let Some(handed) = &session.handed_off {
        return Rest::HandedOff { to: handed.to.clone() };
    }
    let Some(turn) = session.turn() else { return Rest::NoPlan };
    if let Some(report) = Report::of(session, turn) {
        return Rest::Finished(report);
    }
    let Some(operation) = session.operations_of(turn).iter().find(|o| !o.state.is_settled()) else {
        return Rest::Until { at: now.wall, wait_ms: 0, why: "the end of the turn".into() };
    };
    let asked = match operation.state {
        State::AwaitingApproval => true,
        State::InDoubt => {
            let repeats = session.cancelled.is_none() && absence::may_repeat(operation, proof, &now.mark);
            !operation.bound.can_ask() && !repeats
        }
        State::Planned
        | State::Intended
        | State::Retrying
        | State::Succeeded
        | State::Failed
        | State::Denied
        | State::Skipped
        | State::Cancelled => false,
    };
    if asked || operation.person {
        return Rest::NeedsPerson(question(operation, session, proof, now));
    }
    rest_of(operation, session, proof, now).unwrap_or_else(|| Rest::Until {
        at: now.wall,
        wait_ms: 0,
        why: format!("operation {} ({}) can go on", operation.number, operation.bound.kind),
    })
}

/// The question that an operation puts to a person.
#[must_use]
pub fn question(operation: &Operation, session: &Session, proof: &Proof, now: &Now) -> Question {
    // Nobody knows when a lost attempt began.
    let attempt = operation.attempt();
    let known = attempt.filter(|attempt| attempt.number != Attempt::LOST);
    let about = match operation.state {
        State::AwaitingApproval => About::Approval,
        State::Planned | State::Retrying => About::Restarts,
        State::Intended
        | State::InDoubt
        | State::Succeeded
        | State::Failed
        | State::Denied
        | State::Skipped
        | State::Cancelled => {
            if operation.person && operation.restarts + 1 >= RESTARTS_MAX {
                About::Restarts
            } else {
                About::Landing
            }
        }
    };
    let next_look_ms = operation.rest.as_ref().map_or(0, |r| r.left_ms(now));
    Question {
        about,
        op: operation.number,
        key: operation.bound.key,
        attempt: attempt.map_or(Attempt::LOST, |a| a.number),
        attempts: u32::try_from(operation.attempts.len()).unwrap_or(u32::MAX),
        since: known.map(|a| a.at),
        deadline: known.map(|a| a.deadline),
        evidence: operation.doubts.clone(),
        absence_in_ms: absence::wait_ms(operation, session.epoch, proof, &now.mark),
        next_look: (operation.bound.can_ask() && next_look_ms > 0).then(|| now.wall.plus_ms(next_look_ms)),
    }
}
