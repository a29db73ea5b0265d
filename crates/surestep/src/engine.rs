//! The engine: the async shell around the core's machine. One loop, one `match`; every decision is the core's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use surestep_core::{
    Compared, Digest, Envelope, Epoch, Finding, Kind, Next, Now, Plan, PlanError, Refused, Request,
    RequestId, Rest, SessionId, Terms,
};
use tracing::Instrument as _;

use crate::clock::Clock;
use crate::error::{Observed, StepError};
use crate::load::Loaded;
use crate::mailbox::scrubbed;
use crate::registry::Registry;
use crate::secret::{Fetched, SecretSource};
use crate::store::{Hold, Store, StoreError};

/// Carries turns as far as they can go. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) owner: String,
    pub(crate) dir: Option<String>,
    pub(crate) stop: Arc<AtomicBool>,
    /// For plans and envelopes from outside: the kinds that may run.
    pub(crate) allow: Option<Vec<Kind>>,
    pub(crate) secrets: Arc<dyn SecretSource>,
}

/// Where a turn stands after a step.
#[derive(Debug)]
pub struct Step {
    /// Why it rests.
    pub rest: Rest,
    /// Its whole state, as a value.
    pub envelope: Envelope,
}

/// How long [`Engine::drive`] may go on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wait {
    /// The longest it may take; `None`: as long as it takes.
    pub limit: Option<Duration>,
    /// Also wait while somebody else holds the session.
    pub held: bool,
}

/// What one step carries along.
pub(crate) struct Hands {
    pub(crate) hold: Hold,
    /// Seen, and not yet durable.
    pub(crate) observed: Option<Box<Observed>>,
    /// The epoch under which that was seen.
    pub(crate) epoch: Epoch,
    /// The lease lapsed and was taken anew in this step.
    pub(crate) retaken: bool,
    /// The plan that is to be bound: offered again where the session is taken up anew.
    pub(crate) offered: Option<(Plan, Terms)>,
    /// Words from the mailbox that this step has judged.
    pub(crate) judged: BTreeSet<RequestId>,
    /// The secrets of the attempt that is about to begin.
    pub(crate) fetched: Fetched,
}

impl Hands {
    pub(crate) fn new(hold: Hold, offered: Option<(Plan, Terms)>) -> Self {
        let (epoch, judged) = (Epoch::NONE, BTreeSet::new());
        Self { hold, observed: None, epoch, retaken: false, offered, judged, fetched: Fetched::default() }
    }
}

impl Engine {
    /// Carries a turn as far as it can go without waiting.
    ///
    /// Re-entrant: nothing is repeated. An envelope older than the store's journal goes on from the journal's head; a
    /// plan that is bound already changes nothing. Dropping the future at any await is, for the session, what a death
    /// of the process there would be.
    ///
    /// # Errors
    /// [`StepError`] when this call could not do its job. An ambiguous turn is not an error but a [`Rest`].
    pub async fn step(&self, envelope: Envelope) -> Result<Step, StepError> {
        let session = envelope.session().id.clone();
        let span = tracing::info_span!("surestep.step", session = %session);
        self.step_inner(envelope).instrument(span).await
    }

