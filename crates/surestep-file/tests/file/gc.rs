//! Sealing, pruning and removing content: planned, killed at every call, and beside runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use surestep::{
    Attempt, Effect, Engine, Envelope, Evidence, Fault as Said, Kind, OpNumber, Outcome, Plan, Planned,
    Receipt, Recovery, Rest, Revision, SessionId, Step, StepError, Store, StoreError, Terms, Wall,
};
use surestep_file::{Disk, FileStore, GcError, GcPlan};

use crate::support::{Fault, FaultDisk, all_below, id, open, options};

const DAY: Duration = Duration::from_secs(86_400);

#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Effect for Count {
    fn kind(&self) -> Kind {
        Kind::new("count").unwrap()
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Said> {
        Ok(Terms::remote(30_000, 0))
    }
    async fn execute(&self, _: &Attempt) -> Result<Outcome, Said> {
        Ok(Outcome::landed(format!("r-{}", self.0.fetch_add(1, Ordering::SeqCst))))
    }
}

fn plan(turn: u32, said: &str, operations: usize) -> Plan {
    let operation = |n| format!(r#"{{"kind":"count","repo":"r","target":"t-{n}","body":{{"turn":{turn}}}}}"#);
    let list: Vec<String> = (0..operations).map(operation).collect();
    let text = format!(
        r#"{{"format":"surestep.plan/1","turn":{turn},"verdict":"done","conversation":[{{"role":"user","content":"{said}"}},{{"role":"x","content":1.50}}],"operations":[{}]}}"#,
        list.join(",")
    );
    Plan::parse(text.as_bytes()).unwrap()
}

async fn step<D: Disk>(
    store: &FileStore<D>,
    count: &Count,
    session: &SessionId,
    plan: Option<Plan>,
) -> Result<Step, StepError> {
    let engine = Engine::builder(store.clone()).effect(count.clone(), Recovery::halt()).build().unwrap();
    let mut envelope = Envelope::new(session.clone());
    if let Some(plan) = plan {
        envelope = envelope.with_plan(plan);
    }
    engine.step(envelope).await
}

async fn read<D: Disk>(store: &FileStore<D>, session: &SessionId) -> Result<Envelope, StepError> {
    Engine::builder(store.clone()).build().unwrap().read(session).await
}

/// In so many days from now.
fn in_days(days: u64) -> Wall {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    Wall::from_unix_ms(i64::try_from(now).unwrap()).plus_ms(days * 86_400_000)
}

async fn collect<D: Disk>(store: &FileStore<D>, now: Wall) -> Result<GcPlan, GcError> {
    let plan = store.gc_plan(now, 30 * DAY).await?;
    store.gc_apply(plan.name(), now, 30 * DAY).await?;
    Ok(plan)
}

fn copy(from: &Path, to: &Path) {
    let from = from.join(".");
    assert!(
        std::process::Command::new("cp").arg("-a").args([from, to.to_owned()]).status().unwrap().success()
    );
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = all_below(root).into_iter().filter(|path| path.is_file());
    files.map(|path| (path.strip_prefix(root).unwrap().to_owned(), std::fs::read(&path).unwrap())).collect()
}

fn named(root: &Path, part: &str) -> usize {
    files(root).keys().filter(|path| path.to_str().unwrap().contains(part)).count()
}

#[tokio::test]
async fn a_sealed_session_reads_as_before_gives_its_report_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (store, count, session) = (open(dir.path()), Count::default(), id("a/b"));
    step(&store, &count, &session, Some(plan(1, "one", 3))).await.unwrap();
    let before = read(&store, &session).await.unwrap();
    let made = collect(&store, in_days(0)).await.unwrap();
    assert_eq!((made.seal.len(), made.prune.len(), made.content.len()), (1, 0, 1));
    assert_eq!((named(dir.path(), "/journal/"), named(dir.path(), "blobs/")), (0, 0));
    assert_eq!(read(&store, &session).await.unwrap(), before);
    assert_eq!(store.read(&session, Revision::new(3)).await.unwrap().commits, before.commits()[2..]);
    let again = step(&store, &count, &session, Some(plan(1, "one", 3))).await.unwrap();
    assert!(matches!(again.rest, Rest::Finished(_)));
    assert_eq!(count.0.load(Ordering::SeqCst), 3);
    let listed = store.sessions(surestep::Page { after: None, limit: 9 }).await.unwrap();
    assert_eq!(listed.sessions, std::slice::from_ref(&session));
    assert!(collect(&store, in_days(0)).await.unwrap().is_empty());
    // The next turn stands in the journal, behind what is sealed; and is sealed with it.
    step(&open(dir.path()), &count, &session, Some(plan(2, "two", 2))).await.unwrap();
    assert_eq!((named(dir.path(), "/journal/"), named(dir.path(), "blobs/")), (3, 1));
    let both = read(&open(dir.path()), &session).await.unwrap();
    assert_eq!((both.commits().len(), both.conversation().len()), (before.commits().len() + 3, 4));
    assert_eq!(collect(&store, in_days(0)).await.unwrap().seal.len(), 1);
    assert_eq!(read(&open(dir.path()), &session).await.unwrap(), both);
    assert_eq!((named(dir.path(), "/journal/"), named(dir.path(), "blobs/")), (0, 0));
    // What is sealed is read from there alone, and strictly.
    let file = store.session_dir(&session).join("envelope.json");
    let whole = std::fs::read(&file).unwrap();
    for damage in [&whole[..whole.len() - 1], &[][..], &whole[1..]] {
        std::fs::write(&file, damage).unwrap();
        assert!(matches!(store.read(&session, Revision::FIRST).await, Err(StoreError::Corrupt { .. })));
        assert!(store.hold(&session).await.is_err());
    }
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(store.read(&session, Revision::FIRST).await, Err(StoreError::RolledBack { .. })));
}

