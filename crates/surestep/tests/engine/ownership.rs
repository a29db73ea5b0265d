//! Epochs, leases and rivals: one owner acts, every other gets a typed refusal, and what a fenced one saw is kept.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use surestep::core::Counts;
use surestep::{Entry, Outcome, Rest, State, StepError, Store, StoreError, Via, Wait};

use crate::common::*;

/// Runs a whole step of a rival, whose result must be `Ok`.
fn rival(world: &World, lapse: bool) -> Hook {
    let world = world.clone();
    hook(move || {
        let world = world.clone();
        async move {
            if lapse {
                world.store.expire(&world.session);
            }
            world.again().await.unwrap();
        }
    })
}

/// C071: A was stopped between its intent and the sending, B took over, A wakes.
#[tokio::test(start_paused = true)]
async fn an_owner_woken_after_a_take_over_neither_sends_nor_commits() {
    for asleep_ms in [1_500, DEADLINE_MS - 1, DEADLINE_MS, 10 * OVER_MS] {
        let world = World::with_lease(1_000);
        let (clock, rivals) = (world.clock.clone(), rival(&world, false));
        world.store.trouble([Trouble::Then(hook(move || {
            let (clock, rivals) = (clock.clone(), rivals.clone());
            async move {
                clock.add(asleep_ms);
                rivals().await;
            }
        }))]);
        let envelope = world.fresh(plan(&[("note", "t1")]));
        let error = world.engine().step(envelope).await.unwrap_err();
        let StepError::Fenced { ours, theirs, observed, .. } = &error else {
            panic!("{asleep_ms}: {error:?}")
        };
        assert_eq!((ours.value(), theirs.value()), (1, 2), "{asleep_ms}");
        assert!(matches!(observed.as_ref().unwrap().outcome, Outcome::NotSent(_)), "{asleep_ms}");
        let late = asleep_ms > OVER_MS;
        let epochs: Vec<u64> = world.remote.calls().iter().map(|c| c.epoch).collect();
        assert_eq!(epochs, if late { vec![2] } else { vec![] }, "{asleep_ms}: epoch 1 sent nothing");
        // B waits for what A might have sent; A's own word that it sent nothing ends that.
        let published = world.store.published();
        let step = world.engine().drive(world.bare(), Wait::default()).await.unwrap();
        assert_eq!(finished(&step).verdict, "done", "{asleep_ms}");
        assert!(late || world.store.published() > published);
        assert_eq!(world.remote.landings(), ["t1"], "{asleep_ms}");
        assert_eq!(error.exit_code(), surestep::exit::HELD);
        world.check().await;
    }
}

/// An owner that was stopped past the deadline, without a rival, sends nothing either.
#[tokio::test(start_paused = true)]
async fn an_owner_woken_past_the_deadline_does_not_send_and_is_not_charged() {
    for (boot, wall) in [(DEADLINE_MS, 0), (0, DEADLINE_MS)] {
        let world = World::new();
        let clock = world.clock.clone();
        world.store.trouble([Trouble::Then(hook(move || {
            let clock = clock.clone();
            async move {
                clock.add(boot);
                clock.add_wall(wall);
            }
        }))]);
        let step = world.engine().step(world.fresh(plan(&[("mail", "m,\"attempts\":1")]))).await.unwrap();
        assert!(until(&step) > 0);
        assert_eq!(world.remote.calls().len(), 0);
        assert_eq!(world.state(1).await, State::Retrying, "not sent, not in doubt, not failed");
        let step = world.engine().drive(step.envelope, Wait::default()).await.unwrap();
        assert_eq!(finished(&step).verdict, "done");
        assert_eq!(world.remote.calls().len(), 1);
        let envelope = world.check().await;
        assert_eq!(envelope.session().operations[0].answers, 0);
    }
}

