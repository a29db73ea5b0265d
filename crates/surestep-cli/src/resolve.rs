//! `resolve`, `approve`, `deny`, `cancel`: a person's word. It works without a terminal, and records who and why.

use serde::Serialize;
use surestep::core::{Operation, json};
use surestep::{
    End, Envelope, OpNumber, Receipt, Report, Request, RequestId, Rest, SessionId, StepError, Word, exit,
};

use crate::args;
use crate::context::{Context, Store, actor};
use crate::fail::Fail;
use crate::text::{self, tick};
use crate::view::{self, RestView};
use crate::{fails, questions};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AnswerObject {
    schema: &'static str,
    exit: u8,
    session: String,
    /// The operation; null for `cancel`.
    n: Option<u32>,
    key: Option<String>,
    word: Word,
    by: String,
    because: String,
    dry_run: bool,
    /// The session is held: its owner records the word with its next commit.
    in_mailbox: bool,
    /// What the operation (for `cancel`, the session) is now; under `--dry-run`, what it still is.
    state: &'static str,
    may_have_landed: bool,
    rest: RestView,
}

/// One person's word, as it was typed.
struct Given<'a> {
    /// The command's name and its flag, to say it again.
    verb: &'static str,
    flag: Option<&'static str>,
    schema: &'static str,
    session: &'a str,
    /// The operation; `cancel` names none.
    op: Option<&'a str>,
    word: Word,
    receipt: Option<Receipt>,
    because: &'a str,
    dry_run: bool,
}

/// `resolve SESSION OP …`.
pub(crate) async fn resolve(cx: &Context, args: &args::Resolve) -> Result<u8, Fail> {
    // Only `--all-matching` has neither: clap sees to that.
    let (Some(session), Some(op)) = (&args.session, &args.op) else {
        return crate::matching::resolve(cx, args).await;
    };
    let given = Given {
        verb: "resolve",
        flag: Some(word_flag(args)),
        schema: "surestep.resolve/1",
        session,
        op: Some(op),
        word: word(args),
        receipt: args.receipt.as_deref().map(receipt).transpose()?,
        because: &args.because,
        dry_run: args.dry_run,
    };
    answer(cx, given).await
}

/// `approve SESSION OP …` and `deny SESSION OP …`.
pub(crate) async fn decide(cx: &Context, args: &args::Decide, allow: bool) -> Result<u8, Fail> {
    let (verb, schema, word) = if allow {
        ("approve", "surestep.approve/1", Word::Approve)
    } else {
        ("deny", "surestep.deny/1", Word::Deny)
    };
    let (session, op) = (args.session.as_str(), Some(args.op.as_str()));
    let (because, dry_run) = (args.because.as_str(), args.dry_run);
    answer(cx, Given { verb, flag: None, schema, session, op, word, receipt: None, because, dry_run }).await
}

/// `cancel SESSION …`.
pub(crate) async fn cancel(cx: &Context, args: &args::Cancel) -> Result<u8, Fail> {
    let given = Given {
        verb: "cancel",
        flag: None,
        schema: "surestep.cancel/1",
        session: &args.session,
        op: None,
        word: Word::Cancel,
        receipt: None,
        because: &args.because,
        dry_run: args.dry_run,
    };
    answer(cx, given).await
}

