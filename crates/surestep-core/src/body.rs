//! An operation's JSON body: made canonical once, at bind, and never written anew after that.
//!
//! What is hashed, stored and executed is one and the same text, so no number can change between the plan and the
//! request, however often a turn is reloaded.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::value::RawValue;

use crate::ids::Digest;
use crate::json::{self, DEPTH_BODY_MAX, JsonError, JsonFault};

/// The canonical text of an operation's body: any JSON value, normally an object.
///
/// Equal bodies are equal texts. In JSON it stands as the value itself, not as a string.
///
/// ```
/// # use surestep_core::Body;
/// let body = Body::bind(r#"{ "n": 1E2, "body": "hi" }"#, 1024)?;
/// assert_eq!(body.as_str(), r#"{"body":"hi","n":1E2}"#);
/// # Ok::<(), surestep_core::json::JsonError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Body(Box<str>);

impl Body {
    /// Takes a body as a planner wrote it.
    ///
    /// # Errors
    /// What [`json::canonical`] refuses, at [`DEPTH_BODY_MAX`] levels, and `TooLong` where the canonical text is
    /// over `max_bytes`.
    pub fn bind(raw: &str, max_bytes: usize) -> Result<Self, JsonError> {
        let canonical = json::canonical(raw, DEPTH_BODY_MAX)?;
        if canonical.len() > max_bytes {
            let why = JsonFault::TooLong { max: max_bytes };
            return Err(JsonError { offset: max_bytes, path: "$".into(), why });
        }
        Ok(Self(canonical.into_boxed_str()))
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The SHA-256 of the canonical text.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({})", self.0)
    }
}

/// Through serde_json's raw value only: no other format can keep the text of a number.
impl Serialize for Body {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(S::Error::custom)?.serialize(to)
    }
}

/// Made canonical again on the way in, since an envelope may have been re-indented.
impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Self::bind(raw.get(), usize::MAX).map_err(|e| D::Error::custom(format_args!("in the body: {e}")))
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
