//! `list`: the store's sessions, one line each. One that cannot be read is listed, and decides the exit code.

use serde::Serialize;
use surestep::{Rest, exit};

use crate::context::{Context, Store, wall};
use crate::fail::{Fail, Next};
use crate::out::Ink;
use crate::run::first_of;
use crate::text::{columns, line};
use crate::view::{self, RestView};
use crate::{restored, when};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ListObject {
    schema: &'static str,
    exit: u8,
    sessions: Vec<Listed>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Listed {
    session: String,
    status: &'static str,
    verdict: Option<String>,
    revision: u64,
    epoch: u64,
    turn: Option<u32>,
    operations: usize,
    settled: usize,
    at: Option<surestep::Wall>,
    rest: Option<RestView>,
    error: Option<String>,
    /// What was not done; empty where it can be read.
    state: Vec<String>,
    /// What helps; empty where it can be read.
    next: Vec<Next>,
}

/// `list`.
pub(crate) async fn list(cx: &Context) -> Result<u8, Fail> {
    let engine = cx.engine(Store::Read, None)?;
    let now = wall(&engine);
    let mut codes = vec![exit::DONE];
    let mut rows = vec![["session", "status", "settled", "last commit", ""].map(str::to_owned).to_vec()];
    let mut sessions = Vec::new();
    let mut refused = Vec::new();
    let (all, nameless) = restored::all(cx, &engine).await?;
    for id in all {
        match restored::read(cx, &engine, &id).await {
            Ok((envelope, behind)) => {
                let session = envelope.session();
                let rest = envelope.standing(&engine.now());
                let operations = session.turn().map(|t| session.operations_of(t)).unwrap_or_default();
                let settled = operations.iter().filter(|o| o.state.is_settled()).count();
                let at = envelope.commits().last().map(surestep::Commit::at);
                rows.push(vec![
                    line(id.as_str()),
                    session.status().to_owned(),
                    format!("{settled}/{}", operations.len()),
                    at.map_or_else(String::new, |at| when::relative(at, now)),
                    behind
                        .as_ref()
                        .map_or_else(|| remark(&rest, now), |fail| format!("rolled back ({})", fail.code)),
                ]);
                codes.extend(behind.as_ref().map(|fail| fail.exit));
                sessions.push(Listed {
                    session: id.to_string(),
                    status: session.status(),
                    verdict: view::verdict(session),
                    revision: session.revision.value(),
                    epoch: session.epoch.value(),
                    turn: session.turn().map(|t| t.number.value()),
                    operations: operations.len(),
                    settled,
                    at,
                    rest: Some(RestView::new(&rest)),
                    error: behind.as_ref().map(short),
                    state: behind.as_ref().map(|fail| fail.state.clone()).unwrap_or_default(),
                    next: behind.map(|fail| fail.next).unwrap_or_default(),
                });
            }
            Err(fail) => {
                codes.push(fail.exit);
                rows.push(unreadable_row(id.as_str(), &fail));
                refused.push(fail.clone());
                sessions.push(Listed::unreadable(id.as_str(), fail));
            }
        }
    }
    for fail in nameless {
        codes.push(fail.exit);
        rows.push(unreadable_row("?", &fail));
        fail.say(&cx.out);
        sessions.push(Listed::unreadable("", fail));
    }
    let exit = first_of(&codes);
    if sessions.is_empty() {
        cx.out.note("surestep: the store has no sessions; `surestep run PLAN` starts one");
    } else {
        for (n, row) in columns(&rows).iter().enumerate() {
            cx.out.put(&if n == 0 { cx.out.ink(Ink::Dim, row) } else { row.clone() });
        }
    }
    for fail in &refused {
        fail.say(&cx.out);
    }
    cx.out.object(&ListObject { schema: "surestep.list/1", exit, sessions });
    Ok(exit)
}

fn short(fail: &Fail) -> String {
    format!("{}: {}", fail.code, fail.what)
}

fn unreadable_row(id: &str, fail: &Fail) -> Vec<String> {
    let error = short(fail);
    vec![line(id), "unreadable".into(), "-".into(), "-".into(), error]
}

impl Listed {
    fn unreadable(session: &str, fail: Fail) -> Self {
        Self {
            session: session.to_owned(),
            status: "unreadable",
            verdict: None,
            revision: 0,
            epoch: 0,
            turn: None,
            operations: 0,
            settled: 0,
            at: None,
            rest: None,
            error: Some(short(&fail)),
            state: fail.state,
            next: fail.next,
        }
    }
}

fn remark(rest: &Rest, now: surestep::Wall) -> String {
    match rest {
        Rest::Finished(report) => line(&report.verdict),
        Rest::NeedsPerson(question) => format!("waits for a person: operation {}", question.op),
        Rest::Until { wait_ms: 0, why, .. } => line(why),
        Rest::Until { at, why, .. } => format!("{}: {}", when::relative(*at, now), line(why)),
        Rest::NoPlan => "no plan".into(),
        Rest::HandedOff { to } => format!("handed to {}", line(to)),
        _ => String::new(),
    }
}
