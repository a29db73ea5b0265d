//! Moving a session from one store to another: it leaves, and is taken in; a copy steps nowhere.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use surestep_core::{Envelope, Next, NotHandedOff, Rest, SessionId};

use crate::engine::{Engine, Hands, Step};
use crate::error::StepError;
use crate::load::Loaded;
use crate::store::{Blob, PublishError, StoreError};

impl Engine {
    /// Where the session is, if it is not at this store.
    pub(crate) fn elsewhere(&self, loaded: &Loaded) -> Option<Rest> {
        let to = loaded.envelope.session().elsewhere(self.store.id())?;
        Some(Rest::HandedOff { to: to.to_owned() })
    }

    /// Refuses to touch a session that is not at this store.
    pub(crate) fn at_home(&self, loaded: &Loaded) -> Result<(), StepError> {
        let session = loaded.envelope.session();
        match session.elsewhere(self.store.id()) {
            Some(home) => Err(StepError::Elsewhere { session: session.id.clone(), home: home.to_owned() }),
            None => Ok(()),
        }
    }

    /// Reads the session of an envelope; one that was handed off to this store is taken in first.
    pub(crate) async fn load_or_take_in(&self, given: &Envelope) -> Result<Loaded, StepError> {
        let theirs = given.session();
        if given.is_read_only() {
            return Err(StepError::ReadOnly { session: theirs.id.clone() });
        }
        let loaded = self.load(&theirs.id).await?;
        let ours = loaded.envelope.session();
        let to_us = theirs.handed_off.as_ref().is_some_and(|handed| handed.to == self.store.id());
        if to_us && (!loaded.exists || ours.elsewhere(self.store.id()).is_some()) {
            self.take_in(given).await?;
            return self.load(&theirs.id).await;
        }
        let home = theirs.elsewhere(self.store.id());
        if !loaded.exists && home.is_some() {
            return Err(StepError::NotHandedOff {
                session: theirs.id.clone(),
                home: home.map(str::to_owned),
            });
        }
        Ok(loaded)
    }

    /// Hands a session off to another store, named by its id: from here on it does not step here. What may have landed
    /// is looked up first; nothing is started. Asked again for the same store, it gives the same envelope.
    ///
    /// # Errors
    /// [`StepError::InDoubt`] when it may not leave yet; [`StepError::Elsewhere`] when it left for another store.
    pub async fn hand_off(&self, session: &SessionId, to: &str) -> Result<Envelope, StepError> {
        let loaded = self.load(session).await?;
        if !loaded.exists {
            return Err(StepError::NoSuchSession { session: session.clone() });
        }
        if loaded.envelope.session().handed_off.as_ref().is_some_and(|handed| handed.to == to) {
            return self.with_conversation(loaded.envelope).await;
        }
        self.at_home(&loaded)?;
        let quiet = Self { stop: Arc::new(AtomicBool::new(true)), ..self.clone() };
        let Step { rest, envelope } = quiet.step(Envelope::new(session.clone())).await?;
        let in_doubt = |op| StepError::InDoubt { session: session.clone(), op, rest: Box::new(rest.clone()) };
        if let Some(open) = envelope.session().operations.iter().find(|o| o.state.is_open()) {
            return Err(in_doubt(open.number));
        }
        let mut hands = Hands::new(self.hold(session).await?, None);
        let loaded = self.load_under(&hands.hold).await?;
        self.at_home(&loaded)?;
        let mut turn = self.take_up(loaded, &hands)?;
        // A commit that lost its hold comes back without the hand-off: it is made again, once.
        loop {
            let now = self.clock.now();
            let staged = match turn.hand_off(to.to_owned(), &now) {
                Ok(Next::Commit(staged)) => staged,
                Ok(Next::Rest(_) | Next::Execute(_) | Next::Reconcile(_)) => {
                    return Err(StepError::NoSuchSession { session: session.clone() });
                }
                Err(NotHandedOff::Open { op }) => return Err(in_doubt(op)),
                Err(NotHandedOff::Broken(why)) => return Err(why.into()),
                Err(other) => {
                    return Err(StepError::Store {
                        source: StoreError::Other(other.to_string()),
                        observed: None,
                        indeterminate: false,
                    });
                }
            };
            turn = self.commit(staged, &mut hands, &now).await?;
            if turn.session().handed_off.is_some() {
                return self.with_conversation(turn.into_envelope()).await;
            }
        }
    }

