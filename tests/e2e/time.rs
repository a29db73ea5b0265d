//! Waiting for what is not local: deadlines, lags, and wall clocks that lie.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Ran, Scratch, carry_env, commits, kill_below, need, wait_for};

/// A remote operation whose first attempt neither lands nor says so; the second lands.
fn plan(scratch: &Scratch) {
    let plan = r#"{"format":"surestep.plan/1","session":"far","verdict":"done","operations":[
        {"kind":"shell","repo":"far","target":"t","deadline_s":2,"lag_s":1,"body":{
            "run":["sh","-c","echo x >> forge/attempts; if [ $SURESTEP_ATTEMPT = 1 ]; then exit 7; fi; echo x >> forge/landed"],
            "check":["sh","-c","test -s forge/landed || exit 1"]}}]}"#;
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
}

const LAG: &str = "--lag-ms=1000";

#[test]
fn not_found_is_not_believed_before_deadline_and_lag_are_over() {
    let scratch = Scratch::bare();
    plan(&scratch);
    let start = Instant::now();
    let ran = scratch.run(&[LAG, "run", "plan.json"]).exits(5);
    assert!(format!("{}{}", ran.stdout, ran.stderr).contains("surestep resume far"), "{ran:#?}");
    let before = commits(&scratch.journal("far"));
    // Stepping before the time writes nothing and attempts nothing.
    for _ in 0..3 {
        scratch.run(&[LAG, "resume", "far"]).exits(5);
    }
    if start.elapsed() < Duration::from_millis(2_500) {
        assert_eq!(commits(&scratch.journal("far")), before);
        assert_eq!(scratch.lines("forge/attempts").len(), 1);
    }
    // A person's word comes no earlier, unless on their own responsibility.
    if start.elapsed() < Duration::from_millis(2_000) {
        let ran = scratch.run(&["resolve", "far", "1", "--not-landed", "--because", "I looked"]).exits(5);
        assert!(ran.stderr.contains("SE0401"), "{}", ran.stderr);
    }
    scratch.run(&[LAG, "resume", "far", "--wait=30s"]).exits(0);
    assert!(start.elapsed() >= Duration::from_secs(3), "deadline 2 s and lag 1 s");
    assert_eq!((scratch.lines("forge/attempts").len(), scratch.lines("forge/landed").len()), (2, 1));
}

#[test]
fn wait_has_a_limit() {
    let scratch = Scratch::bare();
    plan(&scratch);
    scratch.run(&[LAG, "run", "plan.json", "--wait=1s"]).exits(12);
}

fn fake(scratch: &Scratch, shift: &str, args: &[&str]) -> Ran {
    let plain = scratch.command(args);
    let mut faked = Command::new("faketime");
    faked.args(["-f", shift]).arg(plain.get_program()).args(plain.get_args()).current_dir(scratch.path());
    carry_env(&plain, &mut faked);
    faked.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1").stdin(Stdio::null());
    Ran::of(faked.output().expect("faketime runs"))
}

/// The values of a field in the newest commit's text.
fn newest(scratch: &Scratch, field: &str) -> Vec<String> {
    let journal = scratch.journal("far");
    let text =
        std::fs::read_to_string(journal.join(format!("{:08}.json", commits(&journal)))).expect("a commit");
    let mark = format!("\"{field}\":");
    text.match_indices(&mark)
        .map(|(at, _)| text[at + mark.len()..].split([',', '}']).next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_wall_clock_that_is_years_off_decides_nothing() {
    if !need("faketime") {
        return;
    }
    for shift in ["+10y", "-10y"] {
        let scratch = Scratch::bare();
        plan(&scratch);
        let start = Instant::now();
        scratch.run(&[LAG, "run", "plan.json"]).exits(5);
        let honest = newest(&scratch, "since_boot_ms");
        let ran = fake(&scratch, shift, &[LAG, "resume", "far"]);
        if start.elapsed() < Duration::from_millis(2_800) {
            assert_eq!(ran.code, Some(5), "{shift}: {ran:#?}");
            assert_eq!(scratch.lines("forge/attempts").len(), 1, "{shift}: no second attempt");
        }
        let ran = fake(&scratch, shift, &[LAG, "resume", "far", "--wait=30s"]).exits(0);
        assert!(start.elapsed() >= Duration::from_secs(3), "{shift}: {ran:#?}");
        assert_eq!(
            (scratch.lines("forge/attempts").len(), scratch.lines("forge/landed").len()),
            (2, 1),
            "{shift}"
        );
        // The journal shows that the wall clock was moved and that the boot clock was not.
        let year: i32 = newest(&scratch, "at").concat().trim_matches('"')[..4].parse().expect("a year");
        let log = scratch.run(&["log", "far", "--json"]).exits(0).stdout;
        let now: i32 = {
            let out = Command::new("date").arg("+%Y").output().expect("date runs");
            String::from_utf8_lossy(&out.stdout).trim().parse().expect("a year")
        };
        assert_eq!((year - now).abs(), 10, "{shift}: {log}");
        let first: u64 = honest.first().and_then(|ms| ms.parse().ok()).expect("milliseconds");
        for ms in all_since_boot(&scratch) {
            assert!(
                ms >= first.saturating_sub(10_000) && ms < first + 60_000,
                "{shift}: {ms} against {first}"
            );
        }
    }
}

fn all_since_boot(scratch: &Scratch) -> Vec<u64> {
    let journal = scratch.journal("far");
    let mut all = Vec::new();
    for n in 1..=commits(&journal) {
        let text = std::fs::read_to_string(journal.join(format!("{n:08}.json"))).expect("a commit");
        for part in text.split("\"since_boot_ms\":").skip(1) {
            all.extend(part.split([',', '}']).next().and_then(|ms| ms.parse::<u64>().ok()));
        }
    }
    all
}

#[test]
fn an_engine_killed_in_a_remote_attempt_waits_for_deadline_and_lag_then_lands_once() {
    let scratch = Scratch::bare();
    let plan = r#"{"format":"surestep.plan/1","session":"far","verdict":"done","operations":[
        {"kind":"shell","repo":"far","target":"t","deadline_s":2,"lag_s":1,"body":{
            "run":["sh","-c","echo x >> forge/attempts; if [ $SURESTEP_ATTEMPT = 1 ]; then sleep 20; fi; echo x >> forge/landed"],
            "check":["sh","-c","test -s forge/landed || exit 1"]}}]}"#;
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    let start = Instant::now();
    let mut child = scratch
        .command(&[LAG, "run", "plan.json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    wait_for("the attempt", Duration::from_secs(10), || scratch.lines("forge/attempts").len() == 1);
    kill_below(&mut child);
    let ran = scratch.run(&[LAG, "resume", "far"]);
    if start.elapsed() < Duration::from_millis(2_800) {
        assert_eq!(ran.code, Some(5), "{ran:#?}");
    }
    scratch.run(&[LAG, "resume", "far", "--wait=30s"]).exits(0);
    assert!(start.elapsed() >= Duration::from_secs(3));
    assert_eq!((scratch.lines("forge/attempts").len(), scratch.lines("forge/landed").len()), (2, 1));
}
