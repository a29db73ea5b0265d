//! `show`: where a session stands. Its short form ends `run` and `resume`.

use surestep::core::Operation;
use surestep::{Envelope, Rest, State, Wall};

use crate::context::{Context, Store};
use crate::fail::{Fail, Next};
use crate::out::Ink;
use crate::text::{self, columns, line};
use crate::view::{self, SessionView};
use crate::{fails, restored, rests, when};

/// `show SESSION`.
pub(crate) async fn show(cx: &Context, session: &str) -> Result<u8, Fail> {
    let engine = cx.engine(Store::Read, None)?;
    let id = cx.session(session)?;
    let (envelope, behind) = restored::read(cx, &engine, &id).await?;
    let now = engine.now();
    let rest = envelope.standing(&now);
    let exit = behind.as_ref().map_or(surestep::exit::DONE, |fail| fail.exit);
    cx.out.object(&SessionView::new("surestep.show/1", &envelope, &rest, exit));
    screen(cx, &envelope, &rest, now.wall);
    if let Some(fail) = behind {
        fail.say(&cx.out);
        return Ok(exit);
    }
    for (request, refused) in engine.mailbox(&id).await.map_err(|e| fails::of_step(cx, &e, &id))? {
        let about = request.op.map_or_else(String::new, |op| format!(" operation {op}"));
        let word = format!("{}{about}, by {}: {}", request.word.phrase(), request.by, request.because);
        let fate = match refused {
            None => "its owner, or the next `resume`, records it".to_owned(),
            Some(why) => format!("not recorded: {why}"),
        };
        cx.out.put(&format!("{}{}", cx.out.ink(Ink::Dim, &text::pad("mailbox", 10)), line(&word)));
        cx.out.put(&format!("{}{}", text::pad("", 10), line(&fate)));
    }
    Ok(exit)
}

fn screen(cx: &Context, envelope: &Envelope, rest: &Rest, now: Wall) {
    let session = envelope.session();
    let out = &cx.out;
    let head = |label: &str, value: &str| {
        out.put(&format!("{}{value}", out.ink(Ink::Dim, &text::pad(label, 10))));
    };
    head("session", &out.ink(Ink::Strong, &line(session.id.as_str())));
    if let Some(opened) = &session.opened {
        for (label, value) in [("agent", &opened.agent), ("task", &opened.task)] {
            if !value.is_empty() {
                head(label, &line(value));
            }
        }
    }
    head("status", &status(cx, envelope));
    if let Some(turn) = session.turn() {
        let of = if session.turns.len() > 1 { format!(" of {}", session.turns.len()) } else { String::new() };
        let place = format!(
            "turn {}{of}, {}, epoch {}",
            turn.number,
            text::count(envelope.commits().len(), "commit"),
            session.epoch
        );
        head("journal", &place);
    }
    out.put("");
    table(cx, &session.operations);
    for operation in session
        .operations
        .iter()
        .filter(|o| o.state == State::InDoubt || !o.doubts.is_empty() && !o.state.is_settled())
    {
        out.put("");
        doubt(cx, operation, now);
    }
    let Some(mut fail) = rests::of(cx, envelope, rest, now) else { return };
    // Without its remark it would read like an answer.
    fail.next.retain(|next| !next.when.as_deref().is_some_and(|when| when.starts_with(rests::NEXT_TIME)));
    if let Rest::Until { wait_ms: 0, why, .. } = rest {
        let under_way = session.operations.iter().find(|o| o.state == State::Intended);
        fail.what = under_way.map_or_else(
            || line(why),
            |o| {
                format!(
                    "operation {} is under way, or was interrupted: {} finds out",
                    o.number,
                    text::tick(&cx.command(&["resume", session.id.as_str()]))
                )
            },
        );
        fail.state = vec![rests::not_started(session)];
        fail.next =
            vec![Next { command: cx.command(&["resume", session.id.as_str(), "--wait"]), when: None }];
    }
    out.put("");
    head("rest", &fail.what);
    for state in &fail.state {
        head("", state);
    }
    for (n, next) in fail.next.iter().enumerate() {
        // A command with a word to fill in says with what.
        let when = next.when.as_ref().filter(|_| next.command.contains(" PLAN"));
        let when = when.map(|when| format!("  # {when}")).unwrap_or_default();
        head(if n == 0 { "next" } else { "" }, &format!("{}{when}", next.command));
    }
}

