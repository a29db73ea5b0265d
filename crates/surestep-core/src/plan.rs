//! Plans: what a turn is to do, as an agent or a person wrote it, and how it is bound.
//!
//! Binding fixes everything that a later process must not decide anew: order, canonical bodies, keys, terms. What
//! is over a limit or cannot be stored whole is refused here, with the path, and nothing has been written.

use crate::bind::bind_body;
use crate::bound::{Approval, RecoveryClass};
use crate::commit::Fields;
use crate::ids::{Digest, Kind, SessionId, TurnNumber};
use crate::json::{self, DEPTH_FILE_MAX, JsonError};
use crate::key::Key;
pub use crate::near::nearest;
use crate::outcome::Fault;
use crate::record::{Extra, Raw, record};

/// The format that this version reads.
pub const PLAN_FORMAT: &str = "surestep.plan/1";

record! {
    /// One operation of a plan.
    pub struct PlannedOperation {
        /// The kind of effect.
        kind: Kind,
        /// Where: a repository, an account, a host.
        repo: String,
        /// On what: a branch, a number, a path.
        target: String,
        /// The body, in the form of its kind.
        body: Raw,
        ;
        /// The model's id of the call: kept for tracing, never part of the key.
        call_id: String,
        /// Whether a person must say yes first.
        approval: Approval,
        /// Refusals before it fails; default 3.
        attempts: u32,
        /// Time for one attempt, in seconds; default: the kind's.
        deadline_s: u64,
        /// How long a landing may stay invisible, in seconds; it can only raise the kind's.
        lag_s: u64,
    }
}

record! {
    /// A turn's plan.
    pub struct Plan {
        /// Always `surestep.plan/1`.
        format: String,
        /// The operations, in order.
        operations: Vec<PlannedOperation>,
        ;
        /// The session; default: the caller names it.
        session: SessionId,
        /// Who acts, for people.
        agent: String,
        /// What for, for people.
        task: String,
        /// Which turn; default 1.
        turn: TurnNumber,
        /// Messages that the turn adds to the conversation, as they are.
        conversation: Vec<Raw>,
        /// What the turn says when all of it is done.
        verdict: String,
        /// Why, in the planner's words.
        rationale: String,
    }
}

record! {
    /// What makes two plans equal.
    pub struct DigestedPlan {
        /// The turn.
        turn: TurnNumber,
        /// The verdict.
        verdict: String,
        /// The operations, with canonical bodies, without `call_id`.
        operations: Vec<PlannedOperation>,
        ;
    }
}

/// The terms of one planned operation, as the registry resolved them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationTerms {
    /// How doubt ends.
    pub recovery: RecoveryClass,
    /// For `repeat`: how long the remote remembers our key, in milliseconds.
    pub within_ms: Option<u64>,
    /// For `repeat`: whether somebody can be asked afterwards.
    pub then_ask: bool,
    /// Time for one attempt, in milliseconds.
    pub deadline_ms: u64,
    /// How long a landing may stay invisible, in milliseconds.
    pub lag_ms: u64,
    /// Whether all that works on it is below our guard.
    pub local: bool,
    /// Whether a look-up can tell it from an equal operation.
    pub distinguishes: bool,
    /// Refusals before it fails, unless the plan says otherwise.
    pub attempts_max: u32,
    /// Whether a person must say yes first, even if the plan does not say so.
    pub approval: Option<Approval>,
    /// The body's fields that make the key.
    pub identity: Option<Vec<String>>,
    /// `repo` and `target` in the form that makes the key.
    pub place: Option<(String, String)>,
}

/// The terms of a plan's operations, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// One for each operation.
    pub operations: Vec<OperationTerms>,
    /// The folder against which relative paths in bodies are read.
    pub dir: Option<String>,
    /// The plan came from outside: only these kinds may run.
    pub allow: Option<Vec<Kind>>,
}

