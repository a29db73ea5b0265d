//! The envelope: one JSON document with everything that a stranger process needs to go on.
//!
//! Its journal is the truth, its conversation the content that the journal names by digest. Whatever else stands in
//! it is derived, and checked against the fold when it is read. Unknown fields are kept.

use std::fmt::Write as _;

use crate::commit::{BadFormat, Commit, CommitError, Fields, check_format};
use crate::fold::Misfit;
use crate::ids::{Digest, Epoch, Revision, SessionId, TurnNumber};
use crate::json::{self, DEPTH_FILE_MAX, JsonError};
use crate::plan::{Plan, PlanError};
use crate::record::{Extra, Raw, record};
use crate::report::Report;
use crate::session::Session;

/// The format that this version writes.
pub const ENVELOPE_FORMAT: &str = "surestep.envelope/1";

record! {
    /// An envelope's fields as they stand in its document.
    pub struct EnvelopeFields {
        /// Always `surestep.envelope/1`.
        format: String,
        /// Features that a reader must understand.
        requires: Vec<String>,
        /// The session.
        session: SessionId,
        /// The number of commits.
        revision: Revision,
        /// The epoch.
        epoch: Epoch,
        /// Where it stands, in one word.
        status: String,
        /// What was said.
        conversation: Vec<Raw>,
        /// The commits.
        journal: Vec<Raw>,
        ;
        /// The last commit's sum.
        head: Digest,
        /// Who acts.
        agent: String,
        /// What for.
        task: String,
        /// The present turn.
        turn: TurnNumber,
        /// A plan to bind; absent and null mean: go on.
        plan: Plan,
        /// The verdict of a finished turn.
        verdict: String,
        /// The planner's reason.
        rationale: String,
        /// Attempts, refusals and restarts per operation, for people; loop-breakers are folded from the journal.
        counters: Raw,
        /// W3C trace context.
        traceparent: String,
        /// For the caller.
        ext: Raw,
    }
}

