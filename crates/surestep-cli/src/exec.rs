//! `exec`: one command as a durable operation: a plan of one `shell` operation.

use surestep::core::json;
use surestep::{Kind, Plan, PlannedOperation, Raw, TurnNumber, exit};

use crate::args;
use crate::context::Context;
use crate::fail::Fail;
use crate::run::Before;
use crate::{fails, run};

/// `exec --session S --target T … -- CMD…`.
pub(crate) async fn exec(cx: &Context, args: &args::Exec) -> Result<u8, Fail> {
    let session = cx.session(&args.session)?;
    let bug = |why: String| fails::bug(Fail::new("SE0001", exit::UNEXPECTED, format!("BUG: {why}")));
    let kind = Kind::new("shell").map_err(|e| bug(e.to_string()))?;
    let body = Raw::new(body(args)).map_err(|e| bug(e.to_string()))?;
    let operation = PlannedOperation::new(kind, "", &args.target, body);
    let mut plan = Plan::new("done", vec![operation]);
    plan.session = Some(session.clone());
    plan.turn = args.turn.map(TurnNumber::new);
    plan.task = Some(crate::text::command(args.command.iter().map(String::as_str)));
    let fix = |fail: Fail, before: Before| match fail.code {
        "SE0207" => bound_already(cx, args, fail, before.over),
        "SE0208" => out_of_order(cx, args, fail, before),
        "SE0414" | "SE0417" => next_turn(cx, args, fail),
        _ => fail,
    };
    if args.dry_run {
        return crate::dry::plan(cx, session, plan, &fix).await;
    }
    run::run_plan(cx, "surestep.exec/1", session, plan, args.wait, &fix).await
}

/// The turn did not complete: to try again is the next turn.
fn next_turn(cx: &Context, args: &args::Exec, mut fail: Fail) -> Fail {
    fail.next.truncate(1);
    fail.next_if(as_turn(cx, args, named(args).next()), "to try again, once the cause is gone")
}

/// The turn that was named.
fn named(args: &args::Exec) -> TurnNumber {
    TurnNumber::new(args.turn.unwrap_or(1))
}

/// Turns are opened in order: this one as the turn that can be opened, or the open one first.
fn out_of_order(cx: &Context, args: &args::Exec, mut fail: Fail, before: Before) -> Fail {
    let turn = before.turn.map_or(TurnNumber::FIRST, TurnNumber::next);
    if before.over || before.turn.is_none() {
        fail.next.clear();
    }
    fail.next_if(as_turn(cx, args, turn), format!("as turn {turn}"))
}

/// This command line, as another turn.
fn as_turn(cx: &Context, args: &args::Exec, turn: TurnNumber) -> String {
    let next = turn.to_string();
    let codes: Vec<String> = args.refused_exit.iter().map(u8::to_string).collect();
    let mut words = vec!["exec", "--session", &args.session, "--turn", &next, "--target", &args.target];
    if let Some(check) = &args.check {
        words.extend(["--check", check]);
    }
    for code in &codes {
        words.extend(["--refused-exit", code]);
    }
    if args.local {
        words.push("--local");
    }
    words.push("--");
    words.extend(args.command.iter().map(String::as_str));
    cx.command(&words)
}

/// The session has another command: the next one is its next turn.
fn bound_already(cx: &Context, args: &args::Exec, mut fail: Fail, over: bool) -> Fail {
    let turn = args.turn.unwrap_or(1);
    fail.what = format!("turn {turn} of {} is another command", crate::text::tick(&args.session));
    if over {
        fail.next.clear();
        let when = format!("turn {turn} is finished: this one as the next turn");
        return fail.next_if(as_turn(cx, args, named(args).next()), when);
    }
    fail.next.truncate(1);
    fail.next_if(
        as_turn(cx, args, named(args).next()),
        "to run this one as the next turn, once that one is finished",
    )
}

/// The shell kind's body: the command as it is, the check as one line for `sh`.
fn body(args: &args::Exec) -> String {
    let list = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| json::quote(word)).collect();
        format!("[{}]", words.join(","))
    };
    let command: Vec<&str> = args.command.iter().map(String::as_str).collect();
    let mut body = format!(r#"{{"run":{}"#, list(&command));
    if let Some(check) = &args.check {
        body.push_str(&format!(r#","check":{}"#, list(&["sh", "-c", check])));
    }
    if !args.refused_exit.is_empty() {
        let codes: Vec<String> = args.refused_exit.iter().map(u8::to_string).collect();
        body.push_str(&format!(r#","refused_exit":[{}]"#, codes.join(",")));
    }
    if args.local {
        body.push_str(r#","local":true"#);
    }
    body.push('}');
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_holds_the_words_as_they_are() {
        let args = args::Exec {
            session: "s".into(),
            target: "t".into(),
            check: Some("grep -q \"$SURESTEP_KEY\" log".into()),
            refused_exit: vec![1, 75],
            local: true,
            turn: None,
            wait: args::Wait { wait: None },
            dry_run: false,
            command: vec!["echo".into(), "a \"b\"\n".into()],
        };
        let expected = r#"{"run":["echo","a \"b\"\n"],"check":["sh","-c","grep -q \"$SURESTEP_KEY\" log"],"refused_exit":[1,75],"local":true}"#;
        assert_eq!(body(&args), expected);
        assert!(json::check(&body(&args), 64).is_ok());
    }
}
