//! The world that the tests run in.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use surestep::core::invariants;
use surestep::{
    Attempt, Blob, Clock, Commit, Digest, Effect, Engine, Entry, Envelope, Epoch, Evidence, Fault, Finding,
    Hold, Journal, Key, Kind, Mark, MemoryStore, Now, OpNumber, Outcome, Page, Plan, Planned, PublishError,
    Receipt, Reconciler, Recovery, Report, Request, RequestId, Rest, Retry, Revision, SessionId, SessionPage,
    State, Step, StepError, Store, StoreError, Terms, Wall, Word,
};

pub(crate) type Hook = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// An async block as a hook.
pub(crate) fn hook<F: Future<Output = ()> + Send + 'static>(
    f: impl Fn() -> F + Send + Sync + 'static,
) -> Hook {
    Arc::new(move || Box::pin(f()))
}

/// Gives way once.
pub(crate) async fn give_way() {
    let mut given = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

// --- the clock ---------------------------------------------------------------------------------------------------

/// Boot clock: tokio's (paused in most tests) plus what a test adds by hand. Wall clock: the same from 2026 on.
pub(crate) struct TestClock {
    start: tokio::time::Instant,
    added: AtomicU64,
    wall_added: AtomicU64,
    /// The boot's number, and when it began.
    boot: Mutex<(u32, u64)>,
}

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            start: tokio::time::Instant::now(),
            added: AtomicU64::new(1_000_000),
            wall_added: AtomicU64::new(0),
            boot: Mutex::new((1, 0)),
        })
    }

    pub(crate) fn ms(&self) -> u64 {
        self.added.load(Ordering::SeqCst) + u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    pub(crate) fn add(&self, ms: u64) {
        self.added.fetch_add(ms, Ordering::SeqCst);
    }

    /// The machine starts anew: its boot clock too.
    pub(crate) fn reboot(&self) {
        let mut boot = self.boot.lock().unwrap();
        *boot = (boot.0 + 1, self.ms());
    }

    pub(crate) fn add_wall(&self, ms: u64) {
        self.wall_added.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Now {
        let wall = 1_790_000_000_000 + self.ms() + self.wall_added.load(Ordering::SeqCst);
        let (boot, began) = *self.boot.lock().unwrap();
        let mark = Mark::new(format!("boot-{boot}"), self.ms() - began);
        Now { wall: Wall::from_unix_ms(i64::try_from(wall).unwrap()), mark }
    }
}

// --- the remote --------------------------------------------------------------------------------------------------

/// What one attempt does.
#[derive(Clone)]
pub(crate) enum Act {
    /// Lands and says so.
    Ok,
    /// A definite no, to be tried again.
    Refuse,
    /// A definite no, for good.
    Never,
    /// A definite no with `Retry-After`.
    After(u64),
    /// Landed or not, and the reply is lost: an error through `?`.
    Lost { landed: bool },
    /// Landed or not, and the adapter says *unknown* with an empty message.
    Unknown { landed: bool },
    /// Lands so many milliseconds from now, and never answers.
    Late(u64),
    /// Landed or not, then panics.
    Panic { landed: bool },
    /// Landed or not, then never answers.
    Hang { landed: bool },
    /// Takes so long, then lands and says so.
    Slow(u64),
    /// Never sent.
    NotSent,
    /// Runs this, then lands and says so.
    Then(Hook),
    /// Lands, then runs this, then says so.
    LandThen(Hook),
    /// Runs this, then refuses.
    RefuseThen(Hook),
    /// Runs this, then loses the reply without a landing.
    LoseThen(Hook),
}

/// What one look-up does.
#[derive(Clone)]
pub(crate) enum Look {
    /// Says what is there.
    Truth,
    /// Does not see it although it may be there.
    Blind,
    Unknown,
    Error,
    Panic,
    Hang,
    Conflict,
    /// Sees landings of at least that age, in milliseconds.
    Lag(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Called {
    pub(crate) target: String,
    pub(crate) key: Key,
    pub(crate) epoch: u64,
    pub(crate) attempt: u32,
}

#[derive(Default)]
struct Inside {
    acts: HashMap<String, VecDeque<Act>>,
    always: HashMap<String, Act>,
    looks: VecDeque<Look>,
    look_always: Option<Look>,
    calls: Vec<Called>,
    landings: Vec<(String, Key, u64)>,
    asked: Vec<Called>,
}

/// The remote that all kinds talk to.
pub(crate) struct Remote {
    clock: Arc<TestClock>,
    inside: Mutex<Inside>,
    /// Refuses calls of an epoch below the highest that it saw.
    pub(crate) compares_epochs: AtomicBool,
}

impl Remote {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }

    /// What the next attempts at a target do; `Act::Ok` afterwards.
    pub(crate) fn script(&self, target: &str, acts: impl IntoIterator<Item = Act>) {
        self.lock().acts.entry(target.into()).or_default().extend(acts);
    }

    pub(crate) fn always(&self, target: &str, act: Act) {
        self.lock().always.insert(target.into(), act);
    }

    pub(crate) fn looks(&self, looks: impl IntoIterator<Item = Look>) {
        self.lock().looks.extend(looks);
    }

    pub(crate) fn look_always(&self, look: Look) {
        self.lock().look_always = Some(look);
    }

    pub(crate) fn calls(&self) -> Vec<Called> {
        self.lock().calls.clone()
    }

    pub(crate) fn calls_of(&self, target: &str) -> usize {
        self.lock().calls.iter().filter(|c| c.target == target).count()
    }

    /// Landings that have come to pass by now.
    pub(crate) fn landings(&self) -> Vec<String> {
        let now = self.clock.ms();
        self.lock().landings.iter().filter(|l| l.2 <= now).map(|l| l.0.clone()).collect()
    }

    pub(crate) fn landings_of(&self, target: &str) -> usize {
        self.landings().iter().filter(|t| *t == target).count()
    }

    pub(crate) fn asked(&self) -> usize {
        self.lock().asked.len()
    }

    /// It lands so many milliseconds from now. A remote of a `repeat` kind remembers a key for [`WITHIN_MS`].
    fn land(&self, attempt: &Attempt, in_ms: u64) {
        let operation = &attempt.call.operation;
        let (key, at) = (operation.key, self.clock.ms() + in_ms);
        let mut inside = self.lock();
        let known = inside.landings.iter().any(|l| l.1 == key && at.abs_diff(l.2) < WITHIN_MS);
        if known && ["once", "twice"].contains(&operation.kind.as_str()) {
            return;
        }
        inside.landings.push((operation.target.clone(), key, at));
    }

    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        let target = attempt.call.operation.target.clone();
        let act = {
            let mut inside = self.lock();
            let highest = inside.calls.iter().map(|c| c.epoch).max().unwrap_or(0);
            inside.calls.push(called(attempt));
            if self.compares_epochs.load(Ordering::SeqCst) && attempt.call.epoch.value() < highest {
                return Ok(Outcome::NotLanded(
                    Fault::new("stale_epoch", "a later owner was here"),
                    Retry::Never,
                ));
            }
            let scripted = inside.acts.get_mut(&target).and_then(VecDeque::pop_front);
            scripted.or_else(|| inside.always.get(&target).cloned()).unwrap_or(Act::Ok)
        };
        give_way().await;
        // Whatever carries the request gives up in the end: nothing lands after deadline and lag (the premise of §6).
        let over = attempt.call.deadline.plus_ms(LAG_MS);
        if self.clock.now().wall > over {
            return Err(std::io::Error::from(std::io::ErrorKind::TimedOut))?;
        }
        let landed = Ok(Outcome::landed(attempt.call.operation.key.to_string()));
        let refused = |retry| Ok(Outcome::NotLanded(Fault::new("refused", "422"), retry));
        match act {
            Act::Ok => self.land(attempt, 0),
            Act::Refuse => return refused(Retry::Backoff),
            Act::Never => return refused(Retry::Never),
            Act::After(ms) => return refused(Retry::After { ms }),
            Act::Lost { landed } => {
                self.land_if(landed, attempt);
                return Err(std::io::Error::other("500 Internal Server Error"))?;
            }
            Act::Unknown { landed } => {
                self.land_if(landed, attempt);
                return Ok(Outcome::Unknown(Fault::new("", "")));
            }
            Act::Late(ms) => {
                self.land(attempt, ms);
                std::future::pending::<()>().await;
            }
            Act::Panic { landed } => {
                self.land_if(landed, attempt);
                panic!("the adapter of {target} broke");
            }
            Act::Hang { landed } => {
                self.land_if(landed, attempt);
                std::future::pending::<()>().await;
            }
            Act::Slow(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                self.land(attempt, 0);
            }
            Act::NotSent => return Ok(Outcome::NotSent(Fault::new("not_sent", "no route"))),
            Act::Then(run) => {
                run().await;
                self.land(attempt, 0);
            }
            Act::LandThen(run) => {
                self.land(attempt, 0);
                run().await;
            }
            Act::RefuseThen(run) => {
                run().await;
                return refused(Retry::Backoff);
            }
            Act::LoseThen(run) => {
                run().await;
                return Err(std::io::Error::other("connection reset"))?;
            }
        }
        give_way().await;
        landed
    }

    fn land_if(&self, landed: bool, attempt: &Attempt) {
        if landed {
            self.land(attempt, 0);
        }
    }

    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
        let look = {
            let mut inside = self.lock();
            inside.asked.push(called(attempt));
            let scripted = inside.looks.pop_front();
            scripted.or_else(|| inside.look_always.clone()).unwrap_or(Look::Truth)
        };
        give_way().await;
        let key = attempt.call.operation.key;
        let older_than = |age: u64| {
            let now = self.clock.ms();
            let found = self.lock().landings.iter().any(|l| l.1 == key && l.2 + age <= now);
            if found { Finding::Landed(Receipt::new(key.to_string())) } else { Finding::NotLanded }
        };
        Ok(match look {
            Look::Truth => older_than(0),
            Look::Lag(ms) => older_than(ms),
            Look::Blind => Finding::NotLanded,
            Look::Unknown => Finding::Unknown(Fault::new("unknown", "page 3 of 4 failed")),
            Look::Error => return Err(std::io::Error::other("502 Bad Gateway"))?,
            Look::Panic => panic!("the reconciler broke"),
            Look::Hang => std::future::pending().await,
            Look::Conflict => Finding::Conflict(Fault::new("conflict", "a foreign commit stands there")),
        })
    }
}

