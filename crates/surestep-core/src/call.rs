//! What an effect or a reconciler is handed: one operation as bound, and one attempt at it.

use std::sync::Arc;

use crate::bound::BoundOperation;
use crate::ids::{Attempt, Epoch, OpNumber, SessionId};
use crate::outcome::Receipt;
use crate::time::{Mark, Wall};

/// One attempt at one bound operation. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Call {
    /// The session.
    pub session: SessionId,
    /// The operation's number in it.
    pub op: OpNumber,
    /// The operation as it was bound: key, kind, repo, target, body, terms.
    pub operation: Arc<BoundOperation>,
    /// The folder against which relative paths in the body are read; `None`: the process's own.
    pub dir: Option<Arc<str>>,
    /// The owner's epoch, for receivers that compare it.
    pub epoch: Epoch,
    /// The attempt, for receivers that compare it.
    pub attempt: Attempt,
    /// When it must be over, for people.
    pub deadline: Wall,
    /// When it must be over, on this boot's clock.
    pub deadline_mark: Mark,
    /// When the operation's first attempt was intended, for telling an older stranger from our own landing.
    pub first_intended: Option<Wall>,
    /// What a late result claims was left behind: look for this first.
    pub hint: Option<Receipt>,
    /// W3C trace context of the caller.
    pub traceparent: Option<String>,
}
