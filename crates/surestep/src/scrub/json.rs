//! Credentials in JSON: in its strings and keys, decoded, each with the place where it stands.
//!
//! A value is also looked at together with its name, which is its key, or the string before it in the same object or
//! list: `{"name":"AWS_SECRET_ACCESS_KEY","value":"…"}`. Only texts that the strict reader takes are walked.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

use surestep_core::json::{self as strict, DEPTH_FILE_MAX};

use super::class::{Class, Hit, marked, merged};
use super::{PASSES, Scrubber};

/// How many characters of a key a path shows.
const KEY_SHOWN_CHARS: usize = 64;
/// A name is at most so long, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// An open object or list.
#[derive(Default)]
struct Frame {
    /// Which object it is, from 0; lists have none.
    object: Option<usize>,
    /// Items or members begun before this one.
    index: usize,
    key: String,
    /// The string before, if it was one.
    last: String,
    in_value: bool,
}

/// A string or a key.
pub(super) struct Place<'a> {
    /// Where it stands, with its quotation marks.
    pub(super) span: Range<usize>,
    pub(super) text: Cow<'a, str>,
    /// The object whose key it is.
    pub(super) key_of: Option<usize>,
    /// What its value could be the value of.
    pub(super) names: [String; 2],
    path: String,
}

/// A place, and what stands there from now on.
type Edit = (Range<usize>, String);

/// Walks a text that the strict reader took. `paths`: whether the places are wanted in words.
pub(super) struct Walk<'a> {
    text: &'a str,
    at: usize,
    stack: Vec<Frame>,
    objects: usize,
    paths: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(text: &'a str, paths: bool) -> Self {
        Self { text, at: 0, stack: Vec::new(), objects: 0, paths }
    }

    fn string(&mut self) -> Place<'a> {
        let from = self.at;
        let bytes = self.text.as_bytes();
        let mut to = from + 1;
        while let Some(byte) = bytes.get(to) {
            match byte {
                b'"' => break,
                b'\\' => to += 2,
                _ => to += 1,
            }
        }
        self.at = to + 1;
        let text = unquoted(self.text.get(from + 1..to).unwrap_or_default());
        let path = if self.paths { self.path() } else { String::new() };
        let mut place = Place { span: from..to + 1, text, key_of: None, names: Default::default(), path };
        let Some(frame) = self.stack.last_mut() else { return place };
        let short = |s: &str| if s.len() <= NAME_BYTES_MAX { s.to_owned() } else { String::new() };
        if frame.object.is_some() && !frame.in_value {
            place.key_of = frame.object;
            frame.key = place.text.clone().into_owned();
        } else {
            place.names = [short(&frame.key), std::mem::take(&mut frame.last)];
            frame.last = short(&place.text);
        }
        place
    }

    /// Where the next value or key stands: `$.headers.Authorization`, `$.run[2]`; a key by its number.
    fn path(&self) -> String {
        let mut out = "$".to_owned();
        for frame in &self.stack {
            match frame.object {
                None => write!(out, "[{}]", frame.index),
                Some(_) if !frame.in_value => write!(out, ".(key {})", frame.index + 1),
                Some(_) => step_into(&mut out, &frame.key),
            }
            .unwrap_or_default();
        }
        out
    }
}

/// Appends a member to a path, as the strict reader does: `.name`, or `["other key"]`.
fn step_into(path: &mut String, key: &str) -> std::fmt::Result {
    let letter = |c: char| c == '_' || c.is_ascii_alphabetic();
    let plain = key.chars().enumerate().all(|(n, c)| letter(c) || n > 0 && c.is_ascii_digit());
    if plain && !key.is_empty() && key.len() <= KEY_SHOWN_CHARS {
        return write!(path, ".{key}");
    }
    let more = if key.chars().nth(KEY_SHOWN_CHARS).is_some() { "…" } else { "" };
    let start: String = key.chars().take(KEY_SHOWN_CHARS).collect();
    write!(path, "[\"{}{more}\"]", start.escape_debug())
}

