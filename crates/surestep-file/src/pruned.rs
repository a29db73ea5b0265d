//! Tombstones: the sessions that were pruned, and may never run again.
//!
//! They stand in 256 files, by the first byte of the digest of the session's id: so that ten thousand of them cost 256
//! flushes, and one look-up reads one small file. A copy of each stands with the high-water marks outside the root: a
//! store that is put back to a time before the pruning is behind it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use surestep::{Digest, Epoch, Revision, SessionId, StoreError, Wall};

use crate::atomic;
use crate::disk::Disk;
use crate::fault::{found, io};
use crate::layout::Layout;
use crate::sealed;

const FAMILY: &str = "surestep.pruned/";

/// What is left of a pruned session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tombstone {
    /// The session.
    pub session: SessionId,
    /// Its last revision.
    pub revision: Revision,
    /// Its last epoch.
    pub epoch: Epoch,
    /// The sum of its last commit.
    pub head: Digest,
    /// When it was pruned.
    pub at: Wall,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct PrunedFile {
    format: String,
    sessions: Vec<Tombstone>,
}

/// The name of the file in which a session's tombstone would stand.
pub(crate) fn shard(session: &SessionId) -> String {
    let digest = Digest::of(session.as_str().as_bytes()).hex();
    format!("{}.json", digest.get(..2).unwrap_or_default())
}

/// A session's tombstone in a folder of them.
pub(crate) fn find<D: Disk>(
    disk: &D,
    folder: &Path,
    session: &SessionId,
) -> Result<Option<Tombstone>, StoreError> {
    let all = read(disk, &folder.join(shard(session)))?;
    Ok(all.into_iter().find(|tombstone| tombstone.session == *session))
}

/// The tombstones of one file.
pub(crate) fn read<D: Disk>(disk: &D, file: &Path) -> Result<Vec<Tombstone>, StoreError> {
    match found(disk.read(file)).map_err(io("cannot read", file))? {
        None => Ok(Vec::new()),
        Some(bytes) => parse(file, &bytes),
    }
}

/// The tombstones in a file's bytes.
pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<Vec<Tombstone>, StoreError> {
    sealed::open::<PrunedFile>(file, bytes, FAMILY).map(|read| read.sessions)
}

/// The text of a file of tombstones.
pub(crate) fn text(mut sessions: Vec<Tombstone>) -> Result<String, StoreError> {
    sessions.sort_by(|a, b| a.session.cmp(&b.session));
    let file = PrunedFile { format: format!("{FAMILY}1"), sessions };
    let text = serde_json::to_string(&file).map_err(|error| StoreError::Other(error.to_string()))?;
    sealed::seal(&text)
}

/// Adds tombstones to the store's file of one shard, durably; gives all that are in it now.
pub(crate) fn add<D: Disk>(
    disk: &D,
    layout: &Layout,
    shard: &str,
    new: &[Tombstone],
) -> Result<Vec<Tombstone>, StoreError> {
    let folder = layout.pruned();
    if atomic::make_folder(disk, &folder)? {
        atomic::sync_folder(disk, &layout.root)?;
    }
    let file: PathBuf = folder.join(shard);
    let mut all = read(disk, &file)?;
    all.retain(|old| !new.iter().any(|new| new.session == old.session));
    all.extend_from_slice(new);
    let temp = atomic::written(disk, &folder, text(all.clone())?.as_bytes(), None)?;
    disk.replace(&temp.path, &file).map_err(io("cannot rename a file to", &file))?;
    atomic::sync_folder(disk, &folder)?;
    Ok(all)
}
