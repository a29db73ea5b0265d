//! Files that are damaged, foreign or not files; roots that are odd; file systems that do not keep their word.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use surestep::{Page, Revision, SessionId, Store, StoreError};
use surestep_file::FileStore;

use crate::support::{commit, commit_file, id, open, options, store};

async fn three(store: &FileStore, session: &SessionId) {
    let hold = store.hold(session).await.unwrap();
    for revision in 1..=3 {
        store.publish(&hold, &commit(session, revision), &[]).await.unwrap();
    }
}

async fn corrupt_at(store: &FileStore, session: &SessionId, file: &Path) -> (usize, String) {
    let read = tokio::time::timeout(Duration::from_secs(5), store.read(session, Revision::NONE));
    let error = read.await.expect("it hangs").unwrap_err();
    let StoreError::Corrupt { file: at, offset, why } = error else { panic!("{error:?}") };
    assert_eq!(at, file);
    (offset, why)
}

#[tokio::test]
async fn a_damaged_commit_is_named_with_its_place_and_not_touched() {
    let (_dir, store) = store();
    let session = id("damage");
    three(&store, &session).await;
    let file = commit_file(&store, &session, 2);
    let whole = std::fs::read_to_string(&file).unwrap();
    let end = whole.len();
    let cases = [
        (String::new(), 0, "empty"),
        (whole[..end - 9].to_owned(), end - 9, "too early"),
        (format!("{whole}\n"), end, "canonical"),
        (format!("{whole}{whole}"), end, "after the end"),
        ("\0".repeat(end), 0, "NUL"),
        (whole.replace("task 2", "task 9"), 0, "digest"),
        (std::fs::read_to_string(commit_file(&store, &session, 3)).unwrap(), 0, "commit 3, not 2"),
    ];
    for (damage, offset, why) in cases {
        std::fs::write(&file, &damage).unwrap();
        let found = corrupt_at(&store, &session, &file).await;
        assert!(found.0 == offset && found.1.contains(why), "{found:?}, not {offset} {why}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), damage);
    }
    std::fs::write(&file, whole.replace("commit/1", "commit/2")).unwrap();
    assert!(matches!(store.read(&session, Revision::NONE).await, Err(StoreError::TooNew { .. })));
    std::fs::remove_file(&file).unwrap();
    assert!(corrupt_at(&store, &session, &file).await.1.contains("missing"));
    assert!(matches!(store.hold(&session).await, Err(StoreError::Corrupt { file: at, .. }) if at == file));
}

#[tokio::test]
async fn what_is_not_a_regular_file_is_refused_without_following_or_hanging() {
    let (dir, store) = store();
    let session = id("odd");
    three(&store, &session).await;
    let file = commit_file(&store, &session, 3);
    let elsewhere = dir.path().join("elsewhere");
    std::fs::rename(&file, &elsewhere).unwrap();

    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert!(corrupt_at(&store, &session, &file).await.1.contains("FIFO"));
    std::fs::remove_file(&file).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert!(corrupt_at(&store, &session, &file).await.1.contains("link"));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert!(corrupt_at(&store, &session, &file).await.1.contains("directory"));
    // It is not overwritten either, though it is damage: without a mark of it only the name is looked at.
    assert!(matches!(store.hold(&session).await, Err(StoreError::Corrupt { .. })));
    let unmarked = options(dir.path()).marks(None).open(dir.path()).unwrap();
    let hold = unmarked.hold(&session).await.unwrap();
    assert!(unmarked.publish(&hold, &commit(&session, 3), &[]).await.is_err());
    drop(hold);
    std::fs::remove_dir(&file).unwrap();
    std::fs::rename(&elsewhere, &file).unwrap();

    let lock = store.session_dir(&session).join("lock");
    std::fs::remove_file(&lock).unwrap();
    assert!(Command::new("mkfifo").arg(&lock).status().unwrap().success());
    let held = tokio::time::timeout(Duration::from_secs(5), store.hold(&session)).await.expect("it hangs");
    assert!(matches!(held, Err(StoreError::Corrupt { .. })), "{held:?}");
}

#[tokio::test]
async fn foreign_files_are_left_alone() {
    let (_dir, store) = store();
    let session = id("foreign");
    three(&store, &session).await;
    let journal = store.session_dir(&session).join("journal");
    let names = ["notes.txt", "00000002.json~", ".00000009.json.swp", "9.json", "000000004.json", "core"];
    for name in names {
        std::fs::write(journal.join(name), "not ours").unwrap();
    }
    std::fs::write(journal.join(".tmp-0123"), "half a commit").unwrap();
    assert_eq!(store.read(&session, Revision::NONE).await.unwrap().commits.len(), 3);
    let hold = store.hold(&session).await.unwrap();
    store.publish(&hold, &commit(&session, 4), &[]).await.unwrap();
    assert!(names.iter().all(|name| journal.join(name).exists()));
    assert!(!journal.join(".tmp-0123").exists());
}

#[tokio::test]
async fn a_session_under_another_ones_name_is_refused() {
    let (_dir, store) = store();
    for name in ["a/b", "alpha"] {
        three(&store, &id(name)).await;
    }
    let copied = |from: &str, to: &str| {
        let (from, to) = (store.session_dir(&id(from)), store.session_dir(&id(to)));
        assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
    };
    copied("a/b", "a_b");
    copied("alpha", "Alpha");
    for copy in ["a_b", "Alpha"] {
        let (_, why) = corrupt_at(&store, &id(copy), &commit_file(&store, &id(copy), 1)).await;
        assert!(why.contains("belongs to session"), "{why}");
    }
    let listed = store.sessions(Page { after: None, limit: 10 }).await.unwrap();
    assert_eq!(listed.nameless.len(), 1, "one that cannot be told is not passed over");
    assert_eq!(listed.sessions, [id("a/b"), id("a_b"), id("alpha")], "and hides no other one");
    assert!(store.read(&id("a/b"), Revision::NONE).await.is_ok());
}

#[tokio::test]
async fn a_session_folder_that_leads_out_of_the_root_is_refused() {
    let (dir, store) = store();
    let session = id("link");
    three(&store, &session).await;
    let aside = dir.path().join("aside");
    std::fs::rename(store.session_dir(&session), &aside).unwrap();
    symlink(&aside, store.session_dir(&session)).unwrap();
    assert!(matches!(store.read(&session, Revision::NONE).await, Err(StoreError::Corrupt { .. })));
    assert!(matches!(store.hold(&session).await, Err(StoreError::Corrupt { .. })));
}

#[tokio::test]
async fn a_store_knows_itself_and_refuses_another_format() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("deep/er/turns");
    let absent = FileStore::options().allow_volatile(true).create(false).open(&root);
    assert!(matches!(absent, Err(StoreError::Absent { .. })));
    assert!(!dir.path().join("deep").exists());
    let store = open(&root);
    let file = root.join("surestep.json");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        format!(r#"{{"format":"surestep.store/1","id":"{}"}}"#, store.id())
    );
    symlink(&root, dir.path().join("link")).unwrap();
    let linked = open(&dir.path().join("link"));
    assert_eq!((linked.id(), linked.root()), (store.id(), store.root()));
    three(&store, &id("s")).await;

    let whole = std::fs::read_to_string(&file).unwrap();
    let again = || FileStore::options().allow_volatile(true).open(&root);
    // A newer version may have changed every other field: its number is looked at first.
    for newer in ["store/2", "store/4294967296"].map(|new| whole.replace("store/1", new)) {
        for text in [newer.replace("\"id\"", "\"ids\""), newer] {
            std::fs::write(&file, &text).unwrap();
            assert!(matches!(again(), Err(StoreError::TooNew { .. })), "{text}");
        }
    }
    let other = ["store/+1", "store/01", "store/0"].map(|other| whole.replace("store/1", other));
    for damage in ["", "{}", "[]", &whole[..20], &whole.replace("surestep", "other")]
        .into_iter()
        .chain(other.iter().map(String::as_str))
    {
        std::fs::write(&file, damage).unwrap();
        assert!(matches!(again(), Err(StoreError::Corrupt { .. })), "{damage}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(again(), Err(StoreError::Corrupt { .. })), "a store with sessions is never made anew");
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(again().unwrap().id(), store.id());
    std::fs::write(dir.path().join("file"), "").unwrap();
    let not_a_folder = FileStore::options().allow_volatile(true).open(dir.path().join("file"));
    assert!(not_a_folder.is_err());
}

#[test]
fn memory_is_refused_unless_it_is_named() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return eprintln!("skipped: no /dev/shm") };
    let root = dir.path().join("turns");
    match FileStore::open(&root) {
        Ok(_) => return eprintln!("skipped: /dev/shm is not in memory"),
        Err(error) => {
            assert!(matches!(&error, StoreError::Volatile { kind, .. } if kind.contains("tmpfs")), "{error}")
        }
    }
    assert!(!root.exists(), "a refusal makes nothing");
    FileStore::options().allow_volatile(true).open(&root).unwrap();
}
