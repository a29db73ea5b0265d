//! `fsck --repair`: moves what is damaged aside, never deletes, never overwrites, and writes down what it did.
//!
//! ```text
//! <root>/aside/<time>-<random>/plan-1.json      what is about to be moved, durable before the first move
//! <root>/aside/<time>-<random>/report.json      what was moved, written and left
//! <root>/aside/<time>-<random>/sessions/…       each file under the path that it had below the root
//! ```
//!
//! What a session's repair is, and why it is safe at every instant, stands in `repair_session`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use surestep::{Now, SessionId, StoreError};

use crate::atomic;
use crate::check::{self, Checkup, Finding, Remedy, Severity};
use crate::disk::Disk;
use crate::fault::io;
use crate::layout::Layout;
use crate::repair_session;

/// How a store is repaired.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only say what would be done. Default: no.
    pub dry_run: bool,
    /// How the store is opened: which file systems are accepted, and where the high-water marks are.
    pub open: crate::Options,
    /// The clocks: a session whose journal is cut is restored as of now.
    pub now: Now,
}

/// What was done, or would be.
#[derive(Debug, Clone, Default)]
pub struct Repaired {
    /// Where things were moved; `None` where nothing was, or would only be.
    pub folder: Option<PathBuf>,
    /// What was moved, or would be, in order.
    pub moved: Vec<Moved>,
    /// What was written.
    pub written: Vec<Written>,
    /// What could not be done.
    pub refused: Vec<Refused>,
    /// The store as it is afterwards; under `dry_run`, as it is.
    pub after: Checkup,
}

/// Something that was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Its session.
    pub session: Option<String>,
    /// Where it was.
    pub from: PathBuf,
    /// Where it is; `None`: not yet, this is a dry run.
    pub to: Option<PathBuf>,
    /// Why.
    pub why: String,
}

/// Something that was written in the place of what was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its session.
    pub session: Option<String>,
    /// The file.
    pub file: PathBuf,
    /// What it says.
    pub what: String,
}

/// A session, or a file, that was left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The session, or the name of its folder.
    pub session: Option<String>,
    /// Why.
    pub why: String,
    /// What helps.
    pub remedy: Remedy,
    /// The exit code of the command line for it.
    pub exit: u8,
}

/// Repairs a store, or one session of it.
///
/// # Errors
/// When the store cannot be looked at, or nothing may be written; what one session refuses is in [`Repaired`].
pub fn repair(root: &Path, session: Option<&SessionId>, options: &Options) -> Result<Repaired, StoreError> {
    repair_on(&crate::RealDisk, root, session, options)
}

/// As [`repair`], on another disk.
///
/// # Errors
/// As [`repair`].
pub fn repair_on<D: Disk>(
    disk: &D,
    root: &Path,
    session: Option<&SessionId>,
    options: &Options,
) -> Result<Repaired, StoreError> {
    let layout = check::locate(disk, root)?;
    if !options.open.allows_volatile()
        && let Some(kind) =
            disk.volatile(&layout.root).map_err(io("cannot examine the file system of", &layout.root))?
    {
        return Err(StoreError::Volatile { path: layout.root, kind });
    }
    let (checkup, looked) = check::walk(disk, &layout, session, &options.open)?;
    if let Some(session) = session.filter(|_| looked.is_empty()) {
        return Err(StoreError::Absent { what: format!("session `{session}`") });
    }
    let mut bench = Bench {
        disk,
        layout: &layout,
        options,
        folder: None,
        plans: 0,
        store: checkup.store.clone().unwrap_or_default(),
        repaired: Repaired::default(),
    };
    if checkup.store.is_some() {
        for looked in &looked {
            let name = Some(looked.shown().to_owned());
            match repair_session::repair(&mut bench, looked) {
                Ok(()) => {}
                Err(why) => bench.refuse(name, &why),
            }
        }
        bench.move_blobs(&checkup.findings);
    } else {
        bench.repaired.refused.push(Refused {
            session: None,
            why: format!("{} cannot be read: without it nothing is moved", layout.store().display()),
            remedy: Remedy::PutBack,
            exit: surestep::exit::INTEGRITY,
        });
    }
    bench.finish(session)
}