fn called(attempt: &Attempt) -> Called {
    let call = &attempt.call;
    Called {
        target: call.operation.target.clone(),
        key: call.operation.key,
        epoch: call.epoch.value(),
        attempt: call.attempt.value(),
    }
}

/// One kind of effect on the remote, and its own reconciler.
#[derive(Clone)]
pub(crate) struct Sink {
    pub(crate) kind: &'static str,
    pub(crate) remote: Arc<Remote>,
    pub(crate) terms: Terms,
}

#[async_trait::async_trait]
impl Effect for Sink {
    fn kind(&self) -> Kind {
        Kind::new(self.kind).unwrap()
    }

    fn terms(&self, planned: &Planned<'_>) -> Result<Terms, Fault> {
        if planned.target == "refused-at-bind" {
            return Err(Fault::new("shape", "this kind does not know that target"));
        }
        Ok(self.terms.clone())
    }

    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        self.remote.execute(attempt).await
    }
}

#[async_trait::async_trait]
impl Reconciler for Sink {
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
        self.remote.look(attempt).await
    }
}

// --- the store ---------------------------------------------------------------------------------------------------

/// What goes wrong at one publish.
#[derive(Clone)]
pub(crate) enum Trouble {
    None,
    /// Certainly not published.
    NotCommitted,
    /// The hold is lost; nothing published.
    HoldLost,
    /// The hold is lost, and this runs before the caller hears of it; nothing of ours published.
    LostTo(Hook),
    /// Somebody else was faster; nothing of ours published.
    Taken,
    /// Nobody knows: it was published.
    IndeterminateStored,
    /// Nobody knows: it was not published.
    IndeterminateLost,
    /// Published, then this runs before the caller hears of it.
    Then(Hook),
    /// This runs, then it is published.
    First(Hook),
}

