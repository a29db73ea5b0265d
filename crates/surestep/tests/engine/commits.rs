//! A commit fails: what was seen is kept and told, what was not sent is not in doubt, nothing is started twice.

use std::sync::atomic::Ordering::SeqCst;

use surestep::core::Counts;
use surestep::{Entry, Outcome, State, StepError, StoreError, Via, Wait};

use crate::common::*;

fn observed(error: &StepError) -> Option<&Outcome> {
    match error {
        StepError::Store { observed, .. } | StepError::Fenced { observed, .. } => {
            observed.as_ref().map(|o| &o.outcome)
        }
        other => panic!("another error: {other}"),
    }
}

/// C002.
#[tokio::test(start_paused = true)]
async fn a_settle_that_fails_says_landed_not_recorded_and_the_same_process_looks_it_up() {
    for keeps_late in [true, false] {
        let world = World::new();
        world.store.trouble_at(2, Trouble::NotCommitted);
        world.store.lates_fail.store(!keeps_late, SeqCst);
        let engine = world.engine();
        let envelope = world.fresh(plan(&[("note", "t1"), ("note", "t2")]));
        let error = engine.step(envelope.clone()).await.unwrap_err();
        assert_eq!(error.to_string(), "landed, not recorded");
        assert!(matches!(observed(&error), Some(Outcome::Landed(r)) if r.reference.starts_with("v1:")));
        assert_eq!(error.exit_code(), surestep::exit::STORE);
        assert_eq!(world.state(1).await, State::Intended);
        assert_eq!(world.late().await.len(), usize::from(keeps_late));
        let step = engine.step(envelope).await.unwrap();
        assert_eq!(finished(&step).verdict, "done");
        let via = finished(&step).operations[0].landed.as_ref().unwrap().1;
        assert_eq!(via, if keeps_late { Via::Late } else { Via::Reconciled });
        assert_eq!(world.remote.calls().len(), 2);
        assert_eq!(world.remote.landings(), ["t1", "t2"]);
        world.check().await;
    }
}

/// C014: the disk is full when the turn's end is written.
#[tokio::test(start_paused = true)]
async fn a_failure_to_write_the_end_is_an_error_and_re_entry_makes_no_call() {
    let world = World::new();
    world.store.trouble_at(3, Trouble::NotCommitted);
    world.store.lates_fail.store(true, SeqCst);
    let error = world.engine().step(world.fresh(plan(&[("note", "t1"), ("note", "t2")]))).await.unwrap_err();
    assert_ne!(error.exit_code(), surestep::exit::DONE);
    assert_eq!(error.code(), "SE0502");
    let step = world.again().await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.remote.calls().len(), 2);
    world.check().await;
}

/// Each trouble at each publish: the same end as without, one landing each, told or not told.
#[tokio::test(start_paused = true)]
async fn any_trouble_at_any_publish_ends_like_the_control() {
    let troubles = [
        ("not committed", Trouble::NotCommitted),
        ("hold lost", Trouble::HoldLost),
        ("stored?", Trouble::IndeterminateStored),
        ("lost?", Trouble::IndeterminateLost),
        ("taken", Trouble::Taken),
    ];
    let acts = [("ok", Act::Ok), ("refuse", Act::Refuse), ("lost", Act::Lost { landed: true })];
    for (trouble_name, trouble) in &troubles {
        for (act_name, act) in &acts {
            for keeps_late in [true, false] {
                for at in 1..=7 {
                    let case =
                        format!("{trouble_name} at publish {at}, {act_name}, keeps late: {keeps_late}");
                    let world = World::new();
                    world.store.lates_fail.store(!keeps_late, SeqCst);
                    world.store.trouble_at(at, trouble.clone());
                    world.remote.script("t2", [act.clone()]);
                    let the_plan = plan(&[("note", "t1"), ("note", "t2"), ("note", "t3")]);
                    let envelope = world.fresh(the_plan);
                    let mut step = world.engine().drive(envelope.clone(), Wait::default()).await;
                    if let Err(error) = &step {
                        assert!(
                            matches!(error, StepError::Store { .. } | StepError::Fenced { .. }),
                            "{case}: {error:?}"
                        );
                        world.check().await;
                        step = world.engine().drive(envelope, Wait::default()).await;
                    }
                    let step = step.unwrap_or_else(|e| panic!("{case}: {e:?}"));
                    assert_eq!(finished(&step).verdict, "done", "{case}");
                    assert_eq!(world.remote.landings(), ["t1", "t2", "t3"], "{case}");
                    world.check().await;
                }
            }
        }
    }
}

