//! `shell` with the real guard: what each end of a command means, and who is asked afterwards.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::fs;
use std::time::Duration;

use support::{Desk, KEY, Op, found, guard, until, word};
use surestep::{Effect, Outcome};
use surestep_effects::guard::{Guard, RecordState, read_record};
use surestep_effects::{Shell, ShellCheck};

fn shell() -> Shell {
    Shell::new(guard())
}

fn op(body: &str) -> Op<'_> {
    Op::new("", "t", body)
}

/// A body that runs a script.
fn script(script: &str, more: &str) -> String {
    format!(r#"{{"run":["sh","-c",{}]{more}}}"#, serde_json::to_string(script).unwrap())
}

async fn run(desk: &Desk, line: &str, more: &str) -> String {
    word(&desk.execute(&shell(), &op(&script(line, more))).await)
}

async fn check(desk: &Desk, line: &str) -> String {
    let more = format!(r#","check":["sh","-c",{}]"#, serde_json::to_string(line).unwrap());
    let body = script("true", &more);
    found(&desk.look(&shell(), &ShellCheck::new(guard()), &op(&body)).await)
}

#[tokio::test]
async fn exit_0_is_a_landing_named_by_the_key() {
    let desk = Desk::new();
    let body = script(
        "echo $SURESTEP_KEY $SURESTEP_ATTEMPT $SURESTEP_OPERATION $SURESTEP_TARGET $A $PWD",
        r#","env":{"A":"b"}"#,
    );
    let Outcome::Landed(receipt) = desk.execute(&shell(), &op(&body)).await else { panic!("not landed") };
    assert_eq!(receipt.reference, KEY);
    let said = format!(r#"{{"exit":0,"stdout":"{KEY} 1 1 t b {}\n"}}"#, desk.dir.path().display());
    assert_eq!(receipt.detail.unwrap().as_str(), said);
    let record = read_record(desk.record()).unwrap();
    assert_eq!(record.receipt.as_deref(), Some(KEY));
    assert!(matches!(record.state, RecordState::Ended { .. }));
}

#[tokio::test]
async fn no_other_end_of_a_command_says_that_nothing_happened() {
    let mut desk = Desk::new();
    assert_eq!(run(&desk, "touch here; exit 3", "").await, "ended exit");
    assert_eq!(run(&desk, "exit 1", "").await, "ended exit");
    assert_eq!(run(&desk, "exit 127", "").await, "ended exit");
    assert_eq!(run(&desk, "kill -9 $$", "").await, "over signal");
    assert!(desk.path("here").exists());
    // The guard itself is killed: nobody waits for what it ran.
    assert_eq!(run(&desk, "kill -9 $PPID; sleep 2", "").await, "unknown guard-lost");
    desk.let_go();
    assert!(desk.is_held(), "the command that goes on holds the session");
    until("the lock is free", || !desk.is_held());
}

#[tokio::test]
async fn only_a_declared_exit_code_is_a_refusal() {
    let desk = Desk::new();
    assert_eq!(run(&desk, "exit 3", r#","refused_exit":[2,3]"#).await, "backoff refused");
    assert_eq!(run(&desk, "exit 4", r#","refused_exit":[2,3]"#).await, "ended exit");
    let cut =
        op(r#"{"run":["sh","-c","trap 'exit 3' TERM; sleep 60 & wait"],"refused_exit":[3]}"#).budget_ms(500);
    assert_eq!(word(&desk.execute(&shell(), &cut).await), "over timeout");
}

#[tokio::test]
async fn what_cannot_be_started_did_not_land() {
    let desk = Desk::new();
    fs::write(desk.path("plain"), "no program").unwrap();
    let never = [
        r#"{"run":["surestep-no-such-program"]}"#,
        r#"{"run":["./plain"]}"#,
        r#"{"run":["true"],"cwd":"nowhere"}"#,
        r#"{"run":["plain/x"]}"#,
    ];
    for body in never {
        assert_eq!(word(&desk.execute(&shell(), &op(body)).await), "never not_started", "{body}");
    }
    let late = script("touch here", "");
    assert_eq!(word(&desk.execute(&shell(), &op(&late).budget_ms(-1)).await), "not sent deadline");
    let unguarded = Shell::new(Guard::new("/no/such/guard"));
    assert_eq!(word(&desk.execute(&unguarded, &op(&late)).await), "not sent guard-not-started");
    assert!(!desk.path("here").exists());
}

#[tokio::test]
async fn what_was_cut_can_no_longer_land() {
    let desk = Desk::new();
    let late = script("(sleep 2; touch here) & sleep 60", "");
    assert_eq!(word(&desk.execute(&shell(), &op(&late).budget_ms(500)).await), "over timeout");
    // Exit 0 is no landing where a part of the work was killed.
    let part = script("(sleep 2; touch here) & exit 0", "");
    assert_eq!(word(&desk.execute(&shell(), &op(&part).budget_ms(500)).await), "over timeout");
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(!desk.path("here").exists());
}

#[tokio::test]
async fn a_check_answers_by_its_exit_code_alone() {
    let desk = Desk::new();
    assert_eq!(check(&desk, "exit 0").await, format!("landed {KEY}"));
    assert_eq!(check(&desk, &format!("test $SURESTEP_KEY = {KEY}")).await, format!("landed {KEY}"));
    assert_eq!(check(&desk, "exit 1").await, "not landed");
    for unknown in ["exit 2", "exit 127", "kill -9 $$", "kill -9 $PPID; sleep 1"] {
        assert!(check(&desk, unknown).await.starts_with("unknown "), "{unknown}");
    }
    assert!(!desk.record().exists(), "a check leaves no record");
    let missing = op(r#"{"run":["true"],"check":["surestep-no-such-program"]}"#);
    let look = |op: Op<'static>| {
        let desk = &desk;
        async move { found(&desk.look(&shell(), &ShellCheck::new(guard()), &op).await) }
    };
    assert_eq!(look(missing).await, "unknown check");
    let slow = op(r#"{"run":["true"],"check":["sh","-c","sleep 60"]}"#).budget_ms(300);
    assert_eq!(look(slow).await, "unknown check");
    assert_eq!(look(op(r#"{"run":["true"]}"#)).await, "unknown body");
}

#[tokio::test]
async fn paths_are_read_in_the_plans_folder() {
    let desk = Desk::new();
    fs::create_dir(desk.path("sub")).unwrap();
    assert!(run(&desk, "touch here", r#","cwd":"sub""#).await.starts_with("landed"));
    assert!(desk.path("sub/here").exists());
}

#[test]
fn terms_follow_from_the_body() {
    let desk = Desk::new();
    let terms = |body: &str| desk.terms(&shell(), &op(body)).unwrap();
    let plain = terms(r#"{"run":["x"]}"#);
    assert_eq!((plain.deadline_ms, plain.lag_ms, plain.local), (600_000, 15_000, false));
    assert!(!plain.can_ask && !plain.distinguishes);
    let local = terms(r#"{"run":["x"],"local":true,"check":["y"]}"#);
    assert_eq!((local.lag_ms, local.local), (0, true));
    assert!(local.can_ask && !local.distinguishes);
    assert!(terms(r#"{"run":["x"],"check":["sh","-c","grep $SURESTEP_KEY log"]}"#).distinguishes);
    assert!(shell().grace_ms() > 10_000, "the guard reports what it cannot kill after 10 s");
}

#[test]
fn what_cannot_run_is_refused_when_it_is_bound() {
    let desk = Desk::new();
    let bodies = [
        "{}",
        "[]",
        r#"{"run":[]}"#,
        r#"{"run":[""]}"#,
        r#"{"run":"ls"}"#,
        r#"{"run":["a\u0000"]}"#,
        r#"{"run":["a"],"check":[]}"#,
        r#"{"run":["a"],"cwd":""}"#,
        r#"{"run":["a"],"chek":["b"]}"#,
        r#"{"run":["a"],"env":{"A=B":"c"}}"#,
        r#"{"run":["a"],"env":{"SURESTEP_KEY":"c"}}"#,
        r#"{"run":["a"],"env":{"A":1}}"#,
        r#"{"run":["a"],"refused_exit":[0]}"#,
        r#"{"run":["a"],"refused_exit":[256]}"#,
        r#"{"run":["a"],"local":"yes"}"#,
    ];
    for body in bodies {
        let refused = desk.terms(&shell(), &op(body)).unwrap_err();
        assert!(refused.code == "body" && refused.message.starts_with("`shell`: "), "{body}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_does_not_free_the_lock_under_its_command() {
    let mut desk = Desk::new();
    let body = script("touch begun; sleep 1; touch ended", "");
    let attempt = desk.attempt(&shell(), &op(&body));
    desk.let_go();
    let task = tokio::spawn(async move { shell().execute(&attempt).await });
    until("it runs", || desk.path("begun").exists());
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert!(desk.is_held(), "the command still runs");
    until("the lock is free", || !desk.is_held());
    assert!(desk.path("ended").exists(), "it was free only after the command's end");
}
