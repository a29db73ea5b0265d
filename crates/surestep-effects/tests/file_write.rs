//! `file.write`: what is there afterwards, whatever happened, and what a look-up makes of it.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use support::{Desk, KEY, Op, found, word};
use surestep::Digest;
use surestep_effects::{FileWrite, FileWriteLook};

const HI: &str = r#"{"content":"hi\n"}"#;

fn landed() -> String {
    format!("landed {}", Digest::of(b"hi\n"))
}

fn op(target: &str) -> Op<'_> {
    Op::new("", target, HI)
}

async fn write(desk: &Desk, op: &Op<'_>) -> String {
    word(&desk.execute(&FileWrite::new(), op).await)
}

async fn look(desk: &Desk, op: &Op<'_>) -> String {
    found(&desk.look(&FileWrite::new(), &FileWriteLook::new(), op).await)
}

fn names(desk: &Desk) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(desk.dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(desk: &Desk, name: &str) -> u32 {
    fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_file_is_made_and_found_by_its_content() {
    let desk = Desk::new();
    assert_eq!(look(&desk, &op("a")).await, "not landed");
    assert_eq!(write(&desk, &op("a")).await, landed());
    assert_eq!((desk.read("a").as_str(), mode(&desk, "a")), ("hi\n", 0o644));
    assert_eq!(look(&desk, &op("a")).await, landed());
    assert_eq!(write(&desk, &op("a")).await, landed(), "a second landing changes nothing");
    assert_eq!(names(&desk), ["a"]);
    fs::write(desk.path("a"), "ho\n").unwrap();
    assert_eq!(look(&desk, &op("a")).await, "not landed");
    fs::write(desk.path("a"), "hi\nmore").unwrap();
    assert_eq!(look(&desk, &op("a")).await, "not landed");
    let absolute = desk.path("b");
    assert_eq!(write(&desk, &op(absolute.to_str().unwrap())).await, landed());
    assert_eq!(desk.read("b"), "hi\n");
}

#[tokio::test]
async fn a_file_keeps_its_mode_unless_the_body_names_one() {
    let desk = Desk::new();
    fs::write(desk.path("a"), "old").unwrap();
    fs::set_permissions(desk.path("a"), Permissions::from_mode(0o751)).unwrap();
    assert_eq!(write(&desk, &op("a")).await, landed());
    assert_eq!(mode(&desk, "a"), 0o751);
    let named = Op::new("", "a", r#"{"content":"hi\n","mode":"0600"}"#);
    assert_eq!(write(&desk, &named).await, landed());
    assert_eq!(mode(&desk, "a"), 0o600);
}

#[tokio::test]
async fn a_symlink_is_followed_and_stays() {
    let desk = Desk::new();
    fs::create_dir(desk.path("real")).unwrap();
    fs::write(desk.path("real/file"), "old").unwrap();
    symlink("real/file", desk.path("link")).unwrap();
    assert_eq!(look(&desk, &op("link")).await, "not landed");
    assert_eq!(write(&desk, &op("link")).await, landed());
    assert!(fs::symlink_metadata(desk.path("link")).unwrap().is_symlink());
    assert_eq!(desk.read("real/file"), "hi\n");
    assert_eq!(look(&desk, &op("link")).await, landed());
    symlink("nowhere", desk.path("dangling")).unwrap();
    assert_eq!(write(&desk, &op("dangling")).await, "never dangling");
    assert_eq!(look(&desk, &op("dangling")).await, "not landed");
    symlink("loop", desk.path("loop")).unwrap();
    assert_eq!(look(&desk, &op("loop")).await, "unknown io");
}

#[tokio::test]
async fn where_no_file_can_be_is_refused_for_good() {
    let desk = Desk::new();
    fs::create_dir(desk.path("folder")).unwrap();
    fs::write(desk.path("file"), "x").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(desk.path("pipe")).status().unwrap().success());
    assert_eq!(write(&desk, &op("no/such/folder")).await, "never no_folder");
    assert_eq!(write(&desk, &op("folder")).await, "never no_file");
    assert_eq!(write(&desk, &op("pipe")).await, "never no_file");
    assert_eq!(write(&desk, &op("file/x")).await, "never io");
    for absent in ["no/such/folder", "folder", "pipe", "file/x"] {
        assert_eq!(look(&desk, &op(absent)).await, "not landed", "{absent}");
    }
    assert_eq!(names(&desk), ["file", "folder", "pipe"]);
}

#[tokio::test]
async fn an_error_before_the_replacement_leaves_the_old_file() {
    let desk = Desk::new();
    fs::write(desk.path("a"), "old").unwrap();
    let late = op("a").budget_ms(-1);
    assert_eq!(write(&desk, &late).await, "not sent deadline");
    // Somebody has our temp file's name.
    let hex = KEY.trim_start_matches("v1:");
    fs::create_dir(desk.path(&format!(".surestep-{hex}-1.tmp"))).unwrap();
    assert_eq!(write(&desk, &op("a")).await, "backoff io");
    assert_eq!(desk.read("a"), "old");
    assert_eq!(names(&desk).len(), 2);
    assert_eq!(write(&desk, &op("/sys/kernel/surestep")).await, "backoff permission");
}

#[tokio::test]
async fn what_a_killed_attempt_left_behind_is_removed_by_the_next() {
    let desk = Desk::new();
    let hex = KEY.trim_start_matches("v1:");
    let foreign = format!(".surestep-{}-1.tmp", "f".repeat(32));
    for name in [&format!(".surestep-{hex}-1.tmp"), &format!(".surestep-{hex}-2.tmp"), &foreign] {
        fs::write(desk.path(name), "h").unwrap();
    }
    assert_eq!(write(&desk, &op("a").attempt(3)).await, landed());
    assert_eq!(names(&desk), [foreign, "a".to_owned()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_the_old_content_or_the_new_one() {
    let desk = Desk::new();
    let (old, new) = ("o".repeat(100_000), "n".repeat(100_000));
    fs::write(desk.path("a"), &old).unwrap();
    let (path, sizes) = (desk.path("a"), [old, new.clone()]);
    let reader = std::thread::spawn(move || {
        for _ in 0..300 {
            assert!(sizes.contains(&fs::read_to_string(&path).unwrap()), "a mixture");
        }
    });
    let body = format!(r#"{{"content":"{new}"}}"#);
    while !reader.is_finished() {
        assert!(write(&desk, &Op::new("", "a", &body)).await.starts_with("landed"));
    }
    reader.join().unwrap();
}

#[test]
fn what_cannot_be_written_is_refused_when_it_is_bound() {
    let desk = Desk::new();
    let refused =
        |target: &str, body: &str| desk.terms(&FileWrite::new(), &Op::new("", target, body)).is_err();
    for target in ["", "/", "a/", "a/..", "..", "a/.", ".", "a\0b"] {
        assert!(refused(target, HI), "{target:?}");
    }
    for body in ["{}", r#"{"content":1}"#, r#"{"content":"","mod":"0644"}"#] {
        assert!(refused("a", body), "{body}");
    }
    for mode in ["", "644x", "0888", "4755", "1777", "00644", "+644", "44"] {
        assert!(refused("a", &format!(r#"{{"content":"","mode":"{mode}"}}"#)), "{mode}");
    }
    for mode in ["644", "0644", "0000", "0777"] {
        assert!(!refused("a", &format!(r#"{{"content":"","mode":"{mode}"}}"#)), "{mode}");
    }
    let terms = desk.terms(&FileWrite::new(), &op("a")).unwrap();
    assert_eq!((terms.deadline_ms, terms.lag_ms), (600_000, 0));
    assert!(terms.local && terms.can_ask && !terms.distinguishes);
}
