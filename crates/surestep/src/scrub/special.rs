//! Credentials that more than a prefix and a length tells: by their name, their parts, what they stand next to.

use std::ops::Range;

use super::field::{Field, is_alnum, is_base64, is_dotted, is_padded, is_token, is_varied, is_word};
use super::packed;

type Found = Option<Range<usize>>;

/// How long a name may be, in bytes.
const NAME_BYTES_MAX: usize = 48;
/// How long one credential may be, in bytes.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// What may stand between a name and its value.
fn is_between(b: u8) -> bool {
    b.is_ascii_whitespace()
        || matches!(b, b'"' | b'\'' | b'`' | b'\\' | b':' | b'=' | b',' | b'>' | b'(' | b'|')
}

/// Where the value behind a name begins: something must stand in between.
fn value_at(field: &Field<'_>, name_end: usize) -> Option<usize> {
    let at = name_end + field.get(name_end, name_end + 24).iter().take_while(|b| is_between(**b)).count();
    (at > name_end || field.behind(name_end) == 0).then_some(at)
}

/// Forty characters next to a name like `aws_secret_access_key`.
pub(super) fn aws_secret(field: &Field<'_>, literal: Range<usize>) -> Found {
    let start = field.run_back(literal.start, NAME_BYTES_MAX, is_dotted);
    let end = field.run(literal.end, 0, NAME_BYTES_MAX, is_dotted);
    let name = field.get(start.saturating_sub(24), end).to_ascii_lowercase();
    let has = |word: &[u8]| name.windows(word.len()).any(|w| w == word);
    if !has(b"aws") && !has(b"access") {
        return None;
    }
    let mut at = value_at(field, end)?;
    // {"name":"AWS_SECRET_ACCESS_KEY","value":"..."}
    if field.says(at, "value") {
        at = value_at(field, at + 5)?;
    }
    let end = field.run(at, 40, 40, is_base64);
    let value = field.get(at, end);
    let real = value.len() == 40 && !value.iter().all(u8::is_ascii_hexdigit) && is_varied(value);
    (real && !is_padded(field.behind(end))).then_some(at..end)
}

/// The base64 key of an Azure connection string.
pub(super) fn account_key(field: &Field<'_>, literal: Range<usize>) -> Found {
    let at = value_at(field, literal.end)?;
    let end = field.run(at, 43, 128, is_padded);
    (end - at >= 43 && is_varied(field.get(at, end))).then_some(at..end)
}

/// A shared access signature: 32 bytes in base64.
pub(super) fn shared_signature(field: &Field<'_>, literal: Range<usize>) -> Found {
    if is_word(field.before(literal.start)) {
        return None;
    }
    let end = field.run(literal.end, 43, 44, is_padded);
    let value = field.get(literal.end, end);
    let real = value.len() >= 43 && !value.iter().all(u8::is_ascii_hexdigit) && is_varied(value);
    (real && !is_padded(field.behind(end))).then_some(literal.end..end)
}

/// A client secret of Azure: three characters, a digit, `Q~`, and some thirty more.
pub(super) fn azure_secret(field: &Field<'_>, literal: Range<usize>) -> Found {
    fn is(b: u8) -> bool {
        is_dotted(b) || b == b'~'
    }
    let start = literal.start.checked_sub(4)?;
    let exact = field.get(literal.start, literal.end) == b"Q~";
    let digit = field.at(literal.start - 1).is_ascii_digit();
    let front = field.get(start, literal.start).iter().all(|b| is(*b)) && !is_alnum(field.before(start));
    let end = field.run(literal.end, 31, 34, is);
    (exact && digit && front && end - literal.end >= 31 && is_varied(field.get(literal.end, end)))
        .then_some(start..end)
}

