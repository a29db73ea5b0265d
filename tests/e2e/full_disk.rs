//! On a disk that fills during effect 1 of 2, receipt 1 is on disk and effect 2 has not started.

use std::process::Command;

use crate::harness::{Scratch, commits};

struct Mount(std::path::PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

impl Mount {
    /// A disk of 1 MiB; `None` where it cannot be mounted.
    fn small(at: &std::path::Path) -> Option<Self> {
        std::fs::create_dir(at).expect("a folder");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"]).arg(at).output();
        if mounted.is_ok_and(|m| m.status.success()) {
            return Some(Self(at.to_owned()));
        }
        assert!(std::env::var_os("CI").is_none(), "CI must be able to mount a small disk");
        println!("skipped: a small disk cannot be mounted here (needs root)");
        None
    }
}

#[test]
fn a_first_run_without_room_is_told_to_run_again_since_there_is_nothing_to_resume() {
    let scratch = Scratch::bare();
    let small = scratch.path().join("small");
    let Some(_mount) = Mount::small(&small) else { return };
    let plan = r#"{"format":"surestep.plan/1","session":"full","verdict":"done","operations":[
        {"kind":"shell","repo":"r","target":"one","body":{"local":true,"run":["sh","-c","echo one >> forge/one"]}}]}"#;
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    let fill = || Command::new("sh").args(["-c", "cat /dev/zero > fill"]).current_dir(&small).output();
    let run = ["--store", "small/store", "--allow-volatile", "run", "plan.json"];
    // Room for the store itself, and none for an operation.
    scratch
        .run(&[
            "--store",
            "small/store",
            "--allow-volatile",
            "exec",
            "--session",
            "x",
            "--target",
            "t",
            "--local",
            "--",
            "true",
        ])
        .exits(0);
    let _ = fill();
    let ran = scratch.run(&run).exits(11);
    assert!(ran.stderr.contains("SE0501"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("next:  surestep {}", run.join(" "))), "{}", ran.stderr);
    assert!(!ran.stderr.contains("resume"), "{}", ran.stderr);
    std::fs::remove_file(small.join("fill")).expect("room again");
    scratch.run(&run).exits(0);
    assert_eq!(scratch.lines("forge/one").len(), 1);
}

#[test]
fn a_disk_that_fills_during_an_effect_stops_the_next_one_and_keeps_the_receipt() {
    let scratch = Scratch::bare();
    let small = scratch.path().join("small");
    let Some(_mount) = Mount::small(&small) else { return };
    // The first operation lands and fills the disk to its last byte, all but what was reserved.
    let plan = r#"{"format":"surestep.plan/1","session":"full","verdict":"done","operations":[
        {"kind":"shell","repo":"r","target":"one","body":{"local":true,"run":["sh","-c","echo one >> forge/one; cat /dev/zero > small/fill 2>/dev/null; true"]}},
        {"kind":"shell","repo":"r","target":"two","body":{"local":true,"run":["sh","-c","echo two >> forge/two"]}}]}"#;
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    let store = ["--store", "small/store", "--allow-volatile"];
    let with = |rest: &[&str]| -> Vec<String> { store.iter().chain(rest).map(|s| (*s).to_owned()).collect() };
    let ran = scratch.run(&with(&["run", "plan.json"])).exits(11);
    assert!(ran.stderr.contains("SE0501"), "{}", ran.stderr);
    assert_eq!(scratch.lines("forge/one").len(), 1);
    assert!(scratch.lines("forge/two").is_empty(), "effect 2 has not started");
    let shown = scratch.run(&with(&["show", "full", "--json"]));
    let shown: crate::harness::Show = serde_json::from_str(&shown.stdout).expect("show --json");
    assert_eq!(shown.operations[0].state, "succeeded");
    assert!(shown.operations[0].receipt.is_some(), "receipt 1 is on disk");
    assert_eq!(shown.operations[1].state, "planned");
    // Again: still full, still nothing started, nothing lost.
    let journal = small.join("store/sessions/full/journal");
    let before = commits(&journal);
    scratch.run(&with(&["resume", "full"])).exits(11);
    assert_eq!(commits(&journal), before);
    std::fs::remove_file(small.join("fill")).expect("room again");
    scratch.run(&with(&["resume", "full"])).exits(0);
    assert_eq!((scratch.lines("forge/one").len(), scratch.lines("forge/two").len()), (1, 1));
}
