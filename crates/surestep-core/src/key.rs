//! The operation key: one name for one intended effect, the same in every process that derives it.
//!
//! ```text
//! key  = "v1:" + hex(sha256( F("surestep operation key v1") F(session) F(kind) F(repo) F(target) F(body)
//!                            [F(occurrence) if > 1] ))[..32]
//! F(x) = the length of x in bytes as u64 big-endian, then x in UTF-8; occurrence is written in decimal
//! ```
//!
//! Invariants: the length before each field makes the encoding injective, so no text inside a field can imitate the
//! border between two; nothing that differs on a re-entry takes part (no tool-call id, owner, epoch, attempt, time).
//! The formula is fixed for ever by `fixtures/keys/v1.json`, whose keys come from a script that shares no code with
//! this file; another formula would be `v2:`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::body::Body;
use crate::ids::{BadId, hex};
use crate::json;

/// What stands before the digits of every key of this version.
const VERSION: &str = "v1:";
/// The first field of the hash, so that no other hash of ours can be a key.
const DOMAIN: &str = "surestep operation key v1";
/// The bytes of the SHA-256 that a key keeps.
const KEY_BYTES: usize = 16;
/// The fewest hex digits that may stand for a key.
const PREFIX_DIGITS_MIN: usize = 4;

/// An operation key: `v1:` and 32 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; KEY_BYTES]);

/// What an operation key is derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed<'a> {
    /// The session's id.
    pub session: &'a str,
    /// The kind of effect, like `git.push`.
    pub kind: &'a str,
    /// The repository or other place, after the kind's normaliser; may be empty.
    pub repo: &'a str,
    /// What in that place is acted on; may be empty.
    pub target: &'a str,
    /// The canonical text of the body, or of its identity fields where the kind declares them ([`identity_text`]).
    pub body: &'a str,
    /// 1 for the first operation of the session with these fields, 2 for the second. 0 counts as 1.
    pub occurrence: u64,
}

impl Key {
    /// Derives the key of an operation (docs/protocol.md, "Identity").
    ///
    /// ```
    /// # use surestep_core::{Key, Seed};
    /// let body = r#"{"body":"hi","n":1E2}"#;
    /// let seed =
    ///     Seed { session: "fix-118", kind: "github.comment", repo: "acme/site", target: "118", body, occurrence: 1 };
    /// assert_eq!(Key::derive(&seed).to_string(), "v1:ec30de416a1b2ab4fec10fbe91ab2938");
    /// ```
    #[must_use]
    pub fn derive(seed: &Seed<'_>) -> Self {
        let Seed { session, kind, repo, target, body, occurrence } = *seed;
        let again = (occurrence > 1).then(|| occurrence.to_string());
        let mut hash = Sha256::new();
        for field in [DOMAIN, session, kind, repo, target, body].into_iter().chain(again.as_deref()) {
            hash.update((field.len() as u64).to_be_bytes());
            hash.update(field.as_bytes());
        }
        let mut key = [0; KEY_BYTES];
        key.iter_mut().zip(hash.finalize()).for_each(|(ours, byte)| *ours = byte);
        Self(key)
    }

    /// The 32 hex digits alone.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// Whether a person who typed `prefix` may mean this key: its start, with or without `v1:`, in at least 4 hex
    /// digits.
    #[must_use]
    pub fn matches_prefix(&self, prefix: &str) -> bool {
        let digits = prefix.strip_prefix(VERSION).unwrap_or(prefix);
        digits.len() >= PREFIX_DIGITS_MIN && self.hex().starts_with(digits)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}{}", self.hex())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Key {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId::Form { what: "operation key", text: text.chars().take(80).collect() };
        let digits = text.strip_prefix(VERSION).ok_or_else(bad)?;
        if digits.len() != 2 * KEY_BYTES || !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(bad());
        }
        u128::from_str_radix(digits, 16).map(|number| Self(number.to_be_bytes())).map_err(|_| bad())
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Why a body has no identity fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// Fields can only be taken from an object.
    #[error("the kind declares identity fields, but the body is not an object")]
    NotAnObject,
}

/// The canonical text of an object with just these top-level fields of the body, those that are present.
///
/// Names that are absent are left out, so a body with none of them gives `{}`.
///
/// # Errors
/// When the body is not an object.
pub fn identity_text(body: &Body, fields: &[&str]) -> Result<String, IdentityError> {
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(body.as_str()).map_err(|_| IdentityError::NotAnObject)?;
    let kept: Vec<String> = members
        .iter()
        .filter(|(name, _)| fields.contains(&name.as_str()))
        .map(|(name, value)| format!("{}:{}", json::quote(name), value.get()))
        .collect();
    Ok(format!("{{{}}}", kept.join(",")))
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
