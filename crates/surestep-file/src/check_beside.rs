//! `fsck` of what stands beside a session's chain: late results, requests, guards' records, notes, what is not ours.

use std::path::Path;

use surestep::core::json;
use surestep::{OpNumber, StoreError};

use crate::check::Remedy;
use crate::check_session::{Beside, Looked, kind};
use crate::disk::{Disk, FileKind};
use crate::fault::{found, io};
use crate::{guards, mailbox, names};

impl Looked {
    /// Looks at all of it.
    pub(crate) fn look_beside<D: Disk>(&mut self, disk: &D) {
        if self.published {
            self.late(disk);
            self.requests(disk);
            self.guards(disk);
        }
        self.rest(disk);
    }

    /// The names in a folder beside the chain, without temporary files; what is no folder is a finding.
    fn listed<D: Disk>(&mut self, disk: &D, folder: &Path, evidence: bool) -> Vec<String> {
        match kind(disk, folder) {
            Ok(None) => return Vec::new(),
            Ok(Some(FileKind::Directory)) => {}
            Ok(Some(odd)) => {
                let why = format!("{odd} stands where a folder was expected");
                self.beside(folder, None, evidence, why);
                return Vec::new();
            }
            Err(error) => {
                self.found(&error, folder, Remedy::Access);
                return Vec::new();
            }
        }
        match disk.list(folder).map_err(io("cannot list", folder)) {
            Ok(names) => {
                let mut names: Vec<_> = names.into_iter().map(|n| n.to_string_lossy().into_owned()).collect();
                names.sort();
                names
            }
            Err(error) => {
                self.found(&error, folder, Remedy::Access);
                Vec::new()
            }
        }
    }

    fn beside(&mut self, path: &Path, op: Option<OpNumber>, evidence: bool, why: String) {
        self.damaged(path, why.clone(), Remedy::Repair);
        self.beside.push(Beside { path: path.to_owned(), op, evidence, why });
    }

    /// Reads each file of a folder with its own reader.
    fn each<D: Disk>(
        &mut self,
        disk: &D,
        folder: &Path,
        evidence: bool,
        read: impl Fn(&Path, &[u8]) -> Result<(), StoreError>,
    ) {
        for name in self.listed(disk, folder, evidence) {
            let file = folder.join(&name);
            if !name.ends_with(".json") || name.starts_with('.') {
                let temp = name.starts_with(names::TEMP_PREFIX) || name.ends_with(".tmp");
                if !temp {
                    self.note(&file, "not ours: ignored");
                }
                continue;
            }
            let op = name.split('-').next().and_then(|op| op.parse().ok()).map(OpNumber::new);
            let bytes = match found(disk.read(&file)).map_err(io("cannot read", &file)) {
                Ok(None) => continue, // answered, or settled, just now
                Ok(Some(bytes)) => Ok(bytes),
                Err(error) => Err(error),
            };
            match bytes.and_then(|bytes| read(&file, &bytes)) {
                Ok(()) => {}
                Err(StoreError::Corrupt { offset, why, .. }) => {
                    self.beside(&file, op.filter(|_| evidence), evidence, why);
                    if let Some(finding) = self.findings.last_mut() {
                        finding.offset = Some(offset).filter(|offset| *offset > 0);
                    }
                }
                Err(other) => self.found(&other, &file, Remedy::Repair),
            }
        }
    }

    fn late<D: Disk>(&mut self, disk: &D) {
        let folder = self.place.late();
        self.each(disk, &folder, true, |file, bytes| mailbox::read_late(file, bytes).map(drop));
    }

    fn requests<D: Disk>(&mut self, disk: &D) {
        let folder = self.place.requests();
        self.each(disk, &folder, false, |file, bytes| mailbox::read_request(file, bytes).map(drop));
    }

    fn guards<D: Disk>(&mut self, disk: &D) {
        let folder = self.place.guards();
        let session = self.shown().to_owned();
        self.each(disk, &folder, true, |file, bytes| guards::read(file, bytes, &session).map(drop));
    }

    /// What else lies in the folder, and a holder's note that cannot be read.
    fn rest<D: Disk>(&mut self, disk: &D) {
        let dir = self.place.dir.clone();
        for name in self.listed(disk, &dir, false) {
            let file = dir.join(&name);
            match name.as_str() {
                "lock" | "journal" | "late" | "requests" | "guards" | "envelope.json" => {}
                "holder.json" => {
                    let text = found(disk.read(&file));
                    let odd = text.map(|text| text.is_some_and(|text| !is_json(&text))).unwrap_or(true);
                    if odd {
                        self.note(
                            &file,
                            "cannot be read: it is for people, and written anew by the next owner",
                        );
                    }
                }
                temp if temp.starts_with(names::TEMP_PREFIX) => {}
                _ => self.note(&file, "not ours: ignored"),
            }
        }
    }
}

fn is_json(bytes: &[u8]) -> bool {
    json::text(bytes).is_ok_and(|text| json::check(text, json::DEPTH_FILE_MAX).is_ok())
}
