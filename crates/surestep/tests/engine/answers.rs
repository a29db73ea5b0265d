//! A person's words: taken once, judged by time, refused with a type, and never lost.

use surestep::core::About;
use surestep::core::limits::RESTARTS_MAX;
use surestep::{End, Entry, Receipt, Refused, Rest, State, StepError, Store, Via, Wait, Word};

use crate::common::*;

/// `mail` lost its reply; `note` behind it is not started.
async fn in_doubt(landed: bool) -> World {
    let world = World::new();
    world.remote.script("m", [Act::Lost { landed }]);
    let step = world.engine().step(world.fresh(plan(&[("mail", "m"), ("note", "t2")]))).await.unwrap();
    let question = question(&step);
    assert_eq!((question.about, question.op.value(), question.attempt.value()), (About::Landing, 1, 1));
    assert_eq!(question.absence_in_ms, DEADLINE_MS + LAG_MS + 2);
    world
}

async fn finishes(world: &World) -> surestep::Report {
    let step = world.engine().drive(world.bare(), Wait::default()).await.unwrap();
    world.check().await;
    finished(&step).clone()
}

#[tokio::test(start_paused = true)]
async fn landed_settles_the_doubt_with_the_persons_receipt_and_starts_nothing_by_itself() {
    let world = in_doubt(true).await;
    let mut word = world.word("r1", 1, Word::Landed);
    word.receipt = Some(Receipt::new("msg-7"));
    let step = world.engine().answer(&world.session, &word).await.unwrap();
    assert!(matches!(step.rest, Rest::Until { wait_ms: 0, .. }), "{:?}", step.rest);
    assert_eq!(world.remote.calls().len(), 1);
    let report = finishes(&world).await;
    let (receipt, via) = report.operations[0].landed.as_ref().unwrap();
    assert_eq!((receipt.reference.as_str(), *via), ("msg-7", Via::Operator));
    assert_eq!((report.verdict.as_str(), world.remote.calls_of("m")), ("done", 1));
    let entries = world.entries().await;
    let by = entries.iter().find_map(|e| if let Entry::Succeeded(e) = e { e.by.clone() } else { None });
    assert_eq!(by.as_deref(), Some("ann"));
}

