//! The repair of one session, under its lock.
//!
//! Lost commits may have run operations. So a journal that is cut at revision k gets, *at* k, a commit that says
//! `restored`: from it on, every operation that is not settled, and each one bound later, starts in doubt, until a
//! look-up earned from now on, or a person, says what became of it. The same holds where a lock, or evidence of an
//! unsettled attempt, is lost.
//!
//! ```text
//! k damaged:  n … k+1 aside (from the end)        k swapped, at once, for `restored`
//! k missing:  n … k+2 aside     `restored` at k     k+1 aside
//! all whole:  `restored` behind the last            then the damaged evidence aside
//! ```
//!
//! Invariant: at every instant the session either does not load (it is damaged, as before), or it loads with
//! `restored` as its last commit. It never loads as a shorter journal. A repair that died half-way is repeated; the
//! highest revision and epoch of what it moved are read back from `aside`.

use std::path::{Path, PathBuf};

use surestep::core::Extra;
use surestep::core::commit::{COMMIT_FORMAT, CommitFields};
use surestep::core::entry::Restored;
use surestep::{Commit, Envelope, Epoch, Holder, Revision, SessionId, StoreError};

use crate::atomic;
use crate::check::{Remedy, Severity};
use crate::check_session::{self, Beside, Looked};
use crate::disk::Disk;
use crate::fault::{corrupt, found, io};
use crate::journal::{self, BORN};
use crate::repair::{Bench, Refused};
use crate::repair_home::lives_here;
use crate::{guards, hold, names};

/// One act of a repair.
enum Step {
    /// Moves something aside.
    Aside(PathBuf, String),
    /// Puts a new file where nothing is.
    Place(PathBuf, Commit),
    /// Puts a new file in the place of what goes aside, at once.
    Swap(PathBuf, Commit, String),
    /// Puts a new folder, with the first commit in it, in the place of what goes aside, at once.
    SwapFolder(PathBuf, Commit, String),
    /// Writes the birth mark anew; a copy of what the lock said goes aside.
    Mark(PathBuf),
}

/// Repairs a session, if there is something to repair.
pub(crate) fn repair<D: Disk>(bench: &mut Bench<'_, D>, seen: &Looked) -> Result<(), StoreError> {
    let wrong = |looked: &Looked| {
        looked
            .findings
            .iter()
            .any(|f| f.severity == Severity::Damaged && matches!(f.remedy, Remedy::Repair | Remedy::Name))
    };
    if !wrong(seen) {
        return Ok(());
    }
    let Some(id) = seen.id.clone() else {
        bench.repaired.refused.push(Refused {
            session: Some(seen.name.clone()),
            why: "nobody can tell its id: name it, `fsck --repair SESSION`, or put one of its commits back"
                .into(),
            remedy: Remedy::Name,
            exit: surestep::exit::INTEGRITY,
        });
        return Ok(());
    };
    if bench.options.dry_run {
        let steps = plan(bench, seen, &id)?;
        return carry_out(bench, &id, steps);
    }
    let lock = take_lock(bench, seen, &id)?;
    // What it looks like now that nobody else can change it.
    let Some(looked) = check_session::look(bench.disk, bench.layout, &seen.name, Some(&id)) else {
        return Ok(());
    };
    // A lock that had to be made anew proves nothing about who had the old one.
    let looked = Looked { lock_lost: seen.lock_lost, mark: seen.mark.clone(), ..looked };
    if wrong(&looked) || looked.lock_lost {
        let steps = plan(bench, &looked, &id)?;
        carry_out(bench, &id, steps)?;
    }
    drop(lock);
    Ok(())
}

