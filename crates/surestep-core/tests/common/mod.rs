//! A pure harness: it plays store, world, clocks and processes around [`Turn`], in memory and without a random source.
//!
//! Whatever can go wrong is asked of a [`Choices`]: an enumerator makes a test exhaustive, random bytes make it a
//! property test. Choice 0 is always "nothing goes wrong", so short or empty scripts are the simplest histories.
//!
//! After every event the harness checks `invariants::check`, that a settled operation never changes, that nothing is
//! executed without its durable intent, that nothing is looked up by a process that does not own the session, and
//! that no key lands twice. The checks use the commits and the world alone, not the machine that is tested.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses another part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    reason = "test support"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

use surestep_core::plan::{OperationTerms, Plan, PlannedOperation, Terms};
use surestep_core::*;

pub const DEADLINE_MS: u64 = 30_000;
pub const LAG_MS: u64 = 15_000;
pub const WITHIN_MS: u64 = 200_000;
/// More steps than any history of these tests needs: beyond, it runs in circles.
const STEPS_MAX: u32 = 400;
const WALL_START_MS: i64 = 1_795_000_000_000;

// ---------------------------------------------------------------------------------------------------- small makers

pub fn session_id() -> SessionId {
    SessionId::new("fix-118").unwrap()
}

pub fn planned(kind: &str, repo: &str, target: &str, body: &str) -> PlannedOperation {
    PlannedOperation {
        kind: Kind::new(kind).unwrap(),
        repo: repo.into(),
        target: target.into(),
        body: Raw::new(body).unwrap(),
        call_id: None,
        approval: None,
        attempts: None,
        deadline_s: None,
        lag_s: None,
        extra: Extra::default(),
    }
}

pub fn terms_of(recovery: RecoveryClass) -> OperationTerms {
    OperationTerms {
        recovery,
        within_ms: (recovery == RecoveryClass::Repeat).then_some(WITHIN_MS),
        then_ask: false,
        deadline_ms: DEADLINE_MS,
        lag_ms: LAG_MS,
        local: false,
        distinguishes: true,
        attempts_max: 3,
        approval: None,
        identity: None,
        place: None,
    }
}

/// The same terms for each of `n` operations.
pub fn terms(one: &OperationTerms, n: usize) -> Terms {
    Terms { operations: vec![one.clone(); n], dir: None, allow: None }
}

