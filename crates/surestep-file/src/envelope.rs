//! A sealed session: `envelope.json` holds its first commits and what was said in them; the journal goes on behind it.
//!
//! ```text
//! seal: read all -> write the envelope anew, durable -> read it back: the same ? -> rename over `envelope.json`
//!       -> fsync the folder -> remove the commits that it holds, oldest first
//! ```
//! Until the folder is durable no commit is removed, and what the envelope holds is read from it alone: so a crash
//! anywhere leaves a whole session, and commits that are left over do no harm.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use surestep::core::{Corrupt, json};
use surestep::{Commit, Digest, Envelope, Revision, SessionId, StoreError};

use crate::atomic;
use crate::disk::{Disk, Identity};
use crate::fault::{corrupt, found, io};
use crate::held::Held;
use crate::journal;
use crate::layout::Place;
use crate::store::Shared;

/// What is looked at before an envelope is read whole.
#[derive(Deserialize)]
pub(crate) struct Peek {
    pub(crate) session: SessionId,
    pub(crate) revision: Revision,
}

/// The envelope that was read last.
#[derive(Debug)]
pub(crate) struct Cached {
    file: PathBuf,
    identity: Identity,
    envelope: Arc<Envelope>,
}

/// Which session a sealed envelope is of, and how many commits it holds; `None` where the session is not sealed.
pub(crate) fn peek<D: Disk>(disk: &D, place: &Place) -> Result<Option<Peek>, StoreError> {
    let file = place.envelope();
    let Some(bytes) = found(disk.read(&file)).map_err(io("cannot read", &file))? else { return Ok(None) };
    let text = json::text(&bytes).map_err(|error| corrupt(&file, error.offset, error.why.to_string()))?;
    let peeked = serde_json::from_str(text);
    peeked.map(Some).map_err(|error| corrupt(file, error.column(), error.to_string()))
}

/// Reads a sealed envelope whole, and checks that it is what its place says.
pub(crate) fn read<D: Disk>(disk: &D, place: &Place, session: &SessionId) -> Result<Envelope, StoreError> {
    let file = place.envelope();
    let bytes = found(disk.read(&file)).map_err(io("cannot read", &file))?;
    let bytes = bytes.ok_or_else(|| corrupt(&file, 0, "it is gone, and so are the commits that it held"))?;
    let envelope = Envelope::parse(&bytes).map_err(|error| unusable(&file, error))?;
    if envelope.session().id != *session {
        let why = format!("it belongs to session `{}`, not to `{session}`", envelope.session().id);
        return Err(corrupt(file, 0, why));
    }
    Ok(envelope)
}

fn unusable(file: &Path, error: Corrupt) -> StoreError {
    if let Corrupt::TooNew { what } = error {
        return StoreError::TooNew { file: file.to_owned(), what };
    }
    let offset = if let Corrupt::Json(json) = &error { json.offset } else { 0 };
    corrupt(file, offset, error.to_string())
}

/// The commits of a sealed envelope from a revision on.
pub(crate) fn commits<D: Disk>(
    disk: &D,
    place: &Place,
    session: &SessionId,
    from: Revision,
) -> Result<Vec<Commit>, StoreError> {
    let envelope = read(disk, place, session)?;
    Ok(envelope.commits().iter().filter(|commit| commit.revision() >= from).cloned().collect())
}

impl<D: Disk> Shared<D> {
    /// What was said under this digest, where it stands in the session's sealed envelope.
    pub(crate) fn sealed_content(
        &self,
        session: &SessionId,
        digest: &Digest,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let place = self.layout.session(session);
        let file = place.envelope();
        let Some(stat) = found(self.disk.stat(&file)).map_err(io("cannot examine", &file))? else {
            return Ok(None);
        };
        let mut cache = self.cache();
        let envelope = match cache.as_ref() {
            Some(cached) if cached.file == file && cached.identity == stat.identity => {
                cached.envelope.clone()
            }
            Some(_) | None => {
                let envelope = Arc::new(read(&self.disk, &place, session)?);
                *cache = Some(Cached { file, identity: stat.identity, envelope: envelope.clone() });
                envelope
            }
        };
        drop(cache);
        Ok(envelope.content(digest).map(String::into_bytes))
    }

    /// The whole envelope of a session, with what was said, as it would be sealed.
    pub(crate) fn whole(&self, session: &SessionId) -> Result<Envelope, StoreError> {
        let commits = self.read(session, Revision::FIRST)?.commits;
        let file = self.layout.session(session).journal();
        let mut envelope = Envelope::from_commits(session.clone(), commits)
            .map_err(|error| corrupt(file, 0, error.to_string()))?;
        for said in envelope.session().said.clone() {
            envelope.say(&String::from_utf8_lossy(&self.blob(session, &said.digest)?));
        }
        Ok(envelope)
    }
}

impl<D: Disk> Held<D> {
    /// Seals the session as it stands.
    pub(crate) fn seal(&self) -> Result<(), StoreError> {
        let store = &self.store;
        let envelope = store.whole(&self.session)?;
        let revision = envelope.session().revision;
        if peek(&store.disk, &self.place)?.is_some_and(|sealed| sealed.revision == revision) {
            atomic::sync_folder(&store.disk, &self.place.dir)?;
            self.unjournal(revision);
            return Ok(());
        }
        let file = self.place.envelope();
        let text = envelope.to_json().map_err(|error| unusable(&file, error))?;
        let again = Envelope::parse(text.as_bytes()).map_err(|error| unusable(&file, error))?;
        if again != envelope {
            return Err(StoreError::Other(format!("the envelope of `{}` does not read back", self.session)));
        }
        let disk = &store.disk;
        let temp = atomic::written(disk, &self.place.dir, text.as_bytes(), None)?;
        if let Err(lost) = self.still_ours() {
            atomic::discard(disk, &temp.path);
            return Err(lost);
        }
        disk.replace(&temp.path, &file).map_err(io("cannot rename a file to", &file))?;
        atomic::sync_folder(disk, &self.place.dir)?;
        self.unjournal(revision);
        Ok(())
    }

    /// Removes the commits that a durable envelope holds. What cannot be removed does no harm.
    pub(crate) fn unjournal(&self, up_to: Revision) {
        let disk = &self.store.disk;
        for revision in journal::listed(disk, &self.place).unwrap_or_default() {
            if revision <= up_to {
                let _ = disk.remove(&self.place.commit(revision));
            }
        }
    }
}
