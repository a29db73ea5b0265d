//! Text from outside, made fit for a terminal: receipts, faults, output tails and ids are data, never commands.
//!
//! Control characters, bidirectional overrides and invisible format characters are shown as escapes, so that no remote
//! can recolour, erase or reorder what a person reads before answering a question.

use std::fmt::Write as _;

use surestep::scrub::Scrubber;

/// How many characters of an untrusted text one line shows.
const LINE_CHARS_MAX: usize = 300;

/// One line: everything that could move the cursor or the reading direction is escaped, and the end is cut.
pub(crate) fn line(text: &str) -> String {
    // First: a cut through a credential would leave a piece that nobody recognises.
    let text = Scrubber::new().text(text);
    let mut out = String::with_capacity(text.len());
    for (n, c) in text.trim_end().chars().enumerate() {
        if n == LINE_CHARS_MAX {
            out.push('…');
            break;
        }
        push(&mut out, c);
    }
    out
}

/// Several lines, each escaped; at most the last `lines_max`, since the end of an output says most.
pub(crate) fn tail(text: &str, lines_max: usize) -> Vec<String> {
    let lines: Vec<String> = text.lines().map(line).filter(|l| !l.is_empty()).collect();
    let skip = lines.len().saturating_sub(lines_max);
    lines.into_iter().skip(skip).collect()
}

/// A literal in a message, in backticks.
pub(crate) fn tick(text: &str) -> String {
    format!("`{}`", line(text))
}

/// A word as a shell takes it, quoted only where it must be.
pub(crate) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    if text.chars().any(is_dangerous) {
        // $'…' keeps what is unprintable visible, and stays pasteable.
        let mut out = String::from("$'");
        for c in text.chars() {
            match c {
                '\'' | '\\' => {
                    out.push('\\');
                    out.push(c);
                }
                c if is_dangerous(c) => {
                    let _ = write!(out, "\\U{:08x}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        out.push('\'');
        return out;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A command line as a person would type it, cut to a line.
pub(crate) fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(word).collect();
    line(&words.join(" "))
}

/// Fills a text with spaces up to a width in characters.
pub(crate) fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(missing))
}

/// A reference on one line, short: long hex digits are cut to twelve, since nobody compares more by eye.
pub(crate) fn brief(reference: &str) -> String {
    let (prefix, digits) = reference.split_at(reference.rfind(':').map_or(0, |at| at + 1));
    if digits.len() >= 32 && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return format!("{}{}…", line(prefix), line(digits.get(..12).unwrap_or(digits)));
    }
    let shown: String = line(reference).chars().take(60).collect();
    if shown.chars().count() == 60 { format!("{shown}…") } else { shown }
}

/// `1 operation`, `2 operations`.
pub(crate) fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// Rows as columns, two spaces apart; the last column is not padded.
pub(crate) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|n| rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| pad(cell, *width)).collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

fn push(out: &mut String, c: char) {
    match c {
        '\t' => out.push(' '),
        '\n' => out.push('⏎'),
        '\r' => {}
        c if is_dangerous(c) => {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// What a terminal could obey instead of showing: C0, DEL, C1, bidirectional controls, line separators, and
/// characters without a shape.
fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}' | '\u{ad}')
        || matches!(u32::from(c), 0xfff9..=0xfffb | 0xe0000..=0xe007f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_obeys_gets_through() {
        let shown = line("a\x1b[31mred\x07 \u{202e}gpj.exe\u{200b} \u{9b}x\tend\r\n");
        assert_eq!(shown, "a\\u{1b}[31mred\\u{7} \\u{202e}gpj.exe\\u{200b} \\u{9b}x end");
        assert_eq!(line("é 日本 ✓"), "é 日本 ✓");
    }

    #[test]
    fn a_long_text_is_cut_and_an_inner_line_break_is_seen() {
        assert_eq!(line(&"x".repeat(400)).chars().count(), LINE_CHARS_MAX + 1);
        assert_eq!(line("one\ntwo"), "one⏎two");
        assert_eq!(tail("1\n2\n\n3\n", 2), ["2", "3"]);
    }

    #[test]
    fn words_are_quoted_as_a_shell_needs_it() {
        assert_eq!(word("fix-118"), "fix-118");
        assert_eq!(word(""), "''");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word("$(rm -rf)"), "'$(rm -rf)'");
        assert_eq!(word("a\u{202e}b"), "$'a\\U0000202eb'");
        assert_eq!(command(["sh", "-c", "a b"]), "sh -c 'a b'");
    }

    #[test]
    fn long_digits_are_cut_and_other_references_are_not() {
        assert_eq!(brief("v1:354a19ee00eddc38c052a1b53f9a40cf"), "v1:354a19ee00ed…");
        assert_eq!(brief("0c723deb2f57d79bec3720f5e0c74796c224df39"), "0c723deb2f57…");
        assert_eq!(brief("118"), "118");
        assert_eq!(brief("https://example.com/acme/site/pull/118"), "https://example.com/acme/site/pull/118");
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(columns(&rows), ["a    bb", "ccc  d"]);
    }
}
