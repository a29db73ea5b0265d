//! What a rule looks at: bytes, with the places where lines were put together.

use super::view::View;

/// Bytes that are searched.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) bytes: &'a [u8],
    /// Where they came from, if they are a copy.
    pub(super) view: Option<&'a View>,
    /// Whether they were put together from lines.
    pub(super) joined: bool,
}

impl<'a> Field<'a> {
    /// The byte there; 0 outside.
    pub(super) fn at(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    pub(super) fn get(&self, from: usize, to: usize) -> &'a [u8] {
        self.bytes.get(from..to.min(self.bytes.len())).unwrap_or_default()
    }

    /// The byte before; 0 at the start, and where something was taken out in between.
    pub(super) fn before(&self, at: usize) -> u8 {
        match at.checked_sub(1) {
            Some(before) if !self.is_seam(at) => self.at(before),
            Some(_) | None => 0,
        }
    }

    /// The byte behind a match that ends here; 0 at the end, and where something was taken out in between.
    pub(super) fn behind(&self, end: usize) -> u8 {
        if self.is_seam(end) { 0 } else { self.at(end) }
    }

    fn is_seam(&self, at: usize) -> bool {
        self.view.is_some_and(|view| view.is_seam(at))
    }

    /// Where the line that this is in ended before it was put together with others.
    pub(super) fn line_end(&self, at: usize) -> Option<usize> {
        self.view.filter(|_| self.joined)?.next_seam(at)
    }

    /// Whether from here to there are two or more lines of one small length, of which the last may be shorter.
    pub(super) fn is_even(&self, from: usize, end: usize) -> bool {
        let next = |at: &usize| self.line_end(*at).filter(|at| *at < end);
        let starts: Vec<usize> = std::iter::successors(Some(from), next).collect();
        let lines = || starts.windows(2).filter_map(|pair| Some(pair.last()? - pair.first()?));
        let last = end - starts.last().copied().unwrap_or(end);
        lines().next().is_some_and(|width| width <= 12 && lines().all(|line| line == width) && last <= width)
    }

    /// Where the run of such bytes from here ends, at most `max` bytes on.
    ///
    /// Over the end of a line it goes on while fewer than `min` bytes are there, and after that while the next line
    /// looks like more of the same: so that the first word of a next line is not swallowed.
    pub(super) fn run(&self, from: usize, min: usize, max: usize, is: fn(u8) -> bool) -> usize {
        let end = from + self.get(from, from.saturating_add(max)).iter().take_while(|b| is(**b)).count();
        let Some(view) = self.view.filter(|_| self.joined) else { return end };
        let (mut at, mut last, mut width) = (from, 0, None);
        loop {
            let seam = view.next_seam(at).unwrap_or(usize::MAX);
            let piece = self.get(at, seam.min(end));
            if at > from && at - from >= min {
                let wrapped = width.is_some_and(|w| last == w && piece.len() <= w);
                if !wrapped && !goes_on(piece) {
                    return at;
                }
            } else if at > from && width.is_none() {
                width = Some(piece.len());
            }
            if seam >= end {
                return end;
            }
            (last, at) = (piece.len(), seam);
        }
    }

    /// Where the run of such bytes up to here begins, at most `max` bytes back.
    pub(super) fn run_back(&self, to: usize, max: usize, is: fn(u8) -> bool) -> usize {
        let from = to.saturating_sub(max);
        to - self.get(from, to).iter().rev().take_while(|b| is(**b)).count()
    }

    /// Whether these letters stand there, in whatever case.
    pub(super) fn says(&self, at: usize, word: &str) -> bool {
        self.get(at, at + word.len()).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// Whether the beginning of a line looks like the rest of a token.
fn goes_on(piece: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| piece.iter().any(is);
    let digit = has(u8::is_ascii_digit);
    if piece.len() >= 12 {
        return digit || piece.iter().skip(1).any(u8::is_ascii_uppercase);
    }
    digit && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
}

pub(super) fn is_alnum(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

pub(super) fn is_upper(b: u8) -> bool {
    b.is_ascii_uppercase() || b.is_ascii_digit()
}

pub(super) fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')
}

pub(super) fn is_dotted(b: u8) -> bool {
    is_word(b) || b == b'.'
}

pub(super) fn is_base64(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/')
}

pub(super) fn is_padded(b: u8) -> bool {
    is_base64(b) || b == b'='
}

/// What a bearer token is made of (RFC 6750, section 2.1), and `:`, which some have.
pub(super) fn is_token(b: u8) -> bool {
    is_word(b) || matches!(b, b'.' | b'~' | b'+' | b'/' | b'=' | b':')
}

/// A token has many different characters; what stands for one in prose (`xxxxxxxx`) has few.
pub(super) fn is_varied(bytes: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in bytes {
        if let Some(seen) = seen.get_mut(usize::from(*byte)) {
            *seen = true;
        }
    }
    seen.iter().filter(|seen| **seen).count() >= 6
}
