//! Why a step could not do its job, sorted by who must act. An ambiguous turn is not among these: it is an outcome.

use surestep_core::{
    Attempt, Corrupt, Digest, Epoch, Key, Misfit, OpNumber, Outcome, PlanError, Refused, Rest, Revision,
    SessionId,
};

use crate::secret::SecretError;
use crate::store::{Holder, StoreError};

/// What this process saw of an attempt although it could not record it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The operation.
    pub op: OpNumber,
    /// Its key.
    pub key: Key,
    /// The attempt.
    pub attempt: Attempt,
    /// What was seen.
    pub outcome: Outcome,
}

/// Why a step could not do its job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Somebody else holds the session. Nothing was done.
    #[error("session `{session}` is held by {}", holder.what)]
    Busy {
        /// The session.
        session: SessionId,
        /// Who, for people.
        holder: Holder,
    },
    /// Somebody else took the session over. Nothing more was done.
    #[error("session `{session}` was taken over: this owner's epoch is {ours}, the session's is {theirs}")]
    Fenced {
        /// The session.
        session: SessionId,
        /// The epoch of this owner.
        ours: Epoch,
        /// The epoch that it stands at.
        theirs: Epoch,
        /// What this owner saw, kept as late evidence.
        observed: Option<Box<Observed>>,
    },
    /// The store could not do what it was asked.
    #[error("{}", observed.as_ref().map_or("the store refused", |o| o.not_recorded()))]
    Store {
        /// What it said.
        #[source]
        source: StoreError,
        /// What this process saw and could not record.
        observed: Option<Box<Observed>>,
        /// Whether the commit may have been published all the same.
        indeterminate: bool,
    },
    /// The plan is refused. Nothing was written.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A secret that an operation refers to is not to be had, so nothing of it was sent or asked.
    #[error("operation {op} of `{session}`: {source}")]
    Secret {
        /// The session.
        session: SessionId,
        /// The operation.
        op: OpNumber,
        /// Whether an earlier attempt of it may have landed, and only the look-up needs the secret.
        in_doubt: bool,
        /// Why.
        #[source]
        source: SecretError,
    },
    /// A person's word was refused. Nothing was written.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The journal or the envelope is damaged. Nothing was changed.
    #[error("session `{session}`: {source}")]
    Corrupt {
        /// The session.
        session: SessionId,
        /// What is wrong.
        #[source]
        source: Corrupt,
    },
    /// The envelope is not of this store's chain. Nothing was done.
    #[error("the envelope of `{session}` is not on this store's chain: at revision {revision} it has {theirs}, the store {}", ours.map_or("nothing".to_owned(), |d| d.to_string()))]
    Diverged {
        /// The session.
        session: SessionId,
        /// The envelope's revision.
        revision: Revision,
        /// The store's sum at that revision.
        ours: Option<Digest>,
        /// The envelope's head.
        theirs: Digest,
    },
    /// The envelope is ahead of its store. Nothing was done.
    #[error("the envelope of `{session}` is at revision {theirs}, its store at {ours}")]
    StoreBehind {
        /// The session.
        session: SessionId,
        /// The store's revision.
        ours: Revision,
        /// The envelope's revision.
        theirs: Revision,
    },
    /// The envelope is a copy to look at. Nothing was done.
    #[error("the envelope of `{session}` is a copy to look at: it was exported without being handed off")]
    ReadOnly {
        /// The session.
        session: SessionId,
    },
    /// The session is not at this store. Nothing was done.
    #[error("session `{session}` lives in store {home}")]
    Elsewhere {
        /// The session.
        session: SessionId,
        /// The store that it is at, or on its way to.
        home: String,
    },
    /// The envelope's session is not of this store, and was not handed off to it. Nothing was done.
    #[error("session `{session}` is not known here, and was not handed off to this store")]
    NotHandedOff {
        /// The session.
        session: SessionId,
        /// The store that it is at, or on its way to, where its journal says so.
        home: Option<String>,
    },
    /// An operation may have landed, so the session stays. What could be found out was; nothing else was done.
    #[error("operation {op} of `{session}` may have landed: it is settled before the session moves")]
    InDoubt {
        /// The session.
        session: SessionId,
        /// The operation.
        op: OpNumber,
        /// What it waits for.
        rest: Box<Rest>,
    },
    /// There is no such session.
    #[error("there is no session `{session}`")]
    NoSuchSession {
        /// The session.
        session: SessionId,
    },
    /// The engine contradicts itself. Nothing more was done.
    #[error("BUG: {0}")]
    Broken(#[from] Misfit),
}

impl Observed {
    const fn not_recorded(&self) -> &'static str {
        match &self.outcome {
            Outcome::Landed(_) => "landed, not recorded",
            Outcome::NotLanded(..) | Outcome::NotSent(_) => "did not land, not recorded",
            Outcome::Unknown(_) | Outcome::Ended(_) | Outcome::Over(_) => "outcome unknown, not recorded",
        }
    }
}