/// `n` operations that differ in their bodies.
pub fn plan(n: usize) -> Plan {
    let one = |k| planned("github.comment", "acme/site", "118", &format!(r#"{{"body":"note {k}","n":1E2}}"#));
    Plan::new("all done", (1..=n).map(one).collect())
}

pub fn me(n: u32) -> Me {
    Me {
        hold: HoldId::new(format!("hold-{n}")).unwrap(),
        owner: format!("process {n}"),
        store: String::new(),
    }
}

pub fn now(boot: &str, ms: u64) -> Now {
    let wall = Wall::from_unix_ms(WALL_START_MS + i64::try_from(ms).unwrap());
    Now { wall, mark: Mark::new(boot, ms) }
}

pub fn dead() -> Proof {
    Proof { predecessor_dead: true, machine: "m1".into(), ..Proof::default() }
}

pub fn fault(code: &str) -> Fault {
    Fault::new(code, format!("because of {code}"))
}

pub fn request(id: &str, word: Word, op: u32) -> Request {
    Request {
        id: RequestId::new(id).unwrap(),
        word,
        by: "ada".into(),
        because: "looked at it".into(),
        op: (op > 0).then(|| OpNumber::new(op)),
        key: None,
        attempt: None,
        turn: None,
        receipt: None,
        extra: Extra::default(),
    }
}

// ----------------------------------------------------------------------------------------- one session, step by step

/// A session's durable commits, and the means to act on them one event at a time.
#[derive(Clone, Default)]
pub struct Shelf {
    pub commits: Vec<Commit>,
    pub said: Vec<String>,
    pub late: Vec<Evidence>,
}

impl Shelf {
    /// Reads the stored texts back, and takes them through an envelope's document as well.
    pub fn load(&self) -> Envelope {
        let commits = self.commits.iter().map(|c| Commit::parse(c.text()).unwrap()).collect();
        let mut envelope = Envelope::from_commits(session_id(), commits).unwrap();
        for list in &self.said {
            envelope.say(list);
        }
        let text = envelope.to_json().unwrap();
        let again = Envelope::parse(text.as_bytes()).unwrap();
        assert_eq!(again, envelope, "an envelope changed on its way through its document");
        again
    }

    pub fn turn(&self, hold: u32, proof: Proof) -> Turn {
        Turn::resume(self.load(), me(hold), proof, self.late.clone())
    }

    /// Publishes under the name of the revision, only if that is free.
    pub fn publish(&mut self, staged: &Staged) -> Result<(), String> {
        let revision = staged.commit().revision().value();
        if revision != self.commits.len() as u64 + 1 {
            return Err(format!("revision {revision} is taken"));
        }
        self.said.extend(staged.content().iter().cloned());
        let parsed = Commit::parse(staged.commit().text()).map_err(|e| format!("unreadable commit: {e}"))?;
        if parsed != *staged.commit() {
            return Err("a commit changed on its way through its text".into());
        }
        self.commits.push(parsed);
        invariants::check(&self.commits).map_err(|e| e.to_string())
    }

    pub fn operation(&self, op: u32) -> Operation {
        self.load().session().operation(OpNumber::new(op)).unwrap().clone()
    }

    pub fn entries(&self) -> Vec<&'static str> {
        self.commits.iter().flat_map(|c| c.entries().iter().map(Entry::tag)).collect()
    }

    /// Goes on until something other than a commit is wanted.
    pub fn commit_on(&mut self, turn: Turn, at: &Now) -> Next {
        let mut next = turn.next(at).unwrap();
        loop {
            next = match next {
                Next::Commit(staged) => {
                    self.publish(&staged).unwrap();
                    staged.committed().next(at).unwrap()
                }
                other => return other,
            };
        }
    }

    pub fn execute(&mut self, turn: Turn, at: &Now) -> Intent {
        match self.commit_on(turn, at) {
            Next::Execute(intent) => intent,
            other => panic!("not an execution: {other:?}"),
        }
    }

    pub fn reconcile(&mut self, turn: Turn, at: &Now) -> Doubt {
        match self.commit_on(turn, at) {
            Next::Reconcile(doubt) => doubt,
            other => panic!("not a look-up: {other:?}"),
        }
    }

    pub fn rest(&mut self, turn: Turn, at: &Now) -> Rest {
        match self.commit_on(turn, at) {
            Next::Rest(rested) => rested.why,
            other => panic!("not a rest: {other:?}"),
        }
    }

    /// A session whose plan is bound and whose first attempt is durable and handed out, at 1,000 ms of boot `b1`.
    pub fn begun(plan: &Plan, terms: &Terms) -> (Self, Intent) {
        let mut shelf = Self::default();
        let turn = shelf.turn(1, dead()).offer(plan, terms).unwrap();
        let intent = shelf.execute(turn, &now("b1", 1_000));
        (shelf, intent)
    }

    /// The same, its process killed before anything is known.
    pub fn lost(one: &OperationTerms) -> Self {
        Self::begun(&plan(1), &terms(one, 1)).0
    }

    /// Records a person's word while nobody owns the session.
    pub fn answer(&mut self, hold: u32, proof: Proof, word: &Request, at: &Now) -> Result<Rest, Refused> {
        let turn = self.turn(hold, proof).answer(word, at)?;
        let mut next = turn.let_go(at)?;
        loop {
            next = match next {
                Next::Commit(staged) => {
                    self.publish(&staged).unwrap();
                    staged.committed().let_go(at)?
                }
                Next::Rest(rested) => return Ok(rested.why),
                other => panic!("a person's word started something: {other:?}"),
            };
        }
    }
}

// ------------------------------------------------------------------------------------------------- the whole history

/// Where choices come from. Choice 0 is "nothing goes wrong".
#[derive(Clone, Default)]
pub struct Choices {
    script: Vec<usize>,
    taken: Vec<(usize, usize)>,
    /// Random mode: the script is a stream of numbers, taken modulo what is asked; 0s follow its end.
    modulo: bool,
}

impl Choices {
    pub fn random(script: Vec<usize>) -> Self {
        Self { script, taken: Vec::new(), modulo: true }
    }

    fn pick(&mut self, n: usize) -> usize {
        if n < 2 {
            return 0;
        }
        let raw = self.script.get(self.taken.len()).copied().unwrap_or(0);
        let pick = if self.modulo { raw % n } else { raw };
        self.taken.push((pick, n));
        pick
    }

    /// The next script in the order of an odometer.
    fn following(&self) -> Option<Vec<usize>> {
        let mut taken = self.taken.clone();
        while let Some((pick, n)) = taken.pop() {
            if pick + 1 < n {
                let mut script: Vec<usize> = taken.iter().map(|t| t.0).collect();
                script.push(pick + 1);
                return Some(script);
            }
        }
        None
    }
}

/// What a history is about.
#[derive(Clone, Debug)]
pub struct Config {
    pub recovery: RecoveryClass,
    pub then_ask: bool,
    pub local: bool,
    /// The store's hold proves the predecessor dead (a lock); else it only fences it (a lease).
    pub proves: bool,
    /// A landing is visible at once, or only after the whole lag.
    pub visible_at_once: bool,
    /// Time that every event takes.
    pub event_ms: u64,
    pub faults: u32,
}

impl Config {
    pub fn terms(&self) -> OperationTerms {
        OperationTerms {
            then_ask: self.then_ask,
            local: self.local,
            lag_ms: if self.local { 0 } else { LAG_MS },
            attempts_max: 9,
            ..terms_of(self.recovery)
        }
    }

    fn can_ask(&self) -> bool {
        self.recovery == RecoveryClass::Ask || self.then_ask
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    First,
    Rebooted,
    OtherMachine,
}

#[derive(Clone, Debug)]
struct Landing {
    op: OpNumber,
    key: Key,
    visible_ms: u64,
}

#[derive(Clone, Debug)]
struct Flight {
    op: OpNumber,
    key: Key,
    lands_ms: u64,
    /// It is a process of this boot: it dies with it.
    boot: Option<Boot>,
}

#[derive(Clone, Debug, Default)]
struct World {
    landings: Vec<Landing>,
    flights: Vec<Flight>,
    /// Late results and when they arrive.
    mail: Vec<(u64, Evidence)>,
    /// First arrival of a key.
    met: BTreeMap<Key, u64>,
}

/// One history: everything durable, the world, and what is still allowed to go wrong.
#[derive(Clone)]
pub struct Sim {
    pub config: Config,
    pub shelf: Shelf,
    pub choices: Choices,
    pub faults_left: u32,
    pub trace: Vec<Rc<str>>,
    pub finished: Option<Report>,
    pub questions: u32,
    /// A person said *not landed* before it could be known.
    pub overridden: bool,
    /// Added to the wall clock, for every process.
    pub wall_skew_ms: i64,
    /// Random mode: clocks of people may jump between any two steps.
    pub wall_jumps: bool,
    envelope: Envelope,
    plan: Plan,
    terms: Terms,
    world: World,
    true_ms: u64,
    boot: Boot,
    rebooted: bool,
    holds: u32,
    requests: u32,
    steps: u32,
    /// Guards that are not known to have ended.
    unfinished: Vec<(Boot, Key, Attempt)>,
    executed: Vec<(OpNumber, Attempt)>,
    settled: BTreeMap<OpNumber, (State, Option<Receipt>)>,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let script = &self.choices.script;
        write!(
            f,
            "{:?} jumps {} script {script:?} plan {:?}",
            self.config, self.wall_jumps, self.plan.operations
        )
    }
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.commits.iter().map(Commit::text)).finish()
    }
}

