//! The store port on files: each call goes to the blocking pool, with its own clone of the hold.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use surestep::{
    Blob, Commit, Digest, Evidence, Hold, HoldProof, Journal, Page, PublishError, Request, Revision,
    SessionId, SessionPage, Store, StoreError, Wall,
};

use crate::atomic;
use crate::disk::Disk;
use crate::envelope::Cached;
use crate::fault::{corrupt, found, io};
use crate::gc_plan::{GcDone, GcError, GcPlan};
use crate::held::Held;
use crate::journal::{self, Birth};
use crate::layout::Layout;
use crate::marks::{Marks, MarksState};
use crate::open::Options;
use crate::pruned::{self, Tombstone};
use crate::real::RealDisk;
use crate::rolled::RolledBack;
use crate::{guards, hold, listing, mailbox};

/// A store in a folder. Cheap to clone; all clones are one store.
pub struct FileStore<D: Disk = RealDisk> {
    shared: Arc<Shared<D>>,
}

impl<D: Disk> Clone for FileStore<D> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<D: Disk> std::fmt::Debug for FileStore<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStore").field("root", &self.shared.layout.root).finish_non_exhaustive()
    }
}

/// What all clones of a store share.
pub(crate) struct Shared<D: Disk> {
    pub(crate) disk: D,
    pub(crate) layout: Layout,
    pub(crate) id: String,
    pub(crate) marks: Marks,
    /// What is behind its mark is read and held all the same.
    pub(crate) even_rolled_back: bool,
    /// Folders of blobs whose names this process has made durable.
    blob_folders: Mutex<HashSet<PathBuf>>,
    /// The holds of this process, by the session's folder: a read settles what one of them does not know.
    holds: Mutex<HashMap<PathBuf, Weak<Held<D>>>>,
    /// The sealed envelope that was read last.
    cache: Mutex<Option<Cached>>,
}

impl FileStore {
    /// Opens the store in a folder, and makes it if it is not there. A relative path is made absolute here; a root
    /// that is a symbolic link is followed here, once.
    ///
    /// # Errors
    /// [`StoreError::Volatile`] on a file system that does not keep what it acknowledges;
    /// [`StoreError::TooNew`] and [`StoreError::Corrupt`] when the folder is another store's; else what the system
    /// says.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, StoreError> {
        Options::default().open(root)
    }

    /// How else a store can be opened.
    #[must_use]
    pub fn options() -> Options {
        Options::default()
    }
}

impl<D: Disk> FileStore<D> {
    pub(crate) fn new(disk: D, layout: Layout, id: String, marks: Marks, even_rolled_back: bool) -> Self {
        let (blob_folders, holds, cache) = (Mutex::default(), Mutex::default(), Mutex::default());
        let shared = Shared { disk, layout, id, marks, even_rolled_back, blob_folders, holds, cache };
        Self { shared: Arc::new(shared) }
    }