/// What has to be done, in order.
fn plan<D: Disk>(bench: &Bench<'_, D>, looked: &Looked, id: &SessionId) -> Result<Vec<Step>, StoreError> {
    if let Some(finding) = looked.blocked() {
        let why = format!("nothing of this session is moved: {}", finding.what);
        return Err(match finding.severity {
            Severity::Newer => StoreError::TooNew { file: finding.file.clone(), what: finding.what.clone() },
            Severity::Note | Severity::Damaged | Severity::Unreadable => {
                StoreError::Other(format!("{}: {why}", finding.file.display()))
            }
        });
    }
    let folded = Envelope::from_commits(id.clone(), looked.good.clone())
        .map_err(|error| corrupt(looked.place.journal(), 0, error.to_string()))?;
    let cut = looked.bad.unwrap_or_else(|| folded.session().revision.next());
    let silenced = |beside: &&Beside| beside.evidence && Looked::is_unsettled(&folded, beside.op);
    let restores = looked.bad.is_some()
        || looked.beside.iter().any(|beside| silenced(&beside))
        || (looked.lock_lost && Looked::is_unsettled(&folded, None));
    if restores {
        lives_here(bench, looked, &folded, cut)?;
    }
    let mut steps = Vec::new();
    if let Some(finding) = looked.findings.iter().find(|f| f.file == looked.place.lock() && !looked.lock_lost)
        && finding.severity == Severity::Damaged
    {
        steps.push(Step::Mark(looked.place.lock()));
    }
    if looked.files.contains(&Revision::NONE) {
        steps.push(Step::Aside(looked.place.commit(Revision::NONE), "there is no commit 0".into()));
    }
    if restores {
        let commit = restored(bench, looked, &folded, cut)?;
        journal_steps(bench, looked, cut, commit, &mut steps)?;
    }
    let beside = looked.beside.iter().map(|b| Step::Aside(b.path.clone(), b.why.clone()));
    steps.extend(beside);
    Ok(steps)
}

fn journal_steps<D: Disk>(
    bench: &Bench<'_, D>,
    looked: &Looked,
    cut: Revision,
    commit: Commit,
    steps: &mut Vec<Step>,
) -> Result<(), StoreError> {
    let file = looked.place.commit(cut);
    let why = looked.findings.iter().find(|f| f.file == file).map_or_else(String::new, |f| f.what.clone());
    if looked.journal_odd {
        let journal = looked.place.journal();
        let why =
            looked.findings.iter().find(|f| f.file == journal).map_or_else(String::new, |f| f.what.clone());
        steps.push(Step::SwapFolder(journal, commit, why));
        return Ok(());
    }
    let after = |revision: &Revision| {
        Step::Aside(looked.place.commit(*revision), format!("it follows commit {cut}, which is lost"))
    };
    let there = found(bench.disk.stat(&file)).map_err(io("cannot examine", &file))?.is_some();
    // From the end: what is left is damaged until `restored` stands at the cut.
    let keep_until = if there { cut } else { cut.next() };
    steps.extend(looked.files.iter().rev().filter(|r| **r > keep_until).map(after));
    if there {
        steps.push(Step::Swap(file, commit, why));
    } else {
        steps.push(Step::Place(file, commit));
        steps.extend(looked.files.iter().filter(|r| **r == keep_until).map(after));
    }
    Ok(())
}

/// The commit that says `restored`.
fn restored<D: Disk>(
    bench: &Bench<'_, D>,
    looked: &Looked,
    folded: &Envelope,
    cut: Revision,
) -> Result<Commit, StoreError> {
    let session = folded.session();
    let (earlier_revision, earlier_epoch) = earlier(bench, looked);
    let last = looked.files.last().copied().unwrap_or(Revision::NONE);
    let mark = looked.mark.as_ref();
    let once = mark.map_or(Revision::NONE, |mark| mark.revision);
    let mark_revision = last.max(earlier_revision).max(cut).max(session.revision).max(once);
    // Each lost commit may have raised the epoch by one.
    let lost = if looked.bad.is_some() { mark_revision.value() + 1 - cut.value() } else { 0 };
    let at_most = Epoch::new(session.epoch.value().saturating_add(lost));
    let once = mark.map_or(Epoch::NONE, |mark| mark.epoch);
    let mark_epoch = looked.epoch_max(bench.disk).max(earlier_epoch).max(at_most).max(once);
    let now = &bench.options.now;
    let entry = Restored {
        mark_revision,
        mark_epoch,
        boot: now.mark.boot.clone(),
        since_boot_ms: now.mark.since_boot_ms,
        mark_head: mark.map(|mark| mark.head),
        extra: Extra::default(),
    };
    let fields = CommitFields {
        format: COMMIT_FORMAT.into(),
        session: session.id.clone(),
        revision: cut,
        epoch: session.epoch,
        at: now.wall,
        entries: vec![entry.into()],
        prev: session.head,
        extra: Extra::default(),
    };
    let commit = Commit::seal(fields).map_err(|error| StoreError::Other(error.to_string()))?;
    // A session that lives elsewhere, or does not take the entry, is not ours to go on with.
    folded.clone().take(commit.clone()).map_err(|misfit| {
        corrupt(looked.place.journal(), 0, format!("its good commits cannot be gone on from: {misfit}"))
    })?;
    Ok(commit)
}

