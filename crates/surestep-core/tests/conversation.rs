//! I10 in the core: what counts as a call or a result, what its result says, and random conversations.
#![allow(
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects, all else fails"
)]

mod common;

use common::*;
use proptest::prelude::*;
use surestep_core::plan::{Plan, PlanError};
use surestep_core::*;

/// A plan of operations with these call ids and messages.
fn talk(turn: u32, calls: &[String], messages: &[String]) -> Plan {
    let mut the_plan = plan(calls.len());
    for (operation, id) in the_plan.operations.iter_mut().zip(calls) {
        operation.call_id = Some(id.clone());
    }
    the_plan.turn = Some(TurnNumber::new(turn));
    the_plan.conversation = Some(messages.iter().map(|text| Raw::new(text.as_str()).unwrap()).collect());
    the_plan
}

/// Runs a turn to its end; `fates` say what becomes of each operation that is executed: 0 lands, 1 fails, 2 is skipped
/// out of doubt.
fn run(shelf: &mut Shelf, hold: u32, plan: &Plan, fates: &[u8]) -> Envelope {
    let at = now("b1", u64::from(hold) * 1_000);
    let terms = terms(&terms_of(RecoveryClass::Halt), plan.operations.len());
    let mut turn = shelf.turn(hold, dead()).offer(plan, &terms).unwrap();
    let mut executed = 0;
    loop {
        turn = match shelf.commit_on(turn, &at) {
            Next::Execute(intent) => {
                let outcome = match fates.get(executed).copied().unwrap_or(0) {
                    0 => Outcome::Landed(Receipt::new("c-1")),
                    1 => Outcome::NotLanded(fault("refused"), Retry::Never),
                    _ => Outcome::Unknown(fault("timeout")),
                };
                executed += 1;
                intent.settle(outcome, &at)
            }
            Next::Rest(rested) => match rested.why {
                Rest::NeedsPerson(question) => {
                    let word = request(&format!("r{hold}-{executed}"), Word::Skip, question.op.value());
                    shelf.turn(hold, dead()).answer(&word, &at).unwrap()
                }
                Rest::Finished(_) => break,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
    }
    let envelope = shelf.load();
    invariants::check_conversation(&shelf.commits, envelope.conversation()).unwrap();
    assert_eq!(envelope.conversation_with_results(), envelope.conversation());
    envelope
}

fn texts(messages: &[Raw]) -> Vec<&str> {
    messages.iter().map(Raw::as_str).collect()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// What one turn without operations adds to a conversation.
fn added(messages: &[&str]) -> Vec<String> {
    let envelope = run(&mut Shelf::default(), 1, &talk(1, &[], &strings(messages)), &[]);
    strings(&texts(&envelope.conversation()[messages.len()..]))
}

const UNKNOWN: &str = "outcome unknown, do not repeat";

#[test]
fn a_result_has_the_shape_of_its_call() {
    let chat = r#"{"role":"assistant","tool_calls":[{"id":"a\n\"é","type":"function"},{"id":"b"}]}"#;
    assert_eq!(
        added(&[chat]),
        [
            format!(r#"{{"content":"{UNKNOWN}","role":"tool","tool_call_id":"a\n\"é"}}"#),
            format!(r#"{{"content":"{UNKNOWN}","role":"tool","tool_call_id":"b"}}"#),
        ]
    );
    let item = r#"{"type":"function_call","call_id":"a","id":"fc_1","name":"f"}"#;
    let custom = r#"{"type":"custom_tool_call","call_id":"b","input":"x"}"#;
    assert_eq!(
        added(&[item, custom]),
        [
            format!(r#"{{"call_id":"a","output":"{UNKNOWN}","type":"function_call_output"}}"#),
            format!(r#"{{"call_id":"b","output":"{UNKNOWN}","type":"custom_tool_call_output"}}"#),
        ]
    );
    let blocks = r#"{"role":"assistant","content":[{"type":"tool_use","id":"a"},{"type":"text"},{"type":"tool_use","id":"b"}]}"#;
    let block = |id| format!(r#"{{"content":"{UNKNOWN}","tool_use_id":"{id}","type":"tool_result"}}"#);
    assert_eq!(added(&[blocks]), [format!(r#"{{"content":[{},{}],"role":"user"}}"#, block("a"), block("b"))]);
    let mixed = added(&[blocks, r#"{"type":"function_call","call_id":"c"}"#]);
    assert_eq!(mixed.len(), 2, "{mixed:?}");
}

/// What is not known is kept as it is: wrong types, other roles, calls without an id, lists, calls that their own
/// vendor answers, and a message that has its calls in two shapes at once (read in one).
#[test]
fn other_messages_are_kept_verbatim_and_take_no_part() {
    for message in [
        r#"{"role":"user","tool_calls":[{"id":"a"}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":7},{"type":"function"},"a",null]}"#,
        r#"{"role":"assistant","tool_calls":{"id":"a"},"content":"tool_use"}"#,
        r#"{"role":5,"type":["function_call"],"call_id":"a","content":[[]]}"#,
        r#"{"role":"tool","text":"no id"}"#,
        r#"{"role":"tool","tool_call_id":null}"#,
        r#"{"type":"function_call","id":"a"}"#,
        r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"a"},{"type":"tool_use"}]}"#,
        r#"["assistant","function_call",[{"id":"a"}],"a","a",[]]"#,
        r#""tool_use""#,
        "null",
        "1E2",
    ] {
        let envelope = run(&mut Shelf::default(), 1, &talk(1, &[], &strings(&[message])), &[]);
        assert_eq!(texts(envelope.conversation()), [json::canonical(message, 64).unwrap()], "{message}");
    }
    let both = r#"{"role":"assistant","tool_calls":[{"id":"a"}],"content":[{"type":"tool_use","id":"a"}]}"#;
    assert_eq!(added(&[both]).len(), 1);
}

#[test]
fn results_carry_the_receipt_and_a_detail_that_is_not_long() {
    for (bytes, kept) in [(2, true), (2 << 10, true), ((2 << 10) + 1, false)] {
        let mut shelf = Shelf::default();
        let call = r#"{"role":"assistant","tool_calls":[{"id":"a"}]}"#;
        let the_plan = talk(1, &strings(&["a"]), &strings(&[call]));
        let turn = shelf.turn(1, dead()).offer(&the_plan, &terms(&terms_of(RecoveryClass::Ask), 1)).unwrap();
        let intent = shelf.execute(turn, &now("b1", 1));
        let detail = format!("\"{}\"", "x".repeat(bytes - 2));
        let receipt = Receipt::new("c-1").with_detail(Raw::new(detail.clone()).unwrap());
        shelf.rest(intent.settle(Outcome::Landed(receipt), &now("b1", 2)), &now("b1", 2));
        let envelope = shelf.load();
        let text =
            if kept { format!("succeeded, ref c-1, detail {detail}") } else { "succeeded, ref c-1".into() };
        let result = format!(r#"{{"content":{},"role":"tool","tool_call_id":"a"}}"#, json::quote(&text));
        assert_eq!(texts(envelope.conversation())[1], result, "{bytes}");
    }
}

/// A turn that is under way: provisional results, and nothing is kept.
#[test]
fn a_turn_that_is_not_over_has_provisional_results() {
    let mut shelf = Shelf::default();
    let call = r#"{"role":"assistant","tool_calls":[{"id":"a"},{"id":"b"},{"id":"c"}]}"#;
    let the_plan = talk(1, &strings(&["a", "b"]), &strings(&[call]));
    let terms = terms(&terms_of(RecoveryClass::Ask), 2);
    let intent = {
        let turn = shelf.turn(1, dead()).offer(&the_plan, &terms).unwrap();
        shelf.execute(turn, &now("b1", 1))
    };
    let view = |shelf: &Shelf| {
        let envelope = shelf.load();
        assert_eq!(envelope.conversation().len(), 1);
        let text = |m: &Raw| m.as_str().split('"').nth(3).unwrap().to_owned();
        envelope.conversation_with_results()[1..].iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(view(&shelf), [UNKNOWN, "not started", UNKNOWN], "under way");
    let turn = intent.settle(Outcome::NotLanded(fault("refused"), Retry::Backoff), &now("b1", 2));
    shelf.rest(turn, &now("b1", 2));
    assert_eq!(shelf.operation(1).state, State::Retrying);
    assert_eq!(view(&shelf), [UNKNOWN, "not started", UNKNOWN], "it will be tried again");
}

/// An operation of an earlier turn that happens to carry the same id is not what the call did.
#[test]
fn a_call_is_not_answered_by_an_operation_of_an_earlier_turn() {
    let mut shelf = Shelf::default();
    run(&mut shelf, 1, &talk(1, &strings(&["a"]), &strings(&[r#"{"role":"user"}"#])), &[]);
    let call = r#"{"role":"assistant","tool_calls":[{"id":"a"}]}"#;
    let envelope = run(&mut shelf, 2, &talk(2, &[], &strings(&[call])), &[]);
    assert!(envelope.conversation()[2].as_str().contains(UNKNOWN));
    assert_eq!(envelope.conversation().len(), 3);
}

/// Without the conversation a turn is not ended: nothing is guessed.
#[test]
fn a_turn_does_not_end_without_its_conversation() {
    let mut shelf = Shelf::default();
    let call = r#"{"role":"assistant","tool_calls":[{"id":"a"}]}"#;
    let the_plan = talk(1, &strings(&["a"]), &strings(&[call]));
    let turn = shelf.turn(1, dead()).offer(&the_plan, &terms(&terms_of(RecoveryClass::Halt), 1)).unwrap();
    drop(shelf.execute(turn, &now("b1", 1)));
    let envelope = Envelope::from_commits(session_id(), shelf.commits.clone()).unwrap();
    let turn = Turn::resume(envelope, me(2), dead(), vec![]);
    let Next::Commit(claim) = turn.next(&now("b1", 2)).unwrap() else { panic!() };
    let word = request("r1", Word::Skip, 1);
    let turn = claim.committed().answer(&word, &now("b1", 3)).unwrap();
    let error = turn.let_go(&now("b1", 3)).unwrap_err();
    assert!(error.to_string().contains("0 messages are loaded"), "{error}");
}

// ------------------------------------------------------------------------------------------------- random conversations

/// One thing that is said: kind (call, result, other), shape, which call.
type Word3 = (u8, u8, u8);

fn call(shape: u8, id: &str) -> String {
    match shape {
        0 => format!(r#"{{"role":"assistant","tool_calls":[{{"id":"{id}"}}]}}"#),
        1 => format!(r#"{{"type":"function_call","call_id":"{id}"}}"#),
        _ => format!(r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"{id}"}}]}}"#),
    }
}

fn result(shape: u8, id: &str) -> String {
    match shape {
        0 => format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"own"}}"#),
        1 => format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"own"}}"#),
        _ => format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"own"}}]}}"#
        ),
    }
}

/// Results of a call in a conversation's text, counted without the code under test.
fn count(conversation: &str, id: &str) -> usize {
    [format!(r#""tool_call_id":"{id}""#), format!(r#""tool_use_id":"{id}""#)]
        .iter()
        .map(|form| conversation.matches(form.as_str()).count())
        .sum::<usize>()
        + conversation.matches(&format!(r#"{{"call_id":"{id}","output""#)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Random interleavings over three turns: what pairs is bound, and each call has exactly one result afterwards; what
    /// does not pair is refused.
    #[test]
    fn after_a_turn_every_call_has_exactly_one_result(
        turns in prop::collection::vec(
            (prop::collection::vec((0_u8..3, 0_u8..3, 0_u8..6), 0..8), prop::collection::vec(0_u8..3, 0..4)),
            1..=3,
        ),
    ) {
        let mut shelf = Shelf::default();
        let mut said: Vec<(String, bool)> = Vec::new();
        let mut turn = 0;
        for (words, fates) in turns {
            let mut after = said.clone();
            let mut pairs = true;
            let mut messages = Vec::new();
            for (kind, shape, which) in words as Vec<Word3> {
                let id = format!("call_{which}");
                let known = after.iter_mut().find(|(other, _)| *other == id);
                match (kind, known) {
                    (0, None) => after.push((id.clone(), false)),
                    (1, Some((_, answered))) if !*answered => *answered = true,
                    (0 | 1, _) => pairs = false,
                    _ => {}
                }
                messages.push(match kind {
                    0 => call(shape, &id),
                    1 => result(shape, &id),
                    _ => format!(r#"{{"role":"user","content":"{id}"}}"#),
                });
            }
            let open: Vec<String> = after.iter().filter(|(_, answered)| !answered).map(|(id, _)| id.clone()).collect();
            let carried = &open[..open.len().min(fates.len())];
            let the_plan = talk(turn + 1, carried, &messages);
            if !pairs {
                let terms = terms(&terms_of(RecoveryClass::Halt), carried.len());
                let refused = shelf.turn(9, dead()).offer(&the_plan, &terms).unwrap_err();
                prop_assert!(matches!(refused, PlanError::Unpaired { .. }), "{:?}", refused);
                continue;
            }
            turn += 1;
            let envelope = run(&mut shelf, turn, &the_plan, &fates);
            let text = texts(envelope.conversation()).join("\n");
            for (id, _) in &after {
                prop_assert_eq!(count(&text, id), 1, "{} in {}", id, text);
            }
            for operation in envelope.session().operations.iter().filter(|o| o.state == State::Succeeded) {
                let id = operation.bound.call_id.as_ref().unwrap();
                let here = envelope.conversation().iter().any(|m| {
                    m.as_str().contains(&format!("\"{id}\"")) && m.as_str().contains("succeeded, ref c-1")
                });
                prop_assert!(here, "operation {} of {} in {}", operation.number, id, text);
            }
            said = after.into_iter().map(|(id, _)| (id, true)).collect();
        }
    }
}
