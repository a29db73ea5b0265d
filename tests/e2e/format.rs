//! What a later version wrote is refused whole, and what this one does not know is kept (exit 7; docs/format.md).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use surestep::core::json::{self, DEPTH_FILE_MAX};
use surestep::core::{Commit, Digest, Entry};

use crate::harness::{Ran, Scratch};

/// One operation in doubt for good (nothing can be asked), and one after it.
const PLAN: &str = r#"{"format":"surestep.plan/1","session":"s","agent":"a","task":"t","operations":[{"kind":"shell","repo":"r","target":"one","body":{"run":["sh","-c","exit 3"],"local":true}},{"kind":"shell","repo":"r","target":"two","body":{"run":["true"],"local":true}}],"verdict":"done"}"#;

fn in_doubt() -> Scratch {
    let scratch = Scratch::bare();
    std::fs::write(scratch.path().join("plan.json"), PLAN).expect("the plan is written");
    scratch.run(&["run", "plan.json"]).exits(4);
    scratch
}

/// Every file below a folder: its inode and its bytes.
fn bytes(folder: &Path) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let inode = entry.metadata().expect("metadata").ino();
        if path.is_dir() {
            all.extend(bytes(&path));
            all.insert(path, (inode, Vec::new()));
        } else {
            all.insert(path.clone(), (inode, std::fs::read(&path).expect("a file")));
        }
    }
    all
}

/// A sealed file's text from its fields.
pub(crate) fn sealed(fields: &Value) -> String {
    let mut fields = fields.clone();
    fields.as_object_mut().expect("an object").remove("sum");
    let bare = json::canonical(&fields.to_string(), DEPTH_FILE_MAX).expect("JSON");
    format!("{},\"sum\":\"{}\"}}", bare.strip_suffix('}').expect("an object"), Digest::of(bare.as_bytes()))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

fn with_stdin(scratch: &Scratch, args: &[&str], stdin: &str) -> Ran {
    let mut command = scratch.command(args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("stdin").write_all(stdin.as_bytes()).expect("it reads");
    Ran::of(child.wait_with_output().expect("it ends"))
}

/// Each command refuses with exit 7, and no byte or inode of the store changes.
#[track_caller]
fn refuses(scratch: &Scratch, commands: &[&[&str]]) {
    let before = bytes(&scratch.store());
    for args in commands {
        let said = scratch.run(args).exits(7).stderr;
        assert!(said.contains("newer") || said.contains("version"), "{args:?}: {said}");
    }
    assert_eq!(bytes(&scratch.store()), before, "a byte was changed");
}

const ALL: &[&[&str]] = &[
    &["show", "s"],
    &["resume", "s"],
    &["run", "plan.json"],
    &["log", "s"],
    &["resolve", "s", "1", "--landed", "--because", "x"],
    &["cancel", "s", "--because", "x"],
    &["export", "s"],
];

#[test]
fn a_newer_store_file_is_refused() {
    let scratch = in_doubt();
    let file = scratch.store().join("surestep.json");
    let text = std::fs::read_to_string(&file).expect("it");
    std::fs::write(&file, text.replace("store/1", "store/2")).expect("it");
    refuses(&scratch, ALL);
    refuses(&scratch, &[&["list"], &["questions"], &["resume", "--all"]]);
}

#[test]
fn a_newer_commit_and_an_entry_that_is_not_known_are_refused() {
    for change in [
        |commit: &mut Value| commit["format"] = "surestep.commit/2".into(),
        |commit: &mut Value| commit["entries"][0] = serde_json::json!({"entry": "novel", "x": 1}),
    ] {
        let scratch = in_doubt();
        let mut files: Vec<_> =
            std::fs::read_dir(scratch.journal("s")).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        let last = files.last().expect("a commit");
        let mut commit = read(last);
        change(&mut commit);
        std::fs::write(last, sealed(&commit)).expect("it");
        std::fs::remove_dir_all(scratch.state()).expect("the marks name the commit that was there");
        refuses(&scratch, ALL);
    }
}

#[test]
fn a_newer_mark_is_refused_and_not_written_over() {
    let scratch = in_doubt();
    let mut marks = Vec::new();
    let mut folders = vec![scratch.state()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the state folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == "s.json") {
                marks.push(path);
            }
        }
    }
    let [mark] = marks.as_slice() else { panic!("one mark: {marks:?}") };
    let mut newer = read(mark);
    newer["format"] = "surestep.mark/2".into();
    newer["novel"] = 1.into();
    std::fs::write(mark, sealed(&newer)).expect("it");
    let before = std::fs::read(mark).expect("the mark");
    refuses(&scratch, &[&["resume", "s"], &["resolve", "s", "1", "--landed", "--because", "x"]]);
    assert_eq!(std::fs::read(mark).expect("the mark"), before);
}

