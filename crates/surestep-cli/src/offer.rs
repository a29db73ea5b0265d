//! `run`: a plan from a file, offered to its session. What follows is the same as for `resume`, and stands there.

use surestep::Plan;

use crate::args;
use crate::context::Context;
use crate::fail::Fail;
use crate::fails;
use crate::input;
use crate::run::{Before, run_plan};
use crate::text::{self, tick};

/// `run`.
pub(crate) async fn run(cx: &Context, args: &args::Run) -> Result<u8, Fail> {
    let bytes = read_plan(cx, &args.plan)?;
    let mut plan = Plan::parse(&bytes).map_err(|e| {
        let fail = fails::of_plan(cx, &e, None);
        Fail { what: format!("{}: {}", tick(&args.plan), fail.what), ..fail }
    })?;
    if let Some(session) = &args.session {
        plan.session = Some(cx.session(session)?);
    }
    let Some(session) = plan.session.clone() else {
        let fail = Fail::usage("SE0102", format!("{} names no session", tick(&args.plan)))
            .why("the session is what a second run of the same plan is recognised by, so none is made up")
            .state("nothing was written or started");
        return Err(fail
            .next_if(format!("{} --session {}", cx.again, suggestion(&args.plan)), "or any name of your own")
            .next_if(cx.again.clone(), "after adding `\"session\": \"…\"` to the plan"));
    };
    let turn = plan.turn_number();
    let kinds: Vec<String> = plan.operations.iter().map(|o| o.kind.to_string()).collect();
    let fix = |fail: Fail, before: Before| match fail.code {
        "SE0207" if before.over => Fail { next: vec![], ..fail }.next_if(
            cx.again.clone(),
            format!("turn {turn} is finished: put \"turn\": {} into the plan and run it again", turn.next()),
        ),
        "SE0205" => match refused_kind(&fail.what, &kinds) {
            Some(kind) => {
                fail.next_if(text::command(["surestep", "explain", "kind", kind]), "what its body takes")
            }
            None => fail,
        },
        _ => fail,
    };
    if args.dry_run {
        return crate::dry::plan(cx, session, plan, &fix).await;
    }
    run_plan(cx, "surestep.run/1", session, plan, args.wait, &fix).await
}

/// The kind of the operation that a message names as `$.operations[N]`.
fn refused_kind<'a>(what: &str, kinds: &'a [String]) -> Option<&'a str> {
    let (_, rest) = what.split_once("operations[")?;
    let (n, _) = rest.split_once(']')?;
    kinds.get(n.parse::<usize>().ok()?).map(String::as_str)
}

fn read_plan(cx: &Context, plan: &str) -> Result<Vec<u8>, Fail> {
    match input::read(plan, input::PLAN_BYTES_MAX) {
        Ok(bytes) => Ok(bytes),
        Err(e) => Err(Fail::usage("SE0103", format!("the plan {} cannot be read", tick(plan)))
            .why(text::line(&e.to_string()))
            .state("nothing was written or started")
            .next_if(cx.command(&["run", "PLAN"]), "with the path of a plan, or `-` for stdin")),
    }
}

/// A session's name made from a plan's file name.
fn suggestion(plan: &str) -> String {
    let stem = std::path::Path::new(plan).file_stem().map(|s| s.to_string_lossy().into_owned());
    text::word(stem.filter(|s| !s.is_empty() && s != "-").as_deref().unwrap_or("my-session"))
}
