//! A killed owner whose command still runs: nobody takes over until everything below its guard is gone.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::harness::{Scratch, below, need, wait_for};

/// A child that outlives its parent in one of the ways that programs have, as the shell would start it. It writes
/// its process number, sleeps, and then lands.
fn orphan(how: &str, sleep: &str) -> String {
    let work = format!("echo $$ > forge/pid; sleep {sleep}; echo \"$SURESTEP_KEY\" >> forge/landed");
    match how {
        "plain" => format!("sh -c '{work}' & wait"),
        "setsid" => format!("setsid sh -c '{work}' & exit 0"),
        "python" => format!(
            "python3 -c 'import os,subprocess\nif os.fork(): os._exit(0)\nos.setsid()\nos.closerange(0,1024)\nsubprocess.call([\"sh\",\"-c\",\"\"\"{}\"\"\"],close_fds=True)'",
            work.replace('"', "\\\"")
        ),
        "node" => format!(
            "node -e 'require(\"child_process\").spawn(\"sh\",[\"-c\",`{}`],{{detached:true,stdio:\"ignore\"}}).unref()'",
            work.replace('"', "\\\"")
        ),
        other => panic!("no orphan `{other}`"),
    }
}

fn plan(scratch: &Scratch, command: &str, deadline_s: u64, check: bool) {
    let quoted = serde_json::to_string(command).expect("a string");
    let check = if check {
        r#","check":["sh","-c","grep -q \"^$SURESTEP_KEY\" forge/landed 2>/dev/null || exit 1"]"#
    } else {
        ""
    };
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"orphan","verdict":"done","operations":[{{"kind":"shell","repo":"forge","target":"t","deadline_s":{deadline_s},"body":{{"run":["sh","-c",{quoted}],"local":true{check}}}}}]}}"#
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
}

fn start(scratch: &Scratch) -> std::process::Child {
    let child = scratch.command(&["run", "plan.json"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.expect("it starts");
    wait_for("the orphan", Duration::from_secs(20), || !scratch.lines("forge/pid").is_empty());
    child
}

fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn takes_over_only_after(how: &str) {
    let scratch = Scratch::bare();
    plan(&scratch, &orphan(how, "2"), 60, true);
    let mut child = start(&scratch);
    child.kill().expect("SIGKILL");
    child.wait().expect("reaped");
    let ran = scratch.run(&["resume", "orphan"]).exits(6);
    assert!(ran.stderr.contains("pid "), "{how}: the message names a process:\n{}", ran.stderr);
    assert!(scratch.lines("forge/landed").is_empty(), "{how}: it did not wait for the command");
    scratch.run(&["resume", "orphan", "--wait=40s"]).exits(0);
    assert_eq!(scratch.lines("forge/landed").len(), 1, "{how}");
}

fn is_cut_at_the_deadline(how: &str) {
    let scratch = Scratch::bare();
    plan(&scratch, &orphan(how, "600"), 2, false);
    let mut child = start(&scratch);
    let guard = below(child.id());
    assert!(!guard.is_empty(), "{how}: no guard");
    child.kill().expect("SIGKILL");
    child.wait().expect("reaped");
    let pid = scratch.lines("forge/pid").concat();
    let begun = Instant::now();
    // With the engine dead, the guard cuts by itself; the doubt then goes to a person, since nothing can be asked.
    let ran = scratch.run(&["resume", "orphan", "--wait=40s"]);
    assert!(matches!(ran.code, Some(0 | 4)), "{how}: {ran:#?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{how}: cut at its deadline");
    assert!(!alive(&pid), "{how}: process {pid} still lives");
    assert!(scratch.lines("forge/landed").is_empty(), "{how}");
}

#[test]
fn a_plain_child_holds_the_session() {
    takes_over_only_after("plain");
    is_cut_at_the_deadline("plain");
}

#[test]
fn a_setsid_child_holds_the_session() {
    takes_over_only_after("setsid");
    is_cut_at_the_deadline("setsid");
}

#[test]
fn a_detached_python_child_that_closed_its_descriptors_holds_the_session() {
    if need("python3") {
        takes_over_only_after("python");
        is_cut_at_the_deadline("python");
    }
}

#[test]
fn a_detached_node_child_holds_the_session() {
    if need("node") {
        takes_over_only_after("node");
        is_cut_at_the_deadline("node");
    }
}

#[test]
fn engine_and_guard_killed_with_a_detached_child_alive_nothing_lands_twice() {
    if !need("python3") {
        return;
    }
    for sleep in ["1", "5"] {
        let scratch = Scratch::bare();
        // The command itself ends; only the detached child lands, before and after the deadline of 3 s.
        // A second attempt would land at once.
        let first = orphan("python", sleep);
        let second = "echo \"$SURESTEP_KEY\" >> forge/landed";
        plan(
            &scratch,
            &format!("if [ \"$SURESTEP_ATTEMPT\" -gt 1 ]; then {second}; exit; fi; {first}"),
            3,
            true,
        );
        let mut child = start(&scratch);
        let guards: Vec<u32> = below(child.id());
        let orphan = scratch.lines("forge/pid").concat();
        for pid in guards.into_iter().filter(|p| p.to_string() != orphan.trim()) {
            // Only what is the guard: the detached child and its parents below it live on.
            let name = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if name.contains("__guard") {
                let pid = rustix::process::Pid::from_raw(pid.try_into().expect("a pid")).expect("not 0");
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("reaped");
        assert!(alive(&orphan), "the detached child lives on");
        scratch.run(&["resume", "orphan", "--wait=60s"]).exits(0);
        wait_for("the end of the detached child", Duration::from_secs(20), || !alive(&orphan));
        assert_eq!(scratch.lines("forge/landed").len(), 1, "sleep {sleep}");
    }
}
