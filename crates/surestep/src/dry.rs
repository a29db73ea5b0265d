//! Dry runs: what a step or a person's word would do, judged by the same machine, with nothing written and nothing held.

use surestep_core::{
    Attempt, Compared, Envelope, HoldId, Me, Next, OpNumber, Plan, PlanError, Request, Rest, SessionId, Turn,
};

use crate::engine::Engine;
use crate::error::StepError;
use crate::load::Loaded;
use crate::store::{Hold, HoldProof, StoreError};

/// What a step would begin with.
#[derive(Debug)]
pub struct Foreseen {
    /// The session as it stands.
    pub before: Envelope,
    /// The session as the step's first commits would leave it: a plan that would be bound is bound in it.
    pub after: Envelope,
    /// What would come then.
    pub first: First,
}

/// What a step would do first, once its commits are durable.
#[derive(Debug)]
pub enum First {
    /// Execute an operation.
    Execute(OpNumber, Attempt),
    /// Look an operation up.
    Look(OpNumber),
    /// Rest, for this reason.
    Rest(Rest),
}

impl Engine {
    /// Says what [`Engine::step`] would do first, with a plan or without one. Nothing is written, and where the store
    /// can tell without it ([`Store::probe`](crate::Store::probe)) nothing is held.
    ///
    /// # Errors
    /// What the step would be refused with.
    pub async fn foresee(&self, session: &SessionId, plan: Option<&Plan>) -> Result<Foreseen, StepError> {
        let mut loaded = self.load(session).await?;
        if !loaded.exists && plan.is_none() {
            return Err(StepError::NoSuchSession { session: session.clone() });
        }
        if let Some(rest) = self.elsewhere(&loaded) {
            let before = loaded.envelope;
            return Ok(Foreseen { after: before.clone(), before, first: First::Rest(rest) });
        }
        let compared = plan.map(|plan| loaded.envelope.compare(plan)).transpose()?;
        self.registry.knows(loaded.envelope.session(), self.allow.as_deref())?;
        let offered = match (plan, compared) {
            (Some(plan), Some(Compared::ToBind)) => {
                Some((plan, self.registry.terms(plan, self.dir.as_deref(), self.allow.as_deref())?))
            }
            (Some(_), Some(Compared::Same(_)) | None) | (None, _) => None,
        };
        let before = loaded.envelope.clone();
        if let Some(Compared::Same(turn)) = compared
            && let Some(report) = before.report(turn)
        {
            return Ok(Foreseen {
                after: before.clone(),
                before,
                first: First::Rest(Rest::Finished(report)),
            });
        }
        let now = self.clock.now();
        let requests: Vec<Request> = loaded.unfolded().cloned().collect();
        if requests.is_empty()
            && let Some(rest) = loaded.envelope.rests(&loaded.proof, &loaded.late, offered.is_some(), &now)
        {
            return Ok(Foreseen { after: before.clone(), before, first: First::Rest(rest) });
        }
        let _held = self.prove(session, &mut loaded).await?;
        let mut turn = self.imagine(loaded)?;
        if let Some((plan, terms)) = &offered {
            turn = turn.offer(plan, terms)?;
        }
        // What lies in the mailbox is judged first, as its owner would.
        for request in &requests {
            turn = turn.fold(request, &now).0;
        }
        let mut after = before.clone();
        loop {
            turn = match turn.next(&now)? {
                Next::Commit(staged) => {
                    after.take(staged.commit().clone())?;
                    staged.committed()
                }
                Next::Execute(intent) => {
                    let call = intent.call();
                    let first = First::Execute(call.op, call.attempt);
                    return Ok(Foreseen { before, after, first });
                }
                Next::Reconcile(doubt) => {
                    let first = First::Look(doubt.call().op);
                    return Ok(Foreseen { before, after, first });
                }
                Next::Rest(rested) => return Ok(Foreseen { before, after, first: First::Rest(rested.why) }),
            };
        }
    }

    /// Whether a person's word would be taken. Nothing is recorded.
    ///
    /// # Errors
    /// As [`Engine::answer`].
    pub async fn try_answer(&self, session: &SessionId, request: &Request) -> Result<(), StepError> {
        let mut loaded = self.load(session).await?;
        if !loaded.exists {
            return Err(StepError::NoSuchSession { session: session.clone() });
        }
        self.at_home(&loaded)?;
        let _held = self.prove(session, &mut loaded).await?;
        self.imagine(loaded)?.answer(request, &self.clock.now())?;
        Ok(())
    }

    /// Notes what holding the session would prove; a store that cannot tell is held for as long as the answer lives.
    async fn prove(&self, session: &SessionId, loaded: &mut Loaded) -> Result<Option<Hold>, StepError> {
        let (proof, hold) = match self.store.probe(session).await {
            Ok(proof) => (proof, None),
            Err(StoreError::Unsupported { .. }) => {
                let hold = self.hold(session).await?;
                (hold.proof.clone(), Some(hold))
            }
            Err(StoreError::Busy { holder }) => {
                return Err(StepError::Busy { session: session.clone(), holder });
            }
            Err(source) => return Err(StepError::Store { source, observed: None, indeterminate: false }),
        };
        let HoldProof { predecessor_dead, machine, unfinished } = proof;
        loaded.proof.predecessor_dead = predecessor_dead;
        loaded.proof.machine = machine;
        loaded.proof.unfinished = unfinished;
        Ok(hold)
    }

    /// The session in the hands of a hold that nobody has: for thinking, never for acting.
    fn imagine(&self, loaded: Loaded) -> Result<Turn, StepError> {
        let hold = HoldId::new(crate::random_id()).map_err(|e| {
            StepError::Plan(PlanError::Shape { why: format!("BUG: a random id is refused: {e}") })
        })?;
        let me = Me { hold, owner: self.owner.clone(), store: self.store.id().to_owned() };
        Ok(Turn::resume(loaded.envelope, me, loaded.proof, loaded.late))
    }
}