impl<'a> Iterator for Walk<'a> {
    type Item = Place<'a>;

    fn next(&mut self) -> Option<Place<'a>> {
        loop {
            match self.text.as_bytes().get(self.at)? {
                b'"' => return Some(self.string()),
                b'{' => {
                    self.stack.push(Frame { object: Some(self.objects), ..Frame::default() });
                    self.objects += 1;
                }
                b'[' => self.stack.push(Frame::default()),
                b'}' | b']' => drop(self.stack.pop()),
                b':' => self.stack.last_mut().into_iter().for_each(|frame| frame.in_value = true),
                b',' => self.stack.last_mut().into_iter().for_each(|frame| {
                    frame.in_value = false;
                    frame.index += 1;
                }),
                _ => {}
            }
            self.at += 1;
        }
    }
}

/// What a JSON string's inside stands for.
fn unquoted(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let unit = |at: usize| escape.get(at..at + 4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let (c, len) = match escape.as_bytes().first() {
            Some(b'n') => ('\n', 1),
            Some(b't') => ('\t', 1),
            Some(b'r') => ('\r', 1),
            Some(b'b') => ('\u{8}', 1),
            Some(b'f') => ('\u{c}', 1),
            Some(b'u') => match (unit(1), unit(7)) {
                (Some(high @ 0xd800..=0xdbff), Some(low @ 0xdc00..=0xdfff)) => (
                    char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)).unwrap_or('\u{fffd}'),
                    11,
                ),
                (Some(unit), _) => (char::from_u32(unit).unwrap_or('\u{fffd}'), 5),
                (None, _) => ('\u{fffd}', 1),
            },
            Some(other) => (char::from(*other), 1),
            None => break,
        };
        out.push(c);
        rest = escape.get(len..).unwrap_or_default();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Whether a name can make a credential of a value that does not look like one.
fn tells(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["authorization", "secret", "accountkey", "sharedaccesskey"].iter().any(|word| name.contains(word))
}

