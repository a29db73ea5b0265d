//! Random plans, histories and damage. The harness takes random numbers as the choices of a history, so a failure
//! shrinks to the fewest and simplest things that go wrong.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "test support"
)]

mod common;

use common::*;
use proptest::prelude::*;
use surestep_core::plan::{OperationTerms, Plan, PlannedOperation};
use surestep_core::*;

/// JSON that a planner might write: numbers of any form, nesting, escapes.
fn body() -> impl Strategy<Value = String> {
    let number = prop::sample::select(vec!["0", "-0", "1E2", "1.50", "9007199254740993", "1e400", "0.1"]);
    let leaf = prop_oneof![
        number.prop_map(str::to_owned),
        "[a-c\u{e9}\u{2028}]{0,3}".prop_map(|s| format!("\"{s}\"")),
        prop::sample::select(vec!["null", "true", r#""\/\n\u0001""#, "[]", "{}"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[ {} ]", items.join(" , "))),
            prop::collection::btree_map("[a-d]{1,2}", inner, 0..3).prop_map(|members| {
                let members: Vec<_> = members.iter().rev().map(|(k, v)| format!("\"{k}\": {v}")).collect();
                format!("{{ {} }}", members.join(", "))
            }),
        ]
    })
}

fn operation() -> impl Strategy<Value = PlannedOperation> {
    let place = prop::sample::select(vec!["", "a", "a/b", "é"]);
    (prop::sample::select(vec!["k", "k.l"]), place.clone(), place, body())
        .prop_map(|(kind, repo, target, body)| planned(kind, repo, target, &body))
}

/// Equal operations are likely enough: bodies are small.
fn random_plan() -> impl Strategy<Value = Plan> {
    prop::collection::vec(operation(), 1..=8).prop_map(|operations| Plan::new("all done", operations))
}

fn config() -> impl Strategy<Value = Config> {
    let recovery = prop::sample::select(vec![RecoveryClass::Ask, RecoveryClass::Halt, RecoveryClass::Repeat]);
    (recovery, any::<[bool; 4]>(), prop::sample::select(vec![0, 1, 3, 250]), 0_u32..=6).prop_map(
        |(recovery, [then_ask, local, proves, visible_at_once], event_ms, faults)| Config {
            recovery,
            then_ask: then_ask && recovery == RecoveryClass::Repeat,
            local: local && recovery == RecoveryClass::Ask,
            proves,
            visible_at_once,
            event_ms,
            faults,
        },
    )
}

fn history() -> impl Strategy<Value = Sim> {
    (config(), random_plan(), prop::collection::vec(0_usize..60, 0..60), any::<bool>()).prop_map(
        |(config, plan, script, wall_jumps)| {
            let mut sim = Sim::new(config, plan, Choices::random(script));
            sim.wall_jumps = wall_jumps;
            sim
        },
    )
}

/// A session that was disturbed in any way, at its end.
fn finished() -> impl Strategy<Value = Shelf> {
    history().prop_map(|mut sim| {
        sim.run().unwrap();
        sim.shelf
    })
}

/// The same JSON with white space everywhere between tokens.
fn indented(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        let border = !in_string && "{}[]:,".contains(c);
        out.push_str(if border { "\n  " } else { "" });
        out.push(c);
        out.push_str(if border { " \t" } else { "" });
        in_string ^= c == '"' && !escaped;
        escaped = in_string && c == '\\' && !escaped;
    }
    out
}

