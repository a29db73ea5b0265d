//! `file.write`: a file gets a content, by atomic replacement in its folder.
//!
//! ```text
//!  temp file (O_EXCL) ▸ write ▸ length ▸ mode, owner ▸ fsync ▸ in time? ▸ rename ▸ fsync of the folder ▸ landed
//!  ╰──────────── an error here: surely not landed ──────────────────╯   ╰─ an error here: unknown ─╯
//! ```
//!
//! What holds: a reader sees the old content or the new one, whole; *landed* means durable, from the execution and
//! from the look-up alike; a second landing of the same content changes nothing.
//!
//! Decisions: a symlink is followed and stays; one that leads nowhere is refused. The temp file is named after the
//! key and the attempt, so that a later attempt removes what a killed one left behind.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::fs::OFlags;
use serde::Deserialize;
use surestep::{
    Attempt, Body, Call, Digest, Effect, Fault, Finding, Kind, Outcome, Planned, Receipt, Reconciler, Retry,
    Terms, core::Attempt as Number,
};

use crate::command::{blocking, resolve};
use crate::guard::since_boot_ms;
use crate::outside::is_inside;
use crate::{LOCAL_DEADLINE_MS, kind, refusal};

/// The kind's name.
pub const FILE_WRITE: &str = "file.write";

/// The mode of a file that was not there, where the body names none.
const MODE_DEFAULT: u32 = 0o644;

/// What `surestep explain kind file.write` prints.
pub(crate) const ABOUT: &str = "\
file.write: puts a content into a file, by atomic replacement in its folder.

target  the file's path; relative to where the plan was first run. Its folder must exist.
repo    a label, part of the key

body
  content  the file's new content, as text; required
  mode     its permissions in octal, like \"0644\"; default: those of the file that is there, else 0644

recognised afterwards
  by the SHA-256 of the content at the path. It cannot tell our write from an equal one by somebody else, nor two
  equal operations of one session.
recovery   ask
deadline   600 s, looked at once more right before the replacement
lag        0 s, local
receipt    ref: sha256:<hex> of the content

outcomes
  replaced, and the folder synced           landed
  no such folder, a folder or device there,
  a symlink that leads nowhere or into the
  store                                     not landed, for good
  any error before the rename (disk full,
  no permission, read-only file system)     not landed, tried again after the backoff
  deadline over before the rename           not sent
  an error from the rename on               unknown
A symlink at the target is followed and stays. Other hard links to the old file keep the old content. The owner
is kept where we may keep it; access lists and extended attributes are not.
";

/// The body of a `file.write` operation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileBody {
    /// The new content.
    content: String,
    /// The permissions, in octal.
    mode: Option<String>,
}

impl FileBody {
    fn parse(body: &Body) -> Result<Self, Fault> {
        let body: Self =
            serde_json::from_str(body.as_str()).map_err(|e| refusal(FILE_WRITE, &e.to_string()))?;
        body.mode()?;
        Ok(body)
    }

    fn mode(&self) -> Result<Option<u32>, Fault> {
        let Some(text) = &self.mode else { return Ok(None) };
        let digits = (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        match u32::from_str_radix(text, 8) {
            Ok(mode) if digits && mode <= 0o777 => Ok(Some(mode)),
            Ok(_) | Err(_) => {
                Err(refusal(FILE_WRITE, "`mode` is octal, from \"0000\" to \"0777\", like \"0644\""))
            }
        }
    }
}

/// Writes files.
#[derive(Debug, Clone, Default)]
pub struct FileWrite {
    /// Nothing in here is written.
    off_limits: Option<PathBuf>,
}

impl FileWrite {
    /// Writes files.
    #[must_use]
    pub const fn new() -> Self {
        Self { off_limits: None }
    }

    /// Writes files, but never inside this folder: the store that journals it.
    #[must_use]
    pub fn outside(folder: impl Into<PathBuf>) -> Self {
        Self { off_limits: Some(folder.into()) }
    }