/// The address of a Slack webhook is its secret.
pub(super) fn slack_hook(field: &Field<'_>, literal: Range<usize>) -> Found {
    fn is(b: u8) -> bool {
        is_word(b) || b == b'/'
    }
    let path = literal.end;
    if !["services/", "workflows/", "triggers/"].iter().any(|word| field.says(path, word)) {
        return None;
    }
    let end = field.run(path, 32, 512, is);
    (end - path >= 32 && is_varied(field.get(path, end))).then_some(literal.start..end)
}

/// `sk-…`: OpenAI's keys and those of its followers, but no word (`sk-toggleable__label`).
pub(super) fn sk(field: &Field<'_>, literal: Range<usize>) -> Found {
    if is_word(field.before(literal.start))
        || field.get(literal.start, literal.end) != b"sk-"
        || field.says(literal.end, "ant-")
    {
        return None;
    }
    let end = field.run(literal.end, 20, 1_024, is_word);
    let key = field.get(literal.end, end);
    let has = |piece: &[u8], is: fn(&u8) -> bool| piece.iter().any(is);
    let mixed = |piece: &[u8]| has(piece, u8::is_ascii_uppercase) && has(piece, u8::is_ascii_lowercase);
    let random = |piece: &[u8]| match piece.len() {
        16.. if has(piece, u8::is_ascii_digit) => is_varied(piece),
        20.. => mixed(piece),
        _ => false,
    };
    let named =
        ["proj-", "svcacct-", "admin-", "None-", "service-"].iter().any(|n| key.starts_with(n.as_bytes()))
            && is_varied(key)
            && (mixed(key) || has(key, u8::is_ascii_digit));
    // A word at the end of a line, and a hash or the like on the next: no token, unless it was wrapped evenly.
    if let Some(line) = field.line_end(literal.end).filter(|line| *line < end) {
        let word = field.get(literal.end, line);
        let is_word = word.len() >= 2 && word.iter().all(|b| b.is_ascii_lowercase() || *b == b'-');
        if is_word && !named && !(mixed(key) && field.is_even(line, end)) {
            return None;
        }
    }
    let found = key.len() >= 20 && (named || key.split(|b| matches!(b, b'-' | b'_')).any(random));
    found.then_some(literal.start..end)
}

/// Three (or, encrypted, five) parts of base64url, the first a JSON object.
pub(super) fn jwt(field: &Field<'_>, literal: Range<usize>) -> Found {
    if is_word(field.before(literal.start)) || field.get(literal.start, literal.end) != b"eyJ" {
        return None;
    }
    let mut end = literal.start;
    for part in 0..5 {
        let from = if part == 0 { end } else { end + 1 };
        // Only where the last part ends is in doubt over the end of a line.
        let whole = if part < 2 { TOKEN_BYTES_MAX } else { 10 };
        let to = field.run(from, whole, TOKEN_BYTES_MAX, is_word);
        let enough = to - from >= if part == 0 { 12 } else { 10 };
        if !enough {
            break;
        }
        end = to;
        if field.at(end) != b'.' {
            return (part >= 2).then_some(literal.start..end);
        }
    }
    let parts = field.get(literal.start, end).iter().filter(|b| **b == b'.').count() + 1;
    (parts >= 3).then_some(literal.start..end)
}

/// How long a header in a PEM block may be, in bytes.
const PEM_HEADER_BYTES_MAX: usize = 200;

/// What stands between the lines of a PEM block: in a file, a string, a comment, a quotation.
fn is_pem_gap(b: u8) -> bool {
    b.is_ascii_whitespace()
        || matches!(b, b'"' | b'\'' | b'`' | b'\\' | b',' | b'+' | b'>' | b'#' | b'|' | b';')
}

fn is_pem(b: u8) -> bool {
    is_padded(b)
}

