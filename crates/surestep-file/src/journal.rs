//! Reading a session: is it there, is it whole, and what do its commits say.
//!
//! ```text
//! lock          journal     says
//! none          empty       there is no such session
//! none          commits     Corrupt: the lock is never deleted
//! `bearing`     empty       never acknowledged: may start (its first publish may have died on the way)
//! `bearing`     commits     the first publish is there, its acknowledgement is not known: the next hold writes `born`
//! `born`        empty       Corrupt: something was acknowledged here, and it is gone
//! `born`        commits     a session
//! ```
//!
//! A sealed session (`envelope.json`) counts as one with commits: the journal goes on behind what the envelope holds.
//!
//! Where a high-water mark tells how far the session once got, an emptied journal is one that was rolled back.
//!
//! Decision: the birth mark is written in two halves. `bearing` stands in the lock from its first instant; `born` is
//! written over it, and made durable, after the first commit is durable and *before* that commit is acknowledged. So
//! no effect ever ran under `bearing`, and a first publish that died anywhere can start anew; while after `born` an
//! emptied journal is never taken for a fresh session. Writing `born` before the first rename (and nothing else)
//! could not tell the two apart.
//!
//! The lock is looked at before the journal is listed: a first publish in between makes both richer, never a
//! contradiction. Commits are looked up by their names, not only listed, for the same reason. Names that are not of
//! the form `00000003.json` are not ours and are ignored.

use std::collections::BTreeSet;
use std::path::Path;

use surestep::core::{CommitError, json};
use surestep::{Commit, Revision, SessionId, StoreError};

use crate::disk::{Disk, FileKind};
use crate::fault::{corrupt, found, io};
use crate::layout::Place;
use crate::{envelope, names};

/// What a lock says from its first instant. As long as [`BORN`]: overwriting it changes no length, in one sector.
pub(crate) const BEARING: &[u8] = b"bearing\n";
/// What a lock says once a commit may have been acknowledged.
pub(crate) const BORN: &[u8] = b"born   \n";

/// What the lock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Birth {
    /// There is no lock.
    None,
    /// Nothing was ever acknowledged.
    Bearing,
    /// Something may have been acknowledged.
    Born,
    /// Something else: it counts as born, and is written anew where there is a journal.
    Damaged,
}

/// What is known of a session before its commits are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Survey {
    /// What the lock says.
    pub(crate) birth: Birth,
    /// The last revision, without a gap before it.
    pub(crate) last: Revision,
    /// How many commits stand in the sealed envelope.
    pub(crate) sealed: Revision,
}

impl Survey {
    /// Whether nothing was ever published.
    pub(crate) fn is_absent(&self) -> bool {
        self.last == Revision::NONE
    }
}

/// Looks at a session; told whether there is a mark of it.
pub(crate) fn survey<D: Disk>(disk: &D, place: &Place, marked: bool) -> Result<Survey, StoreError> {
    let stat = found(disk.stat(&place.dir)).map_err(io("cannot examine", &place.dir))?;
    match stat.map(|stat| stat.kind) {
        None => {
            return Ok(Survey { birth: Birth::None, last: Revision::NONE, sealed: Revision::NONE });
        }
        Some(FileKind::Directory) => {}
        Some(odd @ (FileKind::Regular | FileKind::Link | FileKind::Special)) => {
            return Err(corrupt(
                &place.dir,
                0,
                format!("{odd} stands where a session's folder was expected"),
            ));
        }
    }
    let mut birth = birth(disk, place)?;
    let (last, sealed) = last(disk, place)?;
    if birth == Birth::None && last != Revision::NONE {
        birth = self::birth(disk, place)?; // it may have come between the two looks
    }
    match (birth, last == Revision::NONE) {
        (Birth::None, false) => {
            Err(corrupt(place.lock(), 0, "the lock is gone and the journal is not: it is never deleted"))
        }
        (Birth::Born | Birth::Damaged, true) if marked => Ok(Survey { birth, last, sealed }),
        (Birth::Born, true) => Err(corrupt(
            place.journal(),
            0,
            "the journal is empty, and the lock says that the session was published",
        )),
        (Birth::Damaged, true) => Err(corrupt(
            place.lock(),
            0,
            "the lock says neither `bearing` nor `born`, and the journal is empty",
        )),
        (Birth::None | Birth::Bearing, true) | (Birth::Bearing | Birth::Born | Birth::Damaged, false) => {
            Ok(Survey { birth, last, sealed })
        }
    }
}

