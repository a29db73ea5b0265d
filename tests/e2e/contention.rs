//! Many step one session at once: one acts, the others are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use surestep::{
    Attempt, Effect, Engine, Envelope, Fault, Kind, Outcome, Plan, Planned, Recovery, Rest, SessionId,
    StepError, Terms,
};

use crate::harness::{Ran, Scratch};

#[test]
fn of_two_processes_over_a_slow_effect_one_acts_and_the_other_exits_with_6() {
    let scratch = Scratch::bare();
    let plan = r#"{"format":"surestep.plan/1","session":"two","verdict":"done","operations":[{"kind":"shell","repo":"forge","target":"t","body":{"local":true,"run":["sh","-c","sleep 0.5; echo x >> forge/landed"]}}]}"#;
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    let children: Vec<_> = (0..2)
        .map(|_| {
            let mut command = scratch.command(&["run", "plan.json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().expect("it starts")
        })
        .collect();
    let mut codes: Vec<_> =
        children.into_iter().map(|c| Ran::of(c.wait_with_output().expect("it ends")).code).collect();
    codes.sort();
    assert_eq!(codes, [Some(0), Some(6)]);
    assert_eq!(scratch.lines("forge/landed").len(), 1);
}

struct Slow(Duration, Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Effect for Slow {
    fn kind(&self) -> Kind {
        Kind::new("slow").expect("a name")
    }
    fn terms(&self, _: &Planned<'_>) -> Result<Terms, Fault> {
        Ok(Terms::remote(30_000, 0))
    }
    async fn execute(&self, _: &Attempt) -> Result<Outcome, Fault> {
        self.1.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.0).await;
        Ok(Outcome::landed("r-1"))
    }
}

fn fifty(pause: Duration) -> (usize, usize, usize) {
    let scratch = Scratch::bare();
    let landings = Arc::new(AtomicUsize::new(0));
    let scratch = Arc::new(scratch);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let plan = br#"{"format":"surestep.plan/1","verdict":"done","operations":[{"kind":"slow","repo":"r","target":"t","body":{}}]}"#;
    let (finished, held) = runtime.block_on(async {
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let slow = Slow(pause, landings.clone());
                let scratch = scratch.clone();
                tokio::spawn(async move {
                    let engine = Engine::builder(scratch.open())
                        .effect(slow, Recovery::halt())
                        .build()
                        .expect("the engine");
                    let plan = Plan::parse(plan).expect("a plan");
                    let session = SessionId::new("fifty").expect("an id");
                    engine.step(Envelope::new(session).with_plan(plan)).await
                })
            })
            .collect();
        let (mut finished, mut held) = (0, 0);
        for task in tasks {
            match task.await.expect("no panic") {
                Ok(step) => {
                    assert!(matches!(step.rest, Rest::Finished(_)), "{:?}", step.rest);
                    finished += 1;
                }
                Err(StepError::Busy { .. } | StepError::Fenced { .. }) => held += 1,
                Err(other) => panic!("{other}"),
            }
        }
        (finished, held)
    });
    (finished, held, landings.load(Ordering::SeqCst))
}

#[test]
fn of_fifty_threads_over_a_slow_effect_one_acts() {
    assert_eq!(fifty(Duration::from_millis(500)), (1, 49, 1));
}

#[test]
fn over_an_instant_effect_a_late_one_may_get_the_report_and_it_lands_once() {
    let (finished, held, landings) = fifty(Duration::ZERO);
    assert_eq!((finished + held, landings), (50, 1));
    assert!(finished >= 1);
}
