//! `--dry-run` of what steps: `run`, `exec` and `resume` say what they would do, and write nothing, not even a folder.
//!
//! A plan that cannot be taken is refused here as it would be there, with the same code; so is a session that is held.

use serde::Serialize;
use surestep::core::{Operation, RecoveryClass};
use surestep::{Engine, First, Foreseen, Plan, Rest, SessionId, exit};

use crate::args;
use crate::context::{Context, Store, wall};
use crate::duration::short;
use crate::fail::Fail;
use crate::run::{Before, ErrorView, Fix, chosen, first_of};
use crate::text::{self, columns, line, tick};
use crate::view::{self, RestView};
use crate::{fails, rests, when};

/// What ends every dry run.
pub(crate) const NOTHING: &str = "nothing was written or started: this was a dry run";

/// `surestep.dry_run/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DryObject {
    schema: &'static str,
    exit: u8,
    sessions: Vec<Foretold>,
    errors: Vec<ErrorView>,
}

/// One session.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Foretold {
    session: String,
    /// The store would be made.
    makes_store: bool,
    /// What a plan would add; empty where it is bound already.
    binds: Vec<BoundView>,
    turn: Option<u32>,
    first: FirstView,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FirstView {
    /// `execute`, `look` or `rest`.
    act: &'static str,
    n: Option<u32>,
    attempt: Option<u32>,
    rest: Option<RestView>,
}

/// An operation as it would be bound.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BoundView {
    n: u32,
    key: String,
    kind: String,
    repo: String,
    target: String,
    approval: bool,
    recovery: RecoveryClass,
    deadline_ms: u64,
    lag_ms: u64,
    local: bool,
    attempts_max: u32,
}

/// Whether the plan can be taken, where there is no store yet: a plan that is refused makes none.
pub(crate) async fn check(cx: &Context, session: &SessionId, plan: &Plan) -> Result<(), Fail> {
    let (engine, makes_store) = cx.looking()?;
    if makes_store {
        engine.foresee(session, Some(plan)).await.map_err(|e| fails::of_step(cx, &e, session))?;
    }
    Ok(())
}

/// `run --dry-run` and `exec --dry-run`.
pub(crate) async fn plan(cx: &Context, session: SessionId, plan: Plan, fix: Fix<'_>) -> Result<u8, Fail> {
    let (engine, makes_store) = cx.looking()?;
    let foreseen = match engine.foresee(&session, Some(&plan)).await {
        Ok(foreseen) => foreseen,
        Err(e) => {
            let before = engine.read(&session).await.ok();
            return Err(fix(fails::of_step(cx, &e, &session), Before::of(before.as_ref())));
        }
    };
    if makes_store {
        cx.out.put(&format!("would make the store {}", tick(&cx.store.to_string_lossy())));
    }
    say(cx, &engine, &foreseen);
    let sessions = vec![foretold(&foreseen, makes_store)];
    finish(cx, DryObject { schema: "surestep.dry_run/1", exit: exit::DONE, sessions, errors: vec![] })
}

/// `resume --dry-run`.
pub(crate) async fn resume(cx: &Context, args: &args::Resume) -> Result<u8, Fail> {
    let engine = cx.engine(Store::Read, None)?;
    let alone = args.session.is_some();
    let mut object =
        DryObject { schema: "surestep.dry_run/1", exit: exit::DONE, sessions: vec![], errors: vec![] };
    let mut codes = vec![exit::DONE];
    let (sessions, nameless) = chosen(cx, &engine, args).await?;
    for session in sessions {
        match engine.foresee(&session, None).await {
            Ok(foreseen) => {
                say(cx, &engine, &foreseen);
                object.sessions.push(foretold(&foreseen, false));
            }
            Err(e) => {
                let fail = fails::of_step(cx, &e, &session);
                if alone {
                    return Err(fail);
                }
                codes.push(fail.exit);
                object.errors.push(ErrorView::say(cx, session.to_string(), fail));
            }
        }
    }
    for fail in nameless {
        codes.push(fail.exit);
        object.errors.push(ErrorView::say(cx, String::new(), fail));
    }
    object.exit = first_of(&codes);
    finish(cx, object)
}

