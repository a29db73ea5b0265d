//! The end of an output: bytes that need not be text, and that may begin in the middle of a credential.

use super::Scrubber;
use super::field::is_padded;

/// How much of a front without any space is given up, in bytes.
const WORD_BYTES_MAX: usize = 16 << 10;

/// How much of a cut front is given up at most, in bytes.
const DROPPED_BYTES_MAX: usize = 48 << 10;

impl Scrubber {
    /// The end of an output with each credential replaced; other bytes stay as they are.
    ///
    /// If its front was cut off (`cut_at_front`), the first word is dropped, since it can be the rest of a credential,
    /// and with it what it could be a part of: the value behind a cut name, more lines of a token.
    #[must_use]
    pub fn tail(&self, bytes: &[u8], cut_at_front: bool) -> Vec<u8> {
        let kept = if cut_at_front { self.rest_of_value(bytes) } else { bytes };
        let kept = if cut_at_front { after_cut(kept) } else { kept };
        // One credential is not longer than this: what is all one word is kept behind it.
        let kept = bytes.get(DROPPED_BYTES_MAX..).filter(|rest| rest.len() > kept.len()).unwrap_or(kept);
        self.bytes(kept).into_owned()
    }

    /// Without what the front has of a known value: such a value can have spaces.
    fn rest_of_value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let values = self.known.iter().flat_map(|known| &known.values);
        let escaped = |v: &String| v.escape_default().to_string();
        let longest = values
            .flat_map(|v| {
                [v.clone(), escaped(v), v.replace('"', "\\\"").replace('\n', "\\n"), v.replace(' ', "+")]
            })
            .filter_map(|v| {
                (1..v.len())
                    .find(|from| v.as_bytes().get(*from..).is_some_and(|rest| bytes.starts_with(rest)))
                    .map(|from| v.len() - from)
            })
            .max();
        bytes.get(longest.unwrap_or(0)..).unwrap_or_default()
    }
}

/// What is left when all that can belong to a cut credential is gone.
fn after_cut(bytes: &[u8]) -> &[u8] {
    let (mut word, mut rest) = split_word(bytes);
    for _ in 0..3 {
        let (space, next) = rest.split_at(rest.iter().take_while(|b| b.is_ascii_whitespace()).count());
        if !names_next(word) || next.is_empty() || space.contains(&b'\n') {
            break;
        }
        (word, rest) = split_word(next);
    }
    // Lines of one token each: it was wrapped.
    while let Some((line, next)) = line_of(rest) {
        let (line, more) = if line.is_empty() { line_of(next).unwrap_or((line, next)) } else { (line, next) };
        let token = line.len() >= 16
            && line.iter().all(|b| is_padded(*b) || matches!(b, b'-' | b'_' | b'.' | b'%' | b'~'));
        if !token || line.starts_with(b"-----") {
            break;
        }
        rest = more;
        // Its last, shorter line.
        if let Some((last, after)) = line_of(rest)
            && last.len() < line.len()
            && !last.is_empty()
            && last.iter().all(|b| is_padded(*b) || matches!(b, b'-' | b'_'))
            && !last.starts_with(b"-----")
        {
            rest = after;
            break;
        }
    }
    rest
}

/// A word, and what follows.
fn split_word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let len = bytes.iter().take(WORD_BYTES_MAX).take_while(|b| !b.is_ascii_whitespace()).count();
    let part = |b: &u8| is_padded(*b) || matches!(b, b'-' | b'_' | b'.' | b'%' | b'~');
    let more = if len < WORD_BYTES_MAX { 0 } else { bytes.iter().skip(len).take_while(|b| part(b)).count() };
    bytes.split_at(len + more)
}

/// A line without its end, and what follows it.
fn line_of(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if bytes.is_empty() {
        return None;
    }
    let len = bytes.iter().take_while(|b| **b != b'\n').count();
    let (line, rest) = bytes.split_at(len);
    Some((line.strip_suffix(b"\r").unwrap_or(line), rest.get(1..).unwrap_or_default()))
}

/// Whether the value of this word, or of what it is the end of, is the next word.
fn names_next(word: &[u8]) -> bool {
    let mut pieces = word.split(|b| !b.is_ascii_alphanumeric()).rev();
    let last = pieces.find(|piece| !piece.is_empty()).unwrap_or_default().to_ascii_lowercase();
    let scheme = ["authorization", "bearer", "basic", "token", "apikey"].iter();
    last.is_empty()
        || matches!(word.last(), Some(b':' | b'='))
        || scheme.into_iter().any(|name| name.as_bytes().ends_with(&last))
        || has_sep_next(word)
}

/// `aws_secret_access_key = …`, cut within the name.
fn has_sep_next(word: &[u8]) -> bool {
    ["aws_secret_access_key", "secret_access_key", "secretaccesskey"].iter().any(|name| {
        let lower = word.to_ascii_lowercase();
        name.as_bytes().ends_with(&lower)
    })
}
