//! `fsck` of one session: lock and birth mark, every commit on its own and in the chain, and what stands beside it.
//!
//! What is found is also what a repair works from: the commits that are good, the first revision that is not, and
//! which files beside the chain say something that nobody can read any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use surestep::{Commit, Digest, Entry, Envelope, Epoch, OpNumber, Revision, SessionId, StoreError};

use crate::check::{Finding, Remedy, Severity};
use crate::disk::{Disk, FileKind};
use crate::fault::{corrupt, found, io};
use crate::journal::{self, BEARING, BORN};
use crate::layout::{Layout, Place};
use crate::marks::HighMark;
use crate::{envelope, guards, mailbox, names};

/// A session as `fsck` saw it.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) place: Place,
    /// The name of its folder.
    pub(crate) name: String,
    /// Its id, where it can be told.
    pub(crate) id: Option<SessionId>,
    /// Whether anything was ever published, or may have been.
    pub(crate) published: bool,
    /// The commits from the first one on that are whole and follow from each other.
    pub(crate) good: Vec<Commit>,
    /// The contents that they name, and the sealed envelope does not hold.
    pub(crate) said: Vec<Digest>,
    /// How many of them stand in the sealed envelope.
    pub(crate) sealed: Revision,
    /// The revisions that have a file, beyond those that are sealed.
    pub(crate) files: BTreeSet<Revision>,
    /// The first revision that is not good, where there is one: missing, damaged, or not following.
    pub(crate) bad: Option<Revision>,
    /// The lock itself has to be made anew: it is gone, or is no regular file.
    pub(crate) lock_lost: bool,
    /// What stands where the folder `journal` should, and is none.
    pub(crate) journal_odd: bool,
    /// Damaged files beside the chain, with the attempt of which they may have spoken.
    pub(crate) beside: Vec<Beside>,
    /// How far it once got, where that is remembered.
    pub(crate) mark: Option<HighMark>,
    pub(crate) findings: Vec<Finding>,
}

/// A damaged file beside the chain.
#[derive(Debug, Clone)]
pub(crate) struct Beside {
    pub(crate) path: PathBuf,
    /// The operation of which it may have said something; `None`: any.
    pub(crate) op: Option<OpNumber>,
    /// Whether it may have said something about an attempt at all: a person's word does not.
    pub(crate) evidence: bool,
    pub(crate) why: String,
}

/// Looks at a session's folder; `None` where there is none.
pub(crate) fn look<D: Disk>(
    disk: &D,
    layout: &Layout,
    name: &str,
    given: Option<&SessionId>,
) -> Option<Looked> {
    let place = layout.named(name);
    let mut looked = Looked {
        id: names::is_plain(name).then(|| SessionId::new(name).ok()).flatten().or_else(|| given.cloned()),
        place,
        name: name.to_owned(),
        published: false,
        good: Vec::new(),
        said: Vec::new(),
        sealed: Revision::NONE,
        files: BTreeSet::new(),
        bad: None,
        lock_lost: false,
        journal_odd: false,
        beside: Vec::new(),
        mark: None,
        findings: Vec::new(),
    };
    let dir = looked.place.dir.clone();
    match kind(disk, &dir) {
        Ok(None) => return None,
        Ok(Some(FileKind::Directory)) => {}
        Ok(Some(odd)) => {
            let what = format!("{odd} stands where a session's folder was expected");
            looked.damaged(&dir, what, Remedy::PutBack);
            return Some(looked);
        }
        Err(error) => {
            looked.found(&error, &dir, Remedy::Access);
            return Some(looked);
        }
    }
    looked.lock_and_journal(disk);
    looked.said = looked.contents();
    looked.look_beside(disk);
    Some(looked)
}

pub(crate) fn kind<D: Disk>(disk: &D, path: &Path) -> Result<Option<FileKind>, StoreError> {
    Ok(found(disk.stat(path)).map_err(io("cannot examine", path))?.map(|stat| stat.kind))
}

