//! The one table that moves an operation: `(state, event) -> state`, exhaustive, without a catch-all arm.
//!
//! ```text
//!            commit            saw landed (commit)
//! planned ----------> intended ------------------------> succeeded
//!    ^ approval first    |  |  \-- saw not landed --> failed, or retrying --(commit, attempt+1)--> intended
//!    | where required    |  |
//!                crash, |  | unknown
//!               timeout |  v
//!                       in_doubt -- landed ------------> succeeded
//!                           |------ not landed, earned -> failed, or retrying
//!                           |------ unknown, too early -> stays
//!                           '------ person: landed / not landed / skip
//! ```

use std::fmt;

/// Where an operation stands. Derived from the journal, never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Bound, not begun.
    Planned,
    /// Bound; a person must say yes first.
    AwaitingApproval,
    /// An attempt of the present owner may be under way.
    Intended,
    /// An attempt may have landed, and nobody is at it.
    InDoubt,
    /// No attempt landed; another one may follow.
    Retrying,
    /// It landed.
    Succeeded,
    /// It did not land and will not be tried again.
    Failed,
    /// A person said no.
    Denied,
    /// A person left it as it was.
    Skipped,
    /// The turn was cancelled before it landed.
    Cancelled,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::Planned,
        Self::AwaitingApproval,
        Self::Intended,
        Self::InDoubt,
        Self::Retrying,
        Self::Succeeded,
        Self::Failed,
        Self::Denied,
        Self::Skipped,
        Self::Cancelled,
    ];

    /// The word that messages and `--json` use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Intended => "intended",
            Self::InDoubt => "in_doubt",
            Self::Retrying => "retrying",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it never changes again (I9).
    #[must_use]
    pub const fn is_settled(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Denied | Self::Skipped | Self::Cancelled => true,
            Self::Planned | Self::AwaitingApproval | Self::Intended | Self::InDoubt | Self::Retrying => false,
        }
    }

    /// Whether an attempt may have landed that nobody has accounted for.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Intended | Self::InDoubt)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What an entry means to one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A new attempt is intended, nothing of the earlier ones being open.
    Intend,
    /// A new attempt is intended over an open one, because the remote drops duplicates of the key.
    Repeat,
    /// It landed.
    Land,
    /// The open attempt surely did not land, nor did any before it.
    NotLanded,
    /// As [`Event::NotLanded`], and there will be no other attempt.
    NotLandedForGood,
    /// The open attempt surely did not land, but an earlier one may have.
    StillInDoubt,
    /// Nobody knows about the open attempt.
    Doubt,
    /// The epoch of its owner is over.
    OwnerOver,
    /// No attempt landed, and a person has not said yes to one yet.
    AskFirst,
    /// A person said yes.
    Approve,
    /// A person said no.
    Deny,
    /// A person leaves it as it is.
    Skip,
    /// The turn was cancelled.
    Cancel,
    /// The store was put back to an older copy.
    Restore,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 14] = [
        Self::Intend,
        Self::Repeat,
        Self::Land,
        Self::NotLanded,
        Self::NotLandedForGood,
        Self::StillInDoubt,
        Self::Doubt,
        Self::OwnerOver,
        Self::AskFirst,
        Self::Approve,
        Self::Deny,
        Self::Skip,
        Self::Cancel,
        Self::Restore,
    ];
}

/// An event that an operation's state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} is not possible for an operation that is {state}")]
pub struct Illegal {
    /// Where the operation stands.
    pub state: State,
    /// What was to happen to it.
    pub event: Event,
}

/// Moves an operation: the whole legality table.
///
/// # Errors
/// [`Illegal`] when the state does not allow the event; nothing changes then.
pub const fn step(state: State, event: Event) -> Result<State, Illegal> {
    use Event as E;
    use State as S;
    let next = match (state, event) {
        // Nothing is open: an attempt may begin, a person may decide.
        (S::Planned | S::Retrying, E::Intend) => S::Intended,
        (S::Planned | S::AwaitingApproval | S::Retrying, E::Skip) => S::Skipped,
        (S::Planned | S::AwaitingApproval | S::Retrying, E::Cancel) => S::Cancelled,
        (S::Planned | S::AwaitingApproval | S::Retrying | S::InDoubt | S::Intended, E::Restore) => S::InDoubt,
        (S::AwaitingApproval, E::Approve) => S::Planned,
        (S::AwaitingApproval, E::Deny) => S::Denied,

        // An attempt is open: it is accounted for, or it is in doubt.
        // Where nothing is open: a receipt that came after somebody had said that it did not land.
        (S::Planned | S::AwaitingApproval | S::Retrying | S::Intended | S::InDoubt, E::Land) => S::Succeeded,
        // Doubt about a lost attempt is over, but nobody has said yes to another one.
        (S::Retrying, E::AskFirst) => S::AwaitingApproval,
        (S::Intended | S::InDoubt, E::NotLanded) => S::Retrying,
        (S::Intended | S::InDoubt, E::NotLandedForGood) => S::Failed,
        (S::Intended | S::InDoubt, E::StillInDoubt | E::Doubt | E::OwnerOver) => S::InDoubt,
        (S::InDoubt, E::Repeat) => S::Intended,
        (S::InDoubt, E::Skip) => S::Skipped,
        // A cancelled turn settles what is open first.
        (S::Intended, E::Cancel) => S::Intended,
        (S::InDoubt, E::Cancel) => S::InDoubt,

        // A change of owner, a cancel or a restore says nothing about what is settled or was never begun.
        (S::Planned, E::OwnerOver) => S::Planned,
        (S::AwaitingApproval, E::OwnerOver) => S::AwaitingApproval,
        (S::Retrying, E::OwnerOver) => S::Retrying,
        (S::Succeeded, E::OwnerOver | E::Cancel | E::Restore) => S::Succeeded,
        (S::Failed, E::OwnerOver | E::Cancel | E::Restore) => S::Failed,
        (S::Denied, E::OwnerOver | E::Cancel | E::Restore) => S::Denied,
        (S::Skipped, E::OwnerOver | E::Cancel | E::Restore) => S::Skipped,
        (S::Cancelled, E::OwnerOver | E::Cancel | E::Restore) => S::Cancelled,

        (
            S::Planned | S::AwaitingApproval | S::Retrying,
            E::Repeat | E::NotLanded | E::NotLandedForGood | E::StillInDoubt | E::Doubt,
        )
        | (S::Planned | S::AwaitingApproval | S::Intended | S::InDoubt, E::AskFirst)
        | (S::AwaitingApproval | S::Intended | S::InDoubt, E::Intend)
        | (S::Planned | S::Retrying | S::Intended | S::InDoubt, E::Approve | E::Deny)
        | (S::Intended, E::Repeat | E::Skip)
        | (
            S::Succeeded | S::Failed | S::Denied | S::Skipped | S::Cancelled,
            E::Intend
            | E::Repeat
            | E::Land
            | E::NotLanded
            | E::NotLandedForGood
            | E::StillInDoubt
            | E::Doubt
            | E::AskFirst
            | E::Approve
            | E::Deny
            | E::Skip,
        ) => return Err(Illegal { state, event }),
    };
    Ok(next)
}
