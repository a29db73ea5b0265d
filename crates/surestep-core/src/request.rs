//! A person's word for a session: what `resolve`, `approve`, `deny` and `cancel` put to it.

use serde::{Deserialize, Serialize};

use crate::ids::{Attempt, OpNumber, RequestId, TurnNumber};
use crate::key::Key;
use crate::outcome::Receipt;
use crate::record::record;

/// What the person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The doubted attempt landed.
    Landed,
    /// None of the operation's attempts landed: it may run again, once that could be true.
    NotLanded,
    /// None of the operation's attempts landed: run again now, on the person's own responsibility.
    NotLandedNow,
    /// Leave the operation as it is and go on with the next one.
    Skip,
    /// Yes, run exactly this.
    Approve,
    /// No, never run this.
    Deny,
    /// Start nothing more.
    Cancel,
}

impl Word {
    /// Whether it can wait in a mailbox. *Not landed* cannot: it is true of the moment at which it was said, and an attempt
    /// that was still at work then may have landed since.
    #[must_use]
    pub const fn keeps(self) -> bool {
        !matches!(self, Self::NotLanded | Self::NotLandedNow)
    }

    /// How people write it.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Landed => "landed",
            Self::NotLanded => "not landed",
            Self::NotLandedNow => "not landed, now",
            Self::Skip => "skip",
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Cancel => "cancel",
        }
    }
}

record! {
    /// One word of one person.
    pub struct Request {
        /// A random id: folding the same request twice does nothing.
        id: RequestId,
        /// What is said.
        word: Word,
        /// Who says it.
        by: String,
        /// Why.
        because: String,
        ;
        /// The operation that it is about; all words but `cancel` name one.
        op: OpNumber,
        /// That operation's key.
        key: Key,
        /// The attempt that the person spoke of: refused once that has moved on.
        attempt: Attempt,
        /// With `cancel`: the turn that the person spoke of; refused once another one is open.
        turn: TurnNumber,
        /// With `landed`: what it left behind.
        receipt: Receipt,
    }
}