/// What is known about an open doubt.
fn doubt(cx: &Context, operation: &Operation, now: Wall) {
    let attempt = operation.attempt();
    let began = match attempt {
        Some(lost) if lost.number == surestep::core::Attempt::LOST => {
            ", which a lost commit may have begun".to_owned()
        }
        Some(attempt) => format!(", begun {}", when::at(attempt.at, now)),
        None => String::new(),
    };
    let number = attempt.map(|a| a.number).filter(|number| *number != surestep::core::Attempt::LOST);
    let number = number.map_or_else(String::new, |number| format!(", attempt {number}"));
    let title = format!("doubt about operation {}{number}{began}", operation.number);
    cx.out.put(&cx.out.ink(Ink::Doubt, &title));
    for (at, fault) in &operation.doubts {
        cx.out.put(&format!("  {}  {}", when::local(*at), view::fault_line(fault)));
    }
    if operation.doubts.is_empty() {
        let lost = attempt.is_some_and(|a| a.number == surestep::core::Attempt::LOST);
        cx.out.put(&format!("  {}", view::unrecorded(lost)));
    }
}

fn table(cx: &Context, operations: &[Operation]) {
    let mut rows = vec![["#", "state", "kind", "on", "tries", ""].map(str::to_owned).to_vec()];
    for operation in operations {
        rows.push(vec![
            operation.number.to_string(),
            operation.state.word().to_owned(),
            line(operation.bound.kind.as_str()),
            view::place(&operation.bound.repo, &operation.bound.target),
            operation.attempts.len().to_string(),
            view::fate(operation),
        ]);
    }
    for (n, row) in columns(&rows).iter().enumerate() {
        let ink = match n.checked_sub(1).and_then(|n| operations.get(n)).map(|o| o.state) {
            None => Ink::Dim,
            Some(State::Succeeded) => Ink::Good,
            Some(State::InDoubt | State::AwaitingApproval | State::Retrying | State::Intended) => Ink::Doubt,
            Some(State::Failed | State::Denied) => Ink::Error,
            Some(State::Planned | State::Skipped | State::Cancelled) => Ink::Dim,
        };
        cx.out.put(&cx.out.ink(ink, row));
    }
}

/// The status word and, once there is one, the verdict.
pub(crate) fn status(cx: &Context, envelope: &Envelope) -> String {
    let session = envelope.session();
    let ink = match session.status() {
        "completed" => Ink::Good,
        "failed" | "cancelled" => Ink::Error,
        "in_doubt" | "intended" => Ink::Doubt,
        _ => Ink::Strong,
    };
    let verdict = view::verdict(session).filter(|v| !v.is_empty() && v != session.status());
    let verdict = verdict.map(|v| format!(", verdict {}", text::tick(&v))).unwrap_or_default();
    format!("{}{verdict}", cx.out.ink(ink, session.status()))
}

/// How `run` and `resume` end: one line, and one for each operation of the turn.
pub(crate) fn summary(cx: &Context, envelope: &Envelope) {
    let session = envelope.session();
    let name = cx.out.ink(Ink::Strong, &line(session.id.as_str()));
    cx.out.put(&format!("{name}: {}", status(cx, envelope)));
    let operations = session.turn().map(|turn| session.operations_of(turn)).unwrap_or_default();
    let rows: Vec<Vec<String>> = operations
        .iter()
        .map(|o| vec![format!("  {}", o.number), o.state.word().to_owned(), view::named(o), view::fate(o)])
        .collect();
    for row in columns(&rows) {
        cx.out.put(&row);
    }
}
