//! Credentials of every class, split and encoded in every way; and everything that only looks like one.
//!
//! No token stands here as text: each is put together from parts when the tests run.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// Random numbers from a seed (xorshift64*).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn of(&mut self, set: &str, len: usize) -> String {
        let set = set.as_bytes();
        (0..len).map(|_| char::from(set[(self.next() >> 33) as usize % set.len()])).collect()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 40) as u8).collect()
    }
}

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const WORD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
const STD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8], url: bool) -> String {
    let set = if url { WORD.replace("_-", "-_") } else { STD.to_owned() };
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let n = (0..3).fold(0_u32, |n, i| (n << 8) | u32::from(chunk.get(i).copied().unwrap_or(0)));
        for i in 0..=chunk.len() {
            out.push(char::from(set.as_bytes()[(n >> (18 - 6 * i)) as usize & 63]));
        }
        if !url {
            out.push_str(&"=".repeat(3 - chunk.len()));
        }
    }
    out
}

/// A credential: its class, the text in front that it needs, itself, and what follows.
struct Fake {
    class: Class,
    front: String,
    token: String,
    back: String,
}

fn fake(class: Class, front: &str, token: String, back: &str) -> Fake {
    Fake { class, front: front.into(), token, back: back.into() }
}

fn pem(rng: &mut Rng, kind: &str) -> String {
    let lines: String = (0..6).map(|_| rng.of(STD, 64) + "\n").collect();
    format!("-----BEGIN {kind}-----\n{lines}{}=\n-----END {kind}-----", rng.of(STD, 31))
}

fn fakes(seed: u64) -> Vec<Fake> {
    use Class::*;
    let r = &mut Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut out = Vec::new();
    for kind in ["p", "o", "u", "s", "r"] {
        out.push(fake(GitHub, "", format!("gh{kind}_{}", r.of(ALNUM, 36)), ""));
    }
    out.push(fake(GitHub, "", format!("github_{}_{}_{}", "pat", r.of(ALNUM, 22), r.of(ALNUM, 59)), ""));
    for kind in ["pat", "dt", "rt", "cbt", "ft", "imt", "agent", "soat", "oas"] {
        out.push(fake(GitLab, "", format!("gl{kind}-{}", r.of(ALNUM, 20)), ""));
    }
    out.push(fake(GitLab, "", format!("gl{}-{}", "ptt", r.of(HEX, 40)), ""));
    for kind in ["AKI", "ASI"] {
        out.push(fake(Aws, "", format!("{kind}A{}", r.of(UPPER, 16)), ""));
    }
    for name in ["AWS_SECRET_ACCESS_KEY=", "aws_secret_access_key = ", "\"SecretAccessKey\": \""] {
        out.push(fake(Aws, name, r.of(STD, 40), if name.ends_with('"') { "\"" } else { "" }));
    }
    out.push(fake(Google, "", format!("AI{}{}", "za", r.of(ALNUM, 35)), ""));
    out.push(fake(Google, "", format!("ya{}.a0{}", 29, r.of(WORD, 120)), " "));
    out.push(fake(Google, "", format!("GOC{}-{}", "SPX", r.of(ALNUM, 28)), ""));
    out.push(fake(Azure, "AccountName=a;AccountKey=", format!("{}==", r.of(STD, 86)), ";EndpointSuffix=x"));
    out.push(fake(Azure, "", format!("{}8Q{}{}", r.of(ALNUM, 3), "~", r.of(ALNUM, 34)), ""));
    out.push(fake(Azure, "https://a.example/b?sv=2024&sig=", format!("{}=", r.of(STD, 43)), "&se=1"));
    for kind in ["b", "p", "a", "s"] {
        let (a, b) = (r.of("123456789", 12), r.of("123456789", 12));
        out.push(fake(Slack, "", format!("xo{}{kind}-{a}-{b}-{}", "x", r.of(ALNUM, 24)), ""));
    }
    out.push(fake(Slack, "", format!("xa{}-1-A{}-1234567890-{}", "pp", r.of(UPPER, 10), r.of(HEX, 64)), ""));
    let hook = format!("T{}/B{}/{}", r.of(UPPER, 10), r.of(UPPER, 10), r.of(ALNUM, 24));
    out.push(fake(Slack, "https://", format!("hooks.{}.com/services/{hook}", "slack"), ""));
    for kind in ["sk_live", "sk_test", "rk_live"] {
        out.push(fake(Stripe, "", format!("{kind}_{}", r.of(ALNUM, 24)), ""));
    }
    out.push(fake(Stripe, "", format!("wh{}_{}", "sec", r.of(ALNUM, 32)), ""));
    let mid = "T3BlbkFJ";
    out.push(fake(OpenAi, "", format!("s{}-{}{mid}{}", "k", r.of(ALNUM, 20), r.of(ALNUM, 20)), ""));
    out.push(fake(OpenAi, "", format!("s{}-proj-{}{mid}{}A", "k", r.of(WORD, 74), r.of(WORD, 73)), ""));
    out.push(fake(Anthropic, "", format!("sk-{}-api03-{}AA", "ant", r.of(WORD, 93)), ""));
    out.push(fake(Npm, "", format!("np{}_{}", "m", r.of(ALNUM, 36)), ""));
    out.push(fake(PyPi, "", format!("pypi-{}IcHlwaS5vcmc{}A", "AgE", r.of(WORD, 120)), ""));
    let claims = format!("{{\"sub\":\"{}\",\"iat\":1516239022}}", r.of(LOWER, 10));
    let head = base64(b"{\"alg\":\"HS256\",\"typ\":\"JWT\"}", true);
    out.push(fake(Jwt, "", format!("{head}.{}.{}", base64(claims.as_bytes(), true), r.of(ALNUM, 43)), ""));
    for kind in ["PRIVATE", "RSA PRIVATE", "OPENSSH PRIVATE"] {
        out.push(fake(Pem, "", pem(r, &format!("{kind} KEY")), ""));
    }
    let pair = base64(format!("user:{}", r.of(ALNUM, 12)).as_bytes(), false);
    out.push(fake(Authorization, "Authorization: Basic ", pair, "\n"));
    out.push(fake(Authorization, "curl -H 'Authorization: Bearer ", r.of(ALNUM, 32), "' x"));
    out.push(fake(Authorization, "{\"Authorization\":\"Bearer ", r.of(LOWER, 24), "\"}"));
    let pair = format!("ann:{}", r.of(ALNUM, 20));
    out.push(fake(UrlPassword, "postgres://", pair, "@db.example.org/x"));
    out
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, b| {
        write!(out, "%{b:02X}").unwrap();
        out
    })
}

