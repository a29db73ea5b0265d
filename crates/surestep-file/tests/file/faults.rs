//! Each call on the disk fails once, with and without being carried out, and the answer must be right.

use surestep::{Blob, Commit, Hold, PublishError, Revision, SessionId, Store, StoreError};
use surestep_file::FileStore;

use crate::support::{Event, Fault, FaultDisk, commit, commit_file, id, open, temps};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[derive(Debug, Clone, Copy)]
struct Scene {
    revision: u64,
    reserved: bool,
    blob: bool,
}

struct Stage {
    _dir: tempfile::TempDir,
    disk: FaultDisk,
    store: FileStore<FaultDisk>,
    session: SessionId,
    hold: Hold,
    next: Commit,
    blobs: Vec<Blob>,
}

async fn stage(scene: Scene) -> Stage {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultDisk::default();
    let store = disk.open(dir.path()).unwrap();
    let session = id("faulty");
    let hold = store.hold(&session).await.unwrap();
    for revision in 1..scene.revision {
        store.publish(&hold, &commit(&session, revision), &[]).await.unwrap();
    }
    if scene.reserved {
        store.reserve(&hold, 4096).await.unwrap();
    }
    let blobs = if scene.blob { vec![Blob::of(vec![3; 9000])] } else { Vec::new() };
    let next = commit(&session, scene.revision);
    Stage { _dir: dir, disk, store, session, hold, next, blobs }
}

impl Stage {
    async fn publish(&self) -> Result<(), PublishError> {
        self.store.publish(&self.hold, &self.next, &self.blobs).await
    }

    /// What is acknowledged must be durable, by the journal of all calls since the fault was set.
    fn check_acknowledged(&self, events: &str) {
        let file = commit_file(&self.store, &self.session, self.next.revision().value());
        assert_eq!(std::fs::read(&file).unwrap(), self.next.text().as_bytes(), "{events}");
        assert!(self.disk.is_durable(&file), "acknowledged and not durable: {events}");
        assert_eq!(std::fs::read(self.store.session_dir(&self.session).join("lock")).unwrap(), b"born   \n");
        for blob in &self.blobs {
            let hex = blob.digest.hex();
            let file = self.store.root().join("blobs").join(&hex[..2]).join(&hex);
            assert!(self.disk.is_durable(&file), "a blob is not durable: {events}");
        }
    }

    /// Whatever happened: the session goes on, and another process sees the same.
    async fn check_goes_on(self, seen: u64, events: &str) {
        let Self { store, session, hold, next, .. } = &self;
        let revision = next.revision().value();
        if seen < revision {
            self.publish().await.unwrap_or_else(|error| panic!("{error:?} after {events}"));
        }
        store.publish(hold, &commit(session, revision + 1), &[]).await.unwrap();
        let root = store.root().to_owned();
        let Self { _dir, store, session, hold, .. } = self;
        drop((hold, store));
        let other = open(&root);
        let read = other.read(&session, Revision::NONE).await.unwrap();
        assert_eq!(read.commits, (1..=revision + 1).map(|n| commit(&session, n)).collect::<Vec<_>>());
        drop(other.hold(&session).await.unwrap());
        let below = temps(&root.join("sessions"));
        assert!(below.is_empty(), "{below:?}");
    }
}

fn shown(events: &[Event]) -> String {
    let name = |e: &Event| e.path.as_ref().and_then(|p| p.file_name()?.to_str().map(str::to_owned));
    let one =
        |e: &Event| format!("{}{}({}) ", if e.ok { "" } else { "!" }, e.call, name(e).unwrap_or_default());
    events.iter().map(one).collect()
}

