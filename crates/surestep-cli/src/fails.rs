//! From the library's errors to what a person reads: each with what was not done and the exact next command.

use surestep::core::plan::nearest;
use surestep::{Nameless, Observed, Outcome, PlanError, SessionId, StepError, StoreError};

use crate::context::Context;
use crate::fail::{Fail, Seen};
use crate::refusals;
use crate::text::{self, tick};

/// A step's error.
pub(crate) fn of_step(cx: &Context, error: &StepError, session: &SessionId) -> Fail {
    let id = session.as_str();
    let fail = Fail::new(error.code(), error.exit_code(), text::line(&error.to_string()));
    match error {
        StepError::Busy { holder, .. } => {
            Fail { what: format!("session {} is held by another process", tick(id)), ..fail }
                .why(text::line(&holder.what))
                .state("nothing was started or changed")
                .next_if(cx.command(&["resume", id, "--wait"]), "waits until it is free, then goes on")
        }
        StepError::Fenced { ours, theirs, observed, .. } => {
            Fail { what: format!("session {} was taken over by another process", tick(id)), ..fail }
                .why(format!("this process owned epoch {ours}, the session is at epoch {theirs}"))
                .seen(observed.as_deref().map(seen_view))
                .state(kept(observed.as_deref()))
                .state("nothing more was started here")
                .next(cx.command(&["show", id]))
        }
        StepError::Store { source, observed, indeterminate } => {
            let mut fail = of_store(cx, source, Some(session));
            if *indeterminate {
                fail = Fail { code: "SE0504", ..fail }
                    .state("nobody knows whether the last commit is on disk: the next step finds out, and repeats nothing");
            }
            match observed.as_deref() {
                Some(seen) => not_recorded(cx, fail, seen, id),
                // The store said it already.
                None if !fail.state.is_empty() => fail,
                None => fail.state("no effect was started after that"),
            }
        }
        StepError::Plan(e) => of_plan(cx, e, Some(session)),
        StepError::Secret { op, in_doubt, source, .. } => {
            let state = if *in_doubt {
                "nothing was sent or asked; what an earlier attempt may have done stays in doubt"
            } else {
                "nothing was sent, and the operation is not in doubt; what was recorded before stays as it is"
            };
            Fail { what: format!("operation {op} of {} needs a secret that is not there", tick(id)), ..fail }
                .why(text::line(&source.to_string()))
                .state(state)
                .next_if(cx.command(&["resume", id]), "once the secret is there")
        }
        StepError::Refused(e) => refusals::of(cx, e, session),
        StepError::Corrupt { source, .. } => {
            let newer = error.code() == "SE0701";
            let what = if newer {
                format!("session {} was written by a newer version of surestep", tick(id))
            } else {
                format!("session {} is damaged", tick(id))
            };
            let fail = Fail { what, ..fail }
                .why(text::line(&source.to_string()))
                .state("nothing was started, and no byte was changed");
            if newer { newer_next(fail) } else { damaged_next(cx, fail) }
        }
        StepError::Diverged { revision, .. } => {
            Fail { what: format!("the envelope of {} is not from this store's journal", tick(id)), ..fail }
                .why(format!("the two differ at revision {revision}"))
                .state("nothing was started or changed")
                .next(cx.command(&["show", id]))
        }
        StepError::StoreBehind { ours, theirs, .. } => {
            Fail { what: format!("the store is behind the envelope of {}", tick(id)), ..fail }
                .why(format!(
                    "the envelope is at revision {theirs}, the store at {ours}: was an older copy restored?"
                ))
                .state("nothing was started or changed")
                .next_if("surestep explain code SE0802", "the newer store is the better one to go on with")
                .next_if(
                    cx.command(&["fsck", "--restored", id]),
                    "if there is only this one: what is not settled in it is then looked for, or asked about",
                )
        }
        StepError::ReadOnly { .. } => fail
            .why("only a session that was handed off moves; a copy of it runs nowhere")
            .state("nothing was started or changed")
            .next_if(
                format!("surestep export {} --hand-off STORE", text::word(id)),
                "at its store, to move it",
            ),
        StepError::NotHandedOff { home, .. } => {
            let home = home.as_ref().map(|home| format!("it is at, or on its way to, store {}", tick(home)));
            Fail { what: format!("session {} was not handed off to this store", tick(id)), ..fail }
                .whys(home)
                .state("nothing was started or changed: it may still be running where it lives")
        }
        StepError::Elsewhere { home, .. } => {
            Fail { what: format!("session {} is at store {}", tick(id), tick(home)), ..fail }
                .why("it was handed off, and exactly one store may go on with it")
                .state("nothing was recorded or started here, and nothing can be")
                .next_if(
                    cx.command(&["show", id]),
                    "what it did before, and how to have its envelope once more",
                )
        }
        StepError::InDoubt { op, .. } => Fail {
            what: format!("session {} cannot leave: operation {op} may have landed", tick(id)),
            ..fail
        }
        .why("only this store can look, or be told, what became of it")
        .state("it was not handed off, and nothing was started")
        .next_if(cx.command(&["resume", id, "--wait"]), "looks, and goes on with the turn")
        .next_if(cx.command(&["questions"]), "what waits for your answer"),
        StepError::NoSuchSession { .. } => fail
            .why(format!("the store {} does not have it", tick(&cx.store.to_string_lossy())))
            .state("nothing was started or changed")
            .next(cx.command(&["list"])),
        StepError::Broken(_) => bug(fail),
        _ => bug(fail),
    }
}

