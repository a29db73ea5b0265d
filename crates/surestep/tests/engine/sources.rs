//! Secrets: named in a body, fetched before an attempt, never on the disk.

use std::sync::{Arc, Mutex};

use surestep::{
    Attempt, Effect, Engine, Fault, Finding, Kind, Outcome, Plan, Planned, Raw, Receipt, Reconciler,
    Recovery, Secret, SecretError, SecretSource, StepError, Terms, exit,
};

use crate::common::*;

/// A drawer of secrets that can be filled later.
#[derive(Clone, Default)]
struct Drawer(Arc<Mutex<Option<String>>>);

#[async_trait::async_trait]
impl SecretSource for Drawer {
    async fn secret(&self, name: &str) -> Result<Secret, SecretError> {
        let value = self.0.lock().unwrap().clone();
        value
            .map(Secret::new)
            .ok_or_else(|| SecretError::Absent { name: name.into(), place: "an empty drawer".into() })
    }
}

/// Keeps each body that it executes or looks up, and says everything that it knows.
#[derive(Clone, Default)]
struct Teller {
    bodies: Arc<Mutex<Vec<String>>>,
    loses: Arc<Mutex<bool>>,
    /// So many bytes before what it says.
    long: usize,
}

impl Teller {
    fn say(&self, attempt: &Attempt) -> String {
        assert!(!format!("{attempt:?}").contains(VALUE), "whoever logs an attempt logs no secret");
        let body = attempt.body().as_str().to_owned();
        self.bodies.lock().unwrap().push(body.clone());
        body
    }
}

#[async_trait::async_trait]
impl Effect for Teller {
    fn kind(&self) -> Kind {
        Kind::new("tell").unwrap()
    }

