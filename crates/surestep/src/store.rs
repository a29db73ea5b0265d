//! The store port: where commits live, who may publish them, and how it says no.
//!
//! A store owns durability, mutual exclusion and the proof of a predecessor's death; it owns no protocol. What it
//! cannot know it says: [`PublishError::Indeterminate`] is an answer.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use surestep_core::{
    Attempt, Commit, Digest, Evidence, HoldId, Key, Request, Revision, SessionId, Stamp, Wall,
};

use crate::tether::Tether;

/// Keeps sessions. Small enough to write one in a day; prove it with the conformance suite.
///
/// Every method may be called from many threads. Blocking work belongs on the runtime's blocking pool, and owns a
/// clone of the [`Hold`], so that a dropped future cannot free it under a write.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The store's own random id: it names the store in hand-offs and in [`HoldProof::machine`].
    fn id(&self) -> &str;

    /// Takes the exclusive right to publish to a session, which need not exist yet.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when somebody holds it; [`StoreError::Corrupt`] when the session once existed and is gone.
    async fn hold(&self, session: &SessionId) -> Result<Hold, StoreError>;

    /// Says what [`Store::hold`] would prove now, without holding and without writing anything: for dry runs.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when somebody holds the session; [`StoreError::Unsupported`], the default, where only a
    /// hold can tell.
    async fn probe(&self, session: &SessionId) -> Result<HoldProof, StoreError> {
        let _ = session;
        Err(StoreError::Unsupported { what: "a look at the hold" })
    }

    /// Reads the commits from a revision on (1 or 0: all), late evidence and requests. Needs no hold.
    ///
    /// # Errors
    /// [`StoreError::Absent`] when there is no such session; it is never said of one that cannot be read.
    async fn read(&self, session: &SessionId, from: Revision) -> Result<Journal, StoreError>;

    /// Publishes a commit under its revision, only if that revision is free: blobs first, `Ok` means durable.
    ///
    /// # Errors
    /// See [`PublishError`]: what is *not* known to be refused is indeterminate.
    async fn publish(&self, hold: &Hold, commit: &Commit, blobs: &[Blob]) -> Result<(), PublishError>;

    /// Reads content that a commit names by digest, verified.
    ///
    /// # Errors
    /// [`StoreError::Absent`] or [`StoreError::Corrupt`].
    async fn blob(&self, session: &SessionId, digest: &Digest) -> Result<Vec<u8>, StoreError>;

    /// Makes room for the next commit and for the settle after it, so that a full disk stops an operation before
    /// its effect. `bytes` is the room for each.
    ///
    /// # Errors
    /// [`StoreError::Full`] and its like; nothing was published.
    async fn reserve(&self, hold: &Hold, bytes: u64) -> Result<(), StoreError> {
        let _ = (hold, bytes);
        Ok(())
    }

    /// Extends the hold's lease, on stores that have one.
    ///
    /// # Errors
    /// [`StoreError::HoldLost`] when the lease is over or somebody else has taken over.
    async fn renew(&self, hold: &Hold) -> Result<(), StoreError> {
        let _ = hold;
        Ok(())
    }

    /// Keeps a result that came too late for its owner: beside the chain, never state. Needs no hold.
    ///
    /// # Errors
    /// When it could not be kept.
    async fn keep_late(&self, session: &SessionId, evidence: &Evidence) -> Result<(), StoreError>;

    /// Puts a person's word into the mailbox of a session that somebody holds.
    ///
    /// # Errors
    /// When it could not be kept, or [`StoreError::Unsupported`].
    async fn request(&self, session: &SessionId, request: &Request) -> Result<(), StoreError> {
        let _ = (session, request);
        Err(StoreError::Unsupported { what: "a mailbox" })
    }

    /// Reads the mailbox alone: asked between operations, so it must be cheap. Needs no hold.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn requests(&self, session: &SessionId) -> Result<Vec<Request>, StoreError> {
        Ok(self.read(session, Revision::new(u64::MAX)).await?.requests)
    }

    /// Lists the sessions, page by page, in the order of their ids.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn sessions(&self, page: Page) -> Result<SessionPage, StoreError>;
}

/// The exclusive right to publish to one session, until the last clone is dropped.
#[derive(Clone)]
pub struct Hold {
    /// Its random id.
    pub id: HoldId,
    /// The session that it holds.
    pub session: SessionId,
    /// What holding it proves.
    pub proof: HoldProof,
    /// What child processes must hold on to.
    pub tether: Tether,
    /// The lease in milliseconds, on stores that have one: renew at a third of it.
    pub lease_ms: Option<u64>,
    /// The store's own part.
    pub inner: Arc<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("id", &self.id).field("session", &self.session).finish_non_exhaustive()
    }
}

/// What a hold proves about its predecessors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HoldProof {
    /// The predecessor, and everything below its guards, is gone.
    pub predecessor_dead: bool,
    /// A hash of this machine's id and the store's id; empty where the machine is not known.
    pub machine: String,
    /// Attempts whose guard is on record as begun on this boot and not as ended: for these, death is not proved.
    pub unfinished: Vec<(Key, Attempt)>,
}

