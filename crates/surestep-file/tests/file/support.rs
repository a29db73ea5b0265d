//! Commits to publish, a store to publish them in, and a disk that fails where it is told to.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use surestep::core::Extra;
use surestep::core::commit::{COMMIT_FORMAT, CommitFields};
use surestep::core::entry::Opened;
use surestep::{Commit, Digest, Entry, Epoch, Revision, SessionId, Wall};
use surestep_file::disk::{Identity, Stat};
use surestep_file::{Disk, FileStore, Options, RealDisk};
use tempfile::TempDir;

/// A store in a folder of its own; the tests' folder may lie in memory.
pub(crate) fn store() -> (TempDir, FileStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    (dir, store)
}

/// As [`store`], without high-water marks.
pub(crate) fn unmarked() -> (TempDir, FileStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = options(dir.path()).marks(None).open(dir.path()).unwrap();
    (dir, store)
}

pub(crate) fn open(root: &Path) -> FileStore {
    options(root).open(root).unwrap()
}

/// How the tests open a store: its marks are kept in it, so that they go with it.
pub(crate) fn options(root: &Path) -> Options {
    FileStore::options().allow_volatile(true).marks(Some(root.join(".state")))
}

pub(crate) fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

pub(crate) fn opened(task: &str) -> Entry {
    Opened {
        agent: "tester".into(),
        task: task.into(),
        traceparent: None,
        store: None,
        extra: Extra::default(),
    }
    .into()
}

pub(crate) fn commit_of(
    session: &SessionId,
    revision: u64,
    prev: Option<Digest>,
    entries: Vec<Entry>,
) -> Commit {
    Commit::seal(CommitFields {
        format: COMMIT_FORMAT.into(),
        session: session.clone(),
        revision: Revision::new(revision),
        epoch: Epoch::FIRST,
        at: Wall::from_unix_ms(0),
        entries,
        prev,
        extra: Extra::default(),
    })
    .unwrap()
}

pub(crate) fn commit(session: &SessionId, revision: u64) -> Commit {
    commit_of(session, revision, None, vec![opened(&format!("task {revision}"))])
}

/// The file of a commit.
pub(crate) fn commit_file<D: Disk>(store: &FileStore<D>, session: &SessionId, revision: u64) -> PathBuf {
    store.session_dir(session).join("journal").join(format!("{revision:08}.json"))
}

/// The temporary files below a folder.
pub(crate) fn temps(dir: &Path) -> Vec<PathBuf> {
    all_below(dir)
        .into_iter()
        .filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with(".tmp-"))
        .collect()
}

pub(crate) fn all_below(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        all.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            all.extend(all_below(&entry.path()));
        }
    }
    all
}

/// One call on the disk.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) call: &'static str,
    /// The path that it was called with; of a rename, the new one.
    pub(crate) path: Option<PathBuf>,
    /// The file that it was called with, or that was renamed.
    pub(crate) inode: Option<u64>,
    pub(crate) ok: bool,
}

/// Which call fails, with which number, and whether it is carried out all the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) errno: i32,
    pub(crate) done: bool,
    /// Fail every call of this name (`*`: of any) from `at` on instead of the one at `at`.
    pub(crate) every: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Plan {
    events: Vec<Event>,
    fault: Option<Fault>,
    /// Removed right after the next successful sync of a file.
    doomed: Option<PathBuf>,
    /// The next write says that it wrote all, and did not.
    short: bool,
}

/// The real disk, with a journal of its calls and faults on demand.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultDisk(Arc<Mutex<Plan>>);

