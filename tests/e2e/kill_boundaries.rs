//! Killed at each durable boundary, alone and in pairs: the test re-executes itself as a worker whose disk kills
//! the process right before or after its k-th call that changes the file system.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use surestep::{Engine, Envelope, Plan, SessionId, Tuning, Wait};
use surestep_effects::guard::Guard;
use surestep_file::{Disk, FileStore, Identity, RealDisk, Stat};

use crate::harness::{End, Scratch, commits, surestep, workspace};

/// Counts the calls that change the file system, and kills its own process at one of them.
pub(crate) struct KillDisk {
    pub(crate) real: RealDisk,
    pub(crate) count: Arc<AtomicUsize>,
    /// Dies before this call (counted from 1) is made.
    pub(crate) at: usize,
    /// Counts only what makes or publishes a commit's durability, not its preparation.
    pub(crate) boundaries_only: bool,
    pub(crate) log: Option<PathBuf>,
}

impl KillDisk {
    fn call(&self, name: &str, boundary: bool) {
        if self.boundaries_only && !boundary {
            return;
        }
        let n = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(log) = &self.log {
            use io::Write as _;
            let file = std::fs::OpenOptions::new().append(true).create(true).open(log);
            let _ = file.and_then(|mut f| writeln!(f, "{n} {name}"));
        }
        if n == self.at {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            loop {
                std::thread::park();
            }
        }
    }
}

impl Disk for KillDisk {
    type File = <RealDisk as Disk>::File;
    fn create_new(&self, path: &Path) -> io::Result<Self::File> {
        self.call("create", false);
        self.real.create_new(path)
    }
    fn write(&self, file: &Self::File, bytes: &[u8]) -> io::Result<()> {
        self.call("write", false);
        self.real.write(file, bytes)
    }
    fn len(&self, file: &Self::File) -> io::Result<u64> {
        self.real.len(file)
    }
    fn sync(&self, file: &Self::File) -> io::Result<()> {
        self.call("sync", true);
        self.real.sync(file)
    }
    fn allocate(&self, file: &Self::File, bytes: u64) -> io::Result<()> {
        self.call("allocate", false);
        self.real.allocate(file, bytes)
    }
    fn truncate(&self, file: &Self::File, bytes: u64) -> io::Result<()> {
        self.call("truncate", false);
        self.real.truncate(file, bytes)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", true);
        self.real.rename_new(from, to)
    }
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("replace", true);
        self.real.replace(from, to)
    }
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        RealDisk.exchange(one, other)
    }
    fn open_dir(&self, path: &Path) -> io::Result<Self::File> {
        self.real.open_dir(path)
    }
    fn sync_dir(&self, dir: &Self::File) -> io::Result<()> {
        self.call("sync_dir", true);
        self.real.sync_dir(dir)
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.call("make_dir", false);
        self.real.make_dir(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.real.read(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.real.list(path)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.real.stat(path)
    }
    fn open(&self, path: &Path) -> io::Result<Self::File> {
        self.real.open(path)
    }
    fn try_lock(&self, file: &Self::File) -> io::Result<bool> {
        self.real.try_lock(file)
    }
    fn try_lock_shared(&self, file: &Self::File) -> io::Result<bool> {
        self.real.try_lock_shared(file)
    }
    fn identity(&self, file: &Self::File) -> io::Result<Identity> {
        self.real.identity(file)
    }
    fn share(&self, file: &Self::File) -> io::Result<Option<std::fs::File>> {
        self.real.share(file)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove", false);
        self.real.remove(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call("remove_dir", false);
        self.real.remove_dir(path)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.real.canonical(path)
    }
    fn volatile(&self, path: &Path) -> io::Result<Option<String>> {
        self.real.volatile(path)
    }
}

/// The worker: not a test of its own, it does nothing unless it is told to.
#[test]
fn worker() {
    let Ok(plan) = std::env::var("SURESTEP_E2E_PLAN") else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let disk = KillDisk {
        real: RealDisk,
        count: Arc::default(),
        at: number("SURESTEP_E2E_KILL_AT"),
        boundaries_only: number("SURESTEP_E2E_BOUNDARIES") == 1,
        log: std::env::var_os("SURESTEP_E2E_LOG").map(PathBuf::from),
    };
    let store = FileStore::<RealDisk>::options().open_on(disk, ".surestep").expect("the store opens");
    let mut builder = Engine::builder(store).tune_all(Tuning { lag_ms: Some(0), ..Tuning::default() });
    for (effect, recovery) in surestep_effects::builtin(Guard::with_args(surestep(), ["__guard".into()])) {
        builder = builder.register(effect, recovery);
    }
    let engine = builder.build().expect("the engine");
    let plan = Plan::parse(&std::fs::read(plan).expect("the plan")).expect("a plan");
    let session: SessionId = plan.session.clone().expect("a session");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let wait = Wait { held: true, ..Wait::default() };
    let step =
        runtime.block_on(engine.drive(Envelope::new(session).with_plan(plan), wait)).expect("it steps");
    std::process::exit(i32::from(surestep::exit::of(&step.rest)));
}

fn run_worker(scratch: &Scratch, plan: &str, at: usize, boundaries: bool, log: Option<&str>) -> Option<i32> {
    let mut command = Command::new(std::env::current_exe().expect("the test's own path"));
    command
        .args(["kill_boundaries::worker", "--exact", "--quiet"])
        .current_dir(scratch.path())
        .env("SURESTEP_E2E_PLAN", plan)
        .env("SURESTEP_E2E_KILL_AT", at.to_string())
        .env("SURESTEP_E2E_BOUNDARIES", if boundaries { "1" } else { "0" })
        .env("XDG_STATE_HOME", scratch.state())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(log) = log {
        command.env("SURESTEP_E2E_LOG", log);
    }
    command.status().expect("the worker runs").code()
}

fn control(plan: &str, session: &str, boundaries: bool) -> (usize, End) {
    let scratch = Scratch::new();
    assert_eq!(run_worker(&scratch, plan, 0, boundaries, Some("calls.log")), Some(0));
    let shown = scratch.show(session);
    assert_eq!(commits(&scratch.journal(session)), shown.operations.len() + 1);
    (scratch.lines("calls.log").len(), shown.end())
}

const ALL: &[&str] = &["commit", "push", "requests", "labels", "comments"];

fn sweep(
    cases: Vec<Vec<usize>>,
    plan: &str,
    session: &str,
    boundaries: bool,
    expected: &End,
    landed: &[&str],
) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let scratch = Scratch::new();
                    for at in case {
                        // A later kill may lie behind the end of a shorter re-entry: then it ends.
                        let code = run_worker(&scratch, plan, *at, boundaries, None);
                        assert!(matches!(code, None | Some(0)), "{case:?}: exit {code:?}");
                    }
                    assert_eq!(run_worker(&scratch, plan, 0, boundaries, None), Some(0), "{case:?}");
                    let shown = scratch.show(session);
                    assert_eq!(&shown.end(), expected, "{case:?}");
                    let landings = scratch.landings();
                    assert!(
                        landings.iter().all(|(what, n)| *n == usize::from(landed.contains(what))),
                        "{case:?}: {landings:?}"
                    );
                }
            });
        }
    });
}

