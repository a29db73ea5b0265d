//! A store that was put back to an older copy, or lost a part, never runs a landed operation again (acceptance 8).

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use surestep::{Engine, Envelope, SessionId, StepError, StoreError};

use crate::harness::{Ran, Scratch, commits, kill_below, wait_for};

/// Five operations. Each lands once in a file of its own, after it has put a copy of the store aside: `copies/N` is
/// the store at revision N.
fn plan(scratch: &Scratch, check: bool) {
    let operation = |n: usize| {
        let look = if check {
            format!(r#","check":["sh","-c","grep -q \"$SURESTEP_KEY\" forge/{n} || exit 1"]"#)
        } else {
            String::new()
        };
        let run = format!(
            r#"mkdir -p copies; test -e copies/{n} || cp -a .surestep copies/{n}; echo \"$SURESTEP_KEY\" >> forge/{n}; if test -e hang-{n}; then touch hung; sleep 60; fi"#
        );
        format!(
            r#"{{"kind":"shell","repo":"r","target":"op-{n}","deadline_s":1,"body":{{"local":true,"run":["sh","-c","{run}"]{look}}}}}"#
        )
    };
    let operations: Vec<String> = (1..=5).map(operation).collect();
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"s","verdict":"done","operations":[{}]}}"#,
        operations.join(",")
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
}

fn landings(scratch: &Scratch) -> Vec<usize> {
    (1..=5).map(|n| scratch.lines(&format!("forge/{n}")).len()).collect()
}

fn shell(scratch: &Scratch, line: &str) {
    let done = Command::new("sh").args(["-c", line]).current_dir(scratch.path()).status().expect("sh runs");
    assert!(done.success(), "{line}");
}

fn put_back(scratch: &Scratch, revision: usize) {
    shell(scratch, &format!("rm -rf .surestep && cp -a copies/{revision} .surestep"));
    assert_eq!(commits(&scratch.journal("s")), revision);
}

/// Every file below a folder: its inode and its bytes.
fn bytes(folder: &Path) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let inode = entry.metadata().expect("metadata").ino();
        if path.is_dir() {
            all.extend(bytes(&path));
            all.insert(path, (inode, Vec::new()));
        } else {
            let content = std::fs::read(&path).expect("a file");
            all.insert(path, (inode, content));
        }
    }
    all
}

/// `run`, `resume` and an engine's step refuse, and change nothing; what is left can still be looked at.
#[track_caller]
fn refuses(scratch: &Scratch) {
    let (before, landed) = (bytes(&scratch.store()), landings(scratch));
    for args in [&["run", "plan.json"][..], &["resume", "s"], &["resume", "s", "--wait=1s"]] {
        let said = scratch.run(args).exits(8).stderr;
        assert!(said.contains("error[SE0602]") && said.contains("surestep fsck --restored s"), "{said}");
    }
    let engine = Engine::builder(scratch.open()).build().expect("the engine");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let stepped = runtime.block_on(engine.step(Envelope::new(SessionId::new("s").expect("an id"))));
    assert!(
        matches!(&stepped, Err(StepError::Store { source: StoreError::RolledBack { .. }, .. })),
        "{stepped:?}"
    );
    let listed = scratch.run(&["list"]).exits(8).stdout;
    assert!(listed.contains("SE0602"), "{listed}");
    assert_eq!(bytes(&scratch.store()), before, "a byte was changed");
    assert_eq!(landings(scratch), landed);
}

fn restore(scratch: &Scratch) -> Ran {
    scratch.run(&["fsck", "--restored", "s"]).exits(0)
}

