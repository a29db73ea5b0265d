//! Shell operations that nobody can look up: never two landings, and an honest question where nobody knows.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;

use crate::harness::{Scratch, commits, kill_below, random, wait_for, workspace};

#[derive(Debug, Deserialize)]
struct Questions {
    schema: String,
    questions: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
struct Listed {
    session: String,
    n: u32,
}

fn slow_plan(scratch: &Scratch, count: usize, pause: &str) -> String {
    let operation = |n: usize| {
        format!(
            r#"{{"kind":"shell","repo":"forge","target":"op-{n}","body":{{"local":true,"run":["sh","-c","echo begun >> forge/begun-{n}; sleep {pause}; echo \"$SURESTEP_KEY\" >> forge/landed-{n}"]}}}}"#
        )
    };
    let operations: Vec<String> = (1..=count).map(operation).collect();
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"slow","verdict":"done","operations":[{}]}}"#,
        operations.join(",")
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    "plan.json".into()
}

#[test]
fn with_the_guard_alive_its_late_evidence_answers_and_nobody_is_asked() {
    let scratch = Scratch::bare();
    let plan = slow_plan(&scratch, 2, "0.4");
    for n in 1..=2 {
        let args: &[&str] = if n == 1 { &["run", &plan] } else { &["resume", "slow", "--wait"] };
        let mut child =
            scratch.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        wait_for("the command to begin", Duration::from_secs(10), || {
            scratch.lines(&format!("forge/begun-{n}")).len() == 1
        });
        child.kill().expect("SIGKILL");
        child.wait().expect("reaped");
    }
    scratch.run(&["resume", "slow", "--wait"]).exits(0);
    let shown = scratch.show("slow");
    assert_eq!(shown.verdict.as_deref(), Some("done"));
    for n in 1..=2 {
        assert_eq!(scratch.lines(&format!("forge/landed-{n}")).len(), 1);
        assert_eq!(scratch.lines(&format!("forge/begun-{n}")).len(), 1, "it never ran twice");
    }
    let log = scratch.run(&["log", "slow"]).exits(0).stdout;
    assert!(log.contains("late"), "the journal says who answered:\n{log}");
}

#[test]
fn a_person_cannot_overrule_a_receipt_that_came_late() {
    let scratch = Scratch::bare();
    let plan = slow_plan(&scratch, 1, "0.4");
    let mut child =
        scratch.command(&["run", &plan]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    wait_for("the command to begin", Duration::from_secs(10), || scratch.lines("forge/begun-1").len() == 1);
    child.kill().expect("SIGKILL");
    child.wait().expect("reaped");
    wait_for("the landing", Duration::from_secs(10), || scratch.lines("forge/landed-1").len() == 1);
    let record = scratch.store().join("sessions/slow/guards/0001-1.json");
    wait_for("the guard's word", Duration::from_secs(10), || {
        std::fs::read_to_string(&record).is_ok_and(|text| text.contains(r#""state":"ended""#))
    });
    let word: [&[&str]; 3] = [&["--not-landed", "--now"], &["--skip"], &["--landed"]];
    for word in word {
        let args = [&["resolve", "slow", "1", "--because", "I think so"], word].concat();
        wait_for("the guard's end", Duration::from_secs(10), || scratch.run(&args).code != Some(6));
        let ran = scratch.run(&args).exits(2);
        assert!(ran.stderr.contains("late result"), "{}", ran.stderr);
    }
    scratch.run(&["resume", "slow"]).exits(0);
    assert_eq!(scratch.lines("forge/begun-1").len(), 1, "it never ran twice");
}

#[test]
fn with_the_guard_killed_too_a_person_is_asked_and_resolve_ends_it_without_a_terminal() {
    let scratch = Scratch::bare();
    let plan = slow_plan(&scratch, 1, "30");
    let mut child =
        scratch.command(&["run", &plan]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    wait_for("the command to begin", Duration::from_secs(10), || scratch.lines("forge/begun-1").len() == 1);
    kill_below(&mut child);
    let ran = scratch.run(&["resume", "slow"]).exits(4);
    let screen = format!("{}{}", ran.stdout, ran.stderr);
    assert!(screen.contains("surestep resolve slow 1"), "the exact next command:\n{screen}");
    let listed = scratch.run(&["questions", "--json"]).exits(4);
    let listed: Questions = serde_json::from_str(&listed.stdout).expect("questions --json");
    assert_eq!(listed.schema, "surestep.questions/1");
    assert_eq!(listed.questions.len(), 1);
    assert!(listed.questions.iter().all(|q| q.session == "slow" && q.n == 1));
    let people = scratch.run(&["questions"]).stdout;
    for word in ["slow", "shell", "op-1", "--landed", "--not-landed", "--skip"] {
        assert!(people.contains(word), "`{word}` in\n{people}");
    }
    // Nothing has changed by asking, however often.
    let before = commits(&scratch.journal("slow"));
    scratch.run(&["resume", "slow", "--wait=1s"]).exits(4);
    assert_eq!(commits(&scratch.journal("slow")), before);
    scratch.run(&["resolve", "slow", "1", "--landed", "--because", "the list shows it"]).exits(0);
    scratch.run(&["resume", "slow"]).exits(0);
    let log = scratch.run(&["log", "slow"]).exits(0).stdout;
    assert!(log.contains("the list shows it"), "the journal says why:\n{log}");
}

#[test]
fn killed_anywhere_with_its_guard_it_never_lands_twice() {
    let runs = std::env::var("SURESTEP_KILL_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let plan = workspace().join("fixtures/plans/unchecked.json");
    let plan = plan.to_str().expect("a plain path");
    let mut asked = 0;
    for _ in 0..runs {
        let scratch = Scratch::bare();
        let mut child = scratch
            .command(&["run", plan])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        std::thread::sleep(Duration::from_micros(random(40_000)));
        kill_below(&mut child);
        let mut code = scratch.run(&["run", plan, "--wait=30s"]).code;
        let mut answers = 0;
        while code == Some(4) {
            asked += 1;
            answers += 1;
            assert!(answers < 5, "it asks for ever");
            // The person looks, and says what is so.
            let open = scratch
                .show("unchecked")
                .operations
                .into_iter()
                .find(|o| o.state == "in_doubt")
                .expect("a doubt");
            let landed = scratch.lines(&format!("forge/{}", open.target)).contains(&open.key);
            // Everything that worked on it was killed, which nobody but this test can know: hence `--now`.
            let word: &[&str] = if landed { &["--landed"] } else { &["--not-landed", "--now"] };
            let n = open.n.to_string();
            let args = [&["resolve", "unchecked", n.as_str(), "--because", "seen"], word].concat();
            scratch.run(&args).exits(0);
            code = scratch.run(&["resume", "unchecked", "--wait=30s"]).code;
        }
        assert_eq!(code, Some(0));
        for name in ["one", "two", "three"] {
            assert_eq!(scratch.lines(&format!("forge/{name}")).len(), 1, "{name} landed once");
        }
    }
    println!("{runs} runs with engine and guard killed: {asked} honest questions, no second landing");
}
