//! The strict JSON reader: what surestep accepts as JSON, and the one canonical text of it.
//!
//! Everything that is stored or hashed passes through here once, before serde_json gives it a type. No value tree is
//! built: a number is never converted, so it leaves exactly as it came in.
//!
//! ```text
//! bytes --text--> &str --check------> typed reading (serde_json, borrowed raw text)
//!                   \----canonical--> the text that is stored, executed and hashed (docs/protocol.md, "Identity")
//! ```
//!
//! Invariants: the nesting of the input lives on a heap stack of at most `depth_max` frames, never on ours; no input
//! panics; `canonical` is idempotent and never longer than its input; equal members in another order or other escapes
//! have equal canonical texts; offsets are bytes from the start of the text that was handed in.
//!
//! Decisions: the grammar is RFC 8259 without its liberties (no duplicate names, no lone surrogates, no byte-order
//! mark). Cost is linear in the text, plus the sorting of names; a level whose names are out of order is copied once.

mod reader;

use reader::Reader;

/// How deep an operation's body may nest.
pub const DEPTH_BODY_MAX: usize = 64;
/// How deep a file (a commit, an envelope, a plan) may nest.
pub const DEPTH_FILE_MAX: usize = 128;
/// How many characters of a key a message shows.
const KEY_SHOWN_CHARS: usize = 64;

/// What is wrong with a JSON text, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why} at byte {offset} (`{path}`)")]
pub struct JsonError {
    /// Bytes from the start of the text that was read.
    pub offset: usize,
    /// JSON path of the value being read, such as `$.operations[3].body.amount`; long keys are cut.
    pub path: String,
    /// What is wrong.
    pub why: JsonFault,
}

/// The ways in which a text is not JSON that surestep accepts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// The bytes are not UTF-8.
    #[error("not UTF-8 text")]
    NotUtf8,
    /// U+FEFF outside a string.
    #[error("a byte-order mark: save the file as UTF-8 without BOM")]
    ByteOrderMark,
    /// The bytes look like UTF-16.
    #[error("UTF-16 text: save the file as UTF-8")]
    Utf16,
    /// A zero byte: a damaged file, or no text at all.
    #[error("a NUL byte: the file is damaged, or is not text")]
    Nul,
    /// No text, or only white space.
    #[error("empty: no JSON value")]
    Empty,
    /// The text stops in the middle of a value.
    #[error("the text ends too early")]
    UnexpectedEnd,
    /// A character that cannot stand here.
    #[error("unexpected `{}`", found.escape_debug())]
    Unexpected {
        /// The character.
        found: char,
    },
    /// Something follows the one value.
    #[error("more text after the end of the value")]
    TrailingData,
    /// An object has two members with the same (decoded) key.
    #[error("the key `{}` stands twice", shown(key))]
    DuplicateKey {
        /// The decoded key.
        key: String,
    },
    /// Arrays and objects nest too deeply.
    #[error("nested deeper than {max} levels")]
    TooDeep {
        /// The deepest level allowed.
        max: usize,
    },
    /// A `\u` escape that is half of a surrogate pair.
    #[error("a lone surrogate `\\u{unit:04x}`: half of a character")]
    LoneSurrogate {
        /// The UTF-16 code unit.
        unit: u16,
    },
    /// A backslash followed by something that JSON does not know.
    #[error("an escape that JSON does not know")]
    BadEscape,
    /// A raw character below U+0020 in a string.
    #[error("a raw control character in a string: write it as an escape")]
    ControlInString,
    /// Not a number by the grammar.
    #[error("not a JSON number (no leading zero, leading `+`, bare `.`, NaN or infinity)")]
    BadNumber,
    /// A bare word that is not a literal.
    #[error("a bare word other than `true`, `false` or `null`")]
    BadLiteral,
    /// Valid, but not written in the canonical form.
    #[error("not in canonical form")]
    NotCanonical,
    /// The canonical text is over its limit.
    #[error("longer than {max} bytes")]
    TooLong {
        /// The limit in bytes.
        max: usize,
    },
}

