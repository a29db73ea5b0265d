//! `fsck`: reads a whole store and says what is wrong with it. It takes no lock, makes nothing and changes nothing.
//!
//! ```text
//! surestep.json   sessions/<name> (check_session, check_beside)   blobs, aside, marks, all else (check_store)
//! ```
//!
//! A session that somebody holds is read beside its owner: what its owner adds, answers or sweeps meanwhile is no
//! finding. Each finding has one file, and says what helps: [`Remedy`].

use std::path::{Path, PathBuf};

use surestep::{SessionId, StoreError};

use crate::check_session::{self, Looked};
use crate::check_store::{check_blobs, check_marked, check_root};
use crate::disk::Disk;
use crate::fault::{found, io};
use crate::layout::Layout;
use crate::{Options, names, open};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing has to be done.
    Note,
    /// Written by a newer version.
    Newer,
    /// Not what was written there.
    Damaged,
    /// The system does not let it be read.
    Unreadable,
}

impl Severity {
    /// The word that screens and `--json` use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Newer => "newer",
            Self::Damaged => "damaged",
            Self::Unreadable => "unreadable",
        }
    }

    /// The exit code of the command line for it.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        use surestep::exit;
        match self {
            Self::Note => exit::DONE,
            Self::Newer => exit::VERSION,
            Self::Damaged => exit::INTEGRITY,
            Self::Unreadable => exit::STORE,
        }
    }
}

/// What helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing is needed.
    Nothing,
    /// `fsck --repair` moves it aside, and what it may have said is asked for anew.
    Repair,
    /// `fsck --restored`: the journal is whole, and shorter than it once was.
    Restored,
    /// `fsck --repair` by the session's id, which only a person can tell.
    Name,
    /// Only the file's own content, from a copy of the store.
    PutBack,
    /// A version that can read it.
    NewerVersion,
    /// Rights, or another disk.
    Access,
}

/// One thing that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The session, or the name of its folder where its id cannot be told; `None`: not of one session.
    pub session: Option<String>,
    /// The file.
    pub file: PathBuf,
    /// Where in it, in bytes; `None` where the whole file is meant.
    pub offset: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// What helps.
    pub remedy: Remedy,
}

/// What was looked at, and what was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkup {
    /// The root: absolute, without links.
    pub root: PathBuf,
    /// The store's id, if its file can be read.
    pub store: Option<String>,
    /// Sessions that were published.
    pub sessions: usize,
    /// Commits that are whole and in their place.
    pub commits: u64,
    /// Contents that are whole.
    pub blobs: usize,
    /// Contents that no session of the store names. Only counted when the whole store is looked at.
    pub blobs_unreferenced: usize,
    /// Folders below `aside`: earlier repairs.
    pub aside: usize,
    /// What was found, by file.
    pub findings: Vec<Finding>,
}

impl Finding {
    /// From the store's own error.
    pub(crate) fn of(error: &StoreError, file: &Path, session: Option<&str>, helps: Remedy) -> Self {
        let session = session.map(str::to_owned);
        let make = |severity, file: &Path, offset, what: String, remedy| Self {
            severity,
            session: session.clone(),
            file: file.to_owned(),
            offset,
            what,
            remedy,
        };
        match error {
            StoreError::Corrupt { file, offset, why } => {
                let offset = Some(*offset).filter(|offset| *offset > 0);
                make(Severity::Damaged, file, offset, why.clone(), helps)
            }
            StoreError::TooNew { file, what } => {
                let what = format!("written by a newer version: {what}");
                make(Severity::Newer, file, None, what, Remedy::NewerVersion)
            }
            StoreError::Io { did, path, source } => {
                make(Severity::Unreadable, path, None, format!("{did} it: {source}"), Remedy::Access)
            }
            StoreError::Full { path, source } => {
                make(Severity::Unreadable, path, None, format!("cannot read it: {source}"), Remedy::Access)
            }
            StoreError::Absent { .. }
            | StoreError::Busy { .. }
            | StoreError::HoldLost { .. }
            | StoreError::Volatile { .. }
            | StoreError::Poisoned { .. }
            | StoreError::Unsupported { .. }
            | _ => make(Severity::Unreadable, file, None, error.to_string(), Remedy::Access),
        }
    }

    pub(crate) fn note(file: &Path, session: Option<&str>, what: impl Into<String>) -> Self {
        let (session, what) = (session.map(str::to_owned), what.into());
        let (severity, remedy) = (Severity::Note, Remedy::Nothing);
        Self { severity, session, file: file.to_owned(), offset: None, what, remedy }
    }

