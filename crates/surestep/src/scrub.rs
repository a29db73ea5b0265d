//! Scrubbing: credentials in what is about to be stored, found and replaced by `[scrubbed:CLASS]`.
//!
//! ```text
//! text --windows--> peeled, and peeled again (view) --> as it stands, and with its lines joined (view)
//!                     each: the table of rules (rules, special), the values that are known
//!                     runs of base64 and hex: decoded at each alignment (packed), and looked through in turn
//! ```
//!
//! Invariants: what has no credential comes back borrowed; scrubbing twice changes nothing more; of a credential that
//! is found nothing stays, however it was split or encoded; the work is linear in the text's length. What is found is
//! what has a known form or is known: a password that looks like a word is found by nobody.
//!
//! Bodies are not scrubbed but refused: see [`plan`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

mod bind;
mod class;
mod field;
mod json;
mod lines;
mod packed;
mod rules;
mod special;
mod tail;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use bind::name;
pub use bind::plan;
pub use class::Class;

use class::{Hit, marked, merged};
use field::Field;
use view::View;

/// How much is looked at in one go, in bytes; and how much of it again with the next: longer than any credential.
const WINDOW_BYTES: usize = 4 << 20;
const OVERLAP_BYTES: usize = 128 << 10;
/// How often a text is decoded: escapes within escapes.
const PEELS: usize = 3;
/// How often base64 within base64 is decoded.
const DEPTH: usize = 2;
/// A built-in credential in base64 has at least so many digits.
const PACKED_DIGITS_MIN: usize = 26;
/// A known value has at least so many bytes: shorter ones are words.
const KNOWN_BYTES_MIN: usize = 6;
/// Marks can part what was one word, and let a credential be seen that touched it: so many times.
const PASSES: usize = 4;

/// Finds credentials, and replaces them.
#[derive(Clone, Default)]
pub struct Scrubber {
    known: Option<Arc<Known>>,
}

/// The values that a secret source gave out.
struct Known {
    values: Vec<String>,
    literals: AhoCorasick,
    /// The length of the shortest in base64 and in hex.
    packed_digits: usize,
    hex_digits: usize,
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrubber").field("known", &self.known.as_ref().map_or(0, |k| k.values.len())).finish()
    }
}

