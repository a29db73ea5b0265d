//! The real binary under strace, which lets the k-th call of each kind fail; what runs below its guards included.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::harness::{Ran, Scratch, carry_env, need};

/// Two operations that land once each, each with a look-up.
pub(super) fn scratch() -> Scratch {
    let scratch = Scratch::bare();
    let operation = |t: &str| {
        format!(
            r#"{{"kind":"shell","repo":"r","target":"{t}","deadline_s":2,"body":{{"local":true,"run":["sh","-c","echo \"$SURESTEP_KEY\" >> forge/{t}"],"check":["sh","-c","grep -q \"$SURESTEP_KEY\" forge/{t} || exit 1"]}}}}"#
        )
    };
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"s","verdict":"done","operations":[{},{}]}}"#,
        operation("one"),
        operation("two")
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("written");
    scratch
}

/// What must hold after a run that may have met a fault, and once that is gone.
#[track_caller]
pub(super) fn check(scratch: &Scratch, ran: &Ran, with: &[&str], case: &str) {
    let landed = |scratch: &Scratch| [scratch.lines("forge/one").len(), scratch.lines("forge/two").len()];
    assert!(landed(scratch).iter().all(|n| *n <= 1), "{case}: {:?} {ran:#?}", landed(scratch));
    let code = ran.code.unwrap_or_else(|| panic!("{case}: ended by a signal: {ran:#?}"));
    assert!([0, 4, 5, 6, 8, 11].contains(&code), "{case}: {ran:#?}");
    assert!(code == 0 || ran.stderr.contains("[SE"), "{case}: it says why: {ran:#?}");
    assert!(!ran.stderr.contains("panicked"), "{case}: {ran:#?}");
    let args: Vec<&str> = with.iter().copied().chain(["run", "plan.json", "--wait=30s"]).collect();
    scratch.run(&args).exits(0);
    assert_eq!(landed(scratch), [1, 1], "{case}");
}

/// Runs the plan with a fault.
fn injected(scratch: &Scratch, inject: &str, only: &[&str]) -> Ran {
    let plain = scratch.command(&["run", "plan.json", "--json"]);
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-o", "trace", "-e"]).arg(format!("inject={inject}")).args(only);
    traced.arg(plain.get_program()).args(plain.get_args()).current_dir(scratch.path());
    carry_env(&plain, &mut traced);
    Ran::of(traced.stdin(Stdio::null()).output().expect("strace runs"))
}

/// How often each call is made by the one thread that makes it most often.
fn counts(calls: &[&str]) -> BTreeMap<String, usize> {
    let scratch = scratch();
    let plain = scratch.command(&["run", "plan.json"]);
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-o", "trace", "-e"]).arg(format!("trace={}", calls.join(",")));
    traced.arg(plain.get_program()).args(plain.get_args()).current_dir(scratch.path());
    carry_env(&plain, &mut traced);
    assert!(traced.output().expect("strace runs").status.success());
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in scratch.lines("trace") {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        *counts.entry((call.to_owned(), pid.to_owned())).or_default() += 1;
    }
    let mut most = BTreeMap::new();
    for ((call, _), n) in counts {
        let most: &mut usize = most.entry(call).or_default();
        *most = n.max(*most);
    }
    most
}

#[test]
fn the_real_binary_survives_the_k_th_call_of_each_kind() {
    if !need("strace") {
        return;
    }
    let calls = [
        "fsync",
        "pwrite64",
        "fallocate",
        "ftruncate",
        "renameat2",
        "rename",
        "fdatasync",
        "mkdir",
        "mkdirat",
    ];
    let long = std::env::var_os("SURESTEP_FAULTS_LONG").is_some();
    let errnos: &[&str] =
        if long { &["EIO", "ENOSPC", "EDQUOT", "EROFS", "EMFILE"] } else { &["EIO", "ENOSPC"] };
    let counts = counts(&calls);
    let (mut cases, mut failed) = (0, 0);
    for (call, most) in &counts {
        // The short form takes the first calls of a kind, and then every third.
        for when in (1..=*most).filter(|k| long || *k <= 4 || k % 3 == 0) {
            for errno in errnos {
                let case = format!("{call}, call {when} of {most}, {errno}");
                let scratch = scratch();
                let ran = injected(&scratch, &format!("{call}:error={errno}:when={when}"), &[]);
                cases += 1;
                failed += usize::from(ran.code != Some(0));
                check(&scratch, &ran, &[], &case);
            }
        }
    }
    // Calls are counted by thread: how many a thread makes differs from run to run.
    assert!(cases >= 20 && failed > 5, "{cases} {failed} {counts:?}");
    println!("{cases} cases, {failed} of them failed");
}

#[derive(Deserialize)]
struct Error {
    schema: String,
    observed: Option<Observed>,
}

#[derive(Deserialize)]
struct Observed {
    n: u32,
    outcome: String,
    receipt: Option<Receipt>,
}

#[derive(Deserialize)]
struct Receipt {
    r#ref: String,
}

#[test]
fn a_receipt_that_cannot_be_recorded_is_on_stderr_and_in_the_json_object() {
    if !need("strace") {
        return;
    }
    // A commit cannot get its name: the one that settles an operation, and the late result beside the chain as well.
    let scratch = scratch();
    let second = scratch.journal("s").join("00000002.json");
    let second = second.to_str().expect("a path");
    let ran = injected(&scratch, "renameat2:error=EIO", &["-P", second]).exits(11);
    let one = scratch.lines("forge/one");
    let key = one.first().unwrap_or_else(|| panic!("the first operation landed: {ran:#?}"));
    let shown = scratch.run(&["show", "s", "--json"]);
    assert!(!shown.stdout.contains("\"state\": \"succeeded\""), "{shown:?}");
    assert!(ran.stderr.contains(key), "{}", ran.stderr);
    assert!(ran.stderr.contains("resolve s 1 --landed --receipt"), "{}", ran.stderr);
    let error: Error = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:#?}"));
    assert_eq!(error.schema, "surestep.error/1");
    let observed = error.observed.unwrap_or_else(|| panic!("{ran:#?}"));
    assert_eq!((observed.n, observed.outcome.as_str()), (1, "landed"));
    assert_eq!(observed.receipt.map(|r| r.r#ref).as_ref(), Some(key));
    check(&scratch, &ran, &[], "the second commit");
}