impl StepError {
    /// The stable code: `docs/errors/CODE.md` explains it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "SE0301",
            Self::Fenced { .. } => "SE0302",
            Self::Store { indeterminate: true, .. } => "SE0504",
            Self::Store { source, .. } => source.code(),
            Self::Plan(e) => plan_code(e),
            Self::Secret { .. } => "SE0404",
            Self::Refused(e) => refused_code(e),
            Self::Corrupt { source: Corrupt::TooNew { .. }, .. } => "SE0701",
            Self::Corrupt { .. } => "SE0601",
            Self::Diverged { .. } => "SE0801",
            Self::StoreBehind { .. } => "SE0802",
            Self::ReadOnly { .. } => "SE0803",
            Self::NotHandedOff { .. } => "SE0804",
            Self::InDoubt { .. } => "SE0805",
            Self::Elsewhere { .. } => "SE0416",
            Self::NoSuchSession { .. } => "SE0901",
            Self::Broken(_) => "SE0001",
        }
    }

    /// The exit code of the command line for it.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        use crate::exit;
        match self {
            Self::Busy { .. } | Self::Fenced { .. } => exit::HELD,
            Self::Store { source, .. } => source.exit_code(),
            Self::Plan(PlanError::TooNew { .. }) => exit::VERSION,
            Self::Plan(_) | Self::Secret { .. } => exit::USAGE,
            Self::Refused(Refused::TooEarly { .. }) => exit::UNTIL,
            Self::Refused(Refused::NoSuchOperation) => exit::NO_SUCH,
            Self::Refused(Refused::Held { .. }) => exit::HELD,
            Self::Refused(Refused::Broken(_)) | Self::Broken(_) => exit::UNEXPECTED,
            Self::Refused(_) => exit::USAGE,
            Self::Corrupt { source: Corrupt::TooNew { .. }, .. } => exit::VERSION,
            Self::Corrupt { .. } => exit::INTEGRITY,
            Self::Diverged { .. } => exit::DIVERGED,
            Self::StoreBehind { .. } => exit::INTEGRITY,
            Self::ReadOnly { .. } => exit::USAGE,
            Self::NotHandedOff { .. } | Self::Elsewhere { .. } => exit::HELD,
            Self::InDoubt { rest, .. } => match exit::of(rest) {
                exit::DONE => exit::UNTIL,
                code => code,
            },
            Self::NoSuchSession { .. } => exit::NO_SUCH,
        }
    }
}

/// The stable code of a plan's refusal.
#[must_use]
pub const fn plan_code(error: &PlanError) -> &'static str {
    match error {
        PlanError::TooNew { .. } => "SE0702",
        PlanError::UnknownField { .. } => "SE0202",
        PlanError::NotAllowed { .. } => "SE0217",
        PlanError::Limit { .. } => "SE0203",
        PlanError::UnknownKind { .. } => "SE0204",
        PlanError::Refused { .. } => "SE0205",
        PlanError::Mismatch { .. } => "SE0206",
        PlanError::AlreadyBound { .. } => "SE0207",
        PlanError::TurnOrder { .. } => "SE0208",
        PlanError::OtherSession { .. } => "SE0209",
        PlanError::Secret { .. } => "SE0210",
        PlanError::SecretReference { .. } => "SE0211",
        PlanError::Unpaired { .. } => "SE0214",
        PlanError::Json(_) | PlanError::Shape { .. } | _ => "SE0201",
    }
}

const fn refused_code(error: &Refused) -> &'static str {
    match error {
        Refused::TooEarly { .. } => "SE0401",
        Refused::Moved { .. } => "SE0403",
        Refused::NoSuchOperation => "SE0902",
        Refused::Broken(_) => "SE0001",
        Refused::NotAsked { .. }
        | Refused::Known { .. }
        | Refused::Held { .. }
        | Refused::NothingOpen
        | _ => "SE0402",
    }
}

impl StoreError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "SE0901",
            Self::Busy { .. } => "SE0301",
            Self::HoldLost { .. } => "SE0303",
            Self::Corrupt { .. } => "SE0601",
            Self::RolledBack { .. } => "SE0602",
            Self::Gone { .. } => "SE0603",
            Self::Pruned { .. } => "SE0604",
            Self::TooNew { .. } => "SE0701",
            Self::Full { .. } => "SE0501",
            Self::Io { .. } | Self::Other(_) => "SE0502",
            Self::Volatile { .. } => "SE0503",
            Self::Poisoned { .. } => "SE0505",
            Self::Unsupported { .. } => "SE0506",
        }
    }

    /// The exit code of the command line for it.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        use crate::exit;
        match self {
            Self::Absent { .. } => exit::NO_SUCH,
            Self::Busy { .. } | Self::HoldLost { .. } => exit::HELD,
            Self::Corrupt { .. } | Self::RolledBack { .. } | Self::Gone { .. } => exit::INTEGRITY,
            Self::TooNew { .. } => exit::VERSION,
            Self::Full { .. } | Self::Io { .. } | Self::Poisoned { .. } | Self::Other(_) => exit::STORE,
            Self::Volatile { .. } | Self::Unsupported { .. } | Self::Pruned { .. } => exit::USAGE,
        }
    }
}
