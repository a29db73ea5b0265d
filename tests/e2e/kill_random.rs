//! The contribution, killed with SIGKILL at random moments up to three times a run, and resumed.
//!
//! Every run ends as the control does: effects, receipt refs, order, verdict; landings are counted at the remote.
//! The classes of kills are aimed at, so that each is really met; the run prints them.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{End, Scratch, commits, random, workspace};

/// Where a kill fell, read from the journal after it.
#[derive(Debug, Default)]
struct Kills {
    before_intent: usize,
    between: usize,
    after: usize,
}

impl Kills {
    fn note(&mut self, scratch: &Scratch, session: &str) {
        let journal = scratch.journal(session);
        let count = commits(&journal);
        let last = std::fs::read_to_string(journal.join(format!("{count:08}.json"))).unwrap_or_default();
        if count == 0 {
            self.before_intent += 1;
        } else if last.contains(r#""entry":"finished""#) {
            self.after += 1;
        } else {
            self.between += 1;
        }
    }
}

fn runs() -> usize {
    std::env::var("SURESTEP_KILL_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

/// Kills a child at a moment that is aimed at; false if it was faster.
fn kill(mut child: Child, scratch: &Scratch, session: &str, terminal: usize, whole: Duration) -> bool {
    let start = Instant::now();
    let journal = scratch.journal(session);
    match random(10) {
        // Before anything is durable.
        0..=2 => std::thread::sleep(Duration::from_micros(random(9_000))),
        // Right after the end is durable.
        3..=4 => {
            while commits(&journal) < terminal
                && start.elapsed() < Duration::from_secs(20)
                && child.try_wait().is_ok_and(|s| s.is_none())
            {
                std::hint::spin_loop();
            }
        }
        // Anywhere.
        _ => std::thread::sleep(Duration::from_micros(random(whole.as_micros() as u64))),
    }
    let alive = child.try_wait().is_ok_and(|status| status.is_none());
    let _ = child.kill();
    let status = child.wait().expect("the child is reaped");
    alive && status.code().is_none()
}

#[test]
fn a_killed_turn_ends_like_the_control() {
    let plan = workspace().join("fixtures/plans/contribute.json");
    let plan = plan.to_str().expect("a plain path");
    let session = "contribute";

    let control = Scratch::new();
    let start = Instant::now();
    control.run(&["run", plan]).exits(0);
    let whole = start.elapsed();
    let expected = control.show(session);
    assert_eq!(expected.verdict.as_deref(), Some("shipped"));
    let terminal = commits(&control.journal(session));
    assert_eq!(terminal, expected.operations.len() + 1, "n operations cost n+1 commits");
    assert!(control.landings().values().all(|n| *n == 1), "{:?}", control.landings());

    let runs = runs();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let kills = std::sync::Mutex::new(Kills::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < runs {
                    one_run(plan, session, terminal, whole, &expected.end(), &kills);
                }
            });
        }
    });
    let kills = kills.into_inner().expect("no run failed");
    println!(
        "{runs} runs killed up to three times each: {} kills before the intent, {} between intent and settle, {} after",
        kills.before_intent, kills.between, kills.after
    );
    if runs >= 200 {
        assert!(kills.before_intent >= 20 && kills.between >= 20 && kills.after >= 20, "{kills:?}");
    }
}

fn one_run(
    plan: &str,
    session: &str,
    terminal: usize,
    whole: Duration,
    expected: &End,
    kills: &std::sync::Mutex<Kills>,
) {
    let scratch = Scratch::new();
    for n in 0..=random(3) {
        let args: &[&str] = if n == 0 || commits(&scratch.journal(session)) == 0 {
            &["run", plan, "--wait"]
        } else {
            &["resume", session, "--wait"]
        };
        let mut command = scratch.command(args);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
        if kill(child, &scratch, session, terminal, whole) {
            kills.lock().expect("no run failed").note(&scratch, session);
        }
    }
    if commits(&scratch.journal(session)) == 0 {
        scratch.run(&["run", plan, "--wait"]).exits(0);
    }
    let ran = scratch.run(&["resume", session, "--wait"]).exits(0);
    let shown = scratch.show(session);
    assert_eq!(&shown.end(), expected, "{ran:?}");
    let landings = scratch.landings();
    assert!(landings.values().all(|n| *n == 1), "{landings:?} {shown:#?}");
}
