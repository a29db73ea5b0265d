//! Small files beside the chain: one canonical JSON object whose last field, `sum`, is the digest of the rest.
//!
//! The same form as a commit's, so a torn, edited or zeroed file is found when it is read.

use std::path::Path;

use surestep::core::commit::{FormatVersion, format_version};
use surestep::core::json::{self, DEPTH_FILE_MAX};
use surestep::{Digest, StoreError};

use crate::fault::corrupt;

/// Seals a JSON object: its canonical text with its sum.
pub(crate) fn seal(object: &str) -> Result<String, StoreError> {
    let bare = json::canonical(object, DEPTH_FILE_MAX)
        .map_err(|error| StoreError::Other(format!("cannot write this as JSON: {error}")))?;
    let sum = Digest::of(bare.as_bytes());
    Ok(format!("{},\"sum\":\"{sum}\"}}", bare.strip_suffix('}').unwrap_or(&bare)))
}

/// Opens a sealed object of one format: its text without the sum, and what was read from it.
///
/// The format is looked at before anything else is believed.
pub(crate) fn open<T: serde::de::DeserializeOwned>(
    file: &Path,
    bytes: &[u8],
    family: &str,
) -> Result<T, StoreError> {
    let broken = |error: json::JsonError| corrupt(file, error.offset, error.why.to_string());
    let shape = |error: serde_json::Error| corrupt(file, error.column(), error.to_string());
    let text = json::text(bytes).map_err(broken)?;
    json::check(text, DEPTH_FILE_MAX).map_err(broken)?;
    known(file, &format(file, text)?, family)?;
    let (head, sum) = text
        .rfind(",\"sum\":\"")
        .and_then(|at| Some((text.get(..at)?, text.get(at + 8..)?.strip_suffix("\"}")?)))
        .ok_or_else(|| corrupt(file, text.len(), "its last field is not `sum`"))?;
    let bare = format!("{head}}}");
    let found = Digest::of(bare.as_bytes()).to_string();
    if sum != found {
        return Err(corrupt(file, 0, format!("the text has digest {found}, its `sum` says {sum}")));
    }
    serde_json::from_str(&bare).map_err(shape)
}

/// An object's format, read before any other field: those a newer version may have changed.
pub(crate) fn format(file: &Path, text: &str) -> Result<String, StoreError> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: String,
    }
    serde_json::from_str(text)
        .map(|Format { format }| format)
        .map_err(|error| corrupt(file, error.column(), error.to_string()))
}

/// Whether a format is of a family, in the version that is read here.
pub(crate) fn known(file: &Path, format: &str, family: &str) -> Result<(), StoreError> {
    match format_version(format, family) {
        Some(FormatVersion::Ours) => Ok(()),
        Some(FormatVersion::Newer) => Err(StoreError::TooNew {
            file: file.to_owned(),
            what: format!("its format is `{format}`, this version reads `{family}1`"),
        }),
        None => Err(corrupt(file, 0, format!("its format is `{format}`, not `{family}1`"))),
    }
}