/// C067, C071: what the first owner saw is told, kept, and used first.
#[tokio::test(start_paused = true)]
async fn a_fenced_owners_late_result_is_kept_and_settles_before_any_look_up() {
    let world = World::with_lease(1_000);
    world.store.never_renews.store(true, SeqCst);
    let (clock, rivals) = (world.clock.clone(), rival(&world, false));
    world.remote.script(
        "m",
        [Act::LandThen(hook(move || {
            let (clock, rivals) = (clock.clone(), rivals.clone());
            async move {
                clock.add(1_500);
                rivals().await;
            }
        }))],
    );
    let error = world.engine().step(world.fresh(plan(&[("mail", "m"), ("note", "t2")]))).await.unwrap_err();
    let StepError::Fenced { ours, theirs, observed, .. } = &error else { panic!("{error:?}") };
    assert_eq!((ours.value(), theirs.value()), (1, 2));
    let observed = observed.as_ref().unwrap();
    assert!(matches!(observed.outcome, Outcome::Landed(_)));
    assert_eq!((observed.op.value(), observed.attempt.value()), (1, 1));
    assert_eq!(world.state(1).await, State::InDoubt);
    let late = world.late().await;
    assert_eq!((late.len(), late[0].epoch.value()), (1, 1));
    let step = world.again().await.unwrap();
    let report = finished(&step);
    assert_eq!(report.operations[0].landed.as_ref().unwrap().1, Via::Late);
    assert_eq!((world.remote.calls_of("m"), world.remote.landings_of("m"), world.remote.asked()), (1, 1, 0));
    world.check().await;
}

/// The rival settles by look-up while the first owner is still at it: the first one's settle cannot be written.
#[tokio::test(start_paused = true)]
async fn a_fenced_owner_cannot_settle_what_its_successor_settled() {
    let world = World::with_lease(1_000);
    world.remote.script("t1", [Act::LandThen(rival(&world, true))]);
    let error = world.engine().step(world.fresh(plan(&[("note", "t1"), ("note", "t2")]))).await.unwrap_err();
    assert!(matches!(error, StepError::Fenced { .. }));
    let envelope = world.check().await;
    assert!(envelope.session().turn().unwrap().ended.is_some());
    let step = world.again().await.unwrap();
    assert_eq!(finished(&step).operations[0].landed.as_ref().unwrap().1, Via::Reconciled);
    assert_eq!(world.remote.landings(), ["t1", "t2"]);
    assert_eq!(world.remote.calls().len(), 2);
    assert_eq!(
        world.commits().await.len(),
        envelope.commits().len(),
        "the late result changes nothing any more"
    );
}

/// A lapse with a rival who has come and gone: fenced, although nobody holds the session any more.
#[tokio::test(start_paused = true)]
async fn after_a_lapse_with_a_rival_who_has_gone_again_the_owner_is_fenced() {
    let world = World::new();
    world.store.trouble_at(2, Trouble::LostTo(rival(&world, false)));
    world.remote.look_always(Look::Unknown);
    let error = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap_err();
    let StepError::Fenced { ours, theirs, observed, .. } = &error else { panic!("{error:?}") };
    assert_eq!((ours.value(), theirs.value()), (1, 2));
    assert!(matches!(observed.as_ref().unwrap().outcome, Outcome::Landed(_)));
    let step = world.engine().drive(world.bare(), Wait::default()).await.unwrap();
    assert_eq!(finished(&step).operations[0].landed.as_ref().unwrap().1, Via::Late);
    assert_eq!(world.remote.calls().len(), 1);
    world.check().await;
}

/// C068: a lapse without a rival: claimed anew at the next epoch, in one commit with the settle.
#[tokio::test(start_paused = true)]
async fn after_a_lapse_without_a_rival_the_settle_claims_at_the_next_epoch() {
    for act in [Act::Ok, Act::Refuse, Act::Lost { landed: true }] {
        let world = World::with_lease(1_000);
        world.store.never_renews.store(true, SeqCst);
        let clock = world.clock.clone();
        let lapse = hook(move || {
            let clock = clock.clone();
            async move { clock.add(5_000) }
        });
        let acts = match act {
            Act::Refuse => vec![Act::RefuseThen(lapse)],
            Act::Lost { .. } => vec![Act::LoseThen(lapse)],
            _ => vec![Act::LandThen(lapse)],
        };
        let lands = matches!(act, Act::Ok);
        world.remote.script("t1", acts);
        let step =
            world.engine().drive(world.fresh(plan(&[("note", "t1"), ("note", "t2")])), Wait::default()).await;
        let step = step.unwrap();
        assert_eq!(finished(&step).verdict, "done");
        assert_eq!(world.remote.landings(), ["t1", "t2"]);
        let commits = world.commits().await;
        let second: Vec<&str> = commits[1].entries().iter().map(Entry::tag).collect();
        assert_eq!(commits[1].epoch().value(), 2);
        assert_eq!(second[0], "claimed");
        let settle = second.iter().find(|t| ["succeeded", "failed", "doubted"].contains(t));
        assert!(settle.is_some(), "{second:?}");
        if lands {
            assert_eq!(second, ["claimed", "succeeded", "intended"]);
            assert_eq!((world.remote.calls().len(), world.remote.asked()), (2, 0));
            assert_eq!(world.remote.calls()[1].epoch, 2);
        }
        world.check().await;
    }
}

