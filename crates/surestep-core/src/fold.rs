//! The fold: what a session's commits amount to.
//!
//! [`Session::take`] takes one commit and refuses whatever the protocol does not allow, so a journal that loads is
//! a journal that the protocol could have written. The table that moves an operation is in
//! [`operation`].

use std::sync::Arc;

use crate::bind::Occurrence;
use crate::bound::{Approval, BoundOperation};
use crate::commit::Commit;
use crate::entry::{Bound, Cancelled, Claimed, Entry, Finished, HandedOff, Opened, Restored};
use crate::ids::{Attempt, Epoch, OpNumber, Revision};
use crate::misfit::Misfit;
use crate::operation::{self, Event, State};
use crate::session::{AttemptRecord, BoundTurn, Operation, Session, ending};
use crate::time::{Mark, Wall};

pub(crate) fn order(entry: &'static str, why: impl Into<String>) -> Misfit {
    Misfit::Order { entry, why: why.into() }
}

/// What a commit gives to the entries in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) revision: Revision,
    pub(crate) at: Wall,
}

impl Session {
    /// Takes one more commit: its place in the chain, then its entries.
    ///
    /// # Errors
    /// [`Misfit`]; the session must not be used any more then.
    pub fn take(&mut self, commit: &Commit) -> Result<(), Misfit> {
        let chain = |why: String| Misfit::Chain { why };
        if commit.session() != &self.id {
            return Err(chain(format!("the commit is of session `{}`, not `{}`", commit.session(), self.id)));
        }
        if commit.revision() != self.revision.next() {
            return Err(chain(format!("revision {} follows revision {}", commit.revision(), self.revision)));
        }
        if commit.prev() != self.head {
            return Err(chain(format!("revision {} does not name the commit before it", commit.revision())));
        }
        let context = Context { revision: commit.revision(), at: commit.at() };
        for entry in commit.entries() {
            self.apply(entry, context)?;
        }
        if commit.epoch() != self.epoch {
            return Err(chain(format!("epoch {} in a commit of epoch {}", self.epoch, commit.epoch())));
        }
        self.sealed(commit);
        Ok(())
    }

    /// Counts a commit whose entries were applied.
    pub(crate) fn sealed(&mut self, commit: &Commit) {
        self.revision = commit.revision();
        self.head = Some(commit.sum());
        self.chain.push(commit.sum());
    }

    /// Applies one entry.
    pub(crate) fn apply(&mut self, entry: &Entry, at: Context) -> Result<(), Misfit> {
        if self.handed_off.is_some() && !matches!(entry, Entry::Claimed(_)) {
            return Err(order(entry.tag(), "the session was handed off"));
        }
        match entry {
            Entry::Opened(_) | Entry::Claimed(_) | Entry::Restored(_) => {}
            Entry::Released(_)
            | Entry::Said(_)
            | Entry::Bound(_)
            | Entry::Intended(_)
            | Entry::Succeeded(_)
            | Entry::Failed(_)
            | Entry::Doubted(_)
            | Entry::Approved(_)
            | Entry::Denied(_)
            | Entry::Skipped(_)
            | Entry::Cancelled(_)
            | Entry::Finished(_)
            | Entry::HandedOff(_) => {
                if self.owner.is_none() {
                    return Err(order(entry.tag(), "nobody has claimed the session"));
                }
            }
        }
        match entry {
            Entry::Opened(e) => self.opened(e),
            Entry::Said(e) => {
                self.said.push(e.clone());
                Ok(())
            }
            Entry::Bound(e) => self.bound(e),
            Entry::Claimed(e) => self.claimed(e),
            Entry::Released(_) => self.released(),
            Entry::Intended(e) => self.intended(e, at),
            Entry::Succeeded(e) => self.succeeded(e),
            Entry::Failed(e) => self.failed(e, at),
            Entry::Doubted(e) => self.doubted(e, at),
            Entry::Approved(e) => self.approved(e),
            Entry::Denied(e) => self.denied(e),
            Entry::Skipped(e) => self.skipped(e),
            Entry::Cancelled(e) => self.cancel(e),
            Entry::Finished(e) => self.finished(e),
            Entry::HandedOff(e) => self.hand_off(e),
            Entry::Restored(e) => self.restore(e, at),
        }
    }

