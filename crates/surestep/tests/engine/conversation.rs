//! I10: every call in the conversation has exactly one result, and it is what the journal knows.

use surestep::core::Raw;
use surestep::core::commit::CommitFields;
use surestep::{Commit, Entry, Envelope, Plan, PlanError, Rest, State, StepError, Store as _, Wait, Word};

use crate::common::*;

/// `$ID` stands for a call's id: a call and its result in one of the shapes.
struct Shape {
    /// The message with three calls.
    calls: &'static str,
    /// The result of the first.
    result: &'static str,
}

const SHAPES: [Shape; 3] = [
    Shape {
        calls: r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function"},{"id":"c2"},{"id":"c3"}]}"#,
        result: r#"{"role":"tool","tool_call_id":"c1","content":"ok"}"#,
    },
    Shape {
        calls: r#"{"type":"function_call","call_id":"c1"},{"type":"function_call","call_id":"c2"},{"type":"function_call","call_id":"c3"}"#,
        result: r#"{"type":"function_call_output","call_id":"c1","output":"ok"}"#,
    },
    Shape {
        calls: r#"{"role":"assistant","content":[{"type":"text","text":"go"},{"type":"tool_use","id":"c1"},{"type":"tool_use","id":"c2"},{"type":"tool_use","id":"c3"}]}"#,
        result: r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"ok"}]}"#,
    },
];

