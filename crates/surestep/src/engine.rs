//! The engine: the async shell around the core's machine. One loop, one `match`; every decision is the core's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use surestep_core::{
    Compared, Corrupt, Envelope, Epoch, Evidence, Finding, Kind, Me, Next, Now, Plan, PlanError, Proof, Request,
    Rest, Revision, SessionId, Terms, Turn,
};
use tracing::Instrument as _;

use crate::clock::{Clock, SystemClock};
use crate::effect::{Effect, Recovery};
use crate::error::{Observed, StepError};
use crate::registry::{Registry, Tuning};
use crate::store::{Hold, Journal, Store, StoreError};

/// Carries turns as far as they can go. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Arc<dyn Clock>,
    owner: String,
    dir: Option<String>,
    stop: Arc<AtomicBool>,
}

/// Puts an engine together.
pub struct Builder {
    store: Arc<dyn Store>,
    registry: Registry,
    clock: Arc<dyn Clock>,
    owner: String,
    dir: Option<String>,
    stop: Arc<AtomicBool>,
    twice: Option<Kind>,
}

/// Why an engine cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A kind was registered twice.
    #[error("the kind `{kind}` is registered twice")]
    Twice {
        /// The kind.
        kind: Kind,
    },
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

impl Builder {
    /// Registers a kind of effect; how doubt about it ends is part of that.
    #[must_use]
    pub fn effect(self, effect: impl Effect, recovery: Recovery) -> Self {
        self.register(Arc::new(effect), recovery)
    }

    /// As [`Builder::effect`], for an effect that is shared.
    #[must_use]
    pub fn register(mut self, effect: Arc<dyn Effect>, recovery: Recovery) -> Self {
        self.twice = self.registry.add(effect, recovery).err().or(self.twice);
        self
    }

    /// Changes a kind's terms by configuration.
    #[must_use]
    pub fn tune(mut self, kind: Kind, tuning: Tuning) -> Self {
        self.registry.tune(Some(kind), tuning);
        self
    }

    /// Changes the terms of all kinds that have no tuning of their own.
    #[must_use]
    pub fn tune_all(mut self, tuning: Tuning) -> Self {
        self.registry.tune(None, tuning);
        self
    }

    /// Uses another clock than the system's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Labels the owner, for people; default: the process id.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// The folder against which relative paths in bodies of new plans are read; default: the process's own, as it is
    /// when the plan is bound.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<String>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// A flag that asks the engine to start nothing more: once it is true, what runs is settled, no further intent is
    /// published, the session is let go, and the step rests with [`Rest::Until`]. Default: a flag that nobody sets.
    #[must_use]
    pub fn stop(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// The engine.
    ///
    /// # Errors
    /// When a kind was registered twice.
    pub fn build(self) -> Result<Engine, BuildError> {
        match self.twice {
            Some(kind) => Err(BuildError::Twice { kind }),
            None => Ok(Engine {
                store: self.store,
                registry: Arc::new(self.registry),
                clock: self.clock,
                owner: self.owner,
                stop: self.stop,
                dir: self.dir.or_else(|| Some(std::env::current_dir().ok()?.to_str()?.to_owned())),
            }),
        }
    }
}

/// A session as it was read, and what is known beside its chain.
pub(crate) struct Loaded {
    pub(crate) envelope: Envelope,
    pub(crate) late: Vec<Evidence>,
    pub(crate) requests: Vec<Request>,
    pub(crate) proof: Proof,
    pub(crate) exists: bool,
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
}

impl Hands {
    pub(crate) const fn new(hold: Hold, offered: Option<(Plan, Terms)>) -> Self {
        Self { hold, observed: None, epoch: Epoch::NONE, retaken: false, offered }
    }
}

impl Engine {
    /// Starts to put an engine together.
    pub fn builder(store: impl Store) -> Builder {
        Self::builder_of(Arc::new(store))
    }