    /// The root: absolute, without links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.shared.layout.root
    }

    /// The folder of a session, which need not exist.
    #[must_use]
    pub fn session_dir(&self, session: &SessionId) -> PathBuf {
        self.shared.layout.session(session).dir
    }

    /// Whether a store put back to an older copy would be noticed: makes the marks' folder to find out.
    #[must_use]
    pub fn marks(&self) -> MarksState {
        self.shared.marks.state(&self.shared.disk)
    }

    /// What went wrong with the high-water marks so far, if anything did.
    #[must_use]
    pub fn marks_problem(&self) -> Option<&str> {
        self.shared.marks.problem()
    }

    /// Whether a session is behind its mark. Only for a store that was opened `even_rolled_back`.
    ///
    /// # Errors
    /// As reading it.
    pub fn rolled_back(&self, session: &SessionId) -> Result<Option<RolledBack>, StoreError> {
        let place = self.shared.layout.session(session);
        Ok(self.shared.survey(session, &place)?.2)
    }

    /// The sessions that are known to have existed, by their marks.
    #[must_use]
    pub fn marked(&self) -> Vec<SessionId> {
        let mut all: Vec<_> =
            self.shared.marks.all(&self.shared.disk).into_iter().map(|mark| mark.session).collect();
        all.sort();
        all
    }

    /// The sessions that are known to have existed, are not there, and were not pruned.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn vanished(&self) -> Result<Vec<SessionId>, StoreError> {
        self.blocking(|shared| {
            let folder = shared.layout.sessions();
            let there =
                found(shared.disk.list(&folder)).map_err(io("cannot list", &folder))?.unwrap_or_default();
            let there: HashSet<String> = there.iter().filter_map(|n| n.to_str().map(str::to_owned)).collect();
            let missing = |name: &String| {
                !there.contains(name)
                    || journal::listed(&shared.disk, &shared.layout.named(name))
                        .is_ok_and(|all| all.is_empty())
            };
            let names = shared.marks.names(&shared.disk).into_iter().filter(missing);
            let marks = names.filter_map(|name| shared.marks.named(&shared.disk, &name));
            let gone = |session: &SessionId| {
                let place = shared.layout.session(session);
                matches!(shared.survey(session, &place), Ok((survey, ..)) if survey.is_absent())
                    || matches!(shared.survey(session, &place), Err(StoreError::RolledBack { .. }))
            };
            Ok(marks.map(|mark| mark.session).filter(gone).collect())
        })
        .await
    }

    /// What a collection would take away now, with sessions pruned that were sealed and not stepped for this long.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn gc_plan(&self, now: Wall, retention: Duration) -> Result<GcPlan, StoreError> {
        self.blocking(move |shared| shared.gc_plan(now, retention)).await
    }

    /// Carries out the plan of this name ([`GcPlan::name`]), or nothing. `now` is what the tombstones say.
    ///
    /// # Errors
    /// [`GcError::Changed`] when the store's plan is another one by now; nothing was changed then.
    pub async fn gc_apply(&self, plan: String, now: Wall, retention: Duration) -> Result<GcDone, GcError> {
        self.blocking(move |shared| Ok(shared.gc_apply(&plan, now, retention))).await?
    }

    /// Runs a call on the blocking pool.
    async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Arc<Shared<D>>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        let joined = tokio::task::spawn_blocking(move || call(&shared)).await;
        joined.unwrap_or_else(|error| {
            Err(StoreError::Other(format!("a call on the disk did not end: {error}")))
        })
    }

    fn held(&self, hold: &Hold) -> Result<Arc<Held<D>>, StoreError> {
        let held = hold.inner.clone().downcast::<Held<D>>().ok();
        held.filter(|held| Arc::ptr_eq(&held.store, &self.shared) || held.store.id == self.shared.id)
            .ok_or_else(|| StoreError::HoldLost { why: "it is a hold of another store".into() })
    }
}

#[async_trait]
impl<D: Disk> Store for FileStore<D> {
    fn id(&self) -> &str {
        &self.shared.id
    }

    async fn hold(&self, session: &SessionId) -> Result<Hold, StoreError> {
        let session = session.clone();
        self.blocking(move |shared| hold::take(shared, &session)).await
    }

    async fn probe(&self, session: &SessionId) -> Result<HoldProof, StoreError> {
        let session = session.clone();
        self.blocking(move |shared| hold::probe(shared, &session)).await
    }

    async fn read(&self, session: &SessionId, from: Revision) -> Result<Journal, StoreError> {
        let session = session.clone();
        self.blocking(move |shared| shared.read(&session, from)).await
    }

    async fn publish(&self, hold: &Hold, commit: &Commit, blobs: &[Blob]) -> Result<(), PublishError> {
        let held = self.held(hold).map_err(PublishError::NotCommitted)?;
        let (hold, commit, blobs) = (hold.clone(), commit.clone(), blobs.to_vec());
        let published = tokio::task::spawn_blocking(move || {
            let published = held.publish(&commit, &blobs);
            drop(hold); // the tether's copy of the lock lives as long as the write, too
            published
        });
        published.await.unwrap_or_else(|error| {
            Err(PublishError::Indeterminate(StoreError::Other(format!(
                "the publishing call did not end: {error}"
            ))))
        })
    }

    async fn blob(&self, session: &SessionId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let (session, digest) = (session.clone(), *digest);
        self.blocking(move |shared| shared.blob(&session, &digest)).await
    }

    async fn reserve(&self, hold: &Hold, bytes: u64) -> Result<(), StoreError> {
        let held = self.held(hold)?;
        let hold = hold.clone();
        self.blocking(move |_| {
            let reserved = held.reserve(bytes);
            drop(hold);
            reserved
        })
        .await
    }