    pub(crate) fn damaged(
        file: &Path,
        session: Option<&str>,
        what: impl Into<String>,
        remedy: Remedy,
    ) -> Self {
        Self { severity: Severity::Damaged, remedy, ..Self::note(file, session, what) }
    }
}

/// Looks at a store, or at one session of it.
///
/// # Errors
/// [`StoreError::Absent`] when there is no such store or session; else only when nothing at all can be read.
pub fn check(root: &Path, session: Option<&SessionId>, options: &Options) -> Result<Checkup, StoreError> {
    check_on(&crate::RealDisk, root, session, options)
}

/// As [`check`], on another disk.
///
/// # Errors
/// As [`check`].
pub fn check_on<D: Disk>(
    disk: &D,
    root: &Path,
    session: Option<&SessionId>,
    options: &Options,
) -> Result<Checkup, StoreError> {
    let layout = locate(disk, root)?;
    let (mut checkup, looked) = walk(disk, &layout, session, options)?;
    if session.is_some() && looked.is_empty() && checkup.findings.is_empty() {
        let what = session.map_or_else(String::new, |session| format!("session `{session}`"));
        return Err(StoreError::Absent { what });
    }
    checkup.findings.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(checkup)
}

/// Where the store is.
pub(crate) fn locate<D: Disk>(disk: &D, root: &Path) -> Result<Layout, StoreError> {
    let absent = || StoreError::Absent { what: format!("the store {}", root.display()) };
    let absolute = std::path::absolute(root).map_err(io("cannot make absolute", root))?;
    let root = found(disk.canonical(&absolute)).map_err(io("cannot find", &absolute))?.ok_or_else(absent)?;
    let layout = Layout { root };
    let there = |path: &Path| found(disk.stat(path)).map_err(io("cannot examine", path));
    if there(&layout.store())?.is_none() && there(&layout.sessions())?.is_none() {
        return Err(absent());
    }
    Ok(layout)
}

/// Everything, and each session as it was looked at.
pub(crate) fn walk<D: Disk>(
    disk: &D,
    layout: &Layout,
    only: Option<&SessionId>,
    options: &Options,
) -> Result<(Checkup, Vec<Looked>), StoreError> {
    let mut checkup = Checkup { root: layout.root.clone(), ..Checkup::default() };
    match open::read_id(disk, layout) {
        Ok(Some(id)) => checkup.store = Some(id),
        Ok(None) => {
            checkup.findings.push(Finding::damaged(&layout.store(), None, "it is gone", Remedy::PutBack));
        }
        Err(error) => {
            checkup.findings.push(Finding::of(&error, &layout.store(), None, Remedy::PutBack));
        }
    }
    let marks = options.marks_of(checkup.store.as_deref().unwrap_or_default(), &layout.root);
    let mut all = Vec::new();
    for name in session_names(disk, layout, only, &mut checkup)? {
        // The mark first: a commit that is published in between only adds. It also knows the id.
        let mark = checkup.store.as_ref().and_then(|_| marks.named(disk, &name));
        let id = only.or_else(|| mark.as_ref().map(|mark| &mark.session)).cloned();
        let looked = check_session::look(disk, layout, &name, id.as_ref());
        let Some(mut looked) = looked else { continue };
        looked.against_mark(mark);
        checkup.sessions += usize::from(looked.published);
        checkup.commits += looked.good.len() as u64;
        checkup.findings.extend(looked.findings.iter().cloned());
        if looked.findings.iter().all(|finding| finding.severity == Severity::Note) {
            looked.good = Vec::new(); // nobody needs its commits any more, and there may be many sessions
        }
        all.push(looked);
    }
    check_blobs(disk, layout, &all, only.is_some(), &mut checkup);
    if checkup.store.is_some() {
        check_marked(disk, layout, &marks, only, &mut checkup);
    }
    if only.is_none() {
        check_root(disk, layout, &mut checkup);
    }
    Ok((checkup, all))
}

fn session_names<D: Disk>(
    disk: &D,
    layout: &Layout,
    only: Option<&SessionId>,
    checkup: &mut Checkup,
) -> Result<Vec<String>, StoreError> {
    if let Some(session) = only {
        return Ok(vec![names::of_id(session.as_str())]);
    }
    let folder = layout.sessions();
    let mut ours = Vec::new();
    for name in found(disk.list(&folder)).map_err(io("cannot list", &folder))?.unwrap_or_default() {
        match name.to_str().filter(|name| names::is_plain(name) || names::is_hashed(name)) {
            Some(name) => ours.push(name.to_owned()),
            None => checkup.findings.push(Finding::note(&folder.join(&name), None, "not ours: ignored")),
        }
    }
    ours.sort();
    Ok(ours)
}