    fn opened(&mut self, e: &Opened) -> Result<(), Misfit> {
        if self.opened.is_some() || !self.turns.is_empty() {
            return Err(order("opened", "the session is open already"));
        }
        self.home.clone_from(&e.store);
        self.opened = Some(e.clone());
        Ok(())
    }

    /// The epoch that the next one follows.
    pub(crate) fn epoch_floor(&self) -> Epoch {
        self.restored.as_ref().map_or(Epoch::NONE, |r| r.mark_epoch).max(self.epoch)
    }

    fn claimed(&mut self, e: &Claimed) -> Result<(), Misfit> {
        let floor = self.epoch_floor();
        if e.epoch != floor.next() {
            return Err(order("claimed", format!("epoch {} does not follow epoch {floor}", e.epoch)));
        }
        self.taken_in(e)?;
        self.epoch = e.epoch;
        self.owner = Some((e.hold.clone(), e.owner.clone()));
        for operation in &mut self.operations {
            move_by(operation, Event::OwnerOver)?;
        }
        Ok(())
    }

    /// A claim with a store's name takes a session in that was handed off to that store; no other claim can.
    fn taken_in(&mut self, e: &Claimed) -> Result<(), Misfit> {
        match (self.handed_off.take(), &e.store) {
            (None, None) => Ok(()),
            (Some(handed), Some(store)) if handed.to == *store && handed.epoch == e.epoch => {
                self.home = Some(handed.to);
                for turn in self.turns.iter_mut().filter(|turn| turn.ended.is_none()) {
                    turn.allow.clone_from(&e.allow);
                }
                Ok(())
            }
            (Some(handed), _) => {
                Err(order("claimed", format!("the session was handed off to {}", handed.to)))
            }
            (None, Some(store)) => Err(order("claimed", format!("nobody handed the session off to {store}"))),
        }
    }

    fn released(&mut self) -> Result<(), Misfit> {
        if let Some(open) = self.operations.iter().find(|o| o.state == State::Intended) {
            return Err(order("released", format!("operation {} is under way", open.number)));
        }
        self.owner = None;
        Ok(())
    }

    fn bound(&mut self, e: &Bound) -> Result<(), Misfit> {
        let (last, done) = self.turn().map_or((0, true), |t| (t.number.value(), t.ended.is_some()));
        if !done || e.turn.value() != last + 1 {
            return Err(order("bound", format!("turn {} cannot follow turn {last} now", e.turn)));
        }
        let first = OpNumber::at(self.operations.len());
        for bound in &e.operations {
            let number = OpNumber::at(self.operations.len());
            self.count_occurrence(bound, number)?;
            let state = match (&self.restored, bound.approval) {
                (Some(_), _) => State::InDoubt,
                (None, Some(Approval::Required)) => State::AwaitingApproval,
                (None, None) => State::Planned,
            };
            self.operations.push(Operation {
                number,
                turn: e.turn,
                bound: Arc::new(bound.clone()),
                state,
                attempts: self
                    .restored
                    .iter()
                    .map(|r| lost_attempt(r, self.revision.next(), bound))
                    .collect(),
                answers: 0,
                restarts: 0,
                landed: None,
                fault: None,
                doubts: Vec::new(),
                rest: None,
                looks: 0,
                looks_unknown: 0,
                person: false,
                approved: false,
                may_have_landed: false,
            });
        }
        self.cancelled = None;
        self.turns.push(BoundTurn {
            number: e.turn,
            lane: e.lane,
            digest: e.digest,
            verdict: e.verdict.clone(),
            rationale: e.rationale.clone(),
            dir: e.dir.as_deref().map(Arc::from),
            operations: (first, u32::try_from(e.operations.len()).unwrap_or(u32::MAX)),
            ended: None,
            allow: e.allow.clone(),
        });
        Ok(())
    }