fn finish(cx: &Context, object: DryObject) -> Result<u8, Fail> {
    cx.out.put(NOTHING);
    cx.out.object(&object);
    Ok(object.exit)
}

/// The operations that a plan would add.
fn added(foreseen: &Foreseen) -> &[Operation] {
    let known = foreseen.before.session().operations.len();
    foreseen.after.session().operations.get(known..).unwrap_or_default()
}

fn say(cx: &Context, engine: &Engine, foreseen: &Foreseen) {
    let session = foreseen.after.session();
    let id = session.id.as_str();
    let added = added(foreseen);
    if let Some(turn) = session.turn() {
        let what = if added.is_empty() {
            format!("{}: turn {} is bound already", line(id), turn.number)
        } else {
            let verdict = tick(&turn.verdict);
            let count = text::count(added.len(), "operation");
            format!("{}: would bind turn {}: {count}, verdict {verdict}", line(id), turn.number)
        };
        cx.out.put(&what);
    }
    let rows: Vec<Vec<String>> = added.iter().map(row).collect();
    for row in columns(&rows) {
        cx.out.put(&row);
    }
    let named = |n: surestep::OpNumber| {
        session.operation(n).map_or_else(|| n.to_string(), |o| format!("{n} ({})", view::named(o)))
    };
    let then = match &foreseen.first {
        First::Execute(op, attempt) if attempt.value() > 1 => {
            format!("would start operation {}, attempt {attempt}", named(*op))
        }
        First::Execute(op, _) => format!("would start operation {}", named(*op)),
        First::Look(op) => format!("would ask first what became of operation {}", named(*op)),
        First::Rest(rest) => match rests::of(cx, &foreseen.after, rest, wall(engine)) {
            Some(fail) => format!("would start nothing: {}", fail.what),
            None => "would start nothing: it is completed".into(),
        },
    };
    cx.out.put(&format!("{}: {then}", line(id)));
    let asks: Vec<String> =
        added.iter().filter(|o| o.bound.needs_approval()).map(|o| o.number.to_string()).collect();
    if !asks.is_empty() {
        cx.out.put(&format!("{}: a person must say yes first to {}", line(id), asks.join(", ")));
    }
    if let First::Rest(Rest::Until { at, wait_ms, .. }) = &foreseen.first
        && *wait_ms > 0
    {
        cx.out.put(&format!("{}: not before {}", line(id), when::at(*at, wall(engine))));
    }
}

fn row(operation: &Operation) -> Vec<String> {
    let bound = &operation.bound;
    let mut terms = vec![format!("{} for an attempt", short(bound.deadline_ms))];
    terms.push(if bound.local { "local".into() } else { format!("lag {}", short(bound.lag_ms)) });
    terms.push(text::count(bound.attempts_max as usize, "refusal"));
    terms.push(view::recovery(bound.recovery).to_owned());
    vec![format!("  {}", operation.number), view::named(operation), bound.key.to_string(), terms.join(", ")]
}

fn foretold(foreseen: &Foreseen, makes_store: bool) -> Foretold {
    let session = foreseen.after.session();
    let plain = |act| FirstView { act, n: None, attempt: None, rest: None };
    let first = match &foreseen.first {
        First::Execute(op, attempt) => {
            FirstView { n: Some(op.value()), attempt: Some(attempt.value()), ..plain("execute") }
        }
        First::Look(op) => FirstView { n: Some(op.value()), ..plain("look") },
        First::Rest(rest) => FirstView { rest: Some(RestView::new(rest)), ..plain("rest") },
    };
    Foretold {
        session: session.id.to_string(),
        makes_store,
        binds: added(foreseen).iter().map(BoundView::new).collect(),
        turn: session.turn().map(|turn| turn.number.value()),
        first,
    }
}

impl BoundView {
    fn new(operation: &Operation) -> Self {
        let bound = &operation.bound;
        Self {
            n: operation.number.value(),
            key: bound.key.to_string(),
            kind: bound.kind.to_string(),
            repo: bound.repo.clone(),
            target: bound.target.clone(),
            approval: bound.needs_approval(),
            recovery: bound.recovery,
            deadline_ms: bound.deadline_ms,
            lag_ms: bound.lag_ms,
            local: bound.local,
            attempts_max: bound.attempts_max,
        }
    }
}