/// The store's refusal.
pub(crate) fn of_store(cx: &Context, error: &StoreError, session: Option<&SessionId>) -> Fail {
    let mut why = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        why.push(text::line(&inner.to_string()));
        source = inner.source();
    }
    let mut fail = Fail::new(error.code(), error.exit_code(), store_words(error, session)).whys(why);
    if session.is_none()
        && matches!(
            error,
            StoreError::Full { .. }
                | StoreError::Io { .. }
                | StoreError::Poisoned { .. }
                | StoreError::Other(_)
        )
    {
        fail = fail.state("nothing was started or changed");
    }
    let again = match session {
        Some(session) => cx.command(&["resume", session.as_str()]),
        None => cx.again.clone(),
    };
    match error {
        StoreError::Absent { .. } => fail.state("nothing was started or changed").next(cx.command(&["list"])),
        StoreError::Busy { .. } | StoreError::HoldLost { .. } => {
            fail.state("nothing more was started").next(again)
        }
        StoreError::Corrupt { .. } => {
            damaged_next(cx, fail.state("nothing was started, and no byte was changed"))
        }
        StoreError::TooNew { .. } => newer_next(fail.state("nothing was started, and no byte was changed")),
        StoreError::RolledBack { session, .. } => fail
            .why("an older copy of the store was put back, or a part of it was removed; what is missing may have run")
            .state("nothing was started, and no byte was changed")
            .next_if("surestep explain code SE0602", "read this first; is the newer store somewhere? then put it back")
            .next_if(
                cx.command(&["fsck", "--restored", session.as_str()]),
                "if it is lost: what may have run is then looked for, or asked about",
            ),
        StoreError::Pruned { session, .. } => fail
            .why("it had been finished for longer than the retention; a tombstone keeps that it ran")
            .state("nothing was started, and what it did is never done again")
            .next_if(cx.command(&["run", "PLAN", "--session", "ANOTHER"]), "to do something new")
            .next_if("surestep explain code SE0604", format!("what became of {}", tick(session.as_str()))),
        StoreError::Gone { .. } => fail
            .why("what they did is not undone by that: a fresh store would do it again")
            .state("nothing was started or made")
            .next_if(cx.command(&["fsck", "--restored"]), "makes it anew, with every session to be looked for, or asked about")
            .next_if(cx.command(&["fsck", "--forget"]), "if you removed it on purpose"),
        StoreError::Full { .. } => fail
            .next_if(again, "after making room: free some space, raise the quota or the limit of open files"),
        StoreError::Volatile { .. } => fail
            .why("a crash of the machine could lose what was acknowledged, and then run an effect twice")
            .state("nothing was started or written")
            .next_if(again.replacen("surestep", "surestep --allow-volatile", 1), "if you can lose this store")
            .next_if("surestep --store PATH …", "to put it on a disk"),
        StoreError::Io { .. } | StoreError::Poisoned { .. } | StoreError::Other(_) => {
            fail.next_if(again, "once the cause is gone")
        }
        StoreError::Unsupported { .. } => fail.state("nothing was done").next("surestep explain code SE0506"),
        _ => bug(fail),
    }
}

