//! A commit between its making and its publishing: durable, or dropped.

use crate::commit::{COMMIT_FORMAT, Commit, CommitFields};
use crate::entry::{Entry, Released};
use crate::ids::{Attempt, Epoch, OpNumber};
use crate::misfit::Misfit;
use crate::record::Extra;
use crate::session::{Operation, Session};
use crate::time::Now;
use crate::turn::Turn;

pub(crate) fn seal(session: &Session, entries: Vec<Entry>, now: &Now) -> Result<Commit, Misfit> {
    Commit::seal(CommitFields {
        format: COMMIT_FORMAT.into(),
        session: session.id.clone(),
        revision: session.revision.next(),
        epoch: session.epoch,
        at: now.wall,
        entries,
        prev: session.head,
        extra: Extra::default(),
    })
    .map_err(|e| Misfit::Order { entry: "commit", why: e.to_string() })
}

/// A commit to publish. Dropping it means that it failed: reload.
#[must_use]
#[derive(Debug)]
pub struct Staged {
    turn: Turn,
    commit: Commit,
    before_intent: Option<Operation>,
    now: Now,
}

impl Staged {
    pub(crate) const fn new(turn: Turn, commit: Commit, before_intent: Option<Operation>, now: Now) -> Self {
        Self { turn, commit, before_intent, now }
    }

    /// The session as it stands with this commit.
    #[must_use]
    pub const fn session(&self) -> &Session {
        self.turn.session()
    }

    /// The commit.
    #[must_use]
    pub const fn commit(&self) -> &Commit {
        &self.commit
    }

    /// Content that the commit names by digest: it must be durable first.
    #[must_use]
    pub fn content(&self) -> &[String] {
        &self.turn.content
    }

    /// The attempt that begins once this is durable.
    #[must_use]
    pub fn intent(&self) -> Option<(OpNumber, Attempt)> {
        self.commit.entries().iter().find_map(|entry| match entry {
            Entry::Intended(e) => Some((e.op, e.attempt)),
            Entry::Opened(_)
            | Entry::Said(_)
            | Entry::Bound(_)
            | Entry::Claimed(_)
            | Entry::Released(_)
            | Entry::Succeeded(_)
            | Entry::Failed(_)
            | Entry::Doubted(_)
            | Entry::Approved(_)
            | Entry::Denied(_)
            | Entry::Skipped(_)
            | Entry::Cancelled(_)
            | Entry::Finished(_)
            | Entry::HandedOff(_)
            | Entry::Restored(_) => None,
        })
    }

    /// The epoch that it was staged under; the commit is given up.
    #[must_use]
    pub fn into_epoch(self) -> Epoch {
        self.commit.epoch()
    }

    /// The same commit without its intent, letting the session go: for when there is no room for a settle.
    ///
    /// # Errors
    /// As [`Turn::next`].
    pub fn without_intent(mut self) -> Result<Self, Misfit> {
        let Some(before) = self.before_intent.take() else { return Ok(self) };
        let mut fields = self.commit.into_fields();
        fields.entries.pop();
        if let Some(operation) = self.turn.envelope.session.operations.get_mut(before.number.index()) {
            *operation = before;
        }
        self.turn.pending = fields.entries;
        self.turn.push(Released { extra: Extra::default() }.into(), &self.now)?;
        let entries = std::mem::take(&mut self.turn.pending);
        self.commit = seal(self.turn.session(), entries, &self.now)?;
        Ok(self)
    }

    /// The same commit without the results that end its turn, letting the session go: for when there is no room for
    /// them, and an attempt to settle. `None` where there are no results in it, or nothing to settle.
    ///
    /// # Errors
    /// As [`Turn::next`].
    pub fn without_results(mut self) -> Result<Option<Self>, Misfit> {
        let mut fields = self.commit.into_fields();
        let last = fields.entries.iter().position(|entry| matches!(entry, Entry::Finished(_)));
        let Some(at) = last.and_then(|finished| finished.checked_sub(1)) else { return Ok(None) };
        let Some(Entry::Said(said)) = fields.entries.get(at) else { return Ok(None) };
        let messages = said.messages as usize;
        fields.entries.truncate(at);
        if !fields.entries.iter().any(|e| matches!(e, Entry::Succeeded(_) | Entry::Failed(_))) {
            return Ok(None);
        }
        let envelope = &mut self.turn.envelope;
        envelope.conversation.truncate(envelope.conversation.len().saturating_sub(messages));
        envelope.session.said.pop();
        if let Some(turn) = envelope.session.turns.last_mut() {
            turn.ended = None;
        }
        envelope.session.owner = Some((self.turn.me.hold.clone(), self.turn.me.owner.clone()));
        self.turn.content.pop();
        self.turn.pending = fields.entries;
        self.turn.push(Released { extra: Extra::default() }.into(), &self.now)?;
        let entries = std::mem::take(&mut self.turn.pending);
        self.commit = seal(self.turn.session(), entries, &self.now)?;
        Ok(Some(self))
    }

    /// The commit is durable: goes on.
    #[must_use]
    pub fn committed(self) -> Turn {
        let fresh = self.intent();
        let Self { mut turn, commit, .. } = self;
        turn.fresh = fresh.or(turn.fresh);
        turn.content.clear();
        turn.envelope.session.sealed(&commit);
        turn.envelope.commits.push(commit);
        turn
    }
}
