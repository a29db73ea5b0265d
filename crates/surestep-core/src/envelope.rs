//! The envelope: one JSON document with everything that a stranger process needs to go on.
//!
//! Its journal is the truth, its conversation the content that the journal names by digest. Whatever else stands in
//! it is derived, and checked against the fold when it is read. Unknown fields are kept.

use crate::commit::{Commit, CommitError};
use crate::ids::{SessionId, TurnNumber};
use crate::json::{self, DEPTH_FILE_MAX, JsonError};
use crate::misfit::Misfit;
use crate::plan::{Plan, PlanError};
use crate::record::{Extra, Raw};
use crate::report::Report;
use crate::session::Session;

/// A session's whole state as a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    pub(crate) session: Session,
    pub(crate) commits: Vec<Commit>,
    pub(crate) conversation: Vec<Raw>,
    pub(crate) plan: Option<Plan>,
    pub(crate) ext: Option<Raw>,
    pub(crate) read_only: bool,
    pub(crate) extra: Extra,
}

/// Why a text or a list of commits is no envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corrupt {
    /// It is no strict JSON.
    #[error("the envelope is not usable JSON: {0}")]
    Json(#[from] JsonError),
    /// It is newer than this version, or asks for what this version does not have.
    #[error("written by a newer version: {what}")]
    TooNew {
        /// What is unknown here.
        what: String,
    },
    /// Its fields are not those of an envelope.
    #[error("not an envelope: {why}")]
    Shape {
        /// What is wrong.
        why: String,
    },
    /// A commit is damaged.
    #[error("commit {revision}: {why}")]
    Commit {
        /// Its place in the journal.
        revision: u64,
        /// What is wrong.
        #[source]
        why: CommitError,
    },
    /// A commit does not fit those before it.
    #[error("commit {revision}: {why}")]
    Misfit {
        /// Its place in the journal.
        revision: u64,
        /// What is wrong.
        #[source]
        why: Misfit,
    },
    /// A derived field contradicts the journal.
    #[error("`{field}` says {stated}, the journal says {derived}")]
    Contradiction {
        /// The field.
        field: &'static str,
        /// What it says.
        stated: String,
        /// What the journal says.
        derived: String,
    },
    /// The conversation is not the one that the journal names.
    #[error("the conversation is not the one that the journal names: {why}")]
    Conversation {
        /// What is wrong.
        why: String,
    },
}

/// What a plan is to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// It opens the next turn.
    ToBind,
    /// It is bound already, to this turn.
    Same(TurnNumber),
}

impl Envelope {
    /// An envelope of a session that has no commit yet.
    #[must_use]
    pub fn new(session: SessionId) -> Self {
        Self {
            session: Session::new(session),
            commits: Vec::new(),
            conversation: Vec::new(),
            plan: None,
            ext: None,
            read_only: false,
            extra: Extra::default(),
        }
    }

    /// The envelope of a session whose commits these are; its conversation is added by [`Envelope::say`].
    ///
    /// # Errors
    /// [`Corrupt`] when the protocol could not have written them.
    pub fn from_commits(session: SessionId, commits: Vec<Commit>) -> Result<Self, Corrupt> {
        let mut envelope = Self::new(session);
        for commit in &commits {
            let revision = commit.revision().value();
            envelope.session.take(commit).map_err(|why| Corrupt::Misfit { revision, why })?;
        }
        envelope.commits = commits;
        Ok(envelope)
    }

    /// Takes one more commit.
    ///
    /// # Errors
    /// When it does not fit; the envelope must not be used any more then.
    pub fn take(&mut self, commit: Commit) -> Result<(), Misfit> {
        self.session.take(&commit)?;
        self.commits.push(commit);
        Ok(())
    }