/// The lease lapsed between intent and sending, nobody took over: not sent, claimed anew, tried again.
#[tokio::test(start_paused = true)]
async fn a_lease_that_lapsed_before_sending_is_settled_not_sent_at_the_next_epoch() {
    let world = World::with_lease(1_000);
    let clock = world.clock.clone();
    world.store.trouble([Trouble::Then(hook(move || {
        let clock = clock.clone();
        async move { clock.add(1_500) }
    }))]);
    let step = world.engine().step(world.fresh(plan(&[("mail", "m,\"attempts\":1")]))).await.unwrap();
    assert!(until(&step) > 0);
    assert_eq!(world.remote.calls().len(), 0);
    assert_eq!((world.state(1).await, world.epoch().await.value()), (State::Retrying, 2));
    let step = world.engine().drive(step.envelope, Wait::default()).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.remote.calls().len(), 1);
    world.check().await;
}

/// The journal cannot be read right before sending: nothing is sent, and that is kept.
#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_before_sending_stops_it_and_leaves_no_doubt() {
    let world = World::new();
    let (clock, store) = (world.clock.clone(), world.store.clone());
    world.store.trouble([Trouble::Then(hook(move || {
        let (clock, store) = (clock.clone(), store.clone());
        async move {
            clock.add(1_500);
            store.reads_fail.store(true, SeqCst);
        }
    }))]);
    let error = world.engine().step(world.fresh(plan(&[("mail", "m")]))).await.unwrap_err();
    assert!(
        matches!(&error, StepError::Store { observed: Some(o), .. } if matches!(o.outcome, Outcome::NotSent(_)))
    );
    world.store.reads_fail.store(false, SeqCst);
    let step = world.engine().drive(world.bare(), Wait::default()).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.remote.calls().len(), 1);
    world.check().await;
}

/// C067, C068: an expired hold renews nothing, publishes nothing, and its end does not strip its successor.
#[tokio::test(start_paused = true)]
async fn an_expired_hold_can_neither_renew_nor_free_its_successors() {
    let world = World::with_lease(1_000);
    let first = world.store.hold(&world.session).await.unwrap();
    world.clock.add(1_000);
    assert!(matches!(world.store.renew(&first).await, Err(StoreError::HoldLost { .. })));
    let second = world.store.hold(&world.session).await.unwrap();
    assert_ne!(first.id, second.id);
    assert!(matches!(world.store.renew(&first).await, Err(StoreError::HoldLost { .. })));
    drop(first);
    assert!(matches!(world.store.hold(&world.session).await, Err(StoreError::Busy { .. })));
    world.store.renew(&second).await.unwrap();
    drop(second);
    world.store.hold(&world.session).await.unwrap();
}

/// C070: an effect longer than the lease keeps it, on every path: execution and look-up.
#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_while_an_effect_or_a_look_up_runs() {
    let world = World::with_lease(1_000);
    world.remote.script("t1", [Act::Slow(20_000)]);
    let step = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert!(world.store.renewed.load(SeqCst) >= 19, "{}", world.store.renewed.load(SeqCst));
    assert_eq!(world.epoch().await.value(), 1);

    let world = World::with_lease(1_000);
    world.remote.script("t1", [Act::Lost { landed: false }]);
    world.remote.looks([Look::Hang]);
    let step = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap();
    assert!(until(&step) > 0);
    assert!(world.store.renewed.load(SeqCst) >= 50, "{}", world.store.renewed.load(SeqCst));
    assert_eq!(world.epoch().await.value(), 1);
    world.check().await;
}

/// One renewal that fails for another reason than a lost lease does not end renewing.
#[tokio::test(start_paused = true)]
async fn one_renewal_that_fails_does_not_end_renewing() {
    let world = World::with_lease(3_000);
    world.store.renews.lock().unwrap().extend([false, true, false, true]);
    world.remote.script("t1", [Act::Slow(20_000)]);
    let step = world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.epoch().await.value(), 1, "the lease never lapsed");
}