/// A memory store that fails where it is told to.
#[derive(Clone)]
pub(crate) struct Faulty {
    inner: Arc<MemoryStore>,
    pub(crate) id: String,
    publishes: Arc<Mutex<VecDeque<Trouble>>>,
    reserves: Arc<Mutex<VecDeque<bool>>>,
    pub(crate) published: Arc<AtomicU64>,
    pub(crate) held: Arc<AtomicU64>,
    pub(crate) renewed: Arc<AtomicU64>,
    pub(crate) renews: Arc<Mutex<VecDeque<bool>>>,
    pub(crate) never_renews: Arc<AtomicBool>,
    pub(crate) reads_fail: Arc<AtomicBool>,
    pub(crate) lates_fail: Arc<AtomicBool>,
    pub(crate) gives_way: Arc<AtomicBool>,
    pub(crate) holds_fail: Arc<AtomicBool>,
    /// Its holds prove their predecessor dead, as a file lock does, and it has no server's clock.
    pub(crate) proves: Arc<AtomicBool>,
}

impl Faulty {
    fn new(inner: MemoryStore) -> Self {
        Self {
            id: inner.id().to_owned(),
            inner: Arc::new(inner),
            publishes: Arc::default(),
            reserves: Arc::default(),
            published: Arc::default(),
            held: Arc::default(),
            renewed: Arc::default(),
            renews: Arc::default(),
            never_renews: Arc::default(),
            reads_fail: Arc::default(),
            lates_fail: Arc::default(),
            gives_way: Arc::default(),
            holds_fail: Arc::default(),
            proves: Arc::default(),
        }
    }

