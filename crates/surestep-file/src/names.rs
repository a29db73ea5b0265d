//! File names: injective, and never a way out of the root.
//!
//! A session id (or request id) that is short and plain is its own name; every other one becomes a readable stem, `~`
//! and 128 bits of its SHA-256. `~` is not plain, so no name of one class is a name of the other; letters of upper
//! case are not plain, so that no two names differ only in case. The id that stands inside a file is compared on load
//! all the same.

use std::ffi::OsStr;

use surestep::{Digest, Revision};

/// The longest id that is its own name, in bytes.
const PLAIN_BYTES_MAX: usize = 64;
/// Characters of the readable stem.
const STEM_CHARS: usize = 32;
/// Hex digits of the digest behind the stem.
const DIGEST_DIGITS: usize = 32;
/// The highest revision whose name has eight digits.
const REVISION_MAX: u64 = 99_999_999;

/// How all temporary files begin.
pub(crate) const TEMP_PREFIX: &str = ".tmp-";

/// Whether an id is its own name.
pub(crate) fn is_plain(id: &str) -> bool {
    (1..=PLAIN_BYTES_MAX).contains(&id.len())
        && id.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
        && !id.starts_with(['.', '-'])
        && !id.ends_with('.')
}

/// Whether a name has the form of one with a digest.
pub(crate) fn is_hashed(name: &str) -> bool {
    let hex = |digits: &str| digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    name.rsplit_once('~').is_some_and(|(_, digits)| digits.len() == DIGEST_DIGITS && hex(digits))
}

/// The file name of an id.
pub(crate) fn of_id(id: &str) -> String {
    if is_plain(id) {
        return id.to_owned();
    }
    let readable = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let stem: String = id.chars().take(STEM_CHARS).map(readable).collect();
    let digest: String = Digest::of(id.as_bytes()).hex().chars().take(DIGEST_DIGITS).collect();
    format!("{stem}~{digest}")
}

/// The file name of a commit; `None` where there is no name of eight digits.
pub(crate) fn of_commit(revision: Revision) -> Option<String> {
    (revision.value() <= REVISION_MAX).then(|| format!("{:08}.json", revision.value()))
}

/// The revision that a file name stands for. Names of other forms are not ours and are ignored.
pub(crate) fn revision(name: &OsStr) -> Option<Revision> {
    let digits = name.to_str()?.strip_suffix(".json")?;
    let ours = digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit());
    ours.then(|| digits.parse().ok()).flatten().map(Revision::new)
}

/// Whether this is a temporary file of ours.
pub(crate) fn is_temp(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(TEMP_PREFIX))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn odd_ids_have_names_of_their_own_that_stay_inside() {
        let long = "x".repeat(65);
        let ids = [
            "fix-118",
            "a/b",
            "a_b",
            "a:b",
            "..",
            ".",
            "...",
            "-rf",
            "a.",
            "a",
            "A",
            "Fix-118",
            ".hidden",
            "a~b",
            "caf\u{e9}",
            "cafe\u{301}",
            "con",
            "a b",
            "\u{202e}x",
            "../../etc/passwd",
            "/etc/passwd",
            &long,
            "a~0cc175b9c0f1b6a831c399e269772661",
        ];
        let mut seen = HashMap::new();
        for id in ids {
            let name = of_id(id);
            assert!(
                !name.contains('/')
                    && !name.starts_with('.')
                    && !name.starts_with('-')
                    && name.len() <= 64 + 33
            );
            assert!(!name.ends_with('.') && name.is_ascii() && name == name.to_ascii_lowercase(), "{name}");
            assert_eq!(seen.insert(name.clone(), id), None, "{name}");
            // Naming a session like another one's file name must not collide either.
            assert!(is_plain(id) || of_id(&name) != name, "{name}");
        }
    }

    #[test]
    fn commit_names_are_eight_digits_and_nothing_else_counts() {
        assert_eq!(of_commit(Revision::new(3)).as_deref(), Some("00000003.json"));
        assert_eq!(of_commit(Revision::new(100_000_000)), None);
        assert_eq!(revision(OsStr::new("00000003.json")), Some(Revision::new(3)));
        for foreign in
            ["3.json", "000000003.json", "00000003.json~", "0000000x.json", "+0000003.json", ".tmp-1"]
        {
            assert_eq!(revision(OsStr::new(foreign)), None, "{foreign}");
        }
    }
}