    /// The same envelope with a plan to bind.
    #[must_use]
    pub fn with_plan(mut self, plan: Plan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// The plan to bind, taken out.
    pub fn take_plan(&mut self) -> Option<Plan> {
        self.plan.take()
    }

    /// The same envelope as a copy to look at: no store steps it.
    #[must_use]
    pub const fn for_reading(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Whether it is a copy to look at.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// What its journal amounts to.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Its commits.
    #[must_use]
    pub fn commits(&self) -> &[Commit] {
        &self.commits
    }

    /// What was said, as raw JSON messages: what is kept. For a model, see [`Envelope::conversation_with_results`].
    #[must_use]
    pub fn conversation(&self) -> &[Raw] {
        &self.conversation
    }

    /// Adds the content of one `said` entry: a canonical JSON list of messages.
    pub fn say(&mut self, list: &str) {
        if let Ok(messages) = serde_json::from_str::<Vec<Raw>>(list) {
            self.conversation.extend(messages);
        }
    }

    /// Takes over from another envelope of the same session what no journal holds.
    #[must_use]
    pub fn with_ext_of(mut self, other: &Self) -> Self {
        self.ext.clone_from(&other.ext);
        self.extra.clone_from(&other.extra);
        self
    }

    /// What a plan would be to this session.
    ///
    /// # Errors
    /// When it can be neither bound nor is it the bound one: a refusal before anything is written.
    pub fn compare(&self, plan: &Plan) -> Result<Compared, PlanError> {
        let session = &self.session;
        if let Some(offered) = plan.session.as_ref().filter(|s| **s != session.id) {
            return Err(PlanError::OtherSession { session: session.id.clone(), offered: offered.clone() });
        }
        let turn = plan.turn_number();
        let offered = plan.digest()?;
        if let Some(bound) = session.turns.iter().find(|t| t.number == turn) {
            return if bound.digest == offered {
                Ok(Compared::Same(turn))
            } else {
                Err(PlanError::AlreadyBound { turn, bound: bound.digest, offered })
            };
        }
        let (current, finished) =
            session.turn().map_or((TurnNumber::new(0), true), |t| (t.number, t.ended.is_some()));
        if turn == current.next() && finished {
            Ok(Compared::ToBind)
        } else {
            Err(PlanError::TurnOrder { offered: turn, current, finished })
        }
    }

    /// The report of a turn that is finished.
    #[must_use]
    pub fn report(&self, turn: TurnNumber) -> Option<Report> {
        self.session.turns.iter().find(|t| t.number == turn).and_then(|t| Report::of(&self.session, t))
    }

    /// Whether this envelope stands on a chain, and where: its head is the sum of the chain's commit of its revision.
    #[must_use]
    pub fn is_on(&self, chain: &Session) -> bool {
        match self.session.head {
            None => true,
            Some(head) => {
                let place =
                    usize::try_from(self.session.revision.value()).ok().and_then(|n| n.checked_sub(1));
                place.and_then(|n| chain.chain.get(n)) == Some(&head)
            }
        }
    }
}

impl Session {
    /// Where it stands, in one word.
    #[must_use]
    pub fn status(&self) -> &'static str {
        use crate::entry::End;
        use crate::operation::State;
        if self.handed_off.is_some() {
            return "handed_off";
        }
        match self.turn().map(|t| t.ended) {
            None => "new",
            Some(Some(End::Completed)) => "completed",
            Some(Some(End::Failed)) => "failed",
            Some(Some(End::Cancelled)) => "cancelled",
            Some(None) if self.operations.iter().any(|o| o.state == State::InDoubt) => "in_doubt",
            Some(None) if self.operations.iter().any(|o| o.state == State::Intended) => "intended",
            Some(None) => "open",
        }
    }
}

impl Plan {
    /// The messages that it adds, as a canonical list, with their number.
    pub(crate) fn messages(&self) -> Result<Option<(String, u32)>, PlanError> {
        match self.conversation.as_deref() {
            None | Some([]) => Ok(None),
            Some(messages) => {
                let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
                Ok(Some((list_of(messages)?, count)))
            }
        }
    }
}

/// Messages as one canonical JSON list.
pub(crate) fn list_of(messages: &[Raw]) -> Result<String, JsonError> {
    let texts: Vec<&str> = messages.iter().map(Raw::as_str).collect();
    json::canonical(&format!("[{}]", texts.join(",")), DEPTH_FILE_MAX)
}
