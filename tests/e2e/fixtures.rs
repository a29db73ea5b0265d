//! Stores and envelopes of format 1, as a build of their time wrote them: never rewritten, always readable.
//!
//! `SURESTEP_NEW_FIXTURES=FOLDER cargo test … fixtures::a_new_set` writes a set of today's build into a new folder; it
//! never touches one that is there. Its clock, boot and owner are made up, so no file names where it was written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use surestep::core::Attempt as AttemptNumber;
use surestep::{
    Attempt, Clock, Commit, Digest, Effect, Engine, Envelope, Epoch, Evidence, Fault, Finding, Kind, Mark,
    Now, OpNumber, Outcome, Plan, Planned, Receipt, Reconciler, Recovery, Request, Retry, SessionId,
    Store as _, Terms, TurnNumber, Wall, Word,
};
use surestep_file::FileStore;

use crate::harness::{Ran, Scratch, workspace};

/// The sets: folders below `fixtures`, and the list of their digests.
const SETS: &[&str] = &["envelopes/v1", "stores/v1"];
const LIST: &str = "v1.sha256";

/// What `resume` of the only session of each store says on another machine, long afterwards.
const STORES: &[(&str, i32)] = &[
    ("approval", 4),
    ("cancelled", 13),
    ("completed", 0),
    ("conversation", 0),
    ("failed", 3),
    ("handed-off", 6),
    ("in-doubt", 0),
    ("late", 0),
    ("mailbox", 0),
    ("open", 0),
    ("pruned", 2),
    ("question", 4),
    ("restored", 0),
    ("retrying", 0),
    ("sealed", 0),
    ("unknown-fields", 0),
];

/// Says that it is `shell`, so that any build can step what it leaves, and does what the target says.
struct Script;

#[async_trait::async_trait]
impl Effect for Script {
    fn kind(&self) -> Kind {
        Kind::new("shell").expect("a kind")
    }
    fn terms(&self, planned: &Planned<'_>) -> Result<Terms, Fault> {
        let can_ask = planned.target != "halts";
        Ok(Terms { local: true, can_ask, distinguishes: false, ..Terms::remote(60_000, 0) })
    }
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        Ok(match attempt.call.operation.target.as_str() {
            "lost" | "halts" => Outcome::Unknown(Fault::new("timeout", "no answer")),
            "refused" => Outcome::NotLanded(Fault::new("busy", "come back later"), Retry::Backoff),
            "never" => Outcome::NotLanded(Fault::new("conflict", "it cannot be done"), Retry::Never),
            _ => Outcome::Landed(Receipt::new(attempt.call.operation.key.to_string())),
        })
    }
}

struct NobodyKnows;

#[async_trait::async_trait]
impl Reconciler for NobodyKnows {
    async fn look(&self, _: &Attempt) -> Result<Finding, Fault> {
        Ok(Finding::Unknown(Fault::new("silent", "the remote does not say")))
    }
}

/// Ten milliseconds pass each time that somebody looks.
struct Counted(AtomicU64);

impl Clock for Counted {
    fn now(&self) -> Now {
        let ms = self.0.fetch_add(10, Ordering::SeqCst);
        let wall = Wall::from_unix_ms(1_764_547_200_000 + i64::try_from(ms).expect("small"));
        Now { wall, mark: Mark::new("fixture", ms) }
    }
}

fn session() -> SessionId {
    SessionId::new("fix-118").expect("an id")
}

