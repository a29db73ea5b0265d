//! When a commit fails: nothing that was seen is lost, nothing that was not sent is in doubt.

use surestep_core::{Call, Epoch, Evidence, Fault, Next, Now, Outcome, Staged, Turn};

use crate::engine::{Engine, Hands};
use crate::error::{Observed, StepError};
use crate::load::Loaded;
use crate::run::blobs;
use crate::store::{Hold, PublishError, StoreError};

impl Engine {
    /// Somebody else published: this owner is fenced. What it saw is kept as late evidence and returned.
    pub(crate) async fn fenced(&self, ours: Epoch, hands: &mut Hands) -> StepError {
        let session = hands.hold.session.clone();
        let theirs = match self.load(&session).await {
            Ok(loaded) => loaded.envelope.session().epoch,
            // Nobody took it over: it was removed or put back under this process.
            Err(StepError::Store {
                source:
                    source
                    @ (StoreError::RolledBack { .. } | StoreError::Gone { .. } | StoreError::Corrupt { .. }),
                ..
            }) => return self.not_recorded(source, hands, false).await,
            Err(e) => {
                tracing::warn!(error = %e, "the session cannot be read after it was taken over");
                ours
            }
        };
        // What was seen was seen under an epoch that was published, and epochs never fall.
        let seen_under = hands.observed.as_ref().map(|_| hands.epoch);
        let observed = self.keep(hands).await;
        if let Some(seen) = seen_under.filter(|seen| theirs < *seen) {
            let why =
                format!("epoch {seen} was published, and it stands at {theirs}: it was removed or put back");
            let source = StoreError::Corrupt { file: session.as_str().into(), offset: 0, why };
            return StepError::Store { source, observed, indeterminate: false };
        }
        StepError::Fenced { session, ours, theirs, observed }
    }

    /// The store refused. What was seen goes into the error, and beside the chain if that can still be written.
    pub(crate) async fn not_recorded(
        &self,
        source: StoreError,
        hands: &mut Hands,
        indeterminate: bool,
    ) -> StepError {
        let observed = self.keep(hands).await;
        StepError::Store { source, observed, indeterminate }
    }

    /// The session cannot be read anew: what was seen goes the same way.
    async fn not_reloaded(&self, error: StepError, hands: &mut Hands) -> StepError {
        if let StepError::Store { source, indeterminate, .. } = error {
            return self.not_recorded(source, hands, indeterminate).await;
        }
        self.keep(hands).await;
        error
    }

    pub(crate) async fn load_under(&self, hold: &Hold) -> Result<Loaded, StepError> {
        let mut loaded = self.load(&hold.session).await?;
        self.reload(&mut loaded, hold).await?;
        Ok(loaded)
    }

    async fn keep(&self, hands: &mut Hands) -> Option<Box<Observed>> {
        let observed = hands.observed.take()?;
        let ended =
            matches!(observed.outcome, Outcome::Ended(_) | Outcome::Over(_)).then(|| self.clock.now().mark);
        let Observed { op, key, attempt, outcome } = observed.as_ref().clone();
        let evidence = Evidence { op, key, attempt, epoch: hands.epoch, observed: outcome, ended };
        if let Err(e) = self.store.keep_late(&hands.hold.session, &evidence).await {
            tracing::warn!(error = %e, "late evidence could not be kept");
        }
        Some(observed)
    }

