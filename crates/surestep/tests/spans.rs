//! Spans have stable names: dashboards are built on them.
//!
//! A binary of its own: which spans are recorded is remembered per process, and other tests record none.

#![expect(clippy::unwrap_used, reason = "a test that meets something unexpected stops there")]

#[path = "engine/common.rs"]
#[allow(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a part of it is used here"
)]
mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use common::*;

#[derive(Clone, Default)]
struct Names(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    names: Vec<&'static str>,
    parents: Vec<Option<usize>>,
    entered: Vec<usize>,
    fields: BTreeMap<&'static str, Vec<&'static str>>,
}

struct FieldNames(Vec<&'static str>);

impl Visit for FieldNames {
    fn record_debug(&mut self, field: &Field, _: &dyn std::fmt::Debug) {
        self.0.push(field.name());
    }
}

impl Subscriber for Names {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name().starts_with("surestep.")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut seen = self.0.lock().unwrap();
        let parent = seen.entered.last().copied();
        seen.names.push(span.metadata().name());
        seen.parents.push(parent);
        let mut fields = FieldNames(Vec::new());
        span.record(&mut fields);
        seen.fields.insert(span.metadata().name(), fields.0);
        Id::from_u64(seen.names.len() as u64)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, id: &Id) {
        self.0.lock().unwrap().entered.push(usize::try_from(id.into_u64()).unwrap() - 1);
    }
    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().entered.pop();
    }
}

#[tokio::test(start_paused = true)]
async fn each_part_of_a_step_has_a_span_with_a_stable_name_below_the_steps() {
    let names = Names::default();
    let guard = tracing::subscriber::set_default(names.clone());
    let world = World::new();
    world.remote.script("t1", [Act::Lost { landed: true }]);
    finished(&world.engine().step(world.fresh(plan(&[("note", "t1")]))).await.unwrap());
    drop(guard);
    let seen = names.0.lock().unwrap();
    // Intent, doubt, end; one execution and one look-up between.
    assert_eq!(
        seen.names,
        [
            "surestep.step",
            "surestep.commit",
            "surestep.execute",
            "surestep.commit",
            "surestep.look",
            "surestep.commit"
        ]
    );
    assert!(seen.parents[1..].iter().all(|p| *p == Some(0)), "{:?}", seen.parents);
    assert_eq!(seen.fields["surestep.step"], ["session"]);
    assert_eq!(seen.fields["surestep.execute"], ["op", "key", "kind", "attempt"]);
    assert_eq!(seen.fields["surestep.look"], ["op", "key", "kind"]);
    assert_eq!(seen.fields["surestep.commit"], ["revision"]);
}