/// What the store says; a byte is named only where one is meant.
fn store_words(error: &StoreError, session: Option<&SessionId>) -> String {
    let StoreError::Corrupt { file, offset: 0, why } = error else { return text::line(&error.to_string()) };
    let shown = text::line(&file.to_string_lossy());
    let commit = file.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
    match (commit, session, why.strip_prefix("the commit is missing")) {
        (Some(n), Some(id), Some(more)) => {
            text::line(&format!("commit {n} of {} is missing{more} ({shown})", tick(id.as_str())))
        }
        _ => text::line(&format!("{shown} is damaged: {why}")),
    }
}

/// A session whose id nobody can tell.
pub(crate) fn of_nameless(cx: &Context, odd: &Nameless) -> Fail {
    let what = format!("a session cannot be told by its files: {}", text::line(&odd.file.to_string_lossy()));
    Fail::new("SE0601", surestep::exit::INTEGRITY, what)
        .why(text::line(&odd.why))
        .state("nothing was started, and no byte was changed; the other sessions are not affected")
        .next_if(cx.command(&["fsck"]), "what is damaged, and what helps")
}

/// A plan's refusal.
pub(crate) fn of_plan(cx: &Context, error: &PlanError, session: Option<&SessionId>) -> Fail {
    let id = session.map_or("SESSION", SessionId::as_str);
    let exit = StepError::Plan(error.clone()).exit_code();
    let fail = Fail::new(surestep::plan_code(error), exit, text::line(&error.to_string()));
    let nothing = "nothing was written or started";
    match error {
        PlanError::AlreadyBound { turn, bound, offered } => {
            Fail { what: format!("turn {turn} of {} is bound to another plan", tick(id)), ..fail }
                .why(format!("bound:   {bound}"))
                .why(format!("offered: {offered}"))
                .state("nothing was written or started; the bound plan stays as it is")
                .next_if(cx.command(&["resume", id]), "to go on with the bound plan")
                .next_if(
                    cx.command(&["run", "PLAN", "--session", "ANOTHER"]),
                    format!(
                        "to run the other plan; or give it `\"turn\": {}` once this turn is finished",
                        turn.next()
                    ),
                )
        }
        PlanError::TurnOrder { finished, current, .. } => {
            let fail = fail.state(nothing);
            if *finished {
                fail.next_if(
                    cx.again.clone(),
                    format!("after setting `\"turn\": {}` in the plan", current.next()),
                )
            } else {
                fail.next_if(cx.command(&["resume", id, "--wait"]), "to finish the open turn first")
            }
        }
        // Met while resuming: a bound plan is not corrected.
        PlanError::UnknownKind { kind, path, .. } if !path.starts_with('$') => {
            let kind = tick(kind.as_str());
            Fail { what: format!("there is no kind {kind} here, and session {} has it", tick(id)), ..fail }
                .why("the session was begun by a program that registers more kinds than this one")
                .state("nothing was written or started; the bound plan stays as it is")
                .next_if(
                    cx.command(&["show", id]),
                    format!("where it stands; resume it with the program that registers {kind}"),
                )
        }
        PlanError::UnknownKind { kind, path, known } => {
            let names: Vec<&str> = known.split(", ").collect();
            let near = nearest(kind.as_str(), &names);
            let fail =
                Fail { what: format!("there is no kind {} here ({path})", tick(kind.as_str())), ..fail };
            let fail = match &near {
                Some(near) => fail.why(format!("did you mean {}? known are: {known}", tick(near))),
                None => fail.why(format!("known are: {known}")),
            };
            let kind = near.unwrap_or_else(|| names.first().map_or("shell", |n| n).to_owned());
            fail.state(nothing)
                .next_if(format!("surestep explain kind {}", text::word(&kind)), "what it takes")
                .next_if(cx.again.clone(), "after correcting the plan")
        }
        PlanError::NotAllowed { kind, .. } => fail
            .why("a plan or envelope from outside can be a stranger's, so its kinds are allowed by name")
            .state(nothing)
            .next_if(format!("surestep explain kind {}", text::word(kind.as_str())), "what it can do"),
        PlanError::OtherSession { session, .. } => {
            fail.state(nothing).next_if(cx.command(&["show", session.as_str()]), "the session that was named")
        }
        PlanError::Secret { path, .. } => fail
            .why("a body is stored and shown as it is, so no credential is taken into one")
            .state(format!("{nothing}, and the value is in no file of the store"))
            .next_if(
                cx.again.clone(),
                format!(
                    "after putting the value into a secret source, and {} at {path}",
                    tick("{\"$secret\":\"NAME\"}")
                ),
            ),
        PlanError::SecretReference { .. } => fail
            .state(nothing)
            .next_if(cx.again.clone(), format!("after writing {} there", tick("{\"$secret\":\"NAME\"}"))),
        PlanError::Unpaired { .. } => fail
            .why("each call in the conversation has exactly one result; a plan adds only messages that are new")
            .state(nothing)
            .next_if(cx.again.clone(), "after correcting the plan's `conversation`"),
        PlanError::TooNew { .. } => newer_next(fail.state(nothing)),
        PlanError::Json(_)
        | PlanError::Shape { .. }
        | PlanError::UnknownField { .. }
        | PlanError::Limit { .. }
        | PlanError::Refused { .. }
        | PlanError::Mismatch { .. }
        | _ => fail.state(nothing).next_if(cx.again.clone(), "after correcting the plan"),
    }
}

