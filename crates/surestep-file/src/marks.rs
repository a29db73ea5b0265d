//! High-water marks: how far each session once got, remembered outside the root.
//!
//! ```text
//! <state>/marks/<store id>/<name>.json    the last commit of a session that was durable: revision, epoch, head
//! <state>/roots/<digest>.json             which store lived at a root, by its canonical path
//! ```
//!
//! A journal whose end was cut off is a whole journal: only what stands elsewhere can tell that it once went further.
//! A mark is written by rename, without fsync, after each commit is durable and before its effect runs: a kill of the
//! process loses none, a loss of power at most the last moments' (docs/decisions/0012). So a mark is never ahead of
//! what was acknowledged. One that cannot be written or read is a problem that is told once, and the step goes on.
//!
//! Order: a reader takes the mark first and the journal afterwards; then a journal behind its mark is behind it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use surestep::{Commit, Digest, Entry, Epoch, Revision, SessionId, StoreError};

use crate::disk::Disk;
use crate::fault::{corrupt, found, io};
use crate::pruned::{self, Tombstone};
use crate::{names, sealed};

const MARK_FAMILY: &str = "surestep.mark/";
const ROOT_FAMILY: &str = "surestep.root/";

/// How far a session once got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HighMark {
    /// The session.
    pub session: SessionId,
    /// The last revision that was acknowledged.
    pub revision: Revision,
    /// The epoch that it was published under.
    pub epoch: Epoch,
    /// Its sum.
    pub head: Digest,
    /// The store that it handed the session off to: there it lives, and an older copy of it here must not go on.
    pub handed_off: Option<String>,
}

/// Whether a store put back to an older copy would be noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarksState {
    /// It would: the marks are kept in this folder.
    Kept(PathBuf),
    /// It would not: the store was opened without marks.
    Off,
    /// It would not: they cannot be kept.
    Failing(String),
}

/// Where marks are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the user's state folder.
    #[default]
    State,
    /// In this folder.
    In(PathBuf),
    /// Nowhere.
    Off,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct MarkFile {
    format: String,
    store: String,
    session: SessionId,
    revision: Revision,
    epoch: Epoch,
    head: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handed_off: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct RootFile {
    format: String,
    root: String,
    store: String,
}

/// The marks of one store.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The store's id.
    store: String,
    root: PathBuf,
    /// The folder of all stores' marks; `None`: nowhere.
    folder: Option<PathBuf>,
    off: bool,
    /// The root's record is known to say this store.
    rooted: AtomicBool,
    /// The first thing that went wrong.
    problem: OnceLock<String>,
}

impl Place {
    /// The folder, or why there is none.
    pub(crate) fn folder(&self) -> Result<Option<PathBuf>, String> {
        match self {
            Self::Off => Ok(None),
            Self::In(folder) => Ok(Some(folder.clone())),
            Self::State => {
                let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
                let state = of("XDG_STATE_HOME").or_else(|| of("HOME").map(|home| home.join(".local/state")));
                state.map(|state| Some(state.join("surestep"))).ok_or_else(|| {
                    "neither XDG_STATE_HOME nor HOME names a folder in which they could be kept".into()
                })
            }
        }
    }
}

impl Marks {
    pub(crate) fn new(place: &Place, store: &str, root: &Path) -> Self {
        let problem = OnceLock::new();
        let folder = place.folder().unwrap_or_else(|why| {
            let _ = problem.set(why);
            None
        });
        Self {
            store: store.into(),
            root: root.into(),
            folder,
            off: *place == Place::Off,
            rooted: AtomicBool::new(false),
            problem,
        }
    }

    pub(crate) const fn are_kept(&self) -> bool {
        self.folder.is_some()
    }

    fn dir(&self) -> Option<PathBuf> {
        self.folder.as_deref().map(|folder| folder_of(folder, &self.store))
    }

    /// The session's mark; one that cannot be read is none, and a problem.
    ///
    /// # Errors
    /// When a newer version wrote it: this one would write over what it cannot read.
    pub(crate) fn read<D: Disk>(
        &self,
        disk: &D,
        session: &SessionId,
    ) -> Result<Option<HighMark>, StoreError> {
        let Some(dir) = self.dir() else { return Ok(None) };
        let file = dir.join(format!("{}.json", names::of_id(session.as_str())));
        match self.parsed(disk, &file) {
            Err(error @ StoreError::TooNew { .. }) => Err(error),
            Err(error) => {
                self.trouble(&error.to_string());
                Ok(self.buried(disk, session))
            }
            Ok(None) => Ok(self.buried(disk, session)),
            Ok(Some(mark)) if mark.session == *session => Ok(Some(mark)),
            Ok(Some(_)) => {
                self.trouble(&format!("{} is another session's", file.display()));
                Ok(None)
            }
        }
    }

