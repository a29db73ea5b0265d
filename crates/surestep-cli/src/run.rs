//! `resume`, and the second half of `run`: step, and with `--wait` sleep and step again.
//!
//! Many sessions are stepped in rounds, so that one that sleeps never keeps another from working.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use surestep::core::Operation;
use surestep::{
    Engine, Envelope, OpNumber, Page, Plan, Rest, SessionId, Step, StepError, TurnNumber, Via, exit,
};

use crate::args;
use crate::context::{Context, Store, wall};
use crate::fail::{Fail, Next, Seen};
use crate::progress::Progress;
use crate::text::{self, tick};
use crate::view::SessionView;
use crate::{duration, fails, rests, show};

/// How long apart two looks at a held session are.
const HELD_POLL: Duration = Duration::from_millis(100);

/// One session on its way.
struct Job {
    session: SessionId,
    plan: Option<Plan>,
    due: Instant,
    /// What had landed before, so that late evidence is told once.
    landed: BTreeSet<OpNumber>,
    last: Option<Result<Step, StepError>>,
    limit_reached: bool,
}

/// How it came to rest.
pub(crate) struct Rested {
    pub(crate) session: SessionId,
    pub(crate) outcome: Result<(Envelope, Rest), Fail>,
    pub(crate) fail: Option<Fail>,
}

/// Makes a failure's next commands fit the command that was typed; told where the session stood before.
pub(crate) type Fix<'a> = &'a dyn Fn(Fail, Before) -> Fail;

/// Where a session stood before a command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    /// Its turn; `None`: it had none.
    pub(crate) turn: Option<TurnNumber>,
    /// That turn was over.
    pub(crate) over: bool,
}

impl Before {
    pub(crate) fn of(envelope: Option<&Envelope>) -> Self {
        let turn = envelope.and_then(|envelope| envelope.session().turn());
        Self { turn: turn.map(|t| t.number), over: turn.is_some_and(|t| t.ended.is_some()) }
    }
}

/// Offers a plan and says how the session came to rest: `run` and `exec`.
pub(crate) async fn run_plan(
    cx: &Context,
    schema: &'static str,
    session: SessionId,
    plan: Plan,
    wait: args::Wait,
    fix: Fix<'_>,
) -> Result<u8, Fail> {
    crate::dry::check(cx, &session, &plan).await.map_err(|fail| fix(fail, Before::default()))?;
    let progress = Progress::new(cx.out.clone());
    let engine = cx.engine(Store::Create, Some(progress.clone()))?;
    let before = engine.read(&session).await.ok();
    let bound = before.as_ref().map_or(0, |envelope| envelope.session().operations.len());
    let stood = Before::of(before.as_ref());
    let opens = stood.turn.is_none_or(|turn| plan.turn_number() > turn);
    progress.expect(if opens { bound + plan.operations.len() } else { bound });
    let rested = drive(cx, &engine, vec![(session.clone(), Some(plan))], wait, Instant::now()).await;
    let Some(rested) = rested.into_iter().next() else { return Ok(exit::DONE) };
    let code = rested.exit();
    match rested.outcome {
        Err(fail) => {
            let fail =
                if engine.read(&session).await.is_ok() { fail } else { begin_again(cx, fail, &session) };
            Err(fix(fail, stood))
        }
        Ok((envelope, rest)) => {
            cx.out.object(&SessionView::new(schema, &envelope, &rest, code));
            show::summary(cx, &envelope);
            if let Some(fail) = rested.fail {
                fix(fail, stood).say(&cx.out);
            }
            Ok(code)
        }
    }
}

/// A session that has not come into being cannot be resumed: the same command begins it.
fn begin_again(cx: &Context, mut fail: Fail, session: &SessionId) -> Fail {
    let resume = cx.command(&["resume", session.as_str()]);
    for next in fail.next.iter_mut().filter(|next| next.command.starts_with(&resume)) {
        next.command.clone_from(&cx.again);
    }
    fail
}

/// `surestep.resume/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ResumeObject {
    schema: &'static str,
    exit: u8,
    sessions: Vec<SessionView>,
    errors: Vec<ErrorView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ErrorView {
    session: String,
    code: &'static str,
    exit: u8,
    what: String,
    state: Vec<String>,
    next: Vec<Next>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<Seen>,
}

/// The sessions that `resume` is about, and what is to be said of those whose id nobody can tell.
pub(crate) async fn chosen(
    cx: &Context,
    engine: &Engine,
    args: &args::Resume,
) -> Result<(Vec<SessionId>, Vec<Fail>), Fail> {
    let (sessions, nameless) = match &args.session {
        Some(session) => (vec![cx.session(session)?], vec![]),
        None => unfinished(cx, engine).await?,
    };
    if sessions.is_empty() && nameless.is_empty() {
        cx.out.note("surestep: every session of this store is finished");
    }
    Ok((sessions, nameless))
}

