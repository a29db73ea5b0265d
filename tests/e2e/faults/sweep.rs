//! In-process: a turn of three operations, with a fault at each of its calls in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use surestep::{
    Attempt, Clock as _, Effect, Engine, Entry, Envelope, Fault as Seen, Finding, Kind, Outcome, Plan,
    Planned, Receipt, Reconciler, Recovery, Rest, SessionId, Step, StepError, StoreError, SystemClock, Terms,
    Wait,
};
use surestep_file::repair;
use surestep_file::{Disk, FileStore, RealDisk};

use super::disk::{Fault, FaultDisk, How, changes};

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;
const OPERATIONS: usize = 3;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<String>>>);

impl Sink {
    fn landings(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for key in self.0.lock().expect("the sink").iter() {
            *counts.entry(key.clone()).or_default() += 1;
        }
        counts
    }
}

#[async_trait::async_trait]
impl Effect for Sink {
    fn kind(&self) -> Kind {
        Kind::new("count").expect("a name")
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Seen> {
        Ok(Terms::remote(60, 0))
    }
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Seen> {
        let key = attempt.call.operation.key.to_string();
        self.0.lock().expect("the sink").push(key.clone());
        Ok(Outcome::landed(format!("receipt of {key}")))
    }
}

#[async_trait::async_trait]
impl Reconciler for Sink {
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Seen> {
        let key = attempt.call.operation.key.to_string();
        let there = self.0.lock().expect("the sink").contains(&key);
        Ok(if there {
            Finding::Landed(Receipt::new(format!("receipt of {key}")))
        } else {
            Finding::NotLanded
        })
    }
}

struct Lab {
    dir: tempfile::TempDir,
    sink: Sink,
    runtime: tokio::runtime::Runtime,
}

fn id() -> SessionId {
    SessionId::new("s").expect("an id")
}

impl Lab {
    fn new() -> Self {
        // In memory where that can be had: thousands of turns, and durability is not what is tested here.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { dir: dir.expect("a folder"), sink: Sink::default(), runtime }
    }

    fn options(&self) -> surestep_file::Options {
        FileStore::options().allow_volatile(true).marks(Some(self.dir.path().join("state")))
    }

    fn engine<D: Disk>(&self, disk: D) -> Result<Engine, StoreError> {
        let store = self.options().open_on(disk, self.dir.path().join("store"))?;
        let builder = Engine::builder(store).effect(self.sink.clone(), Recovery::ask(self.sink.clone()));
        Ok(builder.build().expect("the engine"))
    }

    fn step<D: Disk>(&self, disk: D) -> Result<Step, StepError> {
        let source = |source| StepError::Store { source, observed: None, indeterminate: false };
        let engine = self.engine(disk).map_err(source)?;
        self.runtime.block_on(engine.step(Envelope::new(id()).with_plan(plan())))
    }

    fn drive(&self) -> Result<Step, StepError> {
        let engine = self.engine(RealDisk).expect("the store opens");
        let wait = Wait { limit: Some(Duration::from_secs(20)), held: false };
        self.runtime.block_on(engine.drive(Envelope::new(id()).with_plan(plan()), wait))
    }

    /// The keys that the journal says were intended, and those that it says succeeded.
    fn journaled(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let engine = self.engine(RealDisk).expect("the store opens");
        let (mut intended, mut succeeded) = (BTreeSet::new(), BTreeSet::new());
        let Ok(envelope) = self.runtime.block_on(engine.read(&id())) else { return (intended, succeeded) };
        for entry in envelope.commits().iter().flat_map(surestep::Commit::entries) {
            match entry {
                Entry::Intended(e) => drop(intended.insert(e.key.to_string())),
                Entry::Succeeded(e) => drop(succeeded.insert(e.key.to_string())),
                _ => {}
            }
        }
        (intended, succeeded)
    }

    /// What must hold after a step that met a fault, and after the fault is gone.
    fn check(&self, stepped: &Result<Step, StepError>, case: &str) {
        let landed = self.sink.landings();
        assert!(landed.values().all(|n| *n == 1), "{case}: {landed:?}");
        let (intended, succeeded) = self.journaled();
        for key in landed.keys() {
            assert!(
                intended.contains(key),
                "{case}: {key} landed, and the journal does not say that it could"
            );
            if !succeeded.contains(key) {
                let returned = match stepped {
                    Err(StepError::Store { observed, .. } | StepError::Fenced { observed, .. }) => {
                        observed.as_ref()
                    }
                    _ => None,
                };
                let returned =
                    returned.unwrap_or_else(|| panic!("{case}: the receipt of {key} is lost: {stepped:?}"));
                assert_eq!(returned.key.to_string(), *key, "{case}");
                let Outcome::Landed(receipt) = &returned.outcome else { panic!("{case}: {returned:?}") };
                assert_eq!(receipt.reference, format!("receipt of {key}"), "{case}");
            }
        }
        if let Err(error) = stepped {
            assert!(!error.code().is_empty() && ![0, 101].contains(&error.exit_code()), "{case}: {error:?}");
        }
        self.finishes(case);
    }

    /// As `fsck --restored`, where the session is behind its mark.
    fn note_restored(&self) {
        let store =
            self.options().even_rolled_back(true).open(self.dir.path().join("store")).expect("it opens");
        let Some(behind) = store.rolled_back(&id()).expect("it can be told") else { return };
        let engine =
            Engine::builder(store).effect(self.sink.clone(), Recovery::halt()).build().expect("the engine");
        let once = (behind.mark.revision, behind.mark.epoch, Some(behind.mark.head));
        self.runtime.block_on(engine.restore(&id(), once)).expect("noted");
    }

