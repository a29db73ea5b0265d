//! A held session: publishing under the lock, room for what comes next, and what to do when nobody knows.
//!
//! ```text
//! publish: settle an earlier doubt -> revision = last + 1 ? -> blobs -> temp file (reserved or new), durable
//!          -> is the lock still ours ? -> rename onto a free name -> fsync the directory -> [first: `born`]
//!          -> high-water mark -> Ok
//! ```
//!
//! Invariants: an acknowledged commit is durable, and so is the birth mark; a gap is never published; two clones of
//! a hold publish one after the other.
//!
//! After an error from the rename on nobody knows. The next read or publish under the same hold settles it: if the
//! commit is there it is written anew into a new file that takes its place (a second fsync of a directory may say
//! `Ok` without having written what the first one failed to write), and only then reported.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use surestep::core::entry::{self, Entry, Succeeded};
use surestep::{Blob, Commit, Digest, PublishError, RequestId, Revision, SessionId, StoreError};

use crate::atomic::{self, Failed, Temp};
use crate::disk::{Disk, Identity};
use crate::fault::{corrupt, found, io};
use crate::layout::Place;
use crate::store::Shared;
use crate::{guards, journal, mailbox, names};

/// How many temporary files are reserved: for the next commit, and for the settle after it.
const RESERVED: usize = 2;

/// The store's part of a hold.
pub(crate) struct Held<D: Disk> {
    pub(crate) store: Arc<Shared<D>>,
    pub(crate) session: SessionId,
    pub(crate) place: Place,
    /// Never unlocked, only closed: its copies in child processes keep it.
    pub(crate) lock: D::File,
    /// Which file the lock is.
    pub(crate) identity: Identity,
    /// Kept open, so that a settle needs no new descriptor.
    pub(crate) journal: D::File,
    pub(crate) state: Mutex<State<D::File>>,
}

/// What changes while a session is held.
pub(crate) struct State<F> {
    /// Whether the lock says `born`, durably.
    pub(crate) born: bool,
    /// The last revision, where it is known.
    pub(crate) last: Option<Revision>,
    /// The commit of which nobody knows whether it is durable.
    pub(crate) unsure: Option<Commit>,
    /// Files that have their room already.
    pub(crate) reserved: Vec<Temp<F>>,
}

impl<D: Disk> Held<D> {
    /// Publishes a commit.
    pub(crate) fn publish(&self, commit: &Commit, blobs: &[Blob]) -> Result<(), PublishError> {
        let refuse = |why: String| PublishError::NotCommitted(StoreError::Other(why));
        if *commit.session() != self.session {
            return Err(refuse(format!(
                "the commit belongs to session `{}`, the hold to `{}`",
                commit.session(),
                self.session
            )));
        }
        let revision = commit.revision();
        if names::of_commit(revision).is_none() {
            return Err(refuse(format!("revision {revision} is beyond what this store can name")));
        }
        let disk = &self.store.disk;
        let mut state = self.state();
        self.still_ours().map_err(PublishError::NotCommitted)?; // else who has it now would be called a gap
        self.settle(&mut state).map_err(PublishError::NotCommitted)?;
        let last = match state.last {
            Some(last) => last,
            None => journal::last(disk, &self.place).map_err(PublishError::NotCommitted)?.0,
        };
        state.last = Some(last);
        if revision <= last {
            return Err(PublishError::Taken { revision });
        }
        if revision != last.next() {
            return Err(refuse(format!("commit {revision} would leave a gap behind commit {last}")));
        }
        // Until the commit that names it has its name, nobody removes the content.
        let _kept = match blobs {
            [] => None,
            [..] => Some(self.store.gc_lock(false).map_err(PublishError::NotCommitted)?),
        };
        for blob in blobs {
            self.keep_blob(blob).map_err(PublishError::NotCommitted)?;
        }
        let folder = self.place.journal();
        let ready = state.reserved.pop();
        let temp = atomic::written(disk, &folder, commit.text().as_bytes(), ready)
            .map_err(PublishError::NotCommitted)?;
        if let Err(lost) = self.still_ours() {
            atomic::discard(disk, &temp.path);
            return Err(PublishError::NotCommitted(lost));
        }
        state.last = None;
        let placed = atomic::place(disk, &temp.path, &self.place.commit(revision), &self.journal);
        let finished = match placed {
            Ok(()) => self.make_born(&mut state).map_err(Failed::Unsure),
            Err(failed) => Err(failed),
        };
        match finished {
            Ok(()) => {
                state.last = Some(revision);
                self.store.marks.set(disk, commit); // before the effect that it intends, and in the order of commits
                drop(state);
                self.tidy(commit);
                Ok(())
            }
            Err(Failed::Taken) => Err(PublishError::Taken { revision }),
            Err(Failed::Before(error)) => Err(PublishError::NotCommitted(error)),
            Err(Failed::Unsure(error)) => {
                state.unsure = Some(commit.clone());
                Err(PublishError::Indeterminate(error))
            }
        }
    }

    /// Settles an earlier *nobody knows*: afterwards what is read is durable.
    pub(crate) fn settle_doubt(&self) -> Result<(), StoreError> {
        self.settle(&mut self.state())
    }

    fn settle(&self, state: &mut State<D::File>) -> Result<(), StoreError> {
        let Some(commit) = state.unsure.as_ref() else { return Ok(()) };
        self.still_ours()?;
        let disk = &self.store.disk;
        let name = self.place.commit(commit.revision());
        let there = found(disk.read(&name)).map_err(io("cannot read", &name))?;
        if there.is_some_and(|bytes| bytes == commit.text().as_bytes()) {
            let temp = atomic::written(disk, &self.place.journal(), commit.text().as_bytes(), None)?;
            disk.replace(&temp.path, &name).map_err(io("cannot write anew", &name))?;
            disk.sync_dir(&self.journal).map_err(io("cannot make the name durable of", &name))?;
            self.make_born(state)?;
        } else {
            disk.sync_dir(&self.journal).map_err(io("cannot make durable that there is no", &name))?;
        }
        state.unsure = None;
        state.last = None;
        Ok(())
    }

