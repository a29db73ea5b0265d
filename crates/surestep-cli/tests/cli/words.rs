//! What a person may say before and instead of an operation, and what a newcomer reads next.

use std::process::Stdio;

use std::time::Duration;

use crate::{Desk, LOCAL, Said, shell};

/// Needs a person's yes.
fn asks(target: &str, run: &str) -> String {
    shell(target, run, LOCAL).replace("\"body\"", "\"approval\":\"required\",\"body\"")
}

fn lines(desk: &Desk) -> String {
    std::fs::read_to_string(desk.path().join("landed")).unwrap_or_default()
}

#[track_caller]
fn next_is(said: &crate::Said, command: &str) {
    assert!(said.stderr.contains(command) || said.stdout.contains(command), "`{command}` in\n{said:#?}");
}

#[test]
fn what_was_approved_runs_once() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[asks("a", "echo x >> landed"), shell("b", "echo y >> landed", LOCAL)]);
    let said = desk.run(&["run", "p.json"]).exits(4).fails("SE0411");
    next_is(&said, "surestep approve s 1 --because '…'");
    next_is(&said, "surestep deny s 1 --because '…'");
    next_is(&said, "it was not started; operation 2 waits behind it");
    next_is(&desk.run(&["questions"]).exits(4), "surestep approve s 1 --because '…'");
    desk.run(&["approve", "s", "1", "--because", "…"]).exits(2).fails("SE0101");
    let dry = desk.run(&["approve", "s", "1", "--because", "read it", "--dry-run"]).exits(0);
    next_is(&dry, "nothing was written or started");
    desk.run(&["questions"]).exits(4);
    let said = desk.run(&["--json", "approve", "s", "1", "--because", "read it"]).exits(0);
    for word in ["\"surestep.approve/1\"", "\"word\": \"approve\"", "\"state\": \"planned\"", "\"exit\": 0"] {
        next_is(&said, word);
    }
    assert_eq!(lines(&desk), "", "approving runs nothing");
    desk.run(&["approve", "s", "1", "--because", "again"]).exits(2).fails("SE0402");
    desk.run(&["resume", "s"]).exits(0);
    desk.run(&["resume", "s"]).exits(0);
    assert_eq!(lines(&desk), "x\ny\n");
    let log = desk.run(&["log", "s"]).exits(0);
    assert!(log.stdout.contains("by ann@") && log.stdout.contains(": read it"), "{log:?}");
}

#[test]
fn what_was_denied_never_runs() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[asks("a", "echo x >> landed"), shell("b", "echo y >> landed", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(4);
    desk.run(&["deny", "s", "1", "--because", "too dear"]).exits(0);
    desk.run(&["resume", "s"]).exits(3).fails("SE0414");
    let show = desk.run(&["show", "s"]).exits(0);
    assert!(show.stdout.contains("1  denied"), "{show:?}");
    assert_eq!(lines(&desk), "");
    let log = desk.run(&["log", "s"]).exits(0);
    assert!(log.stdout.contains("denied") && log.stdout.contains(": too dear"), "{log:?}");
}

#[test]
fn a_cancelled_turn_is_13() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[asks("a", "echo x >> landed")]);
    let said = desk.run(&["run", "p.json"]).exits(4).fails("SE0411");
    next_is(&said, "it was not started; no other operation is left to start");
    let dry = desk.run(&["--json", "cancel", "s", "--because", "not today", "--dry-run"]).exits(0);
    next_is(&dry, "\"surestep.cancel/1\"");
    next_is(&dry, "\"n\": null");
    desk.run(&["questions"]).exits(4);
    let said = desk.run(&["cancel", "s", "--because", "not today"]).exits(0);
    next_is(&said, "recorded: turn 1 of `s` is cancelled");
    next_is(&said, "turn 1 is finished: cancelled");
    desk.run(&["questions"]).exits(0);
    next_is(&desk.run(&["resume", "s"]).exits(13).fails("SE0417"), "surestep log s");
    desk.run(&["run", "p.json"]).exits(13).fails("SE0417");
    desk.run(&["cancel", "s", "--because", "again"]).exits(2).fails("SE0402");
    assert_eq!(lines(&desk), "");
    let log = desk.run(&["log", "s"]).exits(0);
    assert!(log.stdout.contains("cancelled") && log.stdout.contains(": not today"), "{log:?}");
}

