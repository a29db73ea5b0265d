//! Holding: one at a time, freed by death, lost with the lock file, and what the lock remembers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use surestep::{Hold, PublishError, Revision, Store, StoreError};
use surestep_file::FileStore;

use crate::support::{FaultDisk, all_below, commit, commit_file, id, open, store, unmarked};

const CHILD: &str = "SURESTEP_FILE_TEST_CHILD";

/// Runs `holds::child` of this binary as another process, below a shell that sets the umask to 000.
fn child(root: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new("sh")
        .args(["-c", "umask 000; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "holds::child_that_holds_until_it_is_killed", "--nocapture", "--test-threads=1"])
        .env(CHILD, root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("holding") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "the child ended");
    }
    (child, out)
}

/// Not a test of its own: what the other process does.
#[tokio::test]
async fn child_that_holds_until_it_is_killed() {
    let Some(root) = std::env::var_os(CHILD) else { return };
    let store = open(Path::new(&root));
    let session = id("shared");
    let hold = store.hold(&session).await.unwrap();
    store.publish(&hold, &commit(&session, 1), &[surestep::Blob::of(b"blob".to_vec())]).await.unwrap();
    store.reserve(&hold, 4096).await.unwrap();
    store.keep_late(&session, &crate::guards::landed_late()).await.unwrap();
    store.request(&session, &crate::guards::cancel("r-1")).await.unwrap();
    println!("holding");
    std::io::stdout().flush().unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[tokio::test]
async fn another_process_holds_until_it_is_killed_and_writes_for_its_user_only() {
    let (dir, store) = store();
    let session = id("shared");
    let (mut process, _out) = child(dir.path());
    let busy = store.hold(&session).await.unwrap_err();
    let StoreError::Busy { holder } = &busy else { panic!("{busy:?}") };
    assert!(holder.what.contains(&format!("pid {}", process.id())), "{}", holder.what);
    assert_eq!(store.read(&session, Revision::NONE).await.unwrap().commits.len(), 1, "reading needs no hold");
    for path in all_below(dir.path()) {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        // The store itself was made here, under another umask; what the child made, it made under 000.
        let mode = if meta.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(meta.permissions().mode() & 0o777, mode, "{}", path.display());
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let hold = store.hold(&session).await.unwrap();
    assert!(hold.proof.predecessor_dead);
    store.publish(&hold, &commit(&session, 2), &[]).await.unwrap();
    assert_eq!(crate::support::temps(dir.path()), Vec::<std::path::PathBuf>::new(), "leftovers are swept");
}

#[tokio::test]
async fn two_holders_of_one_process_exclude_each_other_until_the_last_clone_is_gone() {
    let (dir, store) = store();
    let other = open(dir.path());
    let session = id("two");
    let hold = store.hold(&session).await.unwrap();
    let clone = hold.clone();
    for store in [&store, &other] {
        assert!(matches!(store.hold(&session).await, Err(StoreError::Busy { .. })));
    }
    assert!(store.hold(&id("three")).await.is_ok(), "another session is free");
    drop(hold);
    assert!(matches!(other.hold(&session).await, Err(StoreError::Busy { .. })));
    drop(clone);
    let again = other.hold(&session).await.unwrap();
    assert_ne!(again.id, store.hold(&id("three")).await.unwrap().id);
}

#[tokio::test]
async fn a_child_process_that_holds_on_to_the_tether_keeps_the_hold() {
    let (_dir, store) = store();
    let session = id("tether");
    let hold = store.hold(&session).await.unwrap();
    let lock = hold.tether.lock().unwrap().try_clone().unwrap();
    assert_eq!(hold.tether.folder().unwrap(), store.session_dir(&session).join("guards"));
    let mut sleeper = Command::new("sleep").arg("60").stdin(Stdio::from(lock)).spawn().unwrap();
    drop(hold);
    assert!(matches!(store.hold(&session).await, Err(StoreError::Busy { .. })));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(store.hold(&session).await.is_ok());
}

#[tokio::test]
async fn a_hold_whose_lock_file_was_replaced_is_lost() {
    let (_dir, store) = store();
    let session = id("replaced");
    let hold = store.hold(&session).await.unwrap();
    store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
    let lock = store.session_dir(&session).join("lock");
    let lost = |result: Result<(), PublishError>| {
        assert!(matches!(result, Err(PublishError::NotCommitted(StoreError::HoldLost { .. }))), "{result:?}");
    };
    let aside = lock.with_extension("aside");
    std::fs::rename(&lock, &aside).unwrap();
    lost(store.publish(&hold, &commit(&session, 2), &[]).await);
    assert!(matches!(store.hold(&session).await, Err(StoreError::Corrupt { .. })), "a lock is never deleted");
    std::fs::copy(&aside, &lock).unwrap();
    lost(store.publish(&hold, &commit(&session, 2), &[]).await);
    assert!(matches!(store.renew(&hold).await, Err(StoreError::HoldLost { .. })));
    let usurper = store.hold(&session).await.unwrap();
    store.publish(&usurper, &commit(&session, 2), &[]).await.unwrap();
    lost(store.publish(&hold, &commit(&session, 3), &[]).await);
    assert!(!commit_file(&store, &session, 3).exists());
}

#[tokio::test]
async fn a_lock_that_goes_in_the_middle_of_a_publish_stops_it_before_the_rename() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultDisk::default();
    let store = disk.open(dir.path()).unwrap();
    let session = id("middle");
    let hold = store.hold(&session).await.unwrap();
    disk.remove_after_sync(&store.session_dir(&session).join("lock"));
    let lost = store.publish(&hold, &commit(&session, 1), &[]).await;
    assert!(matches!(lost, Err(PublishError::NotCommitted(StoreError::HoldLost { .. }))), "{lost:?}");
    assert!(!commit_file(&store, &session, 1).exists());
    drop(hold);
    assert_eq!(crate::support::temps(dir.path()), Vec::<std::path::PathBuf>::new());
}

async fn published(store: &FileStore, session: &str, revisions: u64) -> Hold {
    let session = id(session);
    let hold = store.hold(&session).await.unwrap();
    for revision in 1..=revisions {
        store.publish(&hold, &commit(&session, revision), &[]).await.unwrap();
    }
    hold
}

#[tokio::test]
async fn a_session_that_was_born_and_lost_its_journal_is_not_a_fresh_one() {
    let (_dir, store) = unmarked();
    let session = id("born");
    let hold = store.hold(&session).await.unwrap();
    let lock = store.session_dir(&session).join("lock");
    assert_eq!(std::fs::read(&lock).unwrap(), b"bearing\n");
    drop(hold);
    drop(published(&store, "born", 2).await);
    assert_eq!(std::fs::read(&lock).unwrap(), b"born   \n");
    for gone in [1, 2] {
        std::fs::remove_file(commit_file(&store, &session, gone)).unwrap();
        let read = store.read(&session, Revision::NONE).await.unwrap_err();
        assert!(matches!(read, StoreError::Corrupt { .. }), "{read:?}");
        assert!(matches!(store.hold(&session).await, Err(StoreError::Corrupt { .. })));
    }
    std::fs::remove_dir_all(store.session_dir(&session).join("journal")).unwrap();
    assert!(matches!(store.hold(&session).await, Err(StoreError::Corrupt { .. })));
    assert!(!store.session_dir(&session).join("journal").exists(), "nothing is made in a damaged session");
}

#[tokio::test]
async fn a_first_publish_that_died_on_the_way_starts_anew_or_goes_on() {
    let (_dir, store) = unmarked();
    let session = id("bearing");
    drop(published(&store, "bearing", 1).await);
    let lock = store.session_dir(&session).join("lock");
    // It died after the rename, before the birth mark.
    std::fs::write(&lock, b"bearing\n").unwrap();
    assert_eq!(store.read(&session, Revision::NONE).await.unwrap().commits.len(), 1);
    drop(store.hold(&session).await.unwrap());
    assert_eq!(std::fs::read(&lock).unwrap(), b"born   \n");
    // It died before the rename.
    std::fs::write(&lock, b"bearing\n").unwrap();
    std::fs::remove_file(commit_file(&store, &session, 1)).unwrap();
    assert!(matches!(store.read(&session, Revision::NONE).await, Err(StoreError::Absent { .. })));
    drop(published(&store, "bearing", 1).await);
    // A torn mark beside a whole journal is written anew; without a journal it is damage.
    std::fs::write(&lock, b"").unwrap();
    drop(store.hold(&session).await.unwrap());
    assert_eq!(std::fs::read(&lock).unwrap(), b"born   \n");
    std::fs::write(&lock, b"boaring\n").unwrap();
    std::fs::remove_file(commit_file(&store, &session, 1)).unwrap();
    assert!(matches!(store.hold(&session).await, Err(StoreError::Corrupt { file, .. }) if file == lock));
}

#[tokio::test]
async fn commits_without_a_lock_are_damage() {
    let (_dir, store) = store();
    let session = id("unlocked");
    drop(published(&store, "unlocked", 1).await);
    let lock = store.session_dir(&session).join("lock");
    std::fs::remove_file(&lock).unwrap();
    assert!(matches!(store.hold(&session).await, Err(StoreError::Corrupt { file, .. }) if file == lock));
    assert!(
        matches!(store.read(&session, Revision::NONE).await, Err(StoreError::Corrupt { file, .. }) if file == lock)
    );
    assert!(!lock.exists());
}
