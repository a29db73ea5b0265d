//! A session as its commits left it. Everything here is derived, by [`fold`](crate::fold); the journal is the truth.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bind::Occurrence;
use crate::bound::BoundOperation;
use crate::entry::{Cancelled, End, HandedOff, Opened, Restored, Said};
use crate::ids::{Attempt, Digest, Epoch, HoldId, Kind, OpNumber, Revision, SessionId, TurnNumber};
use crate::key::Key;
use crate::operation::State;
use crate::outcome::{Fault, Receipt, Via};
use crate::time::{Mark, Pause, Wall};

/// One attempt at an operation, as the journal knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Its number.
    pub number: Attempt,
    /// The epoch that intended it.
    pub epoch: Epoch,
    /// The revision whose commit intended it.
    pub revision: Revision,
    /// When it was intended, for people.
    pub at: Wall,
    /// When it was intended.
    pub intended: Mark,
    /// The time it had, in milliseconds.
    pub budget_ms: u64,
    /// Its end, for people.
    pub deadline: Wall,
    /// The machine that intended it; empty where it was not known.
    pub machine: String,
    /// When processes of other boots first read the intent.
    pub reads: Vec<Mark>,
    /// When it was known to be over.
    pub ended: Option<Mark>,
    /// Its worker ended by itself, without saying whether it landed.
    pub by_itself: bool,
    /// It is known not to have landed.
    pub absent: bool,
}

/// An operation and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its number in the session.
    pub number: OpNumber,
    /// The turn that it belongs to.
    pub turn: TurnNumber,
    /// As it was bound.
    pub bound: Arc<BoundOperation>,
    /// Where it stands.
    pub state: State,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// Refusals so far.
    pub answers: u32,
    /// Attempts that were lost and earned absent.
    pub restarts: u32,
    /// What it left behind, once it landed, and who said so.
    pub landed: Option<(Receipt, Via)>,
    /// The last fault or evidence.
    pub fault: Option<Fault>,
    /// What was found out about the open doubt, oldest first.
    pub doubts: Vec<(Wall, Fault)>,
    /// Nothing is done about it before this is over.
    pub rest: Option<Pause>,
    /// Look-ups of the open doubt so far.
    pub looks: u32,
    /// Look-ups in a row that could not tell.
    pub looks_unknown: u32,
    /// A person must answer.
    pub person: bool,
    /// A person said yes to it.
    pub approved: bool,
    /// Skipped out of doubt.
    pub may_have_landed: bool,
}

impl AttemptRecord {
    /// Whether nothing on this clock says how long ago it was intended: no wait can be measured yet.
    pub(crate) fn is_unread(&self, now: &Mark) -> bool {
        now.since(&self.intended).is_none() && !self.reads.iter().any(|read| now.since(read).is_some())
    }
}

impl Operation {
    /// The attempt that is open, or was last.
    #[must_use]
    pub fn attempt(&self) -> Option<&AttemptRecord> {
        self.attempts.last()
    }

    /// The attempts that may have landed.
    pub fn unaccounted(&self) -> impl Iterator<Item = &AttemptRecord> {
        self.attempts.iter().filter(|attempt| !attempt.absent)
    }
}

/// A turn: its bound plan and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundTurn {
    /// Its number.
    pub number: TurnNumber,
    /// Its lane.
    pub lane: u32,
    /// Digest of its plan.
    pub digest: Digest,
    /// What it says when all of it is done.
    pub verdict: String,
    /// The planner's reason.
    pub rationale: Option<String>,
    /// The folder against which relative paths are read.
    pub dir: Option<Arc<str>>,
    /// Its first operation and how many it has.
    pub operations: (OpNumber, u32),
    /// How it ended.
    pub ended: Option<End>,
    /// It came from outside: only these kinds may run.
    pub allow: Option<Vec<Kind>>,
}

