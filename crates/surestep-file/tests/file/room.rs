//! Room: what is reserved fits on a full disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use surestep::{PublishError, Revision, Store, StoreError};

use crate::support::{Fault, FaultDisk, commit, id, open, temps};

/// A small file system in memory, unmounted at the end.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, options: &str) -> Option<Self> {
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "surestep-test"]).arg(at).output();
        done.is_ok_and(|out| out.status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Takes all the room there is.
fn fill(dir: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(dir.join("filler")).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

#[tokio::test]
async fn a_reserved_settle_fits_on_a_full_disk_and_nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = Small::mount(dir.path(), "size=2m") else {
        return eprintln!("skipped: no right to mount a small file system");
    };
    let store = open(&dir.path().join("turns"));
    let session = id("full");
    let hold = store.hold(&session).await.unwrap();
    store.reserve(&hold, 64 << 10).await.unwrap();
    fill(dir.path());
    store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
    let more = store.reserve(&hold, 512 << 10).await;
    assert!(matches!(more, Err(StoreError::Full { .. })), "{more:?}");
    let big = surestep::Blob::of(vec![1; 1 << 20]);
    let refused = store.publish(&hold, &commit(&session, 2), &[big]).await;
    assert!(matches!(refused, Err(PublishError::NotCommitted(StoreError::Full { .. }))), "{refused:?}");
    store.publish(&hold, &commit(&session, 2), &[]).await.unwrap();
    assert_eq!(store.read(&session, Revision::NONE).await.unwrap().commits.len(), 2);
    std::fs::remove_file(dir.path().join("filler")).unwrap();
    store.reserve(&hold, 512 << 10).await.unwrap();
    drop(hold);
    assert_eq!(temps(dir.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn what_stands_in_the_way_of_room_is_said_and_what_is_reserved_stays() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultDisk::default();
    let store = disk.open(dir.path()).unwrap();
    let session = id("errno");
    let hold = store.hold(&session).await.unwrap();
    // ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM; EIO, EROFS
    for (errno, full) in
        [(28, true), (122, true), (24, true), (23, true), (12, true), (5, false), (30, false)]
    {
        for call in ["create", "allocate"] {
            disk.arm(Some(Fault { at: 0, errno, done: false, every: Some(call) }));
            let refused = store.reserve(&hold, 4096).await.unwrap_err();
            assert_eq!(matches!(refused, StoreError::Full { .. }), full, "{errno} {call} {refused:?}");
            assert_eq!(matches!(refused, StoreError::Io { .. }), !full, "{errno} {call} {refused:?}");
            assert!(refused.to_string().contains("journal"), "the path: {refused}");
        }
    }
    disk.disarm();
    store.reserve(&hold, 4096).await.unwrap();
    disk.arm(Some(Fault { at: 0, errno: 28, done: false, every: Some("allocate") }));
    store.reserve(&hold, 4096).await.unwrap();
    assert!(disk.events().is_empty(), "what is reserved is not reserved again");
    assert!(store.reserve(&hold, 8192).await.is_err());
    let mut lengths: Vec<_> = temps(dir.path()).iter().map(|p| std::fs::metadata(p).unwrap().len()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [4096, 4096]);
    disk.disarm();
    disk.arm(Some(Fault { at: 0, errno: 28, done: false, every: Some("create") }));
    store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
    store.publish(&hold, &commit(&session, 2), &[]).await.unwrap();
}
