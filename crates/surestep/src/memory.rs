//! A store in memory, with leases: the store port's specification in code, and what fencing is tested on.
//!
//! A hold proves nothing about its predecessor here: a lease that ran out says only that a successor may fence.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use surestep_core::{Commit, Digest, Evidence, HoldId, Request, Revision, SessionId, Stamp};

use crate::store::{
    Blob, Hold, HoldProof, Holder, Journal, Page, PublishError, SessionPage, Stamps, Store, StoreError,
};
use crate::tether::Tether;

/// The server's clock, in milliseconds.
pub type ServerClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Sessions in memory, under leases on the store's own clock.
#[derive(Clone)]
pub struct MemoryStore {
    id: String,
    lease_ms: u64,
    clock: ServerClock,
    shelves: Arc<Mutex<BTreeMap<SessionId, Shelf>>>,
}

#[derive(Default)]
struct Shelf {
    commits: Vec<Commit>,
    stamps: Vec<Stamp>,
    blobs: HashMap<Digest, Vec<u8>>,
    late: Vec<Evidence>,
    requests: Vec<Request>,
    held: Option<(HoldId, u64)>,
}

/// Frees the lease when the last clone of a hold is dropped.
struct Lease {
    store: MemoryStore,
    session: SessionId,
    hold: HoldId,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(shelf) = self.store.lock().get_mut(&self.session)
            && shelf.held.as_ref().is_some_and(|(hold, _)| *hold == self.hold)
        {
            shelf.held = None;
        }
    }
}

impl MemoryStore {
    /// A store whose leases last so many milliseconds on this clock.
    #[must_use]
    pub fn with_clock(lease_ms: u64, clock: ServerClock) -> Self {
        Self { id: crate::random_id(), lease_ms, clock, shelves: Arc::default() }
    }

    /// A store on the process's monotonic clock, with the default lease.
    #[must_use]
    pub fn new() -> Self {
        let start = std::time::Instant::now();
        let clock = move || u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Self::with_clock(surestep_core::limits::LEASE_DEFAULT_MS, Arc::new(clock))
    }

    /// The same store under another id: one that stands for a store which is known elsewhere.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Shelf>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stamp(&self) -> Stamp {
        Stamp { ms: (self.clock)(), term: 1 }
    }

    /// Forgets who holds a session, without telling the holder: what a partition does.
    pub fn expire(&self, session: &SessionId) {
        if let Some(shelf) = self.lock().get_mut(session) {
            shelf.held = None;
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Shelf {
    fn check(&self, hold: &Hold, now: u64) -> Result<(), StoreError> {
        match &self.held {
            Some((held, until)) if *held == hold.id && *until > now => Ok(()),
            Some((held, _)) if *held == hold.id => {
                Err(StoreError::HoldLost { why: "its lease is over".into() })
            }
            Some(_) => Err(StoreError::HoldLost { why: "somebody else holds the session".into() }),
            None => Err(StoreError::HoldLost { why: "nobody holds the session any more".into() }),
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn id(&self) -> &str {
        &self.id
    }

    async fn hold(&self, session: &SessionId) -> Result<Hold, StoreError> {
        let now = (self.clock)();
        let mut shelves = self.lock();
        let shelf = shelves.entry(session.clone()).or_default();
        if let Some((hold, until)) = shelf.held.as_ref().filter(|(_, until)| *until > now) {
            let what = format!("hold {hold}, whose lease has {} ms left", until - now);
            return Err(StoreError::Busy { holder: Holder { what } });
        }
        let id = HoldId::new(crate::random_id()).map_err(|e| StoreError::Other(e.to_string()))?;
        shelf.held = Some((id.clone(), now + self.lease_ms));
        let lease = Lease { store: self.clone(), session: session.clone(), hold: id.clone() };
        Ok(Hold {
            id,
            session: session.clone(),
            proof: HoldProof::default(),
            tether: Tether::none(),
            lease_ms: Some(self.lease_ms),
            inner: Arc::new(lease),
        })
    }

    async fn read(&self, session: &SessionId, from: Revision) -> Result<Journal, StoreError> {
        let shelves = self.lock();
        let shelf = shelves.get(session).filter(|s| !s.commits.is_empty() || !s.late.is_empty());
        let shelf = shelf.ok_or_else(|| StoreError::Absent { what: format!("session `{session}`") })?;
        let skip = usize::try_from(from.value().saturating_sub(1)).unwrap_or(usize::MAX);
        Ok(Journal {
            commits: shelf.commits.iter().skip(skip).cloned().collect(),
            late: shelf.late.clone(),
            requests: shelf.requests.clone(),
            stamps: Some(Stamps {
                publishes: shelf.stamps.iter().skip(skip).copied().collect(),
                read: self.stamp(),
            }),
        })
    }

    async fn publish(&self, hold: &Hold, commit: &Commit, blobs: &[Blob]) -> Result<(), PublishError> {
        let stamp = self.stamp();
        let mut shelves = self.lock();
        let shelf = shelves.entry(hold.session.clone()).or_default();
        if commit.revision().value() != shelf.commits.len() as u64 + 1 {
            return Err(PublishError::Taken { revision: commit.revision() });
        }
        shelf.check(hold, stamp.ms).map_err(PublishError::NotCommitted)?;
        for blob in blobs {
            shelf.blobs.insert(blob.digest, blob.bytes.clone());
        }
        shelf.commits.push(commit.clone());
        shelf.stamps.push(stamp);
        Ok(())
    }

    async fn blob(&self, session: &SessionId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let found = self.lock().get(session).and_then(|s| s.blobs.get(digest).cloned());
        found.ok_or_else(|| StoreError::Absent { what: format!("content {digest}") })
    }

    async fn renew(&self, hold: &Hold) -> Result<(), StoreError> {
        let now = (self.clock)();
        let mut shelves = self.lock();
        let shelf = shelves.entry(hold.session.clone()).or_default();
        shelf.check(hold, now)?;
        shelf.held = Some((hold.id.clone(), now + self.lease_ms));
        Ok(())
    }

    async fn keep_late(&self, session: &SessionId, evidence: &Evidence) -> Result<(), StoreError> {
        self.lock().entry(session.clone()).or_default().late.push(evidence.clone());
        Ok(())
    }

    async fn request(&self, session: &SessionId, request: &Request) -> Result<(), StoreError> {
        self.lock().entry(session.clone()).or_default().requests.push(request.clone());
        Ok(())
    }

    async fn sessions(&self, page: Page) -> Result<SessionPage, StoreError> {
        let shelves = self.lock();
        let mut sessions: Vec<SessionId> = shelves
            .iter()
            .filter(|(id, shelf)| {
                !shelf.commits.is_empty() && page.after.as_ref().is_none_or(|after| *id > after)
            })
            .map(|(id, _)| id.clone())
            .take(page.limit.saturating_add(1))
            .collect();
        let more = sessions.len() > page.limit;
        sessions.truncate(page.limit);
        Ok(SessionPage { sessions, more, nameless: Vec::new() })
    }
}