/// C070, C079: two relays, a lease shorter than the operation.
#[tokio::test(start_paused = true)]
async fn a_lease_shorter_than_the_operation_gives_one_landing() {
    for renews in [true, false] {
        let world = World::with_lease(1_000);
        world.store.never_renews.store(!renews, SeqCst);
        world.remote.always("t1", Act::Slow(5_000));
        let relay = |world: World| async move {
            let mut losses = 0;
            for _ in 0..200 {
                match world.engine().step(world.fresh(plan(&[("note", "t1")]))).await {
                    Ok(surestep::Step { rest: Rest::Finished(report), .. }) => {
                        return (report.verdict, losses);
                    }
                    Ok(surestep::Step { rest: Rest::Until { .. }, .. }) => {}
                    Ok(other) => panic!("{other:?}"),
                    Err(StepError::Busy { .. } | StepError::Fenced { .. }) => losses += 1,
                    Err(other) => panic!("{other:?}"),
                }
                tokio::time::sleep(Duration::from_millis(730)).await;
            }
            panic!("never finished");
        };
        let ((a, lost_a), (b, lost_b)) = tokio::join!(relay(world.clone()), relay(world.clone()));
        assert_eq!((a.as_str(), b.as_str()), ("done", "done"));
        assert!(lost_a + lost_b > 0);
        assert_eq!((world.remote.calls().len(), world.remote.landings().len()), (1, 1), "renews: {renews}");
        world.check().await;
    }
}

/// C074: the receiver sees the epoch, and refuses an older owner's request that comes off the wire late: within the
/// second after its intent that owner does not look whether the session is still its own.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_compares_epochs_refuses_the_stale_one() {
    let world = World::new();
    world.remote.compares_epochs.store(true, SeqCst);
    world.store.trouble([Trouble::Then(rival(&world, true))]);
    let error = world.engine().step(world.fresh(plan(&[("once", "o")]))).await.unwrap_err();
    let sent: Vec<(u64, u32)> = world.remote.calls().iter().map(|c| (c.epoch, c.attempt)).collect();
    assert_eq!(sent, [(2, 2), (1, 1)], "the successor's request arrived first");
    let StepError::Fenced { observed: Some(observed), .. } = &error else { panic!("{error:?}") };
    assert!(matches!(&observed.outcome, Outcome::NotLanded(fault, _) if fault.code == "stale_epoch"));
    assert_eq!(finished(&world.again().await.unwrap()).verdict, "done");
    assert_eq!(world.remote.landings(), ["o"]);
    world.check().await;
}

/// C074: whatever the look-up says within deadline and lag, epoch 2 does not send.
#[tokio::test(start_paused = true)]
async fn a_successor_does_not_believe_an_absence_before_its_time() {
    let world = World::with_lease(1_000);
    world.remote.script("t1", [Act::Hang { landed: false }]);
    world.remote.look_always(Look::Blind);
    assert!(!poll_times(world.engine().step(world.fresh(plan(&[("note", "t1")]))), 4).await);
    let start = world.clock.ms();
    loop {
        let step = world.again().await.unwrap();
        if matches!(step.rest, Rest::Finished(_)) {
            break;
        }
        assert_eq!(world.remote.calls().len(), 1, "{} ms after the intent", world.clock.ms() - start);
        world.clock.add(until(&step).min(1_000));
    }
    assert!(world.clock.ms() - start > DEADLINE_MS + LAG_MS);
    world.check().await;
}

/// C015: a step in the same process while the first one runs.
#[tokio::test(start_paused = true)]
async fn a_second_step_of_a_running_session_is_busy_and_does_nothing() {
    let world = World::new();
    world.remote.always("t1", Act::Slow(5_000));
    let engine = world.engine();
    let first = engine.step(world.fresh(plan(&[("note", "t1"), ("note", "t2")])));
    let second = async {
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        let published = world.store.published();
        let error = engine.step(world.fresh(plan(&[("note", "t1"), ("note", "t2")]))).await.unwrap_err();
        assert_eq!(world.store.published(), published);
        error
    };
    let (first, error) = tokio::join!(first, second);
    assert!(matches!(error, StepError::Busy { .. }));
    assert_eq!((error.code(), error.exit_code()), ("SE0301", surestep::exit::HELD));
    assert_eq!(finished(&first.unwrap()).verdict, "done");
    assert_eq!(world.remote.calls().len(), 2);
    // `drive` waits for it where it is told to.
    let world = World::new();
    world.remote.always("t1", Act::Slow(5_000));
    let (a, b) = (world.engine(), world.engine());
    let first = a.step(world.fresh(plan(&[("note", "t1")])));
    let second = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        b.drive(world.fresh(plan(&[("note", "t1")])), Wait { limit: None, held: true }).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(finished(&first.unwrap()), finished(&second.unwrap()));
    assert_eq!(world.remote.calls().len(), 1);
}

