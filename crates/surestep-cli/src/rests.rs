//! From a rest to what a person reads: what happened, what was not done, and the exact next command.

use surestep::core::{About, Attempt, Operation, Session};
use surestep::{End, Envelope, OpNumber, Question, Report, Rest, State, Wall, exit};

use crate::context::Context;
use crate::duration::left;
use crate::fail::{Fail, Next};
use crate::text::{count, line, tick};
use crate::{view, when};

/// What to say about a session that is not simply done; `None`: it is completed.
pub(crate) fn of(cx: &Context, envelope: &Envelope, rest: &Rest, now: Wall) -> Option<Fail> {
    let session = envelope.session();
    let id = session.id.as_str();
    match rest {
        Rest::Finished(report) => finished(cx, session, report),
        Rest::NeedsPerson(question) => Some(person(cx, session, question, now)),
        Rest::Until { why, .. } if cx.stop.is_set() => Some(
            Fail::new("SE0111", exit::UNTIL, format!("session {} was stopped by a signal", tick(id)))
                .rest()
                .why(line(why))
                .state(format!("what ran was waited for and recorded; {}", not_started(session)))
                .next(cx.command(&["resume", id])),
        ),
        Rest::Until { at, wait_ms, why } => Some(
            Fail::new(
                "SE0415",
                exit::UNTIL,
                format!("session {} rests until {}", tick(id), when::at(*at, now)),
            )
            .rest()
            .why(line(why))
            .state(format!("nothing is lost by waiting; {}", not_started(session)))
            .next_if(
                cx.command(&["resume", id, "--wait"]),
                match *wait_ms {
                    0..1_000 => "goes on".to_owned(),
                    ms => format!("sleeps {}, then goes on", left(ms)),
                },
            ),
        ),
        Rest::NoPlan => Some(
            Fail::usage("SE0110", format!("session {} has no plan to go on with", tick(id)))
                .state("nothing was started")
                .next_if(
                    cx.command(&["run", "PLAN", "--session", id]),
                    match session.restored {
                        Some(_) => "its journal was lost: what a plan may have run is looked for, or asked about, first",
                        None => "with the path of a plan",
                    },
                ),
        ),
        Rest::HandedOff { to } => Some(
            Fail::new("SE0416", exit::HELD, format!("session {} was handed to store {}", tick(id), tick(to)))
                .state("nothing was started here, and nothing can be")
                .nexts(Some(export_again(cx, id, to))),
        ),
        _ => Some(crate::fails::bug(Fail::new(
            "SE0001",
            exit::UNEXPECTED,
            "BUG: a rest that this version does not know",
        ))),
    }
}

/// How to have the envelope of a session that was handed off once more, for the store that is to take it in.
pub(crate) fn export_again(cx: &Context, id: &str, to: &str) -> Next {
    Next {
        command: cx.command(&["export", id, "--hand-off", to, "-o", &format!("{id}.json")]),
        when: Some("writes its envelope once more; `surestep import` takes that in there".into()),
    }
}

fn finished(cx: &Context, session: &Session, report: &Report) -> Option<Fail> {
    let id = session.id.as_str();
    let code = match report.outcome {
        End::Completed => return None,
        End::Failed => ("SE0414", exit::FAILED, "failed"),
        End::Cancelled => ("SE0417", exit::CANCELLED, "was cancelled"),
    };
    let what = format!("turn {} of {} {}", report.turn, tick(id), code.2);
    let mut fail = Fail::new(code.0, code.1, what);
    let culprit = session.operations.iter().find(|o| matches!(o.state, State::Failed | State::Denied));
    if let Some(operation) = culprit {
        fail.what =
            format!("{}: operation {} did not land: {}", fail.what, operation.number, view::named(operation));
        fail = fail.why(view::fate(operation));
    }
    let next = report.turn.next();
    let (why, when) = match culprit {
        Some(operation) => (cx.command(&["explain", id, &operation.number.to_string()]), "why"),
        None => (cx.command(&["log", id]), "who and why"),
    };
    Some(
        fail.state(format!("{}; a finished turn is never run again", not_started(session)))
            .next_if(why, when)
            .next_if(
                cx.command(&["run", "PLAN", "--session", id]),
                format!("with \"turn\": {next} in the plan"),
            ),
    )
}

