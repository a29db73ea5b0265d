//! A person's word, judged against the session and folded into it.

use crate::absence;
use crate::entry::{Approved, Cancelled, Denied, Entry, Failed, Skipped, Succeeded};
use crate::ids::{Attempt, OpNumber};
use crate::misfit::Misfit;
use crate::need::settles;
use crate::operation::State;
use crate::outcome::{Counts, Fault, Receipt, Via};
use crate::record::Extra;
use crate::request::{Request, Word};
use crate::session::{BoundTurn, Operation};
use crate::time::Now;
use crate::turn::{Next, Rested, Turn};

/// Why a person's word was not taken. It was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It names no operation of the session.
    #[error("the session has no such operation")]
    NoSuchOperation,
    /// The operation's state does not leave room for this word.
    #[error("operation {op} is {state}: it cannot be answered with `{word}`")]
    NotAsked {
        /// The operation.
        op: OpNumber,
        /// Where it stands.
        state: State,
        /// The word.
        word: &'static str,
    },
    /// The attempt that the person spoke of is over.
    #[error("operation {op} is at attempt {current} by now, the answer was for attempt {named}")]
    Moved {
        /// The operation.
        op: OpNumber,
        /// The attempt that is open.
        current: Attempt,
        /// The attempt that the person spoke of.
        named: Attempt,
    },
    /// It cannot be known yet that nothing will land.
    #[error("operation {op} may still land for {wait_ms} ms")]
    TooEarly {
        /// The operation.
        op: OpNumber,
        /// How long, in milliseconds.
        wait_ms: u64,
    },
    /// A late result says what became of it: nobody needs to be asked.
    #[error("a late result says what became of operation {op}: resume the session, and it is taken up")]
    Known {
        /// The operation.
        op: OpNumber,
    },
    /// *Not landed* was said while somebody held the session: the attempt may have landed since.
    #[error("that operation {op} did not land is no answer while the session is held: it may still land")]
    Held {
        /// The operation.
        op: OpNumber,
    },
    /// No turn is open.
    #[error("no turn is open")]
    NothingOpen,
    /// The machine contradicts its own table.
    #[error("BUG: {0}")]
    Broken(#[from] crate::misfit::Misfit),
}

impl Turn {
    /// Folds a person's word in; a request that was folded before changes nothing.
    ///
    /// # Errors
    /// [`Refused`]: nothing was written.
    pub fn answer(mut self, request: &Request, now: &Now) -> Result<Self, Refused> {
        if self.session().requests.contains(&request.id) {
            return Ok(self);
        }
        self.claim(now)?;
        if request.word == Word::Cancel {
            let meant = |turn: &BoundTurn| request.turn.is_none_or(|named| named == turn.number);
            if !self.session().turn().is_some_and(|turn| turn.ended.is_none() && meant(turn)) {
                return Err(Refused::NothingOpen);
            }
            let entry = Cancelled {
                by: request.by.clone(),
                because: request.because.clone(),
                request: Some(request.id.clone()),
                extra: Extra::default(),
            };
            self.push(entry.into(), now)?;
            return Ok(self);
        }
        let operation = request
            .op
            .and_then(|op| self.session().operation(op))
            .filter(|o| request.key.is_none_or(|key| key == o.bound.key))
            .cloned()
            .ok_or(Refused::NoSuchOperation)?;
        let current = operation.attempt().map_or(Attempt::LOST, |a| a.number);
        if let Some(named) = request.attempt.filter(|named| *named != current) {
            return Err(Refused::Moved { op: operation.number, current, named });
        }
        let entry = self.judged(request, &operation, current, now)?;
        self.push(entry, now)?;
        Ok(self)
    }

    /// After [`Refused::TooEarly`]: records from when on the wait counts (the first read of this boot, an end that this
    /// take-over moves), else each later word would start the wait anew. A rest when that is recorded already.
    ///
    /// # Errors
    /// As [`Turn::next`].
    pub fn note(mut self, now: &Now) -> Result<Next, Misfit> {
        let before = self.envelope.clone();
        self.claim(now)?;
        if self.pending.iter().any(|entry| matches!(entry, Entry::Doubted(_))) {
            return self.let_go(now);
        }
        let why = before.standing(now);
        Ok(Next::Rest(Rested { envelope: before, why }))
    }

    fn judged(
        &self,
        request: &Request,
        operation: &Operation,
        attempt: Attempt,
        now: &Now,
    ) -> Result<Entry, Refused> {
        let op = operation.number;
        let key = operation.bound.key;
        let open = operation.state.is_open();
        let awaits = operation.state == State::AwaitingApproval;
        let (possible, word) = match request.word {
            Word::Landed => (open, "landed"),
            Word::NotLanded | Word::NotLandedNow => (open, "not landed"),
            // What is under way right now is accounted for, or doubted, first.
            Word::Skip => (!operation.state.is_settled() && operation.state != State::Intended, "skip"),
            Word::Approve => (awaits, "approve"),
            Word::Deny => (awaits, "deny"),
            Word::Cancel => (false, "cancel"),
        };
        let of_doubt = match request.word {
            Word::Landed | Word::NotLanded | Word::NotLandedNow | Word::Skip => true,
            Word::Approve | Word::Deny | Word::Cancel => false,
        };
        if of_doubt && self.late.iter().any(|evidence| settles(evidence, operation)) {
            return Err(Refused::Known { op });
        }
        if !possible {
            return Err(Refused::NotAsked { op, state: operation.state, word });
        }
        let by = request.by.clone();
        let because = request.because.clone();
        let request_id = Some(request.id.clone());
        let extra = Extra::default();
        Ok(match request.word {
            Word::Landed => {
                let receipt =
                    request.receipt.clone().unwrap_or_else(|| Receipt::new(key.to_string())).bounded();
                let (by, because) = (Some(by), Some(because));
                Succeeded {
                    op,
                    key,
                    attempt,
                    via: Via::Operator,
                    receipt,
                    by,
                    because,
                    request: request_id,
                    extra,
                }
                .into()
            }
            Word::NotLanded | Word::NotLandedNow => {
                let wait_ms = absence::wait_ms(operation, self.session().epoch, &self.proof, &now.mark);
                let overridden = (wait_ms > 0).then_some(true);
                if overridden.is_some() && request.word == Word::NotLanded {
                    return Err(Refused::TooEarly { op, wait_ms });
                }
                Failed {
                    op,
                    key,
                    attempt,
                    via: Via::Operator,
                    fault: Fault::new("not_landed", "a person says that it did not land"),
                    counts: Counts::Nothing,
                    last: false,
                    rest: None,
                    by: Some(by),
                    because: Some(because),
                    overridden,
                    request: request_id,
                    extra,
                }
                .into()
            }
            Word::Skip => {
                Skipped { op, key, by, because, may_have_landed: open, request: request_id, extra }.into()
            }
            Word::Approve => {
                let digest = operation.bound.body.digest();
                let whole = self.session().approval_digest(op);
                Approved { op, key, digest, by, because, whole, request: request_id, extra }.into()
            }
            Word::Deny => Denied { op, key, by, because, request: request_id, extra }.into(),
            Word::Cancel => return Err(Refused::NothingOpen),
        })
    }
}