    fn refuses(&self, path: &Path) -> bool {
        self.off_limits.as_deref().is_some_and(|folder| is_inside(path, folder))
    }
}

#[async_trait]
impl Effect for FileWrite {
    fn kind(&self) -> Kind {
        kind(FILE_WRITE)
    }

    fn terms(&self, planned: &Planned<'_>) -> Result<Terms, Fault> {
        FileBody::parse(planned.body)?;
        if planned.target.contains('\0') {
            return Err(refusal(FILE_WRITE, "the target holds a NUL, which no path can"));
        }
        let names_a_file = Path::new(planned.target).file_name().is_some();
        if !names_a_file || planned.target.ends_with('/') || planned.target.ends_with("/.") {
            return Err(refusal(FILE_WRITE, "the target names no file"));
        }
        if resolve(planned.dir, Some(planned.target)).is_some_and(|path| self.refuses(&path)) {
            return Err(refusal(FILE_WRITE, "the target lies inside the store, which only surestep writes"));
        }
        Ok(Terms { local: true, distinguishes: false, ..Terms::remote(LOCAL_DEADLINE_MS, 0) })
    }

    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        // A link may have come since it was bound.
        if self.refuses(&path_of(&attempt.call)) {
            let fault = Fault::new("store", "the target leads into the store, which only surestep writes");
            return Ok(Outcome::NotLanded(fault, Retry::Never));
        }
        let attempt = attempt.clone();
        blocking(move || execute(&attempt)).await?
    }
}

fn execute(attempt: &Attempt) -> Result<Outcome, Fault> {
    let call = &attempt.call;
    let ready = match prepare(attempt) {
        Ok(ready) => ready,
        Err(refused) => return Ok(refused),
    };
    if since_boot_ms() >= call.deadline_mark.since_boot_ms {
        return Ok(Outcome::NotSent(Fault::new("deadline", "the deadline was over before the replacement")));
    }
    // From here on every error means that nobody knows.
    let Ready { mut temp, real, folder, digest } = ready;
    fs::rename(&temp.path, &real).map_err(|e| failed("replacing", &real, &e))?;
    temp.renamed = true;
    sync_folder(&folder)?;
    Ok(Outcome::Landed(Receipt::new(digest.to_string())))
}

/// A temp file that holds the content, durably, and where it goes.
struct Ready {
    temp: Temp,
    real: PathBuf,
    folder: PathBuf,
    digest: Digest,
}

/// A temp file that is removed again, unless it was renamed.
struct Temp {
    path: PathBuf,
    renamed: bool,
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.renamed {
            // What cannot be removed is removed by the next attempt.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Does all that can be undone.
fn prepare(attempt: &Attempt) -> Result<Ready, Outcome> {
    let call = &attempt.call;
    let never = |fault| Outcome::NotLanded(fault, Retry::Never);
    let later = |fault| Outcome::NotLanded(fault, Retry::Backoff);
    let body = FileBody::parse(attempt.body()).map_err(never)?;
    let real = real_path(&path_of(call))?;
    let there = fs::metadata(&real).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return Err(never(Fault::new("no_file", format!("`{}` is no regular file", real.display()))));
    }
    let folder = match real.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_path_buf(),
        None => return Err(never(Fault::new("no_file", "the target names no file"))),
    };
    if !folder.is_dir() {
        return Err(never(Fault::new(
            "no_folder",
            format!("the folder `{}` does not exist", folder.display()),
        )));
    }
    let mode = match body.mode().map_err(never)? {
        Some(mode) => mode,
        None => there.as_ref().map_or(MODE_DEFAULT, |there| there.mode() & 0o7777),
    };
    remove_leftovers(&folder, call);
    let temp = Temp { path: folder.join(temp_name(call, call.attempt)), renamed: false };
    let written = write_temp(&temp, body.content.as_bytes(), mode, there.as_ref());
    written.map_err(|e| later(failed("writing", &temp.path, &e)))?;
    Ok(Ready { temp, real, folder, digest: Digest::of(body.content.as_bytes()) })
}