/// As a form or a URL has it: letters and digits stay.
fn percent_some(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, b| {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => out.push(char::from(b)),
            _ => write!(out, "%{b:02x}").unwrap(),
        }
        out
    })
}

fn escaped(text: &str) -> String {
    text.encode_utf16().fold(String::new(), |mut out, unit| {
        write!(out, "\\u{unit:04x}").unwrap();
        out
    })
}

fn wrapped(text: &str, width: usize) -> String {
    text.as_bytes().chunks(width).map(|c| String::from_utf8_lossy(c).into_owned() + "\n").collect()
}

/// Split in the middle, and before every few characters.
fn splits(token: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let marks = [
        "\u{200b}",
        "\u{200c}",
        "\u{200d}",
        "\u{2060}",
        "\u{feff}",
        "\u{ad}",
        "\u{1}",
        "\u{8}",
        "\0",
        "\u{7f}",
        "\x1b[0m",
        "\x1b[1;31m",
        "\n",
        "\r\n",
        "\t",
    ];
    for mark in marks {
        let middle = token.len() / 2;
        out.push((format!("{mark:?} once"), format!("{}{mark}{}", &token[..middle], &token[middle..])));
        if token.contains('\n') && mark.contains('\n') {
            continue;
        }
        for width in [3, 7, 16] {
            let pieces: Vec<_> = token.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
            out.push((format!("{mark:?} each {width}"), pieces.join(mark)));
        }
    }
    out
}