/// What a session's journal holds.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// The commits, in order, each verified on its own; the chain is the caller's to verify.
    pub commits: Vec<Commit>,
    /// Late results.
    pub late: Vec<Evidence>,
    /// What people put into the mailbox.
    pub requests: Vec<Request>,
    /// The server's stamps, on stores with a server.
    pub stamps: Option<Stamps>,
}

/// A store server's times.
#[derive(Debug, Clone)]
pub struct Stamps {
    /// One for each of the journal's commits.
    pub publishes: Vec<Stamp>,
    /// One for this read.
    pub read: Stamp,
}

/// Content that is kept by digest.
#[derive(Debug, Clone)]
pub struct Blob {
    /// Its digest.
    pub digest: Digest,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Which page of the sessions.
#[derive(Debug, Clone)]
pub struct Page {
    /// The last id of the page before.
    pub after: Option<SessionId>,
    /// How many.
    pub limit: usize,
}

/// One page of sessions.
#[derive(Debug, Clone)]
pub struct SessionPage {
    /// Their ids, in order.
    pub sessions: Vec<SessionId>,
    /// Whether there are more.
    pub more: bool,
    /// Sessions that are there and whose id nobody can tell; with the first page.
    pub nameless: Vec<Nameless>,
}

/// A session whose id nobody can tell, because every commit of it is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nameless {
    /// What the store calls it.
    pub name: String,
    /// The damaged file.
    pub file: PathBuf,
    /// What is wrong.
    pub why: String,
}

/// Who holds a session, for people: it never decides anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// What is known, in one line: processes, their commands, since when.
    pub what: String,
}

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such session (or blob).
    #[error("{what} does not exist")]
    Absent {
        /// What was looked for.
        what: String,
    },
    /// Somebody else holds the session.
    #[error("the session is held by {}", holder.what)]
    Busy {
        /// Who, for people.
        holder: Holder,
    },
    /// The hold is no longer valid: its lease is over, its lock file was replaced, or somebody took over.
    #[error("the hold on the session is lost: {why}")]
    HoldLost {
        /// What ended it.
        why: String,
    },
    /// A file is damaged.
    #[error("{} is damaged at byte {offset}: {why}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: usize,
        /// What is wrong.
        why: String,
    },
    /// The session is behind what was once acknowledged: an older copy of the store was put back, or a part of it
    /// was removed. What is missing may have run.
    #[error("session `{session}` was once at revision {mark}, and {} now", at(*found, *mark))]
    RolledBack {
        /// The session.
        session: SessionId,
        /// Where it stands.
        found: Revision,
        /// Where it once stood.
        mark: Revision,
    },
    /// The session was pruned: it is over, and its content is gone. What it did is never done again.
    #[error("session `{session}` was pruned on {at}, at revision {revision}")]
    Pruned {
        /// The session.
        session: SessionId,
        /// Its last revision.
        revision: Revision,
        /// When it was pruned.
        at: Wall,
    },
    /// A store with sessions was here, and is gone. What they did is not undone by that.
    #[error("the store at {} is gone, and {sessions} of its sessions are remembered", root.display())]
    Gone {
        /// Where it was.
        root: PathBuf,
        /// Its id.
        store: String,
        /// How many of its sessions are remembered.
        sessions: usize,
    },
    /// A file was written by a newer version.
    #[error("{} was written by a newer version: {what}", file.display())]
    TooNew {
        /// The file.
        file: PathBuf,
        /// What is unknown here.
        what: String,
    },
    /// No room: the disk, a quota, or the process's open files.
    #[error("no room in {}", path.display())]
    Full {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Any other refusal of the system.
    #[error("{did} {}", path.display())]
    Io {
        /// What was tried, as in `cannot open`.
        did: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file system does not keep its word, and was not named.
    #[error("{} is on {kind}, which does not keep what it acknowledges", path.display())]
    Volatile {
        /// Where.
        path: PathBuf,
        /// The kind of file system.
        kind: String,
    },
    /// The store handle saw a failure after which it cannot know what is durable; open it anew.
    #[error("the store was closed by an earlier failure: {why}")]
    Poisoned {
        /// The earlier failure.
        why: String,
    },
    /// This store has no such thing.
    #[error("this store does not offer {what}")]
    Unsupported {
        /// What.
        what: &'static str,
    },
    /// A failure of a store of another make.
    #[error("{0}")]
    Other(String),
}

/// Why a commit was not acknowledged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// Certainly not published: it failed before the one act that publishes.
    #[error("not committed")]
    NotCommitted(#[source] StoreError),
    /// Somebody else published that revision.
    #[error("revision {revision} was published by somebody else")]
    Taken {
        /// The revision.
        revision: Revision,
    },
    /// Nobody knows: drop the turn and reload.
    #[error("nobody knows whether the commit was published")]
    Indeterminate(#[source] StoreError),
}

fn at(found: Revision, mark: Revision) -> String {
    match found {
        Revision::NONE => "is gone".into(),
        found if found < mark => format!("is at revision {found}"),
        found => format!("has another commit there (it is at revision {found})"),
    }
}

impl Blob {
    /// Content under its digest.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        Self { digest: Digest::of(&bytes), bytes }
    }
}
