//! Why a turn rests: an outcome, never an error, so that `?` cannot swallow a question.

use crate::entry::End;
use crate::ids::{Attempt, OpNumber, TurnNumber};
use crate::key::Key;
use crate::operation::State;
use crate::outcome::{Fault, Receipt, Via};
use crate::session::{BoundTurn, Operation, Session};
use crate::time::Wall;

/// Why nothing more can be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest {
    /// The turn is over.
    Finished(Report),
    /// A person must answer; nothing is lost by stopping.
    NeedsPerson(Question),
    /// Only time is missing: step again then, not before.
    Until {
        /// The time, for people and for schedulers.
        at: Wall,
        /// How long that is from now, in milliseconds.
        wait_ms: u64,
        /// What is waited for.
        why: String,
    },
    /// No plan is bound, and none was offered.
    NoPlan,
    /// The session was handed to another store and lives there.
    HandedOff {
        /// The store's id.
        to: String,
    },
}

/// How a turn ended, and what became of each of its operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The turn.
    pub turn: TurnNumber,
    /// How it ended.
    pub outcome: End,
    /// The plan's verdict when completed; else `failed` or `cancelled`.
    pub verdict: String,
    /// Its operations, in order.
    pub operations: Vec<Line>,
}

/// One operation of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub op: OpNumber,
    /// Its key.
    pub key: Key,
    /// Where it stands.
    pub state: State,
    /// What it left behind, and who said so.
    pub landed: Option<(Receipt, Via)>,
    /// The last fault.
    pub fault: Option<Fault>,
    /// Skipped out of doubt.
    pub may_have_landed: bool,
}

/// What only a person can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub about: About,
    /// The operation.
    pub op: OpNumber,
    /// Its key.
    pub key: Key,
    /// The attempt that is open.
    pub attempt: Attempt,
    /// How often it was attempted.
    pub attempts: u32,
    /// When that attempt was intended.
    pub since: Option<Wall>,
    /// When it had to be over.
    pub deadline: Option<Wall>,
    /// What is known, oldest first.
    pub evidence: Vec<(Wall, Fault)>,
    /// Milliseconds until *not landed* could be true.
    pub absence_in_ms: u64,
    /// The next look-up is not before this.
    pub next_look: Option<Wall>,
}

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// Whether an attempt landed.
    Landing,
    /// Whether the operation may run.
    Approval,
    /// Whether to go on with an operation that was lost to too many restarts.
    Restarts,
}

impl Report {
    /// The report of a finished turn.
    #[must_use]
    pub fn of(session: &Session, turn: &BoundTurn) -> Option<Self> {
        let outcome = turn.ended?;
        let verdict = match outcome {
            End::Completed => turn.verdict.clone(),
            End::Failed => "failed".into(),
            End::Cancelled => "cancelled".into(),
        };
        let operations = session.operations_of(turn).iter().map(Line::of).collect();
        Some(Self { turn: turn.number, outcome, verdict, operations })
    }
}

impl Line {
    fn of(operation: &Operation) -> Self {
        Self {
            op: operation.number,
            key: operation.bound.key,
            state: operation.state,
            landed: operation.landed.clone(),
            fault: operation.fault.clone(),
            may_have_landed: operation.may_have_landed,
        }
    }
}
