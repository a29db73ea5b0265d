//! `fsck` of what belongs to no session, or to several: contents, marks of sessions that are gone, what is not ours.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use surestep::{Digest, SessionId};

use crate::check::{Checkup, Finding, Remedy};
use crate::check_session::Looked;
use crate::disk::{Disk, FileKind};
use crate::fault::{found, io};
use crate::layout::Layout;
use crate::marks::Marks;
use crate::{names, pruned};

/// Sessions that once were here, and whose folders are gone.
pub(crate) fn check_marked<D: Disk>(
    disk: &D,
    layout: &Layout,
    marks: &Marks,
    only: Option<&SessionId>,
    checkup: &mut Checkup,
) {
    for mark in marks.all(disk).into_iter().filter(|mark| only.is_none_or(|only| *only == mark.session)) {
        let dir = layout.session(&mark.session).dir;
        let was_pruned = matches!(pruned::find(disk, &layout.pruned(), &mark.session), Ok(Some(_)));
        if !was_pruned && matches!(found(disk.stat(&dir)), Ok(None)) {
            let what = format!("the session is gone: it once had {} commits", mark.revision);
            let session = Some(mark.session.as_str());
            checkup.findings.push(Finding::damaged(&dir, session, what, Remedy::Restored));
        }
    }
}

/// Every content by its digest, and those that a session names and that are not there.
pub(crate) fn check_blobs<D: Disk>(
    disk: &D,
    layout: &Layout,
    sessions: &[Looked],
    only_named: bool,
    checkup: &mut Checkup,
) {
    let mut named: BTreeSet<String> = BTreeSet::new();
    for looked in sessions {
        for digest in &looked.said {
            let (_, file) = layout.blob(digest);
            named.insert(digest.hex());
            let session = Some(looked.shown());
            match found(disk.stat(&file)) {
                Ok(Some(_)) if only_named => check_blob(disk, &file, &digest.hex(), session, checkup),
                Ok(Some(_)) => {}
                Ok(None) => checkup.findings.push(Finding::damaged(
                    &file,
                    session,
                    "content that the session names is gone",
                    Remedy::PutBack,
                )),
                Err(error) => {
                    let error = io("cannot examine", &file)(error);
                    checkup.findings.push(Finding::of(&error, &file, session, Remedy::PutBack));
                }
            }
        }
    }
    if only_named {
        return;
    }
    for folder in children(disk, &layout.blobs(), checkup) {
        for file in children(disk, &folder, checkup) {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let inside =
                folder.file_name().and_then(|two| two.to_str()).is_some_and(|two| name.starts_with(two));
            let hex = name.len() == 64 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if !(hex && inside) {
                let what = if name.starts_with(names::TEMP_PREFIX) {
                    "a temporary file: its writer is at work, or died"
                } else {
                    "not ours: ignored"
                };
                checkup.findings.push(Finding::note(&file, None, what));
                continue;
            }
            checkup.blobs_unreferenced += usize::from(!named.contains(&name));
            check_blob(disk, &file, &name, None, checkup);
        }
    }
}

fn check_blob<D: Disk>(disk: &D, file: &Path, hex: &str, session: Option<&str>, checkup: &mut Checkup) {
    match disk.read(file).map_err(io("cannot read", file)) {
        Ok(bytes) if Digest::of(&bytes).hex() == hex => checkup.blobs += 1,
        Ok(bytes) => {
            let what = format!("its content has digest {}", Digest::of(&bytes));
            checkup.findings.push(Finding::damaged(file, session, what, Remedy::Repair));
        }
        Err(error) => checkup.findings.push(Finding::of(&error, file, session, Remedy::Repair)),
    }
}

pub(crate) fn check_root<D: Disk>(disk: &D, layout: &Layout, checkup: &mut Checkup) {
    for path in children(disk, &layout.root, checkup) {
        match path.file_name().and_then(|name| name.to_str()) {
            Some("surestep.json" | "sessions" | "blobs" | "gc.lock") => {}
            Some("pruned") => {
                let shards = children(disk, &path, checkup);
                let bad = shards.iter().filter_map(|shard| pruned::read(disk, shard).err());
                checkup.findings.extend(bad.map(|e| Finding::of(&e, &path, None, Remedy::PutBack)));
            }
            Some("aside") => checkup.aside = children(disk, &path, checkup).len(),
            Some(name) if name.starts_with(names::TEMP_PREFIX) => {
                checkup.findings.push(Finding::note(&path, None, "a temporary file whose writer died"));
            }
            Some(_) | None => checkup.findings.push(Finding::note(&path, None, "not ours: ignored")),
        }
    }
}

/// The paths in a folder; a folder that is not there has none.
fn children<D: Disk>(disk: &D, folder: &Path, checkup: &mut Checkup) -> Vec<PathBuf> {
    match found(disk.stat(folder)).map(|stat| stat.map(|stat| stat.kind)) {
        Ok(None) => return Vec::new(),
        Ok(Some(FileKind::Directory)) => {}
        Ok(Some(odd @ (FileKind::Regular | FileKind::Link | FileKind::Special))) => {
            let what = format!("{odd} stands where a folder was expected");
            checkup.findings.push(Finding::damaged(folder, None, what, Remedy::PutBack));
            return Vec::new();
        }
        Err(error) => {
            let error = io("cannot examine", folder)(error);
            checkup.findings.push(Finding::of(&error, folder, None, Remedy::Access));
            return Vec::new();
        }
    }
    match disk.list(folder).map_err(io("cannot list", folder)) {
        Ok(mut names) => {
            names.sort();
            names.into_iter().map(|name| folder.join(name)).collect()
        }
        Err(error) => {
            checkup.findings.push(Finding::of(&error, folder, None, Remedy::Access));
            Vec::new()
        }
    }
}
