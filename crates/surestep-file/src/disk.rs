//! The disk: every call by which this crate touches a file system.
//!
//! One small trait, so that a test can lose, reorder and fail each call; [`RealDisk`](crate::RealDisk) is the disk of
//! the operating system. Nothing else in the crate opens, writes, renames or removes anything.
//!
//! The contract of an implementation:
//! - an interrupted call (`EINTR`) is tried again inside it; every other error is the caller's to judge;
//! - no call follows a symbolic link in the last part of a path, except [`Disk::canonical`];
//! - no call hangs on what is not a regular file (a FIFO, a device): it says [`NotRegular`];
//! - a file is never readable by others, not for an instant: the mode is given at creation.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Calls on a file system.
pub trait Disk: Send + Sync + 'static {
    /// An open file or directory.
    type File: Send + Sync + 'static;

    /// Creates a file that must not exist (mode 0600), open for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists`, or what the system says.
    fn create_new(&self, path: &Path) -> io::Result<Self::File>;

    /// Writes all bytes at the file's beginning.
    ///
    /// # Errors
    /// What the system says; a part may have been written.
    fn write(&self, file: &Self::File, bytes: &[u8]) -> io::Result<()>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn len(&self, file: &Self::File) -> io::Result<u64>;

    /// Makes a file's content and length durable. After an error the file is poisoned: nothing is known of its
    /// content on the medium, whatever a second call or a read says.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Gives a file at least so many bytes of length that are backed by the medium: a later write into them needs
    /// no more room.
    ///
    /// # Errors
    /// What the system says.
    fn allocate(&self, file: &Self::File, bytes: u64) -> io::Result<()>;

    /// Cuts a file to a length.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&self, file: &Self::File, bytes: u64) -> io::Result<()>;

    /// Renames a file to a name that must be free.
    ///
    /// # Errors
    /// `AlreadyExists`: surely not renamed. Every other error: nobody knows.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames a file, in place of what may have that name.
    ///
    /// # Errors
    /// What the system says; nobody knows whether it was renamed.
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Swaps what has two names, at once: each is seen with the one or the other, never neither.
    ///
    /// # Errors
    /// What the system says; nobody knows whether they were swapped.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;

    /// Opens a directory, for [`Disk::sync_dir`].
    ///
    /// # Errors
    /// What the system says.
    fn open_dir(&self, path: &Path) -> io::Result<Self::File>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// What the system says.
    fn sync_dir(&self, dir: &Self::File) -> io::Result<()>;

    /// Creates one directory (mode 0700).
    ///
    /// # Errors
    /// `AlreadyExists`, or what the system says.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Reads a whole regular file.
    ///
    /// # Errors
    /// [`NotRegular`] within the error, or what the system says.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// What has this name.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Opens an existing regular file for reading and writing.
    ///
    /// # Errors
    /// [`NotRegular`] within the error, or what the system says.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Takes the exclusive lock of an open file if nobody has it. It is freed when the last copy of the open file
    /// is closed, and by nothing else.
    ///
    /// # Errors
    /// What the system says; that somebody has it is no error but `false`.
    fn try_lock(&self, file: &Self::File) -> io::Result<bool>;

    /// Takes the lock of an open file together with others who take it so, if nobody has it for himself.
    ///
    /// # Errors
    /// As [`Disk::try_lock`].
    fn try_lock_shared(&self, file: &Self::File) -> io::Result<bool>;

    /// Which file this is, whatever its name is now.
    ///
    /// # Errors
    /// What the system says.
    fn identity(&self, file: &Self::File) -> io::Result<Identity>;

    /// A copy of an open file that child processes can hold on to, on disks that have real ones.
    ///
    /// # Errors
    /// What the system says.
    fn share(&self, file: &Self::File) -> io::Result<Option<File>>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// What the system says.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// The path without symbolic links.
    ///
    /// # Errors
    /// What the system says.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// The kind of file system, if it is one that does not keep what it acknowledges.
    ///
    /// # Errors
    /// What the system says.
    fn volatile(&self, path: &Path) -> io::Result<Option<String>>;
}

/// Which file something is: no two files that exist at one time have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What kind of thing.
    pub kind: FileKind,
    /// Which one.
    pub identity: Identity,
    /// Its length in bytes, of a regular file.
    pub len: u64,
}

/// What kind of thing has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

impl std::fmt::Display for FileKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Regular => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Special => "a FIFO, socket or device",
        })
    }
}

/// A regular file was expected: the inner error of the [`io::Error`] that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{found} stands where a regular file was expected")]
pub struct NotRegular {
    /// What is there.
    pub found: FileKind,
}

impl NotRegular {
    /// The error that says it.
    #[must_use]
    pub fn error(found: FileKind) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, Self { found })
    }

    /// What an error says of it.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref()).copied()
    }
}