    /// The keys in a journal are those that the formula gives: an altered body with recomputed sums is found here.
    fn count_occurrence(&mut self, bound: &BoundOperation, number: OpNumber) -> Result<(), Misfit> {
        let derive = |n| bound.derived_key(&self.id, n).map_err(|e| order("bound", e.to_string()));
        let first = derive(1)?;
        let digest = bound.body.digest();
        let entry =
            self.occurrences.entry(first).or_insert(Occurrence { count: 0, digest, first: number.value() });
        entry.count += 1;
        let own = if bound.occurrence == 1 { first } else { derive(bound.occurrence)? };
        if entry.count != bound.occurrence || entry.digest != digest || own != bound.key {
            return Err(order(
                "bound",
                format!("operation {number} does not have the key that its content gives"),
            ));
        }
        Ok(())
    }

    fn cancel(&mut self, e: &Cancelled) -> Result<(), Misfit> {
        let turn =
            self.turn().filter(|t| t.ended.is_none()).ok_or_else(|| order("cancelled", "no turn is open"))?;
        let (first, count) = (turn.operations.0.index(), turn.operations.1 as usize);
        for operation in self.operations.iter_mut().skip(first).take(count) {
            move_by(operation, Event::Cancel)?;
        }
        self.cancelled = Some(e.clone());
        self.requests.extend(e.request.clone());
        Ok(())
    }

    fn finished(&mut self, e: &Finished) -> Result<(), Misfit> {
        let (cancelled, turn) = match self.turn() {
            Some(turn) if turn.number == e.turn && turn.lane == e.lane && turn.ended.is_none() => {
                (self.cancelled.is_some(), turn)
            }
            Some(_) | None => return Err(order("finished", format!("turn {} is not open", e.turn))),
        };
        let outcome = ending(self.operations_of(turn), cancelled);
        if outcome != Some(e.outcome) {
            return Err(order("finished", format!("its operations say {outcome:?}, not {:?}", e.outcome)));
        }
        if let Some(turn) = self.turns.last_mut() {
            turn.ended = Some(e.outcome);
        }
        Ok(())
    }

    fn hand_off(&mut self, e: &HandedOff) -> Result<(), Misfit> {
        if self.operations.iter().any(|o| o.state.is_open()) {
            return Err(order("handed_off", "an operation is open"));
        }
        if e.epoch != self.epoch_floor().next() || Some(&e.to) == self.home.as_ref() {
            return Err(order("handed_off", format!("to {} with epoch {}", e.to, e.epoch)));
        }
        self.owner = None;
        self.handed_off = Some(e.clone());
        Ok(())
    }

    fn restore(&mut self, e: &Restored, at: Context) -> Result<(), Misfit> {
        for operation in self.operations.iter_mut().filter(|o| !o.state.is_settled()) {
            move_by(operation, Event::Restore)?;
            // A lost commit may have taken the yes back.
            operation.approved = false;
            // The lost attempt stands before those that are known: numbers only grow.
            let lost = lost_attempt(e, at.revision, &operation.bound);
            operation.attempts.insert(0, lost);
        }
        self.owner = None;
        self.restored = Some(e.clone());
        Ok(())
    }
}

pub(crate) fn move_by(operation: &mut Operation, event: Event) -> Result<(), Misfit> {
    operation.state = operation::step(operation.state, event)
        .map_err(|illegal| Misfit::Illegal { op: operation.number, illegal })?;
    Ok(())
}

/// It began before the restore, nobody knows when: the remote may be at it for a whole deadline yet.
fn lost_attempt(restored: &Restored, revision: Revision, bound: &BoundOperation) -> AttemptRecord {
    let mark = Mark::new(restored.boot.clone(), restored.since_boot_ms);
    AttemptRecord {
        number: Attempt::LOST,
        epoch: restored.mark_epoch,
        revision,
        at: Wall::from_unix_ms(0),
        intended: mark,
        budget_ms: bound.deadline_ms,
        deadline: Wall::from_unix_ms(0),
        machine: String::new(),
        reads: Vec::new(),
        ended: None,
        by_itself: false,
        absent: false,
    }
}
