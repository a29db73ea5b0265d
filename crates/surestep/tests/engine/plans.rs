//! Binding and re-entry: what is refused is refused before anything is written; what is bound stays bound.

use std::future::Future as _;

use surestep::core::Compared;
use surestep::{
    Engine, Envelope, Plan, PlanError, Recovery, Rest, SessionId, State, StepError, TurnNumber, Wait,
};

use crate::common::*;

/// Nothing was published, held, called or asked.
fn untouched(world: &World) {
    assert_eq!((world.store.published(), world.store.holds()), (0, 0));
    assert_eq!((world.remote.calls().len(), world.remote.asked()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_is_refused_before_anything_is_written() {
    let world = World::new();
    let error = world.engine().step(world.fresh(plan(&[("note", "t1"), ("fax", "t2")]))).await.unwrap_err();
    let StepError::Plan(PlanError::UnknownKind { kind, path, known }) = &error else { panic!("{error:?}") };
    assert_eq!((kind.as_str(), path.as_str()), ("fax", "$.operations[1]"));
    assert!(known.contains("note") && known.contains("mail"));
    assert_eq!(error.exit_code(), surestep::exit::USAGE);
    untouched(&world);
}

#[tokio::test(start_paused = true)]
async fn what_a_kind_refuses_at_bind_is_refused_before_anything_is_written() {
    let world = World::new();
    let the_plan = plan(&[("note", "t1"), ("note", "refused-at-bind")]);
    let error = world.engine().step(world.fresh(the_plan)).await.unwrap_err();
    assert!(matches!(&error, StepError::Plan(PlanError::Refused { path, .. }) if path == "$.operations[1]"));
    for more in ["\"deadline_s\":0", "\"attempts\":0", "\"lag_s\":100000"] {
        let error =
            world.engine().step(world.fresh(plan(&[("note", &format!("t1,{more}"))]))).await.unwrap_err();
        assert!(matches!(error, StepError::Plan(_)), "{more}");
    }
    untouched(&world);
}

/// C010: a process that lacks the kind of a bound operation does nothing.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_registered_on_resume_is_refused_before_anything_is_written() {
    for polls in [4, usize::MAX] {
        let world = World::new();
        world.remote.script("t1", [Act::Hang { landed: true }]);
        let the_plan = plan(&[("note", "t1"), ("mail", "m")]);
        if polls < 10 {
            poll_times(world.engine().step(world.fresh(the_plan)), polls).await;
        } else {
            world.remote.script("t1", [Act::Ok]);
            world.remote.look_always(Look::Blind);
            world.engine().step(world.fresh(the_plan)).await.unwrap();
        }
        let (published, held, calls) =
            (world.store.published(), world.store.holds(), world.remote.calls().len());
        let without = Engine::builder(world.store.clone())
            .effect(world.sink("note"), Recovery::ask(world.sink("note")))
            .clock(world.clock.clone())
            .build()
            .unwrap();
        world.clock.add(OVER_MS);
        let error = without.step(world.bare()).await.unwrap_err();
        assert!(
            matches!(&error, StepError::Plan(PlanError::UnknownKind { kind, .. }) if kind.as_str() == "mail")
        );
        assert_eq!((world.store.published(), world.store.holds()), (published, held));
        assert_eq!(world.remote.calls().len(), calls);
        world.check().await;
    }
}

/// A kind that only settled operations needed is not missed.
#[tokio::test(start_paused = true)]
async fn a_kind_that_only_settled_operations_need_is_not_missed() {
    let world = World::new();
    let step = world
        .engine()
        .step(world.fresh(plan(&[("mail", "m"), ("note", "t2,\"approval\":\"required\"")])))
        .await;
    question(&step.unwrap());
    world.say("r1", 2, surestep::Word::Approve).await.unwrap();
    let without = Engine::builder(world.store.clone())
        .effect(world.sink("note"), Recovery::ask(world.sink("note")))
        .clock(world.clock.clone())
        .build()
        .unwrap();
    assert_eq!(finished(&without.step(world.bare()).await.unwrap()).verdict, "done");
}

#[test]
fn a_kind_registered_twice_is_no_engine() {
    let world = World::new();
    let twice = Engine::builder(world.store.clone())
        .effect(world.sink("note"), Recovery::halt())
        .effect(world.sink("note"), Recovery::halt())
        .effect(world.sink("mail"), Recovery::halt())
        .build();
    assert!(twice.is_err());
}

/// C047.
#[tokio::test(start_paused = true)]
async fn another_plan_on_a_bound_turn_is_refused_with_both_digests() {
    let world = World::new();
    let bound = plan(&[("note", "t1"), ("mail", "m,\"approval\":\"required\"")]);
    question(&world.engine().step(world.fresh(bound.clone())).await.unwrap());
    let (published, held) = (world.store.published(), world.store.holds());
    let others = [
        plan(&[("note", "t1")]),
        plan(&[("note", "t2"), ("mail", "m,\"approval\":\"required\"")]),
        plan(&[]),
        plan_of("another verdict", 1, &[("note", "t1"), ("mail", "m,\"approval\":\"required\"")], ""),
    ];
    for other in others {
        let error = world.engine().step(world.fresh(other.clone())).await.unwrap_err();
        let StepError::Plan(PlanError::AlreadyBound { turn, bound: stands, offered }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(*turn, TurnNumber::FIRST);
        assert_eq!(*stands, bound.digest().unwrap());
        assert_eq!(*offered, other.digest().unwrap());
        assert!(
            error.to_string().contains(&stands.to_string())
                && error.to_string().contains(&offered.to_string())
        );
        assert_eq!(error.code(), "SE0207");
    }
    assert_eq!((world.store.published(), world.store.holds()), (published, held));
    // Nothing was dropped: the bound plan goes on.
    world.say("r1", 2, surestep::Word::Approve).await.unwrap();
    assert_eq!(finished(&world.engine().step(world.fresh(bound)).await.unwrap()).verdict, "done");
    world.check().await;
}

/// C048: no plan means: go on. It never starts over.
#[tokio::test(start_paused = true)]
async fn no_plan_goes_on_and_on_a_new_session_does_nothing() {
    let world = World::new();
    let step = world.again().await.unwrap();
    assert_eq!(step.rest, Rest::NoPlan);
    untouched(&world);
    let step = world.engine().step(world.fresh(plan(&[]))).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert!(finished(&step).operations.is_empty());
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_finished_turn_offered_its_own_plan_gives_its_report_without_touching_anything() {
    for act in [Act::Ok, Act::Never] {
        let world = World::new();
        world.remote.script("t1", [act]);
        let the_plan = plan(&[("note", "t1")]);
        let first = world.engine().step(world.fresh(the_plan.clone())).await.unwrap();
        let (published, held, calls) =
            (world.store.published(), world.store.holds(), world.remote.calls().len());
        for envelope in [
            world.fresh(the_plan.clone()),
            first.envelope.clone().with_plan(the_plan),
            first.envelope.clone(),
        ] {
            let again = world.engine().step(envelope).await.unwrap();
            assert_eq!(finished(&again), finished(&first));
        }
        assert_eq!((world.store.published(), world.store.holds()), (published, held));
        assert_eq!((world.remote.calls().len(), world.remote.asked()), (calls, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_turn_opens_only_by_its_number_once_the_first_is_finished() {
    let world = World::new();
    let turn = |n, target| plan_of(&format!("turn {n}"), n, &[("note", target)], "");
    for early in [2, 3] {
        let error = world.engine().step(world.fresh(turn(early, "t1"))).await.unwrap_err();
        assert!(matches!(error, StepError::Plan(PlanError::TurnOrder { .. })), "{error:?}");
    }
    untouched(&world);
    world.remote.script("t1", [Act::Refuse]);
    until(&world.engine().step(world.fresh(turn(1, "t1"))).await.unwrap());
    let published = world.store.published();
    let error = world.engine().step(world.fresh(turn(2, "t1"))).await.unwrap_err();
    assert!(matches!(error, StepError::Plan(PlanError::TurnOrder { finished: false, .. })), "{error:?}");
    assert_eq!(world.store.published(), published);
    let one = world.engine().drive(world.fresh(turn(1, "t1")), Wait::default()).await.unwrap();
    assert_eq!(finished(&one).verdict, "turn 1");
    let two = world.engine().step(one.envelope.clone().with_plan(turn(2, "t1"))).await.unwrap();
    assert_eq!(finished(&two).verdict, "turn 2");
    // Equal operations of two turns are two effects.
    assert_eq!(world.remote.landings(), ["t1", "t1"]);
    let keys: Vec<_> = two.envelope.session().operations.iter().map(|o| o.bound.key).collect();
    assert_ne!(keys[0], keys[1]);
    // The first turn's plan still gives the first turn's report.
    let again = world.engine().step(world.fresh(turn(1, "t1"))).await.unwrap();
    assert_eq!(finished(&again), finished(&one));
    assert_eq!(world.remote.calls().len(), 3);
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_failed_can_be_followed_by_another() {
    let world = World::new();
    world.remote.script("t1", [Act::Never]);
    let one = world
        .engine()
        .step(world.fresh(plan_of("a", 1, &[("note", "t1"), ("note", "t2")], "")))
        .await
        .unwrap();
    assert_eq!(finished(&one).verdict, "failed");
    assert_eq!(world.remote.calls_of("t2"), 0);
    let two = world.engine().step(world.fresh(plan_of("b", 2, &[("note", "t3")], ""))).await.unwrap();
    assert_eq!(finished(&two).verdict, "b");
    assert_eq!(world.remote.landings(), ["t3"]);
    world.check().await;
}

/// Two equal operations of one plan are two effects, on re-entry still two.
#[tokio::test(start_paused = true)]
async fn two_equal_operations_are_two_landings_however_often_it_is_stepped() {
    let world = World::new();
    world.remote.script("t1", [Act::Ok, Act::Lost { landed: true }]);
    let the_plan = plan(&[("note", "t1"), ("note", "t1")]);
    for _ in 0..3 {
        let step = world.engine().drive(world.fresh(the_plan.clone()), Wait::default()).await.unwrap();
        assert_eq!(finished(&step).verdict, "done");
        assert_eq!(world.remote.landings(), ["t1", "t1"]);
    }
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_for_another_session_is_refused() {
    let world = World::new();
    let the_plan = plan_of("done", 1, &[("note", "t1")], r#","session":"other""#);
    let error = world.engine().step(world.fresh(the_plan)).await.unwrap_err();
    assert!(matches!(error, StepError::Plan(PlanError::OtherSession { .. })));
    untouched(&world);
}

/// Words of explanation and call ids do not make another plan.
#[tokio::test(start_paused = true)]
async fn an_equal_plan_in_other_words_changes_nothing() {
    let world = World::new();
    let first =
        plan_of("done", 1, &[("note", "t1,\"call_id\":\"c1\""), ("mail", "m,\"approval\":\"required\"")], "");
    let words = r#","rationale":"I thought again","task":"other words","ext":{"n":1}"#;
    let second = plan_of(
        "done",
        1,
        &[("note", "t1,\"call_id\":\"c2\""), ("mail", "m,\"approval\":\"required\"")],
        words,
    );
    question(&world.engine().step(world.fresh(first)).await.unwrap());
    let published = world.store.published();
    question(&world.engine().step(world.fresh(second)).await.unwrap());
    assert_eq!((world.store.published(), world.remote.calls().len()), (published, 1));
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_older_envelope_of_the_same_chain_goes_on_from_the_head() {
    let world = World::new();
    world.remote.script("t2", [Act::Refuse]);
    let the_plan = plan(&[("note", "t1"), ("note", "t2"), ("mail", "m")]);
    let old = world.engine().step(world.fresh(the_plan.clone())).await.unwrap();
    assert!(until(&old) > 0);
    let older = Envelope::from_commits(world.session.clone(), world.commits().await[..1].to_vec()).unwrap();
    let done = world.engine().drive(old.envelope.clone(), Wait::default()).await.unwrap();
    let calls = world.remote.calls().len();
    for envelope in [older, old.envelope] {
        let step = world.engine().step(envelope).await.unwrap();
        assert_eq!(finished(&step), finished(&done));
        assert_eq!(step.envelope.session().revision, done.envelope.session().revision);
    }
    assert_eq!(world.remote.calls().len(), calls);
}

#[tokio::test(start_paused = true)]
async fn an_envelope_of_another_chain_has_diverged_and_nothing_is_done() {
    let (here, there) = (World::new(), World::new());
    let the_plan = plan(&[("note", "t1"), ("mail", "m,\"approval\":\"required\"")]);
    let ours = here.engine().step(here.fresh(the_plan.clone())).await.unwrap();
    let theirs = there.engine().step(there.fresh(the_plan)).await.unwrap();
    assert_eq!(ours.envelope.session().revision, theirs.envelope.session().revision);
    let (published, held) = (here.store.published(), here.store.holds());
    let error = here.engine().step(theirs.envelope.clone()).await.unwrap_err();
    let StepError::Diverged { revision, ours: at_ours, theirs: at_theirs, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*revision, theirs.envelope.session().revision);
    assert_eq!((*at_ours, Some(*at_theirs)), (ours.envelope.session().head, theirs.envelope.session().head));
    assert_eq!(error.exit_code(), surestep::exit::DIVERGED);
    assert_eq!((here.store.published(), here.store.holds()), (published, held));
    assert_eq!(here.remote.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_envelope_ahead_of_its_store_is_refused() {
    let (here, there) = (World::new(), World::new());
    let step = there.engine().step(there.fresh(plan(&[("note", "t1")]))).await.unwrap();
    let error = here.engine().step(step.envelope).await.unwrap_err();
    let StepError::StoreBehind { ours, theirs, .. } = &error else { panic!("{error:?}") };
    assert_eq!((ours.value(), theirs.value()), (0, 2));
    assert_eq!(error.exit_code(), surestep::exit::INTEGRITY);
    untouched(&here);
}

/// The envelope that a step gives back is whole: it can be written, read and stepped elsewhere.
#[tokio::test(start_paused = true)]
async fn every_envelope_that_a_step_gives_back_survives_its_own_bytes() {
    let world = World::new();
    let said = |n| format!(r#","conversation":[{{"role":"user","n":{n}E2}},{{"role":"tool","text":"ä"}}]"#);
    let mut envelope = world.bare();
    for turn in 1..=3 {
        world.remote.script("t1", [Act::Lost { landed: true }]);
        let the_plan = plan_of("done", turn, &[("note", "t1"), ("note", "t2")], &said(turn));
        let step = world.engine().drive(envelope.with_plan(the_plan), Wait::default()).await.unwrap();
        assert_eq!(finished(&step).verdict, "done");
        assert_eq!(
            step.envelope.conversation().len(),
            2 * turn as usize,
            "turn {turn}: the whole conversation"
        );
        let json = step.envelope.to_json().unwrap();
        envelope = Envelope::parse(json.as_bytes()).unwrap();
        assert_eq!(envelope.to_json().unwrap(), json);
        let read = world.engine().read(&world.session).await.unwrap();
        assert_eq!(read.to_json().unwrap(), json, "turn {turn}: as it is read from the store");
    }
    world.check().await;
}

/// What the caller keeps in `ext` and in unknown fields comes back.
#[tokio::test(start_paused = true)]
async fn what_the_caller_put_into_the_envelope_comes_back() {
    let world = World::new();
    let json = world.bare().to_json().unwrap();
    let json = json.replacen('{', r#"{"ext":{"ticket":1E2},"x-team":[1.10],"#, 1);
    let envelope = Envelope::parse(json.as_bytes()).unwrap();
    let step = world.engine().step(envelope.with_plan(plan(&[("note", "t1")]))).await.unwrap();
    let out = step.envelope.to_json().unwrap();
    assert!(out.contains(r#"{"ticket":1E2}"#) && out.contains("[1.10]"), "{out}");
}

#[tokio::test(start_paused = true)]
async fn a_plan_inside_an_envelopes_bytes_is_bound_by_a_step() {
    let world = World::new();
    let json = world.fresh(plan(&[("note", "t1")])).to_json().unwrap();
    let step = world.engine().step(Envelope::parse(json.as_bytes()).unwrap()).await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
}

#[tokio::test(start_paused = true)]
async fn reading_a_session_that_is_not_there_says_so() {
    let world = World::new();
    let error = world.engine().read(&SessionId::new("other").unwrap()).await.unwrap_err();
    assert!(matches!(error, StepError::NoSuchSession { .. }));
    assert_eq!(error.exit_code(), surestep::exit::NO_SUCH);
}

/// Between a step's first read and its hold, a rival may bind another plan.
#[tokio::test(start_paused = true)]
async fn a_plan_that_was_bound_by_a_rival_meanwhile_is_compared_again_under_the_hold() {
    let world = World::new();
    let others = world.clone();
    // Between the first read and the hold, a rival binds another plan and rests.
    let rival = hook(move || {
        let world = others.clone();
        async move {
            let the_plan = plan(&[("mail", "m,\"approval\":\"required\"")]);
            question(&world.engine().step(world.fresh(the_plan)).await.unwrap());
        }
    });
    world.store.gives_way.store(true, std::sync::atomic::Ordering::SeqCst);
    let mine = world.engine();
    let mut step = Box::pin(mine.step(world.fresh(plan(&[("note", "t1")]))));
    for _ in 0..2 {
        std::future::poll_fn(|cx| {
            assert!(step.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    }
    rival().await;
    let error = step.await.unwrap_err();
    assert!(matches!(error, StepError::Plan(PlanError::AlreadyBound { .. })), "{error:?}");
    assert_eq!(world.remote.calls().len(), 0);
    assert_eq!(world.state(1).await, State::AwaitingApproval);
    let stored = world.check().await;
    assert_eq!(
        stored.compare(&plan(&[("mail", "m,\"approval\":\"required\"")])).unwrap(),
        Compared::Same(TurnNumber::FIRST)
    );
}

#[test]
fn a_plan_with_a_field_that_nobody_reads_is_refused() {
    let text = br#"{"format":"surestep.plan/1","verdict":"v","operation":[],"operations":[]}"#;
    assert!(matches!(Plan::parse(text), Err(PlanError::UnknownField { .. })));
}
