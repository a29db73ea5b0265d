//! Rules for source files: length, leftovers, calls that belong elsewhere, files that nothing reaches.

use std::collections::BTreeSet;

use super::{Page, assert_none, assert_seen, has_word, pages};

const LINES_MAX: usize = 400;

fn is_rust(page: &Page) -> bool {
    page.path.ends_with(".rs")
}

/// A crate's source that is not itself a test.
pub(crate) fn is_source(page: &Page) -> bool {
    let name = page.path.rsplit('/').next().unwrap();
    let test = name == "tests.rs" || name.ends_with("_tests.rs") || page.path.contains("/tests/");
    is_rust(page) && page.path.starts_with("crates/") && page.path.contains("/src/") && !test
}

/// A source before its own tests.
pub(crate) fn product(page: &Page) -> &str {
    page.text.split("\n#[cfg(test)]\nmod ").next().unwrap()
}

/// The lines of a source before its own tests, numbered from 1.
fn product_lines(page: &Page) -> impl Iterator<Item = (usize, &str)> {
    product(page).lines().enumerate().map(|(n, line)| (n + 1, line))
}

/// As [`product_lines`], without comments.
fn code_lines(page: &Page) -> impl Iterator<Item = (usize, &str)> {
    product_lines(page).map(|(n, line)| (n, line.split(" // ").next().unwrap())).filter(|(_, line)| {
        let line = line.trim_start();
        !line.starts_with("//") && !line.is_empty()
    })
}

fn too_long(page: &Page) -> Vec<String> {
    let lines = product_lines(page).count();
    (lines > LINES_MAX)
        .then(|| format!("{}: {lines} lines, at most {LINES_MAX}", page.path))
        .into_iter()
        .collect()
}

fn leftovers(page: &Page) -> Vec<String> {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
    let calls = [concat!("todo", "!("), concat!("unimplemented", "!(")];
    let bad = |line: &str| words.iter().any(|w| has_word(line, w)) || calls.iter().any(|c| line.contains(c));
    page.text
        .lines()
        .enumerate()
        .filter(|(_, line)| bad(line))
        .map(|(n, line)| format!("{}:{}: a leftover: {}", page.path, n + 1, line.trim()))
        .collect()
}

/// A call, where it may stand, and where the rule looks.
struct Ban {
    what: &'static [&'static str],
    within: &'static str,
    except: &'static [&'static str],
    why: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        what: &["std::fs", "fs::File", "File::open", "File::create", "OpenOptions"],
        within: "crates/",
        except: &[
            "crates/surestep-file/src/disk.rs", // the type of a shared lock, in the trait
            "crates/surestep-file/src/real.rs", // the disk itself
            "crates/surestep/src/tether.rs",    // the type of a shared lock, in the tether
            "crates/surestep/src/clock.rs",     // the boot's id
            "crates/surestep-effects/",
            "crates/surestep-cli/",
        ],
        why: "files are the disk's business, so that a test can lose, reorder and fail every access",
    },
    Ban {
        what: &["SystemTime", "Instant"],
        within: "crates/",
        except: &[
            "crates/surestep/src/clock.rs",     // the clock
            "crates/surestep/src/memory.rs",    // the reference store's own server clock
            "crates/surestep/src/engine.rs",    // the limit of `drive`, on the runtime's clock
            "crates/surestep-file/src/hold.rs", // how long a lock is tried
            "crates/surestep-effects/",
            "crates/surestep-cli/",
        ],
        why: "what time it is comes from the clock port",
    },
    Ban {
        what: &[
            "std::fs",
            "std::io",
            "std::net",
            "std::env",
            "std::thread",
            "std::process",
            "SystemTime",
            "Instant",
            "tokio",
            "async fn",
            "async move",
            ".await",
            "getrandom",
            "rand::",
            "random(",
            "rustix",
        ],
        within: "crates/surestep-core/",
        except: &[],
        why: "the core is pure: no I/O, no clock, no async, no chance",
    },
    Ban {
        what: &[
            "flatten)",
            "flatten,",
            "untagged",
            "tag =",
            "tag=",
            "serde_json::Value",
            "serde_json::json",
            "json!(",
        ],
        within: "crates/",
        except: &[],
        why: "it loses or changes numbers, and changes with what other crates switch on",
    },
];

fn banned(page: &Page, bans: &[Ban]) -> Vec<String> {
    let mut out = Vec::new();
    for ban in bans.iter().filter(|ban| page.path.starts_with(ban.within)) {
        if ban.except.iter().any(|place| page.path.starts_with(place)) {
            continue;
        }
        for (n, line) in code_lines(page) {
            // A serde attribute is one only inside its brackets; `flatten()` of an iterator is another thing.
            let serde_only =
                |what: &&&str| !matches!(**what, "flatten)" | "flatten," | "untagged" | "tag =" | "tag=");
            let line = line.replace("flatten()", "");
            let found = ban.what.iter().filter(|what| serde_only(what) || line.contains("serde("));
            for what in found.filter(|what| line.contains(**what)) {
                out.push(format!("{}:{n}: `{what}`: {}", page.path, ban.why));
            }
        }
    }
    out.extend(imports_value(page).then(|| format!("{}: imports serde_json's Value", page.path)));
    out
}

