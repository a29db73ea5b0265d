//! Measures what growth costs: `cargo run --release -p surestep-file --example growth [OPERATIONS] [SESSIONS]`.
//!
//! One session of so many operations (2,000) with bodies of 10 kB and a conversation of 50 MB: bytes of its commits, and
//! the time to read and fold it again. Then a collection of so many sessions (1,000): sealed, then pruned.

#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use surestep::{
    Attempt, Effect, Engine, Envelope, Fault, Kind, Outcome, Page, Plan, Planned, Recovery, Revision,
    SessionId, Store, Terms, Wall,
};
use surestep_file::FileStore;

struct Note;

#[async_trait::async_trait]
impl Effect for Note {
    fn kind(&self) -> Kind {
        Kind::new("note").unwrap_or_else(|_| unreachable!("a plain name"))
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(30_000, 0))
    }
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        Ok(Outcome::landed(attempt.call.operation.key.to_string()))
    }
}

fn plan(operations: usize, body: usize, said: usize) -> Result<Plan, Box<dyn Error>> {
    let text = "b".repeat(body);
    let operation =
        |n| format!(r#"{{"kind":"note","repo":"r","target":"t-{n}","body":{{"text":"{text}"}}}}"#);
    let list: Vec<String> = (0..operations).map(operation).collect();
    let message = format!(r#"{{"role":"user","content":"{}"}}"#, "s".repeat(10_000));
    let said = vec![message; said / 10_000].join(",");
    let text = format!(
        r#"{{"format":"surestep.plan/1","verdict":"done","conversation":[{said}],"operations":[{}]}}"#,
        list.join(",")
    );
    Ok(Plan::parse(text.as_bytes())?)
}

fn open(root: &Path) -> Result<FileStore, Box<dyn Error>> {
    Ok(FileStore::options().marks(Some(root.join("marks"))).open(root.join("store"))?)
}

/// The processor's time so far, in milliseconds: what others do on the machine is not in it.
fn cpu() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1_000.0 + now.tv_nsec as f64 / 1_000_000.0
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1_000.0
}

fn main() -> Result<(), Box<dyn Error>> {
    let number =
        |n: usize, default: usize| std::env::args().nth(n).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (operations, sessions) = (number(1, 2_000), number(2, 1_000));
    let dir = tempfile::tempdir_in(".")?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        one(dir.path(), operations).await?;
        many(dir.path(), sessions).await
    })
}

async fn one(root: &Path, operations: usize) -> Result<(), Box<dyn Error>> {
    let session = SessionId::new("big")?;
    let engine = Engine::builder(open(root)?).effect(Note, Recovery::halt()).build()?;
    let start = Instant::now();
    let step =
        engine.step(Envelope::new(session.clone()).with_plan(plan(operations, 10_000, 50_000_000)?)).await?;
    println!("ran {operations} operations in {:.0} ms", ms(start));
    let bytes: Vec<usize> = step.envelope.commits().iter().map(|commit| commit.text().len()).collect();
    let most = bytes.iter().skip(1).max().copied().unwrap_or_default();
    println!(
        "bytes: commit 1 {:?}, commit 2 {:?}, the largest after it {most}, the last {:?}",
        bytes.first(),
        bytes.get(1),
        bytes.last()
    );
    drop((engine, step));
    for _ in 0..3 {
        let store = open(root)?;
        let (start, before) = (Instant::now(), cpu());
        let commits = store.read(&session, Revision::FIRST).await?.commits;
        let read = ms(start);
        let start = Instant::now();
        let envelope = Envelope::from_commits(session.clone(), commits)?;
        let (fold, used) = (ms(start), cpu() - before);
        let start = Instant::now();
        for said in &envelope.session().said {
            store.blob(&session, &said.digest).await?;
        }
        let count = envelope.commits().len();
        println!(
            "reopened: read {read:.0} ms, fold {fold:.0} ms, of the processor {used:.0} ms: {:.0} ms per 1,000 commits; the 50 MB said {:.0} ms",
            used * 1_000.0 / count as f64,
            ms(start)
        );
    }
    Ok(())
}

async fn many(root: &Path, sessions: usize) -> Result<(), Box<dyn Error>> {
    let root = root.join("many");
    std::fs::create_dir(&root)?;
    let store = open(&root)?;
    let engine = Engine::builder(store.clone()).effect(Note, Recovery::halt()).build()?;
    let start = Instant::now();
    let plan = plan(1, 100, 10_000)?;
    for n in 0..sessions {
        engine.step(Envelope::new(SessionId::new(format!("s-{n}"))?).with_plan(plan.clone())).await?;
    }
    println!("ran {sessions} sessions in {:.0} ms", ms(start));
    let zero = Duration::ZERO;
    let now = |after: u64| {
        let last = engine.now().wall;
        Wall::plus_ms(last, after)
    };
    for what in ["sealed", "pruned"] {
        let start = Instant::now();
        let plan = store.gc_plan(now(1), zero).await?;
        let planned = ms(start);
        let start = Instant::now();
        let done = store.gc_apply(plan.name(), now(1), zero).await?;
        println!("{what}: planned in {planned:.0} ms, done in {:.0} ms: {done:?}", ms(start));
    }
    let start = Instant::now();
    let page = open(&root)?.sessions(Page { after: None, limit: 100 }).await?;
    println!("opened and listed {} sessions in {:.1} ms", page.sessions.len(), ms(start));
    let start = Instant::now();
    let refused = store.read(&SessionId::new("s-0")?, Revision::FIRST).await;
    println!("one of {sessions} pruned is refused in {:.2} ms: {}", ms(start), refused.is_err());
    Ok(())
}
