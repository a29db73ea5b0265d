//! `fsck --repair`: whatever is damaged, no landed operation lands again, and nothing is deleted.

use std::path::Path;

use surestep::{Clock as _, Recovery, Rest, Revision, SystemClock};
use surestep_file::check::{self, Remedy, Severity};
use surestep_file::repair::{self, Options, Repaired};

use super::{Lab, Thing, nothing_is_lost, plan, plan_of, session, things};

pub(crate) fn repair(lab: &Lab) -> Repaired {
    let options = Options { dry_run: false, open: lab.options(), now: SystemClock::default().now() };
    repair::repair(&lab.root(), None, &options).expect("it repairs")
}

/// Each way of damaging one commit.
type Damage = (&'static str, fn(&Path));

const DAMAGES: &[Damage] = &[
    ("empty", |file| std::fs::write(file, "").expect("written")),
    ("half", |file| {
        let text = std::fs::read(file).expect("read");
        std::fs::write(file, &text[..text.len() / 2]).expect("written");
    }),
    ("a flipped bit", |file| {
        let mut text = std::fs::read(file).expect("read");
        let middle = text.len() / 2;
        text[middle] ^= 1;
        std::fs::write(file, text).expect("written");
    }),
    ("zeros", |file| {
        let text = std::fs::read(file).expect("read");
        std::fs::write(file, vec![0; text.len()]).expect("written");
    }),
    ("gone", |file| std::fs::rename(file, file.with_extension("taken")).expect("moved")),
    ("twice", |file| {
        let text = std::fs::read(file).expect("read");
        std::fs::write(file, [text.clone(), text].concat()).expect("written");
    }),
    ("foreign", |file| std::fs::write(file, r#"{"hello":"world"}"#).expect("written")),
    ("a folder", |file| {
        std::fs::rename(file, file.with_extension("taken")).expect("moved");
        std::fs::create_dir(file).expect("a folder");
        std::fs::write(file.join("inner"), "x").expect("written");
    }),
    ("a loop", |file| {
        std::fs::rename(file, file.with_extension("taken")).expect("moved");
        std::os::unix::fs::symlink(file, file).expect("a link");
    }),
    ("a FIFO", |file| {
        std::fs::rename(file, file.with_extension("taken")).expect("moved");
        let made = std::process::Command::new("mkfifo").arg(file).status().expect("mkfifo");
        assert!(made.success());
    }),
    ("of another revision", |file| {
        let other = file.with_file_name("00000001.json");
        let text = std::fs::read(if file == other { file.with_file_name("00000002.json") } else { other });
        std::fs::write(file, text.expect("read")).expect("written");
    }),
];

#[test]
fn whichever_commit_is_damaged_and_however_nothing_lands_twice_and_nothing_is_deleted() {
    let control = Lab::finished();
    let mut doubts = 0;
    for revision in 1..=6 {
        for (how, damage) in DAMAGES {
            if *how == "gone" && revision == 6 {
                continue; // the journal is whole, and behind its mark: another test's
            }
            let case = format!("commit {revision}, {how}");
            let lab = control.copy();
            damage(&lab.commit(revision));
            let before = things(&lab.root());
            let refused = lab.drive(Some(plan())).expect_err(&case);
            assert_eq!(refused.exit_code(), surestep::exit::INTEGRITY, "{case}: {refused:?}");
            let found = check::check(&lab.root(), None, &lab.options()).expect("it can be looked at");
            assert!(found.findings.iter().any(|f| f.severity == Severity::Damaged), "{case}: {found:?}");
            assert_eq!(things(&lab.root()), before, "{case}: looking and refusing change nothing");

            let repaired = repair(&lab);
            assert_eq!(repaired.refused, [], "{case}");
            nothing_is_lost(&before, &lab.root(), &case);
            let wrong: Vec<_> =
                repaired.after.findings.iter().filter(|f| f.severity != Severity::Note).collect();
            assert!(wrong.is_empty(), "{case}: {wrong:#?}");
            let envelope = lab.read().unwrap_or_else(|e| panic!("{case}: {e:?}"));
            assert_eq!(envelope.session().revision, Revision::new(revision), "{case}");
            assert!(envelope.session().restored.is_some(), "{case}: it says that commits were lost");
            doubts += envelope.session().operations.iter().filter(|o| o.state.is_open()).count();

            let step = lab.drive(Some(plan())).unwrap_or_else(|e| panic!("{case}: {e:?}"));
            assert!(matches!(step.rest, Rest::Finished(_)), "{case}: {:?}", step.rest);
            assert_eq!(lab.world.landings(), control.world.landings(), "{case}");
            assert!(lab.world.landings().values().all(|n| *n == 1), "{case}");
            assert!(repair(&lab).moved.is_empty(), "{case}: there is nothing more to repair");
        }
    }
    assert!(doubts > 100, "{doubts}");
}

#[test]
fn without_a_look_up_each_lost_operation_is_a_question_and_none_runs() {
    let control = Lab::new();
    control.drive_with(Some(plan()), Recovery::halt()).expect("it finishes");
    for revision in 2..=6 {
        let lab = control.copy();
        std::fs::write(lab.commit(revision), "{").expect("written");
        repair(&lab);
        let step = lab.drive_with(None, Recovery::halt()).expect("it rests");
        let Rest::NeedsPerson(question) = &step.rest else { panic!("{:?}", step.rest) };
        assert_eq!(u64::from(question.op.value()), revision - 1);
        assert_eq!(lab.world.landings(), control.world.landings());
    }
}

#[test]
fn what_never_ran_runs_once_after_a_repair() {
    // The second operation's outcome is lost, so three to five never began; then the journal's end is torn.
    let control = Lab::new();
    let targets = ["1", "2", "lost", "4", "5"];
    let rested = control.step(plan_of(&targets));
    assert!(matches!(rested.rest, Rest::Until { .. }), "{:?}", rested.rest);
    let last = rested.envelope.session().revision.value();
    for revision in 2..=last {
        let lab = control.copy();
        std::fs::write(lab.commit(revision), "{").expect("written");
        repair(&lab);
        let step = lab.drive(Some(plan_of(&targets))).expect("it goes on");
        assert!(matches!(step.rest, Rest::Finished(_)), "{:?}", step.rest);
        let landings = lab.world.landings();
        assert!(landings.values().all(|n| *n == 1) && landings.len() == 5, "{landings:?}");
    }
}

#[test]
fn a_repair_that_died_after_any_move_is_repeated_and_nothing_lands_twice() {
    // The states that a dead repair leaves: commits from the end are aside, the damaged one is still there.
    let control = Lab::finished();
    for damaged in 2..=5 {
        for kept in damaged..=5 {
            let lab = control.copy();
            std::fs::write(lab.commit(damaged), "{").expect("written");
            let aside = lab.root().join("aside/dead/sessions/s/journal");
            std::fs::create_dir_all(&aside).expect("a folder");
            for revision in kept + 1..=6 {
                let from = lab.commit(revision);
                std::fs::rename(&from, aside.join(from.file_name().expect("a name"))).expect("moved");
            }
            repair(&lab);
            let restored = lab.read().expect("it loads").session().restored.clone().expect("restored");
            assert_eq!(restored.mark_revision, Revision::new(6));
            lab.drive(Some(plan())).expect("it finishes");
            assert!(lab.world.landings().values().all(|n| *n == 1));
        }
    }
}

#[test]
fn damaged_evidence_of_an_unsettled_operation_puts_it_in_doubt() {
    let lab = Lab::new();
    lab.drive_with(Some(plan_of(&["1", "lost"])), Recovery::halt()).expect("it rests");
    let late = lab.root().join("sessions/s/late/0002-1-x.json");
    std::fs::write(&late, "{\"format\":\"surestep.late/1\"").expect("written");
    let before = things(&lab.root());
    let refused = lab.drive(None).expect_err("it cannot be read");
    assert_eq!(refused.exit_code(), surestep::exit::INTEGRITY);
    let repaired = repair(&lab);
    assert_eq!(repaired.moved.len(), 1);
    nothing_is_lost(&before, &lab.root(), "late");
    let envelope = lab.read().expect("it loads");
    assert!(envelope.session().restored.is_some());

    // Of a settled one it is only moved.
    let lab = Lab::finished();
    let late = lab.root().join("sessions/s/late/0002-1-x.json");
    std::fs::write(&late, "{").expect("written");
    assert!(lab.read().is_err());
    repair(&lab);
    assert!(lab.read().expect("it loads").session().restored.is_none());
    assert!(!late.exists());
}

#[test]
fn a_lock_that_is_gone_is_made_anew_and_a_damaged_mark_too() {
    for how in ["gone", "link", "text"] {
        let lab = Lab::new();
        lab.drive_with(Some(plan_of(&["1", "lost", "3"])), Recovery::halt()).expect("it rests");
        let lock = lab.root().join("sessions/s/lock");
        // Who holds a lock that is gone may still be at it: this very process left the note.
        if how != "text" {
            std::fs::remove_file(&lock).expect("removed");
            assert_eq!(repair(&lab).refused[0].exit, surestep::exit::HELD, "{how}");
            std::fs::write(&lock, "").expect("written");
            std::fs::remove_file(lab.root().join("sessions/s/holder.json")).expect("removed");
        }
        match how {
            "gone" => std::fs::remove_file(&lock).expect("removed"),
            "link" => {
                std::fs::remove_file(&lock).expect("removed");
                std::os::unix::fs::symlink("/dev/null", &lock).expect("a link");
            }
            _ => std::fs::write(&lock, "nonsense").expect("written"),
        }
        let before = things(&lab.root());
        let repaired = repair(&lab);
        assert_eq!(repaired.refused, [], "{how}");
        let content = |thing: &Thing| thing.content.clone();
        let after: Vec<_> = things(&lab.root()).values().map(content).collect();
        assert!(before.values().map(content).all(|c| after.contains(&c)), "{how}");
        assert_eq!(std::fs::read(&lock).expect("read"), b"born   \n");
        lab.drive(None).expect("it goes on");
        assert!(lab.world.landings().values().all(|n| *n == 1), "{how}");
    }
}

#[test]
fn a_last_commit_that_is_gone_is_told_by_the_mark_and_left_to_fsck_restored() {
    let lab = Lab::finished();
    std::fs::rename(lab.commit(6), lab.dir.path().join("gone")).expect("moved");
    let before = things(&lab.root());
    let repaired = repair(&lab);
    assert!(repaired.moved.is_empty() && repaired.written.is_empty());
    let wrong: Vec<_> = repaired.after.findings.iter().filter(|f| f.severity != Severity::Note).collect();
    assert!(wrong.len() == 1 && wrong[0].remedy == Remedy::Restored, "{wrong:?}");
    assert_eq!(things(&lab.root()), before);
    assert_eq!(lab.drive(None).expect_err("refused").exit_code(), surestep::exit::INTEGRITY);
    // So is a session without a folder.
    std::fs::rename(lab.root().join("sessions/s"), lab.dir.path().join("s")).expect("moved");
    let found = check::check(&lab.root(), None, &lab.options()).expect("it can be looked at").findings;
    assert!(found.iter().any(|f| f.remedy == Remedy::Restored), "{found:?}");
}

#[test]
fn a_dry_run_says_the_same_and_changes_nothing() {
    let lab = Lab::finished();
    std::fs::write(lab.commit(3), "{").expect("written");
    let before = things(&lab.root());
    let options = Options { dry_run: true, open: lab.options(), now: SystemClock::default().now() };
    let said = repair::repair(&lab.root(), Some(&session()), &options).expect("it says");
    assert_eq!(things(&lab.root()), before);
    assert!(!lab.root().join("aside").exists());
    let done = repair(&lab);
    let from = |r: &Repaired| r.moved.iter().map(|m| m.from.clone()).collect::<Vec<_>>();
    assert_eq!(from(&said), from(&done));
    assert_eq!(said.written, done.written);
    assert_eq!(from(&done).len(), 4);
    let folder = done.folder.expect("a folder");
    assert!(folder.join("plan-1.json").exists() && folder.join("report.json").exists());
}

#[test]
fn a_newer_commit_and_a_held_session_are_left_alone() {
    let lab = Lab::finished();
    let newer = std::fs::read_to_string(lab.commit(6)).expect("read").replace("commit/1", "commit/2");
    std::fs::write(lab.commit(6), newer).expect("written");
    std::fs::write(lab.commit(3), "{").expect("written");
    let before = things(&lab.root());
    let repaired = repair(&lab);
    assert_eq!(repaired.refused.len(), 1);
    assert_eq!(repaired.refused[0].exit, surestep::exit::VERSION);
    assert_eq!(things(&lab.root()), before);

    let lab = Lab::finished();
    std::fs::write(lab.commit(3), "{").expect("written");
    let lock = std::fs::File::open(lab.root().join("sessions/s/lock")).expect("the lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let before = things(&lab.root());
    let repaired = repair(&lab);
    assert_eq!(repaired.refused[0].exit, surestep::exit::HELD);
    assert_eq!(things(&lab.root()), before);
}

#[test]
fn content_is_checked_by_its_digest_and_only_put_back_by_a_person() {
    let lab = Lab::finished();
    let find = || check::check(&lab.root(), None, &lab.options()).expect("it can be looked at");
    let whole = find();
    assert_eq!((whole.blobs, whole.blobs_unreferenced, whole.findings.len()), (1, 0, 0), "{whole:?}");
    let blobs = lab.root().join("blobs");
    let blob = things(&blobs).into_keys().next().expect("a blob");
    let content = std::fs::read(&blob).expect("read");
    std::fs::write(&blob, b"[]").expect("written");
    let found = find();
    assert_eq!((found.findings.len(), found.blobs), (1, 0));
    assert_eq!((found.findings[0].severity, found.findings[0].remedy), (Severity::Damaged, Remedy::Repair));
    assert_eq!(lab.read().expect_err("it is refused").exit_code(), surestep::exit::INTEGRITY);
    let before = things(&lab.root());
    let repaired = repair(&lab);
    nothing_is_lost(&before, &lab.root(), "a blob");
    let wrong: Vec<_> = repaired.after.findings.iter().filter(|f| f.severity != Severity::Note).collect();
    assert!(wrong.len() == 1 && wrong[0].remedy == Remedy::PutBack && wrong[0].file == blob, "{wrong:?}");
    std::fs::write(&blob, content).expect("put back");
    assert_eq!(find().blobs, 1);
    lab.read().expect("it loads");
    // What no session names is only counted.
    let other = "f".repeat(64);
    std::fs::create_dir(blobs.join("ff")).expect("a folder");
    std::fs::write(blobs.join("ff").join(other), "x").expect("written");
    assert_eq!((find().blobs_unreferenced, find().findings.len()), (1, 1), "and its digest is wrong");
}

#[test]
fn a_session_that_went_to_another_store_is_not_repaired_into_living_here_again() {
    let lab = Lab::finished();
    let to = "0123456789abcdef0123456789abcdef";
    lab.hand_off(to);
    let last = things(&lab.journal()).into_keys().next_back().expect("a commit");
    let text = std::fs::read(&last).expect("read");
    assert!(String::from_utf8_lossy(&text).contains("handed_off"));
    for at in [10, text.len() / 2, text.len() - 3] {
        let mut flipped = text.clone();
        flipped[at] ^= 1;
        std::fs::write(&last, flipped).expect("written");
        let before = things(&lab.root());
        let repaired = repair(&lab);
        assert_eq!(repaired.refused.len(), 1, "{at}: {repaired:?}");
        assert!(repaired.refused[0].why.contains("went to another store"), "{:?}", repaired.refused);
        assert_eq!(things(&lab.root()), before);
    }
}
