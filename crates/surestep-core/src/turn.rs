//! The protocol as a machine without I/O: [`Turn::next`] says what must happen, the caller does it and reports.
//!
//! The machine owns every decision; the caller owns clocks, durability and the world. Each answer is an owned
//! command that offers only its legal continuation, so that executing before the intent is durable, settling twice
//! or going on after a failed commit does not compile:
//!
//! ```text
//! Next::Commit(Staged)    --committed()-->  Turn      (dropped: the commit failed, reload)
//! Next::Execute(Intent)   --settle(seen)--> Turn
//! Next::Reconcile(Doubt)  --resolve(found)-> Turn
//! Next::Rest(Rested)
//! ```
//!
//! What is decided when stands in [`need`](crate::need); what the answers are made of in [`settle`](crate::settle).

use std::collections::BTreeSet;

use crate::absence::Proof;
use crate::entry::{Bound, Doubted, Entry, Finished, Intended, Opened, Released};
use crate::envelope::Envelope;
use crate::fold::Context;
use crate::handed::{Doubt, Intent};
use crate::ids::{Attempt, HoldId, OpNumber};
use crate::misfit::Misfit;
use crate::need::Need;
use crate::operation::State;
use crate::outcome::{Evidence, Via};
use crate::plan::{Plan, PlanError, Terms};
use crate::record::Extra;
use crate::report::Rest;
use crate::session::{Operation, Session};
use crate::staged::{Staged, seal};
use crate::time::Now;

/// What must happen next.
#[must_use]
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "moved a few times a step, never stored")]
pub enum Next {
    /// Publish this commit, durably, only if its revision is free.
    Commit(Staged),
    /// Make the attempt whose intent is now durable.
    Execute(Intent),
    /// Ask the remote.
    Reconcile(Doubt),
    /// Nothing can be done now.
    Rest(Rested),
}

/// A turn at rest, and why.
#[derive(Debug)]
pub struct Rested {
    /// Where everything stands.
    pub envelope: Envelope,
    /// Why nothing more can be done now.
    pub why: Rest,
}

/// A session in the hands of one hold. It is consumed by every step, so that no stale copy can act.
#[derive(Debug)]
pub struct Turn {
    pub(crate) envelope: Envelope,
    pub(crate) me: Me,
    pub(crate) proof: Proof,
    pub(crate) late: Vec<Evidence>,
    /// Applied to the session, not yet in a commit.
    pub(crate) pending: Vec<Entry>,
    /// Content that the pending commit names by digest.
    pub(crate) content: Vec<String>,
    /// The attempt that this very turn made durable: the only one that it may execute.
    pub(crate) fresh: Option<(OpNumber, Attempt)>,
    /// Operations that were looked up in this step.
    pub(crate) looked: BTreeSet<OpNumber>,
    /// A plan to bind once doubts are settled.
    pub(crate) offered: Option<Offered>,
    /// An internal contradiction: sticky, reported by `next`.
    pub(crate) broken: Option<Misfit>,
}

/// Who steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    /// The hold's random id: it alone decides.
    pub hold: HoldId,
    /// A label, for people.
    pub owner: String,
    /// The id of the store that it steps at.
    pub store: String,
}

/// A plan that was compared and accepted.
#[derive(Debug, Clone)]
pub(crate) struct Offered {
    pub(crate) bound: Bound,
    pub(crate) agent: String,
    pub(crate) task: String,
    /// The messages' list as canonical JSON, with their number; absent without messages.
    pub(crate) said: Option<(String, u32)>,
}

impl Turn {
    /// Takes up a session as its store has it, under a hold.
    #[must_use]
    pub fn resume(envelope: Envelope, me: Me, proof: Proof, late: Vec<Evidence>) -> Self {
        Self {
            envelope,
            me,
            proof,
            late,
            pending: Vec::new(),
            content: Vec::new(),
            fresh: None,
            looked: BTreeSet::new(),
            offered: None,
            broken: None,
        }
    }

    /// Offers a plan. An equal one on a bound turn changes nothing; a different one is refused.
    ///
    /// # Errors
    /// See [`PlanError`]: nothing was written, nothing is dropped.
    pub fn offer(mut self, plan: &Plan, terms: &Terms) -> Result<Self, PlanError> {
        if self.envelope.compare(plan)? == crate::envelope::Compared::ToBind {
            let session = &self.envelope.session;
            let bound = plan.bind(&session.id, terms, &session.occurrences)?;
            self.envelope.pairs_with(plan)?;
            self.offered = Some(Offered {
                bound,
                agent: plan.agent.clone().unwrap_or_default(),
                task: plan.task.clone().unwrap_or_default(),
                said: plan.messages()?,
            });
        }
        Ok(self)
    }

