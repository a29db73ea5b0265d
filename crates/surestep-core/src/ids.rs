//! Names and counters: newtypes, so that a revision is never passed for an epoch.
//!
//! None converts from a bare integer by `From`: a place that makes one says why it may. Ids that come from
//! outside are parsed once, here, and are valid ever after.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};

use crate::limits::SESSION_ID_BYTES_MAX;

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident($int:ty), first $first:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name($int);

        impl $name {
            /// The first value that is ever counted.
            pub const FIRST: Self = Self($first);

            /// Wraps a number that was counted elsewhere.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                Self(value)
            }

            /// The bare number.
            #[must_use]
            pub const fn value(self) -> $int {
                self.0
            }

            /// The value after this one (saturating: it can only stop, never fall).
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

counter! {
    /// Counts the commits of a session: the first commit has revision 1, a session without commits stands at 0.
    Revision(u64), first 1
}
counter! {
    /// Counts the changes of ownership of a session; it never falls.
    Epoch(u64), first 1
}
counter! {
    /// Counts the executions of one operation, across restarts. 0 is the doubt that a restored backup raises.
    Attempt(u32), first 1
}
counter! {
    /// An operation's number in its session, from 1, in the order of binding, without gaps.
    OpNumber(u32), first 1
}
counter! {
    /// A turn's number in its session, from 1.
    TurnNumber(u32), first 1
}

impl Revision {
    /// Where a session stands that has no commit yet.
    pub const NONE: Self = Self(0);
}

impl Epoch {
    /// Where a session stands that nobody ever owned.
    pub const NONE: Self = Self(0);
}

impl Attempt {
    /// The attempt that a restored backup may have lost.
    pub const LOST: Self = Self(0);
}

impl OpNumber {
    /// The place in a list that counts from 0. A journal may be made to say 0, which is no operation's number: it names a
    /// place that no list has.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.wrapping_sub(1) as usize
    }

    /// The number of the operation at a place that counts from 0.
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1))
    }
}

/// Why a text is no valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadId {
    /// It has no characters.
    #[error("a {what} must not be empty")]
    Empty {
        /// What was to be named.
        what: &'static str,
    },
    /// It is longer than the limit.
    #[error("a {what} has at most {max} bytes, this one has {bytes}")]
    TooLong {
        /// What was to be named.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// It holds a control character.
    #[error("a {what} must not hold control characters (byte {at})")]
    Control {
        /// What was to be named.
        what: &'static str,
        /// Where, in bytes.
        at: usize,
    },
    /// It does not have the form that such a text has.
    #[error("`{text}` is no {what}")]
    Form {
        /// What was to be named.
        what: &'static str,
        /// The text.
        text: String,
    },
}

fn check_id(what: &'static str, text: &str, max: usize) -> Result<(), BadId> {
    if text.is_empty() {
        return Err(BadId::Empty { what });
    }
    if text.len() > max {
        return Err(BadId::TooLong { what, bytes: text.len(), max });
    }
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(BadId::Control { what, at }),
        None => Ok(()),
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// Takes a text from outside.
            ///
            /// # Errors
            /// When it is empty, over the limit of bytes, or holds a control character.
            pub fn new(text: impl Into<String>) -> Result<Self, BadId> {
                let text = text.into();
                check_id($what, &text, $max)?;
                Ok(Self(text.into_boxed_str()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(from)?).map_err(D::Error::custom)
            }
        }
    };
}

text_id! {
    /// Names a session: any text of 1 to 200 bytes without control characters.
    SessionId, "session id", SESSION_ID_BYTES_MAX
}
text_id! {
    /// Names a kind of effect, like `git.push`.
    Kind, "kind", 100
}
text_id! {
    /// The random id of one hold on a session: it alone decides whose claim a claim is.
    HoldId, "hold id", 100
}
text_id! {
    /// The random id of one request that a person put into a session's mailbox.
    RequestId, "request id", 100
}

/// A SHA-256, written `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 64 hex digits alone.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Writes bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Digest {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId::Form { what: "digest", text: text.chars().take(80).collect() };
        let digits = text.strip_prefix("sha256:").ok_or_else(bad)?;
        if digits.len() != 64 || !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(bad());
        }
        let mut out = [0_u8; 32];
        for (byte, pair) in out.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Self(out))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
