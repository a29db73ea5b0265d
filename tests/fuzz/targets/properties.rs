//! What must hold for every input, of each parser. Run by the fuzz targets, and over the kept corpus by `cargo test`.
//!
//! A chain's sums stop a blind mutation at the door, so each input is tried twice: as it is, and *healed*, with its
//! sums made anew, which lets what was mutated through to the parts behind.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use surestep::core::commit::COMMIT_FORMAT;
use surestep::core::json::{self, DEPTH_BODY_MAX, DEPTH_FILE_MAX};
use surestep::core::{Commit, Digest, Envelope, Plan, PlanError, invariants};
use surestep_file::side;

/// The targets.
#[allow(dead_code, reason = "a fuzz target runs only its own")]
pub(crate) const TARGETS: &[&str] = &["reader", "plan", "commit", "envelope", "side"];

/// Runs one target on one input. Panics where a property does not hold.
pub(crate) fn run(target: &str, data: &[u8]) {
    match target {
        "reader" => reader(data),
        "plan" => plan(data),
        "commit" => commit(data),
        "envelope" => envelope(data),
        "side" => side_files(data),
        other => panic!("no target `{other}`"),
    }
}

/// The canonical reader.
fn reader(data: &[u8]) {
    let text = match json::text(data) {
        Ok(text) => text,
        Err(error) => return assert!(error.offset <= data.len(), "{error}"),
    };
    for depth in [DEPTH_BODY_MAX, DEPTH_FILE_MAX] {
        let checked = json::check(text, depth);
        let canonical = json::canonical(text, depth);
        assert_eq!(checked.as_ref().err(), canonical.as_ref().err(), "check and canonical disagree");
        match canonical {
            Err(error) => {
                assert!(error.offset <= text.len() && text.is_char_boundary(error.offset), "{error}")
            }
            Ok(canonical) => {
                assert!(canonical.len() <= text.len(), "longer than its input");
                assert_eq!(json::canonical(&canonical, depth).as_ref(), Ok(&canonical), "not idempotent");
                assert_eq!(json::is_canonical(&canonical, depth), Ok(()));
                assert_eq!(json::is_canonical(text, depth).is_ok(), text == canonical);
                // What we take, the typed reader takes: never a shape error that hides damage.
                let typed: Result<&RawValue, _> = serde_json::from_str(&canonical);
                assert!(typed.is_ok(), "serde_json does not take it: {typed:?}");
            }
        }
    }
}

/// Plans: written and read again it is the same plan.
fn plan(data: &[u8]) {
    let plan = match Plan::parse(data) {
        Ok(plan) => plan,
        Err(error) => {
            if let PlanError::Json(error) = &error {
                assert!(error.offset <= data.len(), "{error}");
            }
            return drop(error.to_string());
        }
    };
    let text = serde_json::to_string(&plan).expect("a plan is written");
    let again = Plan::parse(text.as_bytes()).expect("what was written is read");
    assert_eq!(plan, again);
    match (plan.digest(), again.digest()) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(one), Err(other)) => assert_eq!(one, other),
        (one, other) => panic!("{one:?} and {other:?}"),
    }
}

/// Commits: a text that is taken is exactly what is written.
fn commit(data: &[u8]) {
    let Ok(text) = json::text(data) else { return };
    whole_commit(text);
    if let Some((healed, _)) = heal_commit(text, None) {
        whole_commit(&healed);
    }
}

fn whole_commit(text: &str) {
    let Ok(commit) = Commit::parse(text) else {
        drop(Commit::from_loose(text));
        return;
    };
    assert_eq!(commit.text(), text, "a commit's file holds exactly its text");
    assert_eq!(Commit::from_loose(text).as_ref(), Ok(&commit));
    let sealed = Commit::seal(commit.clone().into_fields()).expect("its fields can be sealed");
    let again = Commit::parse(sealed.text()).expect("what was sealed is read");
    assert_eq!(again.clone().into_fields(), commit.into_fields(), "fields are lost on the way");
    assert_eq!(Commit::seal(again.clone().into_fields()).as_ref(), Ok(&again), "not a fixed point");
}

/// Envelopes: written and read again it is the same, and what the fold takes breaks no invariant.
fn envelope(data: &[u8]) {
    whole_envelope(data);
    if let Some(healed) = json::text(data).ok().and_then(heal_envelope) {
        whole_envelope(healed.as_bytes());
    }
}