impl Scrubber {
    /// One that knows the built-in classes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One that also finds these very values, each of at least 6 bytes, plain, percent-encoded, in base64 and hex, and
    /// in JSON's escapes.
    #[must_use]
    pub fn knowing<'a>(self, values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = self.known.as_ref().map(|known| known.values.clone()).unwrap_or_default();
        all.extend(values.into_iter().filter(|v| v.len() >= KNOWN_BYTES_MIN).map(str::to_owned));
        all.sort_unstable();
        all.dedup();
        let shortest = all.iter().map(String::len).min();
        // Where lines are put together, the value's own are too.
        let joined = all.iter().filter_map(|v| view::join(v.as_bytes())).map(|view| view.bytes);
        let form = all.iter().filter(|v| v.contains(' ')).map(|v| v.replace(' ', "+").into_bytes());
        // A text is decoded until nothing is left to decode, and with it what looks encoded in the value itself.
        let peeled = all.iter().flat_map(|v| {
            let first = view::peel(v.as_bytes()).map(|view| view.bytes);
            std::iter::successors(first, |last| view::peel(last).map(|view| view.bytes)).take(PEELS)
        });
        let literals: Vec<Vec<u8>> = all
            .iter()
            .map(|v| v.as_bytes().to_vec())
            .chain(joined.chain(peeled).filter(|v| v.len() >= KNOWN_BYTES_MIN))
            .chain(form)
            .collect();
        let known = shortest.zip(AhoCorasick::new(&literals).ok()).map(|(shortest, literals)| {
            Arc::new(Known {
                values: all,
                literals,
                packed_digits: shortest * 8 / 6,
                hex_digits: shortest * 2,
            })
        });
        Self { known }
    }

    /// The text with each credential replaced; borrowed where there is none.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
            ),
        }
    }

    /// The first credential's class, if there is one.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Class> {
        self.hits(text.as_bytes()).first().map(|hit| hit.class)
    }

    fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut out = Cow::Borrowed(bytes);
        for _ in 0..PASSES {
            let hits = self.hits(&out);
            if hits.is_empty() {
                break;
            }
            out = Cow::Owned(marked(&out, &hits));
        }
        out
    }

    /// All credentials, in order, none touching another.
    fn hits(&self, bytes: &[u8]) -> Vec<Hit> {
        let mut hits = Vec::new();
        let mut from = 0;
        loop {
            let to = (from + WINDOW_BYTES).min(bytes.len());
            let window = bytes.get(from..to).unwrap_or_default();
            hits.extend(
                self.window(window, DEPTH)
                    .into_iter()
                    .map(|hit| Hit { span: hit.span.start + from..hit.span.end + from, ..hit }),
            );
            if to == bytes.len() {
                return merged(hits);
            }
            from = to - OVERLAP_BYTES;
        }
    }

    /// The text, and what it is decoded to.
    fn window(&self, bytes: &[u8], depth: usize) -> Vec<Hit> {
        let mut hits = self.level(bytes, None, depth);
        let mut views: Vec<View> = Vec::new();
        while views.len() < PEELS
            && let Some(view) = view::peel(views.last().map_or(bytes, |view| &view.bytes))
        {
            let found = self.level(&view.bytes, Some(&view), depth);
            views.push(view);
            hits.extend(
                found.into_iter().map(|hit| views.iter().rev().fold(hit, |hit, view| view.back(hit))),
            );
        }
        hits
    }

    /// A text as it stands, with its lines joined, and what is packed in it.
    fn level(&self, bytes: &[u8], view: Option<&View>, depth: usize) -> Vec<Hit> {
        let mut hits = Vec::new();
        self.search(&Field { bytes, view, joined: false }, &mut hits);
        // Line by line first: two texts in base64 below each other are not one.
        self.unpack(bytes, depth, &mut hits);
        let Some(joined) = view::join(bytes) else { return hits };
        let mut more = Vec::new();
        self.search(&Field { bytes: &joined.bytes, view: Some(&joined), joined: true }, &mut more);
        self.unpack(&joined.bytes, depth, &mut more);
        hits.extend(more.into_iter().map(|hit| joined.back(hit)));
        hits
    }

    fn search(&self, field: &Field<'_>, hits: &mut Vec<Hit>) {
        rules::search(field, hits);
        if let Some(known) = &self.known {
            let found = known.literals.find_overlapping_iter(field.bytes);
            hits.extend(found.map(|found| Hit { class: Class::Known, span: found.range() }));
        }
    }

    fn unpack(&self, bytes: &[u8], depth: usize, hits: &mut Vec<Hit>) {
        if depth == 0 {
            return;
        }
        let min = self.known.as_ref().map_or(PACKED_DIGITS_MIN, |k| k.packed_digits.min(PACKED_DIGITS_MIN));
        for (from, to) in packed::runs(bytes, min) {
            let run = bytes.get(from..to).unwrap_or_default();
            for phase in 0..4 {
                let text = packed::decoded(run, phase);
                hits.extend(self.inner(&text, depth).into_iter().map(|hit| packed::back(hit, from, phase)));
            }
        }
        let Some(known) = &self.known else { return };
        for (from, to) in packed::hex_runs(bytes, known.hex_digits) {
            let run = bytes.get(from..to).unwrap_or_default();
            for phase in 0..2 {
                let text = packed::from_hex(run, phase);
                hits.extend(
                    self.inner(&text, depth).into_iter().map(|hit| packed::back_hex(hit, from, phase)),
                );
            }
        }
    }

    fn inner(&self, bytes: &[u8], depth: usize) -> Vec<Hit> {
        if packed::is_text(bytes) {
            return self.window(bytes, depth - 1);
        }
        let mut hits = Vec::new();
        self.search(&Field { bytes, view: None, joined: false }, &mut hits);
        hits
    }
}
