//! What an error of the system means: its class, and the port's error that carries its path.
//!
//! Decision: an error number that nobody thought about stops (crash rules, R19).

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use surestep::StoreError;

use crate::disk::NotRegular;

/// What to do about an error of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// An interrupted call: again at once. A [`Disk`](crate::Disk) does so by itself.
    Again,
    /// No room (disk, quota, limit of a file's size), or too many open files: it may pass; stop before the effect and come back later.
    Room,
    /// A wrong setting: rights, links, names, mounts.
    Setting,
    /// The medium is failing, or nobody knows: stop.
    Stop,
}

impl Class {
    /// The class of an error.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        let Some(errno) = Errno::from_io_error(error) else { return Self::Stop };
        match errno {
            Errno::INTR => Self::Again,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
                Self::Room
            }
            Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::NAMETOOLONG | Errno::LOOP => Self::Setting,
            _ => Self::Stop,
        }
    }
}

/// Turns an error of the system into the port's, with what was tried and where.
pub(crate) fn io(did: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| {
        if let Some(odd) = NotRegular::of(&source) {
            return corrupt(path, 0, odd.to_string());
        }
        if source.kind() == io::ErrorKind::NotADirectory && did != "cannot find" {
            return corrupt(path, 0, "something else stands where a folder was expected");
        }
        match Class::of(&source) {
            Class::Room => StoreError::Full { path, source },
            Class::Again | Class::Setting | Class::Stop => StoreError::Io { did, path, source },
        }
    }
}

/// A damaged file.
pub(crate) fn corrupt(file: impl Into<PathBuf>, offset: usize, why: impl Into<String>) -> StoreError {
    StoreError::Corrupt { file: file.into(), offset, why: why.into() }
}

/// `None` where there is nothing of that name.
pub(crate) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