/// A private key, up to its END or to where its lines stop.
pub(super) fn pem(field: &Field<'_>, literal: Range<usize>) -> Found {
    let mut at = pem_label(field, literal.end)?;
    let mut end = None;
    let mut headers = 0;
    loop {
        let gap = field.get(at, at + 80).iter().take_while(|b| is_pem_gap(**b)).count();
        let from = at + gap;
        if end.is_some() && field.says(from, "-----END ") {
            let last = pem_label(field, from + 9).unwrap_or(from + 9);
            return Some(literal.start..last);
        }
        let to = from + field.get(from, from + TOKEN_BYTES_MAX).iter().take_while(|b| is_pem(**b)).count();
        let name = from + field.get(from, from + 40).iter().take_while(|b| is_word(**b)).count();
        if name > from && field.at(name) == b':' && headers < 10 {
            headers += 1;
            let line = field.get(name, name + PEM_HEADER_BYTES_MAX);
            at = name + line.iter().position(|b| *b == b'\n').unwrap_or(1);
            continue;
        }
        let ends = field
            .says(to + field.get(to, to + 80).iter().take_while(|b| is_pem_gap(**b)).count(), "-----END ");
        match to - from {
            16.. => end = Some(to),
            1.. if ends && end.is_some() => end = Some(to),
            // The cut line at the end of a cut block.
            1.. if end == Some(at) && field.at(to) != b':' => return Some(literal.start..to),
            _ => return end.map(|end| literal.start..end),
        }
        at = to;
    }
}

/// Behind `-----BEGIN ` or `-----END `: where the line ends, if it is of a private key.
fn pem_label(field: &Field<'_>, from: usize) -> Option<usize> {
    let label = field.get(from, from + 48);
    let len =
        label.iter().take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b' ').count();
    let (name, rest) = label.split_at_checked(len)?;
    let private = name.windows(11).any(|w| w == b"PRIVATE KEY");
    (private && rest.starts_with(b"-----")).then_some(from + len + 5)
}

/// The end of a private key whose BEGIN is gone: what is left of its lines goes with it.
pub(super) fn pem_end(field: &Field<'_>, literal: Range<usize>) -> Found {
    let end = pem_label(field, literal.end)?;
    let (mut start, mut lines) = (literal.start, false);
    loop {
        let gap = field.run_back(start, 80, is_pem_gap);
        let line = field.run_back(gap, TOKEN_BYTES_MAX, is_pem);
        let len = gap - line;
        // Only the last line may be short.
        if len < 16 && (len == 0 || start < literal.start) {
            return lines.then_some(start..end);
        }
        (start, lines) = (line, lines || len >= 16);
    }
}

/// `Authorization: Bearer …`, also as a field of JSON: what follows the scheme.
pub(super) fn header(field: &Field<'_>, literal: Range<usize>) -> Found {
    let mut at = value_at(field, literal.end)?;
    if field.says(at, "value") {
        at = value_at(field, at + 5)?;
    }
    let Some(scheme) = ["bearer", "basic", "token", "apikey"].iter().find(|s| field.says(at, s)) else {
        // Without a scheme: a long token right behind, no address and no id.
        let end = field.run(at, 20, TOKEN_BYTES_MAX, is_word);
        let value = field.get(at, end);
        let mut pieces = value.split(|b| *b == b'-');
        let long = pieces.any(|piece| piece.len() >= 20 && piece.iter().any(u8::is_ascii_digit));
        return (long && is_varied(value) && !is_token(field.behind(end))).then_some(at..end);
    };
    let from = credentials_at(field, at + scheme.len())?;
    let end = field.run(from, 8, TOKEN_BYTES_MAX, is_token);
    let value = field.get(from, end);
    if *scheme == "basic" {
        return (is_pair(value) || is_random(value)).then_some(from..end);
    }
    let plain = value.iter().all(u8::is_ascii_lowercase)
        || value.iter().all(|b| b.is_ascii_uppercase() || *b == b'_');
    (value.len() >= 8 && (value.len() >= 20 || !plain)).then_some(from..end)
}