/// `resume`.
pub(crate) async fn resume(cx: &Context, args: &args::Resume) -> Result<u8, Fail> {
    if args.dry_run {
        return crate::dry::resume(cx, args).await;
    }
    let start = Instant::now();
    let progress = Progress::new(cx.out.clone());
    let engine = cx.engine(Store::MustExist, Some(progress.clone()))?;
    let (sessions, nameless) = chosen(cx, &engine, args).await?;
    let alone = args.session.is_some();
    if let Some(session) = sessions.first().filter(|_| alone) {
        let envelope = engine.read(session).await.map_err(|e| fails::of_step(cx, &e, session))?;
        progress.expect(envelope.session().operations.len());
    }
    let jobs = sessions.into_iter().map(|session| (session, None)).collect();
    let rested = drive(cx, &engine, jobs, args.wait, start).await;
    let codes = rested.iter().map(Rested::exit).chain(nameless.iter().map(|fail| fail.exit));
    let codes: Vec<u8> = codes.collect();
    let code = first_of(&codes);
    let mut object =
        ResumeObject { schema: "surestep.resume/1", exit: code, sessions: vec![], errors: vec![] };
    for one in rested {
        let exit = one.exit();
        match one.outcome {
            Ok((envelope, rest)) => {
                object.sessions.push(SessionView::new("surestep.show/1", &envelope, &rest, exit));
                show::summary(cx, &envelope);
                if let Some(fail) = one.fail {
                    fail.say(&cx.out);
                }
            }
            Err(fail) if alone => return Err(fail),
            Err(fail) => {
                object.errors.push(ErrorView::say(cx, one.session.to_string(), fail));
            }
        }
    }
    for fail in nameless {
        object.errors.push(ErrorView::say(cx, String::new(), fail));
    }
    cx.out.object(&object);
    Ok(code)
}

impl ErrorView {
    /// Says it on stderr, too.
    pub(crate) fn say(cx: &Context, session: String, fail: Fail) -> Self {
        fail.say(&cx.out);
        let Fail { code, exit, what, state, next, observed, .. } = fail;
        Self { session, code, exit, what, state, next, observed }
    }
}

impl Rested {
    pub(crate) fn exit(&self) -> u8 {
        match (&self.outcome, &self.fail) {
            (Err(fail), _) | (Ok(_), Some(fail)) => fail.exit,
            (Ok(_), None) => exit::DONE,
        }
    }
}

/// With several sessions: the first of the library's order that occurs.
pub(crate) fn first_of(codes: &[u8]) -> u8 {
    let code = exit::ORDER.into_iter().find(|code| codes.contains(code));
    code.or_else(|| codes.iter().copied().max()).unwrap_or(exit::DONE)
}

/// Every id of the store, page by page, and what is to be said of sessions whose id nobody can tell.
pub(crate) async fn all_sessions(cx: &Context, engine: &Engine) -> Result<(Vec<SessionId>, Vec<Fail>), Fail> {
    let (mut all, mut nameless) = (Vec::new(), Vec::new());
    let mut after = None;
    loop {
        let page = Page { after: after.take(), limit: 500 };
        let page = engine.store().sessions(page).await.map_err(|e| fails::of_store(cx, &e, None))?;
        after = page.sessions.last().cloned();
        all.extend(page.sessions);
        nameless.extend(page.nameless.iter().map(|odd| fails::of_nameless(cx, odd)));
        if !page.more || after.is_none() {
            return Ok((all, nameless));
        }
    }
}

async fn unfinished(cx: &Context, engine: &Engine) -> Result<(Vec<SessionId>, Vec<Fail>), Fail> {
    let mut open = Vec::new();
    let (all, nameless) = all_sessions(cx, engine).await?;
    for session in all {
        // One that cannot be read is kept: stepping it says why.
        let done = engine.read(&session).await.is_ok_and(|envelope| {
            let session = envelope.session();
            session.handed_off.is_some() || session.turn().is_none_or(|turn| turn.ended.is_some())
        });
        if !done {
            open.push(session);
        }
    }
    Ok((open, nameless))
}

