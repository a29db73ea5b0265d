//! `--dry-run`: it says what would happen, refuses what would be refused, and changes no byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::{Desk, LOCAL, shell};

/// Every path below a folder with its content and the time of its last change.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, Option<SystemTime>)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let changed = entry.metadata().ok().and_then(|m| m.modified().ok());
        if path.is_dir() {
            all.extend(tree(&path));
        }
        all.insert(path.clone(), (std::fs::read(&path).unwrap_or_default(), changed));
    }
    all
}

#[test]
fn a_run_that_is_only_tried_makes_not_even_a_folder() {
    let desk = Desk::new();
    let asks =
        shell("b", "echo y >> landed", LOCAL).replace("\"body\"", "\"approval\":\"required\",\"body\"");
    desk.plan("p.json", "s", &[shell("a", "echo x >> landed", LOCAL), asks]);
    let before = tree(desk.path());
    let said = desk.run(&["run", "p.json", "--dry-run"]).exits(0);
    for words in [
        "would make the store `.surestep`",
        "would bind turn 1: 2 operations, verdict `done`",
        "would start operation 1 (shell on site:a)",
        "a person must say yes first to 2",
        "nothing was written or started",
    ] {
        assert!(said.stdout.contains(words), "{words} in {said:#?}");
    }
    let json = desk.run(&["--json", "run", "p.json", "--dry-run"]).exits(0).stdout;
    assert!(json.contains("\"surestep.dry_run/1\"") && json.contains("\"act\": \"execute\""), "{json}");
    desk.run(&["exec", "--session", "e", "--target", "t", "--dry-run", "--", "touch", "landed"]).exits(0);
    assert_eq!(tree(desk.path()), before);
    // What was told is what is bound.
    let keys = |text: &str| -> Vec<String> {
        text.split_whitespace().filter(|w| w.starts_with("v1:") && w.len() > 20).map(str::to_owned).collect()
    };
    desk.run(&["run", "p.json"]).exits(4);
    let bound = keys(&desk.run(&["log", "s"]).exits(0).stdout);
    assert_eq!(keys(&said.stdout), bound);
    let again = desk.run(&["run", "p.json", "--dry-run"]).exits(0);
    assert!(again.stdout.contains("turn 1 is bound already"), "{again:#?}");
    assert!(again.stdout.contains("would start nothing: a person must allow"), "{again:#?}");
}

