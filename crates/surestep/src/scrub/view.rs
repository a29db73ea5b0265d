//! Decoded copies of a text that know where each of their bytes came from.
//!
//! ```text
//! text --peel--> without zero-width characters and terminal escapes, %XX and \uXXXX decoded (again: encoded twice)
//!    \--join--> without single line breaks, tabs and NULs: what was wrapped or split is whole again
//! ```
//!
//! A copy costs one pass. Its map is a list of runs: stretches whose bytes each come from equally many.

use std::ops::Range;

use super::class::Hit;

/// A stretch of a view: byte `at + i` comes from `len` bytes at `from + i * step`.
#[derive(Debug, Clone, Copy)]
struct Run {
    at: usize,
    from: usize,
    step: usize,
    len: usize,
}

/// A decoded copy of a text.
#[derive(Default)]
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    runs: Vec<Run>,
}

impl View {
    /// Bytes as they are.
    fn plain(&mut self, bytes: &[u8], from: usize) {
        if !bytes.is_empty() {
            self.run(from, 1, 1);
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// One byte that `len` bytes stood for.
    fn one(&mut self, byte: u8, from: usize, len: usize) {
        self.run(from, len, len);
        self.bytes.push(byte);
    }

    /// Several bytes that `len` bytes stood for together.
    fn block(&mut self, bytes: &[u8], from: usize, len: usize) {
        self.runs.push(Run { at: self.bytes.len(), from, step: 0, len });
        self.bytes.extend_from_slice(bytes);
    }

    fn run(&mut self, from: usize, step: usize, len: usize) {
        let at = self.bytes.len();
        let goes_on = self
            .runs
            .last()
            .is_some_and(|run| run.step == step && run.len == len && run.from + (at - run.at) * step == from);
        if !goes_on {
            self.runs.push(Run { at, from, step, len });
        }
    }

    fn source(&self, byte: usize) -> Range<usize> {
        let n = self.runs.partition_point(|run| run.at <= byte);
        let Some(run) = n.checked_sub(1).and_then(|n| self.runs.get(n)) else { return 0..0 };
        let from = run.from + (byte - run.at) * run.step;
        from..from + run.len
    }

    /// The place of a hit in the text that this is a copy of.
    pub(super) fn back(&self, hit: Hit) -> Hit {
        let start = self.source(hit.span.start).start;
        let end = self.source(hit.span.end.saturating_sub(1)).end;
        Hit { span: start..end.max(start), ..hit }
    }

    /// Whether something was taken out or decoded right before this byte.
    pub(super) fn is_seam(&self, byte: usize) -> bool {
        self.runs.binary_search_by_key(&byte, |run| run.at).is_ok()
    }

    /// The first seam after this byte.
    pub(super) fn next_seam(&self, byte: usize) -> Option<usize> {
        self.runs.get(self.runs.partition_point(|run| run.at <= byte)).map(|run| run.at)
    }
}

const INVISIBLE_FIRST: [u8; 9] = [0xc2, 0xcd, 0xd8, 0xe1, 0xe2, 0xe3, 0xef, 0xf0, 0xf3];

/// Characters that show nothing: C1 controls, line and paragraph separators, the interlinear marks, and what Unicode
/// lets a renderer ignore (`Default_Ignorable_Code_Point`).
const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The character at the start, if there is a whole one.
fn first_char(bytes: &[u8]) -> Option<char> {
    let len = match bytes.first()? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    std::str::from_utf8(bytes.get(..len)?).ok()?.chars().next()
}

/// Whether a byte can begin something that [`peel`] takes out or decodes.
#[expect(clippy::indexing_slicing, reason = "in a constant: out of bounds would not compile")]
const PEELED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 1;
    while byte < 0x20 {
        table[byte] = !matches!(byte as u8, b'\t' | b'\n' | b'\r');
        byte += 1;
    }
    table[0x7f] = true;
    table[b'%' as usize] = true;
    table[b'\\' as usize] = true;
    // What the characters of `is_invisible` begin with.
    let mut n = 0;
    while n < INVISIBLE_FIRST.len() {
        table[INVISIBLE_FIRST[n] as usize] = true;
        n += 1;
    }
    table
};

fn is_peeled(byte: u8) -> bool {
    PEELED.get(usize::from(byte)).copied().unwrap_or(false)
}

/// What stands at the start of these bytes.
enum Piece {
    /// So many bytes that show nothing.
    Nothing(usize),
    /// So many bytes that stand for one.
    One(u8, usize),
    /// So many bytes that stand for a character of several.
    Char(char, usize),
}

/// The text without what shows nothing, decoded once; `None` where that is the text itself.
pub(super) fn peel(bytes: &[u8]) -> Option<View> {
    let mut view = View::default();
    let (mut at, mut plain_from) = (0, 0);
    while let Some(found) = bytes.get(at..)?.iter().position(|b| is_peeled(*b)) {
        at += found;
        let Some(piece) = bytes.get(at..).and_then(piece) else {
            at += 1;
            continue;
        };
        view.plain(bytes.get(plain_from..at).unwrap_or_default(), plain_from);
        let len = match piece {
            Piece::Nothing(len) => len,
            Piece::One(byte, len) => {
                view.one(byte, at, len);
                len
            }
            Piece::Char(c, len) => {
                view.block(c.encode_utf8(&mut [0; 4]).as_bytes(), at, len);
                len
            }
        };
        at += len;
        plain_from = at;
    }
    if plain_from == 0 {
        return None;
    }
    view.plain(bytes.get(plain_from..).unwrap_or_default(), plain_from);
    Some(view)
}

fn piece(bytes: &[u8]) -> Option<Piece> {
    Some(match bytes {
        [b'%', a, b, ..] => Piece::One(hex(&[*a, *b]).and_then(|n| u8::try_from(n).ok())?, 3),
        [b'\\', b'u', more @ ..] => escaped(more)?,
        [b'\\', b'x', a, b, ..] => Piece::One(hex(&[*a, *b]).and_then(|n| u8::try_from(n).ok())?, 4),
        [b'\\', b'n', ..] => Piece::One(b'\n', 2),
        [b'\\', b'r', ..] => Piece::One(b'\r', 2),
        [b'\\', b't', ..] => Piece::One(b'\t', 2),
        [b'\\', c @ (b'"' | b'\'' | b'\\' | b'/'), ..] => Piece::One(*c, 2),
        [b'%' | b'\\', ..] => return None,
        [0x1b, b'[', more @ ..] => {
            let len = more.iter().take(64).take_while(|b| matches!(b, 0x20..=0x3f)).count();
            Piece::Nothing(2 + len + usize::from(more.get(len).is_some_and(|b| matches!(b, 0x40..=0x7e))))
        }
        [0x1b, b']', more @ ..] => {
            let len = more.iter().take(256).position(|b| matches!(b, 7 | 0x1b));
            let end = len.map(|len| 2 + len + if more.get(len) == Some(&7) { 1 } else { 2 });
            Piece::Nothing(end.unwrap_or(2).min(bytes.len()))
        }
        [0x1b, b'(' | b')', _, ..] => Piece::Nothing(3),
        [0x80..=0xff, ..] => Piece::Nothing(first_char(bytes).filter(|c| is_invisible(*c))?.len_utf8()),
        [] => return None,
        [_, ..] => Piece::Nothing(1),
    })
}

/// What `\u` begins, without those two.
fn escaped(more: &[u8]) -> Option<Piece> {
    let unit = hex(more.get(..4)?)?;
    if let Some(c) = char::from_u32(unit) {
        return Some(match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => Piece::One(byte, 6),
            _ => Piece::Char(c, 6),
        });
    }
    let low = match more.get(4..10)? {
        [b'\\', b'u', low @ ..] => hex(low)?,
        _ => return None,
    };
    let unit = 0x1_0000 + ((unit.checked_sub(0xd800)? & 0x3ff) << 10) + (low.checked_sub(0xdc00)? & 0x3ff);
    char::from_u32(unit).map(|c| Piece::Char(c, 12))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |n, d| Some(n * 16 + char::from(*d).to_digit(16)?))
}

/// The text with its lines (and columns) put together; `None` where there is only one.
pub(super) fn join(bytes: &[u8]) -> Option<View> {
    let is_break = |b: &u8| matches!(b, b'\n' | b'\r' | b'\t' | 0);
    bytes.iter().position(is_break)?;
    let mut view = View { bytes: Vec::with_capacity(bytes.len()), runs: Vec::new() };
    let (mut at, mut plain_from) = (0, 0);
    while let Some(found) = bytes.get(at..)?.iter().position(is_break) {
        at += found;
        let rest = bytes.get(at..).unwrap_or_default();
        let len = rest.iter().take_while(|b| is_break(b)).count();
        let lines = rest.iter().take(len).filter(|b| **b == b'\n').count();
        // An empty line parts what stands round it.
        if len <= 3 && lines <= 1 {
            view.plain(bytes.get(plain_from..at).unwrap_or_default(), plain_from);
            plain_from = at + len;
        }
        at += len;
    }
    view.plain(bytes.get(plain_from..).unwrap_or_default(), plain_from);
    Some(view)
}