/// Why a plan cannot be bound. Nothing was written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It is no strict JSON.
    #[error("the plan is not usable JSON: {0}")]
    Json(#[from] JsonError),
    /// Its format is newer than this version.
    #[error("the plan is of a newer version: {found}")]
    TooNew {
        /// What it says.
        found: String,
    },
    /// Its fields are not those of a plan.
    #[error("not a plan: {why}")]
    Shape {
        /// What is wrong.
        why: String,
    },
    /// It has a field that nobody reads: a misspelt one would silently do nothing.
    #[error("`{path}` is not a field of a plan{}", hint.as_ref().map(|h| format!(" (did you mean `{h}`?)")).unwrap_or_default())]
    UnknownField {
        /// Where.
        path: String,
        /// What may have been meant.
        hint: Option<String>,
    },
    /// Something is over a limit.
    #[error("{what} at `{path}`: {found}, the limit is {max}")]
    Limit {
        /// What is limited, with its unit.
        what: &'static str,
        /// Where.
        path: String,
        /// What was found.
        found: u64,
        /// The limit.
        max: u64,
    },
    /// No effect of this kind is registered.
    #[error("no effect of kind `{kind}` is registered (`{path}`); known are: {known}")]
    UnknownKind {
        /// The kind.
        kind: Kind,
        /// Where.
        path: String,
        /// The kinds that are registered.
        known: String,
    },
    /// The plan or session came from outside, and nobody has allowed the kind here.
    #[error("kind `{kind}` is not allowed for what comes from outside (`{path}`); allowed are: {allowed}")]
    NotAllowed {
        /// The kind.
        kind: Kind,
        /// Where.
        path: String,
        /// The kinds that are allowed.
        allowed: String,
    },
    /// The kind refuses the operation.
    #[error("`{path}`: {fault}")]
    Refused {
        /// Where.
        path: String,
        /// What the kind says.
        fault: Fault,
    },
    /// What is to run has a credential in it. The value is said nowhere.
    #[error("`{path}` has a credential in it ({class})")]
    Secret {
        /// What it is taken for.
        class: String,
        /// Where.
        path: String,
    },
    /// A reference to a secret is not of its form.
    #[error("`{path}` is no reference to a secret: {why}")]
    SecretReference {
        /// Where.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Another operation of the session has the same identity and another body.
    #[error(
        "`{path}` has the key {key} of operation {other}, but another body ({bound} is bound, {offered} is offered)"
    )]
    Mismatch {
        /// Where.
        path: String,
        /// The shared key.
        key: Key,
        /// The operation that is bound with it, counted from 1.
        other: u32,
        /// The digest of its body.
        bound: Digest,
        /// The digest of the offered body.
        offered: Digest,
    },
    /// Another plan is bound to this turn.
    #[error("turn {turn} is bound to plan {bound}, this is plan {offered}")]
    AlreadyBound {
        /// The turn.
        turn: TurnNumber,
        /// The digest of the bound plan.
        bound: Digest,
        /// The digest of the offered one.
        offered: Digest,
    },
    /// Its messages do not pair: each call has one result, in this plan or once its turn is over.
    #[error("`{path}`: {why}")]
    Unpaired {
        /// Where.
        path: String,
        /// What does not pair.
        why: String,
    },
    /// The plan names a turn that cannot be opened now.
    #[error("the plan is for turn {offered}, and {}", stands(*current, *finished))]
    TurnOrder {
        /// The turn that it names.
        offered: TurnNumber,
        /// Where the session stands.
        current: TurnNumber,
        /// Whether that turn is finished.
        finished: bool,
    },
    /// The plan names another session.
    #[error("the plan is for session `{offered}`, not `{session}`")]
    OtherSession {
        /// The session that is stepped.
        session: SessionId,
        /// The session that the plan names.
        offered: SessionId,
    },
}

const PLAN_FIELDS: &[&str] =
    &["format", "operations", "session", "agent", "task", "turn", "conversation", "verdict", "rationale"];
const OPERATION_FIELDS: &[&str] =
    &["kind", "repo", "target", "body", "call_id", "approval", "attempts", "deadline_s", "lag_s"];

impl PlannedOperation {
    /// An operation with the terms of its kind.
    #[must_use]
    pub fn new(kind: Kind, repo: impl Into<String>, target: impl Into<String>, body: Raw) -> Self {
        Self {
            kind,
            repo: repo.into(),
            target: target.into(),
            body,
            call_id: None,
            approval: None,
            attempts: None,
            deadline_s: None,
            lag_s: None,
            extra: Extra::default(),
        }
    }
}

impl Plan {
    /// A plan of some operations, with the verdict that it reaches.
    #[must_use]
    pub fn new(verdict: impl Into<String>, operations: Vec<PlannedOperation>) -> Self {
        Self {
            format: PLAN_FORMAT.into(),
            operations,
            session: None,
            agent: None,
            task: None,
            turn: None,
            conversation: None,
            verdict: Some(verdict.into()),
            rationale: None,
            extra: Extra::default(),
        }
    }