/// C078.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_relays_in_a_loop_give_one_result_and_typed_losses() {
    for round in 0..200_u64 {
        let world = World::with_lease(30_000);
        world.remote.script("t2", [Act::Lost { landed: true }]);
        let relay = |world: World, pause: u64| {
            tokio::spawn(async move {
                let mut end = None;
                for n in 0..1_000 {
                    let the_plan = plan(&[("note", "t1"), ("note", "t2"), ("note", "t3")]);
                    match world.engine().step(world.fresh(the_plan)).await {
                        Ok(surestep::Step { rest: Rest::Finished(report), .. }) => {
                            end = Some(report);
                            break;
                        }
                        Err(StepError::Busy { .. } | StepError::Fenced { .. }) => {}
                        other => panic!("{other:?}"),
                    }
                    if (round + n + pause).is_multiple_of(3) {
                        tokio::time::sleep(Duration::from_micros(50 * pause)).await;
                    } else {
                        tokio::task::yield_now().await;
                    }
                }
                end.expect("an end")
            })
        };
        let (a, b) = tokio::join!(relay(world.clone(), 1), relay(world.clone(), 2));
        assert_eq!(a.unwrap(), b.unwrap(), "round {round}");
        assert_eq!(world.remote.landings(), ["t1", "t2", "t3"], "round {round}");
        world.check().await;
    }
}

/// C078 with leases that a partition ends at any await: losses are typed, landings are one.
#[tokio::test(start_paused = true)]
async fn relays_under_a_partition_that_ends_leases_land_each_operation_once() {
    let mut fenced = 0;
    for round in 0..300_usize {
        let world = World::with_lease(30_000);
        world.store.gives_way.store(true, SeqCst);
        let relay = |world: World| {
            tokio::spawn(async move {
                let mut fenced = 0;
                for _ in 0..10_000 {
                    let the_plan = plan(&[("note", "t1"), ("note", "t2"), ("note", "t3")]);
                    match world.engine().step(world.fresh(the_plan)).await {
                        Ok(surestep::Step { rest: Rest::Finished(report), .. }) => return (report, fenced),
                        Ok(surestep::Step { rest: Rest::Until { wait_ms, .. }, .. }) => {
                            world.clock.add(wait_ms.min(7_000));
                        }
                        Err(StepError::Fenced { .. }) => fenced += 1,
                        Err(StepError::Busy { .. }) => {}
                        other => panic!("{other:?}"),
                    }
                    give_way().await;
                }
                panic!("never finished")
            })
        };
        let partition = {
            let world = world.clone();
            tokio::spawn(async move {
                for n in 0..10 {
                    for _ in 0..1 + (round * 7 + n * 5) % 23 {
                        give_way().await;
                    }
                    world.store.expire(&world.session);
                }
            })
        };
        let (a, b, c) = tokio::join!(relay(world.clone()), relay(world.clone()), partition);
        c.unwrap();
        let (a, b) = (a.unwrap(), b.unwrap());
        fenced += a.1 + b.1;
        assert_eq!(a.0, b.0, "round {round}");
        assert_eq!(world.remote.landings(), ["t1", "t2", "t3"], "round {round}: {:?}", world.remote.calls());
        world.check().await;
    }
    assert!(fenced > 100, "the partition must bite: {fenced}");
}

/// C082.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn of_fifty_steps_at_once_over_a_slow_effect_one_acts_and_the_rest_are_refused() {
    let world = World::with_lease(30_000);
    world.remote.always("t1", Act::Slow(500));
    let gate = Arc::new(tokio::sync::Barrier::new(50));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (world, gate) = (world.clone(), gate.clone());
            tokio::spawn(async move {
                gate.wait().await;
                world.engine().step(world.fresh(plan(&[("note", "t1")]))).await
            })
        })
        .collect();
    let mut refused = 0;
    let mut done = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(step) => {
                assert_eq!(finished(&step).verdict, "done");
                done += 1;
            }
            Err(StepError::Busy { .. } | StepError::Fenced { .. }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((done, refused), (1, 49));
    assert_eq!((world.remote.calls().len(), world.remote.landings().len()), (1, 1));
    world.check().await;
}

