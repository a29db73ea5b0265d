//! Where the file is: the one that is named, else `surestep.toml` in the current folder or above it.
//!
//! The way up ends at the root of the repository, else at the home folder; outside of both only the current folder counts:
//! whoever may write to a folder that many share (`/tmp`) must not configure somebody else's commands. For the same reason
//! a file that was found and not named must belong to this user or to root, and nobody else may be able to write it.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Found;
use crate::fail::Fail;
use crate::text::{self, tick};

/// The file's name.
const NAME: &str = "surestep.toml";
/// The most that is read of it: 1 MiB.
const BYTES_MAX: u64 = 1 << 20;
/// Write permission for the group and for all others.
const OTHERS_WRITE: u32 = 0o022;

/// The file, and how it was found; `None`: there is none.
pub(super) fn find(given: Option<&Path>, again: &str) -> Result<Option<(PathBuf, Found)>, Fail> {
    if let Some(path) = given.filter(|path| !path.as_os_str().is_empty()) {
        let by_env = std::env::var_os("SURESTEP_CONFIG").is_some_and(|v| v == *path);
        return Ok(Some((path.to_owned(), if by_env { Found::Environment } else { Found::Option })));
    }
    // Without a current folder there is nothing to look in.
    let Ok(here) = std::env::current_dir() else { return Ok(None) };
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    for folder in folders(&here, home.as_deref()) {
        let path = folder.join(NAME);
        match std::fs::symlink_metadata(&path) {
            // Named as a person would who stands here.
            Ok(_) if folder == here => return Ok(Some((NAME.into(), Found::Folder))),
            Ok(_) => return Ok(Some((path, Found::Folder))),
            Err(e) if is_absent(&e) => {}
            Err(e) => return Err(unreadable(&path, &e.to_string(), again)),
        }
    }
    Ok(None)
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The folders that are looked into, innermost first.
fn folders<'a>(here: &'a Path, home: Option<&Path>) -> Vec<&'a Path> {
    let all: Vec<&Path> = here.ancestors().collect();
    let repository = all.iter().position(|folder| folder.join(".git").exists());
    let top = repository.or_else(|| all.iter().position(|folder| home == Some(*folder))).unwrap_or(0);
    all.into_iter().take(top + 1).collect()
}

/// The file's text.
pub(super) fn text(path: &Path, found: Found, again: &str) -> Result<String, Fail> {
    let broken = |e: std::io::Error| unreadable(path, &e.to_string(), again);
    let file = std::fs::metadata(path).map_err(broken)?;
    // A pipe would never end; `/dev/null` is an empty file.
    if file.is_dir() || std::os::unix::fs::FileTypeExt::is_fifo(&file.file_type()) {
        return Err(unreadable(path, "it is no file", again));
    }
    if found == Found::Folder {
        let me = rustix::process::getuid().as_raw();
        if file.uid() != me && file.uid() != 0 {
            return Err(foreign(
                path,
                &format!("it belongs to user {}, and this is user {me}", file.uid()),
                again,
            ));
        }
        if file.mode() & OTHERS_WRITE != 0 && !is_own_group(&file) {
            let mode = file.mode() & 0o7777;
            return Err(foreign(path, &format!("others may write to it (mode {mode:04o})"), again));
        }
    }
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(path).map_err(broken)?;
    opened.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(broken)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(unreadable(path, "it is longer than 1 MiB", again));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        unreadable(path, &format!("byte {} is no UTF-8", e.utf8_error().valid_up_to()), again)
    })?;
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}

/// Many systems give each user a group of the same number, and a umask that lets it write.
fn is_own_group(file: &std::fs::Metadata) -> bool {
    file.mode() & 0o002 == 0 && file.gid() == file.uid()
}

fn unreadable(path: &Path, why: &str, again: &str) -> Fail {
    let shown = path.to_string_lossy();
    Fail::usage("SE0120", format!("the configuration {} cannot be read", tick(&shown)))
        .why(text::line(why))
        .state("no setting of it was used, and nothing was read or started")
        .next_if("surestep doctor", "which file is used, and why")
        .next_if(again, "once it can be read")
}

fn foreign(path: &Path, why: &str, again: &str) -> Fail {
    let shown = path.to_string_lossy();
    Fail::usage(
        "SE0120",
        format!("the configuration {} is not used: it may be somebody else's", tick(&shown)),
    )
    .why(text::line(why))
    .state("no setting of it was used, and nothing was read or started")
    .next_if(
        again.replacen("surestep", &format!("surestep --config {}", text::word(&shown)), 1),
        "if you trust it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_up_ends_at_the_repository_else_at_home_else_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("home/repo/a/b");
        std::fs::create_dir_all(&deep).unwrap();
        let home = dir.path().join("home");
        let seen = |home: Option<&Path>| folders(&deep, home).len();
        assert_eq!(seen(None), 1, "outside of both: only here");
        assert_eq!(seen(Some(&home)), 4, "up to the home folder");
        std::fs::create_dir(dir.path().join("home/repo/.git")).unwrap();
        assert_eq!(seen(Some(&home)), 3, "up to the repository, and not beyond");
        assert_eq!(folders(&home, Some(&home)), [home.as_path()]);
    }
}
