//! Time: a step never sleeps, nothing is written before a rest is over, and `drive` waits as long as it must.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use surestep::core::Counts;
use surestep::{End, Engine, Entry, Recovery, Rest, State, Via, Wait};

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn a_step_before_its_time_writes_nothing_and_takes_no_hold() {
    // A doubt, a backoff, a `Retry-After`, an approval, a question.
    let cases = [
        ("note", Act::Lost { landed: false }, "t1"),
        ("note", Act::Refuse, "t1"),
        ("note", Act::After(60_000), "t1"),
        ("note", Act::Ok, "t1,\"approval\":\"required\""),
        ("mail", Act::Lost { landed: false }, "t1"),
    ];
    for (n, (kind, act, target)) in cases.into_iter().enumerate() {
        let world = World::new();
        world.remote.script("t1", [act]);
        let the_plan = plan(&[(kind, target)]);
        let first = world.engine().step(world.fresh(the_plan.clone())).await.unwrap();
        let (published, held, epoch) = (world.store.published(), world.store.holds(), world.epoch().await);
        let (calls, asked) = (world.remote.calls().len(), world.remote.asked());
        for _ in 0..5 {
            let step = world.engine().step(world.fresh(the_plan.clone())).await.unwrap();
            match (&first.rest, &step.rest) {
                (Rest::Until { at, .. }, Rest::Until { at: again, .. }) => assert_eq!(at, again, "{n}"),
                (Rest::NeedsPerson(one), Rest::NeedsPerson(two)) => assert_eq!(one.op, two.op),
                other => panic!("{n}: {other:?}"),
            }
        }
        assert_eq!((world.store.published(), world.store.holds()), (published, held), "case {n}");
        assert_eq!(world.epoch().await, epoch);
        assert_eq!((world.remote.calls().len(), world.remote.asked()), (calls, asked));
        // Held by somebody else, it still says when.
        let other = surestep::Store::hold(&world.store, &world.session).await.unwrap();
        world.engine().step(world.bare()).await.unwrap();
        drop(other);
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rest_that_is_stepped_in_time_is_stepped_once_per_until() {
    let world = World::new();
    world.remote.script("t1", [Act::Lost { landed: false }]);
    world.remote.look_always(Look::Blind);
    let mut step = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap();
    let mut waits = Vec::new();
    while let Rest::Until { wait_ms, .. } = step.rest {
        assert_eq!(world.remote.calls().len(), 1);
        waits.push(wait_ms);
        world.clock.add(wait_ms - 1);
        let asked = world.remote.asked();
        assert!(matches!(world.again().await.unwrap().rest, Rest::Until { wait_ms: 1, .. }));
        assert_eq!(world.remote.asked(), asked, "not before its time");
        world.clock.add(1);
        step = world.again().await.unwrap();
    }
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(&waits[..3], [5_000, 10_000, 20_000], "doubling");
    assert!(waits.iter().sum::<u64>() <= OVER_MS, "{waits:?}: and not longer than absence takes");
    // Each of these polls came after its `until`, and each fenced.
    assert_eq!(world.remote.landings(), ["t1"]);
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn refusals_are_retried_with_backoff_up_to_the_limit_and_then_fail() {
    for (attempts, refusals, end) in [(3, 2, End::Completed), (3, 3, End::Failed), (1, 1, End::Failed)] {
        let world = World::new();
        let start = world.clock.ms();
        world.remote.script("t1", (0..refusals).map(|_| Act::Refuse));
        let the_plan = plan(&[("note", &format!("t1,\"attempts\":{attempts}")), ("note", "t2")]);
        let step = world.engine().drive(world.fresh(the_plan), Wait::default()).await.unwrap();
        assert_eq!(finished(&step).outcome, end, "{attempts} {refusals}");
        assert_eq!(world.remote.calls_of("t1"), attempts.min(refusals + 1));
        assert_eq!(
            world.remote.calls_of("t2"),
            usize::from(end == End::Completed),
            "after a failure nothing starts"
        );
        assert_eq!(world.remote.asked(), 0, "a refusal is no doubt");
        assert!(world.clock.ms() - start < 10_000);
        let envelope = world.check().await;
        assert_eq!(envelope.session().operations[0].answers as usize, refusals);
    }
}

/// C004: stepping again and again does not repeat what landed, nor skip the backoff.
#[tokio::test(start_paused = true)]
async fn stepping_a_refused_operation_again_does_not_skip_its_backoff() {
    let world = World::new();
    world.remote.script("t2", [Act::After(10_000)]);
    let the_plan = plan(&[("note", "t1"), ("note", "t2")]);
    let step = world.engine().step(world.fresh(the_plan.clone())).await.unwrap();
    assert_eq!(until(&step), 10_000);
    for _ in 0..5 {
        until(&world.engine().step(world.fresh(the_plan.clone())).await.unwrap());
    }
    assert_eq!((world.remote.calls_of("t1"), world.remote.calls_of("t2")), (1, 1));
    world.clock.add(10_000);
    assert_eq!(finished(&world.again().await.unwrap()).verdict, "done");
    assert_eq!((world.remote.calls_of("t1"), world.remote.calls_of("t2")), (1, 2));
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn drive_waits_for_retry_after_and_no_longer_than_its_limit() {
    let world = World::new();
    world.remote.script("t1", [Act::After(90_000)]);
    let start = world.clock.ms();
    let limit = Wait { limit: Some(Duration::from_secs(60)), held: false };
    let step = world.engine().drive(world.fresh(plan(&[("note", "t1")])), limit).await.unwrap();
    assert_eq!(until(&step), 90_000);
    assert_eq!(world.clock.ms(), start, "it does not sleep for nothing");
    let step = world.engine().drive(step.envelope, Wait::default()).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.clock.ms() - start, 90_000);
}

#[tokio::test(start_paused = true)]
async fn drive_ends_with_a_question_and_does_not_wait_for_a_person() {
    let world = World::new();
    world.remote.script("m", [Act::Lost { landed: true }]);
    let start = world.clock.ms();
    let step = world.engine().drive(world.fresh(plan(&[("mail", "m")])), Wait::default()).await.unwrap();
    question(&step);
    assert_eq!(world.clock.ms(), start);
}

/// A remote's `Retry-After` of a year is capped.
#[tokio::test(start_paused = true)]
async fn a_rest_is_never_longer_than_a_day() {
    let world = World::new();
    world.remote.script("t1", [Act::After(u64::MAX)]);
    let step = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap();
    assert_eq!(until(&step), surestep::core::limits::REST_MAX_MS);
}

fn repeats(kind: &'static str) -> World {
    let world = World::new();
    assert!(["once", "twice"].contains(&kind));
    world
}

#[tokio::test(start_paused = true)]
async fn a_repeating_kind_is_sent_again_with_the_same_key_inside_its_window() {
    for landed in [true, false] {
        for kind in ["once", "twice"] {
            let world = repeats(kind);
            world.remote.script("o", [Act::Lost { landed }, Act::Hang { landed: false }]);
            let step = world
                .engine()
                .drive(world.fresh(plan(&[(kind, "o"), ("note", "t2")])), Wait::default())
                .await;
            assert_eq!(finished(&step.unwrap()).verdict, "done");
            let calls = world.remote.calls();
            assert_eq!(world.remote.calls_of("o"), 3);
            assert!(calls.iter().filter(|c| c.target == "o").all(|c| c.key == calls[0].key));
            let attempts: Vec<u32> = calls.iter().filter(|c| c.target == "o").map(|c| c.attempt).collect();
            assert_eq!(attempts, [1, 2, 3]);
            assert_eq!((world.remote.landings_of("o"), world.remote.asked()), (1, 0));
            world.check().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_its_window_a_repeating_kind_is_a_question_or_a_look_up_never_a_call() {
    for (kind, asks) in [("once", false), ("twice", true)] {
        for landed in [true, false] {
            let world = repeats(kind);
            world.remote.script("o", [Act::Hang { landed }]);
            assert!(!poll_times(world.engine().step(world.fresh(plan(&[(kind, "o")]))), 4).await);
            world.clock.add(WITHIN_MS);
            let step = world.again().await.unwrap();
            assert_eq!(world.remote.asked(), usize::from(asks), "{kind}");
            match (asks, landed) {
                (false, _) => {
                    question(&step);
                    assert_eq!(world.remote.calls().len(), 1);
                }
                (true, true) => {
                    assert_eq!(finished(&step).operations[0].landed.as_ref().unwrap().1, Via::Reconciled);
                    assert_eq!(world.remote.calls().len(), 1);
                }
                (true, false) => {
                    // Absence was earned by the look-up: a new attempt is one.
                    assert_eq!(finished(&step).verdict, "done");
                    assert_eq!((world.remote.calls().len(), world.remote.landings().len()), (2, 1));
                }
            }
            world.check().await;
        }
    }
}

/// The window is the remote's memory of the *first* sending: repeats and restarts do not lengthen it.
#[tokio::test(start_paused = true)]
async fn the_window_runs_from_the_first_intent_across_restarts_and_repeats() {
    let world = repeats("once");
    world.remote.always("o", Act::Hang { landed: false });
    let start = world.clock.ms();
    let mut last = 0;
    for _ in 0..100 {
        let before = world.remote.calls().len();
        poll_times(world.engine().step(world.fresh(plan(&[("once", "o")]))), 6).await;
        if world.remote.calls().len() > before {
            last = world.clock.ms() - start;
        }
        world.clock.add(40_000);
    }
    assert!(last > WITHIN_MS / 2, "it was repeated for a while: {last}");
    assert!(
        last + DEADLINE_MS + LAG_MS < WITHIN_MS,
        "the last call at {last} ms must be over within the window"
    );
    let calls = world.remote.calls().len();
    question(&world.again().await.unwrap());
    assert_eq!(world.remote.calls().len(), calls);
    world.check().await;
}

/// The window is tested again right before the write.
#[tokio::test(start_paused = true)]
async fn a_repeat_whose_window_ended_while_it_was_published_is_not_sent() {
    let world = repeats("once");
    world.remote.script("o", [Act::Hang { landed: true }]);
    poll_times(world.engine().step(world.fresh(plan(&[("once", "o")]))), 4).await;
    world.clock.add(WITHIN_MS - DEADLINE_MS - LAG_MS - 900);
    let clock = world.clock.clone();
    // The first commit claims, the second one intends.
    world.store.trouble_at(
        2,
        Trouble::Then(hook(move || {
            let clock = clock.clone();
            async move { clock.add(950) }
        })),
    );
    let step = world.again().await.unwrap();
    assert_eq!(world.remote.calls().len(), 1, "{:?}", step.rest);
    let entries = world.entries().await;
    let intents = entries.iter().filter(|e| matches!(e, Entry::Intended(_))).count();
    assert_eq!(intents, 2, "the repeat was intended, and not sent");
    let step = world.engine().drive(step.envelope, Wait::default()).await.unwrap();
    question(&step);
    assert_eq!(world.remote.calls().len(), 1);
    world.check().await;
}

/// A repeat whose reply is lost every time is not a hot loop, and it ends with a person.
#[tokio::test(start_paused = true)]
async fn repeats_back_off() {
    let world = repeats("once");
    world.remote.always("o", Act::Lost { landed: true });
    let step = world.engine().step(world.fresh(plan(&[("once", "o")]))).await.unwrap();
    assert!(until(&step) > 0);
    assert_eq!(world.remote.calls().len(), 1);
    let step = world.engine().drive(step.envelope, Wait::default()).await.unwrap();
    question(&step);
    assert!(world.remote.calls().len() < 30, "{}", world.remote.calls().len());
    assert_eq!(world.remote.landings(), ["o"]);
    world.check().await;
}

/// The host's wish to stop: what runs is settled, nothing starts, the session is let go.
#[tokio::test(start_paused = true)]
async fn a_stop_settles_what_runs_and_starts_nothing_more() {
    for drives in [true, false] {
        for lapse in [false, true] {
            let world = World::new();
            let stop = Arc::new(AtomicBool::new(false));
            let engine = Engine::builder(world.store.clone())
                .effect(world.sink("note"), Recovery::ask(world.sink("note")))
                .clock(world.clock.clone())
                .stop(stop.clone())
                .build()
                .unwrap();
            let raise = stop.clone();
            world.remote.script(
                "t1",
                [Act::LandThen(hook(move || {
                    let stop = raise.clone();
                    async move { stop.store(true, SeqCst) }
                }))],
            );
            if lapse {
                world.store.trouble_at(2, Trouble::HoldLost);
            }
            let envelope = world.fresh(plan(&[("note", "t1"), ("note", "t2")]));
            let step = if drives {
                engine.drive(envelope, Wait::default()).await
            } else {
                engine.step(envelope).await
            }
            .unwrap();
            assert!(matches!(step.rest, Rest::Until { .. }), "{:?}", step.rest);
            assert_eq!(world.remote.calls().len(), 1);
            assert_eq!((world.state(1).await, world.state(2).await), (State::Succeeded, State::Planned));
            assert!(world.check().await.session().owner.is_none(), "let go");
            assert!(world.store.published() <= 3, "{}", world.store.published());
            assert_eq!(finished(&world.again().await.unwrap()).verdict, "done");
            assert_eq!((world.remote.calls().len(), world.remote.asked()), (2, 0));
        }
    }
}

/// A wall clock that is moved neither hastens nor delays.
#[tokio::test(start_paused = true)]
async fn the_wall_clock_never_decides_an_absence() {
    let world = World::new();
    world.remote.script("t1", [Act::Hang { landed: false }]);
    world.remote.look_always(Look::Blind);
    poll_times(world.engine().step(world.fresh(plan(&[("note", "t1")]))), 4).await;
    world.clock.add_wall(365 * 24 * 3_600_000);
    let step = world.again().await.unwrap();
    assert!(until(&step) > 0);
    world.clock.add(5_000);
    until(&world.again().await.unwrap());
    assert_eq!(world.remote.calls().len(), 1);
    let entries = world.entries().await;
    assert!(!entries.iter().any(|e| matches!(e, Entry::Failed(f) if f.counts == Counts::Restart)));
}
