//! One test for each exit code that the commands of this version can give.

use std::process::Stdio;

use crate::{Desk, LOCAL, shell};

/// Not local, with a look-up that finds nothing.
const NOT_FOUND: &str = r#","check":["false"]"#;

#[test]
fn done_is_0_and_a_second_run_changes_nothing() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "echo x >> landed", LOCAL), shell("b", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(0);
    let again = desk.run(&["run", "p.json"]).exits(0);
    assert!(again.stdout.contains("completed"), "{again:?}");
    for command in [
        &["list"][..],
        &["show", "s"],
        &["log", "s"],
        &["questions"],
        &["resume", "s"],
        &["resume", "--all"],
        &["explain", "s", "1"],
    ] {
        desk.run(command).exits(0);
    }
    assert_eq!(std::fs::read_to_string(desk.path().join("landed")).unwrap(), "x\n");
}

#[test]
fn output_that_cannot_be_written_is_1_and_nothing_is_undone() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL)]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = desk.command(&["run", "p.json"]).stdout(Stdio::from(full)).output().unwrap();
    crate::Said::of(output).exits(1).fails("SE0108");
    desk.run(&["show", "s"]).exits(0);
}

#[test]
fn a_wrong_command_line_or_plan_is_2() {
    let desk = Desk::new();
    desk.run(&["show"]).exits(2).fails("SE0101");
    desk.run(&["run", "none.json"]).exits(2).fails("SE0103");
    desk.file("bad.json", "{\"format\":\"surestep.plan/1\",");
    desk.run(&["run", "bad.json", "--session", "s"]).exits(2).fails("SE0201");
    desk.file("utf16.json", "\u{0}");
    desk.run(&["run", "utf16.json", "--session", "s"]).exits(2).fails("SE0201");
    desk.run(&["explain", "code", "SE9999"]).exits(2).fails("SE0107");
    assert!(!desk.path().join(".surestep").exists(), "a refused plan makes no store");
}