/// A store with a session of two turns whose first is sealed, one that is sealed and old, and one that is open.
async fn template(root: &Path, count: &Count) {
    let store = open(root);
    step(&store, count, &id("old"), Some(plan(1, "old", 2))).await.unwrap();
    step(&store, count, &id("two"), Some(plan(1, "one", 2))).await.unwrap();
    collect(&store, in_days(0)).await.unwrap();
    step(&store, count, &id("two"), Some(plan(2, "two", 2))).await.unwrap();
    step(&store, count, &id("new"), None).await.unwrap();
}

#[tokio::test]
async fn killed_at_every_call_of_a_collection_each_session_is_whole_or_pruned() {
    let first = tempfile::tempdir().unwrap();
    let count = Count::default();
    template(first.path(), &count).await;
    let calls = count.0.load(Ordering::SeqCst);
    let control = read(&open(first.path()), &id("two")).await.unwrap();
    let (mut whole, mut gone) = (0, 0);
    for at in 0.. {
        let dir = tempfile::tempdir().unwrap();
        copy(first.path(), dir.path());
        let disk = FaultDisk::default();
        let store = disk.open(dir.path()).unwrap();
        // The copy's own root is noted first, so that each round makes the same calls.
        let now = in_days(31);
        let planned = store.gc_plan(now, 30 * DAY).await.unwrap();
        assert_eq!((planned.seal.len(), planned.prune.len(), planned.content.len()), (1, 1, 1));
        disk.arm(Some(Fault { at, errno: 5, done: at % 2 == 1, every: Some("*") }));
        let done = store.gc_apply(planned.name(), now, 30 * DAY).await;
        let made = disk.events().len();
        disk.disarm();
        drop(store);
        let store = open(dir.path());
        assert_eq!(read(&store, &id("two")).await.unwrap(), control, "{at}");
        match read(&store, &id("old")).await {
            Ok(_) => whole += 1,
            Err(StepError::Store { source: StoreError::Pruned { .. }, .. }) => gone += 1,
            Err(other) => panic!("{at}: {other:?}"),
        }
        let _ = step(&store, &count, &id("old"), Some(plan(1, "old", 2))).await;
        assert_eq!(count.0.load(Ordering::SeqCst), calls, "{at}");
        // The next one finishes it, and nothing is left over.
        collect(&store, in_days(0)).await.unwrap();
        assert!(collect(&store, in_days(0)).await.unwrap().is_empty(), "{at}");
        assert_eq!(read(&store, &id("two")).await.unwrap(), control, "{at}");
        assert_eq!(named(dir.path(), "sessions/old") > 0, read(&store, &id("old")).await.is_ok(), "{at}");
        // (In a session's own folder the next hold sweeps.)
        assert_eq!(named(dir.path(), "sessions/.tmp-") + named(dir.path(), "pruned/.tmp-"), 0, "{at}");
        assert_eq!((named(dir.path(), "two/journal/"), named(dir.path(), "blobs/")), (0, 0), "{at}");
        if at >= made && done.is_ok() {
            break;
        }
    }
    assert!(whole > 20 && gone > 10, "{whole} whole, {gone} pruned");
}

