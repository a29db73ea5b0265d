//! A session moves: it leaves one store and is taken in by another, and never steps at two.

use std::sync::atomic::Ordering;

use surestep::{Engine, Envelope, Kind, Rest, State, StepError, Word, exit};

use crate::common::*;

/// Two stores that see the same remote, `desk` and `yard`.
fn two() -> (World, World) {
    let desk = World::new();
    let yard = World { store: desk.store.another("yard"), ..desk.clone() };
    (desk, yard)
}

/// Steps at both; each operation that runs, runs at most once.
async fn step_both(desk: &World, yard: &World) {
    for world in [desk, yard] {
        let _ = world.again().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handed_off_session_goes_on_there_and_only_there() {
    let (desk, yard) = two();
    desk.remote.script("t2", [Act::Refuse]);
    let step = desk.engine().step(desk.fresh(plan(&[("note", "t1"), ("note", "t2")]))).await.unwrap();
    assert!(until(&step) > 0);
    let sent = desk.engine().hand_off(&desk.session, "yard").await.unwrap();
    assert_eq!(
        sent.to_json().unwrap(),
        desk.engine().hand_off(&desk.session, "yard").await.unwrap().to_json().unwrap()
    );

    let rest = desk.again().await.unwrap().rest;
    assert!(matches!(&rest, Rest::HandedOff { to } if to == "yard"), "{rest:?}");
    let error = desk.say("w1", 2, Word::Skip).await.unwrap_err();
    assert!(matches!(&error, StepError::Elsewhere { home, .. } if home == "yard"), "{error:?}");
    let error = desk.engine().hand_off(&desk.session, "attic").await.unwrap_err();
    assert!(matches!(&error, StepError::Elsewhere { home, .. } if home == "yard"), "{error:?}");

    let sent = Envelope::parse(sent.to_json().unwrap().as_bytes()).unwrap();
    let taken = yard.engine().take_in(&sent).await.unwrap();
    let again = yard.engine().take_in(&sent).await.unwrap();
    assert_eq!(taken.envelope.session().head, again.envelope.session().head);
    assert_eq!(
        taken.envelope.session().epoch.value(),
        sent.session().handed_off.as_ref().unwrap().epoch.value()
    );
    yard.clock.add(400_000);
    finished(&yard.again().await.unwrap());
    assert_eq!((yard.remote.landings_of("t1"), yard.remote.landings_of("t2")), (1, 1));
    assert!(matches!(desk.again().await.unwrap().rest, Rest::HandedOff { .. }));
    yard.check().await;
    desk.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_handed_back_steps_at_its_old_home_again() {
    let (desk, yard) = two();
    desk.remote.script("t1", [Act::Refuse, Act::Refuse]);
    desk.engine().step(desk.fresh(plan(&[("note", "t1")]))).await.unwrap();
    let there = desk.engine().hand_off(&desk.session, "yard").await.unwrap();
    yard.clock.add(400_000);
    // A step takes in what was handed off to its store.
    let step = yard.engine().step(there.clone()).await.unwrap();
    assert!(until(&step) > 0);
    let back = yard.engine().hand_off(&yard.session, "desk").await.unwrap();
    desk.engine().take_in(&back).await.unwrap();
    desk.clock.add(400_000);
    finished(&desk.again().await.unwrap());
    assert!(matches!(yard.again().await.unwrap().rest, Rest::HandedOff { .. }));
    // The envelope of the first move is old news at both.
    assert!(matches!(yard.engine().step(there.clone()).await.unwrap().rest, Rest::HandedOff { .. }));
    assert!(matches!(yard.engine().take_in(&there).await.unwrap().rest, Rest::HandedOff { .. }));
    assert_eq!((desk.remote.calls_of("t1"), desk.remote.landings_of("t1")), (3, 1));
    desk.check().await;
}

#[tokio::test(start_paused = true)]
async fn killed_anywhere_on_its_way_it_steps_in_at_most_one_place() {
    let mut ends = 0;
    for export_polls in (1..60).chain([usize::MAX]) {
        for import_polls in [1, 2, 3, 5, 8, 11, 14, 17, 20, 23, 26, usize::MAX] {
            let (desk, yard) = two();
            desk.remote.script("t2", [Act::Refuse]);
            let said = r#","conversation":[{"role":"user","content":"hi"}]"#;
            let plan = plan_of("done", 1, &[("note", "t1"), ("note", "t2"), ("note", "t3")], said);
            desk.engine().step(desk.fresh(plan)).await.unwrap();
            for world in [&desk, &yard] {
                world.store.gives_way.store(true, Ordering::SeqCst);
            }
            let engine = desk.engine();
            let left = poll_times(engine.hand_off(&desk.session, "yard"), export_polls.min(10_000)).await;
            for world in [&desk, &yard] {
                world.store.gives_way.store(false, Ordering::SeqCst);
                world.store.expire(&world.session);
            }
            step_both(&desk, &yard).await;
            let sent = desk.engine().hand_off(&desk.session, "yard").await.unwrap();
            yard.store.gives_way.store(true, Ordering::SeqCst);
            let engine = yard.engine();
            let taken = poll_times(engine.take_in(&sent), import_polls.min(10_000)).await;
            yard.store.gives_way.store(false, Ordering::SeqCst);
            yard.store.expire(&yard.session);
            desk.clock.add(400_000);
            // Not wholly taken in: nothing runs anywhere. Taken in: there, and only there.
            step_both(&desk, &yard).await;
            if !taken && yard.commits().await.len() <= sent.commits().len() {
                assert_eq!(desk.remote.landings_of("t2"), 0, "it ran at a store that had not taken it in");
            }
            yard.engine().take_in(&sent).await.unwrap();
            finished(&yard.again().await.unwrap());
            for target in ["t1", "t2", "t3"] {
                assert_eq!(desk.remote.landings_of(target), 1, "{target}");
            }
            assert!(matches!(desk.again().await.unwrap().rest, Rest::HandedOff { .. }));
            assert_eq!(yard.engine().read(&yard.session).await.unwrap().conversation().len(), 1);
            desk.check().await;
            yard.check().await;
            ends += usize::from(left) + usize::from(taken);
        }
    }
    assert!(ends > 100, "some were not killed: {ends}");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_landed_keeps_a_session_where_it_is() {
    let (desk, _) = two();
    desk.remote.script("t1", [Act::Lost { landed: true }]);
    desk.engine().step(desk.fresh(plan(&[("mail", "t1")]))).await.unwrap();
    let before = desk.commits().await.len();
    let error = desk.engine().hand_off(&desk.session, "yard").await.unwrap_err();
    assert!(matches!(&error, StepError::InDoubt { op, .. } if op.value() == 1), "{error:?}");
    assert_eq!((error.code(), error.exit_code()), ("SE0805", exit::PERSON));
    assert_eq!(desk.commits().await.len(), before);
    desk.say("w1", 1, Word::Landed).await.unwrap();
    desk.engine().hand_off(&desk.session, "yard").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_can_be_looked_up_is_settled_before_it_leaves_and_nothing_is_started() {
    let (desk, yard) = two();
    desk.remote.script("t1", [Act::Lost { landed: true }]);
    desk.remote.looks([Look::Unknown]);
    desk.engine().step(desk.fresh(plan(&[("note", "t1"), ("note", "t2")]))).await.unwrap();
    assert_eq!(desk.state(1).await, State::InDoubt);
    desk.clock.add(OVER_MS + 10_000);
    let sent = desk.engine().hand_off(&desk.session, "yard").await.unwrap();
    assert_eq!(sent.session().operations[0].state, State::Succeeded);
    assert_eq!(desk.remote.calls_of("t2"), 0);
    finished(&yard.engine().step(sent).await.unwrap());
    assert_eq!(desk.remote.landings_of("t2"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_not_handed_off_steps_nowhere() {
    let (desk, yard) = two();
    desk.remote.script("t1", [Act::Refuse]);
    let step = desk.engine().step(desk.fresh(plan(&[("note", "t1")]))).await.unwrap();
    desk.clock.add(400_000);
    let text = step.envelope.clone().for_reading().to_json().unwrap();
    let copy = Envelope::parse(text.as_bytes()).unwrap();
    for world in [&desk, &yard] {
        let error = world.engine().step(copy.clone()).await.unwrap_err();
        assert_eq!(error.code(), "SE0803");
        let error = world.engine().take_in(&copy).await.unwrap_err();
        assert_eq!(error.code(), "SE0803");
    }
    // Without the mark it is refused all the same where it does not live.
    let error = yard.engine().step(step.envelope.clone()).await.unwrap_err();
    assert!(
        matches!(&error, StepError::NotHandedOff { home: Some(home), .. } if home == "desk"),
        "{error:?}"
    );
    let sent = desk.engine().hand_off(&desk.session, "attic").await.unwrap();
    let error = yard.engine().take_in(&sent).await.unwrap_err();
    assert!(
        matches!(&error, StepError::NotHandedOff { home: Some(home), .. } if home == "attic"),
        "{error:?}"
    );
    assert!(yard.commits().await.is_empty());
    assert_eq!(desk.remote.calls_of("t1"), 1);
}

fn outside(world: &World, allow: &[&str]) -> Engine {
    world.builder().from_outside(allow.iter().map(|kind| Kind::new(*kind).unwrap())).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_comes_from_outside_runs_only_the_kinds_that_were_allowed() {
    let (desk, yard) = two();
    let both = plan(&[("note", "t1"), ("mail", "t2")]);
    let error = outside(&desk, &["note"]).step(desk.fresh(both.clone())).await.unwrap_err();
    assert_eq!((error.code(), error.exit_code()), ("SE0217", exit::USAGE));
    assert!(error.to_string().contains("`mail`") && error.to_string().contains("$.operations[1]"), "{error}");
    assert!(desk.commits().await.is_empty());

    desk.remote.script("t2", [Act::Refuse]);
    desk.engine().step(desk.fresh(both)).await.unwrap();
    let sent = desk.engine().hand_off(&desk.session, "yard").await.unwrap();
    for allow in [&[][..], &["note"]] {
        let error = outside(&yard, allow).take_in(&sent).await.unwrap_err();
        assert_eq!(error.code(), "SE0217");
        let error = outside(&yard, allow).step(sent.clone()).await.unwrap_err();
        assert_eq!(error.code(), "SE0217");
    }
    assert!(yard.commits().await.is_empty());
    outside(&yard, &["mail"]).take_in(&sent).await.unwrap();
    yard.clock.add(400_000);
    let envelope = yard.check().await;
    assert_eq!(envelope.session().turns[0].allow.as_deref(), Some(&[Kind::new("mail").unwrap()][..]));
    // A stricter step refuses what is still to run; an unlimited one is bound by what was recorded.
    assert_eq!(outside(&yard, &["note"]).step(yard.bare()).await.unwrap_err().code(), "SE0217");
    finished(&yard.again().await.unwrap());
    assert_eq!(desk.remote.landings_of("t2"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plan_from_outside_keeps_its_limit_in_the_journal() {
    let (desk, _) = two();
    desk.remote.script("t1", [Act::Refuse]);
    outside(&desk, &["note"]).step(desk.fresh(plan(&[("note", "t1")]))).await.unwrap();
    let envelope = desk.check().await;
    assert_eq!(envelope.session().turns[0].allow.as_deref(), Some(&[Kind::new("note").unwrap()][..]));
    // The user's own next turn is not limited by it.
    desk.clock.add(400_000);
    finished(&desk.again().await.unwrap());
    let next = plan_of("more", 2, &[("mail", "t9")], "");
    finished(&desk.engine().step(desk.fresh(next)).await.unwrap());
}