/// After *nobody knows*: what a reload says is durable, whichever way it says.
async fn reload(stage: &Stage) -> Result<u64, StoreError> {
    match stage.store.read(&stage.session, Revision::NONE).await {
        Ok(journal) => Ok(journal.commits.len() as u64),
        Err(StoreError::Absent { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

#[tokio::test]
async fn whichever_call_of_a_publish_fails_the_answer_is_right() {
    let mut answers = [0; 3];
    for (revision, reserved, blob) in
        [(1, false, false), (1, true, true), (2, false, false), (2, true, false), (2, false, true)]
    {
        let scene = Scene { revision, reserved, blob };
        let control = stage(scene).await;
        control.disk.arm(None);
        control.publish().await.unwrap();
        let calls = control.disk.events().len();
        control.check_acknowledged("control");
        for at in 0..calls {
            for (errno, done) in [(EIO, false), (EIO, true), (ENOSPC, false)] {
                let stage = stage(scene).await;
                stage.disk.arm(Some(Fault { at, errno, done, every: None }));
                let published = stage.publish().await;
                stage.disk.disarm();
                let events = format!("{scene:?} {at} {errno} {done}: {}", shown(&stage.disk.events()));
                let file = commit_file(&stage.store, &stage.session, revision);
                match published {
                    Ok(()) => {
                        answers[0] += 1;
                        stage.check_acknowledged(&events);
                        stage.check_goes_on(revision, &events).await;
                    }
                    Err(PublishError::NotCommitted(_)) => {
                        answers[1] += 1;
                        assert!(!file.exists(), "{events}");
                        stage.check_goes_on(revision - 1, &events).await;
                    }
                    Err(PublishError::Indeterminate(_)) => {
                        answers[2] += 1;
                        let seen = reload(&stage).await.unwrap();
                        if seen == revision {
                            stage.check_acknowledged(&events);
                        }
                        stage.check_goes_on(seen, &events).await;
                    }
                    Err(other) => panic!("{other:?}: {events}"),
                }
            }
        }
    }
    assert!(answers.iter().all(|&n| n > 10), "each answer was given: {answers:?}");
}

#[tokio::test]
async fn a_reload_that_fails_too_is_repeated_and_nothing_is_reported_before_it_is_durable() {
    for revision in [1, 2] {
        let scene = Scene { revision, reserved: true, blob: false };
        let (mut at, mut faults) = (0, 0);
        loop {
            let stage = stage(scene).await;
            // The name is there, and its directory could not be synced.
            stage.disk.arm(Some(Fault { at: 0, errno: EIO, done: false, every: Some("sync_dir") }));
            assert!(matches!(stage.publish().await, Err(PublishError::Indeterminate(_))));
            stage.disk.arm(Some(Fault { at, errno: EIO, done: false, every: None }));
            let read = reload(&stage).await;
            let hit = stage.disk.events().len() > at;
            let events = format!("{at}: {}", shown(&stage.disk.events()));
            stage.disk.disarm();
            match read {
                Ok(seen) => assert_eq!(seen, revision, "{events}"),
                Err(_) => {
                    faults += 1;
                    // A publish must not slip past it either: it settles first, and finds the name taken.
                    let again = stage.publish().await;
                    assert!(matches!(again, Err(PublishError::Taken { .. })), "{again:?} {events}");
                }
            }
            stage.check_acknowledged(&events);
            stage.check_goes_on(revision, &events).await;
            if !hit {
                break;
            }
            at += 1;
        }
        assert!(faults > 5, "{faults}");
    }
}

#[tokio::test]
async fn a_file_whose_sync_failed_is_never_synced_again_and_two_are_tried() {
    let stage = stage(Scene { revision: 2, reserved: false, blob: false }).await;
    stage.disk.arm(Some(Fault { at: 0, errno: EIO, done: false, every: Some("sync") }));
    let refused = stage.publish().await.unwrap_err();
    let PublishError::NotCommitted(StoreError::Io { source, path, .. }) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(source.raw_os_error(), Some(EIO));
    assert!(path.starts_with(stage.store.session_dir(&stage.session)));
    let syncs: Vec<_> = stage.disk.events().into_iter().filter(|e| e.call == "sync").collect();
    assert_eq!(syncs.len(), 2);
    assert_ne!(syncs[0].inode, syncs[1].inode);
    stage.disk.disarm();
    stage.check_goes_on(1, "sync").await;
}

#[tokio::test]
async fn a_write_that_lost_bytes_is_found_before_the_rename() {
    for reserved in [false, true] {
        let stage = stage(Scene { revision: 2, reserved, blob: false }).await;
        stage.disk.cut_next_write();
        assert_eq!(stage.publish().await.is_err(), !reserved);
        if reserved {
            // Within reserved room the length says nothing: the commit's own sum finds it.
            let read = stage.store.read(&stage.session, Revision::NONE).await;
            assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
        } else {
            stage.check_goes_on(1, "a short write").await;
        }
    }
}

#[tokio::test]
async fn a_blob_that_was_there_before_is_durable_before_the_commit_that_names_it() {
    let stage = stage(Scene { revision: 2, reserved: false, blob: true }).await;
    let other = id("another");
    let hold = stage.store.hold(&other).await.unwrap();
    stage.store.publish(&hold, &commit(&other, 1), &stage.blobs).await.unwrap();
    stage.disk.arm(None);
    stage.publish().await.unwrap();
    stage.check_acknowledged(&shown(&stage.disk.events()));
}

#[tokio::test]
async fn what_a_reader_reports_is_durable() {
    let stage = stage(Scene { revision: 2, reserved: false, blob: false }).await;
    stage.disk.arm(None);
    stage.store.read(&stage.session, Revision::NONE).await.unwrap();
    let events = stage.disk.events();
    let journal = stage.store.session_dir(&stage.session).join("journal");
    let last_look = events
        .iter()
        .rposition(|e| e.path.as_ref().is_some_and(|p| p.starts_with(&journal) && e.call == "read"));
    let synced = events.iter().rposition(|e| e.call == "sync_dir" && e.ok);
    assert!(last_look.is_some() && last_look < synced, "{}", shown(&events));
    stage.disk.arm(Some(Fault { at: 0, errno: EIO, done: false, every: Some("sync_dir") }));
    assert!(stage.store.read(&stage.session, Revision::NONE).await.is_err());
}

#[tokio::test]
async fn whichever_call_of_open_hold_or_keeping_fails_it_says_so_and_works_the_next_time() {
    for part in ["open", "hold", "hold again", "late", "request"] {
        let (mut at, mut faults) = (0, 0);
        loop {
            let dir = tempfile::tempdir().unwrap();
            let disk = FaultDisk::default();
            let session = id("parts");
            let fault = Some(Fault { at, errno: EIO, done: at % 2 == 1, every: None });
            let store = if part == "open" {
                disk.arm(fault);
                let opened = disk.open(dir.path());
                if opened.is_err() {
                    faults += 1;
                    disk.disarm();
                }
                opened.unwrap_or_else(|_| disk.open(dir.path()).unwrap())
            } else {
                disk.open(dir.path()).unwrap()
            };
            if part != "open" && part != "hold" {
                let hold = store.hold(&session).await.unwrap();
                store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
            }
            if part != "open" {
                disk.arm(fault);
            }
            let failed = match part {
                "hold" | "hold again" => store.hold(&session).await.is_err(),
                "late" => store.keep_late(&session, &crate::guards::landed_late()).await.is_err(),
                "request" => store.request(&session, &crate::guards::cancel("r")).await.is_err(),
                _ => false,
            };
            let hit = disk.events().len() > at;
            disk.disarm();
            faults += usize::from(failed);
            match part {
                "late" if failed => store.keep_late(&session, &crate::guards::landed_late()).await.unwrap(),
                "request" => store.request(&session, &crate::guards::cancel("r")).await.unwrap(),
                _ => {}
            }
            let hold = store.hold(&session).await.unwrap_or_else(|e| panic!("{part} {at}: {e:?}"));
            let last = store.read(&session, Revision::NONE).await.map_or(0, |journal| {
                assert!(part != "late" || !journal.late.is_empty());
                assert!(part != "request" || journal.requests.len() == 1);
                journal.commits.len() as u64
            });
            store.publish(&hold, &commit(&session, last + 1), &[]).await.unwrap();
            drop(hold);
            drop(store.hold(&session).await.unwrap());
            assert_eq!(temps(&dir.path().join("sessions")), Vec::<std::path::PathBuf>::new(), "{part} {at}");
            if !hit {
                break;
            }
            at += 1;
        }
        assert!(faults > 3, "{part}: {faults} of {at}");
    }
}
