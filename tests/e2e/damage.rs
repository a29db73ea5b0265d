//! Damaged files: typed refusals, no byte changed, never a fresh start; and what a repair does (acceptance 1).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use surestep::{
    Attempt, Effect, Engine, Envelope, Fault, Finding, Kind, Outcome, Plan, Planned, Reconciler, Recovery,
    SessionId, Step, StepError, Terms, Wait,
};
use surestep_file::{FileStore, Options};

mod commits;
mod documents;
mod files;
mod repair;

/// How long an attempt has: as long as absence takes to be earned after a repair.
const DEADLINE_MS: u64 = 400;

/// The world: which keys landed, in order.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Vec<String>>>, Arc<AtomicBool>);

impl World {
    pub(crate) fn landings(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for key in self.0.lock().expect("the world").iter() {
            *counts.entry(key.clone()).or_default() += 1;
        }
        counts
    }
    /// A world in which the same has landed.
    fn copy(&self) -> Self {
        let lost = AtomicBool::new(self.1.load(Ordering::SeqCst));
        Self(Arc::new(Mutex::new(self.0.lock().expect("the world").clone())), Arc::new(lost))
    }
}

#[async_trait::async_trait]
impl Effect for World {
    fn kind(&self) -> Kind {
        Kind::new("count").expect("a name")
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(DEADLINE_MS, 0))
    }
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        let call = &attempt.call.operation;
        // Its first attempt comes to nothing, and nobody hears of it.
        if call.target == "lost" && !self.1.swap(true, Ordering::SeqCst) {
            return Ok(Outcome::Unknown(Fault::new("reset", "the connection was reset")));
        }
        self.0.lock().expect("the world").push(call.key.to_string());
        Ok(Outcome::landed(call.key.to_string()))
    }
}

#[async_trait::async_trait]
impl Reconciler for World {
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
        let key = attempt.call.operation.key.to_string();
        let landed = self.0.lock().expect("the world").contains(&key);
        Ok(if landed { Finding::Landed(surestep::Receipt::new(key)) } else { Finding::NotLanded })
    }
}

/// A store in a folder of its own, and the world that its effects act on.
pub(crate) struct Lab {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) world: World,
    runtime: tokio::runtime::Runtime,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { dir, world: World::default(), runtime }
    }

    /// Another store with the same files, and the same world.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self { world: self.world.copy(), ..Self::new() };
        copy_tree(self.dir.path(), copy.dir.path());
        copy
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub(crate) fn store(&self) -> FileStore {
        self.options().open(self.root()).expect("the store opens")
    }

    pub(crate) fn options(&self) -> Options {
        FileStore::options().allow_volatile(true).marks(Some(self.dir.path().join("state")))
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root().join("sessions/s/journal")
    }

    pub(crate) fn commit(&self, revision: u64) -> PathBuf {
        self.journal().join(format!("{revision:08}.json"))
    }

    fn engine(&self, recovery: Recovery) -> Engine {
        Engine::builder(self.store()).effect(self.world.clone(), recovery).build().expect("the engine")
    }

    /// Steps until nothing more can be done, for at most ten seconds.
    pub(crate) fn drive(&self, plan: Option<Plan>) -> Result<Step, StepError> {
        self.drive_with(plan, Recovery::ask(self.world.clone()))
    }

    pub(crate) fn drive_with(&self, plan: Option<Plan>, recovery: Recovery) -> Result<Step, StepError> {
        let engine = self.engine(recovery);
        let mut envelope = Envelope::new(session());
        if let Some(plan) = plan {
            envelope = envelope.with_plan(plan);
        }
        let wait = Wait { limit: Some(Duration::from_secs(10)), held: false };
        self.runtime.block_on(engine.drive(envelope, wait))
    }

    pub(crate) fn step(&self, plan: Plan) -> Step {
        let engine = self.engine(Recovery::ask(self.world.clone()));
        self.runtime.block_on(engine.step(Envelope::new(session()).with_plan(plan))).expect("a step")
    }

    pub(crate) fn hand_off(&self, to: &str) {
        let engine = self.engine(Recovery::halt());
        self.runtime.block_on(engine.hand_off(&session(), to)).expect("it goes");
    }

    pub(crate) fn read(&self) -> Result<Envelope, StepError> {
        self.runtime.block_on(self.engine(Recovery::halt()).read(&session()))
    }

    /// A finished turn of five operations: six commits.
    pub(crate) fn finished() -> Self {
        let lab = Self::new();
        let step = lab.drive(Some(plan())).expect("it finishes");
        assert_eq!(step.envelope.session().status(), "completed");
        assert_eq!(step.envelope.session().revision.value(), 6);
        lab
    }
}

pub(crate) fn session() -> SessionId {
    SessionId::new("s").expect("an id")
}

pub(crate) fn plan() -> Plan {
    plan_of(&["1", "2", "3", "4", "5"])
}

pub(crate) fn plan_of(targets: &[&str]) -> Plan {
    let operation = |t: &&str| format!(r#"{{"kind":"count","repo":"r","target":"{t}","body":{{}}}}"#);
    let operations: Vec<String> = targets.iter().map(operation).collect();
    let text = format!(
        r#"{{"format":"surestep.plan/1","verdict":"done","conversation":[{{"role":"user","content":"five"}}],"operations":[{}]}}"#,
        operations.join(",")
    );
    Plan::parse(text.as_bytes()).expect("a plan")
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// What has a path: its inode, and its bytes or what it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Thing {
    inode: u64,
    content: Vec<u8>,
}

/// Everything below a folder that is no folder, by path.
pub(crate) fn things(dir: &Path) -> BTreeMap<PathBuf, Thing> {
    use std::os::unix::fs::MetadataExt as _;
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a folder").flatten() {
        let path = entry.path();
        let meta = path.symlink_metadata().expect("metadata");
        if meta.is_dir() {
            all.extend(things(&path));
        } else {
            let content = if meta.is_file() {
                std::fs::read(&path).expect("bytes")
            } else if meta.is_symlink() {
                std::fs::read_link(&path).expect("a target").into_os_string().into_encoded_bytes()
            } else {
                b"special".to_vec()
            };
            all.insert(path, Thing { inode: meta.ino(), content });
        }
    }
    all
}

/// What was there before is there after: each inode with its bytes. Notes for people and locks' marks are not counted.
#[track_caller]
pub(crate) fn nothing_is_lost(before: &BTreeMap<PathBuf, Thing>, dir: &Path, case: &str) {
    let after: Vec<Thing> = things(dir).into_values().collect();
    for (path, thing) in before.iter().filter(|(path, _)| !path.ends_with("holder.json")) {
        assert!(after.contains(thing), "{case}: {} is gone or changed", path.display());
    }
}