    fn terms(&self, planned: &Planned<'_>) -> Result<Terms, Fault> {
        assert!(!planned.body.as_str().contains(r#"{"$secret""#), "a placeholder: {}", planned.body);
        Ok(Terms::remote(30_000, 0))
    }

    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        let said = self.say(attempt);
        if *self.loses.lock().unwrap() {
            return Err(Fault::new("lost", format!("it was sent: {}{said}", " ".repeat(self.long))));
        }
        let detail = Raw::new(format!(r#"{{"echo":{said}}}"#)).unwrap();
        Ok(Outcome::Landed(Receipt::new("told").with_detail(detail)))
    }
}

#[async_trait::async_trait]
impl Reconciler for Teller {
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
        Ok(Finding::Unknown(Fault::new("looked", format!("with {}", self.say(attempt)))))
    }
}

const VALUE: &str = "correct horse battery";

fn engine(world: &World, drawer: &Drawer, teller: &Teller) -> Engine {
    world
        .builder()
        .effect(teller.clone(), Recovery::ask(teller.clone()))
        .secrets(drawer.clone())
        .build()
        .unwrap()
}

fn tells(n: usize) -> Plan {
    let one = r#"{"kind":"tell","repo":"r","target":"t","body":{"a":{"$secret":"PASS"},"n":1E2}}"#;
    let list = vec![one; n].join(",");
    Plan::parse(
        format!(r#"{{"format":"surestep.plan/1","verdict":"told","operations":[{list}]}}"#).as_bytes(),
    )
    .unwrap()
}

async fn written(world: &World) -> String {
    world.commits().await.iter().map(|commit| commit.text().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_stops_an_operation_before_its_intent_and_the_next_step_goes_on() {
    let (world, drawer, teller) = (World::new(), Drawer::default(), Teller::default());
    let error = engine(&world, &drawer, &teller).step(world.fresh(tells(1))).await.unwrap_err();
    assert!(matches!(&error, StepError::Secret { op, .. } if op.value() == 1), "{error:?}");
    assert_eq!((error.code(), error.exit_code()), ("SE0404", exit::USAGE));
    assert!(world.commits().await.is_empty() && teller.bodies.lock().unwrap().is_empty());
    *drawer.0.lock().unwrap() = Some(VALUE.into());
    finished(&engine(&world, &drawer, &teller).step(world.fresh(tells(1))).await.unwrap());
    // The effect got the value, byte for byte where the reference stood; the journal has the reference.
    assert_eq!(*teller.bodies.lock().unwrap(), [format!(r#"{{"a":"{VALUE}","n":1E2}}"#)]);
    let text = written(&world).await;
    assert!(text.contains(r#"{"$secret":"PASS"}"#) && !text.contains(VALUE), "{text}");
    assert!(text.contains("scrubbed"), "the receipt's detail: {text}");
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_goes_missing_between_two_operations_loses_no_receipt() {
    let (world, drawer, teller) = (World::new(), Drawer::default(), Teller::default());
    *drawer.0.lock().unwrap() = Some(VALUE.into());
    let gone = drawer.clone();
    world.remote.script(
        "t1",
        [Act::Then(hook(move || {
            let gone = gone.clone();
            async move { *gone.0.lock().unwrap() = None }
        }))],
    );
    let plan = r#"{"format":"surestep.plan/1","verdict":"told","operations":[
        {"kind":"note","repo":"acme/site","target":"t1","body":{}},
        {"kind":"tell","repo":"r","target":"t","body":{"a":{"$secret":"PASS"}}}]}"#;
    let error = engine(&world, &drawer, &teller)
        .step(world.fresh(Plan::parse(plan.as_bytes()).unwrap()))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "SE0404");
    assert_eq!(world.state(1).await, surestep::State::Succeeded);
    assert_eq!(world.state(2).await, surestep::State::Planned);
    *drawer.0.lock().unwrap() = Some(VALUE.into());
    finished(&engine(&world, &drawer, &teller).step(world.bare()).await.unwrap());
    assert_eq!(world.remote.calls_of("t1"), 1);
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_doubt_says_is_scrubbed_and_a_look_up_waits_for_its_secret() {
    let (world, drawer, teller) = (World::new(), Drawer::default(), Teller::default());
    *drawer.0.lock().unwrap() = Some(VALUE.into());
    *teller.loses.lock().unwrap() = true;
    until(&engine(&world, &drawer, &teller).step(world.fresh(tells(1))).await.unwrap());
    let text = written(&world).await;
    assert!(text.contains("it was sent") && text.contains("scrubbed") && !text.contains(VALUE), "{text}");
    *drawer.0.lock().unwrap() = None;
    world.clock.add(400_000);
    let commits = world.commits().await.len();
    let error = engine(&world, &drawer, &teller).step(world.bare()).await.unwrap_err();
    assert!(matches!(error, StepError::Secret { in_doubt: true, .. }), "{error:?}");
    assert!(world.commits().await.len() <= commits + 1, "at most the claim");
    assert_eq!(world.state(1).await, surestep::State::InDoubt);
}

#[tokio::test(start_paused = true)]
async fn a_cut_through_a_long_fault_leaves_no_piece_of_a_secret() {
    for long in (4_000..4_100).step_by(3) {
        let (world, drawer) = (World::new(), Drawer::default());
        let teller = Teller { long, ..Teller::default() };
        *drawer.0.lock().unwrap() = Some(VALUE.into());
        *teller.loses.lock().unwrap() = true;
        until(&engine(&world, &drawer, &teller).step(world.fresh(tells(1))).await.unwrap());
        let text = written(&world).await;
        assert!(text.contains("it was sent") && !text.contains(&VALUE[..6]), "after {long} bytes");
    }
}

/// What one operation left comes back through the next, which refers to no secret itself.
#[derive(Clone)]
struct Echo;

#[async_trait::async_trait]
impl Effect for Echo {
    fn kind(&self) -> Kind {
        Kind::new("echo").unwrap()
    }

    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(30_000, 0))
    }

    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        assert!(attempt.resolved.is_none());
        Ok(Outcome::landed(format!("found {VALUE}")))
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_operation_does_not_give_away_what_an_earlier_one_was_given() {
    let both = r#"{"format":"surestep.plan/1","verdict":"told","operations":[
        {"kind":"tell","repo":"r","target":"t","body":{"a":{"$secret":"PASS"}}},
        {"kind":"echo","repo":"r","target":"t","body":{}}]}"#;
    for killed_between in [false, true] {
        let (world, drawer, teller) = (World::new(), Drawer::default(), Teller::default());
        *drawer.0.lock().unwrap() = Some(VALUE.into());
        let build = || {
            world
                .builder()
                .effect(teller.clone(), Recovery::ask(teller.clone()))
                .effect(Echo, Recovery::halt())
                .secrets(drawer.clone())
        };
        let plan = Plan::parse(both.as_bytes()).unwrap();
        if killed_between {
            // Killed after the first one's receipt, before the second one's intent: here by a full store.
            world.store.full_at(2);
            build().build().unwrap().step(world.fresh(plan.clone())).await.unwrap_err();
        }
        finished(&build().build().unwrap().step(world.fresh(plan)).await.unwrap());
        let text = written(&world).await;
        assert!(text.contains("found ") && !text.contains(VALUE), "{text}");
    }
}