    /// Another store of the same make.
    pub(crate) fn another(&self, id: &str) -> Self {
        Self::new(MemoryStore::new().with_id(id))
    }

    /// What the next publishes meet.
    pub(crate) fn trouble(&self, troubles: impl IntoIterator<Item = Trouble>) {
        self.publishes.lock().unwrap().extend(troubles);
    }

    /// Trouble at the k-th publish from now, counted from 1.
    pub(crate) fn trouble_at(&self, k: usize, trouble: Trouble) {
        self.trouble(std::iter::repeat_n(Trouble::None, k - 1).chain([trouble]));
    }

    /// The k-th reserve from now finds no room, counted from 1.
    pub(crate) fn full_at(&self, k: usize) {
        self.reserves.lock().unwrap().extend(std::iter::repeat_n(false, k - 1).chain([true]));
    }

    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::SeqCst)
    }

    pub(crate) fn holds(&self) -> u64 {
        self.held.load(Ordering::SeqCst)
    }

    pub(crate) fn expire(&self, session: &SessionId) {
        self.inner.expire(session);
    }

    async fn way(&self) {
        if self.gives_way.load(Ordering::SeqCst) {
            give_way().await;
        }
    }
}

fn io(did: &'static str) -> StoreError {
    StoreError::Io { did, path: "/store".into(), source: std::io::Error::other("EIO") }
}

#[async_trait::async_trait]
impl Store for Faulty {
    fn id(&self) -> &str {
        &self.id
    }

    async fn hold(&self, session: &SessionId) -> Result<Hold, StoreError> {
        self.way().await;
        if self.holds_fail.load(Ordering::SeqCst) {
            return Err(io("cannot lock"));
        }
        let mut hold = self.inner.hold(session).await?;
        if self.proves.load(Ordering::SeqCst) {
            hold.proof.predecessor_dead = true;
            hold.proof.machine = "machine-1".into();
        }
        self.held.fetch_add(1, Ordering::SeqCst);
        self.way().await;
        Ok(hold)
    }

    async fn read(&self, session: &SessionId, from: Revision) -> Result<Journal, StoreError> {
        self.way().await;
        if self.reads_fail.load(Ordering::SeqCst) {
            return Err(io("cannot read"));
        }
        let mut journal = self.inner.read(session, from).await?;
        if self.proves.load(Ordering::SeqCst) {
            journal.stamps = None;
        }
        self.way().await;
        Ok(journal)
    }

    async fn publish(&self, hold: &Hold, commit: &Commit, blobs: &[Blob]) -> Result<(), PublishError> {
        self.way().await;
        let trouble = self.publishes.lock().unwrap().pop_front().unwrap_or(Trouble::None);
        let publish = async || {
            let done = self.inner.publish(hold, commit, blobs).await;
            self.published.fetch_add(u64::from(done.is_ok()), Ordering::SeqCst);
            done
        };
        match trouble {
            Trouble::None => publish().await?,
            Trouble::NotCommitted => return Err(PublishError::NotCommitted(io("cannot write"))),
            Trouble::HoldLost => {
                self.inner.expire(&hold.session);
                return publish().await;
            }
            Trouble::LostTo(run) => {
                self.inner.expire(&hold.session);
                run().await;
                let why = "its lease is over".into();
                return Err(PublishError::NotCommitted(StoreError::HoldLost { why }));
            }
            Trouble::Taken => return Err(PublishError::Taken { revision: commit.revision() }),
            Trouble::IndeterminateStored => {
                publish().await?;
                return Err(PublishError::Indeterminate(io("cannot sync")));
            }
            Trouble::IndeterminateLost => return Err(PublishError::Indeterminate(io("cannot sync"))),
            Trouble::Then(run) => {
                publish().await?;
                run().await;
            }
            Trouble::First(run) => {
                run().await;
                publish().await?;
            }
        }
        self.way().await;
        Ok(())
    }