#[test]
fn put_back_to_any_revision_of_a_finished_turn_it_refuses_and_then_finds_what_landed() {
    let scratch = Scratch::bare();
    plan(&scratch, true);
    scratch.run(&["run", "plan.json"]).exits(0);
    let control = scratch.show("s");
    assert_eq!((control.revision, landings(&scratch)), (6, vec![1; 5]));
    for revision in 1..=5 {
        put_back(&scratch, revision);
        refuses(&scratch);
        scratch.run(&["show", "s"]).exits(8);
        scratch.run(&["log", "s"]).exits(8);
        restore(&scratch);
        scratch.run(&["resume", "s", "--wait=60s"]).exits(0);
        assert_eq!(landings(&scratch), vec![1; 5], "put back to {revision}");
        assert_eq!(scratch.show("s").end(), control.end(), "put back to {revision}");
        scratch.run(&["run", "plan.json"]).exits(0);
    }
}

#[test]
fn put_back_under_a_kind_that_cannot_look_each_open_operation_is_a_question() {
    let scratch = Scratch::bare();
    plan(&scratch, false);
    scratch.run(&["run", "plan.json"]).exits(0);
    for revision in 1..=5 {
        put_back(&scratch, revision);
        refuses(&scratch);
        restore(&scratch);
        scratch.run(&["resume", "s", "--wait=60s"]).exits(4);
        // Without a look-up a guard's word in the copy is the only thing that may still answer.
        let shown = scratch.show("s");
        let open = shown.operations.iter().filter(|o| o.state == "in_doubt").count();
        assert_eq!(open, 6 - revision, "{shown:#?}");
        assert_eq!(landings(&scratch), vec![1; 5], "put back to {revision}");
    }
    // The last copy had one left: a person answers, and the turn ends.
    scratch.run(&["resolve", "s", "5", "--landed", "--because", "it is in the file"]).exits(0);
    scratch.run(&["resume", "s", "--wait=60s"]).exits(0);
    assert_eq!(landings(&scratch), vec![1; 5]);
}