    /// Reads a plan file: strict JSON, one byte-order mark allowed, unknown fields refused.
    ///
    /// # Errors
    /// When it is no plan of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, PlanError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = json::text(bytes)?;
        json::check(text, DEPTH_FILE_MAX)?;
        let shape = |e: serde_json::Error| PlanError::Shape { why: e.to_string() };
        let fields: Fields = serde_json::from_str(text).map_err(shape)?;
        crate::commit::check_format(&fields.extra, "surestep.plan/").map_err(|bad| match bad {
            crate::commit::BadFormat::Newer(found) => PlanError::TooNew { found },
            crate::commit::BadFormat::Other(why) => PlanError::Shape { why },
        })?;
        check_fields(&fields, "$", PLAN_FIELDS, &["operations"])?;
        let operations = fields.extra.iter().find(|(name, _)| *name == "operations");
        let operations: Vec<Raw> = operations
            .map(|(_, list)| serde_json::from_str(list.get()))
            .transpose()
            .map_err(shape)?
            .unwrap_or_default();
        for (n, operation) in operations.iter().enumerate() {
            let path = format!("$.operations[{n}]");
            let wrong = |e: serde_json::Error| PlanError::Shape { why: format!("`{path}`: {e}") };
            let fields = serde_json::from_str(operation.as_str()).map_err(wrong)?;
            check_fields(&fields, &path, OPERATION_FIELDS, &["kind", "repo", "target", "body"])?;
            drop(serde_json::from_str::<PlannedOperation>(operation.as_str()).map_err(wrong)?);
        }
        serde_json::from_str(text).map_err(shape)
    }

    /// The turn that it is for.
    #[must_use]
    pub fn turn_number(&self) -> TurnNumber {
        self.turn.unwrap_or(TurnNumber::FIRST)
    }

    /// What makes two plans equal: turn, operations (without `call_id`), verdict. Words of explanation do not count,
    /// since a second inference words them anew.
    ///
    /// # Errors
    /// When a body is not usable.
    pub fn digest(&self) -> Result<Digest, PlanError> {
        let mut operations = Vec::with_capacity(self.operations.len());
        for (n, operation) in self.operations.iter().enumerate() {
            let body = Raw::new(bind_body(operation, n)?.as_str())
                .map_err(|e| PlanError::Shape { why: e.to_string() })?;
            operations.push(PlannedOperation {
                body,
                call_id: None,
                extra: Extra::default(),
                ..operation.clone()
            });
        }
        let what = DigestedPlan {
            turn: self.turn_number(),
            verdict: self.verdict.clone().unwrap_or_default(),
            operations,
            extra: Extra::default(),
        };
        let text = serde_json::to_string(&what).map_err(|e| PlanError::Shape { why: e.to_string() })?;
        let text = json::canonical(&text, DEPTH_FILE_MAX)?;
        Ok(Digest::of(text.as_bytes()))
    }
}

/// A field that nobody reads would silently do nothing. Keys that a caller supplies are ignored and derived anew;
/// `ext` is for the caller.
fn check_fields(fields: &Fields, at: &str, known: &[&str], required: &[&str]) -> Result<(), PlanError> {
    let has = |wanted: &str| fields.extra.iter().any(|(name, _)| name == wanted);
    let strange = |name: &str| !known.contains(&name) && !matches!(name, "ext" | "key");
    if let Some((name, _)) = fields.extra.iter().find(|(name, _)| strange(name)) {
        return Err(PlanError::UnknownField { path: format!("{at}.{name}"), hint: nearest(name, known) });
    }
    match required.iter().find(|name| !has(name)) {
        Some(name) => Err(PlanError::Shape { why: format!("`{at}` has no `{name}`") }),
        None => Ok(()),
    }
}

/// Where a session stands that cannot open the turn that it was offered.
fn stands(current: TurnNumber, finished: bool) -> String {
    match (current.value(), finished) {
        (0, _) => "the session has no turn yet: its first one is turn 1".to_owned(),
        (_, true) => format!("the session stands at turn {current} (finished)"),
        (_, false) => format!("the session stands at turn {current} (not finished)"),
    }
}
