//! A body reaches its effect byte for byte as bound, after any number of reloads.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use surestep::core::plan::PlannedOperation;
use surestep::{
    Attempt, Effect, Engine, Envelope, Fault, Kind, Outcome, Plan, Planned, Raw, Recovery, Rest, SessionId,
    Terms,
};

use crate::harness::{Scratch, random};

#[derive(Clone, Default)]
struct Echo(Arc<Mutex<Vec<String>>>);

#[async_trait::async_trait]
impl Effect for Echo {
    fn kind(&self) -> Kind {
        Kind::new("echo").expect("a name")
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(30_000, 0))
    }
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        self.0.lock().expect("no panic").push(attempt.call.operation.body.as_str().to_owned());
        Ok(Outcome::landed("r"))
    }
}

const SPECIAL: &[&str] = &[
    "-0",
    "0",
    "-0.0",
    "1.0",
    "1E2",
    "1e+2",
    "1e400",
    "-1e-400",
    "9007199254740993",
    "9007199254740991.0",
    "2512292042121000001",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "1234567890123456789012345678901234567890",
    "1.5777777777770001",
    "0.1",
    "5e-324",
    "1.7976931348623157e308",
];

/// Canonical text as a planner could have computed it in Rust: doubles with all their digits, in one list.
fn body(doubles: usize) -> String {
    let mut text = String::from("{\"list\":[");
    for n in 0..doubles {
        let comma = if n == 0 { "" } else { "," };
        let double = loop {
            let bits = f64::from_bits(random(u64::MAX));
            if bits.is_finite() {
                break bits;
            }
        };
        let _ =
            if n % 2 == 0 { write!(text, "{comma}{double:e}") } else { write!(text, "{comma}{double:?}") };
    }
    let _ = write!(
        text,
        "],\"special\":[{}],\"text\":\"a/b \u{2028}\u{2029} \u{7f} \\u0001 \\\" \\\\ é 😀\"}}",
        SPECIAL.join(",")
    );
    text
}

#[test]
fn a_body_reaches_the_effect_byte_for_byte_after_reloads() {
    const DOUBLES: usize = 200_000;
    const EACH: usize = 20_000;
    let scratch = Scratch::bare();
    let bodies: Vec<String> = (0..DOUBLES / EACH).map(|_| body(EACH)).collect();
    let operations = bodies
        .iter()
        .enumerate()
        .map(|(n, body)| PlannedOperation {
            kind: Kind::new("echo").expect("a name"),
            repo: "r".into(),
            target: format!("t-{n}"),
            body: Raw::new(body.as_str()).expect("JSON"),
            call_id: None,
            approval: (n % 2 == 1).then_some(surestep::Approval::Required),
            attempts: None,
            deadline_s: None,
            lag_s: None,
            extra: surestep::core::Extra::default(),
        })
        .collect();
    let plan = Plan::new("done", operations);
    let echo = Echo::default();
    let session = SessionId::new("bodies").expect("an id");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut plan = Some(plan);
    let mut reloads = 0;
    loop {
        // A new engine and a new store handle each time: nothing but the disk carries the body.
        let store = scratch.open();
        let engine =
            Engine::builder(store).effect(echo.clone(), Recovery::halt()).build().expect("the engine");
        let mut envelope = Envelope::new(session.clone());
        envelope = plan.take().into_iter().fold(envelope, Envelope::with_plan);
        let step = runtime.block_on(engine.step(envelope)).expect("it steps");
        // Through the envelope's document as well.
        let text = step.envelope.to_json().expect("a document");
        let again = Envelope::parse(text.as_bytes()).expect("it reads what it wrote");
        for (operation, body) in again.session().operations.iter().zip(&bodies) {
            assert!(
                operation.bound.body.as_str() == body,
                "operation {} changed in the envelope",
                operation.number
            );
        }
        match step.rest {
            Rest::Finished(_) => break,
            Rest::NeedsPerson(question) => {
                let request = surestep::Request {
                    id: surestep::RequestId::new(surestep::random_id()).expect("an id"),
                    word: surestep::Word::Approve,
                    by: "test".into(),
                    because: "reload".into(),
                    op: Some(question.op),
                    key: Some(question.key),
                    attempt: None,
                    turn: None,
                    receipt: None,
                    extra: surestep::core::Extra::default(),
                };
                runtime.block_on(engine.answer(&session, &request)).expect("the answer is taken");
                reloads += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(reloads >= 4);
    let seen = echo.0.lock().expect("no panic");
    assert_eq!(seen.len(), bodies.len());
    for (seen, bound) in seen.iter().zip(&bodies) {
        assert!(seen == bound, "what was executed is not what was bound");
    }
}

#[test]
fn escaped_slashes_and_white_space_are_made_canonical_once_and_numbers_never() {
    let scratch = Scratch::bare();
    let plan = "{\"format\":\"surestep.plan/1\",\"session\":\"one\",\"verdict\":\"ok\",\"operations\":[{\"kind\":\"shell\",\"repo\":\"r\",\"target\":\"t\",\"body\":{ \"run\" : [\"sh\",\"-c\",\"printf %s \\u0022$1\\u0022 > out\",\"x\",\"a\\/b\\u2028\"], \"local\":true}}]}";
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    scratch.run(&["run", "plan.json"]).exits(0);
    assert_eq!(std::fs::read_to_string(scratch.path().join("out")).expect("it ran"), "a/b\u{2028}");
}