/// What a repair works with.
pub(crate) struct Bench<'a, D: Disk> {
    pub(crate) disk: &'a D,
    pub(crate) layout: &'a Layout,
    pub(crate) options: &'a Options,
    /// `aside/<time>-<random>`, once it is made.
    folder: Option<PathBuf>,
    plans: usize,
    /// The store's id.
    pub(crate) store: String,
    pub(crate) repaired: Repaired,
}

impl<D: Disk> Bench<'_, D> {
    /// Where something goes: under its own path below the root. The folders are made, durably.
    pub(crate) fn target(&mut self, path: &Path) -> Result<PathBuf, StoreError> {
        let base = self.aside()?;
        let below = path.strip_prefix(&self.layout.root).unwrap_or(path);
        let mut folder = base.clone();
        for part in below.parent().into_iter().flat_map(Path::iter) {
            let above = folder.clone();
            folder.push(part);
            if atomic::make_folder(self.disk, &folder)? {
                atomic::sync_folder(self.disk, &above)?;
            }
        }
        Ok(base.join(below))
    }

    fn aside(&mut self) -> Result<PathBuf, StoreError> {
        if let Some(folder) = &self.folder {
            return Ok(folder.clone());
        }
        let aside = self.layout.aside();
        if atomic::make_folder(self.disk, &aside)? {
            atomic::sync_folder(self.disk, &self.layout.root)?;
        }
        let time: String =
            self.options.now.wall.to_string().chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        let random: String = surestep::random_id().chars().take(8).collect();
        let folder = aside.join(format!("{time}-{random}"));
        self.disk.make_dir(&folder).map_err(io("cannot make the folder", &folder))?;
        atomic::sync_folder(self.disk, &aside)?;
        self.folder = Some(folder.clone());
        Ok(folder)
    }

    /// Moves one thing aside.
    pub(crate) fn set_aside(
        &mut self,
        session: Option<&str>,
        from: &Path,
        why: &str,
    ) -> Result<(), StoreError> {
        let to = if self.options.dry_run {
            None
        } else {
            let to = self.target(from)?;
            self.disk.rename_new(from, &to).map_err(io("cannot move aside", from))?;
            self.sync_parents(from, &to)?;
            Some(to)
        };
        self.moved(session, from, to, why);
        Ok(())
    }

    pub(crate) fn moved(&mut self, session: Option<&str>, from: &Path, to: Option<PathBuf>, why: &str) {
        let (session, from, why) = (session.map(str::to_owned), from.to_owned(), why.to_owned());
        self.repaired.moved.push(Moved { session, from, to, why });
    }

    pub(crate) fn wrote(&mut self, session: Option<&str>, file: &Path, what: impl Into<String>) {
        let (session, file, what) = (session.map(str::to_owned), file.to_owned(), what.into());
        self.repaired.written.push(Written { session, file, what });
    }

    pub(crate) fn sync_parents(&self, one: &Path, other: &Path) -> Result<(), StoreError> {
        for path in [one, other] {
            atomic::sync_folder(self.disk, path.parent().unwrap_or(path))?;
        }
        Ok(())
    }

    pub(crate) fn refuse(&mut self, session: Option<String>, why: &StoreError) {
        let remedy = match why {
            StoreError::Corrupt { .. } => Remedy::PutBack,
            StoreError::TooNew { .. } => Remedy::NewerVersion,
            StoreError::Busy { .. } => Remedy::Repair,
            StoreError::RolledBack { .. } | StoreError::Gone { .. } => Remedy::Restored,
            StoreError::Absent { .. }
            | StoreError::HoldLost { .. }
            | StoreError::Full { .. }
            | StoreError::Io { .. }
            | StoreError::Volatile { .. }
            | StoreError::Poisoned { .. }
            | StoreError::Unsupported { .. }
            | StoreError::Other(_)
            | _ => Remedy::Access,
        };
        let source = std::error::Error::source(why).map(|e| format!(": {e}")).unwrap_or_default();
        let why = (format!("{why}{source}"), why.exit_code());
        self.repaired.refused.push(Refused { session, why: why.0, remedy, exit: why.1 });
    }

    /// Writes down, durably, what is about to be done. Nothing is moved before.
    pub(crate) fn announce(&mut self, session: Option<&str>, steps: &[String]) -> Result<(), StoreError> {
        if self.options.dry_run {
            return Ok(());
        }
        #[derive(Serialize)]
        struct Plan<'a> {
            format: &'static str,
            session: Option<&'a str>,
            at: String,
            steps: &'a [String],
        }
        self.plans += 1;
        let at = self.options.now.wall.to_string();
        let plan = Plan { format: "surestep.repair-plan/1", session, at, steps };
        let name = format!("plan-{}.json", self.plans);
        self.write_json(&name, &plan)
    }

    fn write_json(&mut self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string_pretty(value).map_err(|e| StoreError::Other(e.to_string()))?;
        let file = self.aside()?.join(name);
        atomic::publish(self.disk, &file, text.as_bytes()).map_err(|failed| match failed {
            atomic::Failed::Before(error) | atomic::Failed::Unsure(error) => error,
            atomic::Failed::Taken => StoreError::Other(format!("{} is there already", file.display())),
        })
    }

    /// Damaged contents go aside, so that the same content can be written again; the session that names one still
    /// needs it.
    fn move_blobs(&mut self, findings: &[Finding]) {
        let blobs = self.layout.blobs();
        let damaged: Vec<&Finding> = findings
            .iter()
            .filter(|f| f.severity == Severity::Damaged && f.remedy == Remedy::Repair)
            .filter(|f| f.file.starts_with(&blobs))
            .collect();
        let steps: Vec<String> = damaged.iter().map(|f| format!("move aside {}", f.file.display())).collect();
        if steps.is_empty() {
            return;
        }
        let moved = self.announce(None, &steps).and_then(|()| {
            damaged.iter().try_for_each(|f| self.set_aside(f.session.as_deref(), &f.file, &f.what))
        });
        if let Err(why) = moved {
            self.refuse(None, &why);
        }
    }

    fn finish(mut self, session: Option<&SessionId>) -> Result<Repaired, StoreError> {
        let (after, _) = check::walk(self.disk, self.layout, session, &self.options.open)?;
        self.repaired.after = after;
        self.repaired.after.findings.sort_by(|a, b| a.file.cmp(&b.file));
        if self.folder.is_some() {
            let report = Report::of(&self.repaired, self.options);
            self.write_json("report.json", &report)?;
        }
        self.repaired.folder = self.folder;
        Ok(self.repaired)
    }
}