#[test]
fn a_turn_that_was_refused_for_good_is_3() {
    let desk = Desk::new();
    let refused = shell("a", "exit 9", r#","local":true,"refused_exit":[9]"#)
        .replace("\"body\"", "\"attempts\":1,\"body\"");
    desk.plan("p.json", "s", &[refused, shell("b", "echo x > landed", LOCAL)]);
    let said = desk.run(&["run", "p.json"]).exits(3).fails("SE0414");
    assert!(said.stderr.contains("operation 2 was not started"), "{said:?}");
    assert!(!desk.path().join("landed").exists());
    desk.run(&["resume", "s"]).exits(3);
}

#[test]
fn a_question_is_4_until_it_is_answered() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", LOCAL), shell("b", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(4).fails("SE0412");
    desk.run(&["resume", "s", "--wait=1s"]).exits(4);
    desk.run(&["questions"]).exits(4);
    desk.run(&["resolve", "s", "1", "--landed", "--because", "…"]).exits(2).fails("SE0101");
    desk.run(&["resolve", "s", "1", "--landed", "--because", "seen", "--dry-run"]).exits(0);
    desk.run(&["questions"]).exits(4);
    desk.run(&["resolve", "s", "1", "--landed", "--receipt", r#"{"ref":"118"}"#, "--because", "it is there"])
        .exits(0);
    desk.run(&["resolve", "s", "1", "--skip", "--because", "late"]).exits(2).fails("SE0402");
    desk.run(&["questions"]).exits(0);
    desk.run(&["resume", "s"]).exits(0);
    let log = desk.run(&["log", "s"]).exits(0).stdout;
    assert!(
        log.contains("via operator: 118, by ann@") && log.contains(": it is there"),
        "who and why:\n{log}"
    );
}

#[test]
fn a_rest_is_5_and_so_is_an_answer_before_its_time() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", NOT_FOUND)]);
    let said = desk.run(&["run", "p.json"]).exits(5).fails("SE0415");
    assert!(said.stdout.contains("in_doubt"), "{said:?}");
    let said = desk.run(&["resolve", "s", "1", "--not-landed", "--because", "sure"]).exits(5).fails("SE0401");
    assert!(said.stderr.contains("--now"), "{said:?}");
    desk.run(&["resume", "s"]).exits(5);
    desk.run(&["resolve", "s", "1", "--not-landed", "--now", "--because", "sure"]).exits(0);
    assert!(desk.run(&["log", "s"]).exits(0).stdout.contains("(override)"));
}

#[test]
fn the_lag_can_be_lowered_by_configuration_only() {
    let desk = Desk::new();
    let operation =
        shell("a", "exit 9", NOT_FOUND).replace("\"body\"", "\"deadline_s\":1,\"attempts\":1,\"body\"");
    desk.plan("p.json", "s", &[operation]);
    desk.run(&["--lag-ms", "1", "run", "p.json"]).exits(5);
    let log: String = desk.run(&["explain", "s", "1"]).exits(0).stdout;
    assert!(log.contains("invisible for 1 ms"), "{log}");
}

#[test]
fn a_signal_waits_for_what_runs_and_starts_nothing_more() {
    let desk = Desk::new();
    desk.plan(
        "p.json",
        "s",
        &[shell("a", ": > begun; sleep 0.7; echo x >> landed", LOCAL), shell("b", "echo y >> landed", LOCAL)],
    );
    let child =
        desk.command(&["run", "p.json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    desk.wait_for("begun");
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let said = crate::Said::of(child.wait_with_output().unwrap()).exits(5).fails("SE0111");
    assert!(said.stdout.contains("1  succeeded") && said.stdout.contains("2  planned"), "{said:?}");
    assert_eq!(std::fs::read_to_string(desk.path().join("landed")).unwrap(), "x\n");
    desk.run(&["resume", "s"]).exits(0);
    assert_eq!(std::fs::read_to_string(desk.path().join("landed")).unwrap(), "x\ny\n");
}

#[test]
fn a_held_session_is_6_and_12_at_the_wait_limit() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", ": > begun; sleep 2", LOCAL)]);
    let mut child = desk.start(&["run", "p.json"]);
    desk.wait_for("begun");
    let said = desk.run(&["resume", "s"]).exits(6).fails("SE0301");
    assert!(said.stderr.contains("sleep 2"), "who holds it: {said:?}");
    // A person's word waits in the mailbox, and is judged when its owner folds it in: here it comes too late.
    let said = desk.run(&["resolve", "s", "1", "--landed", "--because", "seen"]).exits(0);
    assert!(said.stdout.contains("put into the mailbox"), "{said:?}");
    assert!(desk.run(&["show", "s"]).exits(0).stdout.contains("landed operation 1, by ann"), "{said:?}");
    desk.run(&["resume", "s", "--wait=300ms"]).exits(12).fails("SE0112");
    // A killed engine's command still holds it; waiting ends when the command does, and its result is not lost.
    child.kill().unwrap();
    child.wait().unwrap();
    desk.run(&["resume", "s"]).exits(6);
    let said = desk.run(&["resume", "s", "--wait"]).exits(0);
    assert!(said.stdout.contains("late evidence"), "{said:?}");
}

#[test]
fn a_rest_that_is_longer_than_the_wait_is_12() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", NOT_FOUND)]);
    desk.run(&["run", "p.json", "--wait=1s"]).exits(12).fails("SE0112");
}

#[test]
fn a_newer_plan_is_7() {
    let desk = Desk::new();
    desk.file("p.json", r#"{"format":"surestep.plan/2","session":"s","operations":[]}"#);
    desk.run(&["run", "p.json"]).exits(7).fails("SE0702");
}

#[test]
fn a_damaged_commit_is_8_and_no_byte_changes() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(0);
    let commit = desk.path().join(".surestep/sessions/s/journal/00000001.json");
    let text = std::fs::read_to_string(&commit).unwrap().replacen("Try it", "Try at", 1);
    std::fs::write(&commit, &text).unwrap();
    for command in [&["show", "s"][..], &["resume", "s"], &["run", "p.json"], &["log", "s"]] {
        desk.run(command).exits(8).fails("SE0601");
    }
    let listed = desk.run(&["list"]).exits(8);
    assert!(listed.stdout.contains("unreadable"), "{listed:?}");
    desk.run(&["questions"]).exits(8);
    assert_eq!(std::fs::read_to_string(&commit).unwrap(), text);
}

#[test]
fn what_is_not_there_is_10() {
    let desk = Desk::new();
    desk.run(&["list"]).exits(10).fails("SE0109");
    assert!(!desk.path().join(".surestep").exists(), "looking makes no store");
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(0);
    for command in [&["show", "t"][..], &["resume", "t"], &["log", "t"], &["explain", "t", "1"]] {
        desk.run(command).exits(10).fails("SE0901");
    }
    desk.run(&["resolve", "s", "7", "--landed", "--because", "x"]).exits(10).fails("SE0902");
    desk.run(&["explain", "s", "v1:0000"]).exits(10).fails("SE0902");
}

#[test]
fn a_store_that_cannot_be_used_is_11() {
    let desk = Desk::new();
    desk.file("file", "");
    desk.plan("p.json", "s", &[shell("a", "echo x > landed", LOCAL)]);
    let said = desk.run(&["--store", "file/store", "run", "p.json"]).exits(11).fails("SE0502");
    assert!(said.stderr.contains("file"), "the path is named: {said:?}");
    assert!(!desk.path().join("landed").exists());
}

#[test]
fn with_several_sessions_the_worst_decides() {
    let desk = Desk::new();
    desk.plan("a.json", "a", &[shell("a", "exit 9", LOCAL)]);
    desk.plan("b.json", "b", &[shell("b", "exit 9", NOT_FOUND)]);
    desk.run(&["run", "a.json"]).exits(4);
    desk.run(&["run", "b.json"]).exits(5);
    desk.run(&["resume", "--all"]).exits(4);
    let said = desk.run(&["--json", "resume", "--all"]).exits(4);
    assert!(
        said.stdout.contains("\"surestep.resume/1\"") && said.stdout.contains("\"session\": \"b\""),
        "{said:?}"
    );
}

#[test]
fn a_parent_that_ignores_its_children_changes_nothing() {
    let ignoring = |words: &[&str]| {
        let mut command = std::process::Command::new("env");
        command.arg("--ignore-signal=CHLD").args(words);
        command
    };
    if !ignoring(&["true"]).output().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "`env --ignore-signal` is missing, and CI must have it");
        return;
    }
    let desk = Desk::new();
    // The command sees its own children end, too.
    desk.plan("p.json", "s", &[shell("a", "sh -c 'exit 7'; test $? = 7 && echo x >> landed", LOCAL)]);
    let mut command = ignoring(&[env!("CARGO_BIN_EXE_surestep"), "run", "p.json"]);
    let output = command.current_dir(desk.path()).env_remove("SURESTEP_STORE").output().unwrap();
    crate::Said::of(output).exits(0);
    assert_eq!(std::fs::read_to_string(desk.path().join("landed")).unwrap(), "x\n");
}
