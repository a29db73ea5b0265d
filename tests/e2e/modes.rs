//! Whatever the umask, everything of ours is for its owner alone from its first instant; whatever the session id, it
//! stays below the root and shares no file (acceptance 5).

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{Ran, Scratch, carry_env, need, wait_for};

/// Runs the binary below a umask and strace; the trace is appended.
fn traced(scratch: &Scratch, umask: &str, args: &[&str]) -> Command {
    let plain = scratch.command(args);
    let mut shell = Command::new("sh");
    let n = std::fs::read_dir(scratch.path()).expect("a folder").count();
    let strace = format!(
        "umask {umask} && exec strace -f -qq -y -o trace-{n}-$$ -e trace=open,openat,creat,mkdir,mkdirat,mknod,mknodat,chmod,fchmod,fchmodat,link,linkat,symlink,symlinkat \"$@\""
    );
    shell.args(["-c", &strace, "sh"]).arg(plain.get_program()).args(plain.get_args());
    shell.current_dir(scratch.path()).stdin(Stdio::null());
    carry_env(&plain, &mut shell);
    shell
}

fn run(scratch: &Scratch, umask: &str, args: &[&str]) -> Ran {
    Ran::of(traced(scratch, umask, args).output().expect("sh runs"))
}

fn trace(scratch: &Scratch) -> Vec<String> {
    let files = std::fs::read_dir(scratch.path()).expect("a folder").flatten();
    let ours = files.filter(|f| f.file_name().to_string_lossy().starts_with("trace-"));
    ours.flat_map(|f| {
        let text = std::fs::read_to_string(f.path()).expect("a trace");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    })
    .collect()
}

/// Everything below a folder, with its mode.
fn modes(dir: &Path, into: &mut BTreeMap<PathBuf, (bool, u32)>) {
    let meta = std::fs::symlink_metadata(dir).expect("metadata");
    into.insert(dir.to_owned(), (meta.is_dir(), meta.permissions().mode() & 0o7777));
    if meta.is_dir() {
        for entry in std::fs::read_dir(dir).expect("a folder").flatten() {
            modes(&entry.path(), into);
        }
    }
}

fn plan(scratch: &Scratch, name: &str, session: &str, run: &str) {
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"{session}","verdict":"done","conversation":[{{"role":"user","content":"go"}}],"operations":[
        {{"kind":"shell","repo":"r","target":"one","body":{{"local":true,"run":["sh","-c","{run}"]}}}},
        {{"kind":"shell","repo":"r","target":"two","body":{{"local":true,"run":["true"]}}}}]}}"#
    );
    std::fs::write(scratch.path().join(name), plan).expect("written");
}

/// A life with everything in it that makes a file: commits, contents, guards, marks, a mailbox, a hand-off, a repair.
fn live(scratch: &Scratch, umask: &str) {
    plan(scratch, "plan.json", "s", "umask > forge/umask");
    run(scratch, umask, &["run", "plan.json"]).exits(0);
    // A held session gets a request into its mailbox.
    plan(scratch, "slow.json", "slow", "touch forge/begun; while test ! -e forge/go; do sleep 0.05; done");
    let mut slow = traced(scratch, umask, &["run", "slow.json"]);
    let mut slow = slow.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh runs");
    wait_for("the command", std::time::Duration::from_secs(20), || {
        scratch.path().join("forge/begun").exists()
    });
    let requests = scratch.store().join("sessions/slow/requests");
    run(scratch, umask, &["resolve", "slow", "2", "--skip", "--because", "x"]);
    run(scratch, umask, &["cancel", "slow", "--because", "x"]);
    let mailed = std::fs::read_dir(&requests).expect("a mailbox").count();
    let mut seen = BTreeMap::new();
    modes(&scratch.store(), &mut seen);
    check_modes(&seen);
    std::fs::write(scratch.path().join("forge/go"), "").expect("written");
    slow.wait().expect("it ends");
    assert!(mailed > 0, "nothing was put into the mailbox");
    run(scratch, umask, &["export", "s", "-o", "copy.json"]).exits(0);
    let commit = scratch.journal("s").join("00000002.json");
    std::fs::write(&commit, "{").expect("written");
    run(scratch, umask, &["fsck", "--repair"]).exits(0);
    run(scratch, umask, &["resume", "s"]);
}