impl Looked {
    /// Its id, or the name of its folder.
    pub(crate) fn shown(&self) -> &str {
        self.id.as_ref().map_or(self.name.as_str(), SessionId::as_str)
    }

    /// The contents that its good commits name, and the sealed envelope does not hold.
    fn contents(&self) -> Vec<Digest> {
        let said = |entry: &Entry| if let Entry::Said(said) = entry { Some(said.digest) } else { None };
        let journal = self.good.iter().filter(|commit| commit.revision() > self.sealed);
        journal.flat_map(Commit::entries).filter_map(said).collect()
    }

    /// Why nothing of it may be moved: a newer version's file, one that the system does not let us read, a journal that
    /// somebody put elsewhere, or a sealed envelope that is damaged.
    pub(crate) fn blocked(&self) -> Option<&Finding> {
        let whole = [self.place.journal(), self.place.envelope()];
        let elsewhere = |f: &Finding| whole.contains(&f.file) && f.remedy == Remedy::PutBack;
        let unread = |f: &Finding| matches!(f.severity, Severity::Newer | Severity::Unreadable);
        self.findings.iter().find(|f| unread(f) || elsewhere(f))
    }

    /// Compares it with its high-water mark: a journal that is whole may have lost its end.
    pub(crate) fn against_mark(&mut self, mark: Option<HighMark>) {
        self.mark = mark;
        let Some(mark) = self.mark.clone().filter(|_| self.bad.is_none() && self.blocked().is_none()) else {
            return;
        };
        let is_there = |commit: &Commit| commit.revision() == mark.revision && commit.sum() == mark.head;
        let answers = |entry: &Entry| matches!(entry, Entry::Restored(e) if e.mark_head == Some(mark.head));
        let mut entries = self.good.iter().flat_map(Commit::entries);
        if !self.good.iter().any(is_there) && !entries.any(answers) {
            let last = self.good.last().map_or(Revision::NONE, Commit::revision);
            let what =
                format!("it was put back: it stands at commit {last}, and once stood at {}", mark.revision);
            self.damaged(&self.place.dir.clone(), what, Remedy::Restored);
        }
    }

    pub(crate) fn damaged(&mut self, file: &Path, what: impl Into<String>, remedy: Remedy) {
        let finding = Finding::damaged(file, Some(self.shown()), what, remedy);
        self.findings.push(finding);
    }

    pub(crate) fn found(&mut self, error: &StoreError, file: &Path, remedy: Remedy) {
        let finding = Finding::of(error, file, Some(self.shown()), remedy);
        self.findings.push(finding);
    }

    pub(crate) fn note(&mut self, file: &Path, what: impl Into<String>) {
        let finding = Finding::note(file, Some(self.shown()), what);
        self.findings.push(finding);
    }