async fn answer(cx: &Context, given: Given<'_>) -> Result<u8, Fail> {
    let engine = cx.engine(if given.dry_run { Store::Read } else { Store::MustExist }, None)?;
    let id = cx.session(given.session)?;
    reasoned(given.because, || {
        let words: Vec<&str> =
            [Some(given.verb), Some(id.as_str()), given.op, given.flag].into_iter().flatten().collect();
        cx.command_because(&words)
    })?;
    let envelope = engine.read(&id).await.map_err(|e| fails::of_step(cx, &e, &id))?;
    let operation = given.op.map(|op| find(cx, &envelope, &id, op)).transpose()?;
    let request = request(&envelope, operation.map(|o| o.number), given.word, given.receipt, given.because)?;
    let costs = |out: &dyn Fn(&str)| {
        let now = engine.now();
        let Rest::NeedsPerson(question) = envelope.standing(&now) else { return };
        if request.op == Some(question.op) {
            let of = (!given.dry_run).then_some(request.word);
            for cost in questions::costs(cx, envelope.session(), &question, of, now.wall) {
                out(&cost);
            }
        }
    };
    let name = match operation {
        Some(operation) => format!("operation {} ({})", operation.number, view::named(operation)),
        None => {
            format!(
                "turn {} of {}",
                envelope.session().turn().map_or(1, |t| t.number.value()),
                tick(id.as_str())
            )
        }
    };
    let meaning = meaning(request.word, envelope.session().cancelled.is_some());
    let after = if given.dry_run {
        match engine.try_answer(&id, &request).await {
            Err(StepError::Busy { .. }) if request.word.keeps() => {
                cx.out
                    .put(&format!("would put into the mailbox, since the session is held: {name} {meaning}"));
            }
            tried => {
                tried.map_err(|e| fails::of_step(cx, &e, &id))?;
                cx.out.put(&format!("would record: {name} {meaning}"));
            }
        }
        costs(&|line| cx.out.put(line));
        cx.out.put(crate::dry::NOTHING);
        envelope.clone()
    } else {
        let step = match engine.answer(&id, &request).await {
            // Its owner folds the word in; a killed one's successor does.
            Err(StepError::Busy { holder, .. }) => {
                engine.post(&id, &request).await.map_err(|e| fails::of_step(cx, &e, &id))?;
                queued(cx, &name, meaning, &holder.what, &cx.command(&["show", id.as_str()]));
                let rest = envelope.standing(&engine.now());
                return Ok(posted(cx, given.schema, request, &envelope, &rest));
            }
            answered => answered.map_err(|e| fails::of_step(cx, &e, &id))?,
        };
        cx.out.put(&format!("recorded: {name} {meaning}"));
        cx.out.put(&format!("by {}: {}", text::line(&request.by), text::line(&request.because)));
        costs(&|line| cx.out.note(line));
        step.envelope
    };
    let rest = after.standing(&engine.now());
    let now = operation.and_then(|o| after.session().operation(o.number));
    if !given.dry_run {
        if let Rest::Finished(report) = &rest {
            cx.out.put(&finished(report));
        } else {
            cx.out.put(&format!("nothing was started; to go on: {}", cx.command(&["resume", id.as_str()])));
        }
    }
    cx.out.object(&AnswerObject {
        schema: given.schema,
        exit: exit::DONE,
        session: id.to_string(),
        n: operation.map(|o| o.number.value()),
        key: operation.map(|o| o.bound.key.to_string()),
        word: request.word,
        by: request.by,
        because: request.because,
        dry_run: given.dry_run,
        in_mailbox: false,
        state: now.map_or_else(|| after.session().status(), |o| o.state.word()),
        may_have_landed: now.map_or_else(
            || after.session().operations.iter().any(view::may_have_landed),
            view::may_have_landed,
        ),
        rest: RestView::new(&rest),
    });
    Ok(exit::DONE)
}

/// The session is held: the word is in its mailbox.
fn queued(cx: &Context, name: &str, meaning: &str, holder: &str, show: &str) {
    cx.out.put(&format!("put into the mailbox; once it is recorded: {name} {meaning}"));
    cx.out.note(&format!("surestep: the session is held by {}", text::line(holder)));
    cx.out.note(&format!(
        "surestep: its owner records the word with its next commit, if it still fits; whether it did: {show}"
    ));
}

fn posted(cx: &Context, schema: &'static str, request: Request, envelope: &Envelope, rest: &Rest) -> u8 {
    let session = envelope.session();
    let operation = request.op.and_then(|op| session.operation(op));
    cx.out.object(&AnswerObject {
        schema,
        exit: exit::DONE,
        session: session.id.to_string(),
        n: operation.map(|o| o.number.value()),
        key: operation.map(|o| o.bound.key.to_string()),
        word: request.word,
        by: request.by,
        because: request.because,
        dry_run: false,
        in_mailbox: true,
        state: operation.map_or_else(|| session.status(), |o| o.state.word()),
        may_have_landed: operation.is_some_and(view::may_have_landed),
        rest: RestView::new(rest),
    });
    exit::DONE
}

/// Refuses a reason that says nothing.
pub(crate) fn reasoned(because: &str, again: impl Fn() -> String) -> Result<(), Fail> {
    if !matches!(because.trim(), "" | "…" | "...") {
        return Ok(());
    }
    Err(Fail::usage("SE0101", "`--because` gives no reason")
        .why("the journal keeps why, for whoever reads it later")
        .state("nothing was recorded")
        .next_if(again(), "with your reason in the place of `…`"))
}

/// A person's word about an operation as it stands now; without one, about the turn.
pub(crate) fn request(
    envelope: &Envelope,
    op: Option<OpNumber>,
    word: Word,
    receipt: Option<Receipt>,
    because: &str,
) -> Result<Request, Fail> {
    let operation = op.and_then(|op| envelope.session().operation(op));
    Ok(Request {
        id: RequestId::new(surestep::random_id())
            .map_err(|e| fails::bug(Fail::new("SE0001", exit::UNEXPECTED, format!("BUG: {e}"))))?,
        word,
        by: actor(),
        because: because.to_owned(),
        op: operation.map(|o| o.number),
        key: operation.map(|o| o.bound.key),
        attempt: operation.and_then(Operation::attempt).map(|a| a.number),
        turn: envelope.session().turn().filter(|_| op.is_none()).map(|t| t.number),
        receipt,
        extra: surestep::core::Extra::default(),
    })
}

/// ``turn 1 is finished: completed, verdict `done` ``.
fn finished(report: &Report) -> String {
    let turn = report.turn;
    match report.outcome {
        End::Completed if report.verdict.is_empty() => format!("turn {turn} is finished: completed"),
        End::Completed => format!("turn {turn} is finished: completed, verdict {}", tick(&report.verdict)),
        End::Failed => format!("turn {turn} is finished: failed"),
        End::Cancelled => format!("turn {turn} is finished: cancelled"),
    }
}