#[test]
fn killed_before_each_call_that_changes_the_disk_it_ends_like_the_control() {
    let plan = workspace().join("fixtures/plans/contribute.json");
    let plan = plan.to_str().expect("a plain path");
    let (calls, expected) = control(plan, "contribute", false);
    println!("{calls} calls that change the file system, killed before each");
    sweep((1..=calls).map(|at| vec![at]).collect(), plan, "contribute", false, &expected, ALL);
}

/// A short plan, so that all its pairs are few enough for every CI run: write a file, commit it.
fn short_plan() -> String {
    let text =
        std::fs::read_to_string(workspace().join("fixtures/plans/contribute.json")).expect("the fixture");
    let plan = Plan::parse(text.as_bytes()).expect("a plan");
    let keep = plan.operations.iter().take(2).cloned();
    let short = Plan { operations: keep.collect(), ..plan };
    let dir = workspace().join("target/e2e");
    std::fs::create_dir_all(&dir).expect("a folder under target");
    let path = dir.join("contribute-short.json");
    std::fs::write(&path, serde_json::to_string(&short).expect("JSON")).expect("the plan is written");
    path.to_str().expect("a plain path").to_owned()
}

fn pairs(plan: &str, share: usize, landed: &[&str]) {
    let (boundaries, expected) = control(plan, "contribute", true);
    // A share starts at a random pair, so that every run sees others.
    let offset = crate::harness::random(share as u64) as usize;
    let pairs: Vec<Vec<usize>> = (1..=boundaries)
        .flat_map(|a| (1..=boundaries).map(move |b| vec![a, b]))
        .skip(offset)
        .step_by(share)
        .collect();
    println!("{boundaries} durable boundaries, {} pairs (every {share}, from {offset})", pairs.len());
    sweep(pairs, plan, "contribute", true, &expected, landed);
}

/// Every how many pairs are run: 1 is all of them, which CI does for the short plan and `just kill-sweep` for both.
fn share(default: usize) -> usize {
    std::env::var("SURESTEP_PAIR_SHARE").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

#[test]
fn killed_at_each_pair_of_durable_boundaries_it_ends_like_the_control() {
    pairs(&short_plan(), share(12), &["commit"]);
}

#[test]
fn killed_at_pairs_of_durable_boundaries_the_contribution_ends_like_the_control() {
    let plan = workspace().join("fixtures/plans/contribute.json");
    let every = if std::env::var_os("SURESTEP_ALL_PAIRS").is_some() { 1 } else { 12 };
    pairs(plan.to_str().expect("a plain path"), share(12) * every, ALL);
}
