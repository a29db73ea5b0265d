//! The operating system's disk: plain system calls through rustix, the lock through fs2.
//!
//! Decisions: renames without clobbering are `renameat2(RENAME_NOREPLACE)`; a file system that does not know it gets
//! `link` and `unlink`, which refuse a taken name just as well. The lock is `flock` and not `fcntl`: a process that
//! opens and closes the lock file anywhere would lose an `fcntl` lock (crash rules, R21).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::disk::{Disk, FileKind, Identity, NotRegular, Stat};
use crate::mounts;

/// The mode of every file.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Zeros that are written where the file system cannot reserve.
const ZEROS: &[u8] = &[0; 64 << 10];

/// The operating system's disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    type File = File;

    fn create_new(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: File = retry_on_intr(|| sys::open(path, flags, FILE_MODE))?.into();
        // A umask that takes the owner's own rights away: the file could not be opened again.
        if rights(&sys::fstat(&file)?) != FILE_MODE {
            retry_on_intr(|| sys::fchmod(&file, FILE_MODE))?;
        }
        Ok(file)
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        write_at(file, bytes, 0)
    }

    fn len(&self, file: &File) -> io::Result<u64> {
        u64::try_from(sys::fstat(file)?.st_size).map_err(io::Error::other)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        Ok(retry_on_intr(|| sys::fsync(file))?)
    }

    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        match retry_on_intr(|| sys::fallocate(file, FallocateFlags::empty(), 0, bytes)) {
            Err(error) if error == Errno::OPNOTSUPP || error == Errno::NOSYS => zero_fill(file, bytes),
            other => Ok(other?),
        }
    }

    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| sys::ftruncate(file, bytes))?)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match retry_on_intr(|| sys::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)) {
            Err(error) if error == Errno::INVAL || error == Errno::NOSYS => {
                retry_on_intr(|| sys::link(from, to))?;
                // The name is taken now. A leftover second name is swept with the other temporary files.
                let _ = sys::unlink(from);
                Ok(())
            }
            other => Ok(other?),
        }
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(retry_on_intr(|| sys::rename(from, to))?)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        Ok(retry_on_intr(|| sys::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE))?)
    }

    fn open_dir(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match retry_on_intr(|| sys::open(path, flags, Mode::empty())) {
            // A link in the place of a folder is none, however the system says so.
            Err(Errno::LOOP) => Err(Errno::NOTDIR.into()),
            other => Ok(other?.into()),
        }
    }

    fn sync_dir(&self, dir: &File) -> io::Result<()> {
        Ok(retry_on_intr(|| sys::fsync(dir))?)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        retry_on_intr(|| sys::mkdir(path, Mode::RWXU))?;
        if rights(&sys::lstat(path)?) != Mode::RWXU {
            retry_on_intr(|| sys::chmod(path, Mode::RWXU))?;
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        read_whole(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let dir = self.open_dir(path)?;
        let mut names = Vec::new();
        for entry in sys::Dir::new(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let stat = retry_on_intr(|| sys::lstat(path))?;
        let len = u64::try_from(stat.st_size).map_err(io::Error::other)?;
        Ok(Stat { kind: kind_of(&stat), identity: identity_of(&stat), len })
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        open_regular(path, OFlags::RDWR)
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        // Spelled out: the standard library has a method of nearly this name.
        locked(fs2::FileExt::try_lock_exclusive(file))
    }

    fn try_lock_shared(&self, file: &File) -> io::Result<bool> {
        locked(fs2::FileExt::try_lock_shared(file))
    }

    fn identity(&self, file: &File) -> io::Result<Identity> {
        Ok(identity_of(&sys::fstat(file)?))
    }

    fn share(&self, file: &File) -> io::Result<Option<File>> {
        file.try_clone().map(Some)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Ok(retry_on_intr(|| sys::unlink(path))?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Ok(retry_on_intr(|| sys::rmdir(path))?)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn volatile(&self, path: &Path) -> io::Result<Option<String>> {
        let magic = retry_on_intr(|| sys::statfs(path))?.f_type;
        let kind = mounts::volatile_kind(magic as u64 & 0xffff_ffff);
        if kind.is_some() {
            return Ok(kind.map(str::to_owned));
        }
        // Without /proc nothing is known of an overlay's options: it counts as an honest one.
        let table = read_whole(Path::new("/proc/self/mountinfo")).unwrap_or_default();
        Ok(mounts::volatile_overlay(&String::from_utf8_lossy(&table), path)
            .then(|| "a volatile overlay".into()))
    }
}

fn locked(answer: io::Result<()>) -> io::Result<bool> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a whole regular file; also those of `/proc`.
pub(crate) fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    open_regular(path, OFlags::RDONLY)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_regular(path: &Path, access: OFlags) -> io::Result<File> {
    // O_NONBLOCK: opening a FIFO must not wait for its other end. On a regular file it changes nothing.
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: File = match retry_on_intr(|| sys::open(path, flags, Mode::empty())) {
        Ok(file) => file.into(),
        Err(Errno::LOOP) => return Err(NotRegular::error(FileKind::Link)),
        Err(Errno::ISDIR) => return Err(NotRegular::error(FileKind::Directory)),
        Err(Errno::NXIO) => return Err(NotRegular::error(FileKind::Special)),
        Err(other) => return Err(other.into()),
    };
    match kind_of(&sys::fstat(&file)?) {
        FileKind::Regular => Ok(file),
        odd @ (FileKind::Directory | FileKind::Link | FileKind::Special) => Err(NotRegular::error(odd)),
    }
}

fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::pwrite(file, bytes, offset))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
}

fn zero_fill(file: &File, bytes: u64) -> io::Result<()> {
    let mut offset = u64::try_from(sys::fstat(file)?.st_size).map_err(io::Error::other)?;
    while offset < bytes {
        let left = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(ZEROS.len());
        write_at(file, ZEROS.get(..left).unwrap_or(ZEROS), offset)?;
        offset += left as u64;
    }
    Ok(())
}

/// The rights of owner, group and others.
fn rights(stat: &sys::Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o777)
}

fn kind_of(stat: &sys::Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => FileKind::Special,
    }
}

fn identity_of(stat: &sys::Stat) -> Identity {
    Identity { device: stat.st_dev, inode: stat.st_ino }
}
