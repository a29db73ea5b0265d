//! What a hold gives to the processes that an effect starts.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use surestep_core::{Attempt, OpNumber};

/// What a child process must hold on to, and where its guard keeps its record. Effects get it with each attempt.
#[derive(Debug, Clone, Default)]
pub struct Tether(Option<Arc<TetherParts>>);

#[derive(Debug)]
struct TetherParts {
    lock: File,
    folder: PathBuf,
}

impl Tether {
    /// For stores whose hold proves nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// A lock that children keep open, and the folder for the guards' records.
    #[must_use]
    pub fn new(lock: File, folder: PathBuf) -> Self {
        Self(Some(Arc::new(TetherParts { lock, folder })))
    }

    /// The lock that children keep open.
    #[must_use]
    pub fn lock(&self) -> Option<&File> {
        self.0.as_deref().map(|parts| &parts.lock)
    }

    /// The file for the guard's record of one attempt: `<operation>-<attempt>.json` in the guards' folder.
    #[must_use]
    pub fn record(&self, op: OpNumber, attempt: Attempt) -> Option<PathBuf> {
        self.0.as_deref().map(|parts| parts.folder.join(record_name(op, attempt)))
    }

    /// The folder of the guards' records.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.0.as_deref().map(|parts| parts.folder.as_path())
    }
}

/// The name of a guard's record.
#[must_use]
pub fn record_name(op: OpNumber, attempt: Attempt) -> String {
    format!("{op:04}-{attempt}.json")
}
