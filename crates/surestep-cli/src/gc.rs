//! `gc`: says what would be taken away, and with that plan's name takes exactly that away.

use std::time::Duration;

use serde::Serialize;
use surestep::exit;
use surestep_file::{GcDone, GcError, GcPlan, GcSession};

use crate::args::Gc;
use crate::context::Context;
use crate::duration;
use crate::fail::Fail;
use crate::fails;
use crate::text::{self, line, tick};
use crate::when;

/// How long a sealed session stays, if nothing else is asked for: 30 days.
pub(crate) const RETENTION: Duration = Duration::from_secs(30 * 86_400);
/// How many sessions are listed by name.
const LISTED_MAX: usize = 20;

/// `surestep.gc/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct GcObject {
    schema: &'static str,
    exit: u8,
    /// Names the plan: for `--apply`.
    plan: String,
    applied: bool,
    seal: Vec<String>,
    prune: Vec<String>,
    content: usize,
    leftovers: usize,
    bytes: u64,
    unreadable: Vec<Left>,
    left: Vec<Left>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Left {
    session: String,
    why: String,
}

/// `gc`.
pub(crate) async fn gc(cx: &Context, args: &Gc) -> Result<u8, Fail> {
    let store = cx.open(cx.options().create(false))?;
    let now = surestep::Wall::new(jiff::Timestamp::now());
    let retention = args.retention.unwrap_or(RETENTION);
    let plan = store.gc_plan(now, retention).await.map_err(|e| fails::of_store(cx, &e, None))?;
    let Some(asked) = &args.apply else {
        show(cx, &plan, retention, now);
        object(cx, &plan, None);
        return Ok(exit::DONE);
    };
    let done = match store.gc_apply(asked.clone(), now, retention).await {
        Ok(done) => done,
        Err(GcError::Store(e)) => return Err(fails::of_store(cx, &e, None)),
        Err(GcError::Changed { .. }) => {
            return Err(Fail::usage("SE0605", format!("the plan {} is not what would be done now", tick(asked)))
                .why("a session of it went on since, or was collected by somebody else; or `--retention` is another one")
                .state("nothing was sealed, pruned or removed")
                .next_if(command(cx, retention, None), "the present plan"));
        }
    };
    cx.out.put(&format!(
        "sealed {}, pruned {}, removed {}",
        text::count(done.sealed, "session"),
        text::count(done.pruned, "session"),
        text::count(done.content, "piece") + " of content"
    ));
    for (session, why) in &done.left {
        cx.out.note(&format!("surestep: left {}: {}", tick(session.as_str()), line(why)));
    }
    object(cx, &plan, Some(&done));
    Ok(if done.left.is_empty() { exit::DONE } else { exit::HELD })
}

/// The command for a plan.
fn command(cx: &Context, retention: Duration, apply: Option<&str>) -> String {
    let seconds = format!("{}s", retention.as_secs());
    let mut words = vec!["gc"];
    if retention != RETENTION {
        words.extend(["--retention", &seconds]);
    }
    if let Some(digest) = apply {
        words.extend(["--apply", digest]);
    }
    cx.command(&words)
}

fn show(cx: &Context, plan: &GcPlan, retention: Duration, now: surestep::Wall) {
    let ms = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX);
    let list = |what: &str, sessions: &[GcSession]| {
        cx.out.put(&format!("{what}: {}", text::count(sessions.len(), "session")));
        for one in sessions.iter().take(LISTED_MAX) {
            let id = line(one.session.as_str());
            cx.out.put(&format!("  {id}  last commit {}, {} bytes", when::relative(one.at, now), one.bytes));
        }
        if let Some(more) = sessions.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
            cx.out.put(&format!("  and {more} more"));
        }
    };
    list("seal (finished: its commits become one file)", &plan.seal);
    list(&format!("prune (sealed, older than {}: only a tombstone stays)", duration::short(ms)), &plan.prune);
    let bytes: u64 = plan.content.iter().map(|(_, bytes)| bytes).sum();
    let content = text::count(plan.content.len(), "piece");
    cx.out.put(&format!("remove content that no session needs there: {content}, {bytes} bytes"));
    if !plan.dead.is_empty() {
        let files = text::count(plan.dead.len(), "leftover");
        cx.out.put(&format!("remove what dead processes left: {files}"));
    }
    for (session, why) in plan.unreadable.iter().take(LISTED_MAX) {
        let id = tick(session.as_str());
        cx.out.note(&format!("surestep: {id} cannot be read, so it stays, and all content: {}", line(why)));
    }
    if plan.is_empty() {
        cx.out.note("surestep: there is nothing to take away");
        return;
    }
    cx.out.put(&format!("this frees at least {} bytes", plan.bytes()));
    if !plan.seal.is_empty() {
        cx.out.put("what is sealed now can be pruned by a later `gc`");
    }
    let apply = command(cx, retention, Some(&plan.name()));
    cx.out.note(&format!("surestep: nothing was changed; {} does exactly this", tick(&apply)));
}

fn object(cx: &Context, plan: &GcPlan, done: Option<&GcDone>) {
    let left = |all: &[(surestep::SessionId, String)]| {
        all.iter().map(|(session, why)| Left { session: session.to_string(), why: why.clone() }).collect()
    };
    let names = |all: &[GcSession]| all.iter().map(|one| one.session.to_string()).collect();
    cx.out.object(&GcObject {
        schema: "surestep.gc/1",
        exit: done.map_or(exit::DONE, |done| if done.left.is_empty() { exit::DONE } else { exit::HELD }),
        plan: plan.name(),
        applied: done.is_some(),
        seal: names(&plan.seal),
        prune: names(&plan.prune),
        content: plan.content.len(),
        leftovers: plan.dead.len(),
        bytes: plan.bytes(),
        unreadable: left(&plan.unreadable),
        left: left(done.map_or(&[], |done| &done.left)),
    });
}