    /// As [`Engine::builder`], for a store that is shared.
    pub fn builder_of(store: Arc<dyn Store>) -> Builder {
        Builder {
            store,
            registry: Registry::default(),
            clock: Arc::new(SystemClock::new()),
            owner: format!("pid {}", std::process::id()),
            dir: None,
            stop: Arc::default(),
            twice: None,
        }
    }

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
        let plan = envelope.take_plan();
        let mut loaded = self.load(&session).await?;
        on_chain(&envelope, &loaded.envelope)?;
        let check = |loaded: &Loaded| -> Result<Option<Compared>, StepError> {
            let compared = plan.as_ref().map(|plan| loaded.envelope.compare(plan)).transpose()?;
            self.registry.knows(loaded.envelope.session())?;
            Ok(compared)
        };
        let compared = check(&loaded)?;
        let terms = match (&plan, compared) {
            (Some(plan), Some(Compared::ToBind)) => {
                let terms = self.registry.terms(plan, self.dir.as_deref())?;
                plan.bind(&session, &terms, &loaded.envelope.session().occurrences)?;
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
        if let Some(rest) = loaded.envelope.rests(&loaded.proof, &loaded.late, terms.is_some(), &self.clock.now()) {
            return self.step_of(loaded.envelope, &envelope, rest).await;
        }
        let hold = self.hold(&session).await?;
        self.reload(&mut loaded, &hold).await?;
        check(&loaded)?;
        if terms.is_some() {
            // What the plan adds is said after what was said before.
            loaded.envelope = self.with_conversation(loaded.envelope).await?;
        }
        let hands = Hands::new(hold, plan.zip(terms));
        let turn = self.take_up(loaded, &hands)?;
        let rested = self.run(turn, hands).await?;
        self.step_of(rested.envelope, &envelope, rested.why).await
    }

    /// Puts a person's word to a session that nobody holds: claims, records it, lets go; starts nothing.
    ///
    /// # Errors
    /// [`StepError::Refused`] when the word does not fit; [`StepError::Busy`] when somebody holds the session.
    pub async fn answer(&self, session: &SessionId, request: &Request) -> Result<Step, StepError> {
        let mut loaded = self.load(session).await?;
        if !loaded.exists {
            return Err(StepError::NoSuchSession { session: session.clone() });
        }
        let hold = self.hold(session).await?;
        self.reload(&mut loaded, &hold).await?;
        let given = loaded.envelope.clone();
        let mut hands = Hands::new(hold, None);
        let mut turn = self.take_up(loaded, &hands)?;
        // A commit that lost its hold comes back without the word: it is judged and put again, once.
        loop {
            let now = self.clock.now();
            turn = match turn.answer(request, &now)?.let_go(&now)? {
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

    /// What answering would do, without doing it.
    ///
    /// # Errors
    /// As [`Engine::answer`], but nobody needs to let go of the session.
    pub async fn try_answer(&self, session: &SessionId, request: &Request) -> Result<(), StepError> {
        let mut loaded = self.load(session).await?;
        if !loaded.exists {
            return Err(StepError::NoSuchSession { session: session.clone() });
        }
        let hold = self.hold(session).await?;
        self.reload(&mut loaded, &hold).await?;
        self.take_up(loaded, &Hands::new(hold, None))?.answer(request, &self.clock.now())?;
        Ok(())
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

    pub(crate) async fn hold(&self, session: &SessionId) -> Result<Hold, StepError> {
        self.store.hold(session).await.map_err(|e| match e {
            StoreError::Busy { holder } => StepError::Busy { session: session.clone(), holder },
            source => StepError::Store { source, observed: None, indeterminate: false },
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
        Ok(())
    }

    pub(crate) fn take_up(&self, loaded: Loaded, hands: &Hands) -> Result<Turn, PlanError> {
        let me = Me { hold: hands.hold.id.clone(), owner: self.owner.clone() };
        let turn = Turn::resume(loaded.envelope, me, loaded.proof, loaded.late);
        match &hands.offered {
            Some((plan, terms)) => turn.offer(plan, terms),
            None => Ok(turn),
        }
    }

    async fn step_of(&self, envelope: Envelope, given: &Envelope, rest: Rest) -> Result<Step, StepError> {
        let envelope = self.with_conversation(envelope.with_ext_of(given)).await?;
        Ok(Step { rest, envelope })
    }

    /// Fetches what was said, where the envelope does not have it yet.
    async fn with_conversation(&self, mut envelope: Envelope) -> Result<Envelope, StepError> {
        let session = envelope.session().id.clone();
        if !envelope.conversation().is_empty() {
            return Ok(envelope);
        }
        for said in envelope.session().said.clone() {
            let source = |source| StepError::Store { source, observed: None, indeterminate: false };
            let bytes = self.store.blob(&session, &said.digest).await.map_err(source)?;
            envelope.say(&String::from_utf8_lossy(&bytes));
        }
        Ok(envelope)
    }
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
            ours: usize::try_from(theirs.revision.value()).ok().and_then(|n| ours.chain.get(n.checked_sub(1)?).copied()),
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
