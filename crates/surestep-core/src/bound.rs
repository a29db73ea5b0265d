//! An operation as it is bound: what will run, byte for byte, and the terms under which it runs.

use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::ids::{Digest, Kind};
use crate::json::{self, DEPTH_FILE_MAX};
use crate::key::Key;
use crate::record::record;

/// How doubt about an operation ends: fixed when its kind is registered, stored when it is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RecoveryClass {
    /// A reconciler asks the remote.
    Ask,
    /// The remote drops duplicates of our key for a while: inside that time execute again.
    Repeat,
    /// Nothing can be asked: a person answers.
    Halt,
}

/// Whether a person must say yes before an operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// One yes, bound to exactly what will run.
    Required,
}

record! {
    /// One operation as it was bound, with the terms under which it runs, whoever runs it.
    pub struct BoundOperation {
        /// The kind of effect.
        kind: Kind,
        /// Where: a repository, an account, a host.
        repo: String,
        /// On what: a branch, a number, a path.
        target: String,
        /// The body's canonical text: what is executed, byte for byte.
        body: Body,
        /// The idempotency key.
        key: Key,
        /// Which of the session's equal operations this is, from 1.
        occurrence: u64,
        /// How doubt ends.
        recovery: RecoveryClass,
        /// Time for one attempt, in milliseconds.
        deadline_ms: u64,
        /// How long a landing may stay invisible, in milliseconds.
        lag_ms: u64,
        /// Whether all that works on it runs on this machine, below our guard.
        local: bool,
        /// Whether a look-up can tell this operation from an equal one.
        distinguishes: bool,
        /// Refusals before it fails.
        attempts_max: u32,
        /// First wait after a refusal, in milliseconds.
        backoff_ms: u64,
        ;
        /// For `repeat`: how long the remote remembers our key, in milliseconds.
        within_ms: u64,
        /// The model's id of the call, for tracing only.
        call_id: String,
        /// Whether a person must say yes first.
        approval: Approval,
        /// The body's fields that make the key, where the kind names some.
        identity: Vec<String>,
        /// `repo` and `target` in the form that makes the key, where that differs.
        place: Vec<String>,
        /// For `repeat`: whether a reconciler can be asked once the remote has forgotten the key.
        then_ask: bool,
    }
}

impl BoundOperation {
    /// Whether a reconciler can ever be asked about it.
    #[must_use]
    pub fn can_ask(&self) -> bool {
        match self.recovery {
            RecoveryClass::Ask => true,
            RecoveryClass::Repeat => self.then_ask == Some(true),
            RecoveryClass::Halt => false,
        }
    }

    /// The digest of exactly what will run, which is what a person's yes is for: the whole operation with its terms, and
    /// the folder against which its relative paths are read.
    /// `None` when its body is no JSON, which binding excluded.
    #[must_use]
    pub fn approval_digest(&self, dir: Option<&str>) -> Option<Digest> {
        let text = serde_json::to_string(self).ok()?;
        let text = json::canonical(&text, DEPTH_FILE_MAX).ok()?;
        Some(Digest::of(format!("{text}\n{}", dir.unwrap_or_default()).as_bytes()))
    }

    /// Whether a person must say yes before it runs.
    #[must_use]
    pub const fn needs_approval(&self) -> bool {
        matches!(self.approval, Some(Approval::Required))
    }
}
