//! Opening a store: where it is, whether its file system keeps its word, and which store it is.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use surestep::StoreError;
use surestep::core::json;

use crate::atomic::{self, Failed};
use crate::disk::Disk;
use crate::fault::{corrupt, found, io};
use crate::layout::Layout;
use crate::real::RealDisk;
use crate::sealed;
use crate::store::FileStore;

const FAMILY: &str = "surestep.store/";

/// How a store is opened.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    allow_volatile: bool,
    create: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { allow_volatile: false, create: true }
    }
}

#[derive(Serialize, Deserialize)]
struct StoreFile {
    format: String,
    id: String,
}

impl Options {
    /// Accepts a file system that does not keep what it acknowledges (memory, network, user space). Default: no.
    #[must_use]
    pub const fn allow_volatile(mut self, allow: bool) -> Self {
        self.allow_volatile = allow;
        self
    }

    /// Makes the store if it is not there. Default: yes.
    #[must_use]
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens a store on the operating system's disk.
    ///
    /// # Errors
    /// See [`FileStore::open`].
    pub fn open(self, root: impl AsRef<Path>) -> Result<FileStore, StoreError> {
        self.open_on(RealDisk, root)
    }

    /// Opens a store on another disk.
    ///
    /// # Errors
    /// See [`FileStore::open`].
    pub fn open_on<D: Disk>(self, disk: D, root: impl AsRef<Path>) -> Result<FileStore<D>, StoreError> {
        let given = root.as_ref();
        let root = std::path::absolute(given).map_err(io("cannot make absolute", given))?;
        let above = existing(&disk, &root)?;
        if !self.allow_volatile
            && let Some(kind) =
                disk.volatile(&above).map_err(io("cannot examine the file system of", &above))?
        {
            return Err(StoreError::Volatile { path: root, kind });
        }
        if !self.create && found(disk.canonical(&root)).map_err(io("cannot find", &root))?.is_none() {
            return Err(StoreError::Absent { what: format!("the store {}", root.display()) });
        }
        make_root(&disk, &root)?;
        // A root that is a link is followed here, once.
        let root = disk.canonical(&root).map_err(io("cannot find", &root))?;
        let layout = Layout { root };
        let id = match read_id(&disk, &layout)? {
            Some(id) => id,
            None if self.create => make_id(&disk, &layout)?,
            None => return Err(StoreError::Absent { what: format!("the store {}", layout.root.display()) }),
        };
        make_folders(&disk, &layout)?;
        Ok(FileStore::new(disk, layout, id))
    }
}

/// The nearest part of a path that exists, without links.
fn existing<D: Disk>(disk: &D, path: &Path) -> Result<PathBuf, StoreError> {
    for part in path.ancestors() {
        if let Some(there) = found(disk.canonical(part)).map_err(io("cannot find", part))? {
            return Ok(there);
        }
    }
    Ok(path.to_owned())
}

/// Makes the root and what is missing above it; each new name is made durable.
fn make_root<D: Disk>(disk: &D, root: &Path) -> Result<(), StoreError> {
    let mut missing = Vec::new();
    for part in root.ancestors() {
        if found(disk.canonical(part)).map_err(io("cannot find", part))?.is_some() {
            break;
        }
        missing.push(part);
    }
    for folder in missing.into_iter().rev() {
        let above = folder.parent().unwrap_or(folder);
        let above = disk.canonical(above).map_err(io("cannot find", above))?;
        atomic::make_folder(disk, folder)?;
        atomic::sync_folder(disk, &above)?;
    }
    Ok(())
}

fn read_id<D: Disk>(disk: &D, layout: &Layout) -> Result<Option<String>, StoreError> {
    let file = layout.store();
    let Some(bytes) = found(disk.read(&file)).map_err(io("cannot read", &file))? else {
        let sessions = layout.sessions();
        return match found(disk.list(&sessions)).map_err(io("cannot list", &sessions))? {
            Some(names) if !names.is_empty() => {
                Err(corrupt(file, 0, "it is gone, and there are sessions beside it"))
            }
            Some(_) | None => Ok(None),
        };
    };
    let text = json::text(&bytes).map_err(|error| corrupt(&file, error.offset, error.why.to_string()))?;
    json::check(text, json::DEPTH_FILE_MAX)
        .map_err(|error| corrupt(&file, error.offset, error.why.to_string()))?;
    let StoreFile { format, id } =
        serde_json::from_str(text).map_err(|error| corrupt(&file, error.column(), error.to_string()))?;
    sealed::known(&file, &format, FAMILY)?;
    if id.is_empty() || id.len() > 100 || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(corrupt(file, 0, "its `id` is not one that a store has"));
    }
    Ok(Some(id))
}

fn make_id<D: Disk>(disk: &D, layout: &Layout) -> Result<String, StoreError> {
    let file = layout.store();
    let id = surestep::random_id();
    let text = serde_json::to_string(&StoreFile { format: format!("{FAMILY}1"), id: id.clone() })
        .map_err(|error| StoreError::Other(error.to_string()))?;
    match atomic::publish(disk, &file, text.as_bytes()) {
        Ok(()) => Ok(id),
        // Somebody else made the store at the same time: it is theirs and ours.
        Err(Failed::Taken) => read_id(disk, layout)?.ok_or_else(|| corrupt(file, 0, "it came and went")),
        Err(Failed::Before(error) | Failed::Unsure(error)) => Err(error),
    }
}

fn make_folders<D: Disk>(disk: &D, layout: &Layout) -> Result<(), StoreError> {
    for folder in [layout.sessions(), layout.blobs()] {
        if found(disk.stat(&folder)).map_err(io("cannot examine", &folder))?.is_none() {
            atomic::make_folder(disk, &folder)?;
            atomic::sync_folder(disk, &layout.root)?;
        }
    }
    Ok(())
}
