//! Reading a session: first without a hold, then what came since under one.

use surestep_core::{Corrupt, Envelope, Evidence, Me, PlanError, Proof, Request, Revision, SessionId, Turn};

use crate::engine::{Engine, Hands};
use crate::error::StepError;
use crate::store::{Hold, Journal, StoreError};

/// A session as it was read, and what is known beside its chain.
pub(crate) struct Loaded {
    pub(crate) envelope: Envelope,
    pub(crate) late: Vec<Evidence>,
    pub(crate) requests: Vec<Request>,
    pub(crate) proof: Proof,
    pub(crate) exists: bool,
}

impl Loaded {
    /// What people put into the mailbox and no owner has folded in.
    pub(crate) fn unfolded(&self) -> impl Iterator<Item = &Request> {
        let folded = &self.envelope.session().requests;
        self.requests.iter().filter(|request| !folded.contains(&request.id))
    }
}

impl Engine {
    pub(crate) async fn hold(&self, session: &SessionId) -> Result<Hold, StepError> {
        self.store.hold(session).await.map_err(|source| {
            if let StoreError::Busy { holder } = source {
                return StepError::Busy { session: session.clone(), holder };
            }
            StepError::Store { source, observed: None, indeterminate: false }
        })
    }

    pub(crate) async fn load(&self, session: &SessionId) -> Result<Loaded, StepError> {
        let (journal, exists) = match self.store.read(session, Revision::FIRST).await {
            Ok(journal) => {
                let exists = !journal.commits.is_empty();
                (journal, exists)
            }
            Err(StoreError::Absent { .. }) => (Journal::default(), false),
            Err(source) => return Err(StepError::Store { source, observed: None, indeterminate: false }),
        };
        let envelope = Envelope::from_commits(session.clone(), journal.commits)
            .map_err(|source| StepError::Corrupt { session: session.clone(), source })?;
        let stamps = journal.stamps;
        let proof = Proof {
            publishes: stamps.as_ref().map(|s| s.publishes.clone()).unwrap_or_default(),
            read: stamps.map(|s| s.read),
            ..Proof::default()
        };
        Ok(Loaded { envelope, late: journal.late, requests: journal.requests, proof, exists })
    }

    /// Reads what came since, now that nobody else can add to it, and notes what the hold proves.
    pub(crate) async fn reload(&self, loaded: &mut Loaded, hold: &Hold) -> Result<(), StepError> {
        let session = &hold.session;
        let from = loaded.envelope.session().revision.next();
        match self.store.read(session, from).await {
            Ok(journal) => {
                for commit in journal.commits {
                    let revision = commit.revision().value();
                    loaded.envelope.take(commit).map_err(|why| StepError::Corrupt {
                        session: session.clone(),
                        source: Corrupt::Misfit { revision, why },
                    })?;
                    loaded.exists = true;
                }
                loaded.late = journal.late;
                loaded.requests = journal.requests;
                if let Some(stamps) = journal.stamps {
                    loaded.proof.publishes.extend(stamps.publishes);
                    loaded.proof.read = Some(stamps.read);
                }
            }
            Err(StoreError::Absent { .. }) if !loaded.exists => {}
            Err(source) => return Err(StepError::Store { source, observed: None, indeterminate: false }),
        }
        loaded.proof.predecessor_dead = hold.proof.predecessor_dead;
        loaded.proof.machine.clone_from(&hold.proof.machine);
        loaded.proof.unfinished.clone_from(&hold.proof.unfinished);
        // What a turn says, it says after what was said before; and when it ends, each call has its result.
        let read = std::mem::replace(&mut loaded.envelope, Envelope::new(session.clone()));
        loaded.envelope = self.with_conversation(read).await?;
        Ok(())
    }

    pub(crate) fn take_up(&self, loaded: Loaded, hands: &Hands) -> Result<Turn, PlanError> {
        let store = self.store.id().to_owned();
        let me = Me { hold: hands.hold.id.clone(), owner: self.owner.clone(), store };
        let turn = Turn::resume(loaded.envelope, me, loaded.proof, loaded.late);
        match &hands.offered {
            Some((plan, terms)) => turn.offer(plan, terms),
            None => Ok(turn),
        }
    }
}
