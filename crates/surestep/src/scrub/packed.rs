//! Text inside text: runs of base64 and of hex digits, decoded at every alignment.

use super::class::Hit;

/// The value of a base64 digit, of either alphabet.
#[expect(clippy::indexing_slicing, reason = "in a constant: out of bounds would not compile")]
const DIGITS: [u8; 256] = {
    let mut table = [0xff; 256];
    let all = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut n = 0;
    while n < all.len() {
        table[all[n] as usize] = n as u8;
        n += 1;
    }
    table[b'+' as usize] = 62;
    table[b'-' as usize] = 62;
    table[b'/' as usize] = 63;
    table[b'_' as usize] = 63;
    table
};

fn digit(byte: u8) -> u8 {
    DIGITS.get(usize::from(byte)).copied().unwrap_or(0xff)
}

/// Runs of base64 digits at least so long: start and end.
pub(super) fn runs(bytes: &[u8], min: usize) -> impl Iterator<Item = (usize, usize)> {
    stretches(bytes, min, |b| digit(b) != 0xff)
}

/// Runs of hex digits at least so long.
pub(super) fn hex_runs(bytes: &[u8], min: usize) -> impl Iterator<Item = (usize, usize)> {
    stretches(bytes, min, |b| b.is_ascii_hexdigit())
}

fn stretches(bytes: &[u8], min: usize, is: fn(u8) -> bool) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let from = at + bytes.get(at..)?.iter().position(|b| is(*b))?;
            let len = bytes.get(from..)?.iter().take_while(|b| is(**b)).count();
            at = from + len;
            if len >= min {
                return Some((from, at));
            }
        }
    })
}

/// What a run stands for if its first `phase` digits are not part of it. Stops at what is no digit.
pub(super) fn decoded(run: &[u8], phase: usize) -> Vec<u8> {
    let digits = run.get(phase..).unwrap_or_default();
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in digits {
        let value = digit(*byte);
        if value == 0xff {
            break;
        }
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(((bits >> held) & 0xff) as u8);
        }
    }
    out
}

/// The digits of a run that a hit in what it stands for touches.
pub(super) fn back(hit: Hit, run_from: usize, phase: usize) -> Hit {
    let last = hit.span.end.saturating_sub(1);
    let start = run_from + phase + hit.span.start * 8 / 6;
    let end = run_from + phase + (last * 8 + 7) / 6 + 1;
    Hit { span: start..end, ..hit }
}

/// What pairs of hex digits stand for.
pub(super) fn from_hex(run: &[u8], phase: usize) -> Vec<u8> {
    let value = |b: u8| char::from(b).to_digit(16).unwrap_or(0) as u8;
    run.get(phase..)
        .unwrap_or_default()
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0, |n, b| (n << 4) | value(*b)))
        .collect()
}

/// The pairs of hex digits that a hit touches.
pub(super) fn back_hex(hit: Hit, run_from: usize, phase: usize) -> Hit {
    let at = |byte: usize| run_from + phase + byte * 2;
    Hit { span: at(hit.span.start)..at(hit.span.end), ..hit }
}

/// Whether it reads like text: worth looking for more inside.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    let shown = bytes.iter().filter(|b| matches!(b, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)).count();
    !bytes.is_empty() && shown * 10 >= bytes.len() * 9
}
