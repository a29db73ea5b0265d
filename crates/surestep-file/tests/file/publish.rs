//! Publishing and reading, when all goes well and when two want the same revision.

use std::sync::Arc;

use surestep::{Blob, Digest, Page, PublishError, Revision, Store, StoreError};

use crate::support::{Fault, FaultDisk, all_below, commit, commit_file, id, open, options, store, temps};

#[tokio::test]
async fn what_was_published_is_read_again_by_anyone() {
    let (dir, store) = store();
    let session = id("fix-118");
    assert!(matches!(store.read(&session, Revision::NONE).await, Err(StoreError::Absent { .. })));
    let hold = store.hold(&session).await.unwrap();
    assert!(matches!(store.read(&session, Revision::NONE).await, Err(StoreError::Absent { .. })));
    for revision in 1..=3 {
        store.reserve(&hold, 64 << 10).await.unwrap();
        store.publish(&hold, &commit(&session, revision), &[]).await.unwrap();
    }
    let other = open(dir.path());
    assert_eq!(other.id(), store.id());
    let journal = other.read(&session, Revision::NONE).await.unwrap();
    assert_eq!(journal.commits, (1..=3).map(|n| commit(&session, n)).collect::<Vec<_>>());
    let journal = other.read(&session, Revision::new(3)).await.unwrap();
    assert_eq!(journal.commits, [commit(&session, 3)]);
    assert_eq!(
        std::fs::read(commit_file(&store, &session, 2)).unwrap(),
        commit(&session, 2).text().as_bytes()
    );
    drop(hold);
    assert_eq!(temps(dir.path()), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn a_taken_revision_is_taken_and_a_gap_is_never_published() {
    let (_dir, store) = store();
    let session = id("s");
    let hold = store.hold(&session).await.unwrap();
    store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
    let again = store.publish(&hold, &commit(&session, 1), &[]).await;
    assert!(matches!(again, Err(PublishError::Taken { revision }) if revision == Revision::FIRST));
    let gap = store.publish(&hold, &commit(&session, 3), &[]).await;
    assert!(matches!(gap, Err(PublishError::NotCommitted(_))));
    assert!(!commit_file(&store, &session, 3).exists());
    let foreign = store.publish(&hold, &commit(&id("t"), 2), &[]).await;
    assert!(matches!(foreign, Err(PublishError::NotCommitted(_))));
    // Somebody who does not heed the lock: the rename refuses all the same.
    std::fs::write(commit_file(&store, &session, 2), commit(&session, 2).text()).unwrap();
    let raced = store.publish(&hold, &commit(&session, 2), &[]).await;
    assert!(matches!(raced, Err(PublishError::Taken { revision }) if revision == Revision::new(2)));
    store.publish(&hold, &commit(&session, 3), &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_who_publish_one_revision_one_wins() {
    let (_dir, store) = store();
    let session = id("race");
    let hold = store.hold(&session).await.unwrap();
    let (store, hold) = (Arc::new(store), hold);
    let mut all = Vec::new();
    for n in 0..50 {
        let (store, hold, session) = (store.clone(), hold.clone(), session.clone());
        all.push(tokio::spawn(async move {
            let entry = crate::support::opened(&format!("racer {n}"));
            let commit = crate::support::commit_of(&session, 1, None, vec![entry]);
            store.publish(&hold, &commit, &[]).await.map(|()| commit)
        }));
    }
    let mut won = Vec::new();
    for one in all {
        match one.await.unwrap() {
            Ok(commit) => won.push(commit),
            Err(PublishError::Taken { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(won.len(), 1);
    assert_eq!(store.read(&session, Revision::NONE).await.unwrap().commits, won);
}

#[tokio::test]
async fn a_publish_makes_these_calls_once_each_and_in_this_order() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultDisk::default();
    let store = options(dir.path()).marks(None).open_on(disk.clone(), dir.path()).unwrap();
    let session = id("calls");
    let hold = store.hold(&session).await.unwrap();
    let calls = || {
        let looks = ["stat", "identity"]; // is the lock still ours
        disk.events().iter().map(|e| e.call).filter(|call| !looks.contains(call)).collect::<Vec<_>>()
    };
    disk.arm(None);
    store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
    let first = ["create", "write", "len", "sync", "rename_new", "sync_dir", "write", "truncate", "sync"];
    assert_eq!(calls(), first, "the first one writes the birth mark, too");
    disk.arm(None);
    store.publish(&hold, &commit(&session, 2), &[]).await.unwrap();
    assert_eq!(calls(), ["create", "write", "len", "sync", "rename_new", "sync_dir"]);
    assert!(disk.is_durable(&commit_file(&store, &session, 2)));
    store.reserve(&hold, 4096).await.unwrap();
    disk.arm(None);
    store.publish(&hold, &commit(&session, 3), &[]).await.unwrap();
    assert_eq!(calls(), ["write", "truncate", "len", "sync", "rename_new", "sync_dir"], "no new descriptor");
}

#[tokio::test]
async fn a_mark_costs_four_system_calls_and_no_flush_and_comes_after_the_commit_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultDisk::default();
    let store = disk.open(dir.path()).unwrap();
    let session = id("marked");
    let hold = store.hold(&session).await.unwrap();
    store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
    disk.arm(None);
    store.publish(&hold, &commit(&session, 2), &[]).await.unwrap();
    let calls: Vec<_> = disk.events().iter().map(|e| e.call).collect();
    let durable = calls.iter().rposition(|call| *call == "sync_dir").unwrap();
    // And the close of the file, which is not a call of the disk.
    assert_eq!(calls[durable + 1..], ["create", "write", "replace"]);
}

#[tokio::test]
async fn whichever_call_of_a_mark_fails_the_commit_is_acknowledged_and_the_next_one_raises_it() {
    for at in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultDisk::default();
        let store = disk.open(dir.path()).unwrap();
        let session = id("marked");
        let hold = store.hold(&session).await.unwrap();
        disk.arm(None);
        store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
        let events = disk.events();
        let first = events.iter().rposition(|e| e.call == "sync").unwrap() + 1; // the birth mark's
        if first + at >= events.len() {
            assert!(at > 5, "the folders, the root's record and the mark: {at}");
            return;
        }
        drop((hold, store));
        std::fs::remove_dir_all(dir.path().join("sessions")).unwrap();
        std::fs::remove_dir_all(dir.path().join(".state")).unwrap();
        let store = disk.open(dir.path()).unwrap();
        let hold = store.hold(&session).await.unwrap();
        disk.arm(Some(Fault { at: first + at, errno: 5, done: false, every: None }));
        store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
        disk.disarm();
        let told = store.marks_problem().is_some();
        store.publish(&hold, &commit(&session, 2), &[]).await.unwrap();
        drop(hold);
        std::fs::remove_file(commit_file(&store, &session, 2)).unwrap();
        let read = store.read(&session, Revision::NONE).await;
        assert!(matches!(read, Err(StoreError::RolledBack { .. })), "{at} {told} {read:?}");
    }
    panic!("it does not end");
}

#[tokio::test]
async fn blobs_are_there_before_their_commit_and_are_verified() {
    let (dir, store) = store();
    let session = id("blobs");
    let hold = store.hold(&session).await.unwrap();
    let blob = Blob::of(vec![7; 100_000]);
    let digest = blob.digest;
    assert!(matches!(store.blob(&session, &digest).await, Err(StoreError::Absent { .. })));
    store.publish(&hold, &commit(&session, 1), &[blob.clone(), Blob::of(vec![])]).await.unwrap();
    store.publish(&hold, &commit(&session, 2), std::slice::from_ref(&blob)).await.unwrap();
    assert_eq!(store.blob(&session, &digest).await.unwrap(), blob.bytes);
    assert_eq!(store.blob(&session, &Digest::of(b"")).await.unwrap(), b"");

    let lie = Blob { digest: Digest::of(b"x"), bytes: b"y".to_vec() };
    assert!(matches!(
        store.publish(&hold, &commit(&session, 3), &[lie]).await,
        Err(PublishError::NotCommitted(_))
    ));
    let file = all_below(dir.path()).into_iter().find(|p| p.ends_with(digest.hex())).unwrap();
    assert_eq!(file.parent().unwrap().file_name().unwrap().to_str().unwrap(), &digest.hex()[..2]);
    std::fs::write(&file, b"other").unwrap();
    assert!(
        matches!(store.blob(&session, &digest).await, Err(StoreError::Corrupt { file: at, .. }) if at == file)
    );
    assert!(matches!(
        store.publish(&hold, &commit(&session, 3), &[blob]).await,
        Err(PublishError::NotCommitted(StoreError::Corrupt { .. }))
    ));
    assert!(!commit_file(&store, &session, 3).exists());
}

#[tokio::test]
async fn sessions_are_listed_in_the_order_of_their_ids() {
    let (_dir, store) = store();
    let long = "x".repeat(200);
    let mut ids = ["a/b", "a_b", "a:b", "..", "Alpha", "alpha", "a.", "caf\u{e9}", "cafe\u{301}", "~", &long]
        .map(id)
        .to_vec();
    for session in &ids {
        let hold = store.hold(session).await.unwrap();
        store.publish(&hold, &commit(session, 1), &[]).await.unwrap();
        assert_eq!(store.read(session, Revision::NONE).await.unwrap().commits, [commit(session, 1)]);
    }
    drop(store.hold(&id("never-published")).await.unwrap());
    drop(store.hold(&id("NEVER/published")).await.unwrap());
    std::fs::create_dir(store.root().join("sessions/Not Ours")).unwrap();
    ids.sort();
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = store.sessions(Page { after: after.clone(), limit: 4 }).await.unwrap();
        assert!(page.sessions.len() <= 4);
        after = page.sessions.last().cloned().or(after);
        listed.extend(page.sessions);
        if !page.more {
            break;
        }
    }
    assert_eq!(listed, ids);
}