    /// Without a fault the turn is finished, and each operation landed once.
    fn finishes(&self, case: &str) {
        let step = self.drive().unwrap_or_else(|e| panic!("{case}: {e:?}"));
        assert!(
            matches!(&step.rest, Rest::Finished(report) if report.verdict == "done"),
            "{case}: {:?}",
            step.rest
        );
        let landed = self.sink.landings();
        assert!(landed.len() == OPERATIONS && landed.values().all(|n| *n == 1), "{case}: {landed:?}");
        for operation in &step.envelope.session().operations {
            let receipt = operation.landed.as_ref().map(|(receipt, _)| receipt.reference.clone());
            assert_eq!(receipt, Some(format!("receipt of {}", operation.bound.key)), "{case}");
        }
    }
}

fn plan() -> Plan {
    let operation = |n: usize| format!(r#"{{"kind":"count","repo":"r","target":"{n}","body":{{}}}}"#);
    let operations: Vec<String> = (0..OPERATIONS).map(operation).collect();
    let text = format!(
        r#"{{"format":"surestep.plan/1","verdict":"done","conversation":[{{"role":"user","content":"go"}}],"operations":[{}]}}"#,
        operations.join(",")
    );
    Plan::parse(text.as_bytes()).expect("a plan")
}

/// The calls of a turn that meets no fault.
fn control() -> Vec<&'static str> {
    let lab = Lab::new();
    let disk = FaultDisk::with(None);
    lab.step(disk.clone()).expect("it finishes");
    disk.calls().into_iter().map(|(call, _)| call).collect()
}

/// One fault at each call that is chosen. Answers how many steps failed.
fn sweep(how: How, errnos: &[i32], chosen: impl Fn(&str) -> bool) -> (usize, usize) {
    let calls = control();
    let (mut cases, mut failed) = (0, 0);
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| chosen(call)) {
        for errno in errnos {
            let case = format!("call {at} ({call}), errno {errno}, {how:?}");
            let lab = Lab::new();
            let disk = FaultDisk::with(Some(Fault { at, errno: *errno, how }));
            let stepped = lab.step(disk.clone());
            assert!(disk.was_hit(), "{case}");
            cases += 1;
            failed += usize::from(stepped.is_err());
            lab.check(&stepped, &case);
        }
    }
    (cases, failed)
}

#[test]
fn whichever_call_fails_once_nothing_lands_twice_and_no_receipt_is_lost() {
    let (cases, failed) = sweep(How::Refused, &[EIO], |_| true);
    assert!(cases > 150 && failed > 60, "{cases} {failed}");
    let (more, failed) = sweep(How::Refused, &[ENOSPC, EDQUOT, EROFS, EMFILE], changes);
    assert!(more > 200 && failed > 100, "{more} {failed}");
    println!("{} cases", cases + more);
}

#[test]
fn whichever_call_is_carried_out_and_says_that_it_was_not() {
    let (cases, failed) = sweep(How::Done, &[EIO], |_| true);
    assert!(cases > 150 && failed > 60, "{cases} {failed}");
    let (cases, failed) = sweep(How::Half, &[ENOSPC], |call| call == "write");
    assert!(cases > 5 && failed > 3, "{cases} {failed}");
}

#[test]
fn from_whichever_call_on_the_disk_is_gone_for_good() {
    for errno in [EIO, ENOSPC, EROFS] {
        let (cases, failed) = sweep(How::ForGood, &[errno], changes);
        assert!(cases > 50 && failed > 40, "{cases} {failed}");
    }
}

#[test]
fn whichever_call_of_a_repair_fails_it_is_repeated_and_nothing_lands_twice() {
    let damaged = || {
        let lab = Lab::new();
        lab.step(RealDisk).expect("it finishes");
        let journal = lab.dir.path().join("store/sessions/s/journal");
        std::fs::write(journal.join("00000002.json"), "{").expect("written");
        lab
    };
    let run = |lab: &Lab, disk: &FaultDisk| {
        let options =
            repair::Options { dry_run: false, open: lab.options(), now: SystemClock::default().now() };
        repair::repair_on(disk, &lab.dir.path().join("store"), None, &options)
    };
    let lab = damaged();
    let disk = FaultDisk::with(None);
    run(&lab, &disk).expect("it repairs");
    let calls = disk.calls();
    let mut refused = 0;
    for (how, errno) in [(How::Refused, EIO), (How::Done, EIO), (How::ForGood, ENOSPC)] {
        for (at, (call, path)) in calls.iter().enumerate() {
            if how == How::ForGood && !changes(call) {
                continue;
            }
            let case = format!("call {at} ({call} {}), {how:?}", path.display());
            let lab = damaged();
            let disk = FaultDisk::with(Some(Fault { at, errno, how }));
            let repaired = run(&lab, &disk);
            refused += usize::from(repaired.as_ref().map_or(true, |r| !r.refused.is_empty()));
            // Between: it does not load, or it loads with every unsettled operation in doubt.
            let engine = lab.engine(RealDisk).expect("the store opens");
            if let Ok(envelope) = lab.runtime.block_on(engine.read(&id())) {
                assert!(envelope.session().restored.is_some(), "{case}: it loads as a shorter journal");
            }
            drop(engine);
            let again = run(&lab, &FaultDisk::with(None)).unwrap_or_else(|e| panic!("{case}: {e:?}"));
            assert_eq!(again.refused, [], "{case}");
            if path.components().any(|part| part.as_os_str() == "marks") {
                lab.note_restored(); // the mark could not be read: it speaks again, as after an older copy
            }
            lab.finishes(&case);
        }
    }
    assert!(refused > 40, "{refused} of {}", calls.len() * 3);
}