/// `use serde_json::{…, Value, …}`, on one line or more.
fn imports_value(page: &Page) -> bool {
    let code: String = code_lines(page).map(|(_, line)| format!("{line}\n")).collect();
    code.match_indices("serde_json::{")
        .any(|(at, _)| has_word(code[at..].split(';').next().unwrap(), "Value"))
}

/// The files that a target's root reaches through `mod` lines.
fn reached(roots: &[String], pages: &[Page]) -> BTreeSet<String> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut todo: Vec<(String, bool)> = roots.iter().map(|root| (root.clone(), true)).collect();
    while let Some((path, is_root)) = todo.pop() {
        let Some(page) = pages.iter().find(|page| page.path == path) else { continue };
        if !seen.insert(path.clone()) {
            continue;
        }
        let (folder, name) = path.rsplit_once('/').unwrap();
        let stem = name.trim_end_matches(".rs");
        let own = if is_root || name == "mod.rs" { folder.to_owned() } else { format!("{folder}/{stem}") };
        let mut named = None;
        for line in page.text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("#[path = \"") {
                named = rest.split('"').next().map(str::to_owned);
            } else if let Some(module) = module_of(line) {
                match named.take() {
                    Some(file) => todo.push((format!("{folder}/{file}"), false)),
                    None => {
                        todo.push((format!("{own}/{module}.rs"), false));
                        todo.push((format!("{own}/{module}/mod.rs"), false));
                    }
                }
            }
        }
    }
    seen
}

/// The name in a `mod name;` line, whatever comment follows.
fn module_of(line: &str) -> Option<&str> {
    let rest = line.split("//").next().unwrap().trim_end().strip_suffix(';')?;
    let rest = rest.strip_prefix("pub(crate) ").or_else(|| rest.strip_prefix("pub ")).unwrap_or(rest);
    rest.strip_prefix("mod ").filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
}

/// Source and test files that no target reaches: they are never compiled, so their tests never run.
fn unreached(roots: &[String], pages: &[Page]) -> Vec<String> {
    let reached = reached(roots, pages);
    pages
        .iter()
        .filter(|page| is_rust(page) && (page.path.starts_with("crates/") || page.path.starts_with("tests/")))
        .filter(|page| !reached.contains(&page.path))
        .map(|page| format!("{}: no `mod` line and no target reaches it", page.path))
        .collect()
}

#[test]
fn sources_have_at_most_400_lines() {
    assert_none(&pages().iter().filter(|p| is_source(p)).flat_map(too_long).collect::<Vec<_>>());

    let long = "x\n".repeat(LINES_MAX + 1);
    assert_seen(1, &too_long(&Page::new("crates/a/src/b.rs", &long)));
    let tests = format!("x\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
    assert_seen(0, &too_long(&Page::new("crates/a/src/b.rs", &tests)));
    assert!(!is_source(&Page::new("crates/a/src/b_tests.rs", "")));
}

#[test]
fn nothing_is_left_to_be_done() {
    assert_none(
        &pages().iter().filter(|p| !p.path.ends_with("Cargo.lock")).flat_map(leftovers).collect::<Vec<_>>(),
    );

    for bad in [concat!("// TO", "DO: x"), concat!("FIX", "ME"), concat!("(X", "XX)"), concat!("todo", "!()")]
    {
        assert_seen(1, &leftovers(&Page::new("a.rs", bad)));
    }
    assert_seen(0, &leftovers(&Page::new("a.sh", "mktemp -d /x.XXXXXX")));
}

#[test]
fn calls_stand_only_where_they_belong() {
    let found: Vec<_> = pages().iter().filter(|p| is_source(p)).flat_map(|p| banned(p, BANS)).collect();
    assert_none(&found);

    let in_file = |text| Page::new("crates/surestep-file/src/store.rs", text);
    for bad in [
        "let x = std::fs::read(p);",
        "let t = SystemTime::now();",
        "#[serde(flatten)]",
        "#[serde(rename_all = \"x\", untagged)]",
        "#[serde(tag = \"t\")]",
        "let v: serde_json::Value = x;",
        "use serde_json::{\n    Map,\n    Value,\n};",
        "json!({})",
    ] {
        assert_seen(1, &banned(&in_file(bad), BANS));
    }
    for bad in ["async fn x() {}", "x.await", "std::env::var(x)", "getrandom::fill(x)"] {
        assert_seen(1, &banned(&Page::new("crates/surestep-core/src/x.rs", bad), BANS));
    }
    for good in ["// std::fs", "x.iter().flatten()", "use serde_json::value::RawValue;", "type Value = X;"] {
        assert_seen(0, &banned(&in_file(good), BANS));
    }
}

#[test]
fn every_file_is_reached() {
    let pages = pages();
    assert_none(&unreached(&super::arrows::target_roots(), &pages));

    let sample = [
        Page::new("tests/e2e/main.rs", "mod a; // why\npub mod b;\n#[path = \"odd.rs\"]\nmod c;\n// mod d;"),
        Page::new("tests/e2e/a.rs", "mod inner;"),
        Page::new("tests/e2e/a/inner.rs", ""),
        Page::new("tests/e2e/b/mod.rs", ""),
        Page::new("tests/e2e/odd.rs", ""),
        Page::new("tests/e2e/d.rs", ""),
        Page::new("crates/a/tests/stray.rs", ""),
    ];
    assert_seen(2, &unreached(&["tests/e2e/main.rs".into()], &sample));
}