    async fn renew(&self, hold: &Hold) -> Result<(), StoreError> {
        let held = self.held(hold)?;
        self.blocking(move |_| held.still_ours()).await
    }

    async fn keep_late(&self, session: &SessionId, evidence: &Evidence) -> Result<(), StoreError> {
        let (session, evidence) = (session.clone(), evidence.clone());
        self.blocking(move |shared| {
            if let Some(gone) = pruned::find(&shared.disk, &shared.layout.pruned(), &session)? {
                let Tombstone { session, revision, at, .. } = gone;
                return Err(StoreError::Pruned { session, revision, at });
            }
            mailbox::keep_late(&shared.disk, &shared.layout.session(&session), &evidence)
        })
        .await
    }

    async fn request(&self, session: &SessionId, request: &Request) -> Result<(), StoreError> {
        let (session, request) = (session.clone(), request.clone());
        self.blocking(move |shared| {
            let place = shared.layout.session(&session);
            if shared.survey(&session, &place)?.0.birth == Birth::None {
                return Err(absent(&session));
            }
            mailbox::post(&shared.disk, &place, &request)
        })
        .await
    }

    async fn requests(&self, session: &SessionId) -> Result<Vec<Request>, StoreError> {
        let session = session.clone();
        self.blocking(move |shared| mailbox::requests(&shared.disk, &shared.layout.session(&session))).await
    }

    async fn sessions(&self, page: Page) -> Result<SessionPage, StoreError> {
        self.blocking(move |shared| listing::page(&shared.disk, &shared.layout, &page)).await
    }
}

impl<D: Disk> Shared<D> {
    pub(crate) fn read(&self, session: &SessionId, from: Revision) -> Result<Journal, StoreError> {
        let place = self.layout.session(session);
        if let Some(held) = self.holder_of(&place.dir) {
            held.settle_doubt()?;
        }
        let survey = if from <= Revision::FIRST {
            self.survey(session, &place)?.0
        } else {
            journal::survey(&self.disk, &place, self.even_rolled_back)? // under a hold, which looked at the mark
        };
        if survey.is_absent() {
            return Err(absent(session));
        }
        let commits = journal::commits(&self.disk, &place, session, from, survey)?;
        if survey.last > survey.sealed {
            atomic::sync_folder(&self.disk, &place.journal())?; // what is reported is durable
        }
        let mut late = guards::evidence(&self.disk, &place, session, survey)?;
        late.extend(mailbox::late(&self.disk, &place)?);
        let requests = mailbox::requests(&self.disk, &place)?;
        Ok(Journal { commits, late, requests, stamps: None })
    }

    pub(crate) fn blob(&self, session: &SessionId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let (_, file) = self.layout.blob(digest);
        let Some(bytes) = found(self.disk.read(&file)).map_err(io("cannot read", &file))? else {
            let sealed = self.sealed_content(session, digest)?;
            return sealed.ok_or_else(|| StoreError::Absent { what: format!("the content {digest}") });
        };
        match Digest::of(&bytes) {
            there if there == *digest => Ok(bytes),
            other => Err(corrupt(file, 0, format!("its content has digest {other}"))),
        }
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, Option<Cached>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a folder for blobs, durably.
    pub(crate) fn make_blob_folder(&self, folder: &Path) -> Result<(), StoreError> {
        let known = |all: &HashSet<PathBuf>| all.contains(folder);
        if known(&self.blob_folders.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        atomic::make_folder(&self.disk, folder)?;
        atomic::sync_folder(&self.disk, &self.layout.blobs())?;
        self.blob_folders.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned());
        Ok(())
    }

    /// Keeps in mind that this process holds a session.
    pub(crate) fn remember(&self, held: &Arc<Held<D>>) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|_, held| held.strong_count() > 0);
        holds.insert(held.place.dir.clone(), Arc::downgrade(held));
    }

    fn holder_of(&self, dir: &Path) -> Option<Arc<Held<D>>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner).get(dir).and_then(Weak::upgrade)
    }
}

fn absent(session: &SessionId) -> StoreError {
    StoreError::Absent { what: format!("session `{session}`") }
}