/// A plan of operations that carry call ids, with these messages.
fn talk(turn: u32, operations: &[(&str, &str)], messages: &str) -> Plan {
    plan_of("done", turn, operations, &format!(r#","conversation":[{messages}]"#))
}

/// The results that a conversation gives to a call, each as the text that a model reads. Messages are canonical.
fn results(messages: &[Raw], id: &str) -> Vec<String> {
    let forms = [
        (r#"{"content":""#.to_owned(), format!(r#"","role":"tool","tool_call_id":"{id}"}}"#)),
        (format!(r#"{{"call_id":"{id}","output":""#), r#"","type":"function_call_output"}"#.to_owned()),
        (r#"{"content":""#.to_owned(), format!(r#"","tool_use_id":"{id}","type":"tool_result"}}"#)),
    ];
    let mut out = Vec::new();
    for message in messages.iter().map(Raw::as_str) {
        for (before, after) in &forms {
            for (end, _) in message.match_indices(after.as_str()) {
                let text = message[..end].rsplit_once(before.as_str());
                out.extend(text.map(|(_, text)| text.to_owned()));
            }
        }
    }
    out
}

fn of(envelope: &Envelope, id: &str) -> Vec<String> {
    results(envelope.conversation(), id)
}

/// C111: three calls, a result for one, and the process is gone.
#[tokio::test(start_paused = true)]
async fn every_call_gets_exactly_one_result_after_a_kill() {
    for shape in SHAPES {
        let world = World::new();
        world.remote.script("t2", [Act::Hang { landed: true }]);
        world.remote.look_always(Look::Unknown);
        let operations = [
            ("note", r#"t1,"call_id":"c1""#),
            ("mail", r#"t2,"call_id":"c2""#),
            ("note", r#"t3,"call_id":"c3""#),
        ];
        let messages = format!("{},{}", shape.calls, shape.result);
        let said = Plan::parse(
            format!(r#"{{"format":"surestep.plan/1","operations":[],"conversation":[{messages}]}}"#)
                .as_bytes(),
        );
        let said = said.unwrap().conversation.unwrap().len();
        assert!(!poll_times(world.engine().step(world.fresh(talk(1, &operations, &messages))), 60).await);

        // The process is gone; another one reads what a model may be told meanwhile.
        world.clock.add(OVER_MS);
        let step = world.again().await.unwrap();
        assert_eq!(world.state(2).await, State::InDoubt);
        question(&step);
        assert_eq!(step.envelope.conversation().len(), said, "nothing is kept before the turn is over");
        let view = step.envelope.conversation_with_results();
        assert_eq!(results(&view, "c1"), ["ok"]);
        assert_eq!(results(&view, "c2"), ["outcome unknown, do not repeat"]);
        assert_eq!(results(&view, "c3"), ["not started"]);

        // A person leaves the second as it is and cancels the rest.
        world.say("r1", 2, Word::Skip).await.unwrap();
        let step = world.say("r2", 0, Word::Cancel).await.unwrap();
        assert!(matches!(step.rest, Rest::Finished(_)), "{:?}", step.rest);
        assert_eq!(of(&step.envelope, "c1"), ["ok"]);
        assert_eq!(of(&step.envelope, "c2"), ["outcome unknown, do not repeat"]);
        assert_eq!(of(&step.envelope, "c3"), ["cancelled"]);
        assert_eq!(step.envelope.conversation_with_results(), step.envelope.conversation());

        // Once, and never again: from the stored bytes, and through the envelope's.
        let published = world.store.published();
        let again = world.again().await.unwrap();
        let bytes = again.envelope.to_json().unwrap();
        assert_eq!(bytes, step.envelope.to_json().unwrap());
        let carried = world.engine().step(Envelope::parse(bytes.as_bytes()).unwrap()).await.unwrap();
        assert_eq!((carried.envelope.to_json().unwrap(), world.store.published()), (bytes, published));
        world.check().await;
    }
}

const CALLS: &str = r#"{"role":"assistant","tool_calls":[{"id":"c1"},{"id":"c2"},{"id":"c3"},{"id":"c4"}]}"#;

/// C114: what succeeded is said to have succeeded; what no operation carries is unknown.
#[tokio::test(start_paused = true)]
async fn results_say_what_the_journal_knows() {
    let world = World::new();
    world.remote.script("t2", [Act::Never]);
    let operations = [
        ("note", r#"t1,"call_id":"c1""#),
        ("note", r#"t2,"call_id":"c2""#),
        ("note", r#"t3,"call_id":"c3""#),
    ];
    let step = world.engine().step(world.fresh(talk(1, &operations, CALLS))).await.unwrap();
    let key = step.envelope.session().operations[0].bound.key;
    assert_eq!(of(&step.envelope, "c1"), [format!("succeeded, ref {key}")]);
    assert_eq!(of(&step.envelope, "c2"), ["failed: refused: 422"]);
    assert_eq!(of(&step.envelope, "c3"), ["not started"]);
    assert_eq!(of(&step.envelope, "c4"), ["outcome unknown, do not repeat"]);
    assert_eq!(step.envelope.conversation().len(), 5);
    world.check().await;
}

/// A denied call, and one that ran under an operation of two.
#[tokio::test(start_paused = true)]
async fn a_denial_is_a_result_and_two_operations_of_one_call_are_two_lines() {
    let world = World::new();
    let operations = [
        ("note", r#"t1,"call_id":"c1""#),
        ("note", r#"t2,"call_id":"c1""#),
        ("note", r#"t3,"call_id":"c2","approval":"required""#),
    ];
    let calls = CALLS.replace(r#",{"id":"c3"},{"id":"c4"}"#, "");
    question(&world.engine().step(world.fresh(talk(1, &operations, &calls))).await.unwrap());
    let step = world.say("r1", 3, Word::Deny).await.unwrap();
    assert!(matches!(step.rest, Rest::Finished(_)), "{:?}", step.rest);
    let [one] = &of(&step.envelope, "c1")[..] else { panic!("{:?}", step.envelope.conversation()) };
    assert!(one.starts_with("operation 1 (note): succeeded, ref v1:"), "{one}");
    assert!(one.contains(r"\noperation 2 (note): succeeded, ref v1:"), "{one}");
    assert_eq!(of(&step.envelope, "c2"), ["denied by a person"]);
    world.check().await;
}

/// The results cost no commit, and without calls nothing is said at all.
#[tokio::test(start_paused = true)]
async fn results_are_part_of_the_commit_that_ends_the_turn() {
    for (messages, said) in [(CALLS, 2), (r#"{"role":"user","content":"hi"}"#, 1)] {
        let world = World::new();
        let step =
            world.engine().step(world.fresh(talk(1, &[("note", "t1"), ("note", "t2")], messages))).await;
        finished(&step.unwrap());
        assert_eq!(world.store.published(), 3);
        let tags = world.tags().await;
        assert_eq!(tags.iter().filter(|tag| **tag == "said").count(), said, "{tags:?}");
        let end = if said == 2 {
            &["said", "finished", "released"][..]
        } else {
            &["succeeded", "finished", "released"]
        };
        assert_eq!(&tags[tags.len() - 3..], end);
        world.check().await;
    }
}

/// A crash or a failing store at any point: the results are there once the turn is over, and never twice.
#[tokio::test(start_paused = true)]
async fn results_are_kept_once_whatever_goes_wrong_on_the_way() {
    let operations = [("note", r#"t1,"call_id":"c1""#), ("note", r#"t2,"call_id":"c2""#)];
    let troubles =
        [Trouble::NotCommitted, Trouble::IndeterminateStored, Trouble::IndeterminateLost, Trouble::HoldLost];
    let mut ways: Vec<(usize, Option<Trouble>)> = (1..80).map(|polls| (polls, None)).collect();
    ways.extend(troubles.iter().flat_map(|t| (1..=3).map(|k| (k, Some(t.clone())))));
    for (k, trouble) in ways {
        let world = World::new();
        world.store.gives_way.store(true, std::sync::atomic::Ordering::SeqCst);
        let envelope = world.fresh(talk(1, &operations, CALLS));
        match trouble {
            None => drop(poll_times(world.engine().step(envelope.clone()), k).await),
            Some(trouble) => {
                world.store.trouble_at(k, trouble);
                drop(world.engine().step(envelope.clone()).await);
            }
        }
        world.check().await;
        world.clock.add(OVER_MS);
        let step = world.engine().drive(envelope, Wait { limit: None, held: true }).await.unwrap();
        assert_eq!(finished(&step).verdict, "done");
        for id in ["c1", "c2", "c3", "c4"] {
            let unknown = of(&step.envelope, id) == ["outcome unknown, do not repeat"];
            assert_eq!((of(&step.envelope, id).len(), unknown), (1, id > "c2"), "{k}: {id}");
        }
        assert_eq!(world.tags().await.iter().filter(|tag| **tag == "said").count(), 2, "{k}");
        world.check().await;
    }
}

/// Room is made for a settle, and not for the results: a landing is kept where these cannot be written.
#[tokio::test(start_paused = true)]
async fn a_landing_is_kept_where_the_results_cannot_be_written() {
    let world = World::new();
    world.store.trouble_at(2, Trouble::NotCommitted);
    let envelope = world.fresh(talk(1, &[("mail", r#"m,"call_id":"c1""#)], CALLS));
    let error = world.engine().step(envelope).await.unwrap_err();
    assert!(matches!(error, StepError::Store { observed: None, indeterminate: false, .. }), "{error:?}");
    assert_eq!(world.state(1).await, State::Succeeded, "nobody is asked");
    assert_eq!(world.tags().await.last(), Some(&"released"));
    let step = world.again().await.unwrap();
    assert_eq!(finished(&step).verdict, "done");
    assert!(of(&step.envelope, "c1")[0].starts_with("succeeded, ref "));
    assert_eq!(world.remote.calls().len(), 1);
    world.check().await;
}

/// What does not pair is refused with its place, before anything is written; in a later turn too.
#[tokio::test(start_paused = true)]
async fn messages_that_do_not_pair_are_refused_with_their_path() {
    let user = r#"{"role":"user","content":"hi"}"#;
    for shape in SHAPES {
        for (messages, ends) in [
            (format!("{user},{}", shape.result), "a result, and no call `c1` before it"),
            (format!("{},{r},{r}", shape.calls, r = shape.result), "the call `c1` has a result already"),
            (format!("{c},{c}", c = shape.calls), "the call id `c1` is that of an earlier call"),
        ] {
            let world = World::new();
            let refused = |error: StepError| {
                assert_eq!((error.code(), error.exit_code()), ("SE0214", surestep::exit::USAGE));
                let StepError::Plan(PlanError::Unpaired { path, why }) = error else { panic!() };
                assert_eq!(why, ends);
                path
            };
            let path = refused(world.engine().step(world.fresh(talk(1, &[], &messages))).await.unwrap_err());
            assert!(path.starts_with("$.conversation["), "{path}");
            assert_eq!((world.store.published(), world.store.holds()), (0, 0));

            // The same over two turns: the first says the call, and ends with a result for it.
            if !ends.starts_with("a result,") {
                finished(&world.engine().step(world.fresh(talk(1, &[], shape.calls))).await.unwrap());
                let again = if ends.contains("id") { shape.calls } else { shape.result };
                let (published, holds) = (world.store.published(), world.store.holds());
                let path = refused(world.engine().step(world.fresh(talk(2, &[], again))).await.unwrap_err());
                assert!(path.starts_with("$.conversation[0]."), "{path}");
                assert_eq!((world.store.published(), world.store.holds()), (published, holds));
            }
        }
    }
}

/// A journal from before this was enforced: its calls get their results before the next turn says anything, except
/// for those whose results the next turn brings.
#[tokio::test(start_paused = true)]
async fn an_older_journal_is_repaired_before_the_next_turn() {
    let world = World::new();
    let operations = [("note", r#"t1,"call_id":"c1""#)];
    finished(&world.engine().step(world.fresh(talk(1, &operations, CALLS))).await.unwrap());
    let older = World::new();
    let hold = older.store.hold(&older.session).await.unwrap();
    let mut prev = None;
    for commit in world.commits().await {
        let mut fields = commit.into_fields();
        if fields.entries.iter().any(|e| matches!(e, Entry::Finished(_))) {
            fields.entries.retain(|e| !matches!(e, Entry::Said(_)));
        }
        let commit = Commit::seal(CommitFields { prev, ..fields }).unwrap();
        prev = Some(commit.sum());
        let list = format!("[{CALLS}]");
        older
            .store
            .publish(&hold, &commit, &[surestep::Blob::of(canonical(&list).into_bytes())])
            .await
            .unwrap();
    }
    drop(hold);
    let step = older.again().await.unwrap();
    assert_eq!(step.envelope.conversation().len(), 1);
    let view = step.envelope.conversation_with_results();
    assert!(results(&view, "c1")[0].starts_with("succeeded, ref "), "never shown as interrupted");
    assert_eq!(results(&view, "c2"), ["outcome unknown, do not repeat"]);

    let late = r#"{"role":"tool","tool_call_id":"c3","content":"the host knew"}"#;
    let step = older.engine().step(older.fresh(talk(2, &[("note", "t1")], late))).await.unwrap();
    finished(&step);
    assert!(of(&step.envelope, "c1")[0].starts_with("succeeded, ref "));
    assert_eq!(of(&step.envelope, "c2"), ["outcome unknown, do not repeat"]);
    assert_eq!(of(&step.envelope, "c3"), ["the host knew"]);
    assert_eq!(of(&step.envelope, "c4"), ["outcome unknown, do not repeat"]);
    assert_eq!(step.envelope.conversation().len(), 5);
    assert_eq!(results(&step.envelope.conversation()[..4], "c3"), [""; 0], "the repair comes first");
}

fn canonical(text: &str) -> String {
    surestep::core::json::canonical(text, 64).unwrap()
}

/// A host shortens what it sends to its model; the session keeps all, and a later turn says only what is new.
#[tokio::test(start_paused = true)]
async fn a_later_turn_with_a_shortened_conversation_binds_and_loads() {
    let world = World::new();
    finished(&world.engine().step(world.fresh(talk(1, &[("note", "t1")], CALLS))).await.unwrap());
    let summary = r#"{"role":"user","content":"Summary: four calls were made."}"#;
    let step = world.engine().step(world.fresh(talk(2, &[("note", "t1")], summary))).await.unwrap();
    finished(&step);
    assert_eq!(step.envelope.conversation().len(), 6);
    let bytes = step.envelope.to_json().unwrap();
    assert_eq!(Envelope::parse(bytes.as_bytes()).unwrap(), step.envelope);
    world.check().await;
}
