//! Publishing a file: all of it or nothing, durable before anybody is told.
//!
//! ```text
//! create_new .tmp-… -> write -> length -> fsync -> rename (name must be free) -> fsync the directory
//!                       \-- an error up to here: surely not there --/ \-- from here on: nobody knows --/
//! ```
//!
//! A failed fsync poisons its file for ever (crash rules, R13): never a second fsync on it, a new file instead, with
//! all bytes written anew from memory; two files at most.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use surestep::StoreError;

use crate::disk::Disk;
use crate::fault::{corrupt, io};
use crate::names;

/// Files that are tried when fsync fails.
const TRIES_MAX: u32 = 2;

/// A temporary file.
pub(crate) struct Temp<F> {
    /// Its path.
    pub(crate) path: PathBuf,
    /// The open file.
    pub(crate) file: F,
    /// The length that it was given beforehand; 0 for a file that was just made.
    pub(crate) reserved: u64,
}

/// How placing a file went, where it did not go well.
pub(crate) enum Failed {
    /// Surely not there.
    Before(StoreError),
    /// Somebody else has that name.
    Taken,
    /// Nobody knows.
    Unsure(StoreError),
}

/// Creates an empty temporary file in a folder.
pub(crate) fn create<D: Disk>(disk: &D, folder: &Path) -> Result<Temp<D::File>, StoreError> {
    let path = folder.join(format!("{}{}", names::TEMP_PREFIX, surestep::random_id()));
    let file = disk.create_new(&path).map_err(io("cannot create", &path))?;
    Ok(Temp { path, file, reserved: 0 })
}

/// Writes a temporary file whole and makes it durable, in the file that is ready where there is one.
pub(crate) fn written<D: Disk>(
    disk: &D,
    folder: &Path,
    bytes: &[u8],
    ready: Option<Temp<D::File>>,
) -> Result<Temp<D::File>, StoreError> {
    let mut temp = match ready {
        Some(temp) => temp,
        None => create(disk, folder)?,
    };
    let mut tries = 1;
    loop {
        let (error, poisoned) = match fill(disk, &temp, bytes) {
            Err(error) => (error, false),
            Ok(()) => match disk.sync(&temp.file) {
                Ok(()) => return Ok(temp),
                Err(source) => (io("cannot make durable", &temp.path)(source), true),
            },
        };
        // The next file is made while this one still exists: else it could be given the very same inode and blocks.
        let next = if poisoned && tries < TRIES_MAX { Some(create(disk, folder)) } else { None };
        discard(disk, &temp.path);
        match next {
            Some(next) => temp = next?,
            None => return Err(error),
        }
        tries += 1;
    }
}

fn fill<D: Disk>(disk: &D, temp: &Temp<D::File>, bytes: &[u8]) -> Result<(), StoreError> {
    let length = bytes.len() as u64;
    disk.write(&temp.file, bytes).map_err(io("cannot write", &temp.path))?;
    if temp.reserved > length {
        disk.truncate(&temp.file, length).map_err(io("cannot cut", &temp.path))?;
    }
    let found = disk.len(&temp.file).map_err(io("cannot measure", &temp.path))?;
    if found != length {
        return Err(corrupt(&temp.path, 0, format!("{length} bytes were written, the file has {found}")));
    }
    Ok(())
}

/// Gives a durable temporary file its name, if that is free, and makes the name durable.
pub(crate) fn place<D: Disk>(disk: &D, temp: &Path, name: &Path, dir: &D::File) -> Result<(), Failed> {
    match disk.rename_new(temp, name) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            discard(disk, temp);
            return Err(Failed::Taken);
        }
        Err(error) => return Err(Failed::Unsure(io("cannot rename a file to", name)(error))),
    }
    disk.sync_dir(dir).map_err(|error| Failed::Unsure(io("cannot make the name durable of", name)(error)))
}

/// Publishes a file in a folder that is not held open.
pub(crate) fn publish<D: Disk>(disk: &D, name: &Path, bytes: &[u8]) -> Result<(), Failed> {
    let folder = name.parent().unwrap_or(name);
    let dir = disk.open_dir(folder).map_err(|e| Failed::Before(io("cannot open the folder", folder)(e)))?;
    let temp = written(disk, folder, bytes, None).map_err(Failed::Before)?;
    place(disk, &temp.path, name, &dir)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder<D: Disk>(disk: &D, folder: &Path) -> Result<(), StoreError> {
    let dir = disk.open_dir(folder).map_err(io("cannot open the folder", folder))?;
    disk.sync_dir(&dir).map_err(io("cannot make the names durable in", folder))
}

/// Makes a folder if it is not there; says whether it made it.
pub(crate) fn make_folder<D: Disk>(disk: &D, folder: &Path) -> Result<bool, StoreError> {
    use crate::disk::FileKind;
    match disk.make_dir(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            match disk.stat(folder).map_err(io("cannot examine", folder))?.kind {
                FileKind::Directory => Ok(false),
                odd @ (FileKind::Regular | FileKind::Link | FileKind::Special) => {
                    Err(corrupt(folder, 0, format!("{odd} stands where a folder was expected")))
                }
            }
        }
        Err(error) => Err(io("cannot make the folder", folder)(error)),
    }
}

/// Removes a temporary file, if that can be done: it is swept later otherwise.
pub(crate) fn discard<D: Disk>(disk: &D, path: &Path) {
    let _ = disk.remove(path);
}
