//! A durable turn engine with journaled effects.
//!
//! A *turn* is a bound plan of side-effecting operations and a journal of what became of each. [`Engine::step`]
//! carries a turn as far as it can go, may die anywhere, and goes on in another process from the stored journal.
//!
//! **The promise.** No effect starts before its `intended` entry is durable. After a crash, a timeout or a lost reply
//! the outcome is *unknown*: never retried blindly, never called failed. A reconciler asks the remote; if it cannot
//! tell, the turn rests and a person answers. **Not promised:** "exactly once". A remote that neither honours a key
//! nor can be asked can only be stopped at.
//!
//! ```
//! use std::sync::Arc;
//! use surestep::{Attempt, Effect, Engine, Envelope, Fault, Finding, Kind, MemoryStore, Outcome, Plan};
//! use surestep::{Planned, Reconciler, Recovery, Rest, SessionId, Terms};
//!
//! /// Appends a line to a list, and can look whether its key is there.
//! #[derive(Clone, Default)]
//! struct Note(Arc<std::sync::Mutex<Vec<String>>>);
//!
//! #[async_trait::async_trait]
//! impl Effect for Note {
//!     fn kind(&self) -> Kind { Kind::new("note").expect("a plain name") }
//!     fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> { Ok(Terms::remote(30_000, 0)) }
//!     async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
//!         let key = attempt.call.operation.key.to_string();
//!         self.0.lock().expect("not poisoned").push(key.clone());
//!         Ok(Outcome::landed(key))
//!     }
//! }
//!
//! #[async_trait::async_trait]
//! impl Reconciler for Note {
//!     async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
//!         let key = attempt.call.operation.key.to_string();
//!         let found = self.0.lock().expect("not poisoned").contains(&key);
//!         Ok(if found { Finding::Landed(surestep::Receipt::new(key)) } else { Finding::NotLanded })
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let note = Note::default();
//! let engine = Engine::builder(MemoryStore::new()).effect(note.clone(), Recovery::ask(note.clone())).build()?;
//! let plan = Plan::parse(br#"{"format":"surestep.plan/1","verdict":"noted","operations":[
//!     {"kind":"note","repo":"desk","target":"today","body":{"text":"buy milk"}}]}"#)?;
//! let step = engine.step(Envelope::new(SessionId::new("n-1")?).with_plan(plan)).await?;
//! let Rest::Finished(report) = step.rest else { panic!("it rests: {:?}", step.rest) };
//! assert_eq!(report.verdict, "noted");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The machine owns, the host owns
//! The engine owns order, keys, intents, doubts, retries and the verdict. The host owns the store's folder, the
//! effects and their reconcilers, the runtime (tokio with time), and what it does with a [`Rest`].

mod builder;
mod clock;
mod dry;
mod effect;
mod engine;
mod error;
pub mod exit;
mod load;
mod mailbox;
mod memory;
mod moves;
mod recover;
mod registry;
mod restore;
mod run;
pub mod scrub;
mod secret;
mod store;
mod tether;

pub use builder::{BuildError, Builder};
pub use clock::{Clock, SystemClock};
pub use dry::{First, Foreseen};
pub use effect::{Attempt, Cancel, Effect, Planned, Reconciler, Recovery, Terms};
pub use engine::{Engine, Step, Wait};
pub use error::{Observed, StepError, plan_code};
pub use memory::{MemoryStore, ServerClock};
pub use registry::Tuning;
pub use secret::{Secret, SecretError, SecretSource};
pub use store::{
    Blob, Hold, HoldProof, Holder, Journal, Nameless, Page, PublishError, SessionPage, Stamps, Store,
    StoreError,
};
pub use surestep_core as core;
pub use surestep_core::{
    Approval, Body, Call, Commit, Corrupt, Digest, End, Entry, Envelope, Epoch, Evidence, Fault, Finding,
    HoldId, Key, Kind, Mark, Now, OpNumber, Outcome, Plan, PlanError, PlannedOperation, Proof, Question, Raw,
    Receipt, Refused, Report, Request, RequestId, Rest, Retry, Revision, SessionId, Stamp, State, TurnNumber,
    Via, Wall, Word,
};
pub use tether::{Tether, record_name};

/// 128 random bits as hex digits: ids of holds, requests and stores.
///
/// # Panics
/// When the system has no random source: nothing that this crate promises could be kept then.
#[must_use]
#[expect(clippy::expect_used, reason = "without random ids two holds could be taken for one")]
pub fn random_id() -> String {
    use std::fmt::Write as _;
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).expect("the system's random source");
    bytes.iter().fold(String::with_capacity(32), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
