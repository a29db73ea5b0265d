//! A session's way from one store to another. It moves, and is never copied: it steps only at its home.
//!
//! `handed_off{to, epoch}` ends it at its old home; `claimed{epoch, store, allow}` with that store and that epoch takes
//! it in at the new one. Between the two it is nowhere: every copy of the chain, whole or in part, refuses to step.

use crate::answer::Refused;
use crate::commit::Commit;
use crate::entry::{Claimed, Entry, HandedOff};
use crate::envelope::{Corrupt, Envelope, list_of};
use crate::ids::{Kind, OpNumber, Revision};
use crate::misfit::Misfit;
use crate::record::Extra;
use crate::request::Request;
use crate::time::Now;
use crate::turn::{Me, Next, Turn};

/// Why a session cannot be handed off. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotHandedOff {
    /// An operation may have landed: that is settled here, first.
    #[error("operation {op} may have landed: it is settled here first")]
    Open {
        /// The operation.
        op: OpNumber,
    },
    /// The machine contradicts its own table.
    #[error("BUG: {0}")]
    Broken(#[from] Misfit),
}

impl Turn {
    /// The claim of this hold.
    pub(crate) fn claiming(&self, store: Option<String>, allow: Option<Vec<Kind>>) -> Claimed {
        let Me { hold, owner, .. } = self.me.clone();
        Claimed {
            epoch: self.session().epoch_floor().next(),
            hold,
            owner,
            store,
            allow,
            extra: Extra::default(),
        }
    }

    /// Hands the session off to another store: the commit to publish, after which it steps nowhere until that store
    /// has taken it in.
    ///
    /// # Errors
    /// [`NotHandedOff`]: nothing was written.
    pub fn hand_off(mut self, to: String, now: &Now) -> Result<Next, NotHandedOff> {
        if let Some(open) = self.session().operations.iter().find(|o| o.state.is_open()) {
            return Err(NotHandedOff::Open { op: open.number });
        }
        self.claim(now)?;
        let epoch = self.session().epoch_floor().next();
        self.push(HandedOff { to, epoch, extra: Extra::default() }.into(), now)?;
        Ok(self.stage(now, None)?)
    }

    /// Takes a session in that was handed off to this hold's store; from here on only some kinds may run in the turn
    /// that came with it, if a list is given.
    ///
    /// # Errors
    /// When it was not handed off to this store.
    pub fn take_in(mut self, allow: Option<Vec<Kind>>, now: &Now) -> Result<Next, Misfit> {
        let claimed = self.claiming(Some(self.me.store.clone()), allow);
        self.push(claimed.into(), now)?;
        let why = self.standing(now);
        self.stage_or_rest(now, why)
    }

    /// Folds a word from the mailbox in, if it fits; the turn goes on in either case.
    #[must_use]
    pub fn fold(self, request: &Request, now: &Now) -> (Self, Option<Refused>) {
        if !request.word.keeps() {
            let op = request.op.unwrap_or(OpNumber::FIRST);
            return (self, Some(Refused::Held { op }));
        }
        match self.copy().answer(request, now) {
            Ok(turn) => (turn, None),
            Err(refused) => (self, Some(refused)),
        }
    }
}

impl Envelope {
    /// Its commits after a revision, each with the content that it names by digest: what a store that takes the
    /// session in has to publish.
    ///
    /// # Errors
    /// When the conversation is not the one that the journal names, which reading the envelope excluded.
    pub fn since(&self, revision: Revision) -> Result<Vec<(&Commit, Vec<String>)>, Corrupt> {
        let mut left = self.conversation.as_slice();
        let mut out = Vec::new();
        for commit in &self.commits {
            let mut content = Vec::new();
            for entry in commit.entries() {
                let Entry::Said(said) = entry else { continue };
                let missing = || Corrupt::Conversation { why: "messages are missing".into() };
                let (these, rest) = left.split_at_checked(said.messages as usize).ok_or_else(missing)?;
                content.push(list_of(these)?);
                left = rest;
            }
            if commit.revision() > revision {
                out.push((commit, content));
            }
        }
        Ok(out)
    }
}