/// C082, over an instant effect: a late one may get the report.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn of_fifty_threads_over_instant_effects_each_lands_once() {
    for _ in 0..20 {
        let world = World::with_lease(30_000);
        let gate = Arc::new(std::sync::Barrier::new(50));
        let threads: Vec<_> = (0..50)
            .map(|_| {
                let (world, gate) = (world.clone(), gate.clone());
                std::thread::spawn(move || {
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                    gate.wait();
                    runtime
                        .block_on(world.engine().step(world.fresh(plan(&[("note", "t1"), ("note", "t2")]))))
                })
            })
            .collect();
        let mut done = 0;
        for thread in threads {
            match thread.join().unwrap() {
                Ok(step) => {
                    assert_eq!(finished(&step).verdict, "done");
                    done += 1;
                }
                Err(StepError::Busy { .. } | StepError::Fenced { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!(done >= 1);
        assert_eq!(world.remote.landings(), ["t1", "t2"]);
        assert_eq!(world.remote.calls().len(), 2);
        world.check().await;
    }
}

/// A late *no* of an older attempt, of a kind that was repeated over it: evidence, and no contradiction.
#[tokio::test(start_paused = true)]
async fn a_late_refusal_of_an_older_attempt_is_taken_as_what_it_is() {
    let world = World::with_lease(1_000);
    world.store.never_renews.store(true, SeqCst);
    let (clock, rivals) = (world.clock.clone(), rival(&world, false));
    let meanwhile = hook(move || {
        let (clock, rivals) = (clock.clone(), rivals.clone());
        async move {
            clock.add(1_500);
            rivals().await;
        }
    });
    // Attempt 1 refuses at last; attempt 2, of the rival, loses its reply.
    world.remote.script("o", [Act::RefuseThen(meanwhile), Act::Lost { landed: true }]);
    let error = world.engine().step(world.fresh(plan(&[("once", "o")]))).await.unwrap_err();
    assert!(matches!(error, StepError::Fenced { .. }), "{error:?}");
    assert_eq!(world.remote.calls().len(), 2);
    let step = world.engine().drive(world.bare(), Wait::default()).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert_eq!(world.remote.landings(), ["o"]);
    world.check().await;
}

/// A late landing of an attempt that a person had called not landed: no second landing without a question.
#[tokio::test(start_paused = true)]
async fn a_late_landing_after_a_wrong_answer_is_read_before_the_next_attempt() {
    let world = World::with_lease(1_000);
    world.store.never_renews.store(true, SeqCst);
    let clock = world.clock.clone();
    let answered = world.clone();
    world.remote.script(
        "m",
        [Act::LandThen(hook(move || {
            let (clock, world) = (clock.clone(), answered.clone());
            async move {
                clock.add(1_500);
                world.again().await.unwrap();
                world.say("r1", 1, surestep::Word::NotLandedNow).await.unwrap();
            }
        }))],
    );
    let error = world.engine().step(world.fresh(plan(&[("mail", "m")]))).await.unwrap_err();
    assert!(matches!(error, StepError::Fenced { .. }), "{error:?}");
    assert_eq!(world.late().await.len(), 1);
    let step = world.engine().drive(world.bare(), Wait::default()).await.unwrap();
    assert_eq!(world.remote.landings_of("m"), 1, "{:?}", step.rest);
    world.check().await;
}

/// The attempt that a lapse left unsent is no refusal.
#[tokio::test(start_paused = true)]
async fn what_was_not_sent_never_counts_as_a_refusal() {
    let world = World::new();
    world.remote.script("t1", (0..5).map(|_| Act::NotSent));
    let step = world
        .engine()
        .drive(world.fresh(plan(&[("note", "t1,\"attempts\":1")])), Wait::default())
        .await
        .unwrap();
    assert_eq!(finished(&step).verdict, "done");
    let entries = world.entries().await;
    let nothing =
        entries.iter().filter(|e| matches!(e, Entry::Failed(f) if f.counts == Counts::Nothing)).count();
    assert_eq!((nothing, world.remote.asked()), (5, 0));
    world.check().await;
}