fn plan(targets: &[&str], more: &str) -> Plan {
    let operation = |target: &&str| {
        let (target, approval) = match target.strip_suffix('?') {
            Some(target) => (target, r#","approval":"required""#),
            None => (*target, ""),
        };
        let check = if target == "halts" { "" } else { r#","check":["true"]"# };
        format!(
            r#"{{"kind":"shell","repo":"acme/site","target":"{target}","body":{{"run":["true"],"local":true{check}}},"call_id":"call-1"{approval}}}"#
        )
    };
    let operations: Vec<String> = targets.iter().map(operation).collect();
    let text = format!(
        r#"{{"format":"surestep.plan/1","session":"fix-118","agent":"fixer","task":"Fix issue 118","operations":[{}],"verdict":"fixed","rationale":"it was broken"{more}}}"#,
        operations.join(",")
    );
    Plan::parse(text.as_bytes()).expect("a plan")
}

struct Maker {
    folder: PathBuf,
    marks: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Maker {
    fn store(&self, name: &str) -> FileStore {
        let options = FileStore::options().marks(Some(self.marks.clone()));
        options.open(self.folder.join("stores/v1").join(name)).expect("a store")
    }
    fn engine(&self, store: &FileStore) -> Engine {
        Engine::builder(store.clone())
            .effect(Script, Recovery::ask(NobodyKnows))
            .clock(Arc::new(Counted(AtomicU64::new(0))))
            .owner("fixture")
            .dir("/")
            .build()
            .expect("the engine")
    }
    /// Steps a new session once, and keeps its envelope too.
    fn make(&self, name: &str, plan: Plan) -> (FileStore, Engine, Envelope) {
        let store = self.store(name);
        let engine = self.engine(&store);
        let step =
            self.runtime.block_on(engine.step(Envelope::new(session()).with_plan(plan))).expect("a step");
        self.envelope(name, &step.envelope);
        (store, engine, step.envelope)
    }
    fn envelope(&self, name: &str, envelope: &Envelope) {
        let file = self.folder.join("envelopes/v1").join(format!("{name}.json"));
        std::fs::write(file, envelope.to_json().expect("JSON")).expect("it is written");
    }
}

fn request(word: Word, op: Option<(OpNumber, surestep::Key, AttemptNumber)>) -> Request {
    let text = r#"{"id":"request-1","word":"cancel","by":"olga","because":"the desk said so"}"#;
    let mut request: Request = serde_json::from_str(text).expect("a request");
    request.word = word;
    if let Some((op, key, attempt)) = op {
        (request.op, request.key, request.attempt) = (Some(op), Some(key), Some(attempt));
    } else {
        request.turn = Some(TurnNumber::FIRST);
    }
    request
}

#[test]
fn a_new_set_is_written_on_demand() {
    let Some(folder) = std::env::var_os("SURESTEP_NEW_FIXTURES").map(PathBuf::from) else { return };
    for set in SETS {
        assert!(
            !folder.join(set).exists(),
            "{}: there is a set: never rewrite one",
            folder.join(set).display()
        );
        std::fs::create_dir_all(folder.join(set)).expect("a folder");
    }
    let marks = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let maker = Maker { folder: folder.clone(), marks: marks.path().to_owned(), runtime };

    maker.envelope("new", &Envelope::new(session()).with_plan(plan(&["one"], "")));
    maker.make("completed", plan(&["one", "two"], ""));
    maker.make("failed", plan(&["one", "never", "two"], ""));
    maker.make("retrying", plan(&["refused", "two"], ""));
    maker.make("in-doubt", plan(&["one", "lost", "two"], ""));
    maker.make("question", plan(&["halts", "two"], ""));
    maker.make("approval", plan(&["one", "two?"], ""));
    maker.make("conversation", plan(&["one"], r#","conversation":[{"role":"user","content":"fix it é"}]"#));
    maker.make("empty", plan(&[], ""));
    let (store, ..) = maker.make("open", plan(&["one", "two"], ""));
    // As a kill leaves it: the last commit never came to be.
    std::fs::remove_file(store.session_dir(&session()).join("journal/00000003.json"))
        .expect("the last commit");
    let (_, engine, _) = maker.make("cancelled", plan(&["refused"], ""));
    let step =
        maker.runtime.block_on(engine.answer(&session(), &request(Word::Cancel, None))).expect("cancelled");
    maker.envelope("cancelled", &step.envelope);
    let (_, engine, _) = maker.make("handed-off", plan(&["one", "two?"], ""));
    let sent = maker.runtime.block_on(engine.hand_off(&session(), &"0".repeat(32))).expect("handed off");
    maker.envelope("handed-off", &sent);
    let (_, engine, envelope) = maker.make("restored", plan(&["refused"], ""));
    let at = envelope.session();
    let once = (at.revision.next(), at.epoch, None);
    let step = maker.runtime.block_on(engine.restore(&session(), once)).expect("restored");
    maker.envelope("restored", &step.envelope);
    let (store, _, envelope) = maker.make("mailbox", plan(&["halts"], ""));
    let operation = &envelope.session().operations[0];
    let about = (operation.number, operation.bound.key, AttemptNumber::FIRST);
    maker.runtime.block_on(store.request(&session(), &request(Word::Landed, Some(about)))).expect("posted");
    let (store, _, envelope) = maker.make("late", plan(&["halts"], ""));
    let evidence = Evidence {
        op: OpNumber::new(1),
        key: envelope.session().operations[0].bound.key,
        attempt: AttemptNumber::FIRST,
        epoch: Epoch::FIRST,
        observed: Outcome::Landed(Receipt::new("late-1")),
        ended: None,
    };
    maker.runtime.block_on(store.keep_late(&session(), &evidence)).expect("kept");
    for (name, retention) in [("sealed", u64::MAX), ("pruned", 0)] {
        let (store, ..) =
            maker.make(name, plan(&["one"], r#","conversation":[{"role":"user","content":"fix it é"}]"#));
        let (now, retention) =
            (Wall::from_unix_ms(1_764_547_260_000), Duration::from_secs(retention / 1_000));
        // First what is finished is sealed; what was sealed before is pruned.
        for _ in 0..2 {
            let plan = maker.runtime.block_on(store.gc_plan(now, retention)).expect("a plan");
            maker.runtime.block_on(store.gc_apply(plan.name(), now, retention)).expect("it is done");
        }
    }
    let (store, engine, _) = maker.make("unknown-fields", plan(&["one", "refused"], ""));
    add_unknown_fields(&store.session_dir(&session()).join("journal"));
    std::fs::remove_dir_all(&maker.marks).expect("the marks name the chain as it was");
    let _ = engine;
    let store = maker.store("unknown-fields");
    let read = maker.runtime.block_on(maker.engine(&store).read(&session())).expect("it is read");
    let text = read.to_json().expect("JSON").replacen('{', r#"{"x-later":{"n":1E2},"ext":{"mine":1.0},"#, 1);
    std::fs::write(folder.join("envelopes/v1/unknown-fields.json"), text).expect("it is written");

    let mut list = String::new();
    for (path, bytes) in files(&folder) {
        if path.ends_with("holder.json") {
            std::fs::remove_file(folder.join(path)).expect("for people of that machine only");
        } else {
            list.push_str(&format!("{}  {path}\n", Digest::of(&bytes).hex()));
        }
    }
    std::fs::write(folder.join(LIST), list).expect("the list");
}

/// A later version's fields in every commit, entry, receipt and fault; the chain is made anew.
fn add_unknown_fields(journal: &Path) {
    let mut prev = None;
    for (name, bytes) in files(journal) {
        let mut commit: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        crate::format::add(&mut commit);
        if let Some(prev) = prev {
            commit["prev"] = prev;
        }
        let text = crate::format::sealed(&commit);
        prev = Some(serde_json::Value::String(Commit::parse(&text).expect("a commit").sum().to_string()));
        std::fs::write(journal.join(name), text).expect("it is written");
    }
}

/// The files of the sets below a folder, in order.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    fn collect(root: &Path, folder: &Path, all: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect(root, &path, all);
            } else {
                let name = path.strip_prefix(root).expect("below").display().to_string();
                all.insert(name, std::fs::read(&path).expect("a file"));
            }
        }
    }
    let mut all = BTreeMap::new();
    let sets: Vec<PathBuf> = SETS.iter().map(|set| root.join(set)).filter(|set| set.exists()).collect();
    match sets.as_slice() {
        [] => collect(root, root, &mut all),
        sets => sets.iter().for_each(|set| collect(root, set, &mut all)),
    }
    all
}

#[test]
fn no_fixture_of_format_1_was_changed() {
    let root = workspace().join("fixtures");
    let list = std::fs::read_to_string(root.join(LIST)).expect("the list");
    let listed: BTreeMap<&str, &str> = list
        .lines()
        .map(|line| line.split_once("  ").map(|(digest, path)| (path, digest)).expect("a line"))
        .collect();
    let found = files(&root);
    let complaints: Vec<_> = listed
        .iter()
        .filter(|(path, digest)| found.get(**path).is_none_or(|bytes| Digest::of(bytes).hex() != **digest))
        .map(|(path, _)| format!("{path}: changed or gone: put it back; a fixture is never rewritten"))
        .chain(
            found
                .keys()
                .filter(|path| !listed.contains_key(path.as_str()))
                .map(|p| format!("{p}: not listed")),
        )
        .collect();
    assert!(complaints.is_empty() && listed.len() > 60, "{complaints:#?}");
}

#[test]
fn every_store_of_format_1_is_read_shown_and_stepped() {
    let stores = workspace().join("fixtures/stores/v1");
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(&stores).expect("the stores").map(Result::unwrap) {
        let name = entry.file_name().into_string().expect("a name");
        let scratch = Scratch::bare();
        let copied = Command::new("cp").arg("-r").arg(entry.path()).arg(scratch.store()).status();
        assert!(copied.expect("cp runs").success());
        scratch.run(&["list"]).exits(0);
        for command in ["show", "log", "export"] {
            let ran = scratch.run(&[command, "fix-118"]);
            assert!(ran.code == Some(if name == "pruned" { 2 } else { 0 }), "{name}: {ran:#?}");
        }
        scratch.run(&["fsck"]).exits(0);
        let before = files(&scratch.journal("fix-118"));
        let stepped = scratch.run(&["resume", "fix-118"]);
        for (file, bytes) in &before {
            assert_eq!(files(&scratch.journal("fix-118")).get(file), Some(bytes), "{name}/{file}");
        }
        seen.push((name, stepped.code.expect("it ends")));
    }
    seen.sort();
    let expected: Vec<_> = STORES.iter().map(|(name, code)| ((*name).to_owned(), *code)).collect();
    assert_eq!(seen.into_iter().filter(|(name, _)| name != "empty").collect::<Vec<_>>(), expected);
}

#[test]
fn every_envelope_of_format_1_is_read_written_and_taken_by_step_or_refused_for_its_home() {
    for entry in
        std::fs::read_dir(workspace().join("fixtures/envelopes/v1")).expect("them").map(Result::unwrap)
    {
        let bytes = std::fs::read(entry.path()).expect("a file");
        let envelope = Envelope::parse(&bytes).unwrap_or_else(|e| panic!("{:?}: {e}", entry.file_name()));
        let again = Envelope::parse(envelope.to_json().expect("JSON").as_bytes()).expect("what was written");
        assert_eq!(again, envelope);
        surestep::core::invariants::check(envelope.commits()).expect("its invariants hold");
        let scratch = Scratch::bare();
        let mut command = scratch.command(&["step", "-", "--allow", "shell"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes).unwrap();
        let ran = Ran::of(child.wait_with_output().expect("it ends"));
        if entry.file_name() == "new.json" {
            assert!(ran.exits(0).stdout.contains(r#""status":"completed""#));
        } else {
            // It lives elsewhere: it is read whole, and not stepped here.
            assert!(!matches!(ran.code, Some(0 | 1 | 2 | 3 | 7 | 101)), "{:?}: {ran:#?}", entry.file_name());
        }
    }
}
