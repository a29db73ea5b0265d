//! What can stand in a file's place, through the real binary: exit 8, 7 or 2 in bounded time, and nothing changed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use super::{commits::odd_documents, things};
use crate::harness::{Ran, Scratch};

/// A session `s` with two landed operations, through the binary.
fn scratch() -> Scratch {
    let scratch = Scratch::bare();
    let operation = |t: &str| {
        format!(
            r#"{{"kind":"shell","repo":"r","target":"{t}","body":{{"local":true,"run":["sh","-c","echo {t} >> forge/{t}"]}}}}"#
        )
    };
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"s","verdict":"done","operations":[{},{}]}}"#,
        operation("one"),
        operation("two")
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("written");
    scratch.run(&["run", "plan.json"]).exits(0);
    scratch
}

/// Runs the binary, and ends it if it does not end by itself.
fn bounded(scratch: &Scratch, args: &[&str]) -> Ran {
    let mut command = scratch.command(args);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let start = std::time::Instant::now();
    while child.try_wait().expect("its status").is_none() {
        if start.elapsed() > Duration::from_secs(30) {
            let _ = child.kill();
            panic!("{args:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output: Output = child.wait_with_output().expect("its output");
    Ran::of(output)
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

/// A thing that is no regular file, and how it is made.
type Made = (&'static str, Box<dyn Fn()>);

fn odd_things(path: &Path, whole: &Path) -> Vec<Made> {
    let at = path.to_owned();
    let link = move |to: PathBuf| {
        let at = at.clone();
        Box::new(move || std::os::unix::fs::symlink(&to, &at).expect("a link")) as Box<dyn Fn()>
    };
    let (folder, pipe) = (path.to_owned(), path.to_owned());
    vec![
        ("a good link", link(whole.to_owned())),
        ("a dangling link", link(PathBuf::from("nowhere"))),
        ("a loop", link(path.to_owned())),
        ("a link to a device", link(PathBuf::from("/dev/zero"))),
        ("a folder", Box::new(move || std::fs::create_dir(&folder).expect("a folder"))),
        ("a FIFO", Box::new(move || fifo(&pipe))),
    ]
}

#[test]
fn what_is_no_file_is_refused_wherever_it_stands_and_never_waited_for() {
    let scratch = scratch();
    let session = scratch.store().join("sessions/s");
    for (name, code) in [
        ("journal/00000001.json", 8),
        ("journal/00000002.json", 8),
        ("journal/00000003.json", 8),
        ("lock", 8),
        ("journal", 8),
        ("late", 8),
        ("../../surestep.json", 8),
    ] {
        let path = session.join(name);
        let whole = path.with_extension("whole");
        std::fs::rename(&path, &whole).expect("moved");
        for (case, make) in odd_things(&path, &whole) {
            if case == "a folder" && path.file_name().is_some_and(|n| n == "journal" || n == "late") {
                continue; // an empty journal is another test's; an empty `late` is right
            }
            make();
            let before = things(&scratch.store());
            for args in [&["run", "plan.json"][..], &["resume", "s"], &["show", "s"], &["fsck"], &["list"]] {
                let ran = bounded(&scratch, args);
                let fine = args[0] == "list" && !name.contains("surestep");
                assert!(
                    ran.code == Some(code) || (fine && ran.code == Some(8)),
                    "{name}: {case}: {args:?}: {ran:#?}"
                );
                assert_eq!(things(&scratch.store()), before, "{name}: {case}: {args:?}");
            }
            if std::fs::remove_file(&path).is_err() {
                std::fs::remove_dir(&path).expect("removed");
            }
        }
        std::fs::rename(&whole, &path).expect("put back");
    }
    scratch.run(&["fsck"]).exits(0);
    assert_eq!((scratch.lines("forge/one").len(), scratch.lines("forge/two").len()), (1, 1));
}

#[test]
fn a_damaged_commit_is_refused_by_every_command_and_named_with_file_and_offset() {
    let scratch = scratch();
    let file = scratch.journal("s").join("00000002.json");
    let whole = std::fs::read(&file).expect("read");
    let odd = odd_documents(&whole);
    for (n, (case, bytes)) in odd.iter().enumerate() {
        std::fs::write(&file, bytes).expect("written");
        let before = things(&scratch.store());
        // All of them by one command, a few by all.
        let commands: &[&[&str]] = if n % 12 == 0 {
            &[
                &["run", "plan.json"],
                &["resume", "s"],
                &["resume", "--all"],
                &["show", "s"],
                &["log", "s"],
                &["questions"],
                &["list"],
                &["explain", "s", "1"],
                &["cancel", "s", "--because", "x"],
                &["export", "s"],
                &["fsck", "s"],
            ]
        } else {
            &[&["resume", "s"]]
        };
        for args in commands {
            let ran = bounded(&scratch, args);
            assert!(matches!(ran.code, Some(8 | 7)), "{case}: {args:?}: {ran:#?}");
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(said.contains("00000002.json") && !said.contains("panicked"), "{case}: {args:?}: {said}");
        }
        assert_eq!(things(&scratch.store()), before, "{case}");
    }
    assert_eq!((scratch.lines("forge/one").len(), scratch.lines("forge/two").len()), (1, 1));
}

#[test]
fn a_damaged_envelope_is_refused_by_import_and_step() {
    let scratch = scratch();
    let text = scratch.run(&["export", "s"]).exits(0).stdout;
    let other = Scratch::bare();
    let plan = text.trim_end().as_bytes();
    let file = other.path().join("envelope.json");
    for (n, (case, bytes)) in odd_documents(plan).into_iter().enumerate() {
        if n % 4 != 0 || case == "a line end behind it" {
            continue;
        }
        std::fs::write(&file, bytes).expect("written");
        for args in [
            &["import", "envelope.json", "--allow", "shell"][..],
            &["step", "envelope.json", "--allow", "shell"],
        ] {
            let ran = bounded(&other, args);
            assert!(matches!(ran.code, Some(8 | 7 | 2)), "{case}: {args:?}: {ran:#?}");
        }
        let sessions = other.store().join("sessions");
        assert!(!sessions.exists() || std::fs::read_dir(sessions).expect("a folder").next().is_none());
    }
}

#[test]
fn a_plan_is_read_within_bounds_whatever_it_is() {
    let scratch = Scratch::bare();
    let at = |name: &str| scratch.path().join(name);
    std::fs::create_dir(at("folder")).expect("a folder");
    fifo(&at("silent"));
    std::os::unix::fs::symlink("loop", at("loop")).expect("a link");
    let large = std::fs::File::create(at("large")).expect("a file");
    large.set_len((128 << 20) + 1).expect("its length");
    for plan in ["/dev/zero", "folder", "large", "loop", "nowhere", "silent"] {
        let ran = bounded(&scratch, &["run", plan]).exits(2);
        assert!(ran.stderr.contains("SE0103") && ran.stderr.contains(plan), "{ran:?}");
        let limit = ran.stderr.contains("longer than 134217728 bytes");
        assert_eq!(limit, ["/dev/zero", "large"].contains(&plan), "{ran:?}");
    }
    assert!(!scratch.store().exists(), "nothing was made");
    // Somebody who writes to a FIFO, sooner or later, is read to the end.
    let plan = r#"{"format":"surestep.plan/1","session":"s","verdict":"done","operations":[]}"#;
    for pause in ["0", "1"] {
        let script = format!(
            "(sleep {pause}; printf '%s' '{plan}' | cut -c1-20 | tr -d '\\n'; sleep 0.2; printf '%s' '{plan}' | cut -c21-) > silent"
        );
        let mut writer =
            Command::new("sh").args(["-c", &script]).current_dir(scratch.path()).spawn().expect("sh");
        bounded(&scratch, &["run", "silent"]).exits(0);
        assert!(writer.wait().expect("it ends").success());
    }
}

#[test]
fn list_shows_every_session_beside_one_whose_name_nobody_can_tell() {
    let scratch = scratch();
    for session in ["Odd/Name", "t"] {
        scratch.run(&["run", "plan.json", "--session", session]).exits(0);
    }
    let sessions: Vec<_> =
        std::fs::read_dir(scratch.store().join("sessions")).expect("a folder").flatten().collect();
    let odd =
        sessions.iter().find(|s| s.file_name().to_string_lossy().contains('~')).expect("the odd one").path();
    // A torn commit still tells the id; zeros do not.
    let first = odd.join("journal/00000001.json");
    let whole = std::fs::read(&first).expect("read");
    for name in ["00000002.json", "00000003.json"] {
        std::fs::rename(odd.join("journal").join(name), odd.join(name)).expect("moved");
    }
    for (bytes, told) in [(whole[..whole.len() - 1].to_vec(), true), (vec![0; whole.len()], false)] {
        std::fs::write(&first, bytes).expect("written");
        for command in ["list", "questions"] {
            let ran = scratch.run(&[command]).exits(8);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(command == "questions" || said.contains("Odd/Name") == told, "{said}");
            assert!(said.contains("00000001.json"), "{said}");
        }
        let ran = scratch.run(&["list", "--json"]).exits(8);
        for word in ["\"session\": \"t\"", "\"session\": \"s\"", "\"unreadable\"", "fsck"] {
            assert!(ran.stdout.contains(word), "{word}: {}", ran.stdout);
        }
        scratch.run(&["resume", "--all"]).exits(8);
    }
    // Its mark knows it; without that only somebody who does can repair it.
    let told = scratch.run(&["fsck"]).exits(8);
    assert!(told.stdout.contains("'Odd/Name'") || told.stdout.contains("Odd/Name"), "{told:?}");
    std::fs::remove_dir_all(scratch.state()).expect("removed");
    let ran = scratch.run(&["fsck", "--repair"]).exits(8);
    assert!(ran.stdout.contains("nobody can tell its id"), "{ran:?}");
    scratch.run(&["fsck", "--repair", "Odd/Name"]).exits(0);
    scratch.run(&["list"]).exits(0);
    // Its plan is gone with its commits; offered anew, nothing runs before somebody has answered.
    scratch.run(&["run", "plan.json", "--session", "Odd/Name"]).exits(4);
    assert_eq!(scratch.lines("forge/one").len(), 3);
}

#[test]
fn fsck_beside_a_running_session_finds_nothing_and_disturbs_nothing() {
    let scratch = Scratch::bare();
    let operation = |n: usize| {
        format!(
            r#"{{"kind":"shell","repo":"r","target":"{n}","body":{{"local":true,"run":["sh","-c","sleep 0.02; echo {n} >> forge/done"]}}}}"#
        )
    };
    let operations: Vec<String> = (0..30).map(operation).collect();
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"s","verdict":"done","conversation":[{{"role":"user","content":"go"}}],"operations":[{}]}}"#,
        operations.join(",")
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("written");
    let mut running = scratch.command(&["run", "plan.json"]);
    let running = running.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut running = running.spawn().expect("the binary runs");
    crate::harness::wait_for("the session", Duration::from_secs(20), || scratch.journal("s").exists());
    let mut looks = 0;
    while running.try_wait().expect("its status").is_none() {
        let ran = scratch.run(&["fsck", "--json"]);
        assert!(ran.code == Some(0) && !ran.stdout.contains("damaged"), "{ran:#?}");
        looks += 1;
    }
    assert!(running.wait().expect("its status").success());
    assert!(looks > 5, "{looks}");
    assert_eq!(scratch.lines("forge/done").len(), 30);
    scratch.run(&["fsck"]).exits(0);
}

#[test]
fn messages_that_are_gone_or_changed_are_damage_and_never_a_session_that_is_not_there() {
    let plan = r#"{"format":"surestep.plan/1","session":"s","verdict":"done","conversation":[{"role":"user","content":"go"}],"operations":[{"kind":"shell","repo":"r","target":"one","body":{"local":true,"run":["sh","-c","echo one >> forge/one; exit 3"]}}]}"#;
    for change in [|blob: &Path| std::fs::remove_file(blob), |blob: &Path| std::fs::write(blob, "[]")] {
        let scratch = Scratch::bare();
        std::fs::write(scratch.path().join("plan.json"), plan).expect("written");
        scratch.run(&["run", "plan.json"]).exits(4);
        let blob = things(&scratch.store().join("blobs")).into_keys().next().expect("the messages");
        change(&blob).expect("changed");
        let journal = || things(&scratch.journal("s"));
        let before = journal();
        for args in [
            &["show", "s"][..],
            &["resume", "s"],
            &["run", "plan.json"],
            &["resolve", "s", "1", "--landed", "--because", "seen"],
            &["cancel", "s", "--because", "enough"],
            &["export", "s"],
        ] {
            let ran = bounded(&scratch, args).exits(8);
            assert!(ran.stderr.contains("SE0601") && ran.stderr.contains("fsck"), "{args:?}: {ran:#?}");
            assert_eq!(ran.stdout, "", "{args:?}");
        }
        assert_eq!(journal(), before, "a byte was changed");
        assert_eq!(scratch.lines("forge/one").len(), 1);
    }
}