    /// The mark of the session whose folder has this name.
    pub(crate) fn named<D: Disk>(&self, disk: &D, name: &str) -> Option<HighMark> {
        let mark = self.read_file(disk, &self.dir()?.join(format!("{name}.json")))?;
        (names::of_id(mark.session.as_str()) == name).then_some(mark)
    }

    fn read_file<D: Disk>(&self, disk: &D, file: &Path) -> Option<HighMark> {
        self.parsed(disk, file).unwrap_or_else(|error| {
            self.trouble(&error.to_string());
            None
        })
    }

    fn parsed<D: Disk>(&self, disk: &D, file: &Path) -> Result<Option<HighMark>, StoreError> {
        let Some(bytes) = found(disk.read(file)).map_err(io("cannot read", file))? else { return Ok(None) };
        match parse(file, &bytes)? {
            (store, mark) if store == self.store => Ok(Some(mark)),
            (_, _) => Err(corrupt(file, 0, "it is another store's")),
        }
    }

    /// The last mark of a session that was pruned.
    fn buried<D: Disk>(&self, disk: &D, session: &SessionId) -> Option<HighMark> {
        let found = pruned::find(disk, &self.dir()?.join("pruned"), session).unwrap_or_else(|error| {
            self.trouble(&error.to_string());
            None
        });
        found.map(|Tombstone { session, revision, epoch, head, .. }| HighMark {
            session,
            revision,
            epoch,
            head,
            handed_off: None,
        })
    }

    /// Keeps a copy of a shard's tombstones, in place of the marks of those that were just pruned.
    pub(crate) fn bury<D: Disk>(&self, disk: &D, shard: &str, all: &[Tombstone], new: &[Tombstone]) {
        let Some(dir) = self.dir() else { return };
        let folder = dir.join("pruned");
        // The store may have been put back since the copy was made: what was once pruned stays so.
        let mut all = all.to_vec();
        for old in pruned::read(disk, &folder.join(shard)).unwrap_or_default() {
            if !all.iter().any(|new| new.session == old.session) {
                all.push(old);
            }
        }
        let name = shard.strip_suffix(".json").unwrap_or(shard);
        let written = pruned::text(all).map_err(io::Error::other);
        match written.and_then(|text| put(disk, &folder, name, &text)) {
            Ok(()) => {
                for tombstone in new {
                    let name = names::of_id(tombstone.session.as_str());
                    let _ = disk.remove(&dir.join(format!("{name}.json")));
                }
            }
            Err(error) => self.trouble(&format!("{}: {error}", folder.display())),
        }
    }

    /// The names of the folders of sessions that have a mark.
    pub(crate) fn names<D: Disk>(&self, disk: &D) -> Vec<String> {
        let Some(dir) = self.dir() else { return Vec::new() };
        let names = found(disk.list(&dir)).ok().flatten().unwrap_or_default();
        names.iter().filter_map(|name| name.to_str()?.strip_suffix(".json").map(str::to_owned)).collect()
    }

    /// All marks of the store, in no order.
    pub(crate) fn all<D: Disk>(&self, disk: &D) -> Vec<HighMark> {
        let Some(dir) = self.dir() else { return Vec::new() };
        let names = found(disk.list(&dir)).ok().flatten().unwrap_or_default();
        let marks = names.iter().filter(|name| is_mark(name));
        marks.filter_map(|name| self.read_file(disk, &dir.join(name))).collect()
    }

    /// Sets a session's mark to a commit that is durable.
    pub(crate) fn set<D: Disk>(&self, disk: &D, commit: &Commit) {
        let (Some(folder), Some(dir)) = (&self.folder, self.dir()) else { return };
        let file =
            MarkFile {
                format: format!("{MARK_FAMILY}1"),
                store: self.store.clone(),
                session: commit.session().clone(),
                revision: commit.revision(),
                epoch: commit.epoch(),
                head: commit.sum(),
                handed_off: commit.entries().iter().rev().find_map(|entry| {
                    if let Entry::HandedOff(e) = entry { Some(e.to.clone()) } else { None }
                }),
            };
        let written = if self.rooted.load(Ordering::Relaxed) { Ok(()) } else { self.set_root(disk, folder) }
            .and_then(|()| put(disk, &dir, &names::of_id(commit.session().as_str()), &sealed_text(&file)?));
        match written {
            Ok(()) => self.rooted.store(true, Ordering::Relaxed),
            Err(error) => self.trouble(&format!("{}: {error}", dir.display())),
        }
    }