    async fn step_inner(&self, mut envelope: Envelope) -> Result<Step, StepError> {
        let session = envelope.session().id.clone();
        let plan = envelope.take_plan().map(|plan| crate::scrub::plan(&plan)).transpose()?;
        let mut loaded = self.load_or_take_in(&envelope).await?;
        if plan.is_some() && !loaded.exists {
            crate::scrub::name(&session)?;
        }
        on_chain(&envelope, &loaded.envelope)?;
        if let Some(rest) = self.elsewhere(&loaded) {
            return self.step_of(loaded.envelope, &envelope, rest).await;
        }
        let check = |loaded: &Loaded| -> Result<Option<Compared>, StepError> {
            let compared = plan.as_ref().map(|plan| loaded.envelope.compare(plan)).transpose()?;
            self.registry.knows(loaded.envelope.session(), self.allow.as_deref())?;
            Ok(compared)
        };
        let compared = check(&loaded)?;
        let terms = match (&plan, compared) {
            (Some(plan), Some(Compared::ToBind)) => {
                let terms = self.registry.terms(plan, self.dir.as_deref(), self.allow.as_deref())?;
                plan.bind(&session, &terms, &loaded.envelope.session().occurrences)?;
                loaded.envelope = self.with_conversation(loaded.envelope).await?;
                loaded.envelope.pairs_with(plan)?;
                Some(terms)
            }
            _ => None,
        };
        let wants = |compared| match compared {
            Some(Compared::Same(turn)) => Some(turn),
            Some(Compared::ToBind) | None => None,
        };
        if let Some(report) = wants(compared).and_then(|turn| loaded.envelope.report(turn)) {
            return self.step_of(loaded.envelope, &envelope, Rest::Finished(report)).await;
        }
        if loaded.unfolded().next().is_none()
            && let Some(rest) =
                loaded.envelope.rests(&loaded.proof, &loaded.late, terms.is_some(), &self.clock.now())
        {
            return self.step_of(loaded.envelope, &envelope, rest).await;
        }
        let hold = self.hold(&session).await?;
        self.reload(&mut loaded, &hold).await?;
        if let Some(rest) = self.elsewhere(&loaded) {
            return self.step_of(loaded.envelope, &envelope, rest).await;
        }
        check(&loaded)?;
        let mut hands = Hands::new(hold, plan.zip(terms));
        let requests = std::mem::take(&mut loaded.requests);
        let turn = self.fold(self.take_up(loaded, &hands)?, &requests, &mut hands);
        let rested = self.run(turn, hands).await?;
        self.step_of(rested.envelope, &envelope, rested.why).await
    }

    /// Puts a person's word to a session that nobody holds: claims, records it, lets go; starts nothing.
    ///
    /// # Errors
    /// [`StepError::Refused`] when the word does not fit; [`StepError::Busy`] when somebody holds the session.
    pub async fn answer(&self, session: &SessionId, request: &Request) -> Result<Step, StepError> {
        let request = &scrubbed(request);
        let mut loaded = self.load(session).await?;
        if !loaded.exists {
            return Err(StepError::NoSuchSession { session: session.clone() });
        }
        self.at_home(&loaded)?;
        let hold = self.hold(session).await?;
        self.reload(&mut loaded, &hold).await?;
        self.at_home(&loaded)?;
        let given = loaded.envelope.clone();
        let mut hands = Hands::new(hold, None);
        let mut turn = self.take_up(loaded, &hands)?;
        // A commit that lost its hold comes back without the word: it is judged and put again, once.
        loop {
            let now = self.clock.now();
            let answered = match turn.answer(request, &now) {
                Err(refused @ Refused::TooEarly { .. }) => {
                    self.note(&mut hands).await?;
                    return Err(refused.into());
                }
                answered => answered?,
            };
            turn = match answered.let_go(&now)? {
                Next::Commit(staged) => self.commit(staged, &mut hands, &now).await?,
                Next::Rest(rested) => return self.step_of(rested.envelope, &given, rested.why).await,
                Next::Execute(_) | Next::Reconcile(_) => {
                    return Err(StepError::NoSuchSession { session: session.clone() });
                }
            };
            if turn.session().requests.contains(&request.id) {
                let envelope = turn.into_envelope();
                let rest = envelope.standing(&now);
                return self.step_of(envelope, &given, rest).await;
            }
        }
    }

    /// A word came too early. From when on the wait counts is written all the same, once: else it would never end.
    async fn note(&self, hands: &mut Hands) -> Result<(), StepError> {
        let now = self.clock.now();
        let loaded = self.load_under(&hands.hold).await?;
        match self.take_up(loaded, hands)?.note(&now)? {
            Next::Commit(staged) => self.commit(staged, hands, &now).await.map(drop),
            Next::Rest(_) | Next::Execute(_) | Next::Reconcile(_) => Ok(()),
        }
    }