impl Scrubber {
    /// The JSON text with each credential in its strings and keys replaced; borrowed where there is none.
    ///
    /// Numbers, order and structure stay as they are. Keys of an object that become equal are numbered. What is not
    /// JSON is treated as [`text`](Self::text).
    #[must_use]
    pub fn json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        if strict::check(json, DEPTH_FILE_MAX).is_err() {
            return self.text(json);
        }
        let mut edits: Vec<Edit> = Vec::new();
        let mut keys: BTreeMap<usize, Vec<Edit>> = BTreeMap::new();
        let mut lines = self.lines(json);
        for place in Walk::new(json, false) {
            let new = match lines.remove(&place.span.start) {
                Some(rest) => Some(self.text(&rest).into_owned()),
                None => self.of_place(&place),
            };
            let Some(new) = new else { continue };
            match place.key_of {
                None => edits.push((place.span, strict::quote(&new))),
                Some(object) => keys.entry(object).or_default().push((place.span, new)),
            }
        }
        if !keys.is_empty() {
            // The keys that stay, so that a new one differs from all of them.
            let mut kept: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
            for place in Walk::new(json, false) {
                let Some((object, changed)) = place.key_of.and_then(|o| Some((o, keys.get(&o)?))) else {
                    continue;
                };
                if !changed.iter().any(|(span, _)| *span == place.span) {
                    kept.entry(object).or_default().insert(place.text.into_owned());
                }
            }
            for (object, changed) in keys {
                let taken = kept.entry(object).or_default();
                for (span, new) in changed {
                    let key = unlike(new, taken);
                    edits.push((span, strict::quote(&key)));
                    taken.insert(key);
                }
            }
            edits.sort_by_key(|(span, _)| span.start);
        }
        if edits.is_empty() {
            return Cow::Borrowed(json);
        }
        let mut out = String::with_capacity(json.len());
        let mut done = 0;
        for (span, new) in edits {
            out.push_str(json.get(done..span.start).unwrap_or_default());
            out.push_str(&new);
            done = span.end;
        }
        out.push_str(json.get(done..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// The first credential in a JSON text, with its place: `$.headers.Authorization`, `$.run[2]`.
    ///
    /// A key that is itself a credential is named by its place, never by its text.
    #[must_use]
    pub fn find_in_json(&self, json: &str) -> Option<(Class, String)> {
        if strict::check(json, DEPTH_FILE_MAX).is_err() {
            return self.find(json).map(|class| (class, "$".to_owned()));
        }
        let lines = self.lines(json);
        let class = |place: &Place<'_>| {
            let line = lines.contains_key(&place.span.start).then_some(Class::Pem);
            line.or_else(|| self.hits_of(place, &place.text).first().map(|hit| hit.class))
        };
        let n = Walk::new(json, false).position(|place| class(&place).is_some())?;
        let place = Walk::new(json, true).nth(n)?;
        Some((class(&place)?, place.path))
    }

    /// What a string or key becomes, if it has a credential.
    fn of_place(&self, place: &Place<'_>) -> Option<String> {
        let mut text = Cow::Borrowed(place.text.as_ref());
        for _ in 0..PASSES {
            let hits = self.hits_of(place, &text);
            if hits.is_empty() {
                break;
            }
            text = Cow::Owned(String::from_utf8_lossy(&marked(text.as_bytes(), &hits)).into_owned());
        }
        matches!(text, Cow::Owned(_)).then(|| text.into_owned())
    }

    fn hits_of(&self, place: &Place<'_>, text: &str) -> Vec<Hit> {
        let mut hits = self.hits(text.as_bytes());
        for name in place.names.iter().filter(|name| tells(name)) {
            let both = format!("{name}={text}");
            let front = name.len() + 1;
            hits.extend(self.hits(both.as_bytes()).into_iter().filter(|hit| hit.span.end > front).map(
                |hit| {
                    let span = hit.span.start.saturating_sub(front)..hit.span.end - front;
                    Hit { span, ..hit }
                },
            ));
        }
        merged(hits)
    }
}

/// A `$secret` in a JSON text.
pub(super) struct Reference {
    /// The place of its object.
    pub(super) path: String,
    /// What it names, if that is a string.
    pub(super) name: Option<String>,
    /// How many members its object has.
    pub(super) members: usize,
}

/// Each object with a key `$secret`, in order of those keys.
pub(super) fn references(json: &str) -> Vec<Reference> {
    if !json.contains("$secret") && !json.contains('\\') || strict::check(json, DEPTH_FILE_MAX).is_err() {
        return Vec::new();
    }
    let mut out: Vec<Reference> = Vec::new();
    let mut objects: Vec<usize> = Vec::new();
    let mut members: BTreeMap<usize, usize> = BTreeMap::new();
    let mut open = None;
    let mut walk = Walk::new(json, true);
    while let Some(place) = walk.next() {
        match place.key_of {
            Some(object) => {
                *members.entry(object).or_default() += 1;
                open = None;
                if place.text == "$secret" {
                    let path = place.path.rsplit_once(".(key").map_or("$", |(path, _)| path).to_owned();
                    out.push(Reference { path, name: None, members: 0 });
                    objects.push(object);
                    open = Some(walk.stack.len());
                }
            }
            None if open == Some(walk.stack.len()) => {
                out.last_mut()
                    .into_iter()
                    .for_each(|reference| reference.name = Some(place.text.to_string()));
            }
            None => {}
        }
    }
    for (reference, object) in out.iter_mut().zip(objects) {
        reference.members = members.get(&object).copied().unwrap_or(0);
    }
    out
}

/// The key, with a number if an object has it already.
fn unlike(key: String, taken: &BTreeSet<String>) -> String {
    if !taken.contains(&key) {
        return key;
    }
    (2_u64..).map(|n| format!("{key} {n}")).find(|numbered| !taken.contains(numbered)).unwrap_or(key)
}