fn kept(observed: Option<&Observed>) -> String {
    match observed {
        Some(seen) => {
            format!("{}; kept as late evidence, which the new owner looks at first", seen_text(seen))
        }
        None => "nothing was in flight".into(),
    }
}

/// What was seen, and could not be written down: it is said in full, since nobody else may know it.
fn not_recorded(cx: &Context, fail: Fail, seen: &Observed, id: &str) -> Fail {
    let fail = fail
        .seen(Some(seen_view(seen)))
        .state(format!("{}, not recorded in the journal", seen_text(seen)))
        .state("it is never repeated blindly: the next step looks for it, or asks");
    let Outcome::Landed(receipt) = &seen.outcome else { return fail };
    let Ok(receipt) = serde_json::to_string(receipt) else { return fail };
    let op = seen.op.to_string();
    let words = ["resolve", id, &op, "--landed", "--receipt", &receipt];
    fail.next_if(cx.command_because(&words), "if you are asked: this is its receipt")
}

fn seen_view(seen: &Observed) -> Seen {
    let (outcome, receipt, fault) = match &seen.outcome {
        Outcome::Landed(receipt) => ("landed", Some(receipt.clone()), None),
        Outcome::NotLanded(fault, _) | Outcome::NotSent(fault) => ("not_landed", None, Some(fault)),
        Outcome::Unknown(fault) | Outcome::Ended(fault) | Outcome::Over(fault) => {
            ("unknown", None, Some(fault))
        }
    };
    Seen {
        n: seen.op.value(),
        key: seen.key.to_string(),
        attempt: seen.attempt.value(),
        outcome,
        receipt,
        fault: fault.map(|fault| text::line(&fault.to_string())),
    }
}

fn seen_text(seen: &Observed) -> String {
    let how = match &seen.outcome {
        Outcome::Landed(receipt) => format!("landed ({})", tick(&receipt.reference)),
        Outcome::NotLanded(..) | Outcome::NotSent(_) => "did not land".into(),
        Outcome::Unknown(_) | Outcome::Ended(_) | Outcome::Over(_) => "ended with an unknown outcome".into(),
    };
    format!("operation {} {how}", seen.op)
}

fn newer_next(fail: Fail) -> Fail {
    fail.next_if("surestep --version", "then install a version that can read it")
}

fn damaged_next(cx: &Context, fail: Fail) -> Fail {
    let page = format!("surestep explain code {}", fail.code);
    fail.next_if(cx.command(&["fsck"]), "what is damaged, and what helps; changes nothing")
        .next_if(page, "what to do, and what not to do")
}

/// A defect of ours.
pub(crate) fn bug(fail: Fail) -> Fail {
    fail.why("this is a defect of surestep, not of your plan")
        .state("nothing more was started; what was recorded stays recorded")
        .next("surestep explain code SE0001")
}