    async fn blob(&self, session: &SessionId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.inner.blob(session, digest).await
    }

    async fn reserve(&self, hold: &Hold, bytes: u64) -> Result<(), StoreError> {
        self.way().await;
        if self.reserves.lock().unwrap().pop_front().unwrap_or(false) {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(StoreError::Full { path: "/store".into(), source });
        }
        self.inner.reserve(hold, bytes).await
    }

    async fn renew(&self, hold: &Hold) -> Result<(), StoreError> {
        if self.never_renews.load(Ordering::SeqCst)
            || self.renews.lock().unwrap().pop_front().unwrap_or(false)
        {
            return Err(io("cannot reach the server"));
        }
        self.inner.renew(hold).await?;
        self.renewed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn keep_late(&self, session: &SessionId, evidence: &Evidence) -> Result<(), StoreError> {
        self.way().await;
        if self.lates_fail.load(Ordering::SeqCst) {
            return Err(io("cannot write"));
        }
        self.inner.keep_late(session, evidence).await
    }

    async fn request(&self, session: &SessionId, request: &Request) -> Result<(), StoreError> {
        self.inner.request(session, request).await
    }

    async fn sessions(&self, page: Page) -> Result<SessionPage, StoreError> {
        self.inner.sessions(page).await
    }
}

// --- the world ---------------------------------------------------------------------------------------------------

/// Deadline and lag of the kinds here, in milliseconds.
pub(crate) const DEADLINE_MS: u64 = 30_000;
pub(crate) const LAG_MS: u64 = 15_000;
/// After this long nothing of an attempt can land any more.
pub(crate) const OVER_MS: u64 = DEADLINE_MS + LAG_MS + 5;
/// How long the remote of `once` remembers a key.
pub(crate) const WITHIN_MS: u64 = 600_000;

/// One session on one store, one remote.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: Arc<TestClock>,
    pub(crate) store: Faulty,
    pub(crate) remote: Arc<Remote>,
    pub(crate) session: SessionId,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_lease(3_600_000)
    }

    pub(crate) fn with_lease(lease_ms: u64) -> Self {
        let clock = TestClock::new();
        let server = clock.clone();
        let store =
            Faulty::new(MemoryStore::with_clock(lease_ms, Arc::new(move || server.ms())).with_id("desk"));
        let remote = Arc::new(Remote {
            clock: clock.clone(),
            inside: Mutex::default(),
            compares_epochs: AtomicBool::new(false),
        });
        Self { clock, store, remote, session: SessionId::new("fix-118").unwrap() }
    }

    pub(crate) fn sink(&self, kind: &'static str) -> Sink {
        Sink { kind, remote: self.remote.clone(), terms: Terms::remote(DEADLINE_MS, LAG_MS) }
    }

    /// A new engine, with new effects: what a new process has. Kinds: `note` (ask), `mail` (halt), `once` (repeat,
    /// then halt), `twice` (repeat, then ask), `twin` (asks, but cannot tell equal operations apart).
    pub(crate) fn engine(&self) -> Engine {
        self.builder().build().unwrap()
    }

    pub(crate) fn builder(&self) -> surestep::Builder {
        let mut twin = self.sink("twin");
        twin.terms.distinguishes = false;
        let then = Some(Arc::new(self.sink("twice")) as Arc<dyn Reconciler>);
        Engine::builder(self.store.clone())
            .effect(self.sink("note"), Recovery::ask(self.sink("note")))
            .effect(self.sink("mail"), Recovery::halt())
            .effect(self.sink("once"), Recovery::repeat(WITHIN_MS))
            .effect(self.sink("twice"), Recovery::Repeat { within_ms: WITHIN_MS, then })
            .effect(twin.clone(), Recovery::ask(twin))
            .clock(self.clock.clone())
    }

    /// An envelope with no commit, and a plan.
    pub(crate) fn fresh(&self, plan: Plan) -> Envelope {
        Envelope::new(self.session.clone()).with_plan(plan)
    }

    pub(crate) fn bare(&self) -> Envelope {
        Envelope::new(self.session.clone())
    }

    /// A step of a new process without a plan: only the stored bytes are left.
    pub(crate) async fn again(&self) -> Result<Step, StepError> {
        self.engine().step(self.bare()).await
    }

    pub(crate) async fn commits(&self) -> Vec<Commit> {
        self.store.inner.read(&self.session, Revision::FIRST).await.map(|j| j.commits).unwrap_or_default()
    }

    pub(crate) async fn late(&self) -> Vec<Evidence> {
        self.store.inner.read(&self.session, Revision::FIRST).await.map(|j| j.late).unwrap_or_default()
    }

    pub(crate) async fn entries(&self) -> Vec<Entry> {
        self.commits().await.iter().flat_map(|c| c.entries().to_vec()).collect()
    }

    pub(crate) async fn tags(&self) -> Vec<&'static str> {
        self.entries().await.iter().map(Entry::tag).collect()
    }

    /// What was said, from the stored content.
    pub(crate) async fn said(&self, commits: &[Commit]) -> Vec<surestep::core::Raw> {
        let mut envelope = self.bare();
        for entry in commits.iter().flat_map(Commit::entries) {
            if let Entry::Said(said) = entry {
                let bytes = self.store.inner.blob(&self.session, &said.digest).await.unwrap();
                envelope.say(std::str::from_utf8(&bytes).unwrap());
            }
        }
        envelope.conversation().to_vec()
    }

    /// The journal folded anew, and its invariants.
    pub(crate) async fn check(&self) -> Envelope {
        let commits = self.commits().await;
        invariants::check(&commits).unwrap();
        invariants::check_conversation(&commits, &self.said(&commits).await).unwrap();
        Envelope::from_commits(self.session.clone(), commits).unwrap()
    }

    pub(crate) async fn state(&self, op: u32) -> State {
        let envelope = self.check().await;
        envelope.session().operation(OpNumber::new(op)).expect("an operation").state
    }

    pub(crate) async fn epoch(&self) -> Epoch {
        self.check().await.session().epoch
    }

    pub(crate) fn word(&self, id: &str, op: u32, word: Word) -> Request {
        Request {
            id: RequestId::new(id).unwrap(),
            word,
            by: "ann".into(),
            because: "I looked".into(),
            op: (word != Word::Cancel).then(|| OpNumber::new(op)),
            key: None,
            attempt: None,
            turn: None,
            receipt: None,
            extra: surestep::core::Extra::default(),
        }
    }

    pub(crate) async fn say(&self, id: &str, op: u32, word: Word) -> Result<Step, StepError> {
        self.engine().answer(&self.session, &self.word(id, op, word)).await
    }
}

