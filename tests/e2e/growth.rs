//! A commit costs what it says, however much was said and done before (acceptance 4).
//!
//! Counted: the bytes that each publish hands to the disk, content included, on a shape of 60 operations with bodies of
//! 10 kB and a conversation of 1 MB. The bodies stand in the first commit and in no other one. At full size and with
//! times: `just growth`.

use std::sync::{Arc, Mutex};

use surestep::{
    Attempt, Blob, Commit, Digest, Effect, Engine, Envelope, Evidence, Fault, Hold, Journal, Kind, Outcome,
    Page, Plan, Planned, PublishError, Recovery, Request, Revision, SessionId, SessionPage, Store,
    StoreError, Terms,
};
use surestep_file::FileStore;

use crate::harness::Scratch;

const OPERATIONS: usize = 60;
const BODY: usize = 10_000;
const SAID: usize = 1_000_000;

/// Bytes of each publish: the commit's, and the content's.
type Counts = Arc<Mutex<Vec<(usize, usize)>>>;

struct Counting(FileStore, Counts);

#[async_trait::async_trait]
impl Store for Counting {
    fn id(&self) -> &str {
        self.0.id()
    }
    async fn hold(&self, session: &SessionId) -> Result<Hold, StoreError> {
        self.0.hold(session).await
    }
    async fn read(&self, session: &SessionId, from: Revision) -> Result<Journal, StoreError> {
        self.0.read(session, from).await
    }
    async fn publish(&self, hold: &Hold, commit: &Commit, blobs: &[Blob]) -> Result<(), PublishError> {
        let content = blobs.iter().map(|blob| blob.bytes.len()).sum();
        self.1.lock().expect("counts").push((commit.text().len(), content));
        self.0.publish(hold, commit, blobs).await
    }
    async fn blob(&self, session: &SessionId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.0.blob(session, digest).await
    }
    async fn keep_late(&self, session: &SessionId, evidence: &Evidence) -> Result<(), StoreError> {
        self.0.keep_late(session, evidence).await
    }
    async fn request(&self, session: &SessionId, request: &Request) -> Result<(), StoreError> {
        self.0.request(session, request).await
    }
    async fn sessions(&self, page: Page) -> Result<SessionPage, StoreError> {
        self.0.sessions(page).await
    }
}

struct Note;

#[async_trait::async_trait]
impl Effect for Note {
    fn kind(&self) -> Kind {
        Kind::new("note").expect("a name")
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(30_000, 0))
    }
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        Ok(Outcome::landed(attempt.call.operation.key.to_string()))
    }
}

fn plan(turn: usize) -> Plan {
    let body = "b".repeat(BODY);
    let operation = |n| {
        format!(r#"{{"kind":"note","repo":"r","target":"t-{n}","body":{{"turn":{turn},"text":"{body}"}}}}"#)
    };
    let list: Vec<String> = (0..OPERATIONS).map(operation).collect();
    let said = "s".repeat(SAID);
    let text = format!(
        r#"{{"format":"surestep.plan/1","turn":{turn},"verdict":"done","conversation":[{{"role":"user","content":"{turn}{said}"}}],"operations":[{}]}}"#,
        list.join(",")
    );
    Plan::parse(text.as_bytes()).expect("a plan")
}

#[test]
fn the_last_commit_costs_what_the_second_did_and_what_was_said_is_written_once() {
    let scratch = Scratch::bare();
    let counts = Counts::default();
    let store = Counting(scratch.open(), counts.clone());
    let engine = Engine::builder(store).effect(Note, Recovery::halt()).build().expect("the engine");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for turn in 1..=3 {
        let session = SessionId::new("s").expect("an id");
        let step = engine.step(Envelope::new(session).with_plan(plan(turn)));
        runtime.block_on(step).expect("it finishes");
        let turns = std::mem::take(&mut *counts.lock().expect("counts"));
        let commits: Vec<usize> = turns.iter().map(|(commit, _)| *commit).collect();
        let content: Vec<usize> = turns.iter().map(|(_, content)| *content).collect();
        assert_eq!(commits.len(), OPERATIONS + 1, "n operations are n + 1 commits");
        assert!(commits[0] > OPERATIONS * BODY, "the bodies stand in the first commit");
        let (second, last) = (commits[1], commits[OPERATIONS]);
        let most = commits[1..].iter().max().copied().unwrap_or_default();
        assert!(most * 2 <= second * 3 && last * 2 <= second * 3, "{second} {most} {last}");
        assert!(most < 2_000, "no body is in it: {most}");
        assert!((SAID..SAID + 100).contains(&content[0]), "only this turn's messages: {}", content[0]);
        assert!(content[1..].iter().all(|bytes| *bytes == 0), "what was said is written once");
    }
}
