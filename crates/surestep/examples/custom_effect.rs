//! An effect of one's own, with the reconciler that ends doubts about it.
//!
//! The bank books the first transfer and loses the reply. Nothing is sent again: the ledger is asked, and says that it
//! landed. Run it with `cargo run --example custom_effect`.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "an example prints, and knows its own names")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use surestep::{
    Attempt, Effect, Engine, Envelope, Fault, Finding, Kind, MemoryStore, Outcome, Plan, Planned, Receipt,
    Reconciler, Recovery, Rest, Retry, SessionId, Terms,
};

const PLAN: &[u8] = br#"{"format":"surestep.plan/1","verdict":"paid","operations":[
    {"kind":"transfer","repo":"bank","target":"DE02","body":{"cents":1999}},
    {"kind":"transfer","repo":"bank","target":"DE03","body":{"cents":501}}]}"#;

/// The bank: bookings by the sender's reference.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<BTreeMap<String, String>>>);

impl Bank {
    fn book(&self, reference: String, body: String) -> usize {
        let mut ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.insert(reference, body);
        ledger.len()
    }
}

/// Sends a transfer.
struct Transfer(Bank);

#[async_trait::async_trait]
impl Effect for Transfer {
    fn kind(&self) -> Kind {
        Kind::new("transfer").expect("a plain name")
    }

    /// Everything that can be known to be wrong is refused here, when nothing has been written.
    fn terms(&self, planned: &Planned<'_>) -> Result<Terms, Fault> {
        if planned.target.is_empty() {
            return Err(Fault::new("no_account", "`target` must name an account"));
        }
        // 30 s for an attempt; a booking may take 15 s to show.
        Ok(Terms::remote(30_000, 15_000))
    }

    /// One wire call, with our key on it. What is said must be known; everything else is unknown.
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        let operation = &attempt.call.operation;
        if operation.body.as_str().contains("\"cents\":0") {
            return Ok(Outcome::NotLanded(Fault::new("refused", "nothing to transfer"), Retry::Never));
        }
        let bookings = self.0.book(operation.key.to_string(), operation.body.as_str().to_owned());
        if bookings == 1 {
            return Err(std::io::Error::from(std::io::ErrorKind::TimedOut))?;
        }
        Ok(Outcome::landed(operation.key.to_string()))
    }
}

/// Asks the ledger. Its receipts have the same `ref` as the effect's own.
struct Ledger(Bank);

#[async_trait::async_trait]
impl Reconciler for Ledger {
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
        let key = attempt.call.operation.key.to_string();
        let found = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&key);
        // "Not there" is only what it saw: whether that counts is the engine's to decide, from time.
        Ok(if found { Finding::Landed(Receipt::new(key)) } else { Finding::NotLanded })
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let bank = Bank::default();
    // There is no registering an effect without saying how doubt about it ends.
    let engine = Engine::builder(MemoryStore::new())
        .effect(Transfer(bank.clone()), Recovery::ask(Ledger(bank.clone())))
        .build()?;
    let envelope = Envelope::new(SessionId::new("payroll-11")?).with_plan(Plan::parse(PLAN)?);
    let Rest::Finished(report) = engine.step(envelope).await?.rest else { return Err("it rests".into()) };
    for line in &report.operations {
        println!("operation {}: {} {:?}", line.op, line.state, line.landed.as_ref().map(|(_, via)| via));
    }
    let bookings = bank.0.lock().unwrap_or_else(PoisonError::into_inner).len();
    if bookings == 2 { Ok(()) } else { Err(format!("{bookings} bookings").into()) }
}