/// A session, folded from its commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// How many commits it has.
    pub revision: Revision,
    /// The last commit's sum.
    pub head: Option<Digest>,
    /// The present epoch.
    pub epoch: Epoch,
    /// The hold that owns it, and its label; `None` once released.
    pub owner: Option<(HoldId, String)>,
    /// How it was opened.
    pub opened: Option<Opened>,
    /// What was said, oldest first.
    pub said: Vec<Said>,
    /// Its turns.
    pub turns: Vec<BoundTurn>,
    /// Its operations, over all turns.
    pub operations: Vec<Operation>,
    /// Occurrences, by first key.
    pub occurrences: BTreeMap<Key, Occurrence>,
    /// A person wants nothing more to start, in the present turn.
    pub cancelled: Option<Cancelled>,
    /// The id of the store that it lives at; `None` for a session whose journal does not name one.
    pub home: Option<String>,
    /// It is on its way: handed off, and not yet taken in.
    pub handed_off: Option<HandedOff>,
    /// The store was put back to an older copy.
    pub restored: Option<Restored>,
    /// Requests that were folded in.
    pub requests: Vec<crate::ids::RequestId>,
    /// Sums of all commits, by revision.
    pub chain: Vec<Digest>,
}

impl Session {
    /// A session that has no commit yet.
    #[must_use]
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            revision: Revision::NONE,
            head: None,
            epoch: Epoch::NONE,
            owner: None,
            opened: None,
            said: Vec::new(),
            turns: Vec::new(),
            operations: Vec::new(),
            occurrences: BTreeMap::new(),
            cancelled: None,
            home: None,
            handed_off: None,
            restored: None,
            requests: Vec::new(),
            chain: Vec::new(),
        }
    }

    /// The store that it is at, or on its way to, if it may not step at the store with this id.
    #[must_use]
    pub fn elsewhere(&self, here: &str) -> Option<&str> {
        match (&self.handed_off, &self.home) {
            (Some(handed), _) => Some(&handed.to),
            (None, Some(home)) if home != here => Some(home),
            (None, Some(_) | None) => None,
        }
    }

    /// The first operation of the open turn that is not settled and whose kind is not among those that its turn, or
    /// this list, allows.
    #[must_use]
    pub fn not_allowed(&self, allow: Option<&[Kind]>) -> Option<&Operation> {
        let turn = self.turn().filter(|turn| turn.ended.is_none())?;
        let lists = || [turn.allow.as_deref(), allow].into_iter().flatten();
        self.operations_of(turn)
            .iter()
            .filter(|operation| !operation.state.is_settled())
            .find(|operation| lists().any(|list| !list.contains(&operation.bound.kind)))
    }

    /// The session's present turn: the last one.
    #[must_use]
    pub fn turn(&self) -> Option<&BoundTurn> {
        self.turns.last()
    }

    /// The operations of a turn.
    #[must_use]
    pub fn operations_of(&self, turn: &BoundTurn) -> &[Operation] {
        let first = turn.operations.0.index();
        self.operations.get(first..first + turn.operations.1 as usize).unwrap_or_default()
    }

    /// The operation with a number.
    #[must_use]
    pub fn operation(&self, number: OpNumber) -> Option<&Operation> {
        self.operations.get(number.index())
    }

    /// The digest of exactly what an operation will run.
    #[must_use]
    pub fn approval_digest(&self, op: OpNumber) -> Option<Digest> {
        let operation = self.operation(op)?;
        let dir = self.turns.iter().find(|turn| turn.number == operation.turn)?.dir.as_deref();
        operation.bound.approval_digest(dir)
    }

    /// Whether another operation of the session is equal to this one but for its occurrence.
    #[must_use]
    pub fn has_equal(&self, operation: &Operation) -> bool {
        let a = &operation.bound;
        self.operations.iter().any(|other| {
            let b = &other.bound;
            other.number != operation.number
                && a.kind == b.kind
                && a.key_place() == b.key_place()
                && a.body == b.body
        })
    }
}

/// How a turn ends whose operations stand like this; `None` while it cannot end (I7).
#[must_use]
pub(crate) fn ending(operations: &[Operation], cancelled: bool) -> Option<End> {
    if operations.iter().any(|o| o.state.is_open()) {
        return None;
    }
    let all = |good: fn(State) -> bool| operations.iter().all(|o| good(o.state));
    if all(|s| matches!(s, State::Succeeded | State::Skipped)) {
        return Some(End::Completed);
    }
    if cancelled {
        return Some(End::Cancelled);
    }
    operations.iter().any(|o| matches!(o.state, State::Failed | State::Denied)).then_some(End::Failed)
}
