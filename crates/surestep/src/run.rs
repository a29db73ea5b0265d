//! The loop: does what the machine says, and reports. An effect that panics, errs or runs out of time is *unknown*.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use surestep_core::limits::SETTLE_BYTES_RESERVED;
use surestep_core::{
    Call, Commit, Doubt, Entry, Fault, Finding, Intent, Next, Now, OpNumber, Outcome, Rest, Rested, Session,
    Staged, Turn,
};
use tracing::Instrument as _;

use crate::effect::{Attempt, Cancel};
use crate::engine::{Engine, Hands, unknown, unregistered};
use crate::error::{Observed, StepError};
use crate::secret;
use crate::store::{Blob, Hold, PublishError, StoreError};

impl Engine {
    pub(crate) async fn run(&self, mut turn: Turn, mut hands: Hands) -> Result<Rested, StepError> {
        loop {
            let now = self.clock.now();
            turn = match turn.next(&now)? {
                Next::Commit(staged) if staged.intent().is_some() && self.stopping() => {
                    let turn = self.commit(staged.without_intent()?, &mut hands, &now).await?;
                    if hands.observed.is_none() {
                        let why = Rest::Until { at: now.wall, wait_ms: 0, why: "stopped by a signal".into() };
                        return Ok(Rested { envelope: turn.into_envelope(), why });
                    }
                    // The hold was taken anew: what was seen is in the next commit.
                    turn
                }
                Next::Commit(staged) => self.commit(staged, &mut hands, &now).await?,
                Next::Execute(intent) => {
                    let turn = self.execute(intent, &mut hands).await?;
                    self.fold_mailbox(turn, &mut hands).await
                }
                Next::Reconcile(doubt) => {
                    let turn = self.look(doubt, &mut hands).await?;
                    self.fold_mailbox(turn, &mut hands).await
                }
                Next::Rest(rested) => return Ok(rested),
            };
        }
    }

    /// Publishes a commit. Room for it and for its intent's settle is made first: a full disk stops an operation
    /// while stopping is free.
    pub(crate) async fn commit(
        &self,
        staged: Staged,
        hands: &mut Hands,
        now: &Now,
    ) -> Result<Turn, StepError> {
        let mut staged = staged;
        let mut refused = None;
        if let Some((op, _)) = staged.intent()
            && let Err(error) = self.fetch(staged.session(), op, false, hands).await
        {
            if hands.observed.is_none() && !tells(staged.commit()) {
                return Err(error);
            }
            staged = staged.without_intent()?;
            refused = Some(error);
        }
        if staged.intent().is_some() {
            let bytes = SETTLE_BYTES_RESERVED.max(staged.commit().text().len() as u64);
            if let Err(source) = self.store.reserve(&hands.hold, bytes).await {
                if hands.observed.is_none() {
                    return Err(StepError::Store { source, observed: None, indeterminate: false });
                }
                staged = staged.without_intent()?;
                refused = Some(StepError::Store { source, observed: None, indeterminate: false });
            }
        }
        let revision = staged.commit().revision();
        let span = tracing::info_span!("surestep.commit", revision = %revision);
        let published =
            self.store.publish(&hands.hold, staged.commit(), &blobs(&staged)).instrument(span).await;
        match published {
            Ok(()) => {
                hands.observed = None;
                let turn = staged.committed();
                refused.map_or(Ok(turn), Err)
            }
            Err(PublishError::NotCommitted(StoreError::HoldLost { .. })) => {
                self.take_anew(staged, hands, now).await
            }
            Err(PublishError::Taken { .. }) => Err(self.fenced(staged.into_epoch(), hands).await),
            Err(PublishError::NotCommitted(source)) => {
                // Room was made for the settle; the results that end the turn can come later.
                if let Some(settle) = staged.without_results()?
                    && self.store.publish(&hands.hold, settle.commit(), &blobs(&settle)).await.is_ok()
                {
                    hands.observed = None;
                }
                Err(self.not_recorded(source, hands, false).await)
            }
            Err(PublishError::Indeterminate(source)) => {
                self.after_indeterminate(staged, source, hands, now).await
            }
        }
    }

    async fn execute(&self, intent: Intent, hands: &mut Hands) -> Result<Turn, StepError> {
        let call = intent.call().clone();
        let kind = &call.operation.kind;
        let effect = self.registry.effect(kind).ok_or_else(|| unregistered(kind))?;
        let now = self.clock.now();
        if intent.must_recheck(&now)
            && let Some(not_sent) = self.lost_before_sending(&call, hands).await?
        {
            return Ok(intent.settle(not_sent, &self.clock.now()));
        }
        let now = self.clock.now();
        if let Some(not_sent) = intent.refuses_to_send(&now) {
            return Ok(intent.settle(not_sent, &now));
        }
        let span = tracing::info_span!(
            "surestep.execute", op = %call.op, key = %call.operation.key, kind = %kind, attempt = %call.attempt
        );
        let (attempt, turn) = (self.attempt(&call, hands), intent.turn_number());
        let left = call.deadline_mark.since(&now.mark).unwrap_or(0);
        let limit = Duration::from_millis(left.saturating_add(effect.grace_ms()));
        let outcome = self
            .within(limit, &hands.hold, async {
                // Polled along with the effect, and dropped with it.
                let mut watching = pin!(self.watching(&hands.hold.session, turn, &attempt.cancel));
                let mut working = pin!(effect.execute(&attempt));
                std::future::poll_fn(|cx| {
                    let _ = watching.as_mut().poll(cx);
                    working.as_mut().poll(cx)
                })
                .await
            })
            .instrument(span)
            .await
            .unwrap_or_else(Outcome::Unknown);
        let outcome = secret::outcome(outcome, &attempt.scrubber());
        let (op, key, number) = (call.op, call.operation.key, call.attempt);
        hands.observed = Some(Box::new(Observed { op, key, attempt: number, outcome: outcome.clone() }));
        hands.epoch = call.epoch;
        Ok(intent.settle(outcome, &self.clock.now()))
    }