/// The highest revision and epoch of this session's commits that earlier repairs moved aside.
fn earlier<D: Disk>(bench: &Bench<'_, D>, looked: &Looked) -> (Revision, Epoch) {
    let mut highest = (Revision::NONE, Epoch::NONE);
    let aside = bench.layout.aside();
    for repair in bench.disk.list(&aside).unwrap_or_default() {
        let journal = aside.join(repair).join("sessions").join(&looked.name).join("journal");
        for name in bench.disk.list(&journal).unwrap_or_default() {
            let file = journal.join(&name);
            let Some(revision) = names::revision(&name) else { continue };
            highest.0 = highest.0.max(revision);
            if let Some(commit) = bench.disk.read(&file).ok().and_then(|b| journal::parse(&file, &b).ok()) {
                highest.1 = highest.1.max(commit.epoch());
            }
        }
    }
    highest
}

/// Takes the session's lock, or makes it anew where it is gone. Who had the one that is gone may still be at it: whoever
/// is seen alive of those that left a note has to end first.
fn take_lock<D: Disk>(
    bench: &mut Bench<'_, D>,
    looked: &Looked,
    id: &SessionId,
) -> Result<D::File, StoreError> {
    let (disk, place) = (bench.disk, &looked.place);
    let lock = if looked.lock_lost {
        let alive = hold::alive(disk, place, id);
        if !alive.is_empty() {
            return Err(StoreError::Busy { holder: Holder { what: alive.join("; ") } });
        }
        new_lock(bench, looked)?
    } else {
        hold::lock(disk, place, id)?.0
    };
    let orphans = guards::orphans(bench.disk, place, id)?;
    if orphans.is_empty() {
        return Ok(lock);
    }
    Err(StoreError::Busy { holder: Holder { what: orphans.join("; ") } })
}

/// Makes the lock anew: it is locked by us before it has its name.
fn new_lock<D: Disk>(bench: &mut Bench<'_, D>, looked: &Looked) -> Result<D::File, StoreError> {
    let disk = bench.disk;
    let lock = looked.place.lock();
    bench.announce(Some(looked.shown()), &[format!("make {} anew", lock.display())])?;
    let target = bench.target(&lock)?;
    let temp = atomic::written(disk, target.parent().unwrap_or(&target), BORN, None)?;
    if !disk.try_lock(&temp.file).map_err(io("cannot lock", &temp.path))? {
        return Err(StoreError::HoldLost { why: format!("{} is locked by somebody", temp.path.display()) });
    }
    if found(disk.stat(&lock)).map_err(io("cannot examine", &lock))?.is_some() {
        disk.rename_new(&temp.path, &target).map_err(io("cannot name", &target))?;
        disk.exchange(&target, &lock).map_err(io("cannot swap", &lock))?;
        bench.moved(Some(looked.shown()), &lock, Some(target.clone()), "it is no regular file");
    } else {
        disk.rename_new(&temp.path, &lock).map_err(io("cannot make anew", &lock))?;
    }
    bench.sync_parents(&lock, &target)?;
    bench.wrote(Some(looked.shown()), &lock, "a new lock, which says `born`");
    Ok(temp.file)
}

fn carry_out<D: Disk>(bench: &mut Bench<'_, D>, id: &SessionId, steps: Vec<Step>) -> Result<(), StoreError> {
    if steps.is_empty() {
        return Ok(());
    }
    let said: Vec<String> = steps.iter().map(Step::said).collect();
    bench.announce(Some(id.as_str()), &said)?;
    steps.into_iter().try_for_each(|step| step.carry_out(bench, id.as_str()))
}

