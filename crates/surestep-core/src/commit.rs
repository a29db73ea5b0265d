//! Commits: atomic batches of entries, chained by hash.
//!
//! A commit's text is canonical JSON whose last field is `sum`, the SHA-256 of the canonical text without it;
//! `prev` is the previous commit's `sum`. A file holds exactly that text; an envelope may carry it re-indented.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::entry::{Entry, UNKNOWN_ENTRY};
use crate::ids::{Digest, Epoch, Revision, SessionId};
use crate::json::{self, DEPTH_FILE_MAX, JsonError};
use crate::record::{Extra, record};
use crate::time::Wall;

/// The format that this version writes.
pub const COMMIT_FORMAT: &str = "surestep.commit/1";
const COMMIT_FAMILY: &str = "surestep.commit/";
/// What stands before a commit's sum.
const SUM_FIELD: &str = ",\"sum\":\"";

record! {
    /// The fields of a commit, without its sum.
    pub struct CommitFields {
        /// Always `surestep.commit/1`.
        format: String,
        /// The session.
        session: SessionId,
        /// Counts the commits of the session.
        revision: Revision,
        /// The epoch under which it is published.
        epoch: Epoch,
        /// When it was staged, for people.
        at: Wall,
        /// What it says.
        entries: Vec<Entry>,
        ;
        /// The previous commit's sum; absent in the first.
        prev: Digest,
    }
}

/// A commit, sealed by its sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    fields: CommitFields,
    sum: Digest,
    text: Arc<str>,
}

/// Why a text is no commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// It is no strict, canonical JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Its format is newer than this version, or it holds an entry that this version does not know.
    #[error("written by a newer version: {what}")]
    TooNew {
        /// What is unknown here.
        what: String,
    },
    /// Its fields are not those of a commit.
    #[error("not a commit: {why}")]
    Shape {
        /// What is wrong.
        why: String,
    },
    /// Its sum is not the digest of its text.
    #[error("the text has digest {found}, its `sum` says {stated}: the text was changed")]
    Sum {
        /// The digest of the text.
        found: Digest,
        /// What the text states.
        stated: String,
    },
}

record! {
    /// Any object, field by field.
    pub struct Fields { ; }
}

impl Commit {
    /// Seals fields into a commit.
    ///
    /// # Errors
    /// Only if the fields cannot be written as strict JSON (a nesting over the limit in an unknown field).
    pub fn seal(fields: CommitFields) -> Result<Self, CommitError> {
        let loose = serde_json::to_string(&fields).map_err(|e| CommitError::Shape { why: e.to_string() })?;
        let bare = json::canonical(&loose, DEPTH_FILE_MAX)?;
        let sum = Digest::of(bare.as_bytes());
        let text = format!("{},\"sum\":\"{sum}\"}}", bare.strip_suffix('}').unwrap_or(&bare));
        Ok(Self { fields, sum, text: text.into() })
    }

    /// Reads a commit's exact text, as a file holds it.
    ///
    /// # Errors
    /// When the text is not strict, not canonical, newer, of another shape, or changed.
    pub fn parse(text: &str) -> Result<Self, CommitError> {
        if let Some(commit) = Self::exact(text) {
            return Ok(commit);
        }
        json::check(text, DEPTH_FILE_MAX)?;
        let commit = Self::from_loose(text)?;
        if let Some(offset) = first_difference(text, &commit.text) {
            return Err(JsonError { offset, path: "$".into(), why: json::JsonFault::NotCanonical }.into());
        }
        Ok(commit)
    }

    /// Reads what is exactly a commit's text, in one pass each for form, digest and fields: what is anything else is
    /// left to the reader that says what is wrong with it.
    fn exact(text: &str) -> Option<Self> {
        let at = text.rfind(SUM_FIELD)?;
        let stated = text.get(at + SUM_FIELD.len()..)?.strip_suffix("\"}")?;
        let bare = format!("{}}}", text.get(..at)?);
        let sum = Digest::of(bare.as_bytes());
        if sum.to_string() != stated || json::canonical(&bare, DEPTH_FILE_MAX).ok()? != bare {
            return None;
        }
        let fields: CommitFields = serde_json::from_str(&bare).ok()?;
        // A second `sum` among the unknown fields would be a duplicate.
        let known = fields.format == COMMIT_FORMAT && fields.extra.iter().all(|(name, _)| name != "sum");
        known.then(|| Self { fields, sum, text: text.into() })
    }