    /// Another one like it, to try something on: one of the two must be dropped.
    pub(crate) fn copy(&self) -> Self {
        Self {
            envelope: self.envelope.clone(),
            me: self.me.clone(),
            proof: self.proof.clone(),
            late: self.late.clone(),
            pending: self.pending.clone(),
            content: self.content.clone(),
            fresh: self.fresh,
            looked: self.looked.clone(),
            offered: self.offered.clone(),
            broken: self.broken.clone(),
        }
    }

    /// Gives the session back as it stands, without what is not yet durable.
    #[must_use]
    pub fn into_envelope(self) -> Envelope {
        self.envelope
    }

    /// The session as it stands.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.envelope.session
    }

    /// Says what must happen next.
    ///
    /// # Errors
    /// Only when the machine contradicts its own table: a defect of this crate, and nothing is done.
    pub fn next(mut self, now: &Now) -> Result<Next, Misfit> {
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        let need = self.need(now);
        if let Need::Rest(why) = need {
            return self.stage_or_rest(now, why);
        }
        if self.claim(now)? {
            return self.stage(now, None);
        }
        if let Need::Intend(op) | Need::Look(op) = need
            && let Some(found) = self.session().operation(op).filter(|o| o.state == State::Intended).cloned()
        {
            // Under way by our own hold, and not by this value: whoever was at it is gone, so it is a doubt.
            let attempt = found.attempt().map_or(Attempt::LOST, |a| a.number);
            self.doubt(&found, attempt, None, None, false, now)?;
            return self.next(now);
        }
        match need {
            Need::Rest(why) => self.stage_or_rest(now, why),
            Need::Execute(op, attempt) if self.pending.is_empty() => Ok(self.execute(op, attempt)),
            Need::Evidence(op, seen) => {
                self.settle_evidence(op, &seen, now)?;
                self.next(now)
            }
            Need::Bind => {
                self.bind()?;
                self.next(now)
            }
            Need::Finish(outcome) => {
                if let Some((lane, turn)) = self.session().turn().map(|t| (t.lane, t.number)) {
                    self.give_results(None)?;
                    self.push(Finished { lane, turn, outcome, extra: Extra::default() }.into(), now)?;
                }
                self.next(now)
            }
            // After a restore each doubt is settled in a commit of its own.
            Need::Intend(_) if self.session().restored.is_some() && self.settles_a_doubt() => {
                self.stage(now, None)
            }
            Need::Intend(op) => {
                let before = self.session().operation(op).cloned();
                self.intend(op, now)?;
                self.stage(now, before)
            }
            // Evidence is durable before the remote is asked about it.
            Need::Execute(..) | Need::Look(_) if !self.pending.is_empty() => self.stage(now, None),
            Need::Look(op) => Ok(self.look(op, now)),
            Need::Execute(op, attempt) => Ok(self.execute(op, attempt)),
        }
    }

    /// Whether the commit that is being made settles something that was in doubt.
    fn settles_a_doubt(&self) -> bool {
        let via = |entry: &Entry| {
            if let Entry::Succeeded(e) = entry {
                return Some(e.via);
            }
            if let Entry::Failed(e) = entry { Some(e.via) } else { None }
        };
        self.pending.iter().filter_map(via).any(|via| via != Via::Executed)
    }

    /// Applies an entry and puts it into the commit that is being made.
    pub(crate) fn push(&mut self, entry: Entry, now: &Now) -> Result<(), Misfit> {
        let at = Context { revision: self.session().revision.next(), at: now.wall };
        self.envelope.session.apply(&entry, at)?;
        self.pending.push(entry);
        Ok(())
    }

    /// Claims the session if this hold does not own it. True: the claim is a commit of its own, because there is a
    /// doubt, or a predecessor that may be alive, to fence.
    pub(crate) fn claim(&mut self, now: &Now) -> Result<bool, Misfit> {
        let session = self.session();
        if session.owner.as_ref().is_some_and(|(hold, _)| *hold == self.me.hold) {
            return Ok(false);
        }
        let doubt = session.operations.iter().any(|o| o.state.is_open());
        let living = session.owner.is_some() && !self.proof.predecessor_dead;
        if session.opened.is_none() {
            let (agent, task) =
                self.offered.as_ref().map(|o| (o.agent.clone(), o.task.clone())).unwrap_or_default();
            let store = Some(self.me.store.clone()).filter(|store| !store.is_empty());
            self.push(Opened { agent, task, traceparent: None, store, extra: Extra::default() }.into(), now)?;
        }
        self.push(self.claiming(None, None).into(), now)?;
        for (op, attempt, ended) in self.unread(now) {
            let Some(key) = self.session().operation(op).map(|o| o.bound.key) else { continue };
            let read = Some(now.mark.clone());
            let ended = ended.then(|| now.mark.clone());
            let entry = Doubted {
                op,
                key,
                attempt,
                why: None,
                read,
                ended,
                rest: None,
                looks: None,
                person: None,
                by_itself: None,
                extra: Extra::default(),
            };
            self.push(entry.into(), now)?;
        }
        Ok(doubt || living)
    }

    /// The attempts that a take-over must note: those without a moment on this boot's clock, and those whose end it
    /// moves, because it came after their deadline and is the first to prove their owner's death.
    fn unread(&self, now: &Now) -> Vec<(OpNumber, Attempt, bool)> {
        let session = self.session();
        let mut out = Vec::new();
        for operation in session.operations.iter().filter(|o| o.state == State::InDoubt) {
            for attempt in operation.unaccounted() {
                let on_this_boot = now.mark.since(&attempt.intended);
                let unread = attempt.is_unread(&now.mark);
                let first_after = attempt.epoch.next() == session.epoch;
                let late = on_this_boot.is_some_and(|elapsed| elapsed >= attempt.budget_ms);
                let ended = attempt.ended.is_none() && self.proof.predecessor_dead && first_after && late;
                if unread || ended {
                    out.push((operation.number, attempt.number, ended));
                }
            }
        }
        out
    }

    fn bind(&mut self) -> Result<(), Misfit> {
        let Some(offered) = self.offered.take() else { return Ok(()) };
        let at = Context { revision: self.session().revision.next(), at: crate::time::Wall::from_unix_ms(0) };
        self.give_results(offered.said.as_ref().map(|(list, _)| list.as_str()))?;
        if let Some((list, messages)) = offered.said {
            self.say(list, messages)?;
        }
        self.envelope.session.apply(&Entry::Bound(offered.bound.clone()), at)?;
        self.pending.push(offered.bound.into());
        Ok(())
    }

    fn intend(&mut self, op: OpNumber, now: &Now) -> Result<(), Misfit> {
        let Some(operation) = self.session().operation(op) else { return Ok(()) };
        let budget_ms = operation.bound.deadline_ms;
        let entry = Intended {
            op,
            key: operation.bound.key,
            attempt: operation.attempts.last().map_or(Attempt::LOST, |a| a.number).next(),
            budget_ms,
            boot: now.mark.boot.clone(),
            since_boot_ms: now.mark.since_boot_ms,
            deadline: now.wall.plus_ms(budget_ms),
            machine: Some(self.proof.machine.clone()).filter(|m| !m.is_empty()),
            extra: Extra::default(),
        };
        self.push(entry.into(), now)
    }

    /// A commit that leads to a rest lets the session go; a rest that has nothing to write just ends.
    pub(crate) fn stage_or_rest(mut self, now: &Now, why: Rest) -> Result<Next, Misfit> {
        if self.pending.is_empty() {
            return Ok(Next::Rest(Rested { envelope: self.envelope, why }));
        }
        if self.session().operations.iter().all(|o| o.state != State::Intended) {
            self.push(Released { extra: Extra::default() }.into(), now)?;
        }
        self.stage(now, None)
    }

    pub(crate) fn stage(mut self, now: &Now, before_intent: Option<Operation>) -> Result<Next, Misfit> {
        let entries = std::mem::take(&mut self.pending);
        let commit = seal(self.session(), entries, now)?;
        Ok(Next::Commit(Staged::new(self, commit, before_intent, now.clone())))
    }

    /// Publishes what is pending and lets the session go, starting nothing: how a person's word is recorded while
    /// nobody owns the session.
    ///
    /// # Errors
    /// As [`Turn::next`].
    pub fn let_go(mut self, now: &Now) -> Result<Next, Misfit> {
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        let need = self.need(now);
        if let (Need::Finish(outcome), Some((lane, turn))) =
            (&need, self.session().turn().map(|t| (t.lane, t.number)))
        {
            self.give_results(None)?;
            self.push(Finished { lane, turn, outcome: *outcome, extra: Extra::default() }.into(), now)?;
        }
        let why = self.standing(now);
        self.stage_or_rest(now, why)
    }
}
