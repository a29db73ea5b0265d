//! I10: every call in the conversation has exactly one result, and it is what the journal knows.

use surestep::core::Raw;
use surestep::{Envelope, Plan, Rest, State, Word};

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