#[test]
fn a_cancelled_doubt_is_asked_about_first() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", LOCAL), shell("b", "echo y >> landed", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(4);
    let said = desk.run(&["cancel", "s", "--because", "stop"]).exits(0);
    next_is(&said, "nothing was started; to go on: surestep resume s");
    desk.run(&["resume", "s"]).exits(4).fails("SE0412");
    desk.run(&["resolve", "s", "1", "--landed", "--because", "seen"]).exits(0);
    desk.run(&["resume", "s"]).exits(13);
    assert_eq!(lines(&desk), "");
}

#[test]
fn the_oldest_question_comes_first_even_if_it_is_an_approval() {
    let desk = Desk::new();
    desk.plan("a.json", "z-older", &[shell("a", "exit 9", LOCAL)]);
    desk.plan("b.json", "a-newer", &[asks("b", "true")]);
    desk.run(&["run", "a.json"]).exits(4);
    desk.run(&["run", "b.json"]).exits(4);
    let said = desk.run(&["questions"]).exits(4);
    let at = |word: &str| said.stdout.find(word).unwrap_or_else(|| panic!("{word} in {said:#?}"));
    assert!(at("`z-older`") < at("`a-newer`"), "{said:#?}");
    let json = desk.run(&["--json", "questions"]).exits(4);
    assert!(!json.stdout.contains("\"since\": null"), "{json:#?}");
}

