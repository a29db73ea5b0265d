//! An orchestrator: steps a turn in its own process and handles every way in which it can rest.
//!
//! The turn opens a ticket, which the tracker refuses once with `Retry-After`, and mails the customer, which loses its
//! reply: nobody can look a mail up, so a person is asked. Run it with `cargo run --example orchestrator`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "an example prints, and knows its own names"
)]

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use surestep::core::Extra;
use surestep::{
    Attempt, Effect, Engine, Envelope, Fault, Finding, Kind, MemoryStore, Outcome, Plan, Planned, Question,
    Receipt, Reconciler, Recovery, Report, Request, RequestId, Rest, Retry, SessionId, StepError, Terms,
    Word,
};

const PLAN: &[u8] = br#"{"format":"surestep.plan/1","verdict":"the customer knows","operations":[
    {"kind":"ticket","repo":"tracker","target":"support","body":{"title":"refund 118"}},
    {"kind":"mail","repo":"smtp","target":"ann@example.com","body":{"text":"it is on its way"}}]}"#;

/// A tracker that is busy at first.
#[derive(Default)]
struct Ticket(AtomicU32);

#[async_trait::async_trait]
impl Effect for Ticket {
    fn kind(&self) -> Kind {
        Kind::new("ticket").expect("a plain name")
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(30_000, 15_000))
    }
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            return Ok(Outcome::NotLanded(Fault::new("busy", "503, Retry-After"), Retry::After { ms: 20 }));
        }
        Ok(Outcome::landed(attempt.call.operation.key.to_string()))
    }
}

/// How the tracker is asked: here it never needs to be.
struct TicketByKey;

#[async_trait::async_trait]
impl Reconciler for TicketByKey {
    async fn look(&self, _: &Attempt) -> Result<Finding, Fault> {
        Ok(Finding::NotLanded)
    }
}

/// A mail server that hangs up after DATA.
struct Mail;

#[async_trait::async_trait]
impl Effect for Mail {
    fn kind(&self) -> Kind {
        Kind::new("mail").expect("a plain name")
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(30_000, 0))
    }
    async fn execute(&self, _: &Attempt) -> Result<Outcome, Fault> {
        // `?` means unknown: whatever nobody thought about is never read as "it did not happen".
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))?
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder(MemoryStore::new())
        .effect(Ticket::default(), Recovery::ask(TicketByKey))
        .effect(Mail, Recovery::halt())
        .build()?;
    let session = SessionId::new("refund-118")?;
    let mut envelope = Envelope::new(session.clone()).with_plan(Plan::parse(PLAN)?);
    loop {
        // A step that fails keeps the journal as it is: whatever the error, stepping again later is safe.
        let step = match engine.step(envelope).await {
            Ok(step) => step,
            Err(error) => return Err(to_blame(error)),
        };
        envelope = match step.rest {
            Rest::Finished(report) => return deliver(&report),
            Rest::NeedsPerson(question) => engine.answer(&session, &desk(&question)?).await?.envelope,
            Rest::Until { wait_ms, why, .. } => {
                println!("later: {why}");
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                step.envelope
            }
            Rest::NoPlan => return Err("nothing was planned".into()),
            Rest::HandedOff { to } => return Err(format!("the session lives in store {to} now").into()),
            other => return Err(format!("a rest that this orchestrator does not know: {other:?}").into()),
        };
    }
}

fn deliver(report: &Report) -> Result<(), Box<dyn Error>> {
    println!("{:?}: {}", report.outcome, report.verdict);
    Ok(())
}

/// A person looks into the outbox. The question is durable: it may take them days.
fn desk(question: &Question) -> Result<Request, Box<dyn Error>> {
    println!("asked: did operation {} land? {:?}", question.op, question.evidence.last());
    Ok(Request {
        id: RequestId::new(surestep::random_id())?,
        word: Word::Landed,
        by: "ann".into(),
        because: "it is in the outbox".into(),
        op: Some(question.op),
        key: Some(question.key),
        attempt: Some(question.attempt),
        turn: None,
        receipt: Some(Receipt::new("outbox-7")),
        extra: Extra::default(),
    })
}

/// Errors are sorted by who must act.
fn to_blame(error: StepError) -> Box<dyn Error> {
    match &error {
        StepError::Busy { .. } | StepError::Fenced { .. } => println!("another owner is at it: leave it"),
        StepError::Store { observed, .. } => {
            println!("the store: look at it, then step again ({observed:?})")
        }
        StepError::Plan(_) | StepError::Refused(_) => println!("the caller: nothing was written"),
        StepError::Corrupt { .. } | StepError::Diverged { .. } | StepError::StoreBehind { .. } => {
            println!("a person: nothing was changed, `surestep explain {}` says more", error.code());
        }
        other => println!("see `surestep explain {}`", other.code()),
    }
    error.into()
}
