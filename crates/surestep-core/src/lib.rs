//! The surestep protocol: durable agent turns with journaled effects, pure. Nothing here awaits, reads a clock,
//! draws a random number or touches a file.
//!
//! A *session* is a journal and its [`Envelope`]; it has *turns*, each with one bound plan of side-effecting
//! operations. The journal is a chain of [`Commit`]s. Before an operation is attempted its `intended` entry is durable;
//! afterwards `succeeded` or `failed` is. Between the two stands *doubt*, and doubt ends by evidence: a look-up, late
//! evidence, or a person.
//!
//! # Invariants
//! - **I1** No execution without a durable `intended` of this epoch and attempt.
//! - **I2** An operation that may have landed runs again only after an earned *not landed*, a person's answer, or
//!   under `repeat`.
//! - **I3** Keys are fixed at bind.
//! - **I4** Only the lowest unsettled operation of a lane is active.
//! - **I5** Revision grows by one per commit, and `prev` matches.
//! - **I6** Epoch never falls, and a fenced owner cannot commit.
//! - **I7** `finished: completed` only if every operation is succeeded or skipped.
//! - **I8** Attempt numbers only grow, and the count survives restarts.
//! - **I9** An operation that is succeeded, finally failed, denied or skipped never changes again.
//! - **I10** Every call message in the conversation has exactly one result once its turn is finished.
//!
//! [`invariants::check`] and [`invariants::check_conversation`] hold a journal against them, independently of the fold
//! that the machine uses.
//!
//! # Where to read
//! [`operation`] is the table of states, [`Turn`] the machine, [`absence`] the rule for "not found",
//! [`commit`] the chain, [`plan`] and [`bind`] the way in.

pub mod absence;
mod answer;
pub mod bind;
mod body;
mod bound;
mod call;
pub mod commit;
mod conversation;
mod conversation_results;
mod document;
pub mod entry;
mod envelope;
pub mod fold;
mod fold_operation;
mod handed;
mod ids;
pub mod invariants;
pub mod json;
mod key;
pub mod limits;
mod misfit;
mod moves;
mod near;
mod need;
pub mod operation;
mod outcome;
pub mod plan;
mod record;
mod report;
mod request;
mod restored;
#[cfg(feature = "schema")]
pub mod schema;
mod session;
mod settle;
mod staged;
mod time;
mod turn;

pub use absence::Proof;
pub use answer::Refused;
pub use body::Body;
pub use bound::{Approval, BoundOperation, RecoveryClass};
pub use call::Call;
pub use commit::{Commit, CommitError};
pub use conversation_results::{RESULT_NOT_STARTED, RESULT_UNKNOWN};
pub use document::ENVELOPE_FORMAT;
pub use entry::{End, Entry};
pub use envelope::{Compared, Corrupt, Envelope};
pub use handed::{Doubt, Intent};
pub use ids::{
    Attempt, BadId, Digest, Epoch, HoldId, Kind, OpNumber, RequestId, Revision, SessionId, TurnNumber,
};
pub use key::{IdentityError, Key, Seed, identity_text};
pub use misfit::Misfit;
pub use moves::NotHandedOff;
pub use need::question;
pub use operation::State;
pub use outcome::{Counts, Evidence, Fault, Finding, Outcome, Receipt, Retry, Via, cut};
pub use plan::{OperationTerms, Plan, PlanError, PlannedOperation, Terms};
pub use record::{Extra, Raw};
pub use report::{About, Line, Question, Report, Rest};
pub use request::{Request, Word};
pub use session::{AttemptRecord, BoundTurn, Operation, Session};
pub use staged::Staged;
pub use time::{Mark, Now, Pause, Stamp, Wall};
pub use turn::{Me, Next, Rested, Turn};
