//! `resolve`: a person's answer to one question. It works without a terminal, and records who and why.

use serde::Serialize;
use surestep::core::{Operation, json};
use surestep::{Envelope, Receipt, Request, RequestId, Rest, SessionId, StepError, Word, exit};

use crate::args;
use crate::context::{Context, Store, actor};
use crate::fail::Fail;
use crate::text::{self, tick};
use crate::view::{self, RestView};
use crate::{fails, questions};

#[derive(Serialize)]
struct ResolveObject {
    schema: &'static str,
    exit: u8,
    session: String,
    n: u32,
    key: String,
    word: Word,
    by: String,
    because: String,
    dry_run: bool,
    /// What the operation is now; under `--dry-run`, what it still is.
    state: &'static str,
    rest: RestView,
}

/// `resolve SESSION OP …`.
pub(crate) async fn resolve(cx: &Context, args: &args::Resolve) -> Result<u8, Fail> {
    let engine = cx.engine(Store::MustExist, None)?;
    let id = cx.session(&args.session)?;
    let receipt = args.receipt.as_deref().map(receipt).transpose()?;
    if matches!(args.because.trim(), "" | "…" | "...") {
        return Err(Fail::usage("SE0101", "`--because` gives no reason")
            .why("the journal keeps why, for whoever reads it later")
            .state("nothing was recorded")
            .next(cx.command_because(&["resolve", id.as_str(), &args.op, word_flag(args)])));
    }
    let envelope = engine.read(&id).await.map_err(|e| fails::of_step(cx, &e, &id))?;
    let operation = find(cx, &envelope, &id, &args.op)?;
    let request = Request {
        id: RequestId::new(surestep::random_id())
            .map_err(|e| fails::bug(Fail::new("SE0001", exit::UNEXPECTED, format!("BUG: {e}"))))?,
        word: word(args),
        by: actor(),
        because: args.because.clone(),
        op: Some(operation.number),
        key: Some(operation.bound.key),
        attempt: operation.attempt().map(|a| a.number),
        receipt,
        extra: surestep::core::Extra::default(),
    };
    let costs = |out: &dyn Fn(&str)| {
        let Rest::NeedsPerson(question) = envelope.standing(&engine.now()) else { return };
        if question.op == operation.number {
            for cost in
                questions::costs(cx, envelope.session(), &question, (!args.dry_run).then_some(request.word))
            {
                out(&cost);
            }
        }
    };
    let name = format!("operation {} ({})", operation.number, view::named(operation));
    let meaning = meaning(request.word);
    let after = if args.dry_run {
        engine.try_answer(&id, &request).await.map_err(|e| refused(cx, &e, &id))?;
        cx.out.put(&format!("would record: {name} {meaning}"));
        costs(&|line| cx.out.put(line));
        cx.out.put("nothing was recorded: this was a dry run");
        envelope.clone()
    } else {
        let step = engine.answer(&id, &request).await.map_err(|e| refused(cx, &e, &id))?;
        cx.out.put(&format!("recorded: {name} {meaning}"));
        cx.out.put(&format!("by {}: {}", text::line(&request.by), text::line(&request.because)));
        costs(&|line| cx.out.note(line));
        step.envelope
    };
    let rest = after.standing(&engine.now());
    let state = after.session().operation(operation.number).map_or("unknown", |o| o.state.word());
    if !args.dry_run {
        if let Rest::Finished(report) = &rest {
            cx.out.put(&format!("the turn is finished: {}", text::line(&report.verdict)));
        } else {
            cx.out.put(&format!("nothing was started; to go on: {}", cx.command(&["resume", id.as_str()])));
        }
    }
    cx.out.object(&ResolveObject {
        schema: "surestep.resolve/1",
        exit: exit::DONE,
        session: id.to_string(),
        n: operation.number.value(),
        key: operation.bound.key.to_string(),
        word: request.word,
        by: request.by,
        because: request.because,
        dry_run: args.dry_run,
        state,
        rest: RestView::new(&rest),
    });
    Ok(exit::DONE)
}

/// A held session takes no answer yet: the same command again, once it is free.
fn refused(cx: &Context, error: &StepError, id: &SessionId) -> Fail {
    let fail = fails::of_step(cx, error, id);
    if !matches!(error, StepError::Busy { .. }) {
        return fail;
    }
    let fail = Fail { state: vec!["nothing was recorded".into()], next: vec![], ..fail };
    fail.next_if(cx.again.clone(), "once the session is free")
}

const fn word(args: &args::Resolve) -> Word {
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

const fn meaning(word: Word) -> &'static str {
    match word {
        Word::Landed => "landed; it is never run again",
        Word::NotLanded => "did not land; it may run again",
        Word::NotLandedNow => "did not land, on your own word before that could be known; it may run again",
        Word::Skip => "is left as it is; the turn goes on without it",
        Word::Approve => "may run",
        Word::Deny => "must not run",
        Word::Cancel => "is cancelled",
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
