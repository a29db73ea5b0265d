//! `gc` from outside: the plan first, then exactly that plan; what is left of a session refuses to run again.

use serde::Deserialize;

use crate::harness::{Scratch, commits};

#[derive(Debug, Deserialize)]
struct Collected {
    plan: String,
    applied: bool,
    seal: Vec<String>,
    prune: Vec<String>,
}

fn gc(scratch: &Scratch, more: &[&str]) -> Collected {
    let ran = scratch.run(&[&["gc", "--json"], more].concat()).exits(0);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("gc --json: {e}\n{ran:?}"))
}

fn run(scratch: &Scratch, session: &str, turn: usize) {
    let operation = format!(
        r#"{{"kind":"shell","repo":"r","target":"t-{turn}","body":{{"local":true,"run":["sh","-c","echo x >> forge/{session}"]}}}}"#
    );
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"{session}","turn":{turn},"verdict":"done","conversation":[{{"role":"user","content":"turn {turn}"}}],"operations":[{operation}]}}"#
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    let _ = scratch.run(&["run", "plan.json"]);
}

#[test]
fn gc_plans_first_then_does_exactly_that_and_a_pruned_session_never_runs_again() {
    let scratch = Scratch::bare();
    for session in ["a", "b"] {
        run(&scratch, session, 1);
    }
    let looks = |what: &str| scratch.run(&[what, "a", "--json"]).exits(0).stdout;
    let (show, log) = (looks("show"), looks("log"));
    let planned = gc(&scratch, &[]);
    assert_eq!((planned.seal.len(), planned.prune.len(), planned.applied), (2, 0, false));
    assert_eq!(commits(&scratch.journal("a")), 2, "a plan changes nothing");
    // What went on since is not touched.
    run(&scratch, "b", 2);
    let refused = scratch.run(&["gc", "--apply", &planned.plan]).exits(2).stderr;
    assert!(refused.contains("error[SE0605]") && refused.contains("next:  surestep gc"), "{refused}");
    let planned = gc(&scratch, &[]);
    assert!(gc(&scratch, &["--apply", &planned.plan]).applied);
    assert_eq!((commits(&scratch.journal("a")), commits(&scratch.journal("b"))), (0, 0));

    // Sealed, it reads as before; its plan gives its report; its next turn runs.
    assert_eq!((looks("show"), looks("log")), (show, log));
    run(&scratch, "a", 1);
    assert_eq!(scratch.lines("forge/a").len(), 1);
    run(&scratch, "a", 2);
    assert_eq!(scratch.lines("forge/a").len(), 2);
    scratch.run(&["fsck"]).exits(0);

    // Pruned, it is over. (A retention of nothing, so that the test need not wait a month.)
    let planned = gc(&scratch, &["--retention", "0s"]);
    assert_eq!((planned.seal, planned.prune), (vec!["a".to_owned()], vec!["b".to_owned()]));
    gc(&scratch, &["--retention", "0s", "--apply", &planned.plan]);
    for turn in 1..=3 {
        run(&scratch, "b", turn);
    }
    assert_eq!(scratch.lines("forge/b").len(), 2);
    for args in
        [&["run", "plan.json"][..], &["resume", "b"], &["show", "b"], &["cancel", "b", "--because", "x"]]
    {
        let said = scratch.run(args).exits(2).stderr;
        assert!(said.contains("error[SE0604]") && said.contains("pruned"), "{said}");
    }
    let listed = scratch.run(&["list"]).exits(0).stdout;
    assert!(listed.contains("\na ") && !listed.contains("\nb "), "{listed}");
    scratch.run(&["fsck"]).exits(0);
    scratch.run(&["fsck", "--restored"]).exits(0);
    scratch.run(&["questions"]).exits(0);
}
