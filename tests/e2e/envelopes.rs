//! Plans and envelopes that come again, come late, or come from elsewhere (acceptance 8).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use surestep::{
    Attempt, Effect, Engine, Envelope, Fault, Kind, Outcome, Plan, PlanError, Planned, Recovery, Rest,
    SessionId, Step, StepError, Terms,
};

use crate::harness::{Scratch, commits};

#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Effect for Count {
    fn kind(&self) -> Kind {
        Kind::new("count").expect("a name")
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(30_000, 0))
    }
    async fn execute(&self, _: &Attempt) -> Result<Outcome, Fault> {
        Ok(Outcome::landed(format!("r-{}", self.0.fetch_add(1, Ordering::SeqCst))))
    }
}

struct Lab {
    scratch: Scratch,
    count: Count,
    runtime: tokio::runtime::Runtime,
}

impl Lab {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { scratch: Scratch::bare(), count: Count::default(), runtime }
    }
    fn step(&self, envelope: Envelope) -> Result<Step, StepError> {
        let store = self.scratch.open();
        let engine =
            Engine::builder(store).effect(self.count.clone(), Recovery::halt()).build().expect("the engine");
        self.runtime.block_on(engine.step(envelope))
    }
    fn calls(&self) -> usize {
        self.count.0.load(Ordering::SeqCst)
    }
    fn commits(&self) -> usize {
        commits(&self.scratch.journal("s"))
    }
}

fn new() -> Envelope {
    Envelope::new(SessionId::new("s").expect("an id"))
}

fn plan(turn: u32, targets: &[&str], rationale: &str) -> Plan {
    let operations: Vec<String> = targets
        .iter()
        .map(|t| {
            format!(r#"{{"kind":"count","repo":"r","target":"{t}","body":{{}},"call_id":"{rationale}"}}"#)
        })
        .collect();
    let text = format!(
        r#"{{"format":"surestep.plan/1","turn":{turn},"verdict":"done","rationale":"{rationale}","operations":[{}]}}"#,
        operations.join(",")
    );
    Plan::parse(text.as_bytes()).expect("a plan")
}

#[test]
fn a_different_second_plan_is_refused_with_both_digests_and_does_nothing() {
    let lab = Lab::new();
    lab.step(new().with_plan(plan(1, &["a", "b"], "first"))).expect("it finishes");
    let (calls, revision) = (lab.calls(), lab.commits());
    let offered = plan(1, &["a", "c"], "second");
    let (ours, theirs) =
        (plan(1, &["a", "b"], "").digest().expect("a digest"), offered.digest().expect("a digest"));
    let error = lab.step(new().with_plan(offered)).expect_err("refused");
    match &error {
        StepError::Plan(PlanError::AlreadyBound { bound, offered, .. }) => {
            assert_eq!((*bound, *offered), (ours, theirs))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(error.code(), "SE0207");
    assert_eq!((lab.calls(), lab.commits()), (calls, revision));
    // An empty list is a plan too, and another one.
    assert!(lab.step(new().with_plan(plan(1, &[], ""))).is_err());
}

#[test]
fn an_equal_plan_changes_nothing_and_gets_the_report() {
    let lab = Lab::new();
    let first = lab.step(new().with_plan(plan(1, &["a", "b"], "first"))).expect("it finishes");
    let again = lab.step(new().with_plan(plan(1, &["a", "b"], "worded anew"))).expect("it is the same plan");
    assert_eq!(first.rest, again.rest);
    assert_eq!((lab.calls(), lab.commits()), (2, 3));
}

#[test]
fn null_and_absent_continue_and_an_older_envelope_goes_on_from_the_head() {
    let lab = Lab::new();
    let first = lab.step(new().with_plan(plan(1, &["a"], ""))).expect("it finishes");
    let old = first.envelope.clone();
    lab.step(first.envelope.with_plan(plan(2, &["a", "b"], ""))).expect("turn 2");
    assert_eq!(lab.calls(), 3);
    let text = old.to_json().expect("a document");
    for text in [text.clone(), text.replacen('{', r#"{"plan":null,"#, 1)] {
        let envelope = Envelope::parse(text.as_bytes()).expect("an envelope");
        assert_eq!(envelope.session().revision.value(), 2);
        let step = lab.step(envelope).expect("it goes on");
        assert!(matches!(step.rest, Rest::Finished(r) if r.turn.value() == 2));
        assert_eq!(step.envelope.session().revision.value(), 5);
    }
    assert_eq!(lab.calls(), 3);
}

#[test]
fn equal_operations_of_two_turns_are_two_effects_with_two_keys() {
    let lab = Lab::new();
    lab.step(new().with_plan(plan(1, &["a"], ""))).expect("turn 1");
    let step = lab.step(new().with_plan(plan(2, &["a"], ""))).expect("turn 2");
    let operations = &step.envelope.session().operations;
    assert_eq!(lab.calls(), 2);
    assert_ne!(operations[0].bound.key, operations[1].bound.key);
    assert_eq!(operations[1].bound.occurrence, 2);
}

#[test]
fn an_envelope_of_another_chain_is_refused_and_one_ahead_of_its_store_too() {
    let (lab, other) = (Lab::new(), Lab::new());
    lab.step(new().with_plan(plan(1, &["a"], ""))).expect("here");
    let stranger = other.step(new().with_plan(plan(1, &["b"], ""))).expect("there");
    let error = lab.step(stranger.envelope.clone()).expect_err("another chain");
    assert!(matches!(error, StepError::Diverged { .. }), "{error:?}");
    assert_eq!(error.exit_code(), surestep::exit::DIVERGED);
    let ahead = other.step(stranger.envelope.with_plan(plan(2, &["b"], ""))).expect("there");
    let error = lab.step(ahead.envelope).expect_err("ahead");
    assert!(matches!(error, StepError::StoreBehind { .. }), "{error:?}");
    assert_eq!((lab.calls(), lab.commits()), (1, 2));
}

#[test]
fn a_turn_opens_only_in_order_and_only_when_the_one_before_is_finished() {
    let lab = Lab::new();
    let error = lab.step(new().with_plan(plan(2, &["a"], ""))).expect_err("there is no turn 1");
    assert!(matches!(error, StepError::Plan(PlanError::TurnOrder { .. })), "{error:?}");
    assert_eq!((lab.calls(), lab.commits()), (0, 0));
    lab.step(new().with_plan(plan(1, &["a"], ""))).expect("turn 1");
    assert!(lab.step(new().with_plan(plan(3, &["a"], ""))).is_err());
}

#[test]
fn an_empty_plan_has_a_verdict() {
    let lab = Lab::new();
    let step = lab.step(new().with_plan(plan(1, &[], ""))).expect("it finishes");
    assert!(matches!(step.rest, Rest::Finished(r) if r.verdict == "done" && r.operations.is_empty()));
    assert_eq!(lab.commits(), 1);
}