impl Step {
    fn said(&self) -> String {
        match self {
            Self::Aside(path, why) => format!("move aside {}: {why}", path.display()),
            Self::Place(path, _) => format!("write {}: restored", path.display()),
            Self::Swap(path, _, why) => format!("swap {} for restored: {why}", path.display()),
            Self::SwapFolder(path, _, why) => format!("swap the folder {}: {why}", path.display()),
            Self::Mark(path) => format!("write the birth mark anew into {}", path.display()),
        }
    }

    fn carry_out<D: Disk>(self, bench: &mut Bench<'_, D>, session: &str) -> Result<(), StoreError> {
        let disk = bench.disk;
        let dry = bench.options.dry_run;
        let of = Some(session);
        match self {
            Self::Aside(path, why) => bench.set_aside(of, &path, &why),
            Self::Place(path, commit) => {
                if !dry {
                    let folder = path.parent().unwrap_or(&path);
                    if atomic::make_folder(disk, folder)? {
                        atomic::sync_folder(disk, folder.parent().unwrap_or(folder))?;
                    }
                    let temp = atomic::written(disk, folder, commit.text().as_bytes(), None)?;
                    disk.rename_new(&temp.path, &path).map_err(io("cannot write", &path))?;
                    atomic::sync_folder(disk, folder)?;
                }
                bench.wrote(of, &path, said(&commit));
                Ok(())
            }
            Self::Swap(path, commit, why) => {
                let mut to = None;
                if !dry {
                    let target = bench.target(&path)?;
                    prepare(bench, &target, &commit)?;
                    disk.exchange(&target, &path).map_err(io("cannot swap", &path))?;
                    bench.sync_parents(&path, &target)?;
                    to = Some(target);
                }
                bench.moved(of, &path, to, &why);
                bench.wrote(of, &path, said(&commit));
                Ok(())
            }
            Self::SwapFolder(path, commit, why) => {
                let mut to = None;
                let first = path.join(names::of_commit(Revision::FIRST).unwrap_or_default());
                if !dry {
                    let inside = bench.target(&first)?;
                    prepare(bench, &inside, &commit)?;
                    let target = bench.target(&path)?;
                    disk.exchange(&target, &path).map_err(io("cannot swap", &path))?;
                    bench.sync_parents(&path, &target)?;
                    to = Some(target);
                }
                bench.moved(of, &path, to, &why);
                bench.wrote(of, &first, said(&commit));
                Ok(())
            }
            Self::Mark(path) => {
                if !dry {
                    let bytes = disk.read(&path).map_err(io("cannot read", &path))?;
                    let target = bench.target(&path)?;
                    keep_copy(bench, &target, &bytes)?;
                    let file = disk.open(&path).map_err(io("cannot open", &path))?;
                    disk.write(&file, BORN).map_err(io("cannot write the birth mark into", &path))?;
                    disk.truncate(&file, BORN.len() as u64).map_err(io("cannot cut", &path))?;
                    disk.sync(&file).map_err(io("cannot make durable", &path))?;
                    drop(file);
                }
                bench.wrote(of, &path, "the birth mark `born`; a copy of what stood there is aside");
                Ok(())
            }
        }
    }
}

fn said(commit: &Commit) -> String {
    format!(
        "commit {}: restored. What was not settled before it, and what is bound later, starts in doubt",
        commit.revision()
    )
}

/// Writes a commit under the name from which it will be swapped in.
fn prepare<D: Disk>(bench: &Bench<'_, D>, target: &Path, commit: &Commit) -> Result<(), StoreError> {
    keep_copy(bench, target, commit.text().as_bytes())
}

fn keep_copy<D: Disk>(bench: &Bench<'_, D>, target: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let folder = target.parent().unwrap_or(target);
    let temp = atomic::written(bench.disk, folder, bytes, None)?;
    bench.disk.rename_new(&temp.path, target).map_err(io("cannot name", target))?;
    atomic::sync_folder(bench.disk, folder)
}