/// A session's whole state as a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    pub(crate) session: Session,
    pub(crate) commits: Vec<Commit>,
    pub(crate) conversation: Vec<Raw>,
    pub(crate) plan: Option<Plan>,
    pub(crate) ext: Option<Raw>,
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

    /// What was said, as raw JSON messages.
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
        let (current, finished) = session.turn().map_or((TurnNumber::new(0), true), |t| (t.number, t.ended.is_some()));
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
                let place = usize::try_from(self.session.revision.value()).ok().and_then(|n| n.checked_sub(1));
                place.and_then(|n| chain.chain.get(n)) == Some(&head)
            }
        }
    }

    /// Reads an envelope's document.
    ///
    /// # Errors
    /// [`Corrupt`]: nothing is read by halves.
    pub fn parse(bytes: &[u8]) -> Result<Self, Corrupt> {
        let text = json::text(bytes)?;
        json::check(text, DEPTH_FILE_MAX)?;
        let shape = |e: serde_json::Error| Corrupt::Shape { why: e.to_string() };
        let all: Fields = serde_json::from_str(text).map_err(shape)?;
        check_format(&all.extra, "surestep.envelope/").map_err(|bad| match bad {
            BadFormat::Newer(what) => Corrupt::TooNew { what },
            BadFormat::Other(why) => Corrupt::Shape { why },
        })?;
        let fields: EnvelopeFields = serde_json::from_str(text).map_err(shape)?;
        if let Some(feature) = fields.requires.first() {
            return Err(Corrupt::TooNew { what: format!("it requires `{feature}`, which this version does not have") });
        }
        let mut commits = Vec::with_capacity(fields.journal.len());
        for (n, raw) in fields.journal.iter().enumerate() {
            let revision = n as u64 + 1;
            commits.push(Commit::from_loose(raw.as_str()).map_err(|why| match why {
                CommitError::TooNew { what } => Corrupt::TooNew { what },
                CommitError::Json(_) | CommitError::Shape { .. } | CommitError::Sum { .. } => {
                    Corrupt::Commit { revision, why }
                }
            })?);
        }
        let mut envelope = Self::from_commits(fields.session.clone(), commits)?;
        envelope.check_derived(&fields)?;
        envelope.check_conversation(&fields.conversation)?;
        envelope.conversation = fields.conversation;
        envelope.plan = fields.plan;
        envelope.ext = fields.ext;
        envelope.extra = fields.extra;
        Ok(envelope)
    }

    fn check_derived(&self, fields: &EnvelopeFields) -> Result<(), Corrupt> {
        let derived = self.fields();
        let say = |field, stated: String, derived: String| {
            if stated == derived { Ok(()) } else { Err(Corrupt::Contradiction { field, stated, derived }) }
        };
        say("revision", fields.revision.to_string(), derived.revision.to_string())?;
        say("epoch", fields.epoch.to_string(), derived.epoch.to_string())?;
        say("status", fields.status.clone(), derived.status.clone())?;
        say("head", format!("{:?}", fields.head), format!("{:?}", derived.head))?;
        say("turn", format!("{:?}", fields.turn), format!("{:?}", derived.turn))?;
        for (field, stated, derived) in [
            ("agent", &fields.agent, &derived.agent),
            ("task", &fields.task, &derived.task),
            ("verdict", &fields.verdict, &derived.verdict),
            ("rationale", &fields.rationale, &derived.rationale),
        ] {
            say(field, format!("{stated:?}"), format!("{derived:?}"))?;
        }
        if let (Some(stated), Some(derived)) = (&fields.counters, &derived.counters) {
            let stated = json::canonical(stated.as_str(), DEPTH_FILE_MAX)?;
            say("counters", stated, json::canonical(derived.as_str(), DEPTH_FILE_MAX)?)?;
        }
        Ok(())
    }

    /// Each `said` entry names the next messages by the digest of their canonical list.
    fn check_conversation(&self, messages: &[Raw]) -> Result<(), Corrupt> {
        let mut left = messages;
        for said in &self.session.said {
            let count = said.messages as usize;
            let (these, rest) = left
                .split_at_checked(count)
                .ok_or_else(|| Corrupt::Conversation { why: format!("{count} messages are missing") })?;
            let list = list_of(these).map_err(|e| Corrupt::Conversation { why: e.to_string() })?;
            if Digest::of(list.as_bytes()) != said.digest {
                return Err(Corrupt::Conversation { why: format!("a message was changed (entry {})", said.digest) });
            }
            left = rest;
        }
        if left.is_empty() { Ok(()) } else { Err(Corrupt::Conversation { why: format!("{} messages too many", left.len()) }) }
    }

    fn fields(&self) -> EnvelopeFields {
        let session = &self.session;
        let turn = session.turn();
        let mut counters = String::from("[");
        for operation in &session.operations {
            let (n, attempts) = (operation.number, operation.attempts.len());
            let comma = if counters.len() > 1 { "," } else { "" };
            let (answers, restarts) = (operation.answers, operation.restarts);
            let _ = write!(
                counters,
                r#"{comma}{{"op":{n},"attempts":{attempts},"answers":{answers},"restarts":{restarts}}}"#
            );
        }
        counters.push(']');
        EnvelopeFields {
            format: ENVELOPE_FORMAT.into(),
            requires: Vec::new(),
            session: session.id.clone(),
            revision: session.revision,
            epoch: session.epoch,
            status: session.status().into(),
            conversation: Vec::new(),
            journal: Vec::new(),
            head: session.head,
            agent: session.opened.as_ref().map(|o| o.agent.clone()),
            task: session.opened.as_ref().map(|o| o.task.clone()),
            turn: turn.map(|t| t.number),
            plan: None,
            verdict: turn.and_then(|t| Report::of(session, t)).map(|r| r.verdict),
            rationale: turn.and_then(|t| t.rationale.clone()),
            counters: Raw::new(counters).ok(),
            traceparent: session.opened.as_ref().and_then(|o| o.traceparent.clone()),
            ext: None,
            extra: Extra::default(),
        }
    }

    /// Writes the envelope's document. Pass it on as bytes: a tool that rewrites numbers breaks the chain.
    ///
    /// # Errors
    /// Only if a carried text is no JSON, which reading it excluded.
    pub fn to_json(&self) -> Result<String, Corrupt> {
        let shape = |e: serde_json::Error| Corrupt::Shape { why: e.to_string() };
        let mut fields = self.fields();
        fields.conversation.clone_from(&self.conversation);
        for commit in &self.commits {
            fields.journal.push(Raw::new(commit.text()).map_err(shape)?);
        }
        fields.plan.clone_from(&self.plan);
        fields.ext.clone_from(&self.ext);
        fields.extra.clone_from(&self.extra);
        serde_json::to_string(&fields).map_err(shape)
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
fn list_of(messages: &[Raw]) -> Result<String, JsonError> {
    let texts: Vec<&str> = messages.iter().map(Raw::as_str).collect();
    json::canonical(&format!("[{}]", texts.join(",")), DEPTH_FILE_MAX)
}
