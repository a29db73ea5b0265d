//! Why an entry or a commit does not fit the session before it: the refusals of the [`fold`](crate::fold).

use crate::ids::{Attempt, OpNumber};
use crate::key::Key;
use crate::operation::Illegal;

/// Why an entry or a commit does not fit its session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    /// The operation's state does not allow it.
    #[error("operation {op}: {illegal}")]
    Illegal {
        /// The operation.
        op: OpNumber,
        /// What the table says.
        #[source]
        illegal: Illegal,
    },
    /// It names an operation that the session does not have.
    #[error("there is no operation {op} with key {key}")]
    NoSuchOperation {
        /// The number.
        op: OpNumber,
        /// The key.
        key: Key,
    },
    /// It names another attempt than the open one.
    #[error("operation {op} is at attempt {current}, not {named}")]
    WrongAttempt {
        /// The operation.
        op: OpNumber,
        /// The attempt that is open.
        current: Attempt,
        /// The attempt that it names.
        named: Attempt,
    },
    /// The commit does not follow the one before it.
    #[error("the chain is broken: {why}")]
    Chain {
        /// How.
        why: String,
    },
    /// The order of entries is not one that the protocol writes.
    #[error("{entry}: {why}")]
    Order {
        /// The entry.
        entry: &'static str,
        /// What is wrong.
        why: String,
    },
}