    /// Whether a session would be taken in, without taking it in.
    ///
    /// # Errors
    /// As [`Engine::take_in`].
    pub async fn may_take_in(&self, given: &Envelope) -> Result<(), StepError> {
        self.admits(given)?;
        let before = self.load(&given.session().id).await?;
        let known = given.is_on(before.envelope.session());
        if known { Ok(()) } else { prefix(&before.envelope, given) }
    }

    fn admits(&self, given: &Envelope) -> Result<(), StepError> {
        let theirs = given.session();
        let session = &theirs.id;
        if given.is_read_only() {
            return Err(StepError::ReadOnly { session: session.clone() });
        }
        if theirs.handed_off.as_ref().is_none_or(|handed| handed.to != self.store.id()) {
            let home = theirs.elsewhere(self.store.id()).map(str::to_owned);
            return Err(StepError::NotHandedOff { session: session.clone(), home });
        }
        Ok(self.registry.knows(theirs, self.allow.as_deref())?)
    }

    /// Takes a session in that was handed off to this store, once: asked again, it changes nothing. Killed in the middle,
    /// the session steps nowhere until this is asked again.
    ///
    /// # Errors
    /// [`StepError::NotHandedOff`], [`StepError::ReadOnly`], or a plan's refusal where one of its kinds may not run here.
    pub async fn take_in(&self, given: &Envelope) -> Result<Step, StepError> {
        self.admits(given)?;
        let theirs = given.session();
        let session = &theirs.id;
        let before = self.load(session).await?;
        if given.is_on(before.envelope.session()) && before.envelope.session().revision > theirs.revision {
            let rest = before.envelope.standing(&self.clock.now());
            return Ok(Step { rest, envelope: self.with_conversation(before.envelope).await? });
        }
        prefix(&before.envelope, given)?;
        let mut hands = Hands::new(self.hold(session).await?, None);
        let held = self.load_under(&hands.hold).await?;
        prefix(&held.envelope, given)?;
        let missing = given.since(held.envelope.session().revision);
        let corrupt = |source| StepError::Corrupt { session: session.clone(), source };
        for (commit, content) in missing.map_err(corrupt)? {
            let blobs: Vec<Blob> = content.into_iter().map(|text| Blob::of(text.into_bytes())).collect();
            let (source, indeterminate) = match self.store.publish(&hands.hold, commit, &blobs).await {
                Ok(()) => continue,
                Err(PublishError::Taken { .. }) => return Err(self.fenced(theirs.epoch, &mut hands).await),
                Err(PublishError::NotCommitted(source)) => (source, false),
                Err(PublishError::Indeterminate(source)) => (source, true),
            };
            return Err(StepError::Store { source, observed: None, indeterminate });
        }
        let taken = self.load_under(&hands.hold).await?;
        let now = self.clock.now();
        match self.take_up(taken, &hands)?.take_in(self.allow.clone(), &now)? {
            Next::Commit(staged) => {
                let envelope = self.commit(staged, &mut hands, &now).await?.into_envelope();
                let rest = envelope.standing(&now);
                Ok(Step { rest, envelope: self.with_conversation(envelope).await? })
            }
            Next::Rest(rested) => Ok(Step { rest: rested.why, envelope: rested.envelope }),
            Next::Execute(_) | Next::Reconcile(_) => {
                Err(StepError::NoSuchSession { session: session.clone() })
            }
        }
    }
}

/// What the store has of a session must be the beginning of what is handed over.
fn prefix(ours: &Envelope, given: &Envelope) -> Result<(), StepError> {
    let (have, theirs) = (ours.session(), given.session());
    if ours.is_on(theirs) {
        return Ok(());
    }
    Err(StepError::Diverged {
        session: theirs.id.clone(),
        revision: have.revision,
        ours: have.head,
        theirs: usize::try_from(have.revision.value())
            .ok()
            .and_then(|n| theirs.chain.get(n.checked_sub(1)?).copied())
            .or(theirs.head)
            .unwrap_or_else(|| surestep_core::Digest::of(b"")),
    })
}