    /// Steps, sleeps while only time is missing, and steps again.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub async fn drive(&self, mut envelope: Envelope, wait: Wait) -> Result<Step, StepError> {
        let start = tokio::time::Instant::now();
        let left = || wait.limit.map(|limit| limit.saturating_sub(start.elapsed()));
        let plan = envelope.take_plan();
        loop {
            if let Some(plan) = &plan {
                envelope = envelope.with_plan(plan.clone());
            }
            let again = envelope.clone();
            let pause = match self.step(envelope).await {
                Ok(Step { rest: Rest::Until { wait_ms, at, why }, envelope: next }) => {
                    let pause = Duration::from_millis(wait_ms);
                    if self.stopping() || left().is_some_and(|left| left < pause) {
                        return Ok(Step { rest: Rest::Until { at, wait_ms, why }, envelope: next });
                    }
                    envelope = next;
                    pause
                }
                Err(busy @ StepError::Busy { .. }) if wait.held => {
                    let pause = Duration::from_millis(100);
                    if left().is_some_and(|left| left < pause) {
                        return Err(busy);
                    }
                    envelope = again;
                    pause
                }
                done => return done,
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads a session without touching it.
    ///
    /// # Errors
    /// [`StepError::NoSuchSession`], or what its store or journal refuses.
    pub async fn read(&self, session: &SessionId) -> Result<Envelope, StepError> {
        let loaded = self.load(session).await?;
        if !loaded.exists {
            return Err(StepError::NoSuchSession { session: session.clone() });
        }
        self.with_conversation(loaded.envelope).await
    }

    /// Whether the host asked to start nothing more.
    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The clocks, now.
    #[must_use]
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The kinds that are registered.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        self.registry.kinds().cloned().collect()
    }

    pub(crate) async fn step_of(
        &self,
        envelope: Envelope,
        given: &Envelope,
        rest: Rest,
    ) -> Result<Step, StepError> {
        let envelope = self.with_conversation(envelope.with_ext_of(given)).await?;
        Ok(Step { rest, envelope })
    }

    /// Fetches what was said, where the envelope does not have it yet.
    pub(crate) async fn with_conversation(&self, mut envelope: Envelope) -> Result<Envelope, StepError> {
        let session = envelope.session().id.clone();
        let mut here = envelope.conversation().len();
        for said in envelope.session().said.clone() {
            if let Some(rest) = here.checked_sub(said.messages as usize) {
                here = rest;
                continue;
            }
            let bytes = self.store.blob(&session, &said.digest).await.map_err(|source| {
                let source = gone_is_damage(source, &said.digest);
                StepError::Store { source, observed: None, indeterminate: false }
            })?;
            envelope.say(&String::from_utf8_lossy(&bytes));
        }
        Ok(envelope)
    }
}

/// The journal names this content: that it is not there is damage, and never a session that does not exist.
fn gone_is_damage(error: StoreError, digest: &Digest) -> StoreError {
    if let StoreError::Absent { .. } = error {
        let why = "content that the session names is gone".into();
        return StoreError::Corrupt { file: format!("content {digest}").into(), offset: 0, why };
    }
    error
}

/// An envelope that a caller brings must be of this store's chain, at or behind its head.
fn on_chain(given: &Envelope, stored: &Envelope) -> Result<(), StepError> {
    let (theirs, ours) = (given.session(), stored.session());
    if theirs.revision > ours.revision {
        return Err(StepError::StoreBehind {
            session: theirs.id.clone(),
            ours: ours.revision,
            theirs: theirs.revision,
        });
    }
    match theirs.head {
        Some(head) if !given.is_on(ours) => Err(StepError::Diverged {
            session: theirs.id.clone(),
            revision: theirs.revision,
            ours: usize::try_from(theirs.revision.value())
                .ok()
                .and_then(|n| ours.chain.get(n.checked_sub(1)?).copied()),
            theirs: head,
        }),
        Some(_) | None => Ok(()),
    }
}

/// The kind that an operation needs is gone from the registry between check and use: cannot be, and is unknown.
pub(crate) fn unregistered(kind: &Kind) -> PlanError {
    PlanError::UnknownKind { kind: kind.clone(), path: "the bound operation".into(), known: String::new() }
}

/// What a look-up that broke down says.
pub(crate) fn unknown(fault: surestep_core::Fault) -> Finding {
    Finding::Unknown(fault)
}