async fn drive(
    cx: &Context,
    engine: &Engine,
    jobs: Vec<(SessionId, Option<Plan>)>,
    args::Wait { wait }: args::Wait,
    start: Instant,
) -> Vec<Rested> {
    let end = wait.flatten().and_then(|limit| start.checked_add(limit));
    let mut waiting: Vec<Job> = jobs
        .into_iter()
        .map(|(session, plan)| Job {
            session,
            plan,
            due: start,
            landed: BTreeSet::new(),
            last: None,
            limit_reached: false,
        })
        .collect();
    for job in &mut waiting {
        if let Ok(envelope) = engine.read(&job.session).await {
            job.landed = landed(&envelope);
        }
    }
    let mut done = Vec::new();
    while !waiting.is_empty() {
        let mut still = Vec::new();
        for mut job in waiting {
            let stopped = cx.stop.is_set();
            if !stopped && job.due <= Instant::now() {
                job.step(engine).await;
                job.say_late(cx);
                job.due = match job.pause() {
                    Some(pause) if wait.is_some() => Instant::now() + pause,
                    Some(_) | None => {
                        done.push(job);
                        continue;
                    }
                };
                if end.is_some_and(|end| job.due > end) {
                    job.limit_reached = true;
                    done.push(job);
                    continue;
                }
                job.say_wait(cx);
            }
            if stopped { done.push(job) } else { still.push(job) }
        }
        waiting = still;
        if let Some(due) = waiting.iter().map(|job| job.due).min() {
            cx.stop.sleep_until(due).await;
        }
    }
    let now = wall(engine);
    done.into_iter().map(|job| job.rested(cx, now, wait.flatten())).collect()
}

impl Job {
    async fn step(&mut self, engine: &Engine) {
        let mut envelope = Envelope::new(self.session.clone());
        if let Some(plan) = self.plan.clone() {
            envelope = envelope.with_plan(plan);
        }
        self.last = Some(engine.step(envelope).await);
    }

    /// How long to wait before another step makes sense; `None`: it makes none.
    fn pause(&self) -> Option<Duration> {
        match self.last.as_ref()? {
            Ok(Step { rest: Rest::Until { wait_ms, .. }, .. }) => Some(Duration::from_millis(*wait_ms)),
            Err(StepError::Busy { .. }) => Some(HELD_POLL),
            Ok(_) | Err(_) => None,
        }
    }

    /// Progress that no effect of this process made.
    fn say_late(&mut self, cx: &Context) {
        let Some(Ok(step)) = &self.last else { return };
        let operations = &step.envelope.session().operations;
        let late =
            |o: &&Operation| matches!(o.landed, Some((_, Via::Late))) && !self.landed.contains(&o.number);
        for operation in operations.iter().filter(late) {
            let session = text::line(self.session.as_str());
            cx.out.note(&format!(
                "surestep: {session} {}/{} landed, by late evidence",
                operation.number,
                operations.len()
            ));
        }
        self.landed = landed(&step.envelope);
    }

    fn say_wait(&self, cx: &Context) {
        if let Some(Ok(Step { rest: Rest::Until { wait_ms, why, .. }, .. })) = &self.last
            && *wait_ms >= 1_000
        {
            let session = text::line(self.session.as_str());
            cx.out.note(&format!(
                "surestep: {session} waits {}: {}",
                duration::left(*wait_ms),
                text::line(why)
            ));
        }
    }

    fn rested(self, cx: &Context, now: surestep::Wall, limit: Option<Duration>) -> Rested {
        let Self { session, last, limit_reached, .. } = self;
        let id = session.as_str();
        let limit = limit
            .map(|l| duration::short(u64::try_from(l.as_millis()).unwrap_or(u64::MAX)))
            .unwrap_or_default();
        let over = |fail: Fail| {
            let what = format!("the wait limit of {limit} was reached: {}", fail.what);
            let fail = Fail { code: "SE0112", exit: exit::WAIT_LIMIT, what, ..fail };
            Fail { next: vec![], ..fail }
                .next_if(cx.command(&["resume", id, "--wait"]), "waits as long as it takes")
        };
        match last {
            None => {
                let fail = Fail::new(
                    "SE0111",
                    exit::UNTIL,
                    format!("session {} was not begun: stopped by a signal", tick(id)),
                )
                .rest()
                .state("nothing was started or changed")
                .next(cx.again.clone());
                Rested { session, outcome: Err(fail), fail: None }
            }
            Some(Ok(Step { rest, envelope })) => {
                let fail = rests::of(cx, &envelope, &rest, now);
                let fail = if limit_reached { fail.map(over) } else { fail };
                Rested { session, outcome: Ok((envelope, rest)), fail }
            }
            Some(Err(e)) => {
                let fail = fails::of_step(cx, &e, &session);
                let fail = if limit_reached { over(fail) } else { fail };
                Rested { session, outcome: Err(fail), fail: None }
            }
        }
    }
}

fn landed(envelope: &Envelope) -> BTreeSet<OpNumber> {
    envelope.session().operations.iter().filter(|o| o.landed.is_some()).map(|o| o.number).collect()
}
