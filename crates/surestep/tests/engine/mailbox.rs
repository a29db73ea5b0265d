//! A person's word for a session that somebody holds: its owner folds it in.

use std::sync::Arc;

use surestep::{End, Engine, Entry, Request, Rest, State, StepError, Store as _, Word};

use crate::common::*;

/// Puts a word into the mailbox, as the command line does when the session is held.
fn posts(world: &World, request: Request) -> Hook {
    let (store, session) = (world.store.clone(), world.session.clone());
    let request = Arc::new(request);
    hook(move || {
        let (store, session, request) = (store.clone(), session.clone(), request.clone());
        async move { store.request(&session, &request).await.unwrap() }
    })
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_arrives_during_an_effect_is_folded_into_its_settle() {
    let world = World::new();
    let cancel = world.word("c1", 1, Word::Cancel);
    world.remote.script("t1", [Act::LandThen(posts(&world, cancel))]);
    let step = world.engine().step(world.fresh(plan(&[("note", "t1"), ("note", "t2")]))).await.unwrap();
    let report = finished(&step);
    assert_eq!(report.outcome, End::Cancelled);
    assert_eq!((world.remote.landings_of("t1"), world.remote.calls_of("t2")), (1, 0));
    let commits = world.commits().await;
    let tags: Vec<_> = commits.last().unwrap().entries().iter().map(Entry::tag).collect();
    assert_eq!(tags, ["succeeded", "cancelled", "finished", "released"]);
    assert_eq!(commits.len(), 2);
    assert_eq!(world.state(1).await, State::Succeeded);
    assert_eq!(world.state(2).await, State::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_arrives_while_another_operation_runs_is_used() {
    let world = World::new();
    let yes = world.word("a1", 2, Word::Approve);
    world.remote.script("t1", [Act::LandThen(posts(&world, yes))]);
    let gated = plan(&[("note", "t1"), ("note", r#"t2,"approval":"required""#)]);
    finished(&world.engine().step(world.fresh(gated)).await.unwrap());
    assert_eq!(world.remote.landings_of("t2"), 1);
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_left_in_the_mailbox_of_a_resting_session_is_folded_by_the_next_step() {
    let world = World::new();
    world.remote.script("t1", [Act::Lost { landed: true }]);
    let step = world.engine().step(world.fresh(plan(&[("mail", "t1"), ("mail", "t2")]))).await.unwrap();
    question(&step);
    let word = world.word("l1", 1, Word::Landed);
    world.store.request(&world.session, &word).await.unwrap();
    finished(&world.again().await.unwrap());
    assert_eq!((world.remote.calls_of("t1"), world.remote.landings_of("t2")), (1, 1));
    // Once folded it does nothing more, though this store never forgets it.
    let commits = world.commits().await.len();
    world.again().await.unwrap();
    assert_eq!(world.commits().await.len(), commits);
}

#[tokio::test(start_paused = true)]
async fn not_landed_that_was_said_while_it_could_still_land_is_never_believed_later() {
    for word in [Word::NotLanded, Word::NotLandedNow] {
        let world = World::new();
        world.remote.script("t1", [Act::Lost { landed: true }]);
        question(&world.engine().step(world.fresh(plan(&[("mail", "t1")]))).await.unwrap());
        let said = world.word("n1", 1, word);
        let error = world.engine().post(&world.session, &said).await.unwrap_err();
        assert_eq!((error.code(), error.exit_code()), ("SE0402", surestep::exit::HELD));
        // One that stands in the mailbox all the same changes nothing either.
        world.store.request(&world.session, &said).await.unwrap();
        world.clock.add(OVER_MS);
        question(&world.again().await.unwrap());
        assert_eq!((world.remote.calls_of("t1"), world.remote.landings_of("t1")), (1, 1));
        let waiting = world.engine().mailbox(&world.session).await.unwrap();
        assert!(matches!(waiting.as_slice(), [(_, Some(surestep::Refused::Held { .. }))]), "{waiting:?}");
        // Said now, while nobody is at it, it is an answer.
        world.say("n2", 1, Word::NotLanded).await.unwrap();
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_goes_before_a_yes_whichever_came_first() {
    for (yes, no) in [("a", "b"), ("b", "a")] {
        let world = World::new();
        world.remote.always("t1", Act::Ok);
        let (yes, no) = (world.word(yes, 2, Word::Approve), world.word(no, 2, Word::Deny));
        let gated = plan(&[("note", "t1"), ("note", r#"t2,"approval":"required""#)]);
        world.remote.script("t1", [Act::LandThen(posts(&world, yes)), Act::Ok]);
        world.store.request(&world.session, &no).await.unwrap();
        let step = world.engine().step(world.fresh(gated)).await.unwrap();
        let _ = world.again().await.unwrap_or(step);
        assert_eq!(world.remote.calls_of("t2"), 0);
        assert_eq!(world.state(2).await, State::Denied);
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_about_an_attempt_that_has_moved_on_changes_nothing_and_is_reported() {
    let world = World::new();
    world.remote.script("t1", [Act::Refuse, Act::Lost { landed: true }]);
    until(&world.engine().step(world.fresh(plan(&[("mail", "t1")]))).await.unwrap());
    world.clock.add(400_000);
    question(&world.again().await.unwrap());
    let mut word = world.word("old", 1, Word::Landed);
    word.attempt = Some(surestep::core::Attempt::new(1));
    world.store.request(&world.session, &word).await.unwrap();
    let before = world.commits().await.len();
    question(&world.again().await.unwrap());
    assert_eq!((world.commits().await.len(), world.remote.calls_of("t1")), (before, 2));
    let waiting = world.engine().mailbox(&world.session).await.unwrap();
    let [(request, Some(refused))] = waiting.as_slice() else { panic!("{waiting:?}") };
    assert_eq!(request.id.as_str(), "old");
    assert!(refused.to_string().contains("attempt"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_turn_that_waits_for_a_person_once_its_doubt_is_settled() {
    let world = World::new();
    world.remote.script("t1", [Act::Lost { landed: true }]);
    question(&world.engine().step(world.fresh(plan(&[("mail", "t1"), ("mail", "t2")]))).await.unwrap());
    let cancel = world.word("c1", 1, Word::Cancel);
    world.store.request(&world.session, &cancel).await.unwrap();
    question(&world.again().await.unwrap());
    world.say("l1", 1, Word::Landed).await.unwrap();
    let rest = world.again().await.unwrap().rest;
    let Rest::Finished(report) = rest else { panic!("{rest:?}") };
    assert_eq!(report.outcome, End::Cancelled);
    assert_eq!(world.remote.calls_of("t2"), 0);
    world.check().await;
}

#[tokio::test(start_paused = true)]
async fn two_equal_gated_operations_need_two_answers_and_one_yes_survives_a_kill() {
    let world = World::new();
    let gated = plan(&[("note", r#"t1,"approval":"required""#), ("note", r#"t1,"approval":"required""#)]);
    let engine: Engine = world.engine();
    question(&engine.step(world.fresh(gated)).await.unwrap());
    world.say("a1", 1, Word::Approve).await.unwrap();
    // The owner dies before the intent: the yes is in the journal.
    drop(engine);
    let step = world.again().await.unwrap();
    assert_eq!(question(&step).op.value(), 2);
    assert_eq!(world.remote.landings_of("t1"), 1);
    let error = world.say("a2", 1, Word::Approve).await.unwrap_err();
    assert!(matches!(error, StepError::Refused(_)), "{error:?}");
    world.say("a3", 2, Word::Deny).await.unwrap();
    let step = world.again().await.unwrap();
    assert_eq!(finished(&step).outcome, End::Failed);
    assert_eq!(world.state(2).await, State::Denied);
    assert_eq!(world.remote.landings_of("t1"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_running_effect_is_told_of_a_cancel_within_a_second_or_two() {
    let world = World::new();
    let seen = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let effect =
        Patient { store: world.store.clone(), word: world.word("c1", 1, Word::Cancel), seen: seen.clone() };
    let engine = Engine::builder(world.store.clone())
        .effect(effect, surestep::Recovery::halt())
        .clock(world.clock.clone())
        .build()
        .unwrap();
    let step = engine.step(world.fresh(plan(&[("patient", "t1"), ("patient", "t2")]))).await.unwrap();
    assert_eq!(finished(&step).outcome, End::Cancelled);
    assert!(seen.load(std::sync::atomic::Ordering::SeqCst));
}

/// Posts a cancel for its own turn, one for another turn before that, and waits until it is told.
struct Patient {
    store: Faulty,
    word: Request,
    seen: Arc<std::sync::atomic::AtomicBool>,
}

#[async_trait::async_trait]
impl surestep::Effect for Patient {
    fn kind(&self) -> surestep::Kind {
        surestep::Kind::new("patient").unwrap()
    }

    fn terms(&self, _: &surestep::Planned<'_>) -> Result<surestep::Terms, surestep::Fault> {
        Ok(surestep::Terms::remote(30_000, 0))
    }

    async fn execute(&self, attempt: &surestep::Attempt) -> Result<surestep::Outcome, surestep::Fault> {
        let mut stale = self.word.clone();
        stale.id = surestep::RequestId::new("stale").unwrap();
        stale.turn = Some(surestep::TurnNumber::new(9));
        self.store.request(&attempt.call.session, &stale).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        assert!(!attempt.cancel.is_set(), "a cancel of another turn");
        self.store.request(&attempt.call.session, &self.word).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        self.seen.store(attempt.cancel.is_set(), std::sync::atomic::Ordering::SeqCst);
        Ok(surestep::Outcome::landed("done"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_came_too_late_for_its_turn_does_not_cancel_the_next_one() {
    let world = World::new();
    finished(&world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap());
    let mut cancel = world.word("c1", 1, Word::Cancel);
    cancel.turn = Some(surestep::TurnNumber::FIRST);
    world.store.request(&world.session, &cancel).await.unwrap();
    let step = world.engine().step(world.fresh(plan_of("two", 2, &[("note", "t2")], ""))).await.unwrap();
    assert_eq!(finished(&step).outcome, End::Completed);
    assert_eq!(world.remote.landings_of("t2"), 1);
}
