//! A yes is for exactly what will run: what was altered on the disk afterwards is refused, and a kill keeps the answer.

use std::collections::BTreeMap;
use std::path::Path;

use surestep::core::Raw;
use surestep::{Commit, Entry};

use crate::harness::{Scratch, kill_below, random};

const PLAN: &str = r#"{"format":"surestep.plan/1","session":"pay","verdict":"paid","operations":[
  {"kind":"shell","repo":"shop","target":"order 7","approval":"required","body":{"run":["sh","-c","echo 10 >> paid"],"local":true}},
  {"kind":"shell","repo":"shop","target":"order 7","approval":"required","body":{"run":["sh","-c","echo 10 >> paid"],"local":true}}]}"#;

fn approved() -> Scratch {
    let scratch = Scratch::bare();
    std::fs::write(scratch.path().join("plan.json"), PLAN).expect("the plan is written");
    scratch.run(&["run", "plan.json"]).exits(4);
    scratch.run(&["approve", "pay", "1", "--because", "ten is right"]).exits(0);
    scratch
}

fn files(journal: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(journal).expect("the journal").flatten();
    entries
        .map(|e| {
            (e.file_name().to_string_lossy().into_owned(), std::fs::read(e.path()).expect("a commit's file"))
        })
        .collect()
}

/// Alters the folder in which the bound commands run, and makes every sum of the chain anew.
fn move_folder(journal: &Path) {
    let mut prev = None;
    for (name, bytes) in files(journal) {
        let commit = Commit::parse(&String::from_utf8(bytes).expect("UTF-8")).expect("a commit");
        let mut fields = commit.into_fields();
        for entry in &mut fields.entries {
            if let Entry::Bound(bound) = entry {
                bound.dir = Some("/tmp".into());
            }
        }
        fields.prev = prev;
        let sealed = Commit::seal(fields).expect("sealed");
        prev = Some(sealed.sum());
        std::fs::write(journal.join(name), sealed.text()).expect("altered");
    }
}

/// Alters the amount in the bound body; `sums`: and makes every sum of the chain anew; `keys`: and the operation's key.
fn alter(journal: &Path, sums: bool, keys: bool) {
    let mut prev = None;
    for (name, bytes) in files(journal) {
        let text = String::from_utf8(bytes).expect("a commit is UTF-8");
        let altered = text.replacen("echo 10 >> paid", "echo 99 >> paid", 1);
        let file = journal.join(name);
        if !sums {
            std::fs::write(file, altered).expect("altered");
            continue;
        }
        let commit = Commit::parse(&text).expect("a commit");
        let session = commit.session().clone();
        let mut fields = commit.into_fields();
        for entry in &mut fields.entries {
            if let Entry::Bound(bound) = entry {
                let operation = &mut bound.operations[0];
                let body = operation.body.as_str().replace("echo 10", "echo 99");
                operation.body =
                    surestep::Body::bind(Raw::new(body).expect("JSON").as_str(), 1 << 20).expect("a body");
                if keys {
                    operation.key = operation.derived_key(&session, 1).expect("a key");
                    operation.occurrence = 1;
                    let other = &mut bound.operations[1];
                    other.occurrence = 1;
                    other.key = other.derived_key(&session, 1).expect("a key");
                }
            }
        }
        fields.prev = prev;
        let sealed = Commit::seal(fields).expect("sealed");
        prev = Some(sealed.sum());
        std::fs::write(file, sealed.text()).expect("altered");
    }
}

#[test]
fn a_body_that_was_altered_after_the_yes_is_refused_and_nothing_runs() {
    for (sums, keys) in [(false, false), (true, false), (true, true)] {
        let scratch = approved();
        let journal = scratch.journal("pay");
        alter(&journal, sums, keys);
        let before = files(&journal);
        for args in
            [&["resume", "pay"][..], &["run", "plan.json"], &["approve", "pay", "2", "--because", "x"]]
        {
            let refused = scratch.run(args).exits(8);
            assert!(refused.stderr.contains("state:") && refused.stderr.contains("next:"), "{refused:?}");
        }
        assert_eq!(files(&journal), before, "a byte changed (sums {sums}, keys {keys})");
        let scratch = approved();
        move_folder(&scratch.journal("pay"));
        // The mark outside the root finds it first; without one, the journal itself does.
        scratch.run(&["resume", "pay"]).exits(8);
        let mut command = scratch.command(&["resume", "pay"]);
        command.env("XDG_STATE_HOME", scratch.path().join("no-marks"));
        let refused = crate::harness::Ran::of(command.output().expect("the binary runs")).exits(8);
        assert!(refused.stderr.contains("not what was approved"), "{refused:?}");
        assert!(!scratch.path().join("paid").exists(), "it ran (sums {sums}, keys {keys})");
    }
}

#[test]
fn two_equal_gated_operations_need_two_answers_and_a_no_is_seen() {
    let scratch = approved();
    scratch.run(&["resume", "pay"]).exits(4);
    assert_eq!(scratch.lines("paid"), ["10"]);
    // The first yes is used up: it cannot be given again, and does not count for the second.
    scratch.run(&["approve", "pay", "1", "--because", "again"]).exits(2);
    scratch.run(&["resume", "pay"]).exits(4);
    scratch.run(&["deny", "pay", "2", "--because", "once is enough"]).exits(0);
    scratch.run(&["resume", "pay"]).exits(3);
    let shown = scratch.show("pay");
    assert_eq!((shown.status.as_str(), shown.operations[1].state.as_str()), ("failed", "denied"));
    assert_eq!(scratch.lines("paid"), ["10"]);
}

#[test]
fn a_kill_after_the_yes_keeps_the_answer() {
    for _ in 0..6 {
        let scratch = approved();
        let mut child = scratch.command(&["resume", "pay"]).spawn().expect("the binary starts");
        std::thread::sleep(std::time::Duration::from_millis(random(25)));
        kill_below(&mut child);
        // Whatever was reached: nobody is asked about the first again, and it lands once, or its doubt is an honest question.
        let ran = scratch.run(&["resume", "pay", "--wait"]).exits(4);
        let shown = scratch.show("pay");
        assert_ne!(shown.operations[0].state, "awaiting_approval", "{ran:?}");
        assert!(scratch.lines("paid").len() <= 1, "{ran:?}");
        if shown.operations[0].state == "succeeded" {
            assert_eq!(scratch.lines("paid").len(), 1);
        }
    }
}

#[test]
fn a_cancel_says_what_landed_and_starts_nothing_more() {
    let scratch = approved();
    scratch.run(&["resume", "pay"]).exits(4);
    let said = scratch.run(&["cancel", "pay", "--because", "the order was withdrawn"]).exits(0);
    assert!(said.stdout.contains("finished: cancelled"), "{said:?}");
    scratch.run(&["resume", "pay"]).exits(13);
    let shown = scratch.show("pay");
    assert_eq!(shown.status, "cancelled");
    let states: Vec<&str> = shown.operations.iter().map(|o| o.state.as_str()).collect();
    assert_eq!(states, ["succeeded", "cancelled"]);
    assert_eq!(scratch.lines("paid"), ["10"]);
}
