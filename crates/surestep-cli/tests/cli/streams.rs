//! stdout is data, stderr is talk: JSON, quiet, colour, a reader that goes away, text that would like to be a command.

use std::io::Read as _;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::{Desk, LOCAL, shell};

#[derive(Deserialize)]
struct Head {
    schema: String,
}

#[test]
fn every_command_prints_one_json_object_with_its_schema() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", LOCAL)]);
    let object = |args: &[&str], schema: &str| {
        let mut all = vec!["--json"];
        all.extend(args);
        let said = desk.run(&all);
        let head: Head =
            serde_json::from_str(&said.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}\n{said:?}"));
        assert_eq!(head.schema, format!("surestep.{schema}/1"), "{args:?}");
    };
    object(&["list"], "error");
    object(&["run", "p.json"], "run");
    object(&["resume", "s"], "resume");
    object(&["show", "s"], "show");
    object(&["log", "s"], "log");
    object(&["list"], "list");
    object(&["questions"], "questions");
    object(&["explain", "s", "1"], "explain");
    object(&["explain", "code", "412"], "explain");
    object(&["explain", "kind", "shell"], "explain");
    object(&["resolve", "s", "1", "--skip", "--because", "x"], "resolve");
    object(&["exec", "--session", "e", "--target", "t", "--local", "--", "true"], "exec");
    object(&["show", "none"], "error");
    object(&["shwo"], "error");
}

#[test]
fn show_has_the_fields_that_the_design_names() {
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "their presence is the test")]
    struct Show {
        schema: String,
        session: String,
        status: String,
        verdict: Option<String>,
        revision: u64,
        epoch: u64,
        rest: serde::de::IgnoredAny,
        operations: Vec<Operation>,
    }
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "their presence is the test")]
    struct Operation {
        n: u32,
        key: String,
        kind: String,
        repo: String,
        target: String,
        state: String,
        attempts: u32,
        via: Option<String>,
        receipt: Option<serde::de::IgnoredAny>,
        deadline: Option<String>,
        until: Option<String>,
        doubt: Vec<serde::de::IgnoredAny>,
    }
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(4);
    let show: Show = serde_json::from_str(&desk.run(&["show", "s", "--json"]).exits(0).stdout).unwrap();
    assert_eq!((show.status.as_str(), show.operations.len()), ("in_doubt", 1));
    assert_eq!(show.operations.first().map(|o| o.doubt.len()), Some(1));
}

#[test]
fn quiet_leaves_errors_and_data_and_no_talk() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL)]);
    let said = desk.run(&["run", "p.json", "--quiet"]).exits(0);
    assert_eq!(said.stderr, "");
    assert!(said.stdout.starts_with("s: completed"), "{said:?}");
    assert!(desk.run(&["show", "none", "-q"]).exits(10).stderr.contains("error[SE0901]"));
}

#[test]
fn without_a_terminal_there_is_no_escape_sequence() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", LOCAL)]);
    for args in
        [&["run", "p.json"][..], &["show", "s"], &["questions"], &["log", "s"], &["show"], &["--help"]]
    {
        let said = desk.run(args);
        assert!(!said.stdout.contains('\x1b') && !said.stderr.contains('\x1b'), "{args:?}: {said:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let desk = Desk::new();
    let operations: Vec<String> = (0..40).map(|n| shell(&format!("t{n}"), "true", LOCAL)).collect();
    desk.plan("p.json", "s", &operations);
    desk.run(&["run", "p.json"]).exits(0);
    let mut child =
        desk.command(&["log", "s"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0_u8; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn hostile_output_cannot_move_the_cursor() {
    let desk = Desk::new();
    let hostile = r"printf '\033[2J\033]0;owned\007 \342\200\256 landed, trust me\n' >&2; exit 9";
    desk.plan("p.json", "s", &[shell("a", hostile, LOCAL)]);
    let said = desk.run(&["run", "p.json"]).exits(4);
    for text in [
        said.stdout,
        said.stderr,
        desk.run(&["questions"]).stdout,
        desk.run(&["show", "s"]).stdout,
        desk.run(&["log", "s"]).stdout,
        desk.run(&["explain", "s", "1"]).stdout,
    ] {
        assert!(!text.contains(['\x1b', '\x07', '\u{202e}']), "{text:?}");
    }
    assert!(desk.run(&["questions"]).stdout.contains("trust me"));
}

#[test]
fn a_store_in_memory_is_refused_unless_named() {
    let Ok(shm) = tempfile::Builder::new().prefix("surestep-").tempdir_in("/dev/shm") else { return };
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL)]);
    let store = shm.path().join("store");
    let store = store.to_str().unwrap();
    let said = desk.run(&["--store", store, "run", "p.json"]).exits(2).fails("SE0503");
    assert!(said.stderr.contains("--allow-volatile"), "{said:?}");
    desk.run(&["--store", store, "--allow-volatile", "run", "p.json"]).exits(0);
}

#[test]
fn nothing_waits_for_a_terminal() {
    // With stdin closed and no terminal at all, resolve works and nothing prompts.
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(4);
    let mut command = Command::new("setsid");
    command.arg("-w").arg(env!("CARGO_BIN_EXE_surestep")).args([
        "resolve",
        "s",
        "1",
        "--skip",
        "--because",
        "x",
    ]);
    let Ok(output) = command.current_dir(desk.path()).stdin(Stdio::null()).output() else { return };
    assert_eq!(output.status.code(), Some(0));
}
