//! What is stored and printed has the shape that the checked-in schemas say.
//!
//! The validator is our own: it knows exactly the words that our schemas use, and fails on any other, so that no
//! constraint is passed over in silence. A crate for all of JSON Schema would be some forty crates for eleven words.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::harness::{Scratch, workspace};

/// The checked-in schemas by file name.
struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    fn load() -> Self {
        let folder = workspace().join("fixtures/schemas");
        let files = std::fs::read_dir(folder).expect("the schemas").map(Result::unwrap);
        let read = |file: std::fs::DirEntry| {
            let text = std::fs::read_to_string(file.path()).expect("a schema");
            let name = file.file_name().into_string().expect("a name");
            (name, serde_json::from_str(&text).expect("JSON"))
        };
        Self(files.map(read).collect())
    }

    /// Asserts that a text is what one of them says.
    #[track_caller]
    fn hold(&self, name: &str, text: &str) {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}: {text}"));
        let file = format!("{name}.json");
        if let Err(why) = self.check(&file, &self.0[&file], &value, "$") {
            panic!("{name}: {why}\n{text}");
        }
    }

    fn follow(&self, file: &str, to: &str, value: &Value, path: &str) -> Result<(), String> {
        match to.strip_prefix("#/$defs/") {
            Some(name) => self.check(file, &self.0[file]["$defs"][name], value, path),
            None => self.check(to, &self.0[to], value, path),
        }
    }

    fn check(&self, file: &str, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        let schema = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(schema) => schema,
            other => return Err(format!("{path}: no schema: {other}")),
        };
        for (word, says) in schema {
            let good = match word.as_str() {
                "$id" | "$schema" | "$defs" | "title" | "description" | "format" | "default" => true,
                "$ref" => {
                    self.follow(file, says.as_str().unwrap_or_default(), value, path)?;
                    true
                }
                "type" => match says {
                    Value::Array(any) => any.iter().any(|one| is_type(one, value)),
                    one => is_type(one, value),
                },
                "const" => says == value,
                "enum" => list(says).contains(value),
                "oneOf" | "anyOf" => {
                    let tried: Vec<_> =
                        list(says).iter().map(|one| self.check(file, one, value, path)).collect();
                    let fits = tried.iter().filter(|one| one.is_ok()).count();
                    if fits == 0 || word == "oneOf" && fits > 1 {
                        return Err(format!("{path}: {fits} of {word} fit: {tried:?}"));
                    }
                    true
                }
                "properties" => {
                    for (name, inner) in object(says) {
                        if let Some(value) = value.get(name) {
                            self.check(file, inner, value, &format!("{path}.{name}"))?;
                        }
                    }
                    true
                }
                "required" => {
                    match list(says).iter().find(|name| value.get(name.as_str().unwrap()).is_none()) {
                        Some(name) => return Err(format!("{path}: {name} is missing")),
                        None => true,
                    }
                }
                "additionalProperties" => {
                    let known = schema.get("properties").map(object).cloned().unwrap_or_default();
                    let fields = value.as_object().into_iter().flatten();
                    for (name, other) in fields.filter(|(name, _)| !known.contains_key(*name)) {
                        if says == &Value::Bool(false) {
                            return Err(format!("{path}: `{name}` is not known"));
                        }
                        self.check(file, says, other, &format!("{path}.{name}"))?;
                    }
                    true
                }
                "items" => {
                    for (n, item) in list(value).iter().enumerate() {
                        self.check(file, says, item, &format!("{path}[{n}]"))?;
                    }
                    true
                }
                "minimum" => value.as_f64().is_none_or(|n| n >= says.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|n| n <= says.as_f64().unwrap()),
                "minLength" => {
                    value.as_str().is_none_or(|s| s.chars().count() as u64 >= says.as_u64().unwrap())
                }
                "maxLength" => {
                    value.as_str().is_none_or(|s| s.chars().count() as u64 <= says.as_u64().unwrap())
                }
                "pattern" => value.as_str().is_none_or(|s| is_hex_after(says.as_str().unwrap(), s)),
                other => panic!("{file}: the validator does not know `{other}`"),
            };
            if !good {
                return Err(format!("{path}: `{word}` is {says}, found {value}"));
            }
        }
        Ok(())
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

fn is_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap_or_default() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("the validator does not know the type `{other}`"),
    }
}