impl FaultDisk {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap()
    }

    pub(crate) fn open(&self, root: &Path) -> Result<FileStore<Self>, surestep::StoreError> {
        options(root).open_on(self.clone(), root)
    }

    /// Forgets the calls so far and sets the next fault.
    pub(crate) fn arm(&self, fault: Option<Fault>) {
        let mut plan = self.plan();
        plan.events.clear();
        plan.fault = fault;
    }

    /// Removes a file in the middle of the next publish: right after its temporary file is durable.
    pub(crate) fn remove_after_sync(&self, path: &Path) {
        self.plan().doomed = Some(path.to_owned());
    }

    /// Lets the next write lose its last byte, and say nothing of it.
    pub(crate) fn cut_next_write(&self) {
        self.plan().short = true;
    }

    pub(crate) fn disarm(&self) {
        self.plan().fault = None;
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.plan().events.clone()
    }

    /// Whether a file that now has this name was durable before it got it, and the name was afterwards.
    pub(crate) fn is_durable(&self, name: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let inode = std::fs::metadata(name).unwrap().ino();
        let folder = std::fs::metadata(name.parent().unwrap()).unwrap().ino();
        let events = self.events();
        let last = |call: &[&str], inode: u64| {
            events.iter().rposition(|e| e.ok && call.contains(&e.call) && e.inode == Some(inode))
        };
        let (written, synced) = (last(&["write"], inode), last(&["sync"], inode));
        let named = last(&["rename_new", "replace"], inode);
        // A sync that failed before on the same file poisons it; an inode that is given out anew is another file.
        let failed = events.iter().rposition(|e| !e.ok && e.call == "sync" && e.inode == Some(inode));
        let poisoned = failed.is_some() && failed > last(&["create"], inode);
        !poisoned && written < synced && synced < named && named < last(&["sync_dir"], folder)
    }

    fn call<T>(
        &self,
        call: &'static str,
        path: Option<&Path>,
        inode: Option<u64>,
        run: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut plan = self.plan();
        let at = plan.events.len();
        let fault = plan.fault.filter(|f| match f.every {
            None => f.at == at,
            Some(name) => (name == call || name == "*") && at >= f.at,
        });
        let result = match fault {
            Some(Fault { done: false, errno, .. }) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault { done: true, errno, .. }) => {
                let _ = run();
                Err(io::Error::from_raw_os_error(errno))
            }
            None => run(),
        };
        if call == "sync"
            && let Some(doomed) = plan.doomed.take()
        {
            std::fs::remove_file(doomed).unwrap();
        }
        plan.events.push(Event { call, path: path.map(Path::to_owned), inode, ok: result.is_ok() });
        result
    }
}

fn inode(file: &File) -> Option<u64> {
    RealDisk.identity(file).ok().map(|id| id.inode)
}

fn inode_at(path: &Path) -> Option<u64> {
    RealDisk.stat(path).ok().map(|stat| stat.identity.inode)
}

impl Disk for FaultDisk {
    type File = File;

    fn create_new(&self, path: &Path) -> io::Result<File> {
        let created = self.call("create", Some(path), None, || RealDisk.create_new(path));
        if let Some(event) = self.plan().events.last_mut() {
            event.inode = inode_at(path);
        }
        created
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        let short = std::mem::take(&mut self.plan().short);
        let bytes = &bytes[..bytes.len() - usize::from(short)];
        self.call("write", None, inode(file), || RealDisk.write(file, bytes))
    }
    fn len(&self, file: &File) -> io::Result<u64> {
        self.call("len", None, inode(file), || RealDisk.len(file))
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        self.call("sync", None, inode(file), || RealDisk.sync(file))
    }
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.call("allocate", None, inode(file), || RealDisk.allocate(file, bytes))
    }
    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.call("truncate", None, inode(file), || RealDisk.truncate(file, bytes))
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename_new", Some(to), inode_at(from), || RealDisk.rename_new(from, to))
    }
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("replace", Some(to), inode_at(from), || RealDisk.replace(from, to))
    }
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.call("exchange", Some(other), inode_at(one), || RealDisk.exchange(one, other))
    }
    fn open_dir(&self, path: &Path) -> io::Result<File> {
        self.call("open_dir", Some(path), None, || RealDisk.open_dir(path))
    }
    fn sync_dir(&self, dir: &File) -> io::Result<()> {
        self.call("sync_dir", None, inode(dir), || RealDisk.sync_dir(dir))
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.call("make_dir", Some(path), None, || RealDisk.make_dir(path))
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.call("read", Some(path), None, || RealDisk.read(path))
    }
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.call("list", Some(path), None, || RealDisk.list(path))
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.call("stat", Some(path), None, || RealDisk.stat(path))
    }
    fn open(&self, path: &Path) -> io::Result<File> {
        self.call("open", Some(path), None, || RealDisk.open(path))
    }
    fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.call("try_lock", None, inode(file), || RealDisk.try_lock(file))
    }
    fn try_lock_shared(&self, file: &File) -> io::Result<bool> {
        self.call("try_lock_shared", None, inode(file), || RealDisk.try_lock_shared(file))
    }
    fn identity(&self, file: &File) -> io::Result<Identity> {
        self.call("identity", None, inode(file), || RealDisk.identity(file))
    }
    fn share(&self, file: &File) -> io::Result<Option<File>> {
        self.call("share", None, inode(file), || RealDisk.share(file))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove", Some(path), None, || RealDisk.remove(path))
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call("remove_dir", Some(path), None, || RealDisk.remove_dir(path))
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.call("canonical", Some(path), None, || RealDisk.canonical(path))
    }
    fn volatile(&self, path: &Path) -> io::Result<Option<String>> {
        self.call("volatile", Some(path), None, || RealDisk.volatile(path))
    }
}