enum Ended {
    Rest(Rest),
    Killed,
}

type Checked<T> = Result<T, String>;

impl Sim {
    pub fn new(config: Config, plan: Plan, choices: Choices) -> Self {
        let terms = terms(&config.terms(), plan.operations.len());
        Self::with_terms(config, plan, terms, choices)
    }

    pub fn with_terms(config: Config, plan: Plan, terms: Terms, choices: Choices) -> Self {
        Self {
            faults_left: config.faults,
            config,
            shelf: Shelf::default(),
            choices,
            trace: Vec::new(),
            finished: None,
            questions: 0,
            overridden: false,
            wall_skew_ms: 0,
            wall_jumps: false,
            envelope: Envelope::new(session_id()),
            plan,
            terms,
            world: World::default(),
            true_ms: 1_000_000,
            boot: Boot::First,
            rebooted: false,
            holds: 0,
            requests: 0,
            steps: 0,
            unfinished: Vec::new(),
            executed: Vec::new(),
            settled: BTreeMap::new(),
        }
    }

    fn say(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.trace.push(format!("{:>9} {what}", self.true_ms).into());
    }

    fn now(&self) -> Now {
        let start = match self.boot {
            Boot::First => 900_000,
            Boot::Rebooted => 990_000,
            Boot::OtherMachine => 123_456,
        };
        let wall = WALL_START_MS + i64::try_from(self.true_ms).unwrap() + self.wall_skew_ms;
        Now { wall: Wall::from_unix_ms(wall), mark: Mark::new(boot_name(self.boot), self.true_ms - start) }
    }

    fn proof(&self) -> Proof {
        Proof {
            predecessor_dead: self.config.proves,
            machine: if self.boot == Boot::OtherMachine { "m2" } else { "m1" }.into(),
            unfinished: self.unfinished.iter().filter(|u| u.0 == self.boot).map(|u| (u.1, u.2)).collect(),
            ..Proof::default()
        }
    }