    fn lock_and_journal<D: Disk>(&mut self, disk: &D) {
        let lock = self.place.lock();
        let before = found(disk.read(&lock)).map_err(io("cannot read", &lock));
        self.list_journal(disk);
        self.look_sealed(disk);
        // A first publish between the two looks is no finding.
        let text = match before {
            Ok(None) => found(disk.read(&lock)).map_err(io("cannot read", &lock)),
            other => other,
        };
        let sealed = self.findings.iter().any(|f| f.file == self.place.envelope());
        let has_commits = !self.files.is_empty() || self.journal_odd || !self.good.is_empty() || sealed;
        self.published = has_commits;
        match text {
            Ok(None) if has_commits => {
                self.lock_lost = true;
                self.damaged(&lock, "the lock is gone: it is never deleted", Remedy::Repair);
            }
            Ok(None) => self.note(&self.place.dir.clone(), "never published: nothing ran here"),
            Ok(Some(text)) if text == BORN => {
                self.published = true;
                if !has_commits {
                    self.bad = Some(Revision::FIRST);
                    let journal = self.place.journal();
                    let what = "the journal is empty, and the lock says that the session was published";
                    self.damaged(&journal, what, Remedy::Repair);
                }
            }
            Ok(Some(text)) if text == BEARING => {
                if !has_commits {
                    self.note(&self.place.dir.clone(), "never published: nothing ran here");
                }
            }
            Ok(Some(_)) => {
                self.published = true;
                let what = "the lock says neither `bearing` nor `born`";
                if has_commits {
                    self.damaged(&lock, what, Remedy::Repair);
                } else {
                    self.bad = Some(Revision::FIRST);
                    self.damaged(&lock, format!("{what}, and the journal is empty"), Remedy::Repair);
                }
            }
            Err(error) => {
                self.published = true;
                self.lock_lost = matches!(error, StoreError::Corrupt { .. });
                self.found(&error, &lock, Remedy::Repair);
                if !has_commits && self.lock_lost {
                    self.bad = Some(Revision::FIRST);
                }
            }
        }
        self.tell_id(disk);
        self.read_commits(disk);
    }

    /// Reads the sealed envelope: what it holds needs no file in the journal.
    fn look_sealed<D: Disk>(&mut self, disk: &D) {
        let file = self.place.envelope();
        let read = match found(disk.read(&file)).map_err(io("cannot read", &file)) {
            Ok(None) => return,
            Ok(Some(bytes)) => {
                self.id = self.id.take().or_else(|| id_in(&bytes, &self.name));
                match &self.id {
                    Some(id) => envelope::read(disk, &self.place, id),
                    None => Err(corrupt(&file, 0, "it does not tell the id of the session")),
                }
            }
            Err(error) => Err(error),
        };
        match read {
            Ok(envelope) => {
                self.sealed = envelope.session().revision;
                self.good = envelope.commits().to_vec();
                self.files.retain(|revision| *revision > self.sealed);
            }
            Err(error) => self.found(&error, &file, Remedy::PutBack),
        }
    }

    fn list_journal<D: Disk>(&mut self, disk: &D) {
        let journal = self.place.journal();
        match kind(disk, &journal) {
            Ok(None) => return,
            Ok(Some(FileKind::Directory)) => {}
            Ok(Some(odd)) => {
                self.journal_odd = true;
                self.bad = Some(Revision::FIRST);
                let what = format!("{odd} stands where a folder was expected");
                // Behind a link the journal may be whole.
                let remedy = if odd == FileKind::Link { Remedy::PutBack } else { Remedy::Repair };
                self.damaged(&journal, what, remedy);
                return;
            }
            Err(error) => return self.found(&error, &journal, Remedy::Access),
        }
        let listed = match disk.list(&journal).map_err(io("cannot list", &journal)) {
            Ok(listed) => listed,
            Err(error) => return self.found(&error, &journal, Remedy::Access),
        };
        for name in listed {
            if let Some(revision) = names::revision(&name) {
                self.files.insert(revision);
            } else if !names::is_temp(&name) {
                self.note(&journal.join(&name), "not ours: ignored");
            }
        }
    }

    /// The id of a folder with a digest in its name: from any commit, or from what is left of one. The digest in the
    /// name says whether it is right.
    fn tell_id<D: Disk>(&mut self, disk: &D) {
        if self.id.is_none() {
            let files = self.files.iter().map(|revision| self.place.commit(*revision));
            self.id =
                files.filter_map(|file| disk.read(&file).ok()).find_map(|bytes| id_in(&bytes, &self.name));
            // Findings so far bear the folder's name; they are of this session.
            let shown = Some(self.shown().to_owned());
            for finding in &mut self.findings {
                finding.session.clone_from(&shown);
            }
        }
    }

