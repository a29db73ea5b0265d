//! The real disk, with a fault at the call that is chosen.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use surestep_file::disk::{Identity, Stat};
use surestep_file::{Disk, RealDisk};

/// How the chosen call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It is not carried out.
    Refused,
    /// It is carried out, and says that it was not.
    Done,
    /// It is not carried out, and neither is any later one that changes the disk.
    ForGood,
    /// A write is carried out by half; any other call is not.
    Half,
}

/// Which call fails: counted from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) errno: i32,
    pub(crate) how: How,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    calls: Vec<(&'static str, PathBuf)>,
    hit: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct FaultDisk(Arc<Mutex<State>>);

/// The calls that change a disk.
const CHANGES: &[&str] = &[
    "create", "write", "sync", "allocate", "truncate", "rename", "replace", "exchange", "sync_dir",
    "make_dir", "remove",
];

pub(crate) fn changes(call: &str) -> bool {
    CHANGES.contains(&call)
}

impl FaultDisk {
    pub(crate) fn with(fault: Option<Fault>) -> Self {
        Self(Arc::new(Mutex::new(State { fault, ..State::default() })))
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<(&'static str, PathBuf)> {
        self.0.lock().expect("the state").calls.clone()
    }

    pub(crate) fn was_hit(&self) -> bool {
        self.0.lock().expect("the state").hit
    }

    fn call<T>(
        &self,
        call: &'static str,
        path: &Path,
        half: Option<&dyn Fn()>,
        run: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.0.lock().expect("the state");
        let at = state.calls.len();
        state.calls.push((call, path.to_owned()));
        let fault = state.fault.filter(|f| match f.how {
            How::ForGood => at >= f.at && changes(call),
            How::Refused | How::Done | How::Half => at == f.at,
        });
        let Some(fault) = fault else { return run() };
        state.hit = true;
        match (fault.how, half) {
            (How::Done, _) => drop(run()),
            (How::Half, Some(half)) => half(),
            (How::Refused | How::ForGood | How::Half, _) => {}
        }
        Err(io::Error::from_raw_os_error(fault.errno))
    }
}

const NO_PATH: &str = "";

impl Disk for FaultDisk {
    type File = File;

    fn create_new(&self, path: &Path) -> io::Result<File> {
        self.call("create", path, None, || RealDisk.create_new(path))
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        let half = || drop(RealDisk.write(file, &bytes[..bytes.len() / 2]));
        self.call("write", Path::new(NO_PATH), Some(&half), || RealDisk.write(file, bytes))
    }
    fn len(&self, file: &File) -> io::Result<u64> {
        self.call("len", Path::new(NO_PATH), None, || RealDisk.len(file))
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        self.call("sync", Path::new(NO_PATH), None, || RealDisk.sync(file))
    }
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.call("allocate", Path::new(NO_PATH), None, || RealDisk.allocate(file, bytes))
    }
    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.call("truncate", Path::new(NO_PATH), None, || RealDisk.truncate(file, bytes))
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", to, None, || RealDisk.rename_new(from, to))
    }
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("replace", to, None, || RealDisk.replace(from, to))
    }
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.call("exchange", other, None, || RealDisk.exchange(one, other))
    }
    fn open_dir(&self, path: &Path) -> io::Result<File> {
        self.call("open_dir", path, None, || RealDisk.open_dir(path))
    }
    fn sync_dir(&self, dir: &File) -> io::Result<()> {
        self.call("sync_dir", Path::new(NO_PATH), None, || RealDisk.sync_dir(dir))
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.call("make_dir", path, None, || RealDisk.make_dir(path))
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.call("read", path, None, || RealDisk.read(path))
    }
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.call("list", path, None, || RealDisk.list(path))
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.call("stat", path, None, || RealDisk.stat(path))
    }
    fn open(&self, path: &Path) -> io::Result<File> {
        self.call("open", path, None, || RealDisk.open(path))
    }
    fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.call("try_lock", Path::new(NO_PATH), None, || RealDisk.try_lock(file))
    }
    fn try_lock_shared(&self, file: &File) -> io::Result<bool> {
        self.call("try_lock_shared", Path::new(NO_PATH), None, || RealDisk.try_lock_shared(file))
    }
    fn identity(&self, file: &File) -> io::Result<Identity> {
        self.call("identity", Path::new(NO_PATH), None, || RealDisk.identity(file))
    }
    fn share(&self, file: &File) -> io::Result<Option<File>> {
        self.call("share", Path::new(NO_PATH), None, || RealDisk.share(file))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove", path, None, || RealDisk.remove(path))
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call("remove_dir", path, None, || RealDisk.remove_dir(path))
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.call("canonical", path, None, || RealDisk.canonical(path))
    }
    fn volatile(&self, path: &Path) -> io::Result<Option<String>> {
        self.call("volatile", path, None, || RealDisk.volatile(path))
    }
}
