//! Whether a path lies inside a folder that an effect must leave alone, whatever links and `..` it goes through.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Whether the path, or what it leads to, lies inside the folder. What cannot be told apart counts as inside.
pub(crate) fn is_inside(path: &Path, folder: &Path) -> bool {
    let (Ok(path), Ok(folder)) = (std::path::absolute(path), std::path::absolute(folder)) else {
        return true;
    };
    real(&path).starts_with(real(&folder))
}

/// The path without links as far as it exists; what does not exist yet is added by name.
fn real(path: &Path) -> PathBuf {
    let mut there = PathBuf::new();
    let mut missing: Vec<OsString> = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir if missing.pop().is_some() => {}
            Component::ParentDir => drop(there.pop()),
            Component::CurDir => {}
            Component::Normal(name) if missing.is_empty() => match std::fs::canonicalize(there.join(name)) {
                Ok(real) => there = real,
                Err(_) => missing.push(name.to_owned()),
            },
            Component::Normal(name) => missing.push(name.to_owned()),
            Component::RootDir | Component::Prefix(_) => there.push(part),
        }
    }
    there.extend(missing);
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_dots_and_what_is_not_there_yet_are_seen_through() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("store/sessions")).unwrap();
        std::fs::create_dir_all(at("desk")).unwrap();
        std::os::unix::fs::symlink(at("store/sessions"), at("desk/link")).unwrap();
        for (path, inside) in [
            ("store/surestep.json", true),
            ("store/new/deep", true),
            ("desk/link/x", true),
            ("desk/../store/x", true),
            ("desk/new/../../store/x", true),
            ("store/../desk/x", false),
            ("storeroom/x", false),
            ("desk/x", false),
        ] {
            assert_eq!(is_inside(&at(path), &at("store")), inside, "{path}");
        }
        assert!(is_inside(&at("none/x"), &at("none")), "a store that is not there yet");
    }
}
