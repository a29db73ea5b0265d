//! Limits of the process and of the file system: file size, open files, room, inodes, a read-only mount.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::binary::{check, scratch};
use crate::harness::{Ran, Scratch, carry_env};

/// Runs the plan below `ulimit`.
fn limited(scratch: &Scratch, ulimit: &str) -> Ran {
    let plain = scratch.command(&["run", "plan.json"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {ulimit} && exec \"$@\""), "sh"]);
    shell.arg(plain.get_program()).args(plain.get_args()).current_dir(scratch.path());
    carry_env(&plain, &mut shell);
    Ran::of(shell.stdin(std::process::Stdio::null()).output().expect("sh runs"))
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_no_sudden_end() {
    let mut failed = 0;
    // In blocks of 512 bytes: from nothing to more than what is reserved for a settle.
    for blocks in [0, 1, 2, 3, 4, 6, 8, 16, 32, 64, 100, 127, 128, 129, 200] {
        let scratch = scratch();
        let ran = limited(&scratch, &format!("-f {blocks}"));
        if ran.code != Some(0) {
            failed += 1;
            assert!(ran.code == Some(11) && ran.stderr.contains("SE0501"), "{blocks}: {ran:#?}");
            assert!(scratch.lines("forge/one").is_empty(), "{blocks}: stopped while stopping is free");
        }
        check(&scratch, &ran, &[], &format!("{blocks} blocks"));
    }
    assert!(failed > 8, "{failed}");
}

#[test]
fn too_few_open_files_stop_an_operation_before_its_effect() {
    let (mut failed, mut done) = (0, 0);
    for files in 6..30 {
        let scratch = scratch();
        let ran = limited(&scratch, &format!("-n {files}"));
        match ran.code {
            Some(0) => done += 1,
            Some(11) => failed += 1,
            // Its effect could not be started, or its look-up not be made: it is known, or asked about.
            Some(3..=5) => {}
            _ => panic!("{files}: {ran:#?}"),
        }
        if ran.code == Some(3) {
            continue; // refused for good, and said so
        }
        check(&scratch, &ran, &[], &format!("{files} open files"));
    }
    assert!(failed > 0 && done > 3, "{failed} {done}");
}

struct Mount(PathBuf);

impl Mount {
    /// A small file system in memory below the scratch folder; `None` where it cannot be mounted.
    fn new(scratch: &Scratch, options: &str) -> Option<Self> {
        let at = scratch.path().join("small");
        std::fs::create_dir(&at).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("mode=700,{options}"), "tmpfs"]).arg(&at);
        if mount.output().is_ok_and(|m| m.status.success()) {
            return Some(Self(at));
        }
        assert!(std::env::var_os("CI").is_none(), "CI must be able to mount a small disk");
        println!("skipped: a small disk cannot be mounted here (needs root)");
        None
    }

    fn remount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{options}")]).arg(&self.0);
        mount.output().is_ok_and(|m| m.status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

const STORE: [&str; 3] = ["--store", "small/store", "--allow-volatile"];

fn with<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    STORE.iter().copied().chain(rest.iter().copied()).collect()
}

#[test]
fn every_number_of_inodes_and_every_amount_of_room() {
    let inodes: Vec<(String, &str)> =
        (4..26).map(|n| (format!("size=4m,nr_inodes={n}"), "nr_inodes=1000")).collect();
    let room: Vec<(String, &str)> =
        (1..60).step_by(4).map(|k| (format!("size={}k", k * 4), "size=4m")).collect();
    let (mut failed, mut done) = (0, 0);
    for (small, large) in inodes.iter().chain(&room) {
        let scratch = scratch();
        let Some(mount) = Mount::new(&scratch, small) else { return };
        let ran = scratch.run(&with(&["run", "plan.json"]));
        match ran.code {
            Some(0) => done += 1,
            _ => {
                failed += 1;
                // No room for a guard's record: its command was not started, and that is known.
                let not_started = ran.code == Some(5) && ran.stdout.contains("not_started");
                let no_room = ran.code == Some(11) && ran.stderr.contains("SE0501");
                assert!(not_started || no_room, "{small}: {ran:#?}");
            }
        }
        // What landed is recorded: there was room for it before it began.
        if !scratch.lines("forge/one").is_empty() {
            let shown = scratch.run(&with(&["show", "s", "--json"]));
            assert!(shown.stdout.contains("succeeded"), "{small}: {}", shown.stdout);
        }
        assert!(mount.remount(large), "{small}");
        check(&scratch, &ran, &STORE, small);
    }
    assert!(failed > 10 && done > 3, "{failed} {done}");
}

#[test]
fn a_read_only_mount_can_be_read_and_stops_everything_else() {
    let scratch = scratch();
    let Some(mount) = Mount::new(&scratch, "size=4m") else { return };
    // The second operation waits for a file, so that the turn is open.
    std::fs::write(scratch.path().join("blocked"), "").expect("written");
    let text = std::fs::read_to_string(scratch.path().join("plan.json")).expect("read");
    let blocked = text.replace("forge/two\"],\"check\"", "forge/two; test ! -e blocked\"],\"check\"");
    let blocked = blocked.replace(
        "echo \\\"$SURESTEP_KEY\\\" >> forge/two",
        "test ! -e blocked && echo \\\"$SURESTEP_KEY\\\" >> forge/two",
    );
    assert_ne!(text, blocked);
    std::fs::write(scratch.path().join("plan.json"), blocked).expect("written");
    let first = scratch.run(&with(&["run", "plan.json"]));
    assert!(matches!(first.code, Some(3..=5)), "{first:#?}");
    assert!(mount.remount("ro"));
    for command in
        [&["resume", "s"][..], &["run", "plan.json", "--session", "t"], &["cancel", "s", "--because", "x"]]
    {
        // Its backoff is over first: before that nothing would be written anyway.
        let mut ran = scratch.run(&with(command));
        for _ in 0..100 {
            if ran.code != Some(5) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            ran = scratch.run(&with(command));
        }
        let ran = ran.exits(11);
        assert!(ran.stderr.contains("Read-only") || ran.stderr.contains("read-only"), "{ran:#?}");
    }
    for command in [&["show", "s"][..], &["list"], &["log", "s"], &["fsck"]] {
        let ran = scratch.run(&with(command));
        assert!(ran.code == Some(0), "{command:?}: {ran:#?}");
    }
    assert!(mount.remount("rw"));
    std::fs::remove_file(scratch.path().join("blocked")).expect("removed");
    scratch.run(&with(&["resume", "s", "--wait=60s"])).exits(0);
    assert_eq!((scratch.lines("forge/one").len(), scratch.lines("forge/two").len()), (1, 1));
    assert!(Path::new(&scratch.path().join("small/store")).exists());
}