/// A plan of `kind`s on targets; extra fields of an operation follow a comma, as in `t1,"attempts":2`.
pub(crate) fn plan(operations: &[(&str, &str)]) -> Plan {
    plan_of("done", 1, operations, "")
}

pub(crate) fn plan_of(verdict: &str, turn: u32, operations: &[(&str, &str)], fields: &str) -> Plan {
    let operations: Vec<String> = operations
        .iter()
        .map(|(kind, target)| {
            let (target, more) =
                target.split_once(',').map_or((*target, String::new()), |(t, m)| (t, format!(",{m}")));
            format!(r#"{{"kind":"{kind}","repo":"acme/site","target":"{target}","body":{{"n":1E2}}{more}}}"#)
        })
        .collect();
    let list = operations.join(",");
    let text = format!(
        r#"{{"format":"surestep.plan/1","verdict":"{verdict}","turn":{turn},"operations":[{list}]{fields}}}"#
    );
    Plan::parse(text.as_bytes()).unwrap()
}

pub(crate) fn finished(step: &Step) -> &Report {
    match &step.rest {
        Rest::Finished(report) => report,
        other => panic!("it rests: {other:?}"),
    }
}

pub(crate) fn until(step: &Step) -> u64 {
    match &step.rest {
        Rest::Until { wait_ms, .. } => *wait_ms,
        other => panic!("no time is waited for: {other:?}"),
    }
}

pub(crate) fn question(step: &Step) -> &surestep::Question {
    match &step.rest {
        Rest::NeedsPerson(question) => question,
        other => panic!("nothing is asked: {other:?}"),
    }
}

/// Polls a future so many times, then drops it. True: it was done by then.
pub(crate) async fn poll_times<F: Future>(future: F, times: usize) -> bool {
    let mut future = Box::pin(future);
    for _ in 0..times {
        let mut done = false;
        std::future::poll_fn(|cx| {
            done = future.as_mut().poll(cx).is_ready();
            Poll::Ready(())
        })
        .await;
        if done {
            return true;
        }
    }
    false
}