#[test]
fn a_refused_plan_leaves_no_store_tried_or_not() {
    let desk = Desk::new();
    let unknown = shell("a", "true", LOCAL).replace("\"shell\"", "\"shel\"");
    desk.plan("kind.json", "s", &[unknown]);
    desk.plan("body.json", "s", &[shell("a", "true", r#","lokal":true"#)]);
    desk.plan("turn.json", "s", &[shell("a", "true", LOCAL)]);
    let turn = std::fs::read_to_string(desk.path().join("turn.json")).unwrap();
    desk.file("turn.json", &turn.replace("\"session\"", "\"turn\":2,\"session\""));
    let before = tree(desk.path());
    for (plan, code) in [("kind.json", "SE0204"), ("body.json", "SE0205"), ("turn.json", "SE0208")] {
        desk.run(&["run", plan, "--dry-run"]).exits(2).fails(code);
        desk.run(&["run", plan]).exits(2).fails(code);
        assert_eq!(tree(desk.path()), before, "{plan}");
    }
    let said = desk.run(&["run", "turn.json"]).exits(2);
    assert!(said.stderr.contains("its first one is turn 1"), "{said:#?}");
}

#[test]
fn what_is_only_tried_changes_no_byte_of_the_store() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", LOCAL), shell("b", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(4);
    let asks = shell("a", "true", LOCAL).replace("\"body\"", "\"approval\":\"required\",\"body\"");
    desk.plan("q.json", "t", &[asks]);
    desk.run(&["run", "q.json"]).exits(4);
    let before = tree(desk.path());
    for (command, code) in [
        (&["resume", "s", "--dry-run"][..], 0),
        (&["resume", "--all", "--dry-run"], 0),
        (&["run", "p.json", "--dry-run"], 0),
        (&["resolve", "s", "1", "--landed", "--because", "seen", "--dry-run"], 0),
        (&["resolve", "s", "1", "--not-landed", "--because", "seen", "--dry-run"], 0),
        (&["resolve", "s", "2", "--landed", "--because", "seen", "--dry-run"], 2),
        (&["resolve", "--all-matching", "--session", "*", "--skip", "--because", "seen", "--dry-run"], 0),
        (&["approve", "t", "1", "--because", "seen", "--dry-run"], 0),
        (&["deny", "t", "1", "--because", "seen", "--dry-run"], 0),
        (&["cancel", "s", "--because", "seen", "--dry-run"], 0),
    ] {
        let said = desk.run(command).exits(code);
        assert!(code != 0 || said.stdout.contains("nothing was written or started"), "{said:#?}");
        assert_eq!(tree(desk.path()), before, "{command:?}");
    }
}

#[test]
fn a_dry_resume_says_what_would_go_on_and_a_held_session_is_6() {
    let desk = Desk::new();
    desk.plan(
        "p.json",
        "s",
        &[
            shell(
                "a",
                ": > begun; sleep 1; echo x >> landed",
                r#","local":true,"check":["test","-e","landed"]"#,
            ),
            shell("b", "true", LOCAL),
        ],
    );
    let mut child = desk.start(&["run", "p.json"]);
    desk.wait_for("begun");
    desk.run(&["resume", "s", "--dry-run"]).exits(6).fails("SE0301");
    child.kill().unwrap();
    child.wait().unwrap();
    desk.run(&["resume", "none", "--dry-run"]).exits(10).fails("SE0901");
    // The guard outlives the engine, and holds the session until the command is over.
    let start = std::time::Instant::now();
    let said = loop {
        let said = desk.run(&["resume", "s", "--dry-run"]);
        if said.code != Some(6) || start.elapsed().as_secs() > 20 {
            break said.exits(0);
        }
    };
    assert!(said.stdout.contains("would "), "{said:#?}");
    desk.run(&["resume", "s"]).exits(0);
    let said = desk.run(&["resume", "s", "--dry-run"]).exits(0);
    assert!(said.stdout.contains("would start nothing: it is completed"), "{said:#?}");
}

#[test]
fn a_restore_or_a_forgetting_that_is_only_tried_changes_nothing() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "echo x >> landed", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(0);
    let (store, away) = (desk.path().join(".surestep"), desk.path().join("away"));
    // The session's folder is gone.
    std::fs::rename(store.join("sessions"), &away).unwrap();
    std::fs::create_dir(store.join("sessions")).unwrap();
    let before = tree(desk.path());
    let said = desk.run(&["fsck", "--restored", "--dry-run"]).exits(0);
    assert!(said.stdout.contains("s: at revision 0, was once at 2"), "{said:#?}");
    assert!(said.stdout.contains("nothing was written or started"), "{said:#?}");
    assert_eq!(tree(desk.path()), before);
    // The whole store is gone.
    std::fs::rename(&store, desk.path().join("gone")).unwrap();
    let before = tree(desk.path());
    let said = desk.run(&["fsck", "--restored", "--dry-run"]).exits(0);
    assert!(said.stdout.contains("anew, with 1 session"), "{said:#?}");
    let told = desk.run(&["fsck", "--forget"]).exits(0).stdout;
    let id = told.split_whitespace().nth(1).unwrap();
    let said = desk.run(&["fsck", &format!("--forget={id}"), "--dry-run"]).exits(0);
    assert!(said.stdout.contains("would forget that store"), "{said:#?}");
    assert_eq!(tree(desk.path()), before);
    desk.run(&["run", "p.json"]).fails("SE0603");
    desk.run(&["fsck", "--dry-run"]).fails("SE0101");
}