fn birth<D: Disk>(disk: &D, place: &Place) -> Result<Birth, StoreError> {
    let lock = place.lock();
    let text = found(disk.read(&lock)).map_err(io("cannot read", &lock))?;
    Ok(match text.as_deref() {
        None => Birth::None,
        Some(BEARING) => Birth::Bearing,
        Some(BORN) => Birth::Born,
        Some(_) => Birth::Damaged,
    })
}

/// The revisions that are listed in the journal.
pub(crate) fn listed<D: Disk>(disk: &D, place: &Place) -> Result<BTreeSet<Revision>, StoreError> {
    let journal = place.journal();
    let names = found(disk.list(&journal)).map_err(io("cannot list", &journal))?.unwrap_or_default();
    Ok(names.iter().filter_map(|name| names::revision(name)).collect())
}

/// The last revision of the session, and the last one that is sealed.
pub(crate) fn last<D: Disk>(disk: &D, place: &Place) -> Result<(Revision, Revision), StoreError> {
    // The listing first: sealing makes the envelope durable before it removes what the envelope holds.
    let listed = listed(disk, place)?;
    let sealed = envelope::peek(disk, place)?.map_or(Revision::NONE, |peek| peek.revision);
    let Some(last) = listed.last().copied().filter(|last| *last > sealed) else {
        return Ok((sealed, sealed));
    };
    if listed.contains(&Revision::NONE) {
        return Err(corrupt(place.commit(Revision::NONE), 0, "there is no commit 0"));
    }
    let mut revision = sealed.next();
    while revision < last {
        let file = place.commit(revision);
        // A listing that runs beside a publish may miss a name: ask for it before calling it gone.
        let there = listed.contains(&revision)
            || found(disk.stat(&file)).map_err(io("cannot examine", &file))?.is_some();
        if !there {
            return Err(corrupt(file, 0, format!("the commit is missing, and commit {last} is there")));
        }
        revision = revision.next();
    }
    Ok((last, sealed))
}

/// Reads one commit, which is there, and checks that it is what its place says.
pub(crate) fn commit<D: Disk>(
    disk: &D,
    place: &Place,
    session: &SessionId,
    revision: Revision,
) -> Result<Commit, StoreError> {
    let file = place.commit(revision);
    let bytes = found(disk.read(&file)).map_err(io("cannot read", &file))?;
    let bytes = bytes.ok_or_else(|| corrupt(&file, 0, "the commit is missing"))?;
    let commit = parse(&file, &bytes)?;
    if commit.session() != session {
        let why = format!("it belongs to session `{}`, not to `{session}`", commit.session());
        return Err(corrupt(file, 0, why));
    }
    if commit.revision() != revision {
        return Err(corrupt(file, 0, format!("it is commit {}, not {revision}", commit.revision())));
    }
    Ok(commit)
}

/// Reads a commit's text strictly.
pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<Commit, StoreError> {
    let text = json::text(bytes).map_err(|error| corrupt(file, error.offset, error.why.to_string()))?;
    Commit::parse(text).map_err(|error| {
        if let CommitError::TooNew { what } = error {
            return StoreError::TooNew { file: file.to_owned(), what };
        }
        let offset = if let CommitError::Json(json) = &error { json.offset } else { 0 };
        corrupt(file, offset, error.to_string())
    })
}

/// Reads the commits of a session from a revision on: those that are sealed, then the journal's.
pub(crate) fn commits<D: Disk>(
    disk: &D,
    place: &Place,
    session: &SessionId,
    from: Revision,
    survey: Survey,
) -> Result<Vec<Commit>, StoreError> {
    let mut revision = from.max(Revision::FIRST);
    let mut commits = Vec::new();
    if revision <= survey.sealed {
        commits = envelope::commits(disk, place, session, revision)?;
        // It may have been sealed anew, with more, since it was looked at.
        revision = commits.last().map_or(revision, |last| last.revision().next());
    }
    while revision <= survey.last {
        match commit(disk, place, session, revision) {
            Ok(one) => commits.push(one),
            // It was sealed since it was looked at: then it stands there.
            Err(error) => match envelope::peek(disk, place)? {
                Some(peek) if peek.revision >= revision && peek.revision > survey.sealed => {
                    let sealed = envelope::commits(disk, place, session, revision)?;
                    revision = sealed.last().map_or(revision, Commit::revision);
                    commits.extend(sealed);
                }
                Some(_) | None => return Err(error),
            },
        }
        revision = revision.next();
    }
    Ok(commits)
}
