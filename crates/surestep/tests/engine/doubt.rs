//! An error, a time-out, a panic or a death says nothing about the world: doubt, never failure, and one landing.

use surestep::core::Counts;
use surestep::{Entry, Recovery, Rest, State, Via, Wait};

use crate::common::*;

fn unknown_acts(landed: bool) -> Vec<(&'static str, Act)> {
    vec![
        ("error", Act::Lost { landed }),
        ("empty", Act::Unknown { landed }),
        ("panic", Act::Panic { landed }),
        ("hang", Act::Hang { landed }),
    ]
}

async fn answers_counted(world: &World) -> usize {
    let entries = world.entries().await;
    entries.iter().filter(|e| matches!(e, Entry::Failed(f) if f.counts == Counts::Answer)).count()
}

#[tokio::test(start_paused = true)]
async fn whatever_loses_the_reply_of_a_landing_ends_as_doubt_and_one_landing() {
    for (name, act) in unknown_acts(true) {
        let world = World::new();
        world.remote.script("t1", [act]);
        let step = world.engine().step(world.fresh(plan(&[("note", "t1"), ("note", "t2")]))).await.unwrap();
        let report = finished(&step);
        assert_eq!(report.verdict, "done", "{name}");
        assert_eq!(report.operations[0].landed.as_ref().unwrap().1, Via::Reconciled, "{name}");
        assert_eq!(world.remote.landings(), ["t1", "t2"], "{name}");
        assert_eq!(world.remote.calls().len(), 2, "{name}");
        assert!(world.tags().await.contains(&"doubted"), "{name}");
        assert_eq!(answers_counted(&world).await, 0, "{name}");
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_without_a_landing_is_doubt_until_absence_is_earned() {
    for (name, act) in unknown_acts(false) {
        let world = World::new();
        let start = world.clock.ms();
        world.remote.script("t1", [act]);
        let step = world.engine().step(world.fresh(plan(&[("note", "t1"), ("note", "t2")]))).await.unwrap();
        assert!(until(&step) > 0, "{name}");
        assert_eq!(world.state(1).await, State::InDoubt, "{name}");
        assert_eq!(world.state(2).await, State::Planned, "{name}");
        let step = world.engine().drive(step.envelope, Wait::default()).await.unwrap();
        assert_eq!(finished(&step).verdict, "done", "{name}");
        assert!(world.clock.ms() - start >= DEADLINE_MS + LAG_MS, "{name}: not before it could be known");
        assert_eq!(world.remote.landings(), ["t1", "t2"], "{name}");
        assert_eq!(world.remote.calls_of("t1"), 2, "{name}");
        assert_eq!(answers_counted(&world).await, 0, "{name}");
        let envelope = world.check().await;
        let operation = &envelope.session().operations[0];
        assert_eq!((operation.restarts, operation.answers), (1, 0), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_landing_that_comes_late_is_not_made_twice() {
    for late in [1, DEADLINE_MS - 1, DEADLINE_MS, DEADLINE_MS + LAG_MS - 1] {
        let world = World::new();
        world.remote.script("t1", [Act::Late(late)]);
        let step = world.engine().drive(world.fresh(plan(&[("note", "t1")])), Wait::default()).await.unwrap();
        assert_eq!(finished(&step).verdict, "done", "{late}");
        world.clock.add(10 * OVER_MS);
        assert_eq!((world.remote.landings().len(), world.remote.calls().len()), (1, 1), "{late}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_remote_that_shows_landings_only_after_its_lag_is_not_called_twice() {
    let world = World::new();
    world.remote.script("t1", [Act::Lost { landed: true }]);
    world.remote.look_always(Look::Lag(DEADLINE_MS + LAG_MS));
    let step = world.engine().drive(world.fresh(plan(&[("note", "t1")])), Wait::default()).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!((world.remote.landings().len(), world.remote.calls().len()), (1, 1));
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_that_cannot_tell_leaves_the_doubt_and_then_asks_a_person() {
    for (name, look) in
        [("unknown", Look::Unknown), ("error", Look::Error), ("panic", Look::Panic), ("hang", Look::Hang)]
    {
        let world = World::new();
        world.remote.script("t1", [Act::Lost { landed: false }]);
        world.remote.look_always(look);
        let step = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap();
        assert!(until(&step) > 0, "{name}");
        assert_eq!(world.remote.asked(), 1, "{name}: one look-up in a step");
        world.clock.add(10 * OVER_MS);
        let step = world.engine().drive(step.envelope, Wait::default()).await.unwrap();
        assert!(!question(&step).evidence.is_empty(), "{name}");
        assert_eq!(world.remote.calls().len(), 1, "{name}: an unknown is never repeated");
        assert_eq!(world.state(1).await, State::InDoubt, "{name}");
        // The remote has come back: the next look-up ends the doubt without the person.
        world.remote.look_always(Look::Truth);
        world.clock.add(2 * 3_600_000);
        let step = world.again().await.unwrap();
        assert_eq!(finished(&step).verdict, "done", "{name}");
        assert_eq!((world.remote.landings().len(), world.remote.calls().len()), (1, 2), "{name}");
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_found_after_absence_is_earned_fails_the_operation_for_good() {
    let world = World::new();
    world.remote.script("t1", [Act::Lost { landed: false }]);
    world.remote.look_always(Look::Conflict);
    let step = world
        .engine()
        .drive(world.fresh(plan(&[("note", "t1"), ("note", "t2")])), Wait::default())
        .await
        .unwrap();
    assert_eq!(finished(&step).verdict, "failed");
    assert_eq!(world.remote.calls().len(), 1);
    assert_eq!(finished(&step).operations[1].state, State::Planned, "not started");
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_doubt_that_nobody_can_look_up_goes_to_a_person_without_another_call() {
    for landed in [true, false] {
        for (name, act) in unknown_acts(landed) {
            let world = World::new();
            world.remote.script("m", [act]);
            let step =
                world.engine().step(world.fresh(plan(&[("mail", "m"), ("note", "t2")]))).await.unwrap();
            question(&step);
            let published = world.store.published();
            for _ in 0..3 {
                world.clock.add(10 * OVER_MS);
                question(&world.again().await.unwrap());
            }
            assert_eq!(
                world.store.published(),
                published,
                "{name}: a question that stands is not written again"
            );
            assert_eq!((world.remote.calls().len(), world.remote.asked()), (1, 0), "{name}");
            assert_eq!(world.state(2).await, State::Planned, "{name}");
        }
    }
}

/// C010: look-ups of other kinds are no look-up for this one.
#[tokio::test(start_paused = true)]
async fn an_intent_of_a_kind_without_a_look_up_is_never_performed_again() {
    let world = World::new();
    let step = |n| {
        let world = world.clone();
        async move { poll_times(world.engine().step(world.fresh(plan(&[("mail", "m")]))), n).await }
    };
    world.remote.script("m", [Act::Hang { landed: true }]);
    assert!(!step(3).await);
    assert_eq!(world.state(1).await, State::Intended);
    assert_eq!(world.remote.calls().len(), 1);
    for _ in 0..3 {
        question(&world.again().await.unwrap());
        assert_eq!((world.remote.calls().len(), world.remote.asked()), (1, 0));
    }
    world.check().await;
}

/// The design's central promise, await by await: dropping the step's future anywhere is a death there.
#[tokio::test(start_paused = true)]
async fn a_step_dropped_at_any_await_goes_on_elsewhere_with_one_landing_each() {
    let acts =
        [Act::Ok, Act::Lost { landed: true }, Act::Lost { landed: false }, Act::Panic { landed: true }];
    for (case, act) in acts.into_iter().enumerate() {
        for polls in 0.. {
            let world = World::new();
            world.store.gives_way.store(true, std::sync::atomic::Ordering::SeqCst);
            world.remote.script("t2", [act.clone()]);
            let the_plan = plan(&[("note", "t1"), ("note", "t2"), ("note", "t3")]);
            let done = poll_times(world.engine().step(world.fresh(the_plan.clone())), polls).await;
            world.check().await;
            let step = world.engine().drive(world.fresh(the_plan), Wait::default()).await.unwrap();
            let report = finished(&step);
            assert_eq!(report.verdict, "done", "case {case}, {polls} polls");
            assert_eq!(world.remote.landings(), ["t1", "t2", "t3"], "case {case}, {polls} polls");
            for line in &report.operations {
                assert_eq!(line.landed.as_ref().unwrap().0.reference, line.key.to_string());
            }
            assert_eq!(
                answers_counted(&world).await,
                0,
                "case {case}, {polls} polls: a death uses up no attempt"
            );
            world.check().await;
            if done {
                assert!(polls > 15, "the step must have awaits to be dropped at, it had {polls}");
                break;
            }
        }
    }
}

/// The same with a kind that nobody can look up: a question, never a second call.
#[tokio::test(start_paused = true)]
async fn a_step_of_a_halting_kind_dropped_at_any_await_is_done_or_asks() {
    let mut asked = 0;
    for polls in 0.. {
        let world = World::new();
        world.store.gives_way.store(true, std::sync::atomic::Ordering::SeqCst);
        let the_plan = plan(&[("mail", "m1"), ("mail", "m2")]);
        let done = poll_times(world.engine().step(world.fresh(the_plan.clone())), polls).await;
        let mut step = world.engine().drive(world.fresh(the_plan), Wait::default()).await.unwrap();
        if let Rest::NeedsPerson(question) = &step.rest {
            asked += 1;
            let op = question.op.value();
            let landed = world.remote.landings_of(&format!("m{op}")) == 1;
            world.clock.add(OVER_MS);
            let word = if landed { surestep::Word::Landed } else { surestep::Word::NotLanded };
            world.say("r1", op, word).await.unwrap();
            step = world.engine().drive(step.envelope, Wait::default()).await.unwrap();
        }
        assert_eq!(finished(&step).verdict, "done", "{polls} polls");
        assert_eq!(world.remote.landings(), ["m1", "m2"], "{polls} polls");
        world.check().await;
        if done {
            break;
        }
    }
    assert!(asked > 3, "some deaths must have left a question, {asked} did");
}

/// C003: killed in mid-effect again and again: attempts that are lost to deaths do not fail an operation.
#[tokio::test(start_paused = true)]
async fn deaths_never_use_up_the_attempts() {
    let world = World::new();
    world.remote.script("t1", (0..6).map(|_| Act::Hang { landed: false }));
    world.store.gives_way.store(false, std::sync::atomic::Ordering::SeqCst);
    for n in 1..=6 {
        let fresh = world.fresh(plan(&[("note", "t1,\"attempts\":1")]));
        assert!(!poll_times(world.engine().step(fresh), 4).await);
        assert_eq!(world.remote.calls_of("t1"), n, "the {n}th life makes one attempt");
        world.clock.add(OVER_MS);
    }
    let step = world.again().await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.remote.landings_of("t1"), 1);
    let envelope = world.check().await;
    assert_eq!((envelope.session().operations[0].restarts, envelope.session().operations[0].answers), (6, 0));
}

/// C003: at the restart limit a person is asked; it never becomes failed.
#[tokio::test(start_paused = true)]
async fn the_restart_limit_leads_to_a_question_never_to_failed() {
    let world = World::new();
    world.remote.always("t1", Act::Hang { landed: false });
    let limit = surestep::core::limits::RESTARTS_MAX as usize;
    for _ in 0..limit {
        poll_times(world.engine().step(world.fresh(plan(&[("note", "t1")]))), 4).await;
        world.clock.add(OVER_MS);
    }
    assert_eq!(world.remote.calls_of("t1"), limit);
    let step = world.again().await.unwrap();
    assert_eq!(question(&step).about, surestep::core::About::Restarts);
    assert_eq!(world.remote.calls_of("t1"), limit, "no further attempt");
    assert_eq!(world.state(1).await, State::InDoubt);
    // The person says: not landed, go on.
    world.remote.always("t1", Act::Ok);
    world.say("r1", 1, surestep::Word::NotLanded).await.unwrap();
    assert_eq!(finished(&world.again().await.unwrap()).verdict, "done");
    world.check().await;
}

/// C005: what has landed is not run again, and its receipt is enough.
#[tokio::test(start_paused = true)]
async fn settled_operations_are_never_called_again_on_resume() {
    let world = World::new();
    let the_plan = plan(&[("note", "t1"), ("note", "t2"), ("note", "t3,\"approval\":\"required\"")]);
    let step = world.engine().step(world.fresh(the_plan)).await.unwrap();
    question(&step);
    for _ in 0..3 {
        let step = world.again().await.unwrap();
        question(&step);
        let landed = step.envelope.session().operations.iter().filter(|o| o.landed.is_some()).count();
        assert_eq!(landed, 2);
    }
    assert_eq!((world.remote.calls().len(), world.remote.asked()), (2, 0));
    world.check().await;
}

/// C019: 50 operations, killed after 37.
#[tokio::test(start_paused = true)]
async fn of_fifty_operations_killed_after_thirty_seven_thirteen_are_left() {
    let world = World::new();
    let targets: Vec<String> = (1..=50).map(|n| format!("t{n}")).collect();
    let operations: Vec<(&str, &str)> = targets.iter().map(|t| ("note", t.as_str())).collect();
    // The 38th commit settles the 37th and intends the 38th: it never comes.
    world.store.trouble_at(39, Trouble::NotCommitted);
    world.remote.script("t38", [Act::Never]);
    world.remote.script("t38", [Act::Ok]);
    world.store.lates_fail.store(true, std::sync::atomic::Ordering::SeqCst);
    let engine = world.engine();
    engine.step(world.fresh(plan(&operations))).await.unwrap_err();
    let settled = world.check().await.session().operations.iter().filter(|o| o.state.is_settled()).count();
    assert_eq!(settled, 37);
    assert_eq!(world.remote.landings().len(), 37);
    let calls = world.remote.calls().len();
    let step = world.engine().drive(world.bare(), Wait::default()).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.remote.calls().len() - calls, 13);
    let mut landings = world.remote.landings();
    assert_eq!(landings, targets);
    landings.dedup();
    assert_eq!(landings.len(), 50);
    world.check().await;
}

/// A turn that nobody kills costs n + 1 commits.
#[tokio::test(start_paused = true)]
async fn an_unkilled_turn_of_n_operations_costs_n_plus_one_commits() {
    for n in [0, 1, 2, 7] {
        let world = World::new();
        let targets: Vec<String> = (0..n).map(|n| format!("t{n}")).collect();
        let operations: Vec<(&str, &str)> = targets.iter().map(|t| ("note", t.as_str())).collect();
        finished(&world.engine().step(world.fresh(plan(&operations))).await.unwrap());
        assert_eq!(world.store.published(), n + 1);
        world.check().await;
    }
}

/// C020, C021: the host says 500 although the note is there.
#[tokio::test(start_paused = true)]
async fn a_500_on_the_second_of_two_notes_calls_neither_again() {
    let world = World::new();
    world.remote.script("t2", [Act::Lost { landed: true }]);
    world.remote.looks([Look::Error]);
    let step = world.engine().step(world.fresh(plan(&[("note", "t1"), ("note", "t2")]))).await.unwrap();
    assert!(until(&step) > 0);
    let step = world.engine().drive(step.envelope, Wait::default()).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!((world.remote.calls_of("t1"), world.remote.calls_of("t2")), (1, 1));
    assert_eq!(world.remote.landings(), ["t1", "t2"]);
    world.check().await;
}

/// A look-up that cannot tell equal operations apart does not count where there is an equal one.
#[tokio::test(start_paused = true)]
async fn a_look_up_that_cannot_tell_twins_apart_asks_a_person() {
    let world = World::new();
    world.remote.script("t1", [Act::Ok, Act::Lost { landed: true }]);
    let step = world
        .engine()
        .drive(world.fresh(plan(&[("twin", "t1"), ("twin", "t1")])), Wait::default())
        .await
        .unwrap();
    assert_eq!(question(&step).op.value(), 2);
    assert_eq!(world.remote.calls().len(), 2);
    // Alone it counts.
    let world = World::new();
    world.remote.script("t1", [Act::Lost { landed: true }]);
    let step = world.engine().step(world.fresh(plan(&[("twin", "t1")]))).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    world.check().await;
}

/// An engine whose recovery for the kind is another one still obeys the terms that were bound.
#[tokio::test(start_paused = true)]
async fn the_terms_that_were_bound_hold_in_an_engine_with_another_registry() {
    let world = World::new();
    world.remote.script("t1", [Act::Hang { landed: true }]);
    assert!(!poll_times(world.engine().step(world.fresh(plan(&[("note", "t1")]))), 4).await);
    let other = surestep::Engine::builder(world.store.clone())
        .effect(world.sink("note"), Recovery::repeat(WITHIN_MS))
        .clock(world.clock.clone())
        .build()
        .unwrap();
    let step = other.step(world.bare()).await.unwrap();
    assert!(!matches!(step.rest, Rest::Finished(_)));
    assert_eq!(world.remote.calls().len(), 1, "bound as ask: never repeated");
    world.check().await;
}