fn whole_envelope(data: &[u8]) {
    let envelope = match Envelope::parse(data) {
        Ok(envelope) => envelope,
        Err(error) => return drop(error.to_string()),
    };
    let text = envelope.to_json().expect("an envelope is written");
    let again = Envelope::parse(text.as_bytes()).expect("what was written is read");
    assert_eq!(envelope, again);
    assert_eq!(again.to_json().expect("an envelope is written"), text, "not a fixed point");
    assert_eq!(invariants::check(envelope.commits()), Ok(()), "the fold took what breaks an invariant");
}

/// The small files beside the chain.
fn side_files(data: &[u8]) {
    let healed = json::text(data).ok().and_then(object).map(|mut fields| {
        fields.remove("sum");
        side::seal(&text_of(&fields)).expect("an object is sealed")
    });
    for kind in side::KINDS {
        drop(side::read(kind, data));
        if let Some(healed) = &healed {
            let read = side::read(kind, healed.as_bytes());
            if let Ok(read) = &read {
                assert_eq!(side::read(kind, healed.as_bytes()).ok().as_ref(), Some(read));
            }
            // One flipped bit in a sealed file is found; the store's own file and a guard's record have no sum.
            if read.is_ok() && !matches!(*kind, "store" | "guard") {
                let mut bytes = healed.clone().into_bytes();
                let at = data.len() % bytes.len();
                bytes[at] ^= 1;
                assert!(side::read(kind, &bytes).is_err(), "a flipped bit at {at} is not seen");
            }
        }
    }
}

type Object = BTreeMap<String, Box<RawValue>>;

/// An object's members, of strict JSON.
fn object(text: &str) -> Option<Object> {
    json::check(text, DEPTH_FILE_MAX).ok()?;
    serde_json::from_str(text).ok()
}

fn text_of(object: &Object) -> String {
    serde_json::to_string(object).expect("an object is written")
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).expect("a JSON text")
}

/// A commit's text with its sum made anew, and the sum. `after`: also the revision and `prev`.
fn heal_commit(text: &str, after: Option<(u64, Option<Digest>)>) -> Option<(String, Digest)> {
    let mut fields = object(text)?;
    fields.remove("sum");
    fields.insert("format".into(), raw(format!("\"{COMMIT_FORMAT}\"")));
    if let Some((revision, prev)) = after {
        fields.insert("revision".into(), raw(revision.to_string()));
        match prev {
            Some(prev) => fields.insert("prev".into(), raw(format!("\"{prev}\""))),
            None => fields.remove("prev"),
        };
    }
    let bare = json::canonical(&text_of(&fields), DEPTH_FILE_MAX).ok()?;
    let sum = Digest::of(bare.as_bytes());
    let healed = format!("{},\"sum\":\"{sum}\"}}", bare.strip_suffix('}')?);
    Some((healed, sum))
}

/// An envelope whose chain holds again, and whose derived fields are those of its journal where it can be folded.
fn heal_envelope(text: &str) -> Option<String> {
    let mut fields = object(text)?;
    let journal: Vec<Box<RawValue>> = serde_json::from_str(fields.get("journal")?.get()).ok()?;
    let mut healed = Vec::new();
    let mut prev = None;
    for (n, commit) in journal.iter().enumerate() {
        let (text, sum) = heal_commit(commit.get(), Some((n as u64 + 1, prev)))?;
        healed.push(text);
        prev = Some(sum);
    }
    fields.insert("journal".into(), raw(format!("[{}]", healed.join(","))));
    fields.insert("requires".into(), raw("[]".into()));
    let commits: Result<Vec<Commit>, _> = healed.iter().map(|text| Commit::parse(text)).collect();
    let session = serde_json::from_str(fields.get("session")?.get()).ok()?;
    if let Ok(mut folded) = Envelope::from_commits(session, commits.ok()?) {
        // Only a session that said nothing can be written without its conversation.
        if folded.session().said.is_empty() {
            fields.insert("conversation".into(), raw("[]".into()));
        } else if let Some(conversation) = fields.get("conversation") {
            folded.say(conversation.get());
        }
        let derived = object(&folded.to_json().ok()?)?;
        for name in [
            "format",
            "revision",
            "epoch",
            "status",
            "head",
            "turn",
            "agent",
            "task",
            "verdict",
            "rationale",
            "counters",
            "traceparent",
        ] {
            match derived.get(name) {
                Some(value) => fields.insert(name.into(), value.clone()),
                None => fields.remove(name),
            };
        }
    }
    Some(text_of(&fields))
}