/// `Bearer …` without its header: only what is long and no word.
pub(super) fn bearer(field: &Field<'_>, literal: Range<usize>) -> Found {
    if is_word(field.before(literal.start)) {
        return None;
    }
    let from = credentials_at(field, literal.end)?;
    let end = field.run(from, 16, TOKEN_BYTES_MAX, is_token);
    let value = field.get(from, end);
    let digit = value.iter().any(u8::is_ascii_digit);
    (value.len() >= 16 && digit && is_varied(value)).then_some(from..end)
}

/// `Basic …`: base64 of a user and a password.
pub(super) fn basic(field: &Field<'_>, literal: Range<usize>) -> Found {
    if is_word(field.before(literal.start)) {
        return None;
    }
    let from = credentials_at(field, literal.end)?;
    let end = field.run(from, 8, TOKEN_BYTES_MAX, is_padded);
    let value = field.get(from, end);
    is_pair(value).then_some(from..end)
}

fn credentials_at(field: &Field<'_>, scheme_end: usize) -> Option<usize> {
    let is = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'+' | b':' | b'=');
    let len = field.get(scheme_end, scheme_end + 8).iter().take_while(|b| is(b)).count();
    (len > 0 || field.behind(scheme_end) == 0).then_some(scheme_end + len)
}

/// A word has neither digits nor capitals within.
fn is_random(value: &[u8]) -> bool {
    let capital =
        value.iter().skip(1).any(u8::is_ascii_uppercase) && value.iter().any(u8::is_ascii_lowercase);
    value.len() >= 16 && is_varied(value) && (capital || value.iter().any(u8::is_ascii_digit))
}

/// Base64 of `user:password`, printable.
fn is_pair(value: &[u8]) -> bool {
    let text = packed::decoded(value, 0);
    value.len() >= 8
        && std::str::from_utf8(&text).is_ok()
        && text.iter().position(|b| *b == b':').is_some_and(|at| at + 1 < text.len())
        && text.iter().all(|b| *b >= 0x20 && *b != 0x7f)
}

/// User and password between a URL's scheme and its host.
pub(super) fn url_password(field: &Field<'_>, literal: Range<usize>) -> Found {
    fn is_user_info(b: u8) -> bool {
        b > b' '
            && b != 0x7f
            && !matches!(b, b'/' | b'?' | b'#' | b'[' | b']' | b'<' | b'>' | b'"' | b'\'' | b'`' | b'\\')
    }
    if !field.at(literal.start.checked_sub(1)?).is_ascii_alphanumeric() {
        return None;
    }
    let from = literal.end;
    let limit = from + field.get(from, from + 1_024).iter().take_while(|b| is_user_info(**b)).count();
    let info = field.get(from, limit);
    let len = info.iter().rposition(|b| *b == b'@')?;
    let info = info.get(..len)?;
    // A host at the end of a line, and an address on the next, are no URL.
    if let Some(line) = field.line_end(from).and_then(|end| info.get(..end - from)) {
        let port = |at: usize| line.get(at + 1..).unwrap_or_default().iter().all(u8::is_ascii_digit);
        if line.iter().position(|b| *b == b':').map_or(line.contains(&b'.'), port) {
            return None;
        }
    }
    let colon = info.iter().position(|b| *b == b':')?;
    let password = info.get(colon + 1..)?;
    (!password.is_empty() && !stands_for_one(password)).then_some(from..from + len)
}

/// `$NAME`, `${…}`, `{…}`, `%s`, `***`: no password but the place of one.
fn stands_for_one(password: &[u8]) -> bool {
    let name = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_';
    match password {
        [b'$', b'{' | b'(', ..] | [b'{', ..] => true,
        [b'$', more @ ..] => more.iter().all(name),
        [b'%', b's' | b'v' | b'd'] => true,
        all => all.iter().all(|b| matches!(b, b'*' | b'x' | b'X' | b'.')),
    }
}