/// Our patterns all are `^PREFIX[0-9a-f]{N}$`.
fn is_hex_after(pattern: &str, text: &str) -> bool {
    let (prefix, count) = pattern[1..].split_once("[0-9a-f]{").expect("a pattern of ours");
    let count: usize = count.strip_suffix("}$").and_then(|n| n.parse().ok()).expect("a pattern of ours");
    text.strip_prefix(prefix)
        .is_some_and(|hex| hex.len() == count && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

const PLAN: &str = r#"{"format":"surestep.plan/1","session":"s","agent":"a","task":"t","conversation":[{"role":"user","content":"go"}],"operations":[{"kind":"shell","repo":"r","target":"one","body":{"run":["true"],"local":true}},{"kind":"shell","repo":"r","target":"two","body":{"run":["true"],"local":true},"approval":"required"},{"kind":"shell","repo":"r","target":"three","body":{"run":["sh","-c","exit 3"],"local":true}}],"verdict":"done"}"#;

#[test]
fn what_is_stored_and_printed_has_the_shape_of_its_schema() {
    let schemas = Schemas::load();
    let scratch = Scratch::bare();
    schemas.hold("plan", PLAN);
    std::fs::write(scratch.path().join("plan.json"), PLAN).expect("the plan is written");
    let said = |name: &str, args: &[&str], code: i32| {
        let mut all = vec!["--json"];
        all.extend_from_slice(args);
        schemas.hold(name, &scratch.run(&all).exits(code).stdout);
    };
    said("run", &["run", "plan.json"], 4);
    said("questions", &["questions"], 4);
    said("error", &["run", "missing.json"], 2);
    said("error", &["nonsense"], 2);
    said("approve", &["approve", "s", "2", "--because", "x"], 0);
    said("resume", &["resume", "s"], 4);
    said("resume", &["resume", "--all"], 4);
    said("questions", &["questions"], 4);
    said("show", &["show", "s"], 0);
    said("list", &["list"], 0);
    said("log", &["log", "s"], 0);
    said("explain", &["explain", "s", "1"], 0);
    said("explain", &["explain", "code", "SE0412"], 0);
    said("resolve", &["resolve", "s", "3", "--not-landed", "--dry-run", "--because", "x"], 0);
    said("cancel", &["cancel", "s", "--because", "x"], 0);
    said("resolve", &["resolve", "s", "3", "--landed", "--because", "x"], 0);
    said("resume", &["resume", "s"], 0);
    said("exec", &["exec", "--session", "e", "--target", "t", "--local", "--", "true"], 0);
    said("export", &["export", "s", "-o", "copy.json"], 0);
    said("fsck", &["fsck"], 0);
    said("schema", &["schema"], 0);
    said("doctor", &["doctor"], 0);
    said("completions", &["completions", "bash"], 0);
    said("man", &["man"], 0);
    said("dry_run", &["run", "plan.json", "--session", "dry", "--dry-run"], 0);
    let followed = scratch.run(&["--json", "log", "s", "--follow"]).exits(0).stdout;
    for line in followed.lines() {
        schemas.hold(if line.contains("log.commit/1") { "log.commit" } else { "log.end" }, line);
    }
    schemas.hold("envelope", &scratch.run(&["export", "s"]).exits(0).stdout);
    schemas.hold("envelope", &scratch.run(&["export", "e"]).exits(0).stdout);
    let mut kinds = BTreeMap::new();
    files(&scratch.path().join(".surestep"), &mut kinds);
    files(&scratch.state(), &mut kinds);
    for (path, text) in &kinds {
        let format =
            serde_json::from_str::<Value>(text).ok().and_then(|v| v["format"].as_str().map(str::to_owned));
        let name = format.unwrap_or_default().replace("surestep.", "").replace("/1", "");
        if schemas.0.contains_key(&format!("{name}.json")) {
            schemas.hold(&name, text);
        } else {
            assert!(["holder", ""].contains(&name.as_str()), "{path}: `{name}` has no schema");
        }
    }
    assert!(kinds.len() > 8, "{kinds:#?}");
}

/// The JSON files below a folder.
fn files(folder: &std::path::Path, all: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|e| e == "json") {
            all.insert(path.display().to_string(), std::fs::read_to_string(&path).expect("a file"));
        }
    }
}

#[test]
fn a_schema_sees_what_is_wrong() {
    let schemas = Schemas::load();
    let refused = |name: &str, text: &str| {
        let value: Value = serde_json::from_str(text).expect("JSON");
        let file = format!("{name}.json");
        schemas.check(&file, &schemas.0[&file], &value, "$").expect_err("it is taken");
    };
    for (from, to) in [
        (r#""format":"surestep.plan/1""#, r#""format":"surestep.plan/2""#),
        (r#""verdict":"done""#, r#""verdct":"done""#),
        (r#""approval":"required""#, r#""approval":"maybe""#),
        (r#""kind":"shell","#, ""),
        (r#""agent":"a""#, r#""agent":1"#),
    ] {
        let wrong = PLAN.replace(from, to);
        assert_ne!(wrong, PLAN);
        refused("plan", &wrong);
    }
    refused("store", r#"{"format":"surestep.store/1"}"#);
    let digest = "0".repeat(64);
    refused(
        "commit",
        &format!(
            r#"{{"format":"surestep.commit/1","session":"s","revision":1,"epoch":1,"at":"2026-12-01T00:00:00.000Z","entries":[{{"entry":"novel"}}],"sum":"sha256:{digest}"}}"#
        ),
    );
}

#[test]
fn the_command_prints_the_checked_in_schemas() {
    let scratch = Scratch::bare();
    let names = scratch.run(&["schema"]).exits(0).stdout;
    assert_eq!(names.lines().count(), Schemas::load().0.len());
    for name in names.lines() {
        let file = workspace().join("fixtures/schemas").join(format!("{name}.json"));
        let text = std::fs::read_to_string(file).expect("its file");
        assert_eq!(scratch.run(&["schema", name]).exits(0).stdout, text);
    }
    let said = scratch.run(&["schema", "plam"]).exits(2).stderr;
    assert!(said.contains("surestep schema plan"), "{said}");
    assert!(!scratch.store().exists(), "it needs no store");
}