/// The target as a path.
fn path_of(call: &Call) -> PathBuf {
    let target = call.operation.target.as_str();
    resolve(call.dir.as_deref(), Some(target)).unwrap_or_else(|| PathBuf::from(target))
}

/// Where the content goes: a symlink is followed to the real file.
fn real_path(path: &Path) -> Result<PathBuf, Outcome> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => fs::canonicalize(path).map_err(|e| {
            if e.kind() == io::ErrorKind::NotFound {
                let why = format!("`{}` is a symlink that leads nowhere", path.display());
                return Outcome::NotLanded(Fault::new("dangling", why), Retry::Never);
            }
            Outcome::NotLanded(failed("following", path, &e), Retry::Backoff)
        }),
        Ok(_) => Ok(path.to_path_buf()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(path.to_path_buf()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            Err(Outcome::NotLanded(failed("looking at", path, &e), Retry::Never))
        }
        Err(e) => Err(Outcome::NotLanded(failed("looking at", path, &e), Retry::Backoff)),
    }
}

fn temp_name(call: &Call, attempt: Number) -> String {
    format!(".surestep-{}-{attempt}.tmp", call.operation.key.hex())
}

/// What killed attempts of this very operation left behind. Nobody else has files of these names.
fn remove_leftovers(folder: &Path, call: &Call) {
    for earlier in 1..call.attempt.value() {
        let _ = fs::remove_file(folder.join(temp_name(call, Number::new(earlier))));
    }
}

/// Writes the temp file: nobody else can read it before it has its mode.
fn write_temp(temp: &Temp, content: &[u8], mode: u32, there: Option<&fs::Metadata>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp.path)?;
    file.write_all(content)?;
    let length = file.metadata()?.len();
    if usize::try_from(length).ok() != Some(content.len()) {
        let why = format!("{length} of {} bytes are there", content.len());
        return Err(io::Error::new(io::ErrorKind::WriteZero, why));
    }
    if let Some(there) = there {
        // Only root may; the content counts, and was allowed to be replaced.
        let _ = std::os::unix::fs::fchown(&file, Some(there.uid()), Some(there.gid()));
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn sync_folder(folder: &Path) -> Result<(), Fault> {
    File::open(folder).and_then(|open| open.sync_all()).map_err(|e| failed("syncing", folder, &e))
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Fault {
    let kind = error.kind();
    let code = if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        "full"
    } else if matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) {
        "permission"
    } else {
        "io"
    };
    Fault::new(code, format!("{doing} `{}`: {error}", path.display()))
}

/// Compares the content at the path.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileWriteLook;

impl FileWriteLook {
    /// Compares contents.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Reconciler for FileWriteLook {
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
        let attempt = attempt.clone();
        blocking(move || look(&attempt)).await?
    }
}

fn look(attempt: &Attempt) -> Result<Finding, Fault> {
    let call = &attempt.call;
    let body = FileBody::parse(attempt.body())?;
    let content = body.content.as_bytes();
    let path = path_of(call);
    let there = match fs::metadata(&path) {
        Ok(there) => there,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Finding::NotLanded);
        }
        Err(e) => return Err(failed("looking at", &path, &e)),
    };
    if !there.is_file() || usize::try_from(there.len()).ok() != Some(content.len()) {
        return Ok(Finding::NotLanded);
    }
    // What became a pipe in the meantime must not block us.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
    let mut file = opened.map_err(|e| failed("opening", &path, &e))?;
    let mut found = Vec::with_capacity(content.len());
    let limit = there.len().saturating_add(1);
    Read::by_ref(&mut file).take(limit).read_to_end(&mut found).map_err(|e| failed("reading", &path, &e))?;
    if found != content {
        return Ok(Finding::NotLanded);
    }
    // Who wrote it may have died before it was durable.
    file.sync_all().map_err(|e| failed("syncing", &path, &e))?;
    let real = fs::canonicalize(&path).map_err(|e| failed("following", &path, &e))?;
    sync_folder(real.parent().unwrap_or(&real))?;
    Ok(Finding::Landed(Receipt::new(Digest::of(content).to_string())))
}