    fn read_commits<D: Disk>(&mut self, disk: &D) {
        let Some(last) = self.files.last().copied() else { return };
        if self.files.contains(&Revision::NONE) {
            let file = self.place.commit(Revision::NONE);
            self.damaged(&file, "there is no commit 0", Remedy::Repair);
        }
        let Some(id) = self.id.clone() else {
            self.bad = Some(Revision::FIRST);
            for revision in self.files.clone() {
                let file = self.place.commit(revision);
                let read = disk.read(&file).map_err(io("cannot read", &file));
                if let Err(error) = read.and_then(|bytes| journal::parse(&file, &bytes)) {
                    self.found(&error, &file, Remedy::Name);
                } else {
                    self.damaged(&file, "it belongs to another session", Remedy::Name);
                }
            }
            return;
        };
        let Ok(mut envelope) = Envelope::from_commits(id.clone(), self.good.clone()) else { return };
        let mut revision = self.sealed.next();
        let mut beyond = Vec::new();
        while revision <= last {
            let file = self.place.commit(revision);
            let read = match kind(disk, &file) {
                Ok(None) => Err(corrupt(&file, 0, "the commit is missing, and later ones are there")),
                Ok(Some(_)) => journal::commit(disk, &self.place, &id, revision),
                Err(error) => Err(error),
            };
            match read {
                Ok(commit) if self.bad.is_none() => match envelope.take(commit.clone()) {
                    Ok(()) => self.good.push(commit),
                    Err(misfit) => {
                        self.bad = Some(revision);
                        self.damaged(&file, misfit.to_string(), Remedy::Repair);
                    }
                },
                Ok(_) => beyond.push(revision),
                Err(error) => {
                    self.bad.get_or_insert(revision);
                    self.found(&error, &file, Remedy::Repair);
                }
            }
            revision = revision.next();
        }
        if let (Some(bad), Some(first)) = (self.bad, beyond.first()) {
            let count = beyond.len();
            let commits = if count == 1 { "commit" } else { "commits" };
            let what = format!("{count} {commits} from here on: whole, but of no use without commit {bad}");
            self.damaged(&self.place.commit(*first), what, Remedy::Repair);
        }
    }

    /// The highest epoch that anything of the session names.
    pub(crate) fn epoch_max<D: Disk>(&self, disk: &D) -> Epoch {
        let good = self.good.last().map_or(Epoch::NONE, Commit::epoch);
        let commits = self.files.iter().map(|revision| self.place.commit(*revision));
        let commits = commits
            .filter_map(|file| disk.read(&file).ok().and_then(|bytes| journal::parse(&file, &bytes).ok()))
            .map(|commit| commit.epoch());
        let late = mailbox::epochs(disk, &self.place);
        let guards = guards::epochs(disk, &self.place, self.shown());
        commits.chain(late).chain(guards).max().unwrap_or(Epoch::NONE).max(good)
    }

    /// Whether an operation has not been settled for good, as far as the good commits say. One that they do not know
    /// is not.
    pub(crate) fn is_unsettled(envelope: &Envelope, op: Option<OpNumber>) -> bool {
        let operations = &envelope.session().operations;
        match op {
            Some(op) => envelope.session().operation(op).is_none_or(|o| !o.state.is_settled()),
            None => operations.iter().any(|o| !o.state.is_settled()),
        }
    }
}

/// The session id that stands in what is left of a commit, if it is the one that a folder's name was made of.
pub(crate) fn id_in(bytes: &[u8], name: &str) -> Option<SessionId> {
    const FIELD: &[u8] = b"\"session\":";
    let mut rest = bytes;
    while let Some(at) = rest.windows(FIELD.len()).position(|window| window == FIELD) {
        rest = rest.get(at + FIELD.len()..)?;
        let quoted = serde_json::Deserializer::from_slice(rest).into_iter::<String>().next();
        if let Some(Ok(id)) = quoted
            && names::of_id(&id) == name
        {
            return SessionId::new(&id).ok();
        }
    }
    None
}