#[test]
fn newer_late_results_and_requests_are_refused() {
    for (folder, name, fields) in [
        ("late", "0001-1-x.json", r#"{"format":"surestep.late/2","op":1}"#),
        ("requests", "x.json", r#"{"format":"surestep.request/2","wish":"x"}"#),
    ] {
        let scratch = in_doubt();
        let fields: Value = serde_json::from_str(fields).expect("JSON");
        let file = scratch.store().join("sessions/s").join(folder).join(name);
        std::fs::write(file, sealed(&fields)).expect("it");
        refuses(&scratch, &[&["resume", "s"], &["resolve", "s", "1", "--landed", "--because", "x"]]);
    }
}

#[test]
fn a_newer_plan_or_envelope_and_an_unknown_requirement_are_refused() {
    let scratch = in_doubt();
    let before = bytes(&scratch.store());
    let newer = PLAN.replace("plan/1", "plan/2").replace(r#""session":"s","#, r#""session":"n","#);
    std::fs::write(scratch.path().join("newer.json"), &newer).expect("it");
    refuses(&scratch, &[&["run", "newer.json"]]);
    let new = r#"{"format":"surestep.envelope/1","requires":[],"session":"n","revision":0,"epoch":0,"status":"new","conversation":[],"journal":[],"counters":[]}"#;
    with_stdin(&scratch, &["step", "-", "--allow", "shell"], new).exits(2);
    let whole = scratch.run(&["export", "s"]).exits(0).stdout;
    for envelope in [new, &whole] {
        for (from, to) in [("envelope/1", "envelope/2"), (r#""requires":[]"#, r#""requires":["lanes"]"#)] {
            let later = envelope.replacen(from, to, 1);
            assert_ne!(later, envelope);
            for args in [&["step", "-", "--allow", "shell"][..], &["import", "-", "--allow", "shell"]] {
                let ran = with_stdin(&scratch, args, &later).exits(7);
                assert_eq!(ran.stdout, "");
            }
        }
    }
    assert_eq!(bytes(&scratch.store()), before, "a byte was changed");
}

/// One sample of each entry, with a field of a later version in every object that is ours.
const ENTRIES: &str = r#"[
{"entry":"opened","agent":"a","task":"t","x":1},
{"entry":"said","digest":"D","messages":1,"bytes":2,"x":1.50},
{"entry":"bound","lane":0,"turn":1,"digest":"D","verdict":"v","operations":[{"kind":"k","repo":"r","target":"t","body":{"n":1E2},"key":"K","occurrence":1,"recovery":"ask","deadline_ms":1,"lag_ms":0,"local":true,"distinguishes":true,"attempts_max":3,"backoff_ms":1,"x":[1,{"y":-0.0}]}],"x":1},
{"entry":"claimed","epoch":1,"hold":"h","owner":"o","x":1},
{"entry":"released","x":1},
{"entry":"intended","op":1,"key":"K","attempt":1,"budget_ms":1,"boot":"b","since_boot_ms":1,"deadline":"2026-12-01T00:00:00.000Z","x":1},
{"entry":"succeeded","op":1,"key":"K","attempt":1,"via":"executed","receipt":{"ref":"r","x":{"y":1E400}},"x":1},
{"entry":"failed","op":1,"key":"K","attempt":1,"via":"executed","fault":{"code":"c","message":"m","x":1},"counts":"answer","last":false,"rest":{"boot":"b","since_boot_ms":1,"wait_ms":1,"until":"2026-12-01T00:00:00.000Z","x":1},"x":1},
{"entry":"doubted","op":1,"key":"K","attempt":1,"why":{"code":"c","message":"m","x":1},"read":{"boot":"b","since_boot_ms":1,"x":1},"x":1},
{"entry":"approved","op":1,"key":"K","digest":"D","by":"b","because":"x","x":1},
{"entry":"denied","op":1,"key":"K","by":"b","because":"x","x":1},
{"entry":"skipped","op":1,"key":"K","by":"b","because":"x","may_have_landed":true,"x":1},
{"entry":"cancelled","by":"b","because":"x","x":1},
{"entry":"finished","lane":0,"turn":1,"outcome":"completed","x":1},
{"entry":"handed_off","to":"s","epoch":2,"x":1},
{"entry":"restored","mark_revision":1,"mark_epoch":1,"boot":"b","since_boot_ms":1,"x":1}]"#;

#[test]
fn unknown_fields_of_every_entry_are_kept() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let entries = ENTRIES
        .replace("\"D\"", &format!("\"{digest}\""))
        .replace("\"K\"", &format!("\"v1:{}\"", "0".repeat(32)));
    let bare = format!(
        r#"{{"format":"surestep.commit/1","session":"s","revision":1,"epoch":1,"at":"2026-12-01T00:00:00.000Z","entries":{entries},"x":{{"later":1E2}}}}"#
    );
    let bare = json::canonical(&bare, DEPTH_FILE_MAX).expect("JSON");
    let text = format!("{},\"sum\":\"{}\"}}", bare.strip_suffix('}').unwrap(), Digest::of(bare.as_bytes()));
    let commit = Commit::parse(&text).expect("a commit");
    let tags: Vec<_> = commit.entries().iter().map(Entry::tag).collect();
    assert_eq!(tags, Entry::TAGS, "an entry has no sample here");
    let written = Commit::seal(commit.into_fields()).expect("it is written");
    assert_eq!(written.text(), text, "something was lost or changed on the way");
}

/// Adds a field to every object of a commit that is ours to read: not to what is only carried.
pub(crate) fn add(value: &mut Value) -> usize {
    match value {
        Value::Object(fields) => {
            let ours = fields.iter_mut().filter(|(name, _)| !matches!(name.as_str(), "body" | "detail"));
            let inner: usize = ours.map(|(_, value)| add(value)).sum();
            fields.insert("x-later".into(), serde_json::json!({"n": [1, "é"]}));
            inner + 1
        }
        Value::Array(items) => items.iter_mut().map(add).sum(),
        _ => 0,
    }
}

#[test]
fn unknown_fields_at_every_level_are_kept_through_steps() {
    let scratch = in_doubt();
    let mut files: Vec<_> =
        std::fs::read_dir(scratch.journal("s")).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let (mut added, mut prev) = (0, None);
    let mut texts = Vec::new();
    for file in &files {
        let mut commit = read(file);
        added += add(&mut commit);
        if let Some(prev) = prev {
            commit["prev"] = prev;
        }
        let text = sealed(&commit);
        prev = Some(serde_json::from_str::<Value>(&text).unwrap()["sum"].clone());
        std::fs::write(file, &text).expect("it");
        texts.push(text);
    }
    assert!(added > 10, "{added}");
    std::fs::remove_dir_all(scratch.state()).expect("the marks name what was there");
    scratch.run(&["resolve", "s", "1", "--landed", "--because", "x"]).exits(0);
    scratch.run(&["resume", "s"]).exits(0);
    let envelope = scratch.run(&["export", "s"]).exits(0).stdout;
    for (file, text) in files.iter().zip(&texts) {
        assert_eq!(&std::fs::read_to_string(file).unwrap(), text);
        assert!(envelope.contains(text), "the envelope carries another text");
    }
    let again = surestep::Envelope::parse(envelope.trim_end().as_bytes()).expect("an envelope");
    assert_eq!(again.to_json().expect("JSON"), envelope.trim_end());
}

#[test]
fn an_envelope_keeps_what_is_the_callers_and_what_is_later() {
    let scratch = Scratch::bare();
    let plan = PLAN.replace("exit 3", "exit 0").replace(r#""session":"s","#, "");
    let new = format!(
        r#"{{"x-later":{{"n":1E2}},"format":"surestep.envelope/1","requires":[],"session":"n","revision":0,"epoch":0,"status":"new","conversation":[],"journal":[],"counters":[],"ext":{{"mine":[1.0,-0]}},"plan":{plan}}}"#
    );
    let first = with_stdin(&scratch, &["step", "-", "--allow", "shell"], &new).exits(0).stdout;
    let second = with_stdin(&scratch, &["step", "-", "--allow", "shell"], &first).exits(0).stdout;
    for text in [&first, &second] {
        for kept in [r#""x-later":{"n":1E2}"#, r#""ext":{"mine":[1.0,-0]}"#] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        assert!(text.contains(r#""status":"completed""#), "{text}");
    }
}

/// The code blocks of a page, with what they say they are.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect()
}

#[test]
fn the_worked_example_of_the_page_can_be_recomputed() {
    let page = std::fs::read_to_string(crate::harness::workspace().join("docs/format.md")).expect("the page");
    let json: Vec<_> = blocks(&page).into_iter().filter(|(kind, _)| *kind == "json").collect();
    let [(_, bare), (_, whole)] = json.as_slice() else { panic!("two texts: {json:?}") };
    let (bare, whole) = (bare.trim_end(), whole.trim_end());
    let digest = Digest::of(bare.as_bytes());
    assert!(page.contains(&format!("```text\n{}\n```", digest.hex())), "{digest}");
    assert_eq!(json::is_canonical(bare, DEPTH_FILE_MAX), Ok(()));
    let commit = Commit::parse(whole).expect("a commit");
    assert_eq!((commit.sum(), commit.text()), (digest, whole));
    // Anybody can, with a tool that is not ours.
    let mut tool = std::process::Command::new("sha256sum");
    let mut tool = tool.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sha256sum");
    tool.stdin.take().expect("stdin").write_all(bare.as_bytes()).expect("it reads");
    let said = tool.wait_with_output().expect("it ends").stdout;
    assert!(String::from_utf8_lossy(&said).starts_with(&digest.hex()));
}