    fn attempt(&self, call: &Call, hands: &Hands) -> Attempt {
        let resolved = hands.fetched.resolved(&call.operation.body);
        let (tether, secrets) = (hands.hold.tether.clone(), hands.fetched.secrets());
        Attempt { call: call.clone(), tether, cancel: Cancel::default(), resolved, secrets }
    }

    /// Fetches the secrets of an operation, before anything of it is sent or asked.
    async fn fetch(
        &self,
        session: &Session,
        op: OpNumber,
        in_doubt: bool,
        hands: &mut Hands,
    ) -> Result<(), StepError> {
        let fetched = hands.fetched.fetch(self.secrets.as_ref(), session, op).await;
        fetched.map_err(|source| StepError::Secret { session: session.id.clone(), op, in_doubt, source })
    }

    async fn look(&self, doubt: Doubt, hands: &mut Hands) -> Result<Turn, StepError> {
        let call = doubt.call().clone();
        let kind = &call.operation.kind;
        let Some(reconciler) = self.registry.reconciler(kind) else {
            let fault = Fault::new("no_reconciler", format!("this process has no reconciler for `{kind}`"));
            return Ok(doubt.resolve(Finding::Unknown(fault), &self.clock.now()));
        };
        let span =
            tracing::info_span!("surestep.look", op = %call.op, key = %call.operation.key, kind = %kind);
        let left = call.deadline_mark.since(&self.clock.now().mark).unwrap_or(0);
        let limit = Duration::from_millis(left.saturating_add(1_000));
        self.fetch(doubt.session(), call.op, true, hands).await?;
        let attempt = self.attempt(&call, hands);
        let found = self
            .within(limit, &hands.hold, async { reconciler.look(&attempt).await })
            .instrument(span)
            .await
            .unwrap_or_else(unknown);
        let found = secret::finding(found, &attempt.scrubber());
        Ok(doubt.resolve(found, &self.clock.now()))
    }

    /// Runs somebody else's code: a panic, an error and a time-out are faults. Leases are renewed meanwhile.
    async fn within<T>(
        &self,
        limit: Duration,
        hold: &Hold,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let mut work = pin!(tokio::time::timeout(limit, work));
        let mut renewing = pin!(self.renewing(hold));
        std::future::poll_fn(|cx| {
            let polled = std::panic::catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
            match polled {
                Err(panic) => Poll::Ready(Err(Fault::new("panic", panic_text(panic.as_ref())))),
                Ok(Poll::Ready(Err(_))) => {
                    let message = format!("no answer within {} ms", limit.as_millis());
                    Poll::Ready(Err(Fault::new("deadline", message)))
                }
                Ok(Poll::Ready(Ok(done))) => Poll::Ready(done),
                Ok(Poll::Pending) => {
                    let _ = renewing.as_mut().poll(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Renews the hold's lease at a third of it, and never ends. A lease that is lost is found at the next commit.
    async fn renewing(&self, hold: &Hold) {
        if let Some(lease_ms) = hold.lease_ms {
            let third = Duration::from_millis((lease_ms / 3).max(1));
            loop {
                tokio::time::sleep(third).await;
                // A server that cannot be reached now may be reached at the next third.
                match self.store.renew(hold).await {
                    Ok(()) => {}
                    Err(e @ StoreError::HoldLost { .. }) => {
                        tracing::warn!(error = %e, "the lease is lost");
                        break;
                    }
                    Err(e) => tracing::warn!(error = %e, "the lease could not be renewed"),
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

/// The content that a commit names by digest.
pub(crate) fn blobs(staged: &Staged) -> Vec<Blob> {
    staged.content().iter().map(|text| Blob::of(text.clone().into_bytes())).collect()
}

/// Whether a commit says more than who owns the session and what comes next.
fn tells(commit: &Commit) -> bool {
    let opens = |entry: &Entry| match entry {
        Entry::Opened(_)
        | Entry::Said(_)
        | Entry::Bound(_)
        | Entry::Claimed(_)
        | Entry::Released(_)
        | Entry::Intended(_) => true,
        Entry::Succeeded(_)
        | Entry::Failed(_)
        | Entry::Doubted(_)
        | Entry::Approved(_)
        | Entry::Denied(_)
        | Entry::Skipped(_)
        | Entry::Cancelled(_)
        | Entry::Finished(_)
        | Entry::HandedOff(_)
        | Entry::Restored(_) => false,
    };
    !commit.entries().iter().all(opens)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the effect panicked: {}", text.unwrap_or_else(|| "no message".into()))
}