#[test]
fn put_back_after_a_kill_in_the_middle_it_refuses_and_then_runs_only_what_never_ran() {
    for revision in 1..=2 {
        let scratch = Scratch::bare();
        plan(&scratch, true);
        shell(&scratch, "touch hang-3");
        let mut command = scratch.command(&["run", "plan.json"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        wait_for("the third to hang", Duration::from_secs(20), || scratch.path().join("hung").exists());
        kill_below(&mut child);
        shell(&scratch, "rm hang-3");
        assert_eq!(landings(&scratch), [1, 1, 1, 0, 0]);
        put_back(&scratch, revision);
        refuses(&scratch);
        restore(&scratch);
        scratch.run(&["resume", "s", "--wait=120s"]).exits(0);
        assert_eq!(landings(&scratch), vec![1; 5], "put back to {revision}");
    }
}

#[test]
fn a_session_whose_folder_or_journal_was_removed_is_never_a_fresh_start() {
    for part in ["sessions/s", "sessions/s/journal", "sessions/s/journal/*"] {
        let scratch = Scratch::bare();
        plan(&scratch, true);
        scratch.run(&["run", "plan.json"]).exits(0);
        shell(&scratch, &format!("rm -rf .surestep/{part}"));
        refuses(&scratch);
        restore(&scratch);
        // It is opened by the entry that says so; the plan is bound anew, and looked for.
        scratch.run(&["run", "plan.json", "--wait=60s"]).exits(0);
        assert_eq!(landings(&scratch), vec![1; 5], "{part}");
        assert_eq!(scratch.show("s").verdict.as_deref(), Some("done"));
    }
}

#[test]
fn a_store_that_was_removed_is_not_made_anew_unless_that_is_meant() {
    let scratch = Scratch::bare();
    plan(&scratch, true);
    scratch.run(&["run", "plan.json"]).exits(0);
    let id = scratch.open().marks();
    shell(&scratch, "rm -rf .surestep");
    for args in [&["run", "plan.json"][..], &["resume", "--all"], &["list"], &["show", "s"]] {
        let said = scratch.run(args).exits(8).stderr;
        assert!(said.contains("error[SE0603]") && said.contains("surestep fsck --forget"), "{said}");
    }
    assert!(!scratch.store().exists(), "{id:?}");
    assert_eq!(landings(&scratch), vec![1; 5]);

    // Made anew under its old id: its sessions are looked for.
    scratch.run(&["fsck", "--restored"]).exits(0);
    scratch.run(&["run", "plan.json", "--wait=60s"]).exits(0);
    assert_eq!(landings(&scratch), vec![1; 5]);

    // Or forgotten, which takes the store's id and does what was said.
    let there = scratch.run(&["fsck", "--forget"]).exits(2).stderr;
    assert!(there.contains("error[SE0606]"), "{there}");
    shell(&scratch, "rm -rf .surestep");
    let said = scratch.run(&["fsck", "--forget"]).exits(0);
    assert!(said.stdout.contains("a second time"), "{said:?}");
    scratch.run(&["fsck", "--forget=0123"]).exits(2);
    scratch.run(&["run", "plan.json"]).exits(8);
    let command = said.stderr.split('`').nth(1).expect("the exact command");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    scratch.run(&words).exits(0);
    scratch.run(&["run", "plan.json"]).exits(0);
    assert_eq!(landings(&scratch), vec![2; 5]);
}

#[test]
fn an_effect_that_cleans_the_store_away_is_not_run_again() {
    let scratch = Scratch::bare();
    let operation = r#"{"kind":"shell","repo":"r","target":"clean","body":{"run":["sh","-c","echo x >> forge/1; rm -rf .surestep"]}}"#;
    let plan = format!(r#"{{"format":"surestep.plan/1","session":"s","operations":[{operation}]}}"#);
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    let first = scratch.run(&["run", "plan.json"]);
    assert_ne!(first.code, Some(0), "{first:?}");
    for _ in 0..2 {
        scratch.run(&["run", "plan.json"]).exits(8);
    }
    assert_eq!(scratch.lines("forge/1").len(), 1);
    scratch.run(&["fsck", "--restored"]).exits(0);
    scratch.run(&["run", "plan.json", "--wait=5s"]).exits(4);
    assert_eq!(scratch.lines("forge/1").len(), 1, "nobody can look: a person is asked");
}

#[test]
fn marks_that_cannot_be_kept_are_told_once_and_the_step_goes_on() {
    let scratch = Scratch::bare();
    plan(&scratch, true);
    std::fs::write(scratch.state(), "a file in the way").expect("a file");
    let said = scratch.run(&["run", "plan.json"]).exits(0).stderr;
    assert_eq!(said.matches("would not be noticed").count(), 1, "{said}");
    // Once they can be kept they are raised to where the store is, and from then on they tell.
    std::fs::remove_file(scratch.state()).expect("removed");
    std::fs::write(
        scratch.path().join("two.json"),
        r#"{"format":"surestep.plan/1","session":"s","turn":2,"operations":[]}"#,
    )
    .expect("a plan");
    scratch.run(&["run", "two.json"]).exits(0);
    put_back(&scratch, 5);
    refuses(&scratch);
}

#[test]
fn marks_are_private_and_one_that_is_torn_does_not_stop_a_step() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::bare();
    plan(&scratch, true);
    let run = scratch.command(&["run", "plan.json"]);
    let mut open = Command::new("sh");
    open.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(run.get_program()).args(run.get_args());
    crate::harness::carry_env(&run, &mut open);
    let done = open.current_dir(scratch.path()).output().expect("it runs");
    assert!(done.status.success(), "{done:?}");
    let mut marks = Vec::new();
    for (path, _) in bytes(&scratch.state()) {
        let mode = std::fs::metadata(&path).expect("metadata").permissions().mode() & 0o7777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        marks.extend(path.ends_with("s.json").then_some(path));
    }
    assert_eq!(marks.len(), 1);
    let whole = std::fs::read(&marks[0]).expect("the mark");
    for torn in [&b""[..], &whole[..20], &[0; 64]] {
        std::fs::write(&marks[0], torn).expect("a torn mark");
        let said = scratch.run(&["show", "s"]).exits(0).stderr;
        assert!(said.contains("would not be noticed"), "{said}");
    }
}