    /// Something that may go wrong, if anything still may.
    fn fault(&mut self, n: usize) -> usize {
        if self.faults_left == 0 {
            return 0;
        }
        let pick = self.choices.pick(n);
        self.faults_left -= u32::from(pick != 0);
        pick
    }

    fn pass(&mut self, ms: u64) {
        self.true_ms += ms;
        let due = self.true_ms;
        let mut flights = std::mem::take(&mut self.world.flights);
        flights.sort_by_key(|f| f.lands_ms);
        for flight in flights {
            if flight.lands_ms <= due {
                self.say(format!("operation {} lands late", flight.op));
                self.land(flight.op, flight.key, flight.lands_ms);
            } else {
                self.world.flights.push(flight);
            }
        }
        let (came, coming) = std::mem::take(&mut self.world.mail).into_iter().partition(|(at, _)| *at <= due);
        self.world.mail = coming;
        let came: Vec<(u64, Evidence)> = came;
        self.shelf.late.extend(came.into_iter().map(|(_, evidence)| evidence));
    }

    fn land(&mut self, op: OpNumber, key: Key, at_ms: u64) {
        let repeats = self.config.recovery == RecoveryClass::Repeat;
        let first = *self.world.met.entry(key).or_insert(at_ms);
        let known = self.world.landings.iter().any(|l| l.key == key);
        if repeats && known && at_ms < first + WITHIN_MS {
            return;
        }
        let lag = if self.config.local || self.config.visible_at_once { 0 } else { LAG_MS };
        self.world.landings.push(Landing { op, key, visible_ms: at_ms + lag });
    }

    fn check_world(&self) -> Checked<()> {
        let mut count: BTreeMap<Key, u32> = BTreeMap::new();
        let mut last = OpNumber::new(0);
        for landing in &self.world.landings {
            let n = count.entry(landing.key).or_default();
            *n += 1;
            if *n > 1 && !self.overridden {
                return Err(format!("operation {} landed twice", landing.op));
            }
            if landing.op < last {
                return Err(format!("operation {} landed after operation {last}", landing.op));
            }
            last = landing.op;
        }
        Ok(())
    }