#[tokio::test]
async fn a_pruned_session_refuses_everything_and_an_older_copy_of_it_too() {
    let dir = tempfile::tempdir().unwrap();
    let (root, count) = (dir.path().join("store"), Count::default());
    let marked = || options(&root).marks(Some(dir.path().join("state"))).open(&root).unwrap();
    let (store, session) = (marked(), id("s"));
    let hold = store.hold(&session).await.unwrap();
    drop(hold);
    step(&store, &count, &session, Some(plan(1, "one", 2))).await.unwrap();
    collect(&store, in_days(0)).await.unwrap();
    copy(&root, &dir.path().join("copy"));
    std::fs::remove_file(dir.path().join("copy/sessions/s/envelope.json")).unwrap();
    collect(&store, in_days(29)).await.unwrap();
    assert!(read(&store, &session).await.is_ok());
    collect(&store, in_days(31)).await.unwrap();
    let pruned = |error: &StoreError| matches!(error, StoreError::Pruned { revision, .. } if *revision == Revision::new(3));
    for plan in [None, Some(plan(1, "one", 2)), Some(plan(2, "two", 1))] {
        let stepped = step(&store, &count, &session, plan).await;
        assert!(matches!(&stepped, Err(StepError::Store { source, .. }) if pruned(source)), "{stepped:?}");
    }
    assert!(pruned(&store.hold(&session).await.unwrap_err()));
    let evidence = Evidence {
        op: OpNumber::FIRST,
        key: surestep::core::Key::derive(&surestep::core::Seed {
            session: "s",
            kind: "k",
            repo: "r",
            target: "t",
            body: "{}",
            occurrence: 1,
        }),
        attempt: surestep::core::Attempt::FIRST,
        epoch: surestep::Epoch::FIRST,
        observed: Outcome::Landed(Receipt::new("late")),
        ended: None,
    };
    assert!(pruned(&store.keep_late(&session, &evidence).await.unwrap_err()));
    assert!(!store.session_dir(&session).exists(), "nothing is made for it");
    assert!(store.sessions(surestep::Page { after: None, limit: 9 }).await.unwrap().sessions.is_empty());
    assert!(store.vanished().await.unwrap().is_empty());
    // Put back to a time before it was finished: the tombstone is gone, and what is remembered outside is not.
    drop(store);
    std::fs::remove_dir_all(&root).unwrap();
    copy(&dir.path().join("copy"), &root);
    let stepped = step(&marked(), &count, &session, Some(plan(1, "one", 2))).await;
    assert!(
        matches!(&stepped, Err(StepError::Store { source: StoreError::RolledBack { .. }, .. })),
        "{stepped:?}"
    );
    assert_eq!(count.0.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn another_plan_is_refused_and_a_held_session_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let (store, count) = (open(dir.path()), Count::default());
    for session in ["a", "b"] {
        step(&store, &count, &id(session), Some(plan(1, session, 1))).await.unwrap();
    }
    let now = in_days(0);
    let planned = store.gc_plan(now, 30 * DAY).await.unwrap().name();
    step(&store, &count, &id("b"), Some(plan(2, "b", 1))).await.unwrap();
    let before = files(dir.path());
    for (name, retention) in [(planned.clone(), 30), (planned, 31), (String::new(), 30), ("0-0".into(), 30)] {
        let refused = store.gc_apply(name, now, retention * DAY).await;
        assert!(matches!(refused, Err(GcError::Changed { .. })), "{refused:?}");
    }
    assert_eq!(files(dir.path()), before);
    // What finishes after a plan was made is no part of it, and does not stand in its way.
    let now = in_days(0);
    let planned = store.gc_plan(now, 30 * DAY).await.unwrap().name();
    step(&store, &count, &id("c"), Some(plan(1, "c", 1))).await.unwrap();
    assert_eq!(store.gc_plan(now, 30 * DAY).await.unwrap().name(), planned);
    let now = in_days(0);
    let hold = store.hold(&id("b")).await.unwrap();
    let planned = store.gc_plan(now, 30 * DAY).await.unwrap().name();
    let done = store.gc_apply(planned, now, 30 * DAY).await.unwrap();
    assert_eq!((done.sealed, done.left.len()), (2, 1));
    drop(hold);
    // What was said in it was planned to go with its sealing, and has not gone without it.
    assert_eq!(read(&store, &id("b")).await.unwrap().conversation().len(), 4);
    assert_eq!(named(dir.path(), "blobs/"), 1);
}

#[tokio::test]
async fn content_that_two_sessions_name_stays_until_neither_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, count) = (open(dir.path()), Count::default());
    step(&store, &count, &id("a"), Some(plan(1, "same", 1))).await.unwrap();
    collect(&store, in_days(0)).await.unwrap();
    step(&store, &count, &id("b"), Some(plan(1, "same", 1))).await.unwrap();
    step(&store, &count, &id("c"), Some(plan(1, "same", 1))).await.unwrap();
    let hold = store.hold(&id("c")).await.unwrap();
    collect(&store, in_days(0)).await.unwrap();
    drop(hold);
    assert_eq!(named(dir.path(), "blobs/"), 1, "c has no envelope yet");
    for session in ["a", "b", "c"] {
        assert_eq!(read(&store, &id(session)).await.unwrap().conversation().len(), 2, "{session}");
    }
    // A session that cannot be read may name anything.
    std::fs::write(store.session_dir(&id("c")).join("journal/00000001.json"), "{}").unwrap();
    step(&store, &count, &id("d"), Some(plan(1, "more", 1))).await.unwrap();
    let made = collect(&store, in_days(0)).await.unwrap();
    assert_eq!((made.unreadable.len(), made.content.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn beside_runs_a_collection_takes_nothing_that_they_need() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_owned();
    let count = Count::default();
    let (running, sealed) = (Arc::new(AtomicUsize::new(3)), Arc::new(AtomicUsize::new(0)));
    let runs: Vec<_> = (0..3)
        .map(|worker| {
            let (root, count) = (root.clone(), count.clone());
            let (running, sealed) = (running.clone(), sealed.clone());
            tokio::spawn(async move {
                let store = open(&root);
                let mut ran = Vec::new();
                // The same words in every session: the content is there, and on its way out, and there again.
                while sealed.load(Ordering::SeqCst) < 20 && ran.len() < 500 {
                    let session = id(&format!("s-{worker}-{}", ran.len()));
                    step(&store, &count, &session, Some(plan(1, "same", 1))).await.unwrap();
                    ran.push(session);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                ran
            })
        })
        .collect();
    let store = open(&root);
    while running.load(Ordering::SeqCst) > 0 {
        let now = in_days(0);
        let digest = store.gc_plan(now, 30 * DAY).await.unwrap().name();
        if let Ok(done) = store.gc_apply(digest, now, 30 * DAY).await {
            sealed.fetch_add(done.sealed, Ordering::SeqCst);
        }
    }
    let mut all = 0;
    for run in runs {
        for session in run.await.unwrap() {
            assert_eq!(read(&store, &session).await.unwrap().conversation().len(), 2, "{session}");
            all += 1;
        }
    }
    assert_eq!(count.0.load(Ordering::SeqCst), all);
    assert!(sealed.load(Ordering::SeqCst) >= 20, "a collection met the runs");
}