    /// As [`Commit::from_loose`], at once where nothing was changed on the way.
    pub(crate) fn parse_loose(text: &str) -> Result<Self, CommitError> {
        Self::exact(text).map_or_else(|| Self::from_loose(text), Ok)
    }

    /// Reads a commit as an envelope carries it: white space and the order of keys do not count, numbers do.
    ///
    /// # Errors
    /// As [`Commit::parse`], but for the canonical form.
    pub fn from_loose(text: &str) -> Result<Self, CommitError> {
        let shape = |e: serde_json::Error| CommitError::Shape { why: e.to_string() };
        let all: Fields = serde_json::from_str(text).map_err(shape)?;
        let mut bare = Fields { extra: Extra::default() };
        let mut stated = None;
        for (name, value) in all.extra.iter() {
            if name == "sum" {
                stated = serde_json::from_str::<String>(value.get()).ok();
            } else {
                bare.extra.push(name.to_owned(), RawValue::to_owned(value));
            }
        }
        check_format(&all.extra, COMMIT_FAMILY).map_err(|what| match what {
            BadFormat::Newer(what) => CommitError::TooNew { what },
            BadFormat::Other(why) => CommitError::Shape { why },
        })?;
        let bare = json::canonical(&serde_json::to_string(&bare).map_err(shape)?, DEPTH_FILE_MAX)?;
        let found = Digest::of(bare.as_bytes());
        let stated = stated.ok_or_else(|| CommitError::Shape { why: "it has no `sum`".into() })?;
        if stated != found.to_string() {
            return Err(CommitError::Sum { found, stated });
        }
        let fields: CommitFields = serde_json::from_str(&bare).map_err(|e| {
            let why = e.to_string();
            // At its start: what a damaged value says for itself stands further in.
            if why.starts_with(UNKNOWN_ENTRY) {
                CommitError::TooNew { what: why }
            } else {
                CommitError::Shape { why }
            }
        })?;
        let text = format!("{},\"sum\":\"{found}\"}}", bare.strip_suffix('}').unwrap_or(&bare));
        Ok(Self { fields, sum: found, text: text.into() })
    }

    /// The exact text of its file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The digest that names it.
    #[must_use]
    pub const fn sum(&self) -> Digest {
        self.sum
    }

    /// Its session.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.fields.session
    }

    /// Its revision.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.fields.revision
    }

    /// The sum of the commit before it.
    #[must_use]
    pub const fn prev(&self) -> Option<Digest> {
        self.fields.prev
    }

    /// The epoch under which it was published.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.fields.epoch
    }

    /// When it was staged, for people.
    #[must_use]
    pub const fn at(&self) -> Wall {
        self.fields.at
    }

    /// What it says.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.fields.entries
    }

    /// Takes it apart.
    #[must_use]
    pub fn into_fields(self) -> CommitFields {
        self.fields
    }
}

/// Why a `format` field is not ours.
pub(crate) enum BadFormat {
    Newer(String),
    Other(String),
}

/// Looks at the `format` field before anything else is believed.
pub(crate) fn check_format(fields: &Extra, family: &str) -> Result<(), BadFormat> {
    let found = fields.iter().find(|(name, _)| *name == "format");
    let Some(format) = found.and_then(|(_, value)| serde_json::from_str::<String>(value.get()).ok()) else {
        return Err(BadFormat::Other(format!("it has no `format` (`{family}1` was expected)")));
    };
    match format_version(&format, family) {
        Some(FormatVersion::Ours) => Ok(()),
        Some(FormatVersion::Newer) => {
            Err(BadFormat::Newer(format!("its format is `{format}`, this version reads `{family}1`")))
        }
        None => Err(BadFormat::Other(format!("its format is `{format}`, not `{family}1`"))),
    }
}

/// Which version of its family a stored format is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatVersion {
    /// The one that this crate reads and writes.
    Ours,
    /// A later one, however large its number.
    Newer,
}

/// Reads the version out of a format like `surestep.commit/1`; `None` where it is none of that family. The number is
/// written in one way only: no sign, no leading zero, no fraction.
#[must_use]
pub fn format_version(format: &str, family: &str) -> Option<FormatVersion> {
    let number = format.strip_prefix(family)?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    match number {
        "1" => Some(FormatVersion::Ours),
        _ if digits && !number.starts_with('0') => Some(FormatVersion::Newer),
        _ => None,
    }
}

fn first_difference(a: &str, b: &str) -> Option<usize> {
    if a == b {
        return None;
    }
    let same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    Some(same)
}
