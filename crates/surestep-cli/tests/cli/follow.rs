//! `log --follow`: it goes on with what is added, and ends where nothing more can be added without a person.

use std::process::Stdio;

use crate::{Desk, LOCAL, Said, shell};

/// Follows in the background, once the session is there.
fn follow(desk: &Desk, more: &[&str]) -> std::process::Child {
    let start = std::time::Instant::now();
    while !desk.path().join(".surestep/sessions/s/journal/00000001.json").exists() {
        assert!(start.elapsed().as_secs() < 20, "the session did not begin");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let words: Vec<&str> = ["log", "s", "--follow"].iter().chain(more).copied().collect();
    desk.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

/// What it said, once it has ended by itself.
fn ended(mut following: std::process::Child) -> Said {
    let start = std::time::Instant::now();
    while following.try_wait().expect("a child of ours").is_none() {
        if start.elapsed().as_secs() > 20 {
            following.kill().expect("a child of ours");
            assert!(start.elapsed().as_secs() < 20, "it did not end: {:#?}", following.wait_with_output());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Said::of(following.wait_with_output().expect("a child of ours"))
}

#[test]
fn it_shows_what_is_added_and_ends_with_the_session() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", ": > begun; sleep 1", LOCAL), shell("b", "true", LOCAL)]);
    let mut run = desk.start(&["run", "p.json"]);
    desk.wait_for("begun");
    let following = follow(&desk, &[]);
    run.wait().unwrap();
    let said = ended(following).exits(0);
    for words in
        ["intended     1 shell on site:a", "succeeded    1", "finished     turn 1: completed", "s: completed"]
    {
        assert!(said.stdout.contains(words), "{words} in {said:#?}");
    }
    assert!(said.stdout.find("intended").unwrap() < said.stdout.find("succeeded").unwrap());
    assert!(!said.stdout.contains('\x1b') && !said.stderr.contains('\x1b'), "plain lines: {said:#?}");
}

#[test]
fn it_ends_with_the_question_and_the_commands_that_answer_it() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", ": > begun; sleep 0.5; exit 9", LOCAL), shell("b", "true", LOCAL)]);
    let mut run = desk.start(&["run", "p.json"]);
    desk.wait_for("begun");
    let following = follow(&desk, &[]);
    run.wait().unwrap();
    let said = ended(following).exits(4).fails("SE0412");
    assert!(said.stderr.contains("surestep resolve s 1 --landed --because '…'"), "{said:#?}");
    desk.run(&["cancel", "s", "--because", "enough"]).exits(0);
    desk.run(&["log", "s", "--follow"]).exits(4);
    desk.run(&["resolve", "s", "1", "--skip", "--because", "enough"]).exits(0);
    desk.run(&["resume", "s"]).exits(13);
    desk.run(&["log", "s", "-f"]).exits(13).fails("SE0417");
}

#[test]
fn a_signal_ends_it_and_changes_nothing() {
    let desk = Desk::new();
    // It rests for a while: nobody is at work, and nobody needs to be asked.
    desk.plan("p.json", "s", &[shell("a", "exit 9", r#","check":["false"]"#)]);
    desk.run(&["run", "p.json"]).exits(5);
    let before = crate::dry::tree(desk.path());
    let following = follow(&desk, &[]);
    std::thread::sleep(std::time::Duration::from_millis(400));
    let pid = following.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let said = ended(following).exits(5).fails("SE0111");
    assert!(said.stderr.contains("following changes nothing"), "{said:#?}");
    assert!(!said.stderr.contains("waiting for what runs"), "nothing runs here: {said:#?}");
    assert_eq!(crate::dry::tree(desk.path()), before);
}

#[test]
fn under_json_each_commit_is_one_line_and_the_last_line_says_how_it_ended() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", ": > begun; sleep 0.5; exit 9", LOCAL)]);
    let mut run = desk.start(&["run", "p.json"]);
    desk.wait_for("begun");
    let following = follow(&desk, &["--json"]);
    run.wait().unwrap();
    let said = ended(following).exits(4);
    let lines: Vec<&str> = said.stdout.lines().collect();
    let (end, commits) = lines.split_last().unwrap();
    assert!(
        commits.len() >= 2 && commits.iter().all(|l| l.starts_with(r#"{"schema":"surestep.log.commit/1""#))
    );
    assert!(lines.iter().all(|line| surestep::core::json::check(line, 64).is_ok()), "{said:#?}");
    for words in [r#"{"schema":"surestep.log.end/1","exit":4"#, r#""code":"SE0412""#, "resolve s 1 --landed"]
    {
        assert!(end.contains(words), "{words} in {end}");
    }
    // The commits' own bytes.
    let commit =
        std::fs::read_to_string(desk.path().join(".surestep/sessions/s/journal/00000001.json")).unwrap();
    assert!(commits[0].contains(commit.trim_end()), "{}", commits[0]);
}

#[test]
fn on_a_terminal_the_last_line_says_what_is_under_way() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", ": > begun; sleep 1", LOCAL)]);
    let mut run = desk.start(&["run", "p.json"]);
    desk.wait_for("begun");
    let mut script = std::process::Command::new("script");
    let line = format!("'{}' log s --follow", env!("CARGO_BIN_EXE_surestep"));
    script.args(["-qec", line.as_str(), "/dev/null"]).current_dir(desk.path()).env_remove("SURESTEP_STORE");
    let seen = script.env("TERM", "xterm").stdin(Stdio::null()).output();
    run.wait().unwrap();
    let Ok(seen) = seen else {
        assert!(std::env::var_os("CI").is_none(), "`script` is missing, and CI must have it");
        return;
    };
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("… operation 1 under way for") && seen.contains("shell on site:a"), "{seen:?}");
    assert!(seen.contains("\r\u{1b}[K") && seen.contains("finished"), "{seen:?}");
}