/// Whole texts that have the credential in them, each with what it is.
fn forms(f: &Fake) -> Vec<(String, String)> {
    let Fake { front, token, back, .. } = f;
    let whole = format!("{front}{token}{back}");
    let mut out = vec![
        ("plain".to_owned(), whole.clone()),
        ("in prose".to_owned(), format!("It said: {whole} and then\nwent on with ordinary words.")),
        ("quoted".to_owned(), format!("x=\"{whole}\"")),
        ("percent".to_owned(), format!("{front}{}{back}", percent(token))),
        ("percent, all".to_owned(), percent(&whole)),
        ("percent, some".to_owned(), percent_some(&whole)),
        ("percent twice".to_owned(), percent(&percent(&whole))),
        ("percent twice, some".to_owned(), percent_some(&percent_some(&format!(" {whole} ")))),
        ("escapes".to_owned(), format!("{front}{}{back}", escaped(token))),
        ("escapes, all".to_owned(), escaped(&whole)),
        ("JSON in JSON".to_owned(), surestep_core::json::quote(&surestep_core::json::quote(&whole))),
    ];
    for before in ["", "a", "ab", "abc", "some text: "] {
        for url in [false, true] {
            // A space parts the credential from the letters before it.
            let text = format!("{before} {whole} and more");
            let packed = base64(text.as_bytes(), url);
            out.push((format!("base64 {url} after {before:?}"), format!("data: {packed}")));
            out.push((format!("base64 {url} after {before:?}, lines"), wrapped(&packed, 64)));
            out.push((format!("base64 {url} after {before:?}, glued"), format!("path/x{packed}")));
        }
    }
    out.push((
        "base64 twice".into(),
        base64(base64(format!(" {whole} ").as_bytes(), false).as_bytes(), false),
    ));
    out.extend(splits(token).into_iter().map(|(what, token)| (what, format!("{front}{token}{back}"))));
    out
}

/// No twelve bytes of it are left, whatever stands in between, as it is or decoded.
fn assert_gone(left: &str, token: &str, what: &str) {
    let shown = |text: &str| text.chars().filter(|c| c.is_ascii_graphic()).collect::<String>();
    // The two lines round a private key tell nothing.
    let told: String = token.lines().filter(|line| !line.starts_with("-----")).collect();
    let (left, bare) = (shown(left), shown(&told));
    for (form, unit) in
        [(bare.clone(), 1), (percent(&bare), 3), (percent(&percent(&bare)), 9), (escaped(&bare), 6)]
    {
        let pieces: std::collections::HashSet<&[u8]> = form.as_bytes().windows(12 * unit).collect();
        let mut windows = left.as_bytes().windows(12 * unit);
        if let Some(piece) = windows.find(|w| pieces.contains(w)) {
            panic!("{what}: {:?} is left in {left:?}", String::from_utf8_lossy(piece));
        }
    }
    for phase in 0..3 {
        // What is the same whatever stands before and after.
        let packed = base64(&[&vec![b'x'; phase], token.as_bytes(), b"yyy"].concat(), false);
        let inner: String = packed.chars().skip([0, 2, 3][phase]).take(token.len() * 8 / 6 - 2).collect();
        for form in [inner.clone(), inner.replace('+', "-").replace('/', "_")] {
            for piece in form.as_bytes().windows(12) {
                let piece = std::str::from_utf8(piece).unwrap();
                assert!(!left.contains(piece), "{what}: {piece:?} (base64) is left in {left:?}");
            }
        }
    }
}