/// The commits with fields of a later version at every level, their sums and the chain made anew.
fn of_a_later_version(commits: &[Commit]) -> Vec<Commit> {
    let mut prev = None;
    let mut out = Vec::new();
    for commit in commits {
        let text = commit.text();
        let mut bare = format!("{}}}", &text[..text.rfind(",\"sum\"").unwrap()]);
        bare = bare.replacen('{', r#"{"a-later":[1E2,{"x":0.10}],"#, 1);
        bare = bare.replace(r#""entries":[{"#, r#""entries":[{"z-later":-0,"#);
        bare = bare.replace(r#""operations":[{"#, r#""operations":[{"y-later":"\u00e9","#);
        if let (Some(old), Some(new)) = (commit.prev(), prev) {
            bare = bare.replace(&format!("{old}"), &format!("{new}"));
        }
        let sum = Digest::of(json::canonical(&bare, 128).unwrap().as_bytes());
        let loose = bare.replacen('{', &format!(r#"{{"sum": "{sum}","#), 1);
        let commit = Commit::from_loose(&loose).unwrap();
        prev = Some(commit.sum());
        out.push(commit);
    }
    out
}

/// Goes on with a world in which everything lands and is found, and a person who says so.
fn carry_on(shelf: &mut Shelf, first_hold: u32) -> Result<Report, TestCaseError> {
    let mut ms = 10_000_000;
    for hold in first_hold..first_hold + 60 {
        let at = now("boot-9", ms);
        let mut turn = shelf.turn(hold, dead());
        let rest = loop {
            match shelf.commit_on(turn, &at) {
                Next::Execute(intent) => {
                    let key = intent.call().operation.key;
                    turn = intent.settle(Outcome::Landed(landed(key)), &at);
                }
                Next::Reconcile(doubt) => {
                    let key = doubt.call().operation.key;
                    turn = doubt.resolve(Finding::Landed(landed(key)), &at);
                }
                Next::Rest(rested) => break rested.why,
                Next::Commit(_) => unreachable!(),
            }
        };
        ms += match rest {
            Rest::Finished(report) => return Ok(report),
            Rest::Until { wait_ms, .. } => wait_ms,
            Rest::NeedsPerson(question) => {
                let word = request(&format!("word-{hold}"), Word::Landed, question.op.value());
                shelf.answer(hold + 1_000, dead(), &word, &at).unwrap();
                1
            }
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
    }
    Err(TestCaseError::fail("it does not end"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_disturbed_history_ends_like_the_control(mut sim in history()) {
        if let Err(why) = sim.run() {
            let trace = sim.trace.join("\n  ");
            return Err(TestCaseError::fail(format!("{why}\n  {:?}\n  {trace}", sim.config)));
        }
        let stored = sim.shelf.load();
        let report = stored.report(TurnNumber::FIRST);
        prop_assert_eq!(report, sim.finished);
    }

    #[test]
    fn keys_and_order_depend_on_the_plan_alone(plan in random_plan()) {
        let one = terms_of(RecoveryClass::Ask);
        let none = std::collections::BTreeMap::new();
        let bind = |plan: &Plan, one: &OperationTerms| {
            plan.bind(&session_id(), &terms(one, plan.operations.len()), &none).unwrap()
        };
        let bound = bind(&plan, &one);
        let mut again = plan.clone();
        for operation in &mut again.operations {
            operation.call_id = Some("another".into());
            operation.body = Raw::new(indented(operation.body.as_str())).unwrap();
        }
        let other_terms = OperationTerms { attempts_max: 7, lag_ms: 1, ..one };
        let again_bound = bind(&again, &other_terms);
        let keys: Vec<Key> = bound.operations.iter().map(|o| o.key).collect();
        let keys_again: Vec<Key> = again_bound.operations.iter().map(|o| o.key).collect();
        prop_assert_eq!(&keys, &keys_again);
        prop_assert_eq!(plan.digest().unwrap(), again.digest().unwrap());
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        prop_assert_eq!(distinct.len(), keys.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fields_of_a_later_version_survive_the_round_trip(shelf in finished()) {
        let commits = of_a_later_version(&shelf.commits);
        invariants::check(&commits).unwrap();
        let envelope = Envelope::from_commits(session_id(), commits.clone()).unwrap();
        let text = envelope.to_json().unwrap();
        let text = text.replacen('{', r#"{"top-later":{"n":1.50,"s":"\u00e9"},"#, 1);
        let read = Envelope::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(read.commits(), commits.as_slice());
        let again = read.to_json().unwrap();
        let top = r#""top-later":{"n":1.50,"s":"\u00e9"}"#;
        prop_assert!(again.contains(top));
        let count = |what: &str| again.matches(what).count();
        prop_assert_eq!(count(r#""a-later":[1E2,{"x":0.10}]"#), commits.len());
        prop_assert_eq!(count(r#""z-later":-0"#), commits.len());
        prop_assert_eq!(count(r#""y-later":"é""#), 1);
        prop_assert_eq!(Envelope::parse(again.as_bytes()).unwrap(), read);
        for commit in &commits {
            prop_assert_eq!(&Commit::parse(commit.text()).unwrap(), commit);
        }
    }

    #[test]
    fn an_indented_envelope_is_the_same_envelope(shelf in finished()) {
        let envelope = shelf.load();
        let text = envelope.to_json().unwrap();
        let read = Envelope::parse(indented(&text).as_bytes()).unwrap();
        prop_assert_eq!(read.to_json().unwrap(), text);
        prop_assert_eq!(&read, &envelope);
        // A commit's own file is held to the byte.
        let commit = shelf.commits[0].text();
        prop_assert!(Commit::parse(&indented(commit)).is_err());
        prop_assert_eq!(&Commit::from_loose(&indented(commit)).unwrap(), &shelf.commits[0]);
    }

    #[test]
    fn no_digit_can_be_changed(shelf in finished(), place in any::<prop::sample::Index>(), by in 1_u8..=9) {
        let text = shelf.load().to_json().unwrap();
        let digits: Vec<usize> = (0..text.len()).filter(|n| text.as_bytes()[*n].is_ascii_digit()).collect();
        let place = digits[place.index(digits.len())];
        let mut bytes = text.into_bytes();
        bytes[place] = b'0' + (bytes[place] - b'0' + by) % 10;
        prop_assert!(Envelope::parse(&bytes).is_err(), "changed unnoticed: {}", String::from_utf8_lossy(&bytes[place.saturating_sub(60)..place + 20]));
    }

    #[test]
    fn commits_cannot_be_dropped_swapped_or_doubled(shelf in finished(), place in any::<prop::sample::Index>()) {
        let n = shelf.commits.len();
        let place = place.index(n - 1);
        let loads = |commits: Vec<Commit>| Envelope::from_commits(session_id(), commits).is_ok();
        let mut dropped = shelf.commits.clone();
        dropped.remove(place);
        prop_assert!(!loads(dropped.clone()));
        let mut swapped = shelf.commits.clone();
        swapped.swap(place, place + 1);
        prop_assert!(!loads(swapped));
        let mut doubled = shelf.commits.clone();
        doubled.insert(place, shelf.commits[place].clone());
        prop_assert!(!loads(doubled));
        // In a document as well, where even the last one is missed.
        let text = shelf.load().to_json().unwrap();
        let last = shelf.commits[n - 1].text();
        let without = text.replace(&format!(",{last}"), "");
        prop_assert_ne!(&without, &text);
        prop_assert!(Envelope::parse(without.as_bytes()).is_err());
    }

    #[test]
    fn every_prefix_of_a_journal_loads_and_goes_on(shelf in finished()) {
        for n in 1..=shelf.commits.len() {
            let mut prefix = Shelf { commits: shelf.commits[..n].to_vec(), ..Shelf::default() };
            let report = carry_on(&mut prefix, 5_000)?;
            prop_assert_eq!(report.outcome, End::Completed);
            prop_assert_eq!(prefix.commits[..n].to_vec(), shelf.commits[..n].to_vec());
            let full = shelf.load();
            let refs = |o: &Operation| o.landed.as_ref().map(|l| l.1 != Via::Operator).unwrap_or(false);
            for (a, b) in prefix.load().session().operations.iter().zip(&full.session().operations) {
                if refs(a) && refs(b) {
                    prop_assert_eq!(a.landed.as_ref().map(|l| &l.0), b.landed.as_ref().map(|l| &l.0));
                }
            }
        }
    }
}