/// `report.json`.
#[derive(Serialize)]
struct Report {
    format: &'static str,
    at: String,
    moved: Vec<Line>,
    written: Vec<Line>,
    refused: Vec<Line>,
    still_wrong: Vec<Line>,
}

/// A line of it.
#[derive(Serialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    why: String,
}

impl Report {
    fn of(repaired: &Repaired, options: &Options) -> Self {
        let shown = |path: &Path| Some(path.to_string_lossy().into_owned());
        let wrong = repaired.after.findings.iter().filter(|f| f.severity != Severity::Note);
        let moved = |m: &Moved| Line {
            session: m.session.clone(),
            file: shown(&m.from),
            to: m.to.as_deref().and_then(shown),
            why: m.why.clone(),
        };
        let line = |session: &Option<String>, file: Option<&Path>, why: &str| Line {
            session: session.clone(),
            file: file.and_then(shown),
            to: None,
            why: why.to_owned(),
        };
        Self {
            format: "surestep.repair/1",
            at: options.now.wall.to_string(),
            moved: repaired.moved.iter().map(moved).collect(),
            written: repaired.written.iter().map(|w| line(&w.session, Some(&w.file), &w.what)).collect(),
            refused: repaired.refused.iter().map(|r| line(&r.session, None, &r.why)).collect(),
            still_wrong: wrong.map(|f| line(&f.session, Some(&f.file), &f.what)).collect(),
        }
    }
}