    fn set_root<D: Disk>(&self, disk: &D, folder: &Path) -> io::Result<()> {
        if at_root(disk, folder, &self.root).is_some_and(|store| store == self.store) {
            return Ok(());
        }
        let root = self.root.to_string_lossy().into_owned();
        let file = RootFile { format: format!("{ROOT_FAMILY}1"), root, store: self.store.clone() };
        put(disk, &folder.join("roots"), &root_name(&self.root), &sealed_text(&file)?)
    }

    /// Notes what went wrong, and says it once.
    fn trouble(&self, why: &str) {
        if self.problem.set(why.to_owned()).is_ok() {
            tracing::warn!(why, "a store put back to an older copy would not be noticed");
        }
    }

    /// What went wrong first.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.get().map(String::as_str)
    }

    /// Whether a roll-back would be noticed.
    pub(crate) fn state<D: Disk>(&self, disk: &D) -> MarksState {
        if let Some(dir) = self.dir()
            && let Err(error) = make_folders(disk, &dir)
        {
            self.trouble(&format!("{}: {error}", dir.display()));
        }
        match (self.problem.get(), &self.folder) {
            (Some(why), _) => MarksState::Failing(why.clone()),
            (None, Some(folder)) => MarksState::Kept(folder.clone()),
            (None, None) if self.off => MarksState::Off,
            (None, None) => MarksState::Failing("there is no folder for them".into()),
        }
    }
}

/// The store that lived at a root, if one is remembered.
pub(crate) fn at_root<D: Disk>(disk: &D, folder: &Path, root: &Path) -> Option<String> {
    let file = folder.join("roots").join(format!("{}.json", root_name(root)));
    let bytes = found(disk.read(&file)).ok().flatten()?;
    let (named, store) = parse_root(&file, &bytes).ok()?;
    (named == root.to_string_lossy()).then_some(store)
}

/// How many sessions of a store are remembered.
pub(crate) fn count<D: Disk>(disk: &D, folder: &Path, store: &str) -> usize {
    let names = found(disk.list(&folder_of(folder, store))).ok().flatten().unwrap_or_default();
    names.iter().filter(|name| is_mark(name)).count()
}

/// Forgets which store lived at a root. The marks stay: if the store comes back, they still speak.
pub(crate) fn forget_root<D: Disk>(disk: &D, folder: &Path, root: &Path) -> Result<(), StoreError> {
    let file = folder.join("roots").join(format!("{}.json", root_name(root)));
    disk.remove(&file).map_err(crate::fault::io("cannot remove", &file))
}

/// A mark's file: whose store, and the mark.
pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<(String, HighMark), StoreError> {
    let MarkFile { store, session, revision, epoch, head, handed_off, .. } =
        sealed::open(file, bytes, MARK_FAMILY)?;
    Ok((store, HighMark { session, revision, epoch, head, handed_off }))
}

/// A root's record: the root and its store.
pub(crate) fn parse_root(file: &Path, bytes: &[u8]) -> Result<(String, String), StoreError> {
    let RootFile { root, store, .. } = sealed::open(file, bytes, ROOT_FAMILY)?;
    Ok((root, store))
}

fn folder_of(folder: &Path, store: &str) -> PathBuf {
    folder.join("marks").join(store)
}

fn is_mark(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(".json"))
}

fn root_name(root: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    Digest::of(root.as_os_str().as_bytes()).hex().chars().take(32).collect()
}

/// A sealed file's text.
fn sealed_text(file: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string(file).map_err(io::Error::other)?;
    sealed::seal(&text).map_err(io::Error::other)
}

/// Writes a file by rename. Who was killed on the way leaves one file, which the next one takes away.
fn put<D: Disk>(disk: &D, dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let next = dir.join(format!("{name}.next"));
    let made = match disk.create_new(&next) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_folders(disk, dir)?;
            disk.create_new(&next)?
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            disk.remove(&next)?;
            disk.create_new(&next)?
        }
        made => made?,
    };
    disk.write(&made, text.as_bytes())?;
    disk.replace(&next, &dir.join(format!("{name}.json")))
}

/// Makes the folder and what is missing above it.
fn make_folders<D: Disk>(disk: &D, dir: &Path) -> io::Result<()> {
    let mut missing: Vec<&Path> = Vec::new();
    for part in dir.ancestors() {
        // What is there as a link counts as there.
        if found(disk.canonical(part))?.is_some() {
            break;
        }
        missing.push(part);
    }
    for part in missing.into_iter().rev() {
        match disk.make_dir(part) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
