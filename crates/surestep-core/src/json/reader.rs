//! The machine behind [`check`](super::check) and [`canonical`](super::canonical): one pass over the text, a token at
//! a time, with the open arrays and objects on a heap stack. Members are put in order when their object ends.

use std::borrow::Cow;
use std::ops::Range;

use super::{JsonError, JsonFault, KEY_SHOWN_CHARS, is_space, quote_into, shown};

/// An array or object whose end has not been read yet.
enum Frame<'a> {
    Array { index: usize },
    Object { members: Vec<Member<'a>>, inside: bool, out_start: usize },
}

/// A member of an open object: its decoded key, where that stands in the text, and where the member stands in `out`.
struct Member<'a> {
    key: Cow<'a, str>,
    offset: usize,
    out: Range<usize>,
}

/// What the grammar allows next.
enum Want {
    Value,
    ItemOrEnd,
    Key,
    KeyOrEnd,
    CommaOrEnd,
}

pub(super) struct Reader<'a> {
    text: &'a str,
    pos: usize,
    stack: Vec<Frame<'a>>,
    depth_max: usize,
    /// The canonical text so far, where it is wanted.
    out: Option<String>,
    /// The byte that is known to differ from the canonical text: reading past it is a fault.
    pub(super) stop: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, depth_max: usize, out: Option<String>) -> Reader<'a> {
        Reader { text, pos: 0, stack: Vec::new(), depth_max, out, stop: usize::MAX }
    }

    pub(super) fn run(mut self) -> Result<Option<String>, JsonError> {
        let mut want = Want::Value;
        loop {
            while self.peek().is_some_and(is_space) {
                self.pos += 1;
            }
            if self.pos > self.stop {
                return Err(self.fault(self.stop, JsonFault::NotCanonical));
            }
            want = match want {
                Want::ItemOrEnd if self.peek() == Some(b']') => self.close()?,
                Want::KeyOrEnd if self.peek() == Some(b'}') => self.close()?,
                Want::Value | Want::ItemOrEnd => self.value()?,
                Want::Key | Want::KeyOrEnd => self.key()?,
                Want::CommaOrEnd if self.stack.is_empty() => match self.peek() {
                    None => return Ok(self.out),
                    Some(0) => return Err(self.fault(self.pos, JsonFault::Nul)),
                    Some(_) => return Err(self.fault(self.pos, JsonFault::TrailingData)),
                },
                Want::CommaOrEnd => self.comma_or_end()?,
            };
        }
    }

    fn value(&mut self) -> Result<Want, JsonError> {
        let start = self.pos;
        match self.peek() {
            Some(b'[') => return self.open("[", Frame::Array { index: 0 }, Want::ItemOrEnd),
            Some(b'{') => {
                let out_start = self.out_len() + 1;
                let frame = Frame::Object { members: Vec::new(), inside: false, out_start };
                return self.open("{", frame, Want::KeyOrEnd);
            }
            Some(b'"') => {
                let decoded = self.string()?;
                self.put_string(start, &decoded);
                return Ok(Want::CommaOrEnd);
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'+' | b'.') => return Err(self.fault(start, JsonFault::BadNumber)),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.literal()?,
            None if self.stack.is_empty() => return Err(self.fault(0, JsonFault::Empty)),
            Some(_) | None => return Err(self.unexpected()),
        }
        self.put(self.slice(start..self.pos));
        Ok(Want::CommaOrEnd)
    }

    fn open(&mut self, bracket: &str, frame: Frame<'a>, want: Want) -> Result<Want, JsonError> {
        if self.stack.len() >= self.depth_max {
            return Err(self.fault(self.pos, JsonFault::TooDeep { max: self.depth_max }));
        }
        self.pos += 1;
        self.put(bracket);
        self.stack.push(frame);
        Ok(want)
    }

    fn key(&mut self) -> Result<Want, JsonError> {
        let (offset, out_start) = (self.pos, self.out_len());
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        let key = self.string()?;
        self.put_string(offset, &key);
        if let Some(Frame::Object { members, inside, .. }) = self.stack.last_mut() {
            members.push(Member { key, offset, out: out_start..out_start });
            *inside = true;
        }
        while self.peek().is_some_and(is_space) {
            self.pos += 1;
        }
        if !self.eat(b':') {
            return Err(self.unexpected());
        }
        self.put(":");
        Ok(Want::Value)
    }

    fn comma_or_end(&mut self) -> Result<Want, JsonError> {
        let (next, out_len) = (self.peek(), self.out_len());
        let want = match (self.stack.last_mut(), next) {
            (Some(Frame::Array { index }), Some(b',')) => {
                *index += 1;
                Want::Value
            }
            (Some(Frame::Object { members, inside, .. }), Some(b',' | b'}')) => {
                if let Some(member) = members.last_mut() {
                    member.out.end = out_len;
                }
                if next == Some(b'}') {
                    return self.close();
                }
                *inside = false;
                Want::Key
            }
            (Some(Frame::Array { .. }), Some(b']')) => return self.close(),
            (Some(Frame::Array { .. } | Frame::Object { .. }) | None, _) => return Err(self.unexpected()),
        };
        self.pos += 1;
        self.put(",");
        Ok(want)
    }

    /// Ends the innermost array or object at its closing bracket; an object's members are put in order here.
    fn close(&mut self) -> Result<Want, JsonError> {
        match self.stack.pop() {
            Some(Frame::Object { members, out_start, .. }) => {
                if !members.is_sorted_by(|a, b| a.key < b.key) {
                    self.arrange(members, out_start)?;
                }
                self.put("}");
            }
            Some(Frame::Array { .. }) | None => self.put("]"),
        }
        self.pos += 1;
        Ok(Want::CommaOrEnd)
    }

    fn arrange(&mut self, mut members: Vec<Member<'a>>, out_start: usize) -> Result<(), JsonError> {
        members.sort_by(|a, b| a.key.cmp(&b.key)); // stable: of two equal keys the later one comes second
        let twice = members.iter().zip(members.iter().skip(1)).filter(|(a, b)| a.key == b.key);
        if let Some((_, second)) = twice.min_by_key(|(_, second)| second.offset) {
            let mut error =
                self.fault(second.offset, JsonFault::DuplicateKey { key: second.key.clone().into_owned() });
            step_into(&mut error.path, &second.key);
            return Err(error);
        }
        if let Some(out) = &mut self.out {
            let unsorted = out.split_off(out_start);
            for (nth, Member { out: at, .. }) in members.into_iter().enumerate() {
                out.push_str(if nth == 0 { "" } else { "," });
                out.push_str(unsorted.get(at.start - out_start..at.end - out_start).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Reads a string from its opening to its closing quote and gives it decoded.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.pos += 1;
        let (mut plain_start, mut decoded) = (self.pos, None::<String>);
        loop {
            let rest = self.text.as_bytes().get(self.pos..).unwrap_or_default();
            self.pos += plain_bytes(rest);
            let plain = self.slice(plain_start..self.pos);
            match self.peek() {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(match decoded {
                        None => Cow::Borrowed(plain),
                        Some(start) => Cow::Owned(start + plain),
                    });
                }
                Some(b'\\') => {
                    let decoded = decoded.get_or_insert_default();
                    decoded.push_str(plain);
                    decoded.push(self.escape()?);
                    plain_start = self.pos;
                }
                Some(0) => return Err(self.fault(self.pos, JsonFault::Nul)),
                Some(_) => return Err(self.fault(self.pos, JsonFault::ControlInString)),
                None => return Err(self.fault(self.pos, JsonFault::UnexpectedEnd)),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.pos;
        self.pos += 1;
        let Some(letter) = self.peek() else { return Err(self.fault(self.pos, JsonFault::UnexpectedEnd)) };
        self.pos += 1;
        Ok(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\x08',
            b't' => '\t',
            b'n' => '\n',
            b'f' => '\x0c',
            b'r' => '\r',
            b'u' => {
                let unit = self.hex(start)?;
                let mut units = vec![unit];
                if (0xd800..0xdc00).contains(&unit) && self.slice(self.pos..self.pos + 2) == "\\u" {
                    let second = self.pos;
                    self.pos += 2;
                    units.push(self.hex(second)?);
                }
                match char::decode_utf16(units).next() {
                    Some(Ok(decoded)) => decoded,
                    Some(Err(_)) | None => return Err(self.fault(start, JsonFault::LoneSurrogate { unit })),
                }
            }
            _ => return Err(self.fault(start, JsonFault::BadEscape)),
        })
    }

    /// Four hexadecimal digits of the escape that began at `escape`.
    fn hex(&mut self, escape: usize) -> Result<u16, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            match self.peek().map(|b| char::from(b).to_digit(16)) {
                Some(Some(digit)) => unit = unit << 4 | digit,
                Some(None) => return Err(self.fault(escape, JsonFault::BadEscape)),
                None => return Err(self.fault(self.pos, JsonFault::UnexpectedEnd)),
            }
            self.pos += 1;
        }
        u16::try_from(unit).map_err(|_| self.fault(escape, JsonFault::BadEscape))
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.pos;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits(start)?;
        }
        if self.eat(b'.') {
            self.digits(start)?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits(start)?;
        }
        match self.peek() {
            Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'+' | b'-' | b'_') => {
                Err(self.fault(start, JsonFault::BadNumber))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// One digit or more.
    fn digits(&mut self, number: usize) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'0'..=b'9') => {}
            Some(_) => return Err(self.fault(number, JsonFault::BadNumber)),
            None => return Err(self.fault(self.pos, JsonFault::UnexpectedEnd)),
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.pos += 1;
        }
        Ok(())
    }

    fn literal(&mut self) -> Result<(), JsonError> {
        let start = self.pos;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            self.pos += 1;
        }
        let word = self.slice(start..self.pos);
        let cut_short =
            self.peek().is_none() && ["true", "false", "null"].iter().any(|l| l.starts_with(word));
        match word {
            "true" | "false" | "null" => Ok(()),
            _ if cut_short => Err(self.fault(self.pos, JsonFault::UnexpectedEnd)),
            "NaN" | "nan" | "Infinity" | "inf" => Err(self.fault(start, JsonFault::BadNumber)),
            _ => Err(self.fault(start, JsonFault::BadLiteral)),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.pos += usize::from(there);
        there
    }

    /// Only ever asked for ranges between ASCII characters; past the end it is empty.
    fn slice(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    fn out_len(&self) -> usize {
        self.out.as_ref().map_or(0, String::len)
    }

    fn put(&mut self, canonical: &str) {
        if let Some(out) = &mut self.out {
            out.push_str(canonical);
        }
    }

    /// Puts the string that stands at `start..pos`: as it stands, unless an escape made the decoded one shorter.
    fn put_string(&mut self, start: usize, decoded: &str) {
        let literal = self.slice(start..self.pos);
        match &mut self.out {
            None => {}
            Some(out) if literal.len() == decoded.len() + 2 => out.push_str(literal),
            Some(out) => quote_into(out, decoded),
        }
    }

    fn unexpected(&self) -> JsonError {
        let why = match self.slice(self.pos..self.text.len()).chars().next() {
            None => JsonFault::UnexpectedEnd,
            Some('\u{feff}') => JsonFault::ByteOrderMark,
            Some('\0') => JsonFault::Nul,
            Some(found) => JsonFault::Unexpected { found },
        };
        self.fault(self.pos, why)
    }

    fn fault(&self, offset: usize, why: JsonFault) -> JsonError {
        let mut path = String::from("$");
        for frame in &self.stack {
            match frame {
                Frame::Array { index } => path.push_str(&format!("[{index}]")),
                Frame::Object { members, inside: true, .. } => {
                    step_into(&mut path, members.last().map_or("", |member| &member.key));
                }
                Frame::Object { inside: false, .. } => {}
            }
        }
        JsonError { offset, path, why }
    }
}

/// Appends a member to a JSON path (RFC 9535): `.name`, or `["other key"]`.
fn step_into(path: &mut String, key: &str) {
    let plain = key
        .chars()
        .enumerate()
        .all(|(n, c)| c == '_' || c.is_ascii_alphabetic() || n > 0 && c.is_ascii_digit());
    if plain && !key.is_empty() && key.len() <= KEY_SHOWN_CHARS {
        path.push('.');
        path.push_str(key);
    } else {
        path.push_str(&format!("[\"{}\"]", shown(key)));
    }
}

/// How many bytes stand before the first that ends, escapes or breaks a string. Chunks first: those are compared in one go.
fn plain_bytes(bytes: &[u8]) -> usize {
    const CHUNK: usize = 32;
    let special = |b: &u8| matches!(b, b'"' | b'\\' | 0..=0x1f);
    let plain = |chunk: &&[u8]| !chunk.iter().fold(false, |found, b| found | special(b));
    let start = CHUNK * bytes.chunks_exact(CHUNK).take_while(plain).count();
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().position(special).unwrap_or(rest.len())
}
