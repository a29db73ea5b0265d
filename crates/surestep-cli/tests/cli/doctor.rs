//! `doctor`: it says what puts a turn at risk, and changes nothing.

use std::path::{Path, PathBuf};

use crate::{Desk, LOCAL, Said, shell};

/// A folder in memory, where this machine has one.
fn memory() -> Option<tempfile::TempDir> {
    let shm = Path::new("/dev/shm");
    let mounted = std::fs::read_to_string("/proc/mounts").is_ok_and(|m| m.contains(" /dev/shm tmpfs "));
    let made = tempfile::Builder::new().prefix("surestep-").tempdir_in(shm).ok().filter(|_| mounted);
    if made.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no tmpfs at /dev/shm, and CI must have one");
        // Captured unless the test is asked to show what it says.
        let _ = std::io::Write::write_all(&mut std::io::stdout(), b"skipped: no tmpfs at /dev/shm\n");
    }
    made
}

#[track_caller]
fn says(said: &Said, level: &str, name: &str, words: &str) {
    let line =
        said.stdout.lines().find(|l| l.starts_with(level) && l.get(9..).is_some_and(|l| l.starts_with(name)));
    assert!(line.is_some_and(|line| line.contains(words)), "{level} {name}: {words}\n{said:#?}");
}

/// Every path below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        all.push(entry.path());
        if entry.path().is_dir() {
            all.extend(below(&entry.path()));
        }
    }
    all.sort();
    all
}

#[test]
fn a_sound_machine_is_0_and_nothing_is_made() {
    let desk = Desk::new();
    let said = desk.run(&["doctor"]).exits(0);
    says(&said, "ok", "store", "none yet at `.surestep`");
    says(&said, "ok", "guard", "it starts");
    says(&said, "ok", "settings", "no surestep.toml");
    assert_eq!(below(desk.path()), Vec::<PathBuf>::new());
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(0);
    let before = below(desk.path());
    let said = desk.run(&["--json", "doctor"]).exits(0);
    for word in
        ["\"surestep.doctor/1\"", "\"level\": \"ok\"", "surestep.store/1", "1 session", "\"settings\""]
    {
        assert!(said.stdout.contains(word), "{word} in {said:#?}");
    }
    assert_eq!(below(desk.path()), before);
}

#[test]
fn a_file_system_that_forgets_is_2_unless_it_is_named() {
    let desk = Desk::new();
    let Some(memory) = memory() else { return };
    let store = memory.path().join("store").to_string_lossy().into_owned();
    let said = desk.run(&["--store", &store, "doctor"]).exits(2);
    says(&said, "problem", "file system", "does not keep what it acknowledges");
    let said = desk.run(&["--store", &store, "--allow-volatile", "doctor"]).exits(0);
    says(&said, "warning", "file system", "was accepted by name");
    desk.file("surestep.toml", &format!("store = \"{store}\"\nallow_volatile = true\n"));
    says(&desk.run(&["doctor"]).exits(0), "warning", "file system", "was accepted by name");
    assert!(!memory.path().join("store").exists());
}

#[test]
fn a_store_that_cannot_be_used_is_11_and_a_damaged_one_is_8() {
    let desk = Desk::new();
    desk.file("file", "");
    let said = desk.run(&["--store", "file/store", "doctor"]).exits(11);
    says(&said, "problem", "store", "SE0502");
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(0);
    desk.file(".surestep/surestep.json", "{");
    says(&desk.run(&["doctor"]).exits(8), "problem", "store", "SE0601");
}

#[test]
fn settings_that_are_refused_are_2_and_the_rest_is_looked_at_all_the_same() {
    let desk = Desk::new();
    desk.file("surestep.toml", "zebra = 1\n");
    let said = desk.run(&["doctor"]).exits(2);
    says(&said, "problem", "settings", "surestep.toml:1: unknown key `zebra`");
    says(&said, "ok", "guard", "it starts");
}

#[test]
fn marks_that_cannot_be_kept_are_a_warning() {
    let desk = Desk::new();
    desk.file("file", "");
    desk.file("surestep.toml", "state_dir = \"file/marks\"\n");
    let said = desk.run(&["doctor"]).exits(0);
    says(&said, "warning", "marks", "roll-back not detected");
    desk.file("surestep.toml", "state_dir = \".surestep/marks\"\n");
    desk.plan("p.json", "s", &[shell("a", "true", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(0);
    says(&desk.run(&["doctor"]).exits(0), "warning", "marks", "would be put back with it");
}

#[test]
fn looking_makes_no_folder_and_changes_nothing() {
    let desk = Desk::new();
    desk.plan("p.json", "s", &[shell("a", "exit 9", LOCAL)]);
    desk.run(&["run", "p.json"]).exits(4);
    std::fs::remove_dir_all(desk.path().join(".surestep/blobs")).unwrap();
    let before = below(desk.path());
    for (command, code) in [
        (&["show", "s"][..], 0),
        (&["log", "s"], 0),
        (&["list"], 0),
        (&["questions"], 4),
        (&["explain", "s", "1"], 0),
        (&["doctor"], 0),
    ] {
        desk.run(command).exits(code);
        assert_eq!(below(desk.path()), before, "{command:?}");
    }
}