#[test]
fn an_unfinished_session_is_named_where_no_question_is_open() {
    let desk = Desk::new();
    desk.plan("p.json", "nc", &[shell("a", "exit 9", r#","check":["false"]"#)]);
    desk.run(&["run", "p.json"]).exits(5);
    let said = desk.run(&["questions"]).exits(0);
    next_is(&said, "no open questions");
    next_is(&said, "1 session is not finished (nc): surestep resume --all");
    let show = desk.run(&["--json", "show", "nc"]).exits(0);
    next_is(&show, "\"may_have_landed\": true");
}

#[test]
fn what_may_have_landed_says_so_in_json() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", LOCAL), shell("b", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(4);
    for command in [&["show", "s"][..], &["explain", "s", "1"]] {
        let said = desk.run(&[&["--json"], command].concat()).exits(0);
        next_is(&said, "\"may_have_landed\": true");
    }
    let said = desk.run(&["--json", "explain", "s", "2"]).exits(0);
    next_is(&said, "\"may_have_landed\": false");
    let said = desk.run(&["--json", "resolve", "s", "1", "--skip", "--because", "late"]).exits(0);
    next_is(&said, "\"may_have_landed\": true");
    desk.plan("q.json", "t", &[shell("a", "exit 9", LOCAL)]);
    desk.run(&["run", "q.json"]).exits(4);
    let said = desk.run(&["resolve", "t", "1", "--landed", "--because", "seen"]).exits(0);
    next_is(&said, "turn 1 is finished: completed, verdict `done`");
}

#[test]
fn a_failed_turn_names_the_next_one() {
    let desk = Desk::new();
    let refused = shell("a", "exit 9", r#","local":true,"refused_exit":[9]"#)
        .replace("\"body\"", "\"attempts\":1,\"body\"");
    desk.plan("p.json", "s", &[refused]);
    desk.run(&["run", "p.json"]).exits(3);
    let said = desk.run(&["explain", "s", "1"]).exits(0);
    next_is(&said, "surestep run PLAN --session s  # with \"turn\": 2 in the plan");
    assert!(!said.stdout.contains("surestep explain s 1"), "{said:?}");
    desk.plan("q.json", "s", &[shell("b", "true", LOCAL)]);
    let said = desk.run(&["run", "q.json"]).exits(2).fails("SE0207");
    next_is(&said, "# turn 1 is finished: put \"turn\": 2 into the plan and run it again");
}

#[test]
fn a_failed_exec_names_the_next_turn() {
    let desk = Desk::new();
    let exec = ["exec", "--session", "e4", "--target", "t", "--local", "--", "/none/such"];
    let said = desk.run(&exec).exits(3).fails("SE0414");
    next_is(&said, "surestep exec --session e4 --turn 2 --target t --local -- /none/such");
    let said = desk.run(&["exec", "--session", "e4", "--target", "t", "--", "true"]).exits(2).fails("SE0207");
    next_is(&said, "surestep exec --session e4 --turn 2 --target t -- true");
}

#[test]
fn exec_takes_the_exit_codes_that_say_that_nothing_happened() {
    let desk = Desk::new();
    let exec = |session: &str, more: &[&str]| {
        let head = ["exec", "--session", session, "--target", "t", "--local"];
        desk.run(&[&head[..], more, &["--", "sh", "-c", "exit 7"]].concat())
    };
    let said = exec("a", &[]).exits(4).fails("SE0412");
    next_is(&said, "# next time: a \"check\", or \"refused_exit\": [7]");
    exec("b", &["--refused-exit", "3", "--refused-exit", "7"]).exits(5).fails("SE0415");
}

#[test]
fn a_wrong_kind_or_command_names_the_right_one() {
    let desk = Desk::new();
    next_is(&desk.run(&["explain", "shell"]).exits(2).fails("SE0101"), "surestep explain kind shell");
    let said = desk.run(&["explain", "kind", "shel"]).exits(2).fails("SE0107");
    next_is(&said, "did you mean `shell`?");
    let said = desk.run(&["explain", "kind", "nope"]).exits(2).fails("SE0107");
    next_is(&said, "known are: shell, file.write, git.push");
    next_is(&desk.run(&["explain", "kind"]).exits(2).fails("SE0101"), "surestep explain kind shell");
    next_is(&desk.run(&["resume"]).exits(2).fails("SE0101"), "<SESSION> | --all");
    desk.plan("p.json", "s", &[shell("a", "true", r#","loca":true"#)]);
    let said = desk.run(&["run", "p.json"]).exits(2).fails("SE0205");
    next_is(&said, "surestep explain kind shell  # what its body takes");
}

#[test]
fn a_missing_commit_is_named_without_a_byte() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL), shell("b", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(0);
    std::fs::remove_file(desk.path().join(".surestep/sessions/s/journal/00000002.json")).unwrap();
    let said = desk.run(&["show", "s"]).exits(8).fails("SE0601");
    next_is(&said, "commit 2 of `s` is missing");
    assert!(!said.stderr.contains("byte 0"), "{said:?}");
}

#[test]
fn the_help_names_every_exit_code() {
    let desk = Desk::new();
    let help = desk.run(&["--help"]).exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let codes = help.split_once("Exit codes: ").unwrap().1;
    for code in surestep::exit::ORDER {
        assert!(codes.contains(&format!("{code} ")), "{code} in\n{codes}");
    }
    let exec = desk.command(&["exec", "--help"]).stdout(Stdio::piped()).output().unwrap();
    assert!(String::from_utf8_lossy(&exec.stdout).contains("Its output is kept in the receipt"));
}

/// A kind that only the test has.
struct Fax;

#[async_trait::async_trait]
impl surestep::Effect for Fax {
    fn kind(&self) -> surestep::Kind {
        surestep::Kind::new("fax.send").expect("a kind")
    }

    fn terms(&self, _: &surestep::Planned<'_>) -> Result<surestep::Terms, surestep::Fault> {
        Ok(surestep::Terms::remote(1_000, 1_000))
    }

    async fn execute(&self, _: &surestep::Attempt) -> Result<surestep::Outcome, surestep::Fault> {
        Err(surestep::Fault::new("never", "it waits for an approval"))
    }
}

#[test]
fn a_session_of_another_program_is_resumed_by_that_program() {
    let desk = Desk::new();
    let plan = r#"{"format":"surestep.plan/1","session":"s","operations":[
        {"kind":"fax.send","repo":"","target":"a","body":{},"approval":"required"}]}"#;
    let marks = Some(desk.path().join(".state/surestep"));
    let store = surestep_file::Options::default().marks(marks).open(desk.path().join(".surestep")).unwrap();
    let fax = std::sync::Arc::new(Fax);
    let engine = surestep::Engine::builder(store).register(fax, surestep::Recovery::Halt).build().unwrap();
    let plan = surestep::Plan::parse(plan.as_bytes()).unwrap();
    let envelope = surestep::Envelope::new(surestep::SessionId::new("s").unwrap()).with_plan(plan);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(engine.step(envelope)).unwrap();
    desk.run(&["approve", "s", "1", "--because", "read it"]).exits(0);
    let said = desk.run(&["resume", "s"]).exits(2).fails("SE0204");
    next_is(&said, "resume it with the program that registers `fax.send`");
}

#[test]
fn a_cancel_cuts_the_command_that_runs_and_its_look_up_says_what_became_of_it() {
    let desk = Desk::new();
    let check = r#","local":true,"check":["sh","-c","exit 1"]"#;
    desk.plan(
        "p.json",
        "s",
        &[shell("a", ": > begun; sleep 60; : > slept", check), shell("b", ": > b", LOCAL)],
    );
    let child =
        desk.command(&["run", "p.json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    desk.wait_for("begun");
    let start = std::time::Instant::now();
    let said = desk.run(&["cancel", "s", "--because", "wrong order"]).exits(0);
    assert!(said.stdout.contains("put into the mailbox"), "{said:?}");
    Said::of(child.wait_with_output().unwrap()).exits(13).fails("SE0417");
    assert!(start.elapsed() < Duration::from_secs(30), "it was waited for");
    assert!(!desk.path().join("slept").exists() && !desk.path().join("b").exists());
    let said = desk.run(&["show", "s"]).exits(0);
    assert!(said.stdout.contains("cancelled"), "{said:?}");
}

#[test]
fn in_a_cancelled_turn_nobody_is_told_that_it_runs_again() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 3", ""), shell("b", "true", "")]);
    desk.run(&["run", "p.json"]).exits(4);
    let said = desk.run(&["questions"]).exits(4);
    assert!(said.stdout.contains("it runs again"), "{said:#?}");
    desk.run(&["cancel", "s", "--because", "enough"]).exits(0);
    let said = desk.run(&["questions"]).exits(4);
    assert!(!said.stdout.contains("it runs again") && !said.stdout.contains("goes on"), "{said:#?}");
    let said = desk.run(&["resolve", "s", "1", "--not-landed", "--now", "--because", "no trace"]).exits(0);
    assert!(said.stdout.contains("it does not run again"), "{said:#?}");
}

#[test]
fn a_misspelt_store_id_strands_no_session() {
    let desk = Desk::new();
    let asks = shell("a", "true", "").replace("\"body\"", "\"approval\":\"required\",\"body\"");
    desk.plan("p.json", "s", &[asks]);
    desk.run(&["run", "p.json"]).exits(4);
    desk.run(&["export", "s", "--hand-off", "abc"]).fails("SE0101");
    let id = "0123456789abcdef0123456789abcdef";
    desk.run(&["export", "s", "--hand-off", id, "-o", "s.json"]).exits(0);
    // What `show` says helps where the file was lost.
    let said = desk.run(&["show", "s"]).exits(0);
    assert!(said.stdout.contains(&format!("surestep export s --hand-off {id} -o s.json")), "{said:#?}");
    let first = std::fs::read(desk.path().join("s.json")).unwrap();
    desk.run(&["export", "s", "--hand-off", id, "-o", "s.json"]).exits(0);
    assert_eq!(std::fs::read(desk.path().join("s.json")).unwrap(), first);
}

#[test]
fn explain_offers_every_answer_or_none() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "true", ""), shell("b", "exit 3", "")]);
    desk.run(&["run", "p.json"]).exits(4);
    let said = desk.run(&["explain", "s", "2"]).exits(0).stdout;
    assert!(["--landed", "--not-landed", "--skip"].iter().all(|word| said.contains(word)), "{said}");
    let said = desk.run(&["explain", "s", "1"]).exits(0).stdout;
    assert!(!said.contains("resolve") && said.contains("surestep questions"), "{said}");
}
