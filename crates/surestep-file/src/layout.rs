//! Where things are below the root. No path of ours is made anywhere else.

use std::path::PathBuf;

use surestep::{Digest, Revision, SessionId};

use crate::names;

/// The paths of a store.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The root, absolute and without links.
    pub(crate) root: PathBuf,
}

impl Layout {
    /// The file that says that this is a store, and which.
    pub(crate) fn store(&self) -> PathBuf {
        self.root.join("surestep.json")
    }

    /// The folder of the sessions.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// The folder of the blobs.
    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// Where repairs move what is damaged.
    pub(crate) fn aside(&self) -> PathBuf {
        self.root.join("aside")
    }

    /// The folder of the tombstones.
    pub(crate) fn pruned(&self) -> PathBuf {
        self.root.join("pruned")
    }

    /// The lock that keeps who writes content, or prunes, and who removes content apart.
    pub(crate) fn gc_lock(&self) -> PathBuf {
        self.root.join("gc.lock")
    }

    /// A blob's folder and file.
    pub(crate) fn blob(&self, digest: &Digest) -> (PathBuf, PathBuf) {
        let hex = digest.hex();
        let folder = self.blobs().join(hex.get(..2).unwrap_or_default());
        let file = folder.join(&hex);
        (folder, file)
    }

    /// A session's paths.
    pub(crate) fn session(&self, session: &SessionId) -> Place {
        self.named(&names::of_id(session.as_str()))
    }

    /// The paths of the session with this folder name.
    pub(crate) fn named(&self, name: &str) -> Place {
        Place { dir: self.sessions().join(name) }
    }
}

/// The paths of one session.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Its folder.
    pub(crate) dir: PathBuf,
}

impl Place {
    /// The lock, which also is the birth mark.
    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Who holds the lock, for people.
    pub(crate) fn holder(&self) -> PathBuf {
        self.dir.join("holder.json")
    }

    /// The commits that are sealed, as an envelope.
    pub(crate) fn envelope(&self) -> PathBuf {
        self.dir.join("envelope.json")
    }

    /// The commits.
    pub(crate) fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    /// One commit; for a revision that has no name, a name that no commit has.
    pub(crate) fn commit(&self, revision: Revision) -> PathBuf {
        let name = names::of_commit(revision).unwrap_or_else(|| format!("{revision}.json"));
        self.journal().join(name)
    }

    /// Late results.
    pub(crate) fn late(&self) -> PathBuf {
        self.dir.join("late")
    }

    /// What people put into the mailbox.
    pub(crate) fn requests(&self) -> PathBuf {
        self.dir.join("requests")
    }

    /// The guards' records.
    pub(crate) fn guards(&self) -> PathBuf {
        self.dir.join("guards")
    }

    /// The folders that `hold` makes.
    pub(crate) fn folders(&self) -> [PathBuf; 4] {
        [self.journal(), self.late(), self.requests(), self.guards()]
    }
}