    /// Right before sending, after a pause: is the session still ours? If not, nothing was sent, and this is what to
    /// settle: where only the lease is over, without a rival, that settle takes the session anew.
    pub(crate) async fn lost_before_sending(
        &self,
        call: &Call,
        hands: &mut Hands,
    ) -> Result<Option<Outcome>, StepError> {
        let outcome =
            Outcome::NotSent(Fault::new("not_sent", "its owner lost the session before it could be sent"));
        let (op, key, attempt) = (call.op, call.operation.key, call.attempt);
        let observed = Some(Box::new(Observed { op, key, attempt, outcome: outcome.clone() }));
        hands.epoch = call.epoch;
        let loaded = match self.load(&call.session).await {
            Ok(loaded) => loaded,
            Err(error) => {
                hands.observed = observed;
                return Err(self.not_reloaded(error, hands).await);
            }
        };
        let session = loaded.envelope.session();
        if session.epoch != call.epoch
            || session.owner.as_ref().is_none_or(|(hold, _)| *hold != hands.hold.id)
        {
            hands.observed = observed;
            return Err(self.fenced(call.epoch, hands).await);
        }
        let Err(e) = self.store.renew(&hands.hold).await else { return Ok(None) };
        tracing::warn!(error = %e, "the hold is lost");
        hands.observed = observed;
        Ok(Some(outcome))
    }

    /// The lease is over. Without a rival it may be taken anew, once a step, at the next epoch, together with what
    /// was seen first-hand; with one, this owner is fenced.
    pub(crate) async fn take_anew(
        &self,
        staged: Staged,
        hands: &mut Hands,
        now: &Now,
    ) -> Result<Turn, StepError> {
        let ours = staged.commit().epoch();
        let session = hands.hold.session.clone();
        let head = staged.commit().prev();
        drop(staged);
        if hands.retaken {
            return Err(self.fenced(ours, hands).await);
        }
        hands.retaken = true;
        let Ok(hold) = self.store.hold(&session).await else { return Err(self.fenced(ours, hands).await) };
        let loaded = match self.load_under(&hold).await {
            Ok(loaded) => loaded,
            Err(error) => return Err(self.not_reloaded(error, hands).await),
        };
        if loaded.envelope.session().head != head {
            return Err(self.fenced(ours, hands).await);
        }
        hands.hold = hold;
        let mut turn = self.take_up(loaded, hands)?;
        if let Some(observed) = &hands.observed {
            turn = turn.first_hand(observed.op, observed.attempt, observed.outcome.clone(), now);
        }
        Ok(turn)
    }

    /// Nobody knows whether the commit was published. Under an unbroken hold: reload; what was seen is published
    /// anew, in a new file; an intent that this process knows it never sent is settled as *not sent*.
    pub(crate) async fn after_indeterminate(
        &self,
        staged: Staged,
        source: StoreError,
        hands: &mut Hands,
        now: &Now,
    ) -> Result<Turn, StepError> {
        let sum = staged.commit().sum();
        let unsent = staged.intent();
        drop(staged);
        let Ok(loaded) = self.load_under(&hands.hold).await else {
            return Err(self.not_recorded(source, hands, true).await);
        };
        let there = loaded.envelope.session().head == Some(sum);
        hands.offered = None;
        let mut turn = self.take_up(loaded, hands)?;
        if there && unsent.is_none() {
            // A read under a hold makes durable what it reports: it counts as committed.
            hands.observed = None;
            return Ok(turn);
        }
        if there {
            // Its settle stands in the journal. Its intent was never sent.
            if let Some((op, attempt)) = unsent {
                let outcome = Outcome::NotSent(Fault::new("not_sent", "its intent was not surely durable"));
                turn = turn.first_hand(op, attempt, outcome, now);
            }
        } else if let Some(observed) = &hands.observed {
            turn = turn.first_hand(observed.op, observed.attempt, observed.outcome.clone(), now);
        }
        match turn.let_go(now) {
            Ok(Next::Commit(again)) => {
                let published = self.store.publish(&hands.hold, again.commit(), &blobs(&again)).await;
                match published {
                    Ok(()) => {
                        hands.observed = None;
                        Err(StepError::Store { source, observed: None, indeterminate: true })
                    }
                    Err(
                        PublishError::NotCommitted(_)
                        | PublishError::Taken { .. }
                        | PublishError::Indeterminate(_),
                    ) => Err(self.not_recorded(source, hands, true).await),
                }
            }
            Ok(Next::Rest(_) | Next::Execute(_) | Next::Reconcile(_)) | Err(_) => {
                Err(self.not_recorded(source, hands, true).await)
            }
        }
    }
}
