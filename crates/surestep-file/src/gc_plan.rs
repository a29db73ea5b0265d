//! What a collection would take away, and what it did.

use std::path::PathBuf;
use std::time::Duration;

use surestep::core::json;
use surestep::{Digest, Revision, SessionId, StoreError, Wall};

/// What would be taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcPlan {
    /// The moment as of which it was made: what happened later is no part of it.
    pub as_of: Wall,
    /// How long a sealed session stays after its last commit.
    pub retention: Duration,
    /// Finished sessions whose commits become one envelope.
    pub seal: Vec<GcSession>,
    /// Sealed sessions of which only a tombstone stays.
    pub prune: Vec<GcSession>,
    /// Content that no session that stays names in its journal, with its length in bytes.
    pub content: Vec<(Digest, u64)>,
    /// What dead processes left, with its length in bytes.
    pub dead: Vec<(PathBuf, u64)>,
    /// Sessions that cannot be read, and why: they stay, and so does all content.
    pub unreadable: Vec<(SessionId, String)>,
}

/// A session in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcSession {
    /// The session.
    pub session: SessionId,
    /// Its last revision.
    pub revision: Revision,
    /// The sum of its last commit.
    pub head: Digest,
    /// When that was made.
    pub at: Wall,
    /// The length of its files, in bytes.
    pub bytes: u64,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcDone {
    /// Sessions that were sealed.
    pub sealed: usize,
    /// Sessions that were pruned.
    pub pruned: usize,
    /// Pieces of content that were removed.
    pub content: usize,
    /// Sessions of the plan that were left as they are, and why: held by somebody, or changed since.
    pub left: Vec<(SessionId, String)>,
}

/// Why a plan was not carried out. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// The store is not as it was when the plan was made.
    #[error("the plan {asked} is not what would be done now")]
    Changed {
        /// The plan that was asked for.
        asked: String,
    },
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl GcPlan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seal.is_empty() && self.prune.is_empty() && self.content.is_empty() && self.dead.is_empty()
    }

    /// The length of what would go away, in bytes. What sealing saves is not known before.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let content = self.content.iter().map(|(_, bytes)| bytes);
        let dead = self.dead.iter().map(|(_, bytes)| bytes);
        self.prune.iter().map(|session| &session.bytes).chain(content).chain(dead).sum()
    }

    /// What names it: the moment as of which it was made, and a digest of each session's id and head and what becomes
    /// of it. Sessions that finish later do not change it, so that a busy store can be collected. Content is no part of
    /// it: what is removed is what nobody needs then.
    #[must_use]
    pub fn name(&self) -> String {
        let mut text = format!("surestep.gc/1 {} {}\n", self.as_of.unix_ms(), self.retention.as_millis());
        for (what, sessions) in [("seal", &self.seal), ("prune", &self.prune)] {
            for one in sessions {
                text.extend([
                    what,
                    " ",
                    &one.head.to_string(),
                    " ",
                    &json::quote(one.session.as_str()),
                    "\n",
                ]);
            }
        }
        let digest: String = Digest::of(text.as_bytes()).hex().chars().take(32).collect();
        format!("{}-{digest}", self.as_of.unix_ms())
    }
}

/// The moment as of which a plan of this name was made.
pub(crate) fn as_of(name: &str) -> Option<Wall> {
    name.split_once('-').and_then(|(ms, _)| ms.parse().ok()).map(Wall::from_unix_ms)
}
