//! The scrubber from outside: what a hostile or clumsy text does to a credential.

use std::borrow::Cow;

use surestep::scrub::Scrubber;
use surestep::{PlanError, SessionId, StepError};

use crate::common::*;

const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Letters and digits from a seed, as no real token has them.
fn letters(seed: u64, len: usize) -> String {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            char::from(ALNUM[(x >> 33) as usize % ALNUM.len()])
        })
        .collect()
}

fn token(seed: u64) -> String {
    format!("ghp{}{}", "_", letters(seed, 36))
}

/// No run of twelve characters of the token is left.
#[track_caller]
fn gone(left: &str, token: &str, what: &str) {
    let runs: Vec<char> = token.chars().collect();
    for run in runs.windows(12) {
        let run: String = run.iter().collect();
        assert!(!left.contains(&run), "{what}: {left}");
    }
}

#[test]
fn what_shows_nothing_does_not_hide_a_token() {
    let invisible = [
        '\u{ad}',
        '\u{34f}',
        '\u{61c}',
        '\u{115f}',
        '\u{17b4}',
        '\u{180b}',
        '\u{180e}',
        '\u{200b}',
        '\u{200c}',
        '\u{200d}',
        '\u{200e}',
        '\u{2028}',
        '\u{202a}',
        '\u{2060}',
        '\u{2061}',
        '\u{2066}',
        '\u{206f}',
        '\u{3164}',
        '\u{fe00}',
        '\u{feff}',
        '\u{ffa0}',
        '\u{fff9}',
        '\u{1d173}',
        '\u{e0001}',
        '\u{e0041}',
        '\u{e0100}',
        '\0',
        '\u{1}',
        '\u{7}',
        '\u{8}',
        '\u{b}',
        '\u{c}',
        '\u{1b}',
        '\u{7f}',
        '\u{80}',
        '\u{85}',
        '\u{9f}',
    ];
    let mut missed = Vec::new();
    for c in invisible {
        for every in [1, 4, 11] {
            let token = token(u64::from(u32::from(c)) + every as u64);
            let mut split = String::new();
            for (n, letter) in token.chars().enumerate() {
                if n > 0 && n % every == 0 {
                    split.push(c);
                }
                split.push(letter);
            }
            let left = Scrubber::new().text(&split).replace(c, "");
            if left.contains(&token[8..20]) {
                missed.push((c.escape_unicode().to_string(), every));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn a_key_kept_as_a_list_of_lines_goes_line_by_line() {
    let dashes = "-----";
    let lines: Vec<String> = (0..6).map(|n| letters(n, 64)).collect();
    let body = lines.iter().map(|line| format!("\"{line}\"")).collect::<Vec<_>>().join(",");
    let json = format!(
        r#"{{"lines":["{dashes}BEGIN RSA PRIVATE KEY{dashes}",{body},"{dashes}END RSA PRIVATE KEY{dashes}","done"],"n":1E2}}"#
    );
    let left = Scrubber::new().json(&json);
    surestep::core::json::check(&left, 64).unwrap();
    for line in &lines {
        gone(&left, line, "a line of a key");
    }
    assert!(left.contains("\"done\"") && left.contains("1E2"), "{left}");
}

#[test]
fn json_inside_json_inside_json_is_scrubbed_and_stays_json() {
    for seed in 0..40 {
        let token = token(seed);
        let quote = |text: &str| surestep::core::json::quote(text);
        let escaped: String = token.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        for inner in [format!("{{\"a\":{}}}", quote(&token)), format!("{{\"{escaped}\":1E2}}")] {
            let twice = format!("[{},{}]", quote(&inner), quote(&quote(&inner)));
            let json = format!("{{{}:{}}}", quote(&token), quote(&twice));
            for text in [inner.clone(), twice, json] {
                let left = Scrubber::new().json(&text);
                surestep::core::json::check(&left, 64).unwrap();
                gone(&left, &token, &text);
                gone(&left, &escaped, &text);
                assert!(matches!(Scrubber::new().json(&left), Cow::Borrowed(_)), "again: {left}");
            }
        }
    }
}

#[test]
fn a_known_value_of_any_shape_is_found_in_any_neighbourhood() {
    let values = [
        "correct horse battery staple",
        "p@ss/w+rd=1&2",
        "line one\nline two\nline three",
        "{\"type\":\"service\",\"key\":\"abc\\ndef\"}",
        "é😀 ünï 日本",
        "aaaaaaaaaaaa",
        "  spaces at both ends  ",
        "100% \\u0041 %41",
    ];
    for value in values {
        let with = Scrubber::new().knowing([value]);
        let percent: String = value.bytes().map(|b| format!("%{b:02x}")).collect();
        let quoted = surestep::core::json::quote(value);
        let forms = [
            value.to_owned(),
            format!("x{value}x"),
            value.repeat(3),
            percent.clone(),
            quoted.clone(),
            surestep::core::json::quote(&quoted),
            format!("curl: (22) {percent}&next=1"),
            format!("{value:?}"),
        ];
        for form in forms {
            let left = with.text(&form);
            gone(&left, value, &form);
            assert!(left.contains("[scrubbed:"), "{form:?} became {left:?}");
            assert!(!left.contains(&percent), "{form:?} became {left:?}");
        }
    }
}

#[test]
fn what_a_basic_header_has_goes_whatever_it_stands_for() {
    for seed in 0..200 {
        let value = letters(seed, 24);
        let left = Scrubber::new().text(&format!("Authorization: Basic {value}\n")).into_owned();
        assert!(!left.contains(&value[..12]), "{left}");
    }
    for words in
        ["Authorization: Basic authentication-required", "Authorization: Basic authentication is off"]
    {
        assert!(matches!(Scrubber::new().text(words), Cow::Borrowed(_)), "{words}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_not_named_by_a_credential() {
    let mut world = World::new();
    world.session = SessionId::new(token(7)).unwrap();
    let error = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap_err();
    let StepError::Plan(PlanError::Secret { class, path }) = &error else { panic!("{error:?}") };
    assert_eq!((class.as_str(), path.as_str()), ("github", "$.session"));
    gone(&format!("{error} {error:?}"), &token(7), "the refusal");
    assert_eq!((world.store.published(), world.store.holds()), (0, 0));
}

fn base64(text: &str) -> String {
    let digit = |n: u32| char::from([ALNUM, b"+/"].concat()[(n & 63) as usize]);
    text.as_bytes()
        .chunks(3)
        .flat_map(|chunk| {
            let word = chunk.iter().fold(0, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
            let digits: Vec<char> = (0..=chunk.len()).map(|n| digit(word >> (18 - 6 * n))).collect();
            digits.into_iter().chain(std::iter::repeat_n('=', 3 - chunk.len()))
        })
        .collect()
}

#[test]
fn texts_in_base64_below_each_other_are_not_one() {
    for seed in 0..50 {
        // 39 bytes: nothing pads its base64, so that two lines of it run into each other.
        let token = format!("AIza{}", letters(seed, 35));
        let packed = base64(&token);
        for text in
            [format!("{packed}\n{packed}\n"), format!("a {packed}\r\n{packed},{packed}"), packed.clone()]
        {
            let left = Scrubber::new().text(&text);
            gone(&left, &packed[..48], &text);
        }
    }
}
