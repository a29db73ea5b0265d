//! What the tests of the kinds share: a folder with a session's lock, and attempts made by hand.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use surestep::core::{Attempt as Number, BoundOperation, Extra, RecoveryClass};
use surestep::{
    Attempt, Body, Call, Effect, Epoch, Fault, Finding, Key, Kind, Mark, OpNumber, Outcome, Planned,
    Reconciler, Retry, SessionId, Terms, Tether, Wall,
};
use surestep_effects::guard::{Guard, boot_id, since_boot_ms};

/// The guard's real program.
pub(crate) fn guard() -> Guard {
    Guard::new(env!("CARGO_BIN_EXE_surestep-guard"))
}

/// A folder for a test, with a session's lock beside it.
pub(crate) struct Desk {
    /// The plan's folder.
    pub(crate) dir: tempfile::TempDir,
    room: tempfile::TempDir,
    tether: Tether,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let room = tempfile::tempdir().unwrap();
        let lock = File::create(room.path().join("lock")).unwrap();
        lock.lock().unwrap();
        let tether = Tether::new(lock, room.path().to_owned());
        Self { dir: tempfile::tempdir().unwrap(), room, tether }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The record that a guard would write for the first attempt.
    pub(crate) fn record(&self) -> PathBuf {
        self.tether.record(OpNumber::FIRST, Number::FIRST).unwrap()
    }

    /// Lets go of our own share of the lock; children and closures keep theirs.
    pub(crate) fn let_go(&mut self) {
        self.tether = Tether::none();
    }

    /// Whether somebody still holds the session's lock.
    pub(crate) fn is_held(&self) -> bool {
        File::open(self.room.path().join("lock")).unwrap().try_lock().is_err()
    }

    /// Terms of an operation in this folder.
    pub(crate) fn terms(&self, effect: &dyn Effect, op: &Op<'_>) -> Result<Terms, Fault> {
        let body = Body::bind(op.body, usize::MAX).unwrap();
        let dir = self.dir.path().to_str();
        effect.terms(&Planned { repo: op.repo, target: op.target, body: &body, dir })
    }

    /// An attempt at an operation, bound under the kind's own terms.
    pub(crate) fn attempt(&self, effect: &dyn Effect, op: &Op<'_>) -> Attempt {
        let terms = self.terms(effect, op).unwrap();
        let key: Key = op.key.parse().unwrap();
        let operation = BoundOperation {
            kind: Kind::new(effect.kind().as_str()).unwrap(),
            repo: op.repo.to_owned(),
            target: op.target.to_owned(),
            body: Body::bind(op.body, usize::MAX).unwrap(),
            key,
            occurrence: 1,
            recovery: RecoveryClass::Ask,
            deadline_ms: terms.deadline_ms,
            lag_ms: terms.lag_ms,
            local: terms.local,
            distinguishes: terms.distinguishes,
            attempts_max: 3,
            backoff_ms: 1_000,
            within_ms: None,
            call_id: None,
            approval: None,
            identity: None,
            place: None,
            then_ask: None,
            extra: Extra::default(),
        };
        let deadline = since_boot_ms().saturating_add_signed(op.budget_ms);
        Attempt {
            cancel: surestep::Cancel::default(),
            resolved: None,
            secrets: Vec::new(),
            call: Call {
                session: SessionId::new("s-1").unwrap(),
                op: OpNumber::FIRST,
                operation: Arc::new(operation),
                dir: self.dir.path().to_str().map(Arc::from),
                epoch: Epoch::FIRST,
                attempt: Number::new(op.attempt),
                deadline: Wall::from_unix_ms(0),
                deadline_mark: Mark::new(boot_id().unwrap(), deadline),
                first_intended: None,
                hint: None,
                traceparent: None,
            },
            tether: self.tether.clone(),
        }
    }

    pub(crate) async fn execute(&self, effect: &dyn Effect, op: &Op<'_>) -> Outcome {
        effect.execute(&self.attempt(effect, op)).await.unwrap_or_else(Outcome::Unknown)
    }

    pub(crate) async fn look(
        &self,
        effect: &dyn Effect,
        reconciler: &dyn Reconciler,
        op: &Op<'_>,
    ) -> Finding {
        reconciler.look(&self.attempt(effect, op)).await.unwrap_or_else(Finding::Unknown)
    }
}

/// An operation of a test.
#[derive(Clone)]
pub(crate) struct Op<'a> {
    pub(crate) repo: &'a str,
    pub(crate) target: &'a str,
    pub(crate) body: &'a str,
    pub(crate) key: &'a str,
    pub(crate) attempt: u32,
    pub(crate) budget_ms: i64,
}

pub(crate) const KEY: &str = "v1:00112233445566778899aabbccddeeff";

impl<'a> Op<'a> {
    pub(crate) fn new(repo: &'a str, target: &'a str, body: &'a str) -> Self {
        Self { repo, target, body, key: KEY, attempt: 1, budget_ms: 60_000 }
    }

    pub(crate) fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    pub(crate) fn budget_ms(self, budget_ms: i64) -> Self {
        Self { budget_ms, ..self }
    }
}

/// An outcome in one word, with the fault's code: `landed REF`, `never CODE`, `backoff CODE`, `over CODE`…
pub(crate) fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Landed(receipt) => format!("landed {}", receipt.reference),
        Outcome::NotLanded(fault, Retry::Never) => format!("never {}", fault.code),
        Outcome::NotLanded(fault, Retry::Backoff) => format!("backoff {}", fault.code),
        Outcome::NotLanded(fault, Retry::After { .. }) => format!("after {}", fault.code),
        Outcome::NotSent(fault) => format!("not sent {}", fault.code),
        Outcome::Unknown(fault) => format!("unknown {}", fault.code),
        Outcome::Ended(fault) => format!("ended {}", fault.code),
        Outcome::Over(fault) => format!("over {}", fault.code),
    }
}

/// A finding in one word.
pub(crate) fn found(finding: &Finding) -> String {
    match finding {
        Finding::Landed(receipt) => format!("landed {}", receipt.reference),
        Finding::NotLanded => "not landed".to_owned(),
        Finding::Conflict(fault) => format!("conflict {}", fault.code),
        Finding::Unknown(fault) => format!("unknown {}", fault.code),
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills the processes that bear all these arguments, and says how many there were.
pub(crate) fn kill_bearing(arguments: &[&str]) -> usize {
    let bears = |path: &Path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        let parts: Vec<_> = line.split(|byte| *byte == 0).collect();
        arguments.iter().all(|argument| parts.contains(&argument.as_bytes()))
    };
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let pids = all.filter(|path| bears(path)).filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    let found: Vec<_> = pids.filter_map(rustix::process::Pid::from_raw).collect();
    for pid in &found {
        let _ = rustix::process::kill_process(*pid, rustix::process::Signal::KILL);
    }
    found.len()
}
