//! The envelope's document: how it is written, and how strictly it is read.

use std::fmt::Write as _;

use crate::commit::{BadFormat, Commit, CommitError, Fields, check_format};
use crate::envelope::{Corrupt, Envelope, list_of};
use crate::ids::{Digest, Epoch, Revision, SessionId, TurnNumber};
use crate::json::{self, DEPTH_FILE_MAX};
use crate::plan::Plan;
use crate::record::{Extra, Raw, record};
use crate::report::Report;

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
        /// A copy to look at: it was exported without being handed off, and no store steps it.
        read_only: bool,
    }
}

impl Envelope {
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
        let requires = all.extra.iter().find(|(name, _)| *name == "requires");
        let requires: Vec<String> = requires
            .map(|(_, list)| serde_json::from_str(list.get()).map_err(shape))
            .transpose()?
            .unwrap_or_default();
        if let Some(feature) = requires.first() {
            return Err(Corrupt::TooNew {
                what: format!("it requires `{feature}`, which this version does not have"),
            });
        }
        let fields: EnvelopeFields = serde_json::from_str(text).map_err(shape)?;
        let mut commits = Vec::with_capacity(fields.journal.len());
        for (n, raw) in fields.journal.iter().enumerate() {
            let revision = n as u64 + 1;
            commits.push(Commit::parse_loose(raw.as_str()).map_err(|why| match why {
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
        envelope.read_only = fields.read_only == Some(true);
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
        // An envelope without them has lost them: a damaged name makes an unknown field of a known one.
        let counters = |raw: &Option<Raw>| match raw {
            Some(raw) => json::canonical(raw.as_str(), DEPTH_FILE_MAX),
            None => Ok("nothing".into()),
        };
        say("counters", counters(&fields.counters)?, counters(&derived.counters)?)?;
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
                return Err(Corrupt::Conversation {
                    why: format!("a message was changed (entry {})", said.digest),
                });
            }
            left = rest;
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(Corrupt::Conversation { why: format!("{} messages too many", left.len()) })
        }
    }

    /// What was said under a digest: the canonical list of the messages that the `said` entry names by it.
    #[must_use]
    pub fn content(&self, digest: &Digest) -> Option<String> {
        let mut from = 0;
        for said in &self.session.said {
            let to = from + said.messages as usize;
            if said.digest == *digest {
                return list_of(self.conversation.get(from..to)?).ok();
            }
            from = to;
        }
        None
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
            read_only: self.read_only.then_some(true),
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