pub(crate) const fn word(args: &args::Resolve) -> Word {
    match (args.landed, args.skip, args.now) {
        (true, _, _) => Word::Landed,
        (_, true, _) => Word::Skip,
        (_, _, true) => Word::NotLandedNow,
        (_, _, false) => Word::NotLanded,
    }
}

const fn word_flag(args: &args::Resolve) -> &'static str {
    match word(args) {
        Word::Landed => "--landed",
        Word::Skip => "--skip",
        Word::NotLanded | Word::NotLandedNow | Word::Approve | Word::Deny | Word::Cancel => "--not-landed",
    }
}

pub(crate) const fn meaning(word: Word, cancelled: bool) -> &'static str {
    match word {
        Word::NotLanded if cancelled => "did not land; its turn is cancelled, so it does not run again",
        Word::NotLandedNow if cancelled => {
            "did not land, on your own word before that could be known; its turn is cancelled, so it does not run again"
        }
        Word::Skip if cancelled => "is left as it is; its turn is cancelled",
        Word::Landed => "landed; it is never run again",
        Word::NotLanded => "did not land; it may run again",
        Word::NotLandedNow => "did not land, on your own word before that could be known; it may run again",
        Word::Skip => "is left as it is; the turn goes on without it",
        Word::Approve => "may run, exactly as it is bound",
        Word::Deny => "must not run; the turn fails",
        Word::Cancel => "is cancelled: nothing more is started, and a command that runs is cut",
    }
}

/// `{"ref":…,"detail"?:…}`, or any other text as the ref itself.
fn receipt(given: &str) -> Result<Receipt, Fail> {
    let refuse = |why: String| {
        Fail::usage("SE0104", format!("{} is no receipt", tick(given)))
            .why(why)
            .state("nothing was recorded")
            .next(r#"--receipt '{"ref":"118"}'"#)
    };
    if !given.trim_start().starts_with('{') {
        return match given.trim() {
            "" => Err(refuse("it is empty".into())),
            text => Ok(Receipt::new(text.trim_matches('"'))),
        };
    }
    json::check(given, json::DEPTH_BODY_MAX).map_err(|e| refuse(text::line(&e.to_string())))?;
    let receipt: Receipt = serde_json::from_str(given).map_err(|e| refuse(text::line(&e.to_string())))?;
    if let Some((name, _)) = receipt.extra.iter().next() {
        return Err(refuse(format!("{} is not one of its fields, `ref` and `detail`", tick(name))));
    }
    Ok(receipt)
}

/// The operation that a person names: its number from 1, or the start of its key.
pub(crate) fn find<'a>(
    cx: &Context,
    envelope: &'a Envelope,
    id: &SessionId,
    given: &str,
) -> Result<&'a Operation, Fail> {
    let operations = &envelope.session().operations;
    let by_number = || given.parse::<usize>().ok().and_then(|n| operations.get(n.checked_sub(1)?));
    let matching: Vec<&Operation> = match by_number() {
        Some(operation) => vec![operation],
        None => operations.iter().filter(|o| o.bound.key.matches_prefix(given)).collect(),
    };
    let nothing = "nothing was recorded or started";
    match matching.as_slice() {
        [one] => Ok(one),
        [] => Err(Fail::new(
            "SE0902",
            exit::NO_SUCH,
            format!("session {} has no operation {}", tick(id.as_str()), tick(given)),
        )
        .why(match operations.len() {
            0 => "no plan is bound".to_owned(),
            n => format!("it has operations 1 to {n}; a key is named by 4 or more of its digits"),
        })
        .state(nothing)
        .next(cx.command(&["show", id.as_str()]))),
        several => {
            let numbers: Vec<String> = several.iter().map(|o| o.number.to_string()).collect();
            Err(Fail::usage("SE0106", format!("{} is the start of several keys", tick(given)))
                .why(format!("operations {} begin with it", numbers.join(", ")))
                .state(nothing)
                .next(cx.command(&["show", id.as_str()])))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_an_object_with_ref_or_plain_text() {
        assert_eq!(receipt("118").unwrap().reference, "118");
        assert_eq!(receipt("\"118\"").unwrap().reference, "118");
        let full = receipt(r#"{"ref":"118","detail":{"n":1E2}}"#).unwrap();
        assert_eq!((full.reference.as_str(), full.detail.unwrap().as_str()), ("118", r#"{"n":1E2}"#));
        for bad in [
            "",
            "  ",
            "{",
            r#"{"reference":"1"}"#,
            r#"{"ref":1}"#,
            r#"{"ref":"1","url":"x"}"#,
            r#"{"ref":"a","ref":"b"}"#,
        ] {
            assert!(receipt(bad).is_err_and(|fail| fail.code == "SE0104"), "{bad}");
        }
    }
}