    fn publish(&mut self, staged: &Staged) -> Checked<()> {
        self.shelf.publish(staged)?;
        let tags: Vec<&str> = staged.commit().entries().iter().map(Entry::tag).collect();
        let (revision, epoch) = (staged.commit().revision(), staged.commit().epoch());
        self.say(format!("commit {revision} of epoch {epoch}: {}", tags.join(" + ")));
        let stored = self.shelf.commits.last().unwrap().clone();
        self.envelope.take(stored).map_err(|e| format!("the journal does not load: {e}"))?;
        for operation in &self.envelope.session().operations {
            let as_it_is = (operation.state, operation.landed.as_ref().map(|l| l.0.clone()));
            match self.settled.get(&operation.number) {
                Some(before) if *before != as_it_is => {
                    return Err(format!("settled operation {} changed: {before:?}", operation.number));
                }
                Some(_) => {}
                None if operation.state.is_settled() => {
                    self.settled.insert(operation.number, as_it_is);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// One step of one process, as the engine makes it, and what comes after it.
    pub fn advance(&mut self) -> Checked<()> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            self.trace.truncate(60);
            return Err("it runs in circles".into());
        }
        match self.step()? {
            Ended::Killed => self.restart(),
            Ended::Rest(Rest::Until { wait_ms, .. }) => {
                self.say(format!("rests {wait_ms} ms"));
                self.pass(wait_ms);
                // Another process may come to it then, on another boot or machine.
                if self.fault(2) == 1 {
                    self.elsewhere(1);
                }
                Ok(())
            }
            Ended::Rest(Rest::NeedsPerson(question)) => {
                // The person may come after a reboot, or with another machine.
                match self.fault(3) {
                    0 => self.ask(&question),
                    place => {
                        self.elsewhere(if self.rebooted { 1 } else { place });
                        Ok(())
                    }
                }
            }
            Ended::Rest(Rest::Finished(report)) => {
                self.say(format!("finished: {}", report.verdict));
                self.finished = Some(report);
                self.check_end()
            }
            Ended::Rest(other) => Err(format!("an odd rest: {other:?}")),
        }?;
        if self.wall_jumps {
            const YEARS_10_MS: i64 = 10 * 365 * 86_400_000;
            self.wall_skew_ms = [0, YEARS_10_MS, -YEARS_10_MS, 3_600_000][self.choices.pick(4)];
        }
        self.check_world()
    }

    fn step(&mut self) -> Checked<Ended> {
        self.holds += 1;
        let envelope = self.envelope.clone();
        let compared = envelope.compare(&self.plan).map_err(|e| e.to_string())?;
        let to_bind = compared == Compared::ToBind;
        if let Some(rest) = envelope.rests(&Proof::default(), &self.shelf.late, to_bind, &self.now()) {
            return Ok(Ended::Rest(rest));
        }
        let mut turn = Turn::resume(envelope, me(self.holds), self.proof(), self.shelf.late.clone());
        if to_bind {
            turn = turn.offer(&self.plan, &self.terms).map_err(|e| e.to_string())?;
        }
        loop {
            self.pass(self.config.event_ms);
            turn = match turn.next(&self.now()).map_err(|e| format!("next: {e}"))? {
                Next::Commit(staged) => {
                    // Killed before or after it, or a disk so slow that rests, or deadlines, pass meanwhile.
                    let pick = self.fault(5);
                    if pick == 1 {
                        self.say("killed before a commit");
                        return Ok(Ended::Killed);
                    }
                    let slow_ms = [0, 0, 0, 6_000, DEADLINE_MS + 1][pick];
                    self.pass(self.config.event_ms + slow_ms);
                    self.publish(&staged)?;
                    if pick == 2 {
                        self.say("killed after that commit");
                        return Ok(Ended::Killed);
                    }
                    let turn = staged.committed();
                    if undated(turn.session()) != undated(self.envelope.session()) {
                        return Err("the machine and its journal say different things".into());
                    }
                    turn
                }
                Next::Execute(intent) => match self.execute(intent)? {
                    Some(turn) => turn,
                    None => return Ok(Ended::Killed),
                },
                Next::Reconcile(doubt) => match self.look(doubt)? {
                    Some(turn) => turn,
                    None => return Ok(Ended::Killed),
                },
                Next::Rest(rested) => return Ok(Ended::Rest(rested.why)),
            };
            self.check_world()?;
        }
    }

    fn execute(&mut self, intent: Intent) -> Checked<Option<Turn>> {
        let call = intent.call().clone();
        let (op, key, attempt) = (call.op, call.operation.key, call.attempt);
        self.check_intent(&call)?;
        if let Some(not_sent) = intent.refuses_to_send(&self.now()) {
            self.say(format!("operation {op}: {not_sent:?}"));
            return Ok(Some(intent.settle(not_sent, &self.now())));
        }
        self.world.met.entry(key).or_insert(self.true_ms);
        let deadline_ms = self.true_ms + call.deadline_mark.since(&self.now().mark).unwrap_or(0);
        let (local, proves) = (self.config.local, self.config.proves);
        let flight = Flight { op, key, lands_ms: deadline_ms, boot: local.then_some(self.boot) };
        let evidence = |observed| Evidence { op, key, attempt, epoch: call.epoch, observed, ended: None };
        // What a process that lives on may see, then kills, then a stall: only a lease lets a living owner be fenced.
        let pick = self.fault(if proves { 13 } else { 16 });
        let names = [
            "landed",
            "landed, reply lost",
            "not landed, reply lost",
            "reply lost, lands at the deadline",
            "refused",
            "refused until later",
            "not sent",
            "over, landed",
            "over, not landed",
            "over, lands at the deadline",
            "killed before it is sent",
            "killed after it landed",
            "killed, lands at the deadline",
            "stalled, lands at the deadline and says so",
            "stalled, refused",
            "stalled, not sent",
        ];
        self.say(format!("operation {op}, attempt {attempt}: {}", names[pick]));
        let outcome = match pick {
            0 | 1 | 7 | 11 => {
                self.land(op, key, self.true_ms);
                match pick {
                    0 => Outcome::Landed(landed(key)),
                    1 => Outcome::Unknown(fault("lost")),
                    7 => Outcome::Over(fault("over")),
                    _ => return Ok(None),
                }
            }
            2 => Outcome::Unknown(fault("lost")),
            3 => {
                // Whoever gives up on a command below our guard leaves its record unfinished.
                if local && proves {
                    self.unfinished.push((self.boot, key, attempt));
                }
                self.world.flights.push(flight);
                Outcome::Unknown(fault("lost"))
            }
            4 => Outcome::NotLanded(fault("refused"), Retry::Backoff),
            5 => Outcome::NotLanded(fault("refused"), Retry::After { ms: 7_000 }),
            6 => Outcome::NotSent(fault("not_sent")),
            8 => Outcome::Over(fault("over")),
            9 => {
                // What is over below our guard cannot land any more; what a remote does can.
                if !local {
                    self.world.flights.push(flight);
                }
                Outcome::Over(fault("over"))
            }
            10 => return Ok(None),
            12 => {
                // A local command outlives its engine only while its guard is not known to have ended.
                if local && proves {
                    self.unfinished.push((self.boot, key, attempt));
                }
                self.world.flights.push(flight);
                return Ok(None);
            }
            13 => {
                self.world.flights.push(flight);
                self.world.mail.push((deadline_ms, evidence(Outcome::Landed(landed(key)))));
                return Ok(None);
            }
            14 => {
                let refused = Outcome::NotLanded(fault("refused"), Retry::Backoff);
                self.world.mail.push((self.true_ms + 2, evidence(refused)));
                return Ok(None);
            }
            _ => {
                self.world.mail.push((self.true_ms + 2, evidence(Outcome::NotSent(fault("not_sent")))));
                return Ok(None);
            }
        };
        self.check_world()?;
        self.pass(self.config.event_ms);
        Ok(Some(intent.settle(outcome, &self.now())))
    }

    /// I1, from the stored commits alone: this owner's epoch intended this very attempt, and it runs once.
    fn check_intent(&mut self, call: &Call) -> Checked<()> {
        let mut durable = false;
        let mut owner = String::new();
        for commit in &self.shelf.commits {
            for entry in commit.entries() {
                match entry {
                    Entry::Claimed(e) => e.hold.as_str().clone_into(&mut owner),
                    Entry::Intended(e)
                        if (e.op, e.attempt, e.key) == (call.op, call.attempt, call.operation.key) =>
                    {
                        durable |= commit.epoch() == call.epoch;
                    }
                    _ => {}
                }
            }
        }
        if !durable || owner != me(self.holds).hold.as_str() {
            return Err(format!("operation {} is executed without a durable intent", call.op));
        }
        if self.executed.contains(&(call.op, call.attempt)) {
            return Err(format!("attempt {} of operation {} is executed twice", call.attempt, call.op));
        }
        self.executed.push((call.op, call.attempt));
        Ok(())
    }

    fn look(&mut self, doubt: Doubt) -> Checked<Option<Turn>> {
        let call = doubt.call().clone();
        let owner = self.envelope.session().owner.as_ref().map(|o| o.0.clone());
        if owner != Some(me(self.holds).hold) {
            return Err(format!("operation {} is looked up by a process that does not own it", call.op));
        }
        if !self.config.can_ask() {
            return Err(format!("operation {} is looked up although nobody can be asked", call.op));
        }
        let pick = self.fault(3);
        if pick == 2 {
            self.say("killed at a look-up");
            return Ok(None);
        }
        let there =
            self.world.landings.iter().any(|l| l.key == call.operation.key && l.visible_ms <= self.true_ms);
        let found = match (pick, there) {
            (1, _) => Finding::Unknown(fault("busy")),
            (_, true) => Finding::Landed(landed(call.operation.key)),
            (_, false) => Finding::NotLanded,
        };
        self.say(format!("look-up of operation {}: {found:?}", call.op));
        self.pass(self.config.event_ms);
        Ok(Some(doubt.resolve(found, &self.now())))
    }

    /// After a kill: early or late, on this boot, after a reboot, or on another machine.
    fn restart(&mut self) -> Checked<()> {
        let repeats = self.config.recovery == RecoveryClass::Repeat;
        let waits = [1, DEADLINE_MS + LAG_MS + 10_000, WITHIN_MS];
        let wait_ms = waits[self.choices.pick(if repeats { 3 } else { 2 })];
        let place = self.choices.pick(if self.rebooted { 2 } else { 3 });
        self.elsewhere(place);
        self.pass(wait_ms);
        self.say(format!("starts again on {:?} after {wait_ms} ms", self.boot));
        Ok(())
    }

    fn elsewhere(&mut self, place: usize) {
        let first = if self.rebooted { Boot::Rebooted } else { Boot::First };
        self.boot = match (place, self.boot) {
            (0, here) => here,
            (1, Boot::OtherMachine) => first,
            (1, _) => Boot::OtherMachine,
            (_, _) => {
                self.rebooted = true;
                self.unfinished.retain(|u| u.0 != Boot::First);
                // What ran on that boot is gone.
                self.world.flights.retain(|f| f.boot != Some(Boot::First));
                if self.config.local {
                    self.world.mail.clear();
                }
                Boot::Rebooted
            }
        };
    }

    /// A person who knows the world as it is visible answers truthfully, and again later if it was too early.
    fn ask(&mut self, question: &Question) -> Checked<()> {
        let operation = self.shelf_operation(question.op)?;
        let window = self.config.recovery == RecoveryClass::Repeat;
        if operation.looks_unknown >= limits::LOOKS_UNKNOWN_MAX {
            // So many look-ups could not tell that a person is asked as well; the next one still comes.
            self.say("a person is asked, and waits for the next look-up");
            self.pass(operation.rest.as_ref().map_or(1, |rest| rest.wait_ms));
            return Ok(());
        }
        if self.config.can_ask() {
            return Err(format!("a question about operation {} that a look-up could answer", question.op));
        }
        if window && absence::may_repeat(&operation, &self.proof(), &self.now().mark) {
            return Err(format!("a question about operation {} that could be repeated", question.op));
        }
        self.questions += 1;
        self.holds += 1;
        self.requests += 1;
        let there =
            self.world.landings.iter().any(|l| l.key == operation.bound.key && l.visible_ms <= self.true_ms);
        let word = if there { Word::Landed } else { Word::NotLanded };
        let mut request = request(&format!("request-{}", self.requests), word, question.op.value());
        request.receipt = there.then(|| landed(operation.bound.key));
        request.attempt = Some(question.attempt);
        let turn = Turn::resume(self.envelope.clone(), me(self.holds), self.proof(), self.shelf.late.clone());
        let now = self.now();
        match turn.answer(&request, &now) {
            Err(Refused::TooEarly { wait_ms, .. }) => {
                // On a boot that never read the intent the clock starts with a claim that notes it.
                self.say(format!("a person is told to come back in {wait_ms} ms"));
                let turn = Turn::resume(
                    self.envelope.clone(),
                    me(self.holds),
                    self.proof(),
                    self.shelf.late.clone(),
                );
                if let Next::Commit(staged) = turn.note(&now).map_err(|e| e.to_string())? {
                    self.publish(&staged)?;
                }
                self.pass(wait_ms);
                Ok(())
            }
            Err(Refused::Known { .. }) => {
                // A late result came between the question and the answer: the next step takes it up.
                self.say("a person is told that a late result answers");
                Ok(())
            }
            Err(other) => Err(format!("a truthful answer is refused: {other}")),
            Ok(turn) => {
                self.say(format!("a person says {word:?}"));
                match turn.let_go(&now).map_err(|e| e.to_string())? {
                    Next::Commit(staged) => self.publish(&staged),
                    other => Err(format!("an answer was not recorded: {other:?}")),
                }
            }
        }
    }

    fn shelf_operation(&self, op: OpNumber) -> Checked<Operation> {
        self.envelope.session().operation(op).cloned().ok_or_else(|| "no such operation".into())
    }

    /// The same end as the control, which nobody disturbed: every operation landed once, in order, with its receipt.
    fn check_end(&self) -> Checked<()> {
        let report = self.finished.as_ref().unwrap();
        if report.outcome != End::Completed || report.verdict != "all done" {
            return Err(format!(
                "the control completes, this one is {:?} ({})",
                report.outcome, report.verdict
            ));
        }
        let order: Vec<Key> = self.world.landings.iter().map(|l| l.key).collect();
        let lines: Vec<Key> = report.operations.iter().map(|l| l.key).collect();
        if order != lines {
            return Err(format!("landed {order:?}, planned {lines:?}"));
        }
        for line in &report.operations {
            let reference = line.landed.as_ref().map(|l| l.0.clone());
            if line.state != State::Succeeded || reference != Some(landed(line.key)) {
                return Err(format!("operation {} ended {} with {reference:?}", line.op, line.state));
            }
        }
        Ok(())
    }

    /// Runs to the end of the script and on, undisturbed, to the end of the turn.
    pub fn run(&mut self) -> Checked<()> {
        while self.finished.is_none() {
            self.advance()?;
        }
        Ok(())
    }

    /// Everything that can decide what happens next, with times relative to now.
    fn fingerprint(&self) -> String {
        const CAP_MS: u64 = 2 * (DEADLINE_MS + LAG_MS) + WITHIN_MS;
        let now = self.now();
        let ago = |mark: &Mark| {
            let same = now.mark.since(mark);
            format!("{}-{:?}", mark.boot, same.map(|ms| ms.min(CAP_MS)))
        };
        let to = |at: u64| i128::from(at.min(self.true_ms + CAP_MS)) - i128::from(self.true_ms);
        let mut out = format!(
            "{:?} {} {} {:?} {:?} ",
            self.boot,
            self.rebooted,
            self.faults_left,
            self.unfinished,
            self.finished.is_some()
        );
        let session = self.envelope.session();
        let _ = write!(out, "owned {} ", session.owner.is_some());
        for o in &session.operations {
            let _ = write!(
                out,
                "[{:?} {} {} {} {} {} {:?}",
                o.state,
                o.answers,
                o.restarts,
                o.looks,
                o.looks_unknown,
                o.person,
                o.fault.as_ref().map(|f| &f.code)
            );
            if let Some(rest) = &o.rest {
                let _ = write!(out, " rest {} {}", rest.left_ms(&now), rest.boot);
            }
            for a in &o.attempts {
                let age = (session.epoch.value() - a.epoch.value()).min(2);
                let reads: Vec<String> = a.reads.iter().map(ago).collect();
                let ended = a.ended.as_ref().map(ago);
                let _ = write!(
                    out,
                    " ({} {age} {} {reads:?} {ended:?} {})",
                    a.absent,
                    ago(&a.intended),
                    a.machine
                );
            }
            out.push(']');
        }
        for l in &self.world.landings {
            let _ = write!(out, " landed {} {}", l.op, to(l.visible_ms).max(0));
        }
        for f in &self.world.flights {
            let _ = write!(out, " flies {} {} {:?}", f.op, to(f.lands_ms), f.boot);
        }
        for (at, e) in &self.world.mail {
            let _ = write!(out, " mail {} {}", to(*at), evidence_text(e));
        }
        for e in &self.shelf.late {
            let _ = write!(out, " late {}", evidence_text(e));
        }
        for (key, at) in &self.world.met {
            let _ = write!(out, " met {key} {}", to(*at).max(-i128::from(CAP_MS)));
        }
        out
    }
}

/// Evidence is dated by its commit once it is read back, by its settling before that: for people only.
fn undated(session: &Session) -> Session {
    let mut session = session.clone();
    for operation in &mut session.operations {
        operation.doubts.iter_mut().for_each(|doubt| doubt.0 = Wall::from_unix_ms(0));
    }
    session
}

fn evidence_text(e: &Evidence) -> String {
    format!("{} {} {:?}", e.op, e.attempt, e.observed)
}

fn boot_name(boot: Boot) -> &'static str {
    match boot {
        Boot::First => "boot-1",
        Boot::Rebooted => "boot-2",
        Boot::OtherMachine => "boot-x",
    }
}

/// What a landing of this key leaves behind, however it is learned of.
pub fn landed(key: Key) -> Receipt {
    Receipt::new(format!("landing of {key}"))
}

/// How far an enumeration went.
#[derive(Debug, Default, Clone, Copy)]
pub struct Explored {
    /// Different durable states between two steps.
    pub states: usize,
    /// Steps that were made from them.
    pub steps: usize,
    /// States in which the turn was finished.
    pub ends: usize,
}

/// Visits every state that any choices can lead to. Two histories that end in equal states (times relative to now)
/// are continued once.
pub fn explore(config: &Config, plan: &Plan) -> Result<Explored, String> {
    let mut seen = std::collections::HashMap::new();
    let mut explored = Explored::default();
    let first = Sim::new(config.clone(), plan.clone(), Choices::default());
    // Of each state: what came before it, and the state that follows if nothing goes wrong.
    let mut traces = vec![Vec::new()];
    let mut follows: Vec<Option<usize>> = vec![None];
    let mut waiting = vec![(0, first)];
    while let Some((number, state)) = waiting.pop() {
        let mut script = Vec::new();
        loop {
            let mut sim = state.clone();
            sim.choices = Choices { script, taken: Vec::new(), modulo: false };
            explored.steps += 1;
            if let Err(why) = sim.advance() {
                return Err(format!("{why}\n  in {config:?}\n  {}", sim.trace.join("\n  ")));
            }
            let next = traces.len();
            let next = *seen.entry(sim.fingerprint()).or_insert(next);
            if sim.choices.taken.iter().all(|taken| taken.0 == 0) {
                follows[number] = Some(next);
            }
            if next == traces.len() {
                explored.states += 1;
                traces.push(sim.trace.clone());
                follows.push(None);
                // Commits are read back from their texts at once; whole documents, now and then.
                if explored.states % 16 == 1 || sim.faults_left + 1 == config.faults {
                    let stored = sim.shelf.load();
                    assert_eq!(stored.session(), sim.envelope.session(), "the texts say something else");
                }
                if sim.finished.is_some() {
                    explored.ends += 1;
                } else {
                    waiting.push((next, sim.clone()));
                }
            }
            match sim.choices.following() {
                Some(following) => script = following,
                None => break,
            }
        }
    }
    // From everywhere, undisturbed, the turn comes to its end: no waiting in circles.
    for (start, trace) in traces.iter().enumerate() {
        let (mut at, mut steps) = (start, 0);
        while let Some(next) = follows[at] {
            (at, steps) = (next, steps + 1);
            if steps > STEPS_MAX {
                return Err(format!("it waits in circles\n  in {config:?}\n  {}", trace.join("\n  ")));
            }
        }
    }
    Ok(explored)
}
