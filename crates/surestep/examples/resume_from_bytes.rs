//! A relay: one engine steps a turn and dies; another one, over the same store, goes on from the envelope's bytes.
//!
//! The envelope is everything that the second one gets. Run it with `cargo run --example resume_from_bytes`.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "an example prints, and knows its own names")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use surestep::{
    Attempt, Effect, Engine, Envelope, Fault, Finding, Kind, MemoryStore, Outcome, Plan, Planned, Reconciler,
    Recovery, Rest, Retry, SessionId, Terms, Wait,
};

const PLAN: &[u8] = br#"{"format":"surestep.plan/1","verdict":"posted","operations":[
    {"kind":"post","repo":"blog","target":"draft","body":{"text":"one"}},
    {"kind":"post","repo":"blog","target":"limited","body":{"text":"two"}}]}"#;

/// A blog that limits its rate: it refuses the second of its calls.
#[derive(Clone, Default)]
struct Post(Arc<AtomicU32>);

#[async_trait::async_trait]
impl Effect for Post {
    fn kind(&self) -> Kind {
        Kind::new("post").expect("a plain name")
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(30_000, 0))
    }
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 1 {
            return Ok(Outcome::NotLanded(Fault::new("rate", "429"), Retry::After { ms: 10 }));
        }
        Ok(Outcome::landed(attempt.call.operation.key.to_string()))
    }
}

#[async_trait::async_trait]
impl Reconciler for Post {
    async fn look(&self, _: &Attempt) -> Result<Finding, Fault> {
        Ok(Finding::NotLanded)
    }
}

fn engine(store: &MemoryStore, blog: &Post) -> Result<Engine, Box<dyn Error>> {
    Ok(Engine::builder(store.clone()).effect(blog.clone(), Recovery::ask(blog.clone())).build()?)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let (store, blog) = (MemoryStore::new(), Post::default());

    let first = engine(&store, &blog)?;
    let envelope = Envelope::new(SessionId::new("blog-3")?).with_plan(Plan::parse(PLAN)?);
    let step = first.step(envelope).await?;
    let Rest::Until { why, .. } = &step.rest else { return Err("it should rest".into()) };
    println!("the first engine rests: {why}");
    // Pass these on as bytes: a tool that rewrites numbers on the way breaks the chain of sums.
    let bytes = step.envelope.to_json()?.into_bytes();
    drop(first);

    let second = engine(&store, &blog)?;
    let step = second.drive(Envelope::parse(&bytes)?, Wait::default()).await?;
    let Rest::Finished(report) = &step.rest else { return Err("it should be over".into()) };
    println!("the second one: {} at epoch {}", report.verdict, step.envelope.session().epoch);
    // The first operation was not run again: three calls, one of them refused.
    let calls = blog.0.load(Ordering::Relaxed);
    if calls == 3 { Ok(()) } else { Err(format!("{calls} calls").into()) }
}