/// Longer with `SCRUB_SEEDS=100`.
fn seeds() -> u64 {
    std::env::var("SCRUB_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[test]
fn every_class_is_found_however_it_is_split_or_encoded() {
    let scrubber = Scrubber::new();
    let mut failures = Vec::new();
    for seed in 1..=seeds() {
        for f in fakes(seed) {
            for (what, text) in forms(&f) {
                let what = format!("{:?} ({} bytes), {what}", f.class, f.token.len());
                let left = scrubber.text(&text);
                let found = scrubber.find(&text);
                let marked = left.contains("[scrubbed:");
                let good = std::panic::catch_unwind(|| assert_gone(&left, &f.token, &what));
                if found.is_none() || !marked || good.is_err() || scrubber.text(&left) != left {
                    failures.push(format!("{what}: {text:?} -> {left:?}"));
                }
            }
            assert_eq!(scrubber.find(&format!("{}{}{}", f.front, f.token, f.back)), Some(f.class));
        }
    }
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.iter().take(12).cloned().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn json_is_scrubbed_in_strings_and_keys_at_any_depth_and_stays_json() {
    let scrubber = Scrubber::new();
    let quote = surestep_core::json::quote;
    for f in fakes(7) {
        let whole = format!("{}{}{}", f.front, f.token, f.back);
        let what = format!("{:?}", f.class);
        let deep =
            format!("{{\"n\": 1.50E+2, \"run\":[\"echo\",{{\"b\":{}}}], \"z\":\"\\u0041\"}}", quote(&whole));
        let left = scrubber.json(&deep);
        surestep_core::json::check(&left, 10).unwrap();
        assert_gone(&left, &f.token, &what);
        assert!(left.starts_with("{\"n\": 1.50E+2, \"run\":[\"echo\",{\"b\":\""), "{left}");
        assert!(left.ends_with("\"}], \"z\":\"\\u0041\"}"), "{left}");
        assert_eq!(scrubber.find_in_json(&deep), Some((f.class, "$.run[1].b".into())));
        assert_eq!(scrubber.json(&left), left);

        let other = fakes(8).into_iter().find(|o| o.class == f.class && o.front == f.front).unwrap();
        let twin = format!("{}{}{}", other.front, other.token, other.back);
        let keys = format!(
            "{{\"a b\":{{{}:1,\"x\":2,{}:3,{}:4}}}}",
            quote(&whole),
            quote(&twin),
            quote(&scrubber.text(&whole))
        );
        let left = scrubber.json(&keys);
        surestep_core::json::check(&left, 10).unwrap();
        assert_gone(&left, &f.token, &what);
        assert_gone(&left, &other.token, &what);
        assert!([":1,\"x\":2,", ":3,", ":4}}"].iter().all(|part| left.contains(part)), "{left}");
        assert_eq!(scrubber.find_in_json(&keys), Some((f.class, "$[\"a b\"].(key 1)".into())));
        assert_eq!(scrubber.json(&left), left);
    }
}

#[test]
fn a_value_is_known_by_its_name() {
    let scrubber = Scrubber::new();
    let r = &mut Rng(5);
    let (secret, token) = (r.of(STD, 40), r.of(LOWER, 24));
    for (json, path) in [
        (format!("{{\"env\":{{\"AWS_SECRET_ACCESS_KEY\":\"{secret}\"}}}}"), "$.env.AWS_SECRET_ACCESS_KEY"),
        (format!("[{{\"name\":\"aws_secret_access_key\",\"value\":\"{secret}\"}}]"), "$[0].value"),
        (format!("{{\"SecretAccessKey\":\"{secret}\",\"n\":1}}"), "$.SecretAccessKey"),
        (format!("{{\"headers\":{{\"Authorization\":\"Bearer {token}\"}}}}"), "$.headers.Authorization"),
        (format!("{{\"headers\":{{\"authorization\":\"{token}\"}}}}"), "$.headers.authorization"),
        (format!("{{\"h\":[[\"Authorization\",\"bearer {token}\"]]}}"), "$.h[0][1]"),
        (format!("{{\"run\":[\"curl\",\"-H\",\"Authorization: Bearer {token}\"]}}"), "$.run[2]"),
    ] {
        assert_eq!(scrubber.find_in_json(&json).map(|(_, path)| path).as_deref(), Some(path), "{json}");
        let left = scrubber.json(&json);
        assert_gone(&left, if left.contains(&secret) { &secret } else { &token }, &json);
        assert_gone(&left, &secret, &json);
        surestep_core::json::check(&left, 10).unwrap();
        assert_eq!(scrubber.json(&left), left);
    }
    // The same values without their names are anybody's.
    assert_eq!(scrubber.find_in_json(&format!("{{\"digest\":\"{secret}\"}}")), None);
}

#[test]
fn a_known_value_is_found_in_each_encoding() {
    let r = &mut Rng(77);
    for value in [
        "hunter2-or-so".to_owned(),
        "s3cr3t".to_owned(),
        "with \"quotes\", a \\ and an é".to_owned(),
        "two\nlines of\nit".to_owned(),
        r.of(HEX, 40),
        r.of(STD, 300),
    ] {
        let scrubber = Scrubber::new().knowing(["tiny", &value]).knowing(["another value"]);
        assert!(!format!("{scrubber:?}").contains(&value));
        let hex = value.bytes().fold(String::new(), |out, b| out + &format!("{b:02x}"));
        let quoted = surestep_core::json::quote(&value);
        let mut texts = vec![
            value.clone(),
            percent(&value),
            percent_some(&value),
            percent(&percent(&value)),
            escaped(&value),
            quoted.clone(),
            surestep_core::json::quote(&quoted),
            hex.to_uppercase(),
            format!("f{hex}"),
            hex,
        ];
        for before in ["", "a", "ab"] {
            for url in [false, true] {
                let packed = base64(format!("{before}{value}c").as_bytes(), url);
                texts.push(format!("x/{packed}"));
                texts.push(wrapped(&packed, 10));
            }
        }
        let half = value.len() / 3;
        texts.push(format!("{}\u{200b}{}", &value[..half], &value[half..]));
        for text in texts {
            let text = format!("before {text} after");
            let left = scrubber.text(&text);
            assert!(left.contains("[scrubbed:known]"), "{value:?}: {text:?} -> {left:?}");
            assert!(left.starts_with("before ") && left.ends_with(" after"), "{left:?}");
            assert!(left.len() < 70, "{value:?}: {text:?} -> {left:?}");
            assert_eq!(scrubber.text(&left), left);
            assert_eq!(Scrubber::new().text(&text), text);
        }
        let json = format!("{{{quoted}:[{quoted}]}}");
        assert_eq!(scrubber.json(&json), "{\"[scrubbed:known]\":[\"[scrubbed:known]\"]}");
        assert_eq!(scrubber.text("tiny things"), "tiny things");
    }
}

#[test]
fn only_what_is_secret_of_a_url_goes() {
    let scrubber = Scrubber::new();
    let password = Rng(3).of(ALNUM, 12);
    let url = format!("git clone https://ann:{password}@git.example.org:8443/a.git");
    assert_eq!(scrubber.text(&url), "git clone https://[scrubbed:url-password]@git.example.org:8443/a.git");
}

#[test]
fn an_end_without_any_space_is_kept_but_for_what_one_credential_can_be() {
    for byte in [0_u8, b'x', b'=', 0xff] {
        let kept = Scrubber::new().tail(&[byte; 100_000], true);
        assert!(kept.len() >= 16 << 10, "{byte}: {}", kept.len());
    }
}

#[test]
fn the_end_of_an_output_keeps_its_bytes_and_no_piece_of_a_token() {
    let scrubber = Scrubber::new();
    let mut bytes = b"\xff\xfe\0 caf\xe9 ".to_vec();
    let plain = bytes.clone();
    let f = &fakes(4)[0];
    bytes.extend_from_slice(f.token.as_bytes());
    bytes.extend_from_slice(b" \xff");
    assert_eq!(scrubber.tail(&bytes, false), [&plain[..], b"[scrubbed:github] \xff"].concat());
    assert_eq!(scrubber.tail(&plain, false), plain);
    assert_eq!(scrubber.tail(b"ial word, and more\nlines", true), b" word, and more\nlines");
    for seed in 1..=seeds() {
        for f in fakes(seed) {
            let whole = format!("before\n{}{}{}\nand after", f.front, f.token, f.back);
            let wraps = wrapped(&base64(whole.as_bytes(), false), 64);
            for text in
                [whole.clone(), format!("data: {}\nand after", percent(&whole)), wraps + "\nand after"]
            {
                for cut in (0..text.len().saturating_sub(9)).step_by(3) {
                    let left = String::from_utf8(scrubber.tail(&text.as_bytes()[cut..], true)).unwrap();
                    assert_gone(&left, &f.token, &format!("{:?} cut at {cut}", f.class));
                    assert!(left.is_empty() || left.ends_with("after"), "{left:?}");
                }
            }
        }
    }
    let value = "a pass phrase of several words";
    let knowing = Scrubber::new().knowing([value]);
    for cut in 1..value.len() {
        let left = knowing.tail(format!("{} and more", &value[cut..]).as_bytes(), true);
        assert!(value.as_bytes()[cut..].windows(6).all(|w| !left.windows(6).any(|l| l == w)), "{cut}");
    }
}

/// What only looks like a credential.
#[test]
fn look_alikes_are_left_alone() {
    let scrubber = Scrubber::new();
    let r = &mut Rng(11);
    let mut texts: Vec<String> = [
        "import sk-learn as sklearn; sk-toggleable__content-arrow sk-estimator-doc-link sk-container-id-1234",
        "the task-runner-of-the-desk and disk-usage-by-folder-2024-01-02-and-more-of-it",
        "Bearer authentication is described in RFC 6750; Basic authentication in RFC 7617",
        "Authorization: Bearer $TOKEN, Authorization: Bearer <token>, Authorization: Bearer YOUR_TOKEN",
        "authorization header, authorization code flow, basic understanding, bearer of news",
        "https://example.org:8443/path/to/a@b?x=1&y=2#frag https://user@example.org/ ssh://git@example.org/a.git",
        "https://$USER:$PASSWORD@example.org https://x:${TOKEN}@example.org https://u:***@h git@host:a/b.git",
        "see https://example.com:443\nuser:name@example.org\nhttps://example.org\na:b@c",
        "if text.starts_with(\"-----BEGIN RSA PRIVATE KEY-----\") { let e = \"-----END RSA PRIVATE KEY-----\"; }",
        "-----BEGIN CERTIFICATE-----\nMIIBkTCB+wIJAKHBfpE\n-----END CERTIFICATE-----",
        "ghp_ is a prefix, ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx a placeholder, npm_config_registry a setting",
        "sk-ant-… sk-... sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "eyJ is how a token begins; a.b.c and eyJhbGciOiJIUzI1NiJ9 are none",
        "ASIAPACIFIC AKIA AIzaSy xoxb- npm_ pypi- glpat- whsec_ AccountKey= sig= Q~",
        "fn aws_secret_access_key(&self) -> &str { self.secret_access_key_of_the_profile }",
        "aws secret: 0123456789abcdef0123456789abcdef01234567",
        "100%25 of \\u0041 and C:\\new\\table\\x41 are decoded nowhere but in thought",
        "[scrubbed:github] Authorization: Bearer [scrubbed:authorization]",
        "password = correct horse battery staple", // has no known form: nobody could tell
    ]
    .map(str::to_owned)
    .into();
    texts.push(include_str!("special.rs").to_owned());
    texts.push(include_str!("rules.rs").to_owned());
    texts.push(include_str!("tests.rs").to_owned());
    texts.push(include_str!("../../../../Cargo.lock").to_owned());
    texts.push(include_str!("../../../../docs/errors/SE0210.md").to_owned());
    // A real header, and random bytes behind it.
    let png = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &r.bytes(300_000)].concat();
    texts.push(format!("data:image/png;base64,{}", base64(&png, false)));
    texts.push(wrapped(&base64(&png, false), 76));
    texts.push(base64(&png, true));
    for text in &texts {
        let left = scrubber.text(text);
        let hits: Vec<_> =
            scrubber.hits(text.as_bytes()).into_iter().map(|h| (h.class, text.get(h.span))).collect();
        assert!(matches!(left, Cow::Borrowed(_)), "{hits:?}");
        assert_eq!(scrubber.find(text), None);
        let quoted = surestep_core::json::quote(text);
        assert!(matches!(scrubber.json(&quoted), Cow::Borrowed(_)), "{text}");
    }
}

/// Longer with `SCRUB_SEEDS=100`.
fn cases() -> ProptestConfig {
    let cases = u32::try_from(seeds()).unwrap_or(1) * 200;
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn ids_hashes_and_prose_come_back_borrowed(
        ids in prop::collection::vec(prop_oneof![
            "[0-9a-f]{40}", "[0-9a-f]{64}", "[0-9a-f]{32}".prop_map(|h| format!("v1:{h}")), "[0-9a-f]{64}".prop_map(|h| format!("sha256:{h}")),
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "[A-Za-z0-9+/]{86}==".prop_map(|b| format!("\"integrity\": \"sha512-{b}\"")),
            "[A-Za-z0-9+/]{43}=".prop_map(|b| format!("sha256-{b}")),
            "[A-Za-z0-9+/_-]{20,200}", "https://[a-z.]{3,20}/[a-z0-9/=&?_.-]{0,200}",
            "[a-z]{1,14}[,.;]?", "(sk|task|risk|pk|key|token|secret)-[a-z]{2,12}(-[a-z]{2,12}){0,4}",
            "(let|fn|if|for) [a-z_]{1,20}(\\(|\\.|::|: &str = \")[a-z_]{1,20}[;{}\")]{0,3}",
            "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z", "(%20|%2F|%25|\\\\u00e9|\\\\n|\\\\\\\\){1,5}",
        ], 1..30),
        glue in prop_oneof![Just(" "), Just("\n"), Just(", "), Just("\t"), Just("\r\n"), Just("=")],
    ) {
        let scrubber = Scrubber::new();
        let text = ids.join(glue);
        prop_assert!(matches!(scrubber.text(&text), Cow::Borrowed(_)), "{} -> {}", text, scrubber.text(&text));
        let quoted = surestep_core::json::quote(&text);
        prop_assert!(matches!(scrubber.json(&quoted), Cow::Borrowed(_)));
    }

    #[test]
    fn any_text_and_bytes_are_taken_and_scrubbing_twice_changes_nothing_more(
        pieces in prop::collection::vec((any::<String>(), 0_usize..60), 0..6), seed in 1_u64..1_000, cut in any::<bool>(),
    ) {
        let scrubber = Scrubber::new().knowing(["a known value"]);
        let fakes = fakes(seed);
        let text: String = pieces.iter().map(|(s, n)| {
            format!("{s}{}", fakes.get(*n).map_or(String::new(), |f| format!("{}{}{}", f.front, f.token, f.back)))
        }).collect();
        let once = scrubber.text(&text);
        prop_assert_eq!(scrubber.text(&once), once.as_ref());
        let tail = scrubber.tail(text.as_bytes(), cut);
        prop_assert_eq!(scrubber.tail(&tail, false), tail);
        let json = format!("[{}]", surestep_core::json::quote(&text));
        let once = scrubber.json(&json);
        prop_assert!(surestep_core::json::check(&once, 8).is_ok());
        prop_assert_eq!(scrubber.json(&once), once.as_ref());
    }

    #[test]
    fn bytes_that_are_no_text_are_kept(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(Scrubber::new().tail(&bytes, false), bytes);
    }
}

/// In a debug build these are small; `SCRUB_MB=50 cargo test --release` for the real thing.
#[test]
fn the_work_is_linear_in_the_text() {
    let mb = std::env::var("SCRUB_MB").ok().and_then(|n| n.parse().ok()).unwrap_or(0_usize);
    let bytes = (mb << 20).max(100 << 10);
    let scrubber = Scrubber::new().knowing(["a known value", "another-known-value"]);
    let random = base64(&Rng(9).bytes(64 << 10), false);
    for unit in [
        "sk-",
        "eyJ",
        "eyJ.",
        "://",
        "ghp_",
        "glpat-",
        "secret",
        "authorization: ",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "-----END RSA PRIVATE KEY-----\n",
        "%25",
        "a%41",
        "\\u0041",
        "a\n",
        "\u{200b}a",
        "https://a:",
        "AAAA",
        "a:b@",
        "Q~",
        "2024-01-02 INFO a line of a log, as there are many of them: GET /index.html 200 12ms\n",
        &random,
        &wrapped(&random, 76),
    ] {
        let text = unit.repeat(bytes / unit.len() + 1);
        let start = std::time::Instant::now();
        let left = scrubber.text(&text);
        assert!(left.len() <= text.len() * 9, "a mark for each");
        let took = start.elapsed();
        if mb > 0 {
            println!("{mb} MB of {:?}: {took:?}", unit.chars().take(20).collect::<String>());
        }
        assert!(took.as_secs() < 30, "{:?}: {took:?}", unit.chars().take(20).collect::<String>());
    }
}