#[tokio::test(start_paused = true)]
async fn not_landed_is_refused_until_it_could_be_true_and_then_it_runs_again() {
    let world = in_doubt(false).await;
    let published = world.store.published();
    let error = world.say("r1", 1, Word::NotLanded).await.unwrap_err();
    let StepError::Refused(Refused::TooEarly { wait_ms, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(error.exit_code(), surestep::exit::UNTIL);
    assert_eq!(world.store.published(), published);
    world.clock.add(wait_ms - 1);
    assert!(matches!(
        world.say("r1", 1, Word::NotLanded).await,
        Err(StepError::Refused(Refused::TooEarly { wait_ms: 1, .. }))
    ));
    world.clock.add(1);
    world.say("r1", 1, Word::NotLanded).await.unwrap();
    assert_eq!(world.state(1).await, State::Retrying);
    assert_eq!(finishes(&world).await.verdict, "done");
    assert_eq!((world.remote.calls_of("m"), world.remote.landings_of("m")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn not_landed_now_overrides_and_is_recorded_as_that() {
    let world = in_doubt(false).await;
    world.say("r1", 1, Word::NotLandedNow).await.unwrap();
    let entries = world.entries().await;
    let overridden = entries.iter().find_map(|e| if let Entry::Failed(e) = e { e.overridden } else { None });
    assert_eq!(overridden, Some(true));
    assert_eq!(finishes(&world).await.verdict, "done");
    // Where it would have been true anyway there is nothing to override.
    let world = in_doubt(false).await;
    world.clock.add(OVER_MS);
    world.say("r1", 1, Word::NotLandedNow).await.unwrap();
    let entries = world.entries().await;
    assert!(!entries.iter().any(|e| matches!(e, Entry::Failed(e) if e.overridden.is_some())));
}

#[tokio::test(start_paused = true)]
async fn skip_out_of_doubt_says_that_it_may_have_landed() {
    let world = in_doubt(true).await;
    world.say("r1", 1, Word::Skip).await.unwrap();
    let report = finishes(&world).await;
    assert_eq!((report.outcome, report.operations[0].state), (End::Completed, State::Skipped));
    assert!(report.operations[0].may_have_landed);
    assert_eq!((world.remote.calls_of("m"), world.remote.calls_of("t2")), (1, 1));
    // Of one that was never begun it does not.
    let world = World::new();
    question(
        &world.engine().step(world.fresh(plan(&[("note", "t1,\"approval\":\"required\"")]))).await.unwrap(),
    );
    world.say("r1", 1, Word::Skip).await.unwrap();
    let report = finishes(&world).await;
    assert!(!report.operations[0].may_have_landed);
    assert_eq!(world.remote.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn approve_runs_it_and_deny_fails_the_turn() {
    for (word, verdict, calls) in [(Word::Approve, "done", 2), (Word::Deny, "failed", 0)] {
        let world = World::new();
        let the_plan = plan(&[("note", "t1,\"approval\":\"required\""), ("note", "t2")]);
        let step = world.engine().step(world.fresh(the_plan)).await.unwrap();
        assert_eq!(question(&step).about, About::Approval);
        assert_eq!(world.remote.calls().len(), 0);
        world.say("r1", 1, word).await.unwrap();
        assert_eq!(world.remote.calls().len(), 0, "the word itself starts nothing");
        assert_eq!(finishes(&world).await.verdict, verdict);
        assert_eq!(world.remote.calls().len(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_another_operation_than_the_lowest_is_kept() {
    let world = World::new();
    let the_plan =
        plan(&[("note", "t1,\"approval\":\"required\""), ("note", "t2,\"approval\":\"required\"")]);
    world.engine().step(world.fresh(the_plan)).await.unwrap();
    world.say("r2", 2, Word::Approve).await.unwrap();
    assert_eq!(question(&world.again().await.unwrap()).op.value(), 1);
    assert_eq!(world.remote.calls().len(), 0);
    world.say("r1", 1, Word::Approve).await.unwrap();
    assert_eq!(finishes(&world).await.verdict, "done");
}

#[tokio::test(start_paused = true)]
async fn cancel_starts_nothing_more_and_settles_what_is_in_doubt_first() {
    // Nothing open: over at once.
    let world = World::new();
    let step = world
        .engine()
        .step(world.fresh(plan(&[("note", "t1"), ("note", "t2,\"approval\":\"required\"")])))
        .await;
    question(&step.unwrap());
    let step = world.say("r1", 0, Word::Cancel).await.unwrap();
    let report = finished(&step);
    assert_eq!((report.outcome, report.verdict.as_str()), (End::Cancelled, "cancelled"));
    assert_eq!(report.operations[0].state, State::Succeeded);
    world.check().await;
    // A doubt that can be looked up: settled, then over; a doubt that cannot: still a question.
    for (kind, landed) in [("note", true), ("note", false), ("mail", true), ("once", false), ("once", true)] {
        let world = World::new();
        world.remote.script("t1", [Act::Hang { landed }]);
        poll_times(world.engine().step(world.fresh(plan(&[(kind, "t1"), ("note", "t2")]))), 4).await;
        world.say("r1", 0, Word::Cancel).await.unwrap();
        let step = world.engine().drive(world.bare(), Wait::default()).await.unwrap();
        if kind == "note" {
            assert_eq!(finished(&step).outcome, End::Cancelled, "{kind} {landed}");
            let expected = if landed { State::Succeeded } else { State::Cancelled };
            assert_eq!(finished(&step).operations[0].state, expected);
        } else {
            question(&step);
            world.clock.add(OVER_MS);
            let step = world.say("r2", 1, if landed { Word::Landed } else { Word::NotLanded }).await.unwrap();
            assert_eq!(finished(&step).outcome, End::Cancelled, "{kind} {landed}");
        }
        assert_eq!((world.remote.calls_of("t1"), world.remote.calls_of("t2")), (1, 0), "{kind} {landed}");
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_folded_in_changes_nothing_a_second_time() {
    let world = in_doubt(false).await;
    world.say("r1", 1, Word::NotLandedNow).await.unwrap();
    let (published, epoch) = (world.store.published(), world.epoch().await);
    for _ in 0..3 {
        world.say("r1", 1, Word::NotLandedNow).await.unwrap();
    }
    assert_eq!((world.store.published(), world.epoch().await), (published, epoch));
    assert_eq!(finishes(&world).await.verdict, "done");
    // Not even once the operation has moved on.
    let published = world.store.published();
    world.say("r1", 1, Word::NotLandedNow).await.unwrap();
    assert_eq!(world.store.published(), published);
    // Another request is judged.
    assert!(matches!(
        world.say("r9", 1, Word::NotLandedNow).await,
        Err(StepError::Refused(Refused::NotAsked { .. }))
    ));
}

#[tokio::test(start_paused = true)]
async fn trying_an_answer_says_the_same_and_writes_nothing() {
    let world = in_doubt(false).await;
    let published = world.store.published();
    let engine = world.engine();
    let attempt = |op, word| {
        let (engine, world) = (engine.clone(), world.clone());
        async move { engine.try_answer(&world.session, &world.word("r1", op, word)).await }
    };
    assert!(matches!(attempt(1, Word::NotLanded).await, Err(StepError::Refused(Refused::TooEarly { .. }))));
    assert!(matches!(attempt(9, Word::Landed).await, Err(StepError::Refused(Refused::NoSuchOperation))));
    assert!(matches!(attempt(2, Word::Landed).await, Err(StepError::Refused(Refused::NotAsked { .. }))));
    for word in [Word::Landed, Word::NotLandedNow, Word::Skip, Word::Cancel] {
        attempt(1, word).await.unwrap();
    }
    assert_eq!(world.store.published(), published);
    assert_eq!(world.state(1).await, State::InDoubt);
    world.say("r1", 1, Word::Landed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_word_that_does_not_fit_is_refused_by_type_and_writes_nothing() {
    let world = in_doubt(false).await;
    let published = world.store.published();
    for (op, word) in
        [(1, Word::Approve), (1, Word::Deny), (2, Word::Landed), (2, Word::NotLandedNow), (2, Word::Deny)]
    {
        let error = world.say("r1", op, word).await.unwrap_err();
        assert!(matches!(error, StepError::Refused(Refused::NotAsked { .. })), "{op} {word:?}: {error:?}");
    }
    let mut moved = world.word("r1", 1, Word::Landed);
    moved.attempt = Some(surestep::core::Attempt::new(2));
    let error = world.engine().answer(&world.session, &moved).await.unwrap_err();
    assert!(matches!(error, StepError::Refused(Refused::Moved { .. })), "{error:?}");
    let mut other = world.word("r1", 1, Word::Landed);
    other.key = Some(world.check().await.session().operations[1].bound.key);
    let error = world.engine().answer(&world.session, &other).await.unwrap_err();
    assert!(matches!(error, StepError::Refused(Refused::NoSuchOperation)), "{error:?}");
    assert_eq!(world.store.published(), published);
    let nobody = World::new();
    assert!(matches!(nobody.say("r1", 1, Word::Landed).await, Err(StepError::NoSuchSession { .. })));
    // A finished turn has nothing to cancel.
    world.say("r2", 1, Word::Landed).await.unwrap();
    finishes(&world).await;
    let error = world.say("r3", 0, Word::Cancel).await.unwrap_err();
    assert!(matches!(error, StepError::Refused(Refused::NothingOpen)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_session_that_somebody_holds_is_busy() {
    let world = in_doubt(false).await;
    let hold = world.store.hold(&world.session).await.unwrap();
    let error = world.say("r1", 1, Word::Landed).await.unwrap_err();
    assert!(matches!(error, StepError::Busy { .. }));
    drop(hold);
    world.say("r1", 1, Word::Landed).await.unwrap();
}

/// An answer that says Ok is in the journal, whatever the store did meanwhile.
#[tokio::test(start_paused = true)]
async fn an_answer_is_never_said_to_be_taken_without_being_written() {
    let troubles = [
        Trouble::NotCommitted,
        Trouble::HoldLost,
        Trouble::Taken,
        Trouble::IndeterminateStored,
        Trouble::IndeterminateLost,
    ];
    for (n, trouble) in troubles.into_iter().enumerate() {
        for word in [Word::Landed, Word::NotLandedNow, Word::Skip, Word::Cancel] {
            let world = in_doubt(false).await;
            world.store.trouble([trouble.clone()]);
            let said = world.say("r1", 1, word).await;
            let id = surestep::RequestId::new("r1").unwrap();
            let written = world.check().await.session().requests.contains(&id);
            assert!(said.is_err() || written, "trouble {n}, {word:?}");
            if said.is_err() {
                world.say("r1", 1, word).await.unwrap();
                let times = world.check().await.session().requests.iter().filter(|r| **r == id).count();
                assert_eq!(times, 1, "trouble {n}, {word:?}");
            }
            world.check().await;
        }
    }
}

/// A person who says *not landed* gives the restarts anew.
#[tokio::test(start_paused = true)]
async fn a_persons_not_landed_lets_an_operation_at_its_restart_limit_go_on() {
    let world = World::new();
    world.remote.always("t1", Act::Hang { landed: false });
    for _ in 0..RESTARTS_MAX {
        poll_times(world.engine().step(world.fresh(plan(&[("note", "t1")]))), 4).await;
        world.clock.add(OVER_MS);
    }
    question(&world.again().await.unwrap());
    world.say("r1", 1, Word::NotLanded).await.unwrap();
    assert_eq!(world.check().await.session().operations[0].restarts, 0);
    world.remote.always("t1", Act::Ok);
    assert_eq!(finishes(&world).await.verdict, "done");
}

/// On a store whose holds prove death, and after a reboot: the wait for *not landed* begins once, not with each answer.
#[tokio::test(start_paused = true)]
async fn not_landed_can_be_said_at_last_whatever_the_store_proves() {
    for (reboots, released) in [(false, true), (true, true), (true, false), (false, false)] {
        let world = World::new();
        world.store.proves.store(true, std::sync::atomic::Ordering::SeqCst);
        if released {
            world.remote.script("m", [Act::Lost { landed: false }]);
            question(&world.engine().step(world.fresh(plan(&[("mail", "m")]))).await.unwrap());
        } else {
            world.remote.script("m", [Act::Hang { landed: false }]);
            assert!(!poll_times(world.engine().step(world.fresh(plan(&[("mail", "m")]))), 4).await);
        }
        if reboots {
            world.clock.reboot();
        }
        let mut waited = 0;
        let mut said = world.say("r0", 1, Word::NotLanded).await;
        for n in 1..5 {
            let Err(StepError::Refused(Refused::TooEarly { wait_ms, .. })) = said else { break };
            waited += wait_ms;
            world.clock.add(wait_ms);
            said = world.say(&format!("r{n}"), 1, Word::NotLanded).await;
        }
        assert!(said.is_ok(), "reboots {reboots}, released {released}: refused for ever: {said:?}");
        assert!(waited <= 2 * OVER_MS, "{waited}");
        assert_eq!(finishes(&world).await.verdict, "done");
        assert_eq!(world.remote.landings_of("m"), 1);
    }
}