    /// For a session that has commits: if its first publish died before the acknowledgement, the commit's name is made
    /// durable, and then the birth mark.
    pub(crate) fn confirm_birth(&self) -> Result<(), StoreError> {
        let mut state = self.state();
        if !state.born {
            let folder = self.place.journal();
            self.store
                .disk
                .sync_dir(&self.journal)
                .map_err(io("cannot make the names durable in", &folder))?;
            self.make_born(&mut state)?;
        }
        Ok(())
    }

    /// Makes the birth mark durable. The whole mark is written anew each time, so that an fsync has it to write.
    fn make_born(&self, state: &mut State<D::File>) -> Result<(), StoreError> {
        if state.born {
            return Ok(());
        }
        let disk = &self.store.disk;
        let name = self.place.lock();
        disk.write(&self.lock, journal::BORN).map_err(io("cannot write the birth mark into", &name))?;
        disk.truncate(&self.lock, journal::BORN.len() as u64).map_err(io("cannot cut", &name))?;
        disk.sync(&self.lock).map_err(io("cannot make the birth mark durable in", &name))?;
        state.born = true;
        Ok(())
    }

    /// Whether the lock that we hold is the one that others would try.
    pub(crate) fn still_ours(&self) -> Result<(), StoreError> {
        let lock = self.place.lock();
        match found(self.store.disk.stat(&lock)).map_err(io("cannot examine", &lock))? {
            Some(stat) if stat.identity == self.identity => Ok(()),
            Some(_) => Err(StoreError::HoldLost { why: format!("{} was replaced", lock.display()) }),
            None => Err(StoreError::HoldLost { why: format!("{} was deleted", lock.display()) }),
        }
    }

    /// Makes room for the next commit and the settle after it. What is reserved already stays so if there is no more.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), StoreError> {
        let disk = &self.store.disk;
        let mut state = self.state();
        for temp in state.reserved.iter_mut().filter(|temp| temp.reserved < bytes) {
            disk.allocate(&temp.file, bytes).map_err(io("cannot make room in", &temp.path))?;
            temp.reserved = bytes;
        }
        while state.reserved.len() < RESERVED {
            let mut temp = atomic::create(disk, &self.place.journal())?;
            if let Err(source) = disk.allocate(&temp.file, bytes) {
                atomic::discard(disk, &temp.path);
                return Err(io("cannot make room in", &temp.path)(source));
            }
            temp.reserved = bytes;
            state.reserved.push(temp);
        }
        Ok(())
    }

    /// Keeps a blob. One that is there already is written anew in its place: who wrote it may have died, or been
    /// told of an error, before its name was durable.
    fn keep_blob(&self, blob: &Blob) -> Result<(), StoreError> {
        let disk = &self.store.disk;
        if Digest::of(&blob.bytes) != blob.digest {
            return Err(StoreError::Other(format!("a blob does not have the digest {}", blob.digest)));
        }
        let (folder, file) = self.store.layout.blob(&blob.digest);
        self.store.make_blob_folder(&folder)?;
        if found(disk.read(&file)).map_err(io("cannot read", &file))?.is_none() {
            match atomic::publish(disk, &file, &blob.bytes) {
                Ok(()) => return Ok(()),
                Err(Failed::Before(error) | Failed::Unsure(error)) => return Err(error),
                Err(Failed::Taken) => {}
            }
        }
        if disk.read(&file).map_err(io("cannot read", &file))? != blob.bytes {
            return Err(corrupt(file, 0, "the content is not what its name says"));
        }
        let temp = atomic::written(disk, &folder, &blob.bytes, None)?;
        disk.replace(&temp.path, &file).map_err(io("cannot write anew", &file))?;
        atomic::sync_folder(disk, &folder)
    }

    /// Removes what a durable commit has made superfluous. What cannot be removed does no harm.
    fn tidy(&self, commit: &Commit) {
        let disk = &self.store.disk;
        for entry in commit.entries() {
            if let Entry::Succeeded(Succeeded { op, attempt, .. })
            | Entry::Failed(entry::Failed { op, attempt, .. }) = entry
            {
                let _ = disk.remove(&guards::file(&self.place, *op, *attempt));
            }
            if let Some(request) = answered(entry) {
                let _ = disk.remove(&mailbox::request_file(&self.place, request.as_str()));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<D::File>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk> Drop for Held<D> {
    /// Gives reserved room back, where that can be done: what stays is swept by the next hold.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for temp in state.reserved.drain(..) {
            atomic::discard(&self.store.disk, &temp.path);
        }
    }
}

/// The request that an entry answers: once the entry is durable, the mailbox need not keep it.
fn answered(entry: &Entry) -> Option<&RequestId> {
    match entry {
        Entry::Succeeded(entry) => entry.request.as_ref(),
        Entry::Failed(entry) => entry.request.as_ref(),
        Entry::Approved(entry) => entry.request.as_ref(),
        Entry::Denied(entry) => entry.request.as_ref(),
        Entry::Skipped(entry) => entry.request.as_ref(),
        Entry::Cancelled(entry) => entry.request.as_ref(),
        Entry::Opened(_)
        | Entry::Said(_)
        | Entry::Bound(_)
        | Entry::Claimed(_)
        | Entry::Released(_)
        | Entry::Intended(_)
        | Entry::Doubted(_)
        | Entry::Finished(_)
        | Entry::HandedOff(_)
        | Entry::Restored(_) => None,
    }
}
