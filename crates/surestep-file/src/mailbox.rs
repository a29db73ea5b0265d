//! What stands beside the chain: late results, and people's words for a session that somebody holds.
//!
//! Each is a small sealed file of its own, published like a commit. They need no hold, so their temporary files are
//! locked by their writer: who holds the session sweeps only those whose writer is gone.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use surestep::core::Attempt;
use surestep::{Epoch, Evidence, Fault, Key, Mark, OpNumber, Outcome, Receipt, Request, Retry, StoreError};

use crate::atomic::{self, Failed};
use crate::disk::Disk;
use crate::fault::{corrupt, found, io};
use crate::layout::Place;
use crate::{names, sealed};

const LATE_FAMILY: &str = "surestep.late/";
const REQUEST_FAMILY: &str = "surestep.request/";

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct LateFile {
    format: String,
    op: OpNumber,
    key: Key,
    attempt: Attempt,
    epoch: Epoch,
    observed: Observed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receipt: Option<Receipt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Mark>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Observed {
    Landed,
    NotLanded,
    NotSent,
    Unknown,
    Ended,
    Over,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct RequestFile {
    format: String,
    request: Request,
}

/// Keeps a late result.
pub(crate) fn keep_late<D: Disk>(disk: &D, place: &Place, evidence: &Evidence) -> Result<(), StoreError> {
    let (observed, receipt, fault) = match evidence.observed.clone() {
        Outcome::Landed(receipt) => (Observed::Landed, Some(receipt), None),
        // When it may be tried again is not kept: the operation's own backoff decides.
        Outcome::NotLanded(fault, _) => (Observed::NotLanded, None, Some(fault)),
        Outcome::NotSent(fault) => (Observed::NotSent, None, Some(fault)),
        Outcome::Unknown(fault) => (Observed::Unknown, None, Some(fault)),
        Outcome::Ended(fault) => (Observed::Ended, None, Some(fault)),
        Outcome::Over(fault) => (Observed::Over, None, Some(fault)),
    };
    let file = LateFile {
        format: format!("{LATE_FAMILY}1"),
        op: evidence.op,
        key: evidence.key,
        attempt: evidence.attempt,
        epoch: evidence.epoch,
        observed,
        receipt,
        fault,
        ended: evidence.ended.clone(),
    };
    let folder = place.late();
    let random = surestep::random_id();
    let name = folder.join(format!("{:04}-{}-{random}.json", evidence.op, evidence.attempt));
    keep(disk, place, &name, &file).map(drop)
}

/// Reads the late results.
pub(crate) fn late<D: Disk>(disk: &D, place: &Place) -> Result<Vec<Evidence>, StoreError> {
    read_all(disk, &place.late(), read_late)
}

/// Reads one late result.
pub(crate) fn read_late(file: &Path, bytes: &[u8]) -> Result<Evidence, StoreError> {
    let read: LateFile = sealed::open(file, bytes, LATE_FAMILY)?;
    let observed = match (read.observed, read.receipt, read.fault) {
        (Observed::Landed, Some(receipt), None) => Outcome::Landed(receipt),
        (Observed::NotLanded, None, Some(fault)) => Outcome::NotLanded(fault, Retry::Backoff),
        (Observed::NotSent, None, Some(fault)) => Outcome::NotSent(fault),
        (Observed::Unknown, None, Some(fault)) => Outcome::Unknown(fault),
        (Observed::Ended, None, Some(fault)) => Outcome::Ended(fault),
        (Observed::Over, None, Some(fault)) => Outcome::Over(fault),
        _ => return Err(corrupt(file, 0, "a landing has a receipt, everything else has a fault")),
    };
    let LateFile { op, key, attempt, epoch, ended, .. } = read;
    Ok(Evidence { op, key, attempt, epoch, observed, ended })
}

/// The epochs of the late results that can be read.
pub(crate) fn epochs<D: Disk>(disk: &D, place: &Place) -> Vec<Epoch> {
    let folder = place.late();
    let files = disk.list(&folder).unwrap_or_default().into_iter().map(|name| folder.join(name));
    files.filter_map(|file| read_late(&file, &disk.read(&file).ok()?).ok()).map(|late| late.epoch).collect()
}

/// Puts a request into the mailbox. The same request twice is one.
pub(crate) fn post<D: Disk>(disk: &D, place: &Place, request: &Request) -> Result<(), StoreError> {
    let file = RequestFile { format: format!("{REQUEST_FAMILY}1"), request: request.clone() };
    let name = request_file(place, request.id.as_str());
    if keep(disk, place, &name, &file)? {
        return Ok(());
    }
    match read_request(&name, &disk.read(&name).map_err(io("cannot read", &name))?)? {
        there if there == *request => Ok(()),
        _ => Err(StoreError::Other(format!("another request has the id `{}`", request.id))),
    }
}

/// Reads the requests.
pub(crate) fn requests<D: Disk>(disk: &D, place: &Place) -> Result<Vec<Request>, StoreError> {
    read_all(disk, &place.requests(), read_request)
}

/// The file of a request.
pub(crate) fn request_file(place: &Place, id: &str) -> PathBuf {
    place.requests().join(format!("{}.json", names::of_id(id)))
}

/// Reads one request.
pub(crate) fn read_request(file: &Path, bytes: &[u8]) -> Result<Request, StoreError> {
    let read: RequestFile = sealed::open(file, bytes, REQUEST_FAMILY)?;
    Ok(read.request)
}

/// Publishes one file; `false` where the name is taken.
fn keep<D: Disk>(disk: &D, place: &Place, name: &Path, object: &impl Serialize) -> Result<bool, StoreError> {
    let folder = name.parent().unwrap_or(&place.dir);
    let text = serde_json::to_string(object).map_err(|error| StoreError::Other(error.to_string()))?;
    let text = sealed::seal(&text)?;
    atomic::make_folder(disk, &place.dir)?;
    atomic::make_folder(disk, folder)?;
    atomic::sync_folder(disk, place.dir.parent().unwrap_or(&place.dir))?;
    atomic::sync_folder(disk, &place.dir)?;
    let temp = atomic::create(disk, folder)?;
    // Marks the file as being written. Where that fails it is only swept too early, and then the rename says so.
    let _ = disk.try_lock(&temp.file);
    let dir = disk.open_dir(folder).map_err(io("cannot open the folder", folder))?;
    let temp = atomic::written(disk, folder, text.as_bytes(), Some(temp))?;
    match atomic::place(disk, &temp.path, name, &dir) {
        Ok(()) => Ok(true),
        Err(Failed::Taken) => Ok(false),
        Err(Failed::Before(error) | Failed::Unsure(error)) => Err(error),
    }
}

/// Reads all files of a folder, in the order of their names; damage in one is an error. Temporary files are not read.
fn read_all<D: Disk, T>(
    disk: &D,
    folder: &Path,
    read: impl Fn(&Path, &[u8]) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut names = found(disk.list(folder)).map_err(io("cannot list", folder))?.unwrap_or_default();
    names.retain(|name| name.to_str().is_some_and(|name| name.ends_with(".json") && !name.starts_with('.')));
    names.sort();
    let mut all = Vec::new();
    for name in names {
        let file = folder.join(name);
        // What was answered is removed by its owner, at any time.
        if let Some(bytes) = found(disk.read(&file)).map_err(io("cannot read", &file))? {
            all.push(read(&file, &bytes)?);
        }
    }
    Ok(all)
}

/// Removes the temporary files of a folder whose writers are gone. What cannot be removed stays.
pub(crate) fn sweep_dead<D: Disk>(disk: &D, folder: &Path) {
    for name in disk.list(folder).unwrap_or_default() {
        let path = folder.join(&name);
        if names::is_temp(&name) && disk.open(&path).is_ok_and(|file| disk.try_lock(&file).unwrap_or(false)) {
            atomic::discard(disk, &path);
        }
    }
}