/// The same twice in a row.
#[tokio::test(start_paused = true)]
async fn two_troubles_in_a_row_end_like_the_control() {
    let troubles = [
        Trouble::NotCommitted,
        Trouble::HoldLost,
        Trouble::IndeterminateStored,
        Trouble::IndeterminateLost,
        Trouble::Taken,
    ];
    for (a, first) in troubles.iter().enumerate() {
        for (b, second) in troubles.iter().enumerate() {
            for at in 1..=4 {
                let case = format!("{a} then {b} at publish {at}");
                let world = World::new();
                world.store.trouble_at(at, first.clone());
                world.store.trouble([second.clone()]);
                let envelope = world.fresh(plan(&[("note", "t1"), ("note", "t2")]));
                let mut last = None;
                for _ in 0..4 {
                    match world.engine().drive(envelope.clone(), Wait::default()).await {
                        Ok(step) => last = Some(step),
                        Err(StepError::Store { .. } | StepError::Fenced { .. }) => {}
                        Err(other) => panic!("{case}: {other:?}"),
                    }
                    world.check().await;
                }
                assert_eq!(finished(&last.unwrap()).verdict, "done", "{case}");
                assert_eq!(world.remote.landings(), ["t1", "t2"], "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_indeterminate_intent_that_was_never_sent_is_settled_as_not_sent_and_not_charged() {
    let world = World::new();
    world.store.trouble([Trouble::IndeterminateStored]);
    let envelope = world.fresh(plan(&[("mail", "m,\"attempts\":1")]));
    let error = world.engine().step(envelope.clone()).await.unwrap_err();
    assert!(matches!(error, StepError::Store { indeterminate: true, .. }));
    assert_eq!(error.code(), "SE0504");
    assert_eq!(world.remote.calls().len(), 0);
    assert_eq!(world.state(1).await, State::Retrying, "no doubt: a person need not be asked");
    let entries = world.entries().await;
    let failed = entries.iter().find_map(|e| if let Entry::Failed(f) = e { Some(f) } else { None }).unwrap();
    assert_eq!((failed.via, failed.counts, failed.last), (Via::Engine, Counts::Nothing, false));
    let step = world.engine().drive(envelope, Wait::default()).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.remote.calls().len(), 1);
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_indeterminate_settle_is_published_anew_and_never_looked_up() {
    let world = World::new();
    world.store.trouble_at(2, Trouble::IndeterminateLost);
    let envelope = world.fresh(plan(&[("mail", "m")]));
    let error = world.engine().step(envelope.clone()).await.unwrap_err();
    assert!(matches!(error, StepError::Store { indeterminate: true, .. }));
    assert_eq!(world.state(1).await, State::Succeeded);
    let step = world.engine().step(envelope).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.remote.calls().len(), 1);
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn no_room_before_the_first_operation_writes_nothing_and_calls_nothing() {
    let world = World::new();
    world.store.full_at(1);
    let envelope = world.fresh(plan(&[("note", "t1"), ("note", "t2")]));
    let error = world.engine().step(envelope.clone()).await.unwrap_err();
    assert!(matches!(&error, StepError::Store { source: StoreError::Full { .. }, observed: None, .. }));
    assert_eq!(error.code(), "SE0501");
    assert_eq!((world.store.published(), world.remote.calls().len()), (0, 0));
    assert_eq!(finished(&world.engine().step(envelope).await.unwrap()).verdict, "done");
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn no_room_before_the_second_operation_settles_the_first_and_starts_nothing() {
    for act in [Act::Ok, Act::Refuse] {
        let refused = matches!(act, Act::Refuse);
        let world = World::new();
        world.remote.script("t1", [act]);
        world.store.full_at(2);
        let envelope = world.fresh(plan(&[("note", "t1"), ("note", "t2")]));
        let error = match world.engine().step(envelope.clone()).await {
            Err(error) => error,
            Ok(step) => {
                assert!(until(&step) > 0 && refused, "a refusal waits before it makes room");
                world.engine().drive(step.envelope, Wait::default()).await.unwrap_err()
            }
        };
        assert!(
            matches!(&error, StepError::Store { source: StoreError::Full { .. }, observed: None, .. }),
            "{error:?}"
        );
        let expected = if refused { State::Retrying } else { State::Succeeded };
        assert_eq!(world.state(1).await, expected);
        assert_eq!(world.state(2).await, State::Planned);
        assert_eq!(world.remote.calls_of("t2"), 0);
        let session = world.check().await;
        assert!(session.session().owner.is_none(), "let go");
        let step = world.engine().drive(envelope, Wait::default()).await.unwrap();
        assert_eq!(finished(&step).verdict, "done");
        assert_eq!(world.remote.landings(), ["t1", "t2"]);
    }
}

/// What was seen is told even where the store cannot be read any more either.
#[tokio::test(start_paused = true)]
async fn a_store_that_breaks_altogether_after_an_effect_still_tells_what_was_seen() {
    for trouble in [Trouble::NotCommitted, Trouble::IndeterminateLost, Trouble::HoldLost, Trouble::Taken] {
        let world = World::new();
        world.store.trouble_at(2, trouble);
        let store = world.store.clone();
        world.remote.script(
            "t1",
            [Act::LandThen(hook(move || {
                let store = store.clone();
                async move {
                    store.reads_fail.store(true, SeqCst);
                    store.lates_fail.store(true, SeqCst);
                }
            }))],
        );
        let error = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap_err();
        assert!(matches!(observed(&error), Some(Outcome::Landed(_))), "{error:?}");
        world.store.reads_fail.store(false, SeqCst);
        let step = world.engine().drive(world.bare(), Wait::default()).await.unwrap();
        assert_eq!(finished(&step).verdict, "done");
        assert_eq!(world.remote.calls().len(), 1);
        world.check().await;
    }
}

/// Evidence names the epoch under which its attempt ran.
#[tokio::test(start_paused = true)]
async fn evidence_of_a_settle_that_failed_names_its_epoch() {
    let world = World::new();
    world.store.trouble_at(2, Trouble::NotCommitted);
    world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap_err();
    let late = world.late().await;
    assert_eq!(late[0].epoch, world.epoch().await);
}

/// The lease is over before the very first commit: the plan is not dropped on the way.
#[tokio::test(start_paused = true)]
async fn a_hold_lost_before_the_first_commit_does_not_drop_the_plan() {
    let world = World::new();
    world.store.trouble([Trouble::HoldLost]);
    let step = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.remote.landings(), ["t1"]);
    world.check().await;
}
