//! Opening a store: where it is, whether its file system keeps its word, and which store it is.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use surestep::StoreError;
use surestep::core::json;

use crate::atomic::{self, Failed};
use crate::disk::Disk;
use crate::fault::{corrupt, found, io};
use crate::layout::Layout;
use crate::marks::{self, Marks};
use crate::real::RealDisk;
use crate::sealed;
use crate::store::FileStore;

const FAMILY: &str = "surestep.store/";

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    allow_volatile: bool,
    create: bool,
    marks: marks::Place,
    even_rolled_back: bool,
    read_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_volatile: false,
            create: true,
            marks: marks::Place::State,
            even_rolled_back: false,
            read_only: false,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct StoreFile {
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

    /// The folder of the high-water marks, by which a store that was put back to an older copy is noticed; `None`:
    /// none are kept. Default: `surestep` in the user's state folder (`$XDG_STATE_HOME`, else `~/.local/state`). It
    /// must not lie where a backup of the store would put it back as well.
    #[must_use]
    pub fn marks(mut self, folder: Option<PathBuf>) -> Self {
        self.marks = folder.map_or(marks::Place::Off, marks::Place::In);
        self
    }

    /// Reads and holds sessions although they are behind their marks, and makes a store that is gone anew under its
    /// old id: to show what is left, and to write the `restored` entry. Never step with such a store. Default: no.
    #[must_use]
    pub const fn even_rolled_back(mut self, even: bool) -> Self {
        self.even_rolled_back = even;
        self
    }

    /// Whether a file system that does not keep its word is accepted.
    pub(crate) const fn allows_volatile(&self) -> bool {
        self.allow_volatile
    }

    /// The marks of a store.
    pub(crate) fn marks_of(&self, id: &str, root: &Path) -> Marks {
        Marks::new(&self.marks, id, root)
    }

    /// Makes nothing at all, not even a folder that is missing: for who only reads. The store must be there. Default: no.
    #[must_use]
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
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
        let gone = self.gone(&disk, &root)?;
        if let Some(gone) = gone.as_ref().filter(|_| !self.even_rolled_back) {
            return Err(gone.error());
        }
        let create = self.create && !self.read_only;
        if !create && found(disk.canonical(&root)).map_err(io("cannot find", &root))?.is_none() {
            return Err(StoreError::Absent { what: format!("the store {}", root.display()) });
        }
        if create {
            make_root(&disk, &root)?;
        }
        // A root that is a link is followed here, once.
        let root = disk.canonical(&root).map_err(io("cannot find", &root))?;
        let layout = Layout { root };
        let id = match read_id(&disk, &layout)? {
            Some(id) => id,
            None if create => {
                make_id(&disk, &layout, gone.map_or_else(surestep::random_id, |gone| gone.store))?
            }
            None => return Err(StoreError::Absent { what: format!("the store {}", layout.root.display()) }),
        };
        if !self.read_only {
            make_folders(&disk, &layout)?;
        }
        let marks = Marks::new(&self.marks, &id, &layout.root);
        Ok(FileStore::new(disk, layout, id, marks, self.even_rolled_back))
    }

    /// The store with sessions that was once at a root, and is gone.
    fn gone<D: Disk>(&self, disk: &D, root: &Path) -> Result<Option<GoneStore>, StoreError> {
        let Ok(Some(folder)) = self.marks.folder() else { return Ok(None) };
        let root = canonical_of(disk, root)?;
        let file = Layout { root: root.clone() }.store();
        if found(disk.stat(&file)).map_err(io("cannot examine", &file))?.is_some() {
            return Ok(None);
        }
        let Some(store) = marks::at_root(disk, &folder, &root) else { return Ok(None) };
        let sessions = marks::count(disk, &folder, &store);
        Ok((sessions > 0).then_some(GoneStore { root, store, sessions }))
    }

    /// What is remembered of a store that is gone from a root.
    ///
    /// # Errors
    /// What the system says.
    pub fn find_gone(&self, root: impl AsRef<Path>) -> Result<Option<GoneStore>, StoreError> {
        let given = root.as_ref();
        let root = std::path::absolute(given).map_err(io("cannot make absolute", given))?;
        self.gone(&RealDisk, &root)
    }

    /// Forgets that a store was at a root, so that a fresh one can be made there: what its sessions did may then be
    /// done again. Their marks are kept, and speak again if the store comes back.
    ///
    /// # Errors
    /// [`StoreError::Absent`] where that store is not gone from there; else what the system says.
    pub fn forget_gone(&self, gone: &GoneStore) -> Result<(), StoreError> {
        match (self.find_gone(&gone.root)?, self.marks.folder()) {
            (Some(there), Ok(Some(folder))) if there == *gone => {
                marks::forget_root(&RealDisk, &folder, &gone.root)
            }
            _ => Err(StoreError::Absent { what: format!("a memory of the store {}", gone.store) }),
        }
    }
}

/// A store with sessions that is gone from its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoneStore {
    /// Where it was, without links.
    pub root: PathBuf,
    /// Its id.
    pub store: String,
    /// How many of its sessions are remembered.
    pub sessions: usize,
}

impl GoneStore {
    fn error(&self) -> StoreError {
        let Self { root, store, sessions } = self.clone();
        StoreError::Gone { root, store, sessions }
    }
}

/// A path without links, as far as it exists.
fn canonical_of<D: Disk>(disk: &D, path: &Path) -> Result<PathBuf, StoreError> {
    for part in path.ancestors() {
        if let Some(there) = found(disk.canonical(part)).map_err(io("cannot find", part))? {
            let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
            return Ok(if rest.as_os_str().is_empty() { there } else { there.join(rest) });
        }
    }
    Ok(path.to_owned())
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

/// The store's id; `None` where there is no store yet.
pub(crate) fn read_id<D: Disk>(disk: &D, layout: &Layout) -> Result<Option<String>, StoreError> {
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
    parse_id(&file, &bytes).map(Some)
}

/// The id in a store's own file.
pub(crate) fn parse_id(file: &Path, bytes: &[u8]) -> Result<String, StoreError> {
    let text = json::text(bytes).map_err(|error| corrupt(file, error.offset, error.why.to_string()))?;
    json::check(text, json::DEPTH_FILE_MAX)
        .map_err(|error| corrupt(file, error.offset, error.why.to_string()))?;
    sealed::known(file, &sealed::format(file, text)?, FAMILY)?;
    let StoreFile { id, .. } =
        serde_json::from_str(text).map_err(|error| corrupt(file, error.column(), error.to_string()))?;
    if id.is_empty() || id.len() > 100 || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(corrupt(file, 0, "its `id` is not one that a store has"));
    }
    Ok(id)
}

fn make_id<D: Disk>(disk: &D, layout: &Layout, id: String) -> Result<String, StoreError> {
    let file = layout.store();
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