/// The question, short: what, what was not done, and the answers.
pub(crate) fn person(cx: &Context, session: &Session, question: &Question, now: Wall) -> Fail {
    let id = session.id.as_str();
    let op = question.op.to_string();
    let named = session.operation(question.op).map(view::named).unwrap_or_default();
    let began = question.since.map_or_else(String::new, |at| format!(", begun {}", when::at(at, now)));
    let lost = question.attempt == Attempt::LOST;
    let attempt = if lost {
        "an attempt that a lost commit may have begun".to_owned()
    } else {
        format!("attempt {}{began}", question.attempt)
    };
    match question.about {
        About::Landing => Fail::new("SE0412", exit::PERSON, format!("effect outcome unknown: {named}"))
            .why(match question.evidence.last() {
                Some((_, fault)) => {
                    format!("{attempt}; what is known does not decide it: {}", view::fault_line(fault))
                }
                None => format!("{attempt}; {}", view::unrecorded(lost)),
            })
            .state(format!("it may have landed, so it was not run again; {}", not_started(session)))
            .next_if(cx.command_because(&["resolve", id, &op, "--landed"]), "you see it there")
            .next_if(cx.command_because(&["resolve", id, &op, "--not-landed"]), "you know it is not")
            .next_if(cx.command_because(&["resolve", id, &op, "--skip"]), "leave it open, go on")
            .next_if(cx.command(&["questions"]), "what is known, and what a wrong answer costs")
            .nexts(session.operation(question.op).and_then(next_time)),
        About::Restarts => Fail::new("SE0413", exit::PERSON, format!("lost to too many restarts: {named}"))
            .why(format!(
                "{} attempts were begun, and none of them landed; the last one: {}{began}",
                question.attempts, question.attempt
            ))
            .state(format!("it was not run again; {}", not_started(session)))
            .next_if(cx.command_because(&["resolve", id, &op, "--not-landed"]), "try it once more")
            .next_if(cx.command_because(&["resolve", id, &op, "--skip"]), "leave it, go on")
            .next(cx.command(&["questions"])),
        About::Approval => Fail::new("SE0411", exit::PERSON, format!("a person must allow: {named}"))
            .why("its plan asks for an approval, or the settings did when the plan was bound")
            .state(format!("it was not started; {}", waiting_behind(session, question.op)))
            .next_if(cx.command(&["explain", id, &op]), "exactly what would run")
            .next_if(cx.command_because(&["approve", id, &op]), "it may run; then `resume`")
            .next_if(cx.command_because(&["deny", id, &op]), "it must not run: the turn fails")
            .next_if(cx.command_because(&["resolve", id, &op, "--skip"]), "leave it out, go on"),
        _ => Fail::new("SE0412", exit::PERSON, format!("a person must answer: {named}"))
            .state(not_started(session))
            .next(cx.command(&["questions"])),
    }
}

/// How the remark of a hint for another time begins.
pub(crate) const NEXT_TIME: &str = "next time";

/// How to be asked less often, where the evidence shows it.
fn next_time(operation: &Operation) -> Option<Next> {
    let (_, fault) = operation.doubts.last()?;
    if operation.bound.kind.as_str() != "shell" {
        return None;
    }
    let hint = match fault.code.as_str() {
        "twin" => "name $SURESTEP_KEY in the arguments of the \"check\"".to_owned(),
        "exit" => {
            let digits = fault.message.strip_prefix("exit code ")?;
            let code: String = digits.chars().take_while(char::is_ascii_digit).collect();
            let check = if operation.bound.can_ask() { "" } else { "a \"check\", or " };
            format!("{check}\"refused_exit\": [{code}]")
        }
        _ => return None,
    };
    Some(Next { command: "surestep explain kind shell".into(), when: Some(format!("{NEXT_TIME}: {hint}")) })
}

/// What waits for an operation that was not started itself.
fn waiting_behind(session: &Session, op: OpNumber) -> String {
    let idle: Vec<&Operation> = idle(session).into_iter().filter(|o| o.number > op).collect();
    match (idle.first(), idle.last()) {
        (Some(first), Some(last)) if first.number == last.number => {
            format!("operation {} waits behind it", first.number)
        }
        (Some(first), Some(last)) => format!("operations {} to {} wait behind it", first.number, last.number),
        _ => "no other operation is left to start".into(),
    }
}

/// The operations of the present turn that were never begun.
fn idle(session: &Session) -> Vec<&Operation> {
    let operations = session.turn().map(|turn| session.operations_of(turn)).unwrap_or_default();
    operations
        .iter()
        .filter(|o| {
            o.attempts.is_empty()
                && matches!(o.state, State::Planned | State::AwaitingApproval | State::Cancelled)
        })
        .collect()
}

/// What was not started, in words.
pub(crate) fn not_started(session: &Session) -> String {
    if session.turn().is_none() {
        return "nothing was started".into();
    }
    let idle = idle(session);
    match (idle.first(), idle.last()) {
        (Some(first), Some(last)) if first.number == last.number => {
            format!("operation {} was not started", first.number)
        }
        (Some(first), Some(last)) => {
            format!("{} not started: {} to {}", count(idle.len(), "operation"), first.number, last.number)
        }
        _ => "no other operation is left to start".into(),
    }
}