#[track_caller]
fn check_modes(seen: &BTreeMap<PathBuf, (bool, u32)>) {
    let wrong = |(path, (is_dir, mode)): (&PathBuf, &(bool, u32))| {
        (*mode != if *is_dir { 0o700 } else { 0o600 }).then(|| format!("{mode:o} {}", path.display()))
    };
    let wrong: Vec<_> = seen.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn whatever_the_umask_each_file_is_its_owners_alone_from_its_first_instant() {
    if !need("strace") {
        return;
    }
    for umask in ["000", "077", "777"] {
        let scratch = Scratch::bare();
        live(&scratch, umask);
        let mut seen = BTreeMap::new();
        modes(&scratch.store(), &mut seen);
        modes(&scratch.state().join("surestep"), &mut seen);
        for part in
            ["aside", "blobs", "guards", "late", "requests", "journal", "marks", "report.json", "lock"]
        {
            let there = |path: &PathBuf| path.components().any(|c| c.as_os_str() == part);
            assert!(seen.keys().any(there), "{part} was made");
        }
        check_modes(&seen);
        // As made: no mode beyond the owner's is ever asked for, and none is widened later.
        let ours = [scratch.store(), scratch.state()].map(|p| p.to_string_lossy().into_owned());
        let trace = trace(&scratch);
        let of_us = |line: &&String| {
            ours.iter().any(|p| line.contains(p.as_str()))
                || line.contains("\".surestep")
                || line.contains("\".state")
        };
        let mut made = [0, 0];
        for line in trace.iter().filter(of_us).filter(|l| !l.contains(" = -1 ")) {
            if line.contains("O_CREAT") {
                made[0] += 1;
                assert!(line.contains(", 0600") && line.contains("O_EXCL"), "{line}");
            } else if line.contains("mkdir") {
                made[1] += 1;
                assert!(line.contains(", 0700"), "{line}");
            } else if line.contains("chmod") {
                assert!(umask == "777" && (line.contains(", 0600") || line.contains(", 0700")), "{line}");
            } else {
                assert!(line.contains("open"), "{line}");
            }
        }
        assert!(made[0] > 20 && made[1] > 15, "{made:?}");
        // What an effect runs under is the caller's, as it was.
        assert_eq!(
            scratch.lines("forge/umask").concat().trim_start_matches('0'),
            umask.trim_start_matches('0')
        );
        if umask != "777" {
            let copy = std::fs::metadata(scratch.path().join("copy.json")).expect("the copy");
            assert_eq!(copy.permissions().mode() & 0o777, 0o600);
        }
    }
}

#[test]
fn no_session_id_leaves_the_root_or_shares_a_file() {
    let scratch = Scratch::bare();
    let long = "x".repeat(200);
    let ids = [
        "plain",
        "..",
        ".",
        "...",
        "../up",
        "../../up",
        "/etc/up",
        "a/b",
        "a_b",
        "a:b",
        "a\\b",
        "Case",
        "case",
        "CASE",
        "caf\u{e9}",
        "cafe\u{301}",
        "dot",
        "dot.",
        "dot..",
        " dot",
        "dot ",
        "~",
        "~root",
        "tilde~0cc175b9c0f1b6a831c399e269772661",
        "-rf",
        "--help",
        "con",
        "nul.txt",
        "$(touch up)",
        "`touch up`",
        "*",
        "lock",
        "journal",
        "sessions",
        ".tmp-1",
        "\u{202e}abc",
        "\u{1f980}",
        long.as_str(),
    ];
    let before: BTreeSet<PathBuf> = outside(&scratch);
    let mut folders = BTreeSet::new();
    for (n, id) in ids.iter().enumerate() {
        let quoted = serde_json::to_string(id).expect("text");
        let plan = format!(
            r#"{{"format":"surestep.plan/1","session":{quoted},"verdict":"v{n}","operations":[{{"kind":"shell","repo":"r","target":"t","body":{{"local":true,"run":["sh","-c","echo $SURESTEP_KEY >> forge/keys"]}}}}]}}"#
        );
        std::fs::write(scratch.path().join("plan.json"), plan).expect("written");
        let ran = scratch.run(&["run", "plan.json"]).exits(0);
        assert!(ran.stdout.contains(&format!("v{n}")), "{id}: {ran:?}");
        let now: BTreeSet<String> = std::fs::read_dir(scratch.store().join("sessions"))
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let new: Vec<_> = now.difference(&folders).cloned().collect();
        assert_eq!(new.len(), 1, "{id}: a folder of its own: {new:?}");
        let name = &new[0];
        assert!(
            name.is_ascii() && *name == name.to_lowercase() && !name.ends_with('.') && !name.starts_with('.')
        );
        folders = now;
        // Asked for by the very same id, it is that one.
        let shown = scratch.run(&["show", "--json", "--", id]).exits(0);
        assert!(shown.stdout.contains(&format!("\"verdict\": \"v{n}\"")), "{id}: {shown:?}");
    }
    let keys: BTreeSet<String> = scratch.lines("forge/keys").into_iter().collect();
    assert_eq!(keys.len(), ids.len(), "each has keys of its own");
    let list = scratch.run(&["list", "--json"]).exits(0);
    assert_eq!(list.stdout.matches("\"session\":").count(), ids.len());
    scratch.run(&["fsck"]).exits(0);
    let after = outside(&scratch);
    assert_eq!(before, after, "nothing was made outside the store");
}

/// What lies beside the store, and above the scratch folder where a name could lead.
fn outside(scratch: &Scratch) -> BTreeSet<PathBuf> {
    let here = std::fs::read_dir(scratch.path()).expect("a folder").flatten().map(|e| e.path());
    let ours = [".surestep", ".state", "plan.json"];
    let mut all: BTreeSet<PathBuf> =
        here.filter(|p| p.file_name().is_some_and(|n| ours.iter().all(|o| n != *o))).collect();
    for up in ["../up", "../../up", "/etc/up"] {
        let path = scratch.path().join(up);
        if path.exists() {
            all.insert(path);
        }
    }
    all
}

#[test]
fn an_id_that_is_too_long_empty_or_holds_a_control_character_is_refused() {
    let scratch = Scratch::bare();
    let long = serde_json::to_string(&"x".repeat(300)).expect("text");
    let longer = serde_json::to_string(&"\u{e9}".repeat(101)).expect("text");
    for id in [
        r#""a\u0000b""#,
        r#""\u0000""#,
        r#""""#,
        r#""a\nb""#,
        r#""\u001b[2J""#,
        r#""\u007f""#,
        &long,
        &longer,
    ] {
        let plan = format!(r#"{{"format":"surestep.plan/1","session":{id},"verdict":"v","operations":[]}}"#);
        std::fs::write(scratch.path().join("plan.json"), plan).expect("written");
        let ran = scratch.run(&["run", "plan.json"]).exits(2);
        assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\0'), "{ran:?}");
    }
    assert!(!scratch.store().exists(), "nothing was made");
    scratch.run(&["exec", "--session", "s", "--target", "t", "--", "true"]).exits(0);
    for id in ["", &"x".repeat(300), "a\nb"] {
        for command in ["show", "resume", "log", "fsck", "export"] {
            scratch.run(&[command, id]).exits(2);
        }
    }
}
