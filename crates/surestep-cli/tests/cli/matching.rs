//! `resolve --all-matching`: never without a filter, and never without the right number.

use crate::{Desk, LOCAL, shell};

/// Three doubts of `shell`, one of them in a session of another name, and one approval.
fn doubts() -> Desk {
    let desk = Desk::new();
    for session in ["fix-1", "fix-2", "other"] {
        desk.plan("p.json", session, &[shell("a", "exit 9", LOCAL)]);
        desk.run(&["run", "p.json"]).exits(4);
    }
    let asks = shell("a", "true", LOCAL).replace("\"body\"", "\"approval\":\"required\",\"body\"");
    desk.plan("p.json", "fix-asks", &[asks]);
    desk.run(&["run", "p.json"]).exits(4);
    desk
}

const SKIP: [&str; 5] = ["resolve", "--all-matching", "--skip", "--because", "an outage"];

#[track_caller]
fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SKIP.iter().chain(more).copied().collect()
}

#[test]
fn without_a_filter_or_without_the_right_number_nothing_is_recorded() {
    let desk = doubts();
    let before = crate::dry::tree(&desk.path().join(".surestep"));
    desk.run(&SKIP).exits(2).fails("SE0101");
    desk.run(&with(&["--count", "3"])).exits(2).fails("SE0101");
    desk.run(&["resolve", "--all-matching", "s", "1", "--kind", "shell", "--skip", "--because", "x"])
        .exits(2);
    for filter in [["--kind", "shell"], ["--session", "*"], ["--older-than", "0s"], ["--count", "1"]] {
        let words = ["resolve", "fix-1", "1", "--skip", "--because", "x", filter[0], filter[1]];
        desk.run(&words).exits(2).fails("SE0101");
    }
    let said = desk.run(&with(&["--session", "fix-*"])).exits(2).fails("SE0123");
    for words in
        ["2 open doubts match, and `--count` is missing", "fix-1 operation 1 (shell on site:a)", "--count 2"]
    {
        assert!(said.stderr.contains(words), "{words} in {said:#?}");
    }
    for count in ["1", "3", "0"] {
        let said = desk.run(&with(&["--session", "fix-*", "--count", count])).exits(2).fails("SE0123");
        assert!(said.stderr.contains(&format!("`--count` says {count}")), "{said:#?}");
    }
    let said = desk.run(&with(&["--kind", "git.push", "--count", "0"])).exits(2).fails("SE0123");
    assert!(said.stderr.contains("no open doubt matches"), "{said:#?}");
    let said = desk.run(&with(&["--older-than", "1h"])).exits(2).fails("SE0123");
    assert!(said.stderr.contains("no open doubt matches"), "{said:#?}");
    desk.run(&with(&["--session", "fix-*", "--dry-run"])).exits(0);
    desk.run(&with(&["--session", "fix-*", "--dry-run", "--count", "5"])).exits(2).fails("SE0123");
    assert_eq!(crate::dry::tree(&desk.path().join(".surestep")), before);
}

#[test]
fn with_both_each_doubt_is_a_commit_of_its_own_and_an_approval_is_none() {
    let desk = doubts();
    let said = desk
        .run(&with(&["--kind", "shell", "--older-than", "0s", "--session", "fix-*", "--count", "2"]))
        .exits(0);
    assert!(
        said.stdout.contains("recorded: fix-1 operation 1") && said.stdout.contains("recorded: fix-2"),
        "{said:#?}"
    );
    for session in ["fix-1", "fix-2"] {
        let log = desk.run(&["log", session]).exits(0).stdout;
        assert!(log.contains("skipped") && log.contains(": an outage"), "{log}");
    }
    let left = desk.run(&["questions"]).exits(4).stdout;
    assert!(left.contains("session `other`") && left.contains("session `fix-asks`"), "{left}");
    assert!(!left.contains("session `fix-1`"), "{left}");
}

#[test]
fn one_that_is_refused_does_not_stop_the_others_and_the_exit_code_says_so() {
    let desk = doubts();
    // Not local: it may still land, so it is too early to say that it did not.
    desk.plan("p.json", "far", &[shell("a", "exit 9", "")]);
    desk.run(&["run", "p.json"]).exits(4);
    // This one is held by somebody else meanwhile: it may still land, so this answer is none.
    let lock = std::fs::File::open(desk.path().join(".surestep/sessions/fix-1/lock")).unwrap();
    lock.lock().unwrap();
    let words = ["resolve", "--all-matching", "--kind", "shell", "--not-landed", "--because", "an outage"];
    let with = |more: &[&'static str]| -> Vec<&str> { words.iter().chain(more).copied().collect() };
    let said = desk.run(&with(&["--count", "4", "--dry-run"])).exits(6).fails("SE0401");
    assert!(said.stderr.contains("SE0301") && !said.stdout.contains("fix-1,"), "{said:#?}");
    let said = desk.run(&with(&["--count", "4", "--json"])).exits(6).fails("SE0402");
    assert!(said.stdout.contains("\"surestep.resolve_matching/1\""), "{said:#?}");
    assert_eq!(said.stdout.matches("\"taken\": true").count(), 2, "{said:#?}");
    assert_eq!(said.stdout.matches("\"code\": \"SE0401\"").count(), 1, "{said:#?}");
    let log = |session: &str| desk.run(&["log", session]).exits(0).stdout;
    for session in ["fix-2", "other"] {
        assert!(log(session).contains(": an outage"), "{session}");
    }
    assert!(!log("far").contains("an outage") && !log("fix-1").contains("an outage"));
    drop(lock);
    desk.run(&["resume", "fix-1"]).exits(4);
    assert!(!log("fix-1").contains(": an outage"), "it was not kept for later");
}