/// The bytes as text, with what commonly goes wrong with text files recognised by name.
///
/// # Errors
/// `Empty` (also for white space alone), `ByteOrderMark`, `Utf16`, `Nul`, or `NotUtf8` at the first bad byte.
pub fn text(bytes: &[u8]) -> Result<&str, JsonError> {
    let fault = |offset, why| Err(JsonError { offset, path: "$".into(), why });
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => return fault(0, JsonFault::ByteOrderMark),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return fault(0, JsonFault::Utf16),
        // Without a mark: every other byte of ASCII in UTF-16 is zero. More zeros than that are damage.
        [a, b] | [a, b, _] if (*a == 0) != (*b == 0) => return fault(0, JsonFault::Utf16),
        [a, b, c, d, ..] if (*a == 0) != (*b == 0) && (*a == 0) == (*c == 0) && (*b == 0) == (*d == 0) => {
            return fault(0, JsonFault::Utf16);
        }
        _ => {}
    }
    let (valid, bad) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => (
            bytes.get(..error.valid_up_to()).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default(),
            Some(error.valid_up_to()),
        ),
    };
    if let Some(offset) = valid.bytes().position(|b| b == 0) {
        return fault(offset, JsonFault::Nul);
    }
    match bad {
        Some(offset) => fault(offset, JsonFault::NotUtf8),
        None if valid.bytes().all(is_space) => fault(0, JsonFault::Empty),
        None => Ok(valid),
    }
}

/// Checks a whole document: one value, strict grammar, no key twice in an object, at most `depth_max` levels.
///
/// # Errors
/// The first fault in reading order; a key that stands twice is reported when its object ends.
pub fn check(text: &str, depth_max: usize) -> Result<(), JsonError> {
    Reader::new(text, depth_max, None).run().map(drop)
}

/// Checks a whole document and gives its canonical text (docs/protocol.md, "Identity").
///
/// Keys are sorted by the bytes of their decoded UTF-8, insignificant white space is gone, numbers stand as written,
/// and strings escape only `"`, `\` and what is below U+0020.
///
/// # Errors
/// As [`check`].
///
/// ```
/// # use surestep_core::json;
/// assert_eq!(json::canonical(r#"{ "n": 1E2, "a": "\/\u00e9" }"#, 64)?, r#"{"a":"/é","n":1E2}"#);
/// # Ok::<(), json::JsonError>(())
/// ```
pub fn canonical(text: &str, depth_max: usize) -> Result<String, JsonError> {
    Reader::new(text, depth_max, Some(String::with_capacity(text.len()))).run().map(Option::unwrap_or_default)
}

/// Checks a whole document and that it is its own canonical text.
///
/// # Errors
/// As [`check`], then `NotCanonical` at the first byte that differs from the canonical text.
pub fn is_canonical(text: &str, depth_max: usize) -> Result<(), JsonError> {
    let canonical = canonical(text, depth_max)?;
    if canonical == text {
        return Ok(());
    }
    let same = text.bytes().zip(canonical.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
    let mut reader = Reader::new(text, depth_max, None);
    reader.stop = same;
    reader.run().map(drop) // a second pass, to learn the path; it ends at `stop` with `NotCanonical`
}

/// A string as a canonical JSON literal, quotes included.
pub fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    quote_into(&mut out, s);
    out
}

fn quote_into(out: &mut String, s: &str) {
    out.push('"');
    for part in s.split_inclusive(|c| matches!(c, '"' | '\\' | '\0'..='\x1f')) {
        let plain = part.trim_end_matches(|c| matches!(c, '"' | '\\' | '\0'..='\x1f'));
        out.push_str(plain);
        match part.as_bytes().get(plain.len()) {
            None => {}
            Some(b'"') => out.push_str("\\\""),
            Some(b'\\') => out.push_str("\\\\"),
            Some(b'\x08') => out.push_str("\\b"),
            Some(b'\t') => out.push_str("\\t"),
            Some(b'\n') => out.push_str("\\n"),
            Some(b'\x0c') => out.push_str("\\f"),
            Some(b'\r') => out.push_str("\\r"),
            Some(low) => out.push_str(&format!("\\u{low:04x}")),
        }
    }
    out.push('"');
}

/// A key as messages show it: cut, and without characters that could disturb a terminal.
fn shown(key: &str) -> String {
    let more = if key.chars().nth(KEY_SHOWN_CHARS).is_some() { "…" } else { "" };
    let start: String = key.chars().take(KEY_SHOWN_CHARS).collect();
    format!("{}{more}", start.escape_debug())
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
