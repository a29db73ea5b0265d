//! Cases and acceptance points that the core alone can meet. Numbers name the cases in the project's list.
#![allow(
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects, all else fails"
)]

mod common;

use common::*;
use surestep_core::commit::{COMMIT_FORMAT, CommitFields};
use surestep_core::plan::{OperationTerms, Plan, PlanError, Terms};
use surestep_core::*;

fn ask() -> OperationTerms {
    terms_of(RecoveryClass::Ask)
}

fn op(n: u32) -> OpNumber {
    OpNumber::new(n)
}

/// Runs on with effects that all land, at one moment; gives back what was executed and why it rests.
fn run_landing(shelf: &mut Shelf, turn: Turn, at: &Now) -> (Vec<(OpNumber, String)>, Rest) {
    let mut executed = Vec::new();
    let mut next = shelf.commit_on(turn, at);
    loop {
        let turn = match next {
            Next::Execute(intent) => {
                let call = intent.call().clone();
                executed.push((call.op, call.operation.body.as_str().to_owned()));
                intent.settle(Outcome::Landed(landed(call.operation.key)), at)
            }
            Next::Rest(rested) => return (executed, rested.why),
            other => panic!("{other:?}"),
        };
        next = shelf.commit_on(turn, at);
    }
}

fn report(rest: Rest) -> Report {
    match rest {
        Rest::Finished(report) => report,
        other => panic!("not finished: {other:?}"),
    }
}

fn question(rest: Rest) -> Question {
    match rest {
        Rest::NeedsPerson(question) => question,
        other => panic!("no question: {other:?}"),
    }
}

fn until(rest: Rest) -> u64 {
    match rest {
        Rest::Until { wait_ms, .. } => wait_ms,
        other => panic!("no rest until a time: {other:?}"),
    }
}

fn bind(plan: &Plan, terms: &Terms) -> Result<Vec<surestep_core::BoundOperation>, PlanError> {
    plan.bind(&session_id(), terms, &std::collections::BTreeMap::new()).map(|bound| bound.operations)
}

/// A commit that somebody else wrote, with correct sums.
fn forged(shelf: &Shelf, entries: Vec<Entry>) -> Commit {
    let envelope = shelf.load();
    Commit::seal(CommitFields {
        format: COMMIT_FORMAT.into(),
        session: session_id(),
        revision: envelope.session().revision.next(),
        epoch: envelope.session().epoch,
        at: now("b1", 9_000).wall,
        entries,
        prev: envelope.session().head,
        extra: Extra::default(),
    })
    .unwrap()
}

fn one_op_plan(body: &str) -> Plan {
    Plan::new("all done", vec![planned("github.comment", "acme/site", "118", body)])
}

// ------------------------------------------------------------------------------------------------ running and killing

#[test]
fn only_the_refused_operation_is_tried_again() {
    // C004
    let (plan, terms) = (plan(5), terms(&OperationTerms { attempts_max: 9, ..ask() }, 5));
    let mut shelf = Shelf::default();
    let mut calls = [0; 6];
    let mut at_ms = 1_000;
    for step in 1..=5 {
        let at = now("b1", at_ms);
        let mut turn = shelf.turn(step, dead()).offer(&plan, &terms).unwrap();
        at_ms += loop {
            match shelf.commit_on(turn, &at) {
                Next::Execute(intent) => {
                    let (number, key) = (intent.call().op, intent.call().operation.key);
                    calls[number.value() as usize] += 1;
                    let refused = Outcome::NotLanded(fault("refused"), Retry::After { ms: 10 });
                    let seen = if number == op(4) { refused } else { Outcome::Landed(landed(key)) };
                    turn = intent.settle(seen, &at);
                }
                Next::Rest(rested) => break until(rested.why),
                other => panic!("{other:?}"),
            }
        };
    }
    assert_eq!(calls, [0, 1, 1, 1, 5, 0]);
    // The same operation, in doubt instead of refused, is not executed again.
    let mut shelf = Shelf::lost(&ask());
    let doubt = shelf.reconcile(shelf.turn(2, dead()), &now("b1", 1_001));
    let rest = shelf.rest(doubt.resolve(Finding::NotLanded, &now("b1", 1_001)), &now("b1", 1_001));
    assert!(until(rest) > 0);
}

#[test]
fn finished_operations_are_not_run_again_while_one_waits_for_approval() {
    // C005
    let mut plan = plan(3);
    plan.operations[2].approval = Some(Approval::Required);
    let terms = terms(&ask(), 3);
    let mut shelf = Shelf::default();
    let turn = shelf.turn(1, dead()).offer(&plan, &terms).unwrap();
    let (executed, rest) = run_landing(&mut shelf, turn, &now("b1", 1_000));
    assert_eq!(executed.len(), 2);
    assert_eq!(question(rest).about, About::Approval);
    let commits = shelf.commits.len();
    for hold in 2..=4 {
        let (executed, rest) = {
            let turn = shelf.turn(hold, dead());
            run_landing(&mut shelf, turn, &now("b2", u64::from(hold)))
        };
        assert_eq!((executed.len(), question(rest).op), (0, op(3)));
    }
    assert_eq!(shelf.commits.len(), commits, "a resume that can do nothing wrote something");
    for n in 1..=2 {
        let done = shelf.operation(n);
        assert_eq!(
            done.landed.unwrap().0,
            landed(done.bound.key),
            "the stored receipt is all that is needed"
        );
    }
    shelf.answer(5, dead(), &request("r1", Word::Approve, 3), &now("b2", 10)).unwrap();
    let turn = shelf.turn(6, dead());
    let (executed, rest) = run_landing(&mut shelf, turn, &now("b2", 11));
    assert_eq!(executed.len(), 1);
    assert_eq!(report(rest).outcome, End::Completed);
}

#[test]
fn recovery_makes_no_failure_of_an_interrupted_attempt() {
    // C007
    let mut shelf = Shelf::lost(&ask());
    let doubt = shelf.reconcile(shelf.turn(2, dead()), &now("b1", 1_002));
    drop(doubt);
    assert_eq!(shelf.operation(1).state, State::InDoubt);
    let doubt = shelf.reconcile(shelf.turn(3, dead()), &now("b1", 1_003));
    let key = doubt.call().operation.key;
    let rest = shelf.rest(doubt.resolve(Finding::Landed(landed(key)), &now("b1", 1_004)), &now("b1", 1_004));
    assert_eq!(report(rest).outcome, End::Completed);
    let terminal = |tag: &&str| matches!(*tag, "succeeded" | "failed" | "denied" | "skipped");
    assert_eq!(shelf.entries().into_iter().filter(|tag| terminal(tag)).collect::<Vec<_>>(), ["succeeded"]);
}

#[test]
fn a_late_failure_report_does_not_change_a_landed_operation() {
    // C008
    let (mut shelf, intent) = Shelf::begun(&plan(2), &terms(&ask(), 2));
    let key = intent.call().operation.key;
    drop(shelf.commit_on(intent.settle(Outcome::Landed(landed(key)), &now("b1", 1_100)), &now("b1", 1_100)));
    let before = shelf.load().to_json().unwrap();
    let failed = entry::Failed {
        op: op(1),
        key,
        attempt: Attempt::FIRST,
        via: Via::Executed,
        fault: fault("timeout"),
        counts: Counts::Answer,
        last: true,
        rest: None,
        by: None,
        because: None,
        overridden: None,
        request: None,
        extra: Extra::default(),
    };
    let late = forged(&shelf, vec![failed.into()]);
    let refused = shelf.load().take(late).unwrap_err();
    let illegal = operation::Illegal { state: State::Succeeded, event: operation::Event::NotLandedForGood };
    assert!(matches!(refused, Misfit::Illegal { illegal: found, .. } if found == illegal), "{refused:?}");
    assert_eq!(shelf.load().to_json().unwrap(), before);
    // As late evidence it changes nothing either.
    shelf.late.push(Evidence {
        op: op(1),
        key,
        attempt: Attempt::FIRST,
        epoch: Epoch::FIRST,
        observed: Outcome::NotLanded(fault("timeout"), Retry::Never),
        ended: None,
    });
    drop(shelf.commit_on(shelf.turn(2, dead()), &now("b1", 1_200)));
    assert_eq!(shelf.operation(1).state, State::Succeeded);
    assert_eq!(shelf.entries().iter().filter(|tag| **tag == "failed").count(), 0);
}

#[test]
fn without_a_look_up_an_interrupted_operation_stops_at_a_person() {
    // C010, C053
    let plan = Plan::new(
        "all done",
        vec![planned("email", "", "ada", "{}"), planned("github.comment", "a", "1", "{}")],
    );
    let terms = Terms { operations: vec![terms_of(RecoveryClass::Halt), ask()], dir: None, allow: None };
    let (mut shelf, intent) = Shelf::begun(&plan, &terms);
    drop(intent);
    for hold in 2..=4 {
        let asked = question(shelf.rest(shelf.turn(hold, dead()), &now("b1", 10_000_000 * u64::from(hold))));
        assert_eq!((asked.about, asked.op, asked.attempt), (About::Landing, op(1), Attempt::FIRST));
        assert_eq!(asked.next_look, None);
    }
    assert_eq!(shelf.entries().iter().filter(|tag| **tag == "intended").count(), 1);
    assert_eq!(
        shelf.entries().iter().filter(|tag| **tag == "claimed").count(),
        2,
        "a question is claimed once"
    );
}

#[test]
fn a_settle_with_a_key_that_is_not_the_operations_own_is_refused() {
    // C011
    let (shelf, intent) = Shelf::begun(&plan(2), &terms(&ask(), 2));
    let keys = [shelf.operation(1).bound.key, shelf.operation(2).bound.key];
    let unknown: Key = "v1:00000000000000000000000000000000".parse().unwrap();
    for (number, key) in [(1, unknown), (1, keys[1]), (2, keys[0]), (3, keys[0])] {
        let settled = entry::Succeeded {
            op: op(number),
            key,
            attempt: Attempt::FIRST,
            via: Via::Executed,
            receipt: landed(key),
            by: None,
            because: None,
            request: None,
            extra: Extra::default(),
        };
        let refused = shelf.load().take(forged(&shelf, vec![settled.into()])).unwrap_err();
        assert_eq!(refused, Misfit::NoSuchOperation { op: op(number), key });
    }
    let mut asked = request("r1", Word::Landed, 1);
    asked.key = Some(keys[1]);
    let refused = shelf.turn(2, dead()).answer(&asked, &now("b1", 2_000)).unwrap_err();
    assert_eq!(refused, Refused::NoSuchOperation);
    drop(intent);
}

#[test]
fn n_operations_cost_n_plus_1_commits() {
    for n in 1..=6 {
        let mut shelf = Shelf::default();
        let turn = shelf.turn(1, dead()).offer(&plan(n), &terms(&ask(), n)).unwrap();
        let (executed, rest) = run_landing(&mut shelf, turn, &now("b1", 1_000));
        assert_eq!((executed.len(), shelf.commits.len()), (n, n + 1));
        assert_eq!(report(rest).verdict, "all done");
    }
    let mut shelf = Shelf::default();
    let turn = shelf.turn(1, dead()).offer(&plan(0), &Terms::default()).unwrap();
    assert_eq!(report(run_landing(&mut shelf, turn, &now("b1", 1)).1).outcome, End::Completed);
    assert_eq!(shelf.entries(), ["opened", "claimed", "bound", "finished", "released"]);
}

// ------------------------------------------------------------------------------------------------------------ identity

#[test]
fn fields_that_flow_into_each_other_have_different_keys() {
    // C034, C035
    let mut keys = std::collections::BTreeSet::new();
    let mut places = Vec::new();
    for sign in ["|", ":", "/", "#", "\n"] {
        places.push((format!("a{sign}b"), "c".to_owned()));
        places.push(("a".to_owned(), format!("b{sign}c")));
    }
    for (repo, target) in
        [("hello", "world"), ("hell", "oworld"), ("id1", "11"), ("id11", "1"), ("", "x"), ("x", "")]
    {
        places.push((repo.into(), target.into()));
    }
    let operations: Vec<_> = places.iter().map(|(repo, target)| planned("k", repo, target, "\"\"")).collect();
    for bound in bind(&Plan::new("", operations), &terms(&ask(), places.len())).unwrap() {
        assert_eq!(bound.occurrence, 1);
        keys.insert(bound.key);
    }
    assert_eq!(keys.len(), places.len());
    let pair = Plan::new("", vec![planned("k", "", "", "\"x\""), planned("k", "", "x", "\"\"")]);
    let bound = bind(&pair, &terms(&ask(), 2)).unwrap();
    assert_ne!(bound[0].key, bound[1].key);
}

#[test]
fn two_equal_operations_are_two_effects_and_stay_two() {
    // C037
    let twice = Plan::new("all done", vec![planned("github.comment", "a", "1", r#"{"body":"retry CI"}"#); 2]);
    let terms = terms(&ask(), 2);
    let mut shelf = Shelf::default();
    let turn = shelf.turn(1, dead()).offer(&twice, &terms).unwrap();
    let (executed, rest) = run_landing(&mut shelf, turn, &now("b1", 1_000));
    assert_eq!(executed.len(), 2);
    let lines = report(rest).operations;
    assert_ne!(lines[0].key, lines[1].key);
    assert_eq!((shelf.operation(1).bound.occurrence, shelf.operation(2).bound.occurrence), (1, 2));
    let turn = shelf.turn(2, dead()).offer(&twice, &terms).unwrap();
    let (executed, rest) = run_landing(&mut shelf, turn, &now("b1", 2_000));
    assert_eq!((executed.len(), report(rest).operations), (0, lines));
    // A third one in the next turn counts on.
    let mut more = Plan::new("all done", vec![twice.operations[0].clone()]);
    more.turn = Some(TurnNumber::new(2));
    let turn = shelf.turn(3, dead()).offer(&more, &common::terms(&ask(), 1)).unwrap();
    assert_eq!(run_landing(&mut shelf, turn, &now("b1", 3_000)).0.len(), 1);
    assert_eq!(shelf.operation(3).bound.occurrence, 3);
}

#[test]
fn one_identity_with_another_body_is_refused_with_both_digests() {
    // C039
    let with_identity = OperationTerms { identity: Some(vec!["id".into()]), ..ask() };
    let both = |a: &str, b: &str| {
        let plan = Plan::new("", vec![planned("k", "r", "t", a), planned("k", "r", "t", b)]);
        bind(&plan, &terms(&with_identity, 2))
    };
    let (a, b) = (r#"{"amount":1,"id":7}"#, r#"{"amount":2,"id":7}"#);
    match both(a, b).unwrap_err() {
        PlanError::Mismatch { path, other, bound, offered, .. } => {
            assert_eq!((path.as_str(), other), ("$.operations[1]", 1));
            assert_eq!((bound, offered), (Digest::of(a.as_bytes()), Digest::of(b.as_bytes())));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(both(a, a).unwrap()[1].occurrence, 2);
    // And across turns.
    let mut shelf = Shelf::default();
    let first = Plan::new("", vec![planned("k", "r", "t", a)]);
    let turn = shelf.turn(1, dead()).offer(&first, &terms(&with_identity, 1)).unwrap();
    drop(run_landing(&mut shelf, turn, &now("b1", 1_000)));
    let mut second = Plan::new("", vec![planned("k", "r", "t", b)]);
    second.turn = Some(TurnNumber::new(2));
    let refused = shelf.turn(2, dead()).offer(&second, &terms(&with_identity, 1)).unwrap_err();
    assert!(matches!(refused, PlanError::Mismatch { other: 1, .. }), "{refused:?}");
}

#[test]
fn what_differs_on_a_re_entry_is_no_part_of_the_key() {
    // C041
    let with_identity = OperationTerms { identity: Some(vec!["to".into(), "amount".into()]), ..ask() };
    let key = |body: &str, call_id: Option<&str>| {
        let mut one = planned("pay", "bank", "ada", body);
        one.call_id = call_id.map(str::to_owned);
        bind(&Plan::new("", vec![one]), &terms(&with_identity, 1)).unwrap()[0].key
    };
    let first = key(r#"{"to":"ada","amount":1.50,"auth_token":"a","now":1}"#, Some("call-1"));
    assert_eq!(first, key(r#"{"now":2,"amount":1.50,"auth_token":"b","to":"ada"}"#, Some("call-2")));
    assert_ne!(first, key(r#"{"to":"ada","amount":1.5,"auth_token":"a","now":1}"#, Some("call-1")));
}

#[test]
fn names_that_the_host_takes_for_one_are_one_in_the_key_and_for_twins() {
    // C051
    let place = |repo: &str| Some((repo.to_lowercase(), "Fix-1".to_owned()));
    let operations = vec![planned("k", "Org/Foo", "Fix-1", "{}"), planned("k", "org/foo", "Fix-1", "{}")];
    let one = OperationTerms { distinguishes: false, ..ask() };
    let terms = Terms {
        operations: vec![
            OperationTerms { place: place("Org/Foo"), ..one.clone() },
            OperationTerms { place: place("org/foo"), ..one.clone() },
        ],
        dir: None,
        allow: None,
    };
    let plan = Plan::new("all done", operations);
    let bound = bind(&plan, &terms).unwrap();
    assert_eq!((bound[0].occurrence, bound[1].occurrence), (1, 2), "one thing, asked for twice");
    assert_eq!(bound[0].repo, "Org/Foo", "what is sent stays as it was written");
    let branch = |target: &str| {
        let terms = Terms {
            operations: vec![OperationTerms { place: Some(("o".into(), target.into())), ..one.clone() }],
            dir: None,
            allow: None,
        };
        bind(&Plan::new("", vec![planned("k", "o", target, "{}")]), &terms).unwrap()[0].key
    };
    assert_ne!(branch("Fix-1"), branch("fix-1"), "branches are told apart by case");
    // A look-up by content cannot tell these two apart, whatever their spelling.
    let (mut shelf, intent) = Shelf::begun(&plan, &terms);
    drop(intent);
    let doubt = shelf.reconcile(shelf.turn(2, dead()), &now("b1", 2_000));
    let turn = doubt.resolve(Finding::Landed(Receipt::new("9")), &now("b1", 2_000));
    assert_eq!(question(shelf.rest(turn, &now("b1", 2_000))).op, op(1));
}

#[test]
fn a_look_up_that_cannot_tell_equal_operations_apart_leads_to_a_question() {
    let two = Plan::new("all done", vec![planned("k", "r", "t", "{}"); 2]);
    let one = OperationTerms { distinguishes: false, ..ask() };
    let (mut shelf, intent) = Shelf::begun(&two, &terms(&one, 2));
    drop(intent);
    let at = now("b1", 2_000);
    let turn = shelf.reconcile(shelf.turn(2, dead()), &at).resolve(Finding::Landed(Receipt::new("9")), &at);
    let asked = question(shelf.rest(turn, &at));
    assert_eq!(asked.evidence.last().unwrap().1.code, "twin");
    // It does count where the kind can tell, and where there is no equal one.
    let without_twin =
        Plan::new("all done", vec![planned("k", "r", "t", "{}"), planned("k", "r", "t", "[]")]);
    for (plan, distinguishes) in [(&two, true), (&without_twin, false)] {
        let (mut shelf, intent) = Shelf::begun(plan, &terms(&OperationTerms { distinguishes, ..ask() }, 2));
        drop(intent);
        let turn =
            shelf.reconcile(shelf.turn(2, dead()), &at).resolve(Finding::Landed(Receipt::new("9")), &at);
        drop(shelf.commit_on(turn, &at));
        assert_eq!(shelf.operation(1).state, State::Succeeded);
    }
}

// ------------------------------------------------------------------------------------------------------- second plans

#[test]
fn a_different_second_plan_is_refused_with_both_digests_and_an_equal_one_changes_nothing() {
    // C047
    let (first, terms) = (plan(2), terms(&ask(), 2));
    let (shelf, intent) = Shelf::begun(&first, &terms);
    drop(intent);
    let stored = shelf.load();
    let changes: [fn(&mut Plan); 7] = [
        |p| p.operations[0].body = Raw::new(r#"{"body":"note 1","n":100}"#).unwrap(),
        |p| p.operations.swap(0, 1),
        |p| drop(p.operations.pop()),
        |p| p.verdict = Some("other".into()),
        |p| p.operations[1].target = "119".into(),
        |p| p.operations[1].attempts = Some(7),
        |p| p.operations[1].approval = Some(Approval::Required),
    ];
    for change in changes {
        let mut other = first.clone();
        change(&mut other);
        match shelf.turn(2, dead()).offer(&other, &terms).unwrap_err() {
            PlanError::AlreadyBound { turn, bound, offered } => {
                assert_eq!(turn, TurnNumber::FIRST);
                assert_eq!((bound, offered), (first.digest().unwrap(), other.digest().unwrap()));
                assert_ne!(bound, offered);
            }
            other => panic!("{other:?}"),
        }
    }
    let mut equal = first.clone();
    equal.operations[0].call_id = Some("call-9".into());
    equal.operations[0].body = Raw::new("{ \"n\" : 1E2,\n \"body\":\"note \\u0031\" }").unwrap();
    equal.rationale = Some("worded anew".into());
    equal.agent = Some("another".into());
    assert_eq!(stored.compare(&equal).unwrap(), Compared::Same(TurnNumber::FIRST));
    let mut same = shelf.turn(2, dead()).offer(&equal, &terms).unwrap();
    assert_eq!(same.session(), stored.session());
    let mut with = shelf.clone();
    let mut without = shelf.clone();
    drop(with.reconcile(same, &now("b1", 2_000)));
    same = without.turn(2, dead());
    drop(without.reconcile(same, &now("b1", 2_000)));
    assert_eq!(with.commits, without.commits, "an equal plan left a trace");
}

#[test]
fn no_plan_goes_on_and_an_empty_one_is_another_plan() {
    // C048
    let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(&ask(), 1));
    drop(intent);
    let text = shelf.load().to_json().unwrap();
    let null = text.replacen("{\"format\"", "{\"plan\":null,\"format\"", 1);
    for text in [&text, &null] {
        let mut envelope = Envelope::parse(text.as_bytes()).unwrap();
        assert!(envelope.take_plan().is_none());
        let mut shelf = shelf.clone();
        drop(shelf.reconcile(Turn::resume(envelope, me(2), dead(), Vec::new()), &now("b1", 1_500)));
    }
    let empty = Plan::parse(br#"{"format":"surestep.plan/1","operations":[]}"#).unwrap();
    let refused = shelf.load().compare(&empty).unwrap_err();
    assert!(matches!(refused, PlanError::AlreadyBound { .. }), "{refused:?}");
    let no_plan = Plan::parse(b"{}").unwrap_err();
    assert!(matches!(no_plan, PlanError::Shape { .. }), "{no_plan:?}");
    let doubt = shelf.reconcile(shelf.turn(3, dead()), &now("b1", 1_600));
    let key = doubt.call().operation.key;
    let turn = doubt.resolve(Finding::Landed(landed(key)), &now("b1", 1_700));
    assert_eq!(report(shelf.rest(turn, &now("b1", 1_700))).outcome, End::Completed);
    // A session that was never given one says so.
    let mut fresh = Shelf::default();
    assert_eq!(fresh.rest(fresh.turn(1, dead()), &now("b1", 1)), Rest::NoPlan);
}

#[test]
fn the_next_turn_opens_only_by_its_number_once_the_last_one_is_finished() {
    let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(&ask(), 1));
    let mut second = plan(1);
    second.turn = Some(TurnNumber::new(2));
    let refused = shelf.load().compare(&second).unwrap_err();
    assert!(matches!(refused, PlanError::TurnOrder { finished: false, .. }), "{refused:?}");
    let key = intent.call().operation.key;
    let turn = intent.settle(Outcome::Landed(landed(key)), &now("b1", 1_100));
    drop(shelf.rest(turn, &now("b1", 1_100)));
    assert_eq!(shelf.load().compare(&second).unwrap(), Compared::ToBind);
    second.turn = Some(TurnNumber::new(3));
    let refused = shelf.load().compare(&second).unwrap_err();
    assert!(matches!(refused, PlanError::TurnOrder { finished: true, .. }), "{refused:?}");
    assert_eq!(shelf.load().compare(&plan(1)).unwrap(), Compared::Same(TurnNumber::FIRST));
    assert_eq!(shelf.load().report(TurnNumber::FIRST).unwrap().verdict, "all done");
}

// ------------------------------------------------------------------------------------------------------------- numbers

#[test]
fn numbers_are_executed_as_they_were_written_after_any_number_of_reloads() {
    // C104, C105
    let numbers = [
        "1.5777777777770001",
        "9007199254740991.0",
        "2512292042121000001",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "1234567890123456789012345678901234567890",
        "1e400",
        "-0",
        "1E2",
        "0.10",
    ];
    for number in numbers {
        let body = format!(r#"{{"amount":{number}}}"#);
        let (mut shelf, intent) = Shelf::begun(&one_op_plan(&body), &terms(&ask(), 1));
        assert_eq!(intent.call().operation.body.as_str(), body);
        drop(intent);
        for hold in 2..=4 {
            let at = now("b1", 100_000 * u64::from(hold));
            let doubt = shelf.reconcile(shelf.turn(hold, dead()), &at);
            assert_eq!(doubt.call().operation.body.as_str(), body);
        }
        let next = shelf.reconcile(shelf.turn(5, dead()), &now("b1", 900_000));
        let again = shelf.execute(next.resolve(Finding::NotLanded, &now("b1", 900_000)), &now("b1", 900_000));
        assert_eq!(again.call().operation.body.as_str(), body);
    }
    // What is no number never gets that far.
    for bad in ["NaN", "Infinity", "01", "1.", ".5", "+1"] {
        let text = format!(
            r#"{{"format":"surestep.plan/1","operations":[{{"kind":"k","repo":"","target":"","body":{{"n":{bad}}}}}]}}"#
        );
        assert!(matches!(Plan::parse(text.as_bytes()), Err(PlanError::Json(_))), "{bad}");
    }
}

#[test]
fn a_key_that_stands_twice_is_refused_at_every_depth() {
    // C106
    let (shelf, intent) = Shelf::begun(&one_op_plan(r#"{"a":{"b":[{"c":1}]}}"#), &terms(&ask(), 1));
    drop(intent);
    let commit = shelf.commits[0].text().to_owned();
    let envelope = shelf.load().to_json().unwrap();
    for once in [r#""c":1"#, r#""epoch":1"#, r#""op":1"#, r#""recovery":"ask""#, r#""revision":1"#] {
        let twice = format!("{once},{once}");
        for text in [&commit, &envelope] {
            assert!(text.contains(once), "{once}");
        }
        let doubled = commit.replacen(once, &twice, 1);
        assert!(matches!(Commit::parse(&doubled), Err(CommitError::Json(_))), "{once} in a commit");
        let doubled = envelope.replacen(once, &twice, 1);
        assert!(
            matches!(Envelope::parse(doubled.as_bytes()), Err(Corrupt::Json(_))),
            "{once} in an envelope"
        );
    }
    let plan = br#"{"format":"surestep.plan/1","operations":[{"kind":"k","repo":"","target":"","body":{"x":{"s":1,"s":2}}}]}"#;
    assert!(matches!(Plan::parse(plan), Err(PlanError::Json(_))));
}

#[test]
fn what_was_approved_is_what_runs_or_nothing_runs() {
    // C122
    let mut plan = one_op_plan(r#"{"amount":10}"#);
    plan.operations[0].approval = Some(Approval::Required);
    let mut shelf = Shelf::default();
    let turn = shelf.turn(1, dead()).offer(&plan, &terms(&ask(), 1)).unwrap();
    assert_eq!(question(shelf.rest(turn, &now("b1", 1_000))).about, About::Approval);
    shelf.answer(2, dead(), &request("r1", Word::Approve, 1), &now("b1", 2_000)).unwrap();
    let text = shelf.commits[0].text();
    let altered = text.replace(r#"{"amount":10}"#, r#"{"amount":99}"#);
    assert!(matches!(Commit::parse(&altered), Err(CommitError::Sum { .. })));
    // The sums recomputed as well: the key no longer fits.
    let cut = altered.rfind(",\"sum\"").unwrap();
    let bare = format!("{}}}", &altered[..cut]);
    let resealed = format!("{},\"sum\":\"{}\"}}", &altered[..cut], Digest::of(bare.as_bytes()));
    let forged = Commit::parse(&resealed).unwrap();
    let refused = Envelope::from_commits(session_id(), vec![forged]).unwrap_err();
    assert!(matches!(refused, Corrupt::Misfit { revision: 1, .. }), "{refused:?}");
    // An approval of something else does not fit either.
    let mut unapproved = Shelf { commits: shelf.commits[..1].to_vec(), ..Shelf::default() };
    unapproved.commits.truncate(1);
    let key = shelf.operation(1).bound.key;
    let claimed = entry::Claimed {
        epoch: Epoch::new(2),
        hold: HoldId::new("x").unwrap(),
        owner: "x".into(),
        store: None,
        allow: None,
        extra: Extra::default(),
    };
    let approved = entry::Approved {
        op: op(1),
        key,
        digest: Digest::of(b"{\"amount\":99}"),
        by: "ada".into(),
        because: "fine".into(),
        whole: None,
        request: None,
        extra: Extra::default(),
    };
    let mut commit = forged_at(&unapproved, vec![claimed.into(), approved.into()], Epoch::new(2));
    let refused = unapproved.load().take(commit.clone()).unwrap_err();
    assert!(matches!(refused, Misfit::Order { entry: "approved", .. }), "{refused:?}");
    // And what nobody approved cannot be intended.
    let claimed = commit.entries()[0].clone();
    let intended = entry::Intended {
        op: op(1),
        key,
        attempt: Attempt::FIRST,
        budget_ms: 1,
        boot: "b1".into(),
        since_boot_ms: 1,
        deadline: now("b1", 1).wall,
        machine: None,
        extra: Extra::default(),
    };
    commit = forged_at(&unapproved, vec![claimed, intended.into()], Epoch::new(2));
    assert!(matches!(unapproved.load().take(commit).unwrap_err(), Misfit::Illegal { .. }));
}

fn forged_at(shelf: &Shelf, entries: Vec<Entry>, epoch: Epoch) -> Commit {
    let fields = CommitFields { epoch, ..forged(shelf, entries).into_fields() };
    Commit::seal(fields).unwrap()
}

#[test]
fn an_envelope_of_an_earlier_version_loads_with_gapless_numbers_and_goes_on() {
    // C133. The file was written by the first version and is never rewritten.
    let bytes = include_bytes!("fixtures/envelope-1-in-doubt.json");
    let envelope = Envelope::parse(bytes).unwrap();
    let numbers: Vec<u32> = envelope.session().operations.iter().map(|o| o.number.value()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let attempts: Vec<u32> =
        envelope.session().operations[1].attempts.iter().map(|a| a.number.value()).collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(Envelope::parse(envelope.to_json().unwrap().as_bytes()).unwrap(), envelope);
    assert!(
        envelope.to_json().unwrap().contains(r#""x-later":{"n":1E2}"#),
        "a later version's field was dropped"
    );
    let said = format!("[{}]", envelope.conversation().iter().map(Raw::as_str).collect::<Vec<_>>().join(","));
    let mut shelf = Shelf { commits: envelope.commits().to_vec(), said: vec![said], late: Vec::new() };
    invariants::check(&shelf.commits).unwrap();
    let at = now("another boot", 5);
    let doubt = shelf.reconcile(shelf.turn(70, dead()), &at);
    assert_eq!(doubt.call().op, op(2));
    let key = doubt.call().operation.key;
    let turn = doubt.resolve(Finding::Landed(landed(key)), &at);
    let (executed, rest) = run_landing(&mut shelf, turn, &at);
    assert_eq!((executed.len(), report(rest).outcome), (1, End::Completed));
}

// ------------------------------------------------------------------------------------- refusals, restarts, rests, clocks

fn refuse(shelf: &mut Shelf, turn: Turn, at: &Now, retry: Retry) -> Rest {
    let intent = shelf.execute(turn, at);
    let turn = intent.settle(Outcome::NotLanded(fault("refused"), retry), at);
    shelf.rest(turn, at)
}

#[test]
fn as_many_refusals_as_allowed_fail_the_operation_and_kills_do_not_count() {
    let (plan, terms) = (plan(2), terms(&ask(), 2));
    let mut shelf = Shelf::default();
    let mut at_ms = 1_000;
    let mut hold = 0;
    let mut attempts = 0;
    for refusals in 1..=3_u32 {
        hold += 1;
        let at = now("b1", at_ms);
        let turn = shelf.turn(hold, dead()).offer(&plan, &terms).unwrap();
        let rest = refuse(&mut shelf, turn, &at, Retry::Backoff);
        attempts += 1;
        let stands = shelf.operation(1);
        assert_eq!(
            (stands.answers, stands.restarts, stands.attempts.len()),
            (refusals, refusals - 1, attempts)
        );
        if refusals == 3 {
            let report = report(rest);
            assert_eq!((report.outcome, report.verdict.as_str()), (End::Failed, "failed"));
            assert_eq!(report.operations[1].state, State::Planned, "what comes after is not started");
            break;
        }
        at_ms += until(rest);
        // One more attempt, lost to a kill and found absent in time, and one that was never sent.
        drop(shelf.execute(shelf.turn(hold + 1, fenced()), &now("b1", at_ms)));
        at_ms += EARNED_MS;
        let at = now("b1", at_ms);
        let doubt = shelf.reconcile(shelf.turn(hold + 2, fenced()), &at);
        let again = shelf.execute(doubt.resolve(Finding::NotLanded, &at), &at);
        let unsent = again.settle(Outcome::NotSent(fault("not_sent")), &at);
        at_ms += until(shelf.rest(unsent, &at));
        (hold, attempts) = (hold + 2, attempts + 2);
        assert_eq!((shelf.operation(1).answers, shelf.operation(1).restarts), (refusals, refusals));
    }
}

#[test]
fn a_refusal_for_good_fails_at_once() {
    let mut shelf = Shelf::default();
    let turn = shelf.turn(1, dead()).offer(&plan(1), &terms(&ask(), 1)).unwrap();
    assert_eq!(report(refuse(&mut shelf, turn, &now("b1", 1_000), Retry::Never)).outcome, End::Failed);
    assert_eq!(shelf.operation(1).attempts.len(), 1);
}

#[test]
fn too_many_restarts_lead_to_a_question_and_never_to_a_failure() {
    let local = OperationTerms { local: true, lag_ms: 0, ..ask() };
    let mut shelf = Shelf::lost(&local);
    for lost in 1..limits::RESTARTS_MAX {
        let at = now("b1", 1_000 + u64::from(lost) * 10);
        let doubt = shelf.reconcile(shelf.turn(lost + 1, dead()), &at);
        drop(shelf.execute(doubt.resolve(Finding::NotLanded, &at), &at));
        assert_eq!((shelf.operation(1).restarts, shelf.operation(1).answers), (lost, 0));
    }
    let at = now("b1", 9_000);
    let doubt = shelf.reconcile(shelf.turn(100, dead()), &at);
    let asked = question(shelf.rest(doubt.resolve(Finding::NotLanded, &at), &at));
    assert_eq!((asked.about, asked.attempts), (About::Restarts, limits::RESTARTS_MAX));
    assert_eq!(shelf.operation(1).state, State::InDoubt);
    // A look-up later still asks; a landing found then settles it, a person's word lets it go on.
    let later = now("b1", 9_000 + limits::LOOK_MAX_MS);
    let doubt = shelf.reconcile(shelf.turn(101, dead()), &later);
    let mut landed_after_all = shelf.clone();
    let key = doubt.call().operation.key;
    let turn = doubt.resolve(Finding::Landed(landed(key)), &later);
    assert_eq!(report(landed_after_all.rest(turn, &later)).outcome, End::Completed);
    shelf.answer(102, dead(), &request("r1", Word::NotLanded, 1), &later).unwrap();
    assert_eq!(shelf.operation(1).restarts, 0);
    let turn = shelf.turn(103, dead());
    assert_eq!(report(run_landing(&mut shelf, turn, &later).1).outcome, End::Completed);
}

#[test]
fn a_retry_after_is_respected_on_this_boot_and_survives_a_reload() {
    let mut shelf = Shelf::default();
    let turn = shelf.turn(1, dead()).offer(&plan(1), &terms(&ask(), 1)).unwrap();
    let rest = refuse(&mut shelf, turn, &now("b1", 1_000), Retry::After { ms: 77_000 });
    assert_eq!(until(rest), 77_000);
    let ten_years_ms = 10 * 365 * 86_400_000;
    for (at_ms, left) in [(1_001, 76_999), (60_000, 18_000), (77_999, 1)] {
        for skew in [0, ten_years_ms, -ten_years_ms] {
            let mut at = now("b1", at_ms);
            at.wall = Wall::from_unix_ms(at.wall.unix_ms() + skew);
            let stored = shelf.load();
            assert_eq!(until(stored.rests(&Proof::default(), &[], false, &at).unwrap()), left);
            let commits = shelf.commits.len();
            let turn = shelf.turn(2, dead());
            assert_eq!(until(shelf.rest(turn, &at)), left);
            assert_eq!(shelf.commits.len(), commits, "an early step wrote something");
        }
    }
    let turn = shelf.turn(3, dead());
    assert_eq!(shelf.execute(turn, &now("b1", 78_000)).call().attempt, Attempt::new(2));
}

#[test]
fn on_another_boot_a_rest_is_bounded_by_its_own_length() {
    let mut shelf = Shelf::default();
    let turn = shelf.turn(1, dead()).offer(&plan(1), &terms(&ask(), 1)).unwrap();
    drop(refuse(&mut shelf, turn, &now("b1", 1_000), Retry::After { ms: 77_000 }));
    let rest_at = |ms| shelf.load().rests(&Proof::default(), &[], false, &now("b2", ms));
    assert_eq!(until(rest_at(11_000).unwrap()), 67_000);
    assert!(rest_at(78_000).is_none());
    let mut skewed = now("b2", 11_000);
    skewed.wall = Wall::from_unix_ms(skewed.wall.unix_ms() - 3_600_000);
    assert!(
        shelf.load().rests(&Proof::default(), &[], false, &skewed).is_none(),
        "a clock put back waits for ever"
    );
}

#[test]
fn backoff_is_pure_and_capped() {
    let backoff = |attempts: u32| {
        let one = OperationTerms { attempts_max: attempts + 1, ..ask() };
        let mut shelf = Shelf::default();
        let mut at_ms = 1_000;
        let mut waits = Vec::new();
        for hold in 1..=attempts {
            let at = now("b1", at_ms);
            let turn = shelf.turn(hold, dead()).offer(&plan(1), &terms(&one, 1)).unwrap();
            let wait = until(refuse(&mut shelf, turn, &at, Retry::Backoff));
            waits.push(wait);
            at_ms += wait;
        }
        waits
    };
    let waits = backoff(24);
    assert_eq!(waits, backoff(24), "two processes wait differently");
    for (n, wait) in waits.iter().enumerate() {
        let cap = (limits::BACKOFF_FIRST_MS << n.min(20)).min(limits::BACKOFF_MAX_MS);
        assert!(*wait <= cap, "wait {n} is {wait} ms, over {cap}");
    }
    assert!(waits.iter().any(|w| *w > limits::BACKOFF_MAX_MS / 4), "it never grows: {waits:?}");
    let distinct: std::collections::BTreeSet<_> = waits.iter().collect();
    assert!(distinct.len() > 18, "no jitter: {waits:?}");
}

#[test]
fn a_wall_clock_that_jumps_ten_years_decides_nothing() {
    let history = |skew_ms: i64| {
        let skewed = |ms: u64| {
            let at = now("b1", ms);
            Now { wall: Wall::from_unix_ms(at.wall.unix_ms() + skew_ms), mark: at.mark }
        };
        let mut shelf = Shelf::lost(&ask());
        let mut seen = Vec::new();
        for (hold, ms) in [(2, 1_005), (3, 20_000), (4, 46_001), (5, 46_002 + 15_002)] {
            let turn = shelf.turn(hold, dead());
            match shelf.commit_on(turn, &skewed(ms)) {
                Next::Reconcile(doubt) => {
                    let next = shelf.commit_on(doubt.resolve(Finding::NotLanded, &skewed(ms)), &skewed(ms));
                    seen.push(match next {
                        Next::Rest(rested) => format!("until {}", until(rested.why)),
                        Next::Execute(intent) => format!("attempt {}", intent.call().attempt),
                        other => panic!("{other:?}"),
                    });
                }
                other => seen.push(format!("{:?}", matches!(other, Next::Rest(_)))),
            }
        }
        (seen, shelf.entries())
    };
    const TEN_YEARS_MS: i64 = 10 * 365 * 86_400_000;
    let control = history(0);
    assert!(control.0.iter().any(|s| s == "attempt 2"), "{control:?}");
    assert_eq!(history(TEN_YEARS_MS), control);
    assert_eq!(history(-TEN_YEARS_MS), control);
}

#[test]
fn nothing_is_sent_past_the_deadline_on_any_clock() {
    let begun = || Shelf::begun(&plan(1), &terms(&ask(), 1)).1;
    let at = |ms: u64, wall_ms: i64, boot: &str| {
        let at = now(boot, ms);
        Now { wall: Wall::from_unix_ms(now("b1", 1_000).wall.unix_ms() + wall_ms), mark: at.mark }
    };
    let deadline = i64::try_from(DEADLINE_MS).unwrap();
    assert_eq!(begun().refuses_to_send(&at(1_000 + DEADLINE_MS - 1, deadline - 1, "b1")), None);
    for late in
        [at(1_000 + DEADLINE_MS, 0, "b1"), at(1_000, deadline, "b1"), at(1_000, 0, "b2"), at(999, 0, "b1")]
    {
        assert!(matches!(begun().refuses_to_send(&late), Some(Outcome::NotSent(_))), "{late:?}");
    }
    assert!(!begun().must_recheck(&at(2_000, 0, "b1")));
    assert!(begun().must_recheck(&at(2_001, 0, "b1")));
    // Not sent is no refusal.
    let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(&OperationTerms { attempts_max: 1, ..ask() }, 1));
    let late = at(1_000 + DEADLINE_MS, 0, "b1");
    let unsent = intent.refuses_to_send(&late).unwrap();
    drop(shelf.commit_on(intent.settle(unsent, &late), &late));
    let stands = shelf.operation(1);
    assert_eq!((stands.answers, stands.restarts), (0, 0));
    assert!(matches!(stands.state, State::Retrying | State::Intended));
}

// ------------------------------------------------------------------------------------------------------ earned absence

/// Takes over at a moment, looks, finds nothing: `None` if absence counts, else the milliseconds to wait.
fn absent(shelf: &Shelf, hold: u32, proof: Proof, at: &Now) -> Option<u64> {
    let mut shelf = shelf.clone();
    let doubt = shelf.reconcile(shelf.turn(hold, proof), at);
    match shelf.commit_on(doubt.resolve(Finding::NotLanded, at), at) {
        Next::Execute(intent) => {
            assert_eq!(intent.call().attempt, Attempt::new(2));
            None
        }
        // What its worker ended by itself is refused, and waits as a refusal does.
        Next::Rest(rested) if rested.envelope.session().operations[0].state == State::Retrying => None,
        Next::Rest(_) if shelf.operation(1).attempts[0].absent => None,
        Next::Rest(rested) => Some(until(rested.why)),
        other => panic!("{other:?}"),
    }
}

fn fenced() -> Proof {
    Proof { predecessor_dead: false, ..dead() }
}

const EARNED_MS: u64 = DEADLINE_MS + LAG_MS + 2;

#[test]
fn absence_is_earned_by_a_word_of_the_adapter_or_the_engine() {
    // (a)
    for (outcome, refusals) in [
        (Outcome::NotLanded(fault("refused"), Retry::After { ms: 1 }), 1),
        (Outcome::NotSent(fault("not_sent")), 0),
    ] {
        let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(&ask(), 1));
        drop(shelf.commit_on(intent.settle(outcome.clone(), &now("b1", 1_001)), &now("b1", 1_001)));
        assert_eq!(shelf.operation(1).answers, refusals);
        assert!(shelf.operation(1).unaccounted().next().is_none());
        // The same words, come too late for their owner, count as well, without any wait.
        let mut lost = Shelf::lost(&ask());
        let key = lost.operation(1).bound.key;
        let (op, attempt, epoch) = (op(1), Attempt::FIRST, Epoch::FIRST);
        lost.late.push(Evidence { op, key, attempt, epoch, observed: outcome, ended: None });
        drop(lost.commit_on(lost.turn(2, fenced()), &now("b1", 1_002)));
        assert!(lost.operation(1).attempts[0].absent);
    }
    // An unknown does not.
    let mut lost = Shelf::lost(&ask());
    let key = lost.operation(1).bound.key;
    let observed = Outcome::Unknown(fault("lost"));
    lost.late.push(Evidence {
        op: op(1),
        key,
        attempt: Attempt::FIRST,
        epoch: Epoch::FIRST,
        observed,
        ended: None,
    });
    assert!(absent(&lost, 2, fenced(), &now("b1", 1_002)).is_some());
}

#[test]
fn absence_is_earned_on_the_intents_own_boot_after_the_whole_budget_and_the_lag() {
    // (b), anchor: the intent
    let shelf = Shelf::lost(&ask());
    assert_eq!(absent(&shelf, 2, fenced(), &now("b1", 1_000 + EARNED_MS - 1)), Some(1));
    assert_eq!(absent(&shelf, 2, fenced(), &now("b1", 1_000 + EARNED_MS)), None);
    // Neither death nor another machine's clock shortens it for work that a remote does.
    assert!(absent(&shelf, 2, dead(), &now("b1", 1_001)).is_some());
    assert!(absent(&shelf, 2, fenced(), &now("b2", 1_000 + EARNED_MS)).is_some());
    // A clock behind the stored moment is another boot's.
    assert!(absent(&shelf, 2, fenced(), &now("b1", 999)).is_some());
}

#[test]
fn a_known_end_counts_for_local_work_and_does_not_precede_the_deadline_of_a_remote() {
    // (b), anchor: a known end
    let over = |one: &OperationTerms| {
        let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(one, 1));
        let turn = intent.settle(Outcome::Over(fault("over")), &now("b1", 5_000));
        drop(shelf.reconcile(turn, &now("b1", 5_000)));
        shelf
    };
    let local = over(&OperationTerms { local: true, ..ask() });
    let unfinished = Proof { unfinished: vec![(local.operation(1).bound.key, Attempt::FIRST)], ..dead() };
    assert_eq!(absent(&local, 2, unfinished.clone(), &now("b1", 5_000 + LAG_MS + 1)), Some(1));
    assert_eq!(absent(&local, 2, unfinished, &now("b1", 5_000 + LAG_MS + 2)), None);
    let remote = over(&ask());
    assert!(absent(&remote, 2, fenced(), &now("b1", 5_000 + LAG_MS + 2)).is_some());
    assert_eq!(absent(&remote, 2, fenced(), &now("b1", 1_000 + EARNED_MS)), None);
}

#[test]
fn what_ended_by_itself_and_is_not_there_counts_as_an_answer_and_waits() {
    let local = OperationTerms { local: true, lag_ms: 0, ..ask() };
    let (mut shelf, mut intent) = Shelf::begun(&plan(1), &terms(&local, 1));
    let mut at = now("b1", 5_000);
    for answers in 1..=3 {
        let turn = intent.settle(Outcome::Ended(fault("exit 1")), &at);
        let doubt = shelf.reconcile(turn, &at);
        let rest = shelf.rest(doubt.resolve(Finding::NotLanded, &at), &at);
        let operation = shelf.operation(1);
        assert_eq!((operation.answers, operation.restarts), (answers, 0));
        if answers == 3 {
            assert_eq!(report(rest).outcome, End::Failed);
            return;
        }
        assert_eq!(operation.state, State::Retrying);
        assert!(operation.rest.is_some(), "it waits before it is tried again");
        at = now("b1", at.mark.since_boot_ms + 400_000);
        let turn = shelf.turn(answers + 1, dead());
        intent = match shelf.commit_on(turn, &at) {
            Next::Execute(intent) => intent,
            other => panic!("{other:?}"),
        };
    }
}

#[test]
fn absence_is_earned_by_the_stores_stamps_within_one_term_only() {
    // (b), anchor: the server's stamps
    let shelf = Shelf::lost(&ask());
    let stamped = |publish: Stamp, read: Stamp| {
        let proof =
            Proof { publishes: vec![publish], read: Some(read), machine: "m2".into(), ..Proof::default() };
        absent(&shelf, 2, proof, &now("other", 50))
    };
    let at = |ms, term| Stamp { ms, term };
    assert_eq!(stamped(at(700_000, 3), at(700_000 + EARNED_MS, 3)), None);
    assert_eq!(stamped(at(700_000, 3), at(700_000 + EARNED_MS - 1, 3)), Some(1));
    assert!(stamped(at(700_000, 3), at(700_000 + EARNED_MS, 4)).is_some(), "across terms");
    assert!(stamped(at(700_000, 3), at(699_999, 3)).is_some(), "a server's clock that went back");
}

#[test]
fn absence_is_earned_on_a_strange_boot_from_its_first_read_on() {
    // (b), anchor: the first read of this boot
    let mut shelf = Shelf::lost(&ask());
    drop(shelf.reconcile(shelf.turn(2, fenced()), &now("b2", 70)));
    let reads = shelf.operation(1).attempts[0].reads.clone();
    assert_eq!(reads, [Mark::new("b2", 70)]);
    // Restarts on that boot do not start the wait anew.
    drop(shelf.reconcile(shelf.turn(3, fenced()), &now("b2", 20_000)));
    assert_eq!(shelf.operation(1).attempts[0].reads, reads);
    assert_eq!(absent(&shelf, 4, fenced(), &now("b2", 70 + EARNED_MS - 1)), Some(1));
    assert_eq!(absent(&shelf, 4, fenced(), &now("b2", 70 + EARNED_MS)), None);
    // A third boot starts its own, and the second one's stays.
    drop(shelf.reconcile(shelf.turn(5, fenced()), &now("b3", 999_999)));
    assert_eq!(shelf.operation(1).attempts[0].reads, [Mark::new("b2", 70), Mark::new("b3", 999_999)]);
    assert!(absent(&shelf, 6, fenced(), &now("b3", 999_999 + EARNED_MS - 1)).is_some());
    assert_eq!(absent(&shelf, 6, fenced(), &now("b2", 70 + EARNED_MS)), None);
}

#[test]
fn absence_of_local_work_is_earned_by_its_owners_death_and_by_nothing_less() {
    // (c), each condition denied in turn
    let local = OperationTerms { local: true, ..ask() };
    let mut shelf = Shelf::lost(&local);
    let key = shelf.operation(1).bound.key;
    let early = now("b1", 1_001);
    assert_eq!(absent(&shelf, 2, dead(), &early), None, "its guard is gone with its owner");
    assert_eq!(absent(&shelf, 2, dead(), &now("b2", 3)), None, "another boot of the same machine");
    let denied = |what: &str, shelf: &Shelf, proof: Proof, at: &Now| {
        assert!(absent(shelf, 2, proof, at).is_some(), "{what}");
    };
    denied("not dead", &shelf, fenced(), &early);
    denied("not dead, rebooted", &shelf, fenced(), &now("b2", 3));
    let unfinished = Proof { unfinished: vec![(key, Attempt::FIRST)], ..dead() };
    denied("its guard is not known to have ended", &shelf, unfinished.clone(), &early);
    assert_eq!(absent(&shelf, 2, unfinished, &now("b2", 3)), None, "a reboot ended that guard");
    let other_guard = Proof { unfinished: vec![(key, Attempt::new(2))], ..dead() };
    assert_eq!(absent(&shelf, 2, other_guard, &early), None, "another attempt's guard");
    denied("another machine", &shelf, Proof { machine: "m2".into(), ..dead() }, &now("b2", 3));
    denied("a machine without an id", &shelf, Proof { machine: String::new(), ..dead() }, &now("b2", 3));
    denied("a clock behind the intent on the same boot", &shelf, dead(), &now("b1", 999));
    denied("work of a remote", &Shelf::lost(&ask()), dead(), &early);
    // An intent without a machine's id proves nothing elsewhere, even to a process without one.
    let nameless = Proof { machine: String::new(), ..dead() };
    shelf = Shelf::default();
    let turn = shelf.turn(1, nameless.clone()).offer(&plan(1), &terms(&local, 1)).unwrap();
    drop(shelf.execute(turn, &now("b1", 1_000)));
    denied("neither machine has an id", &shelf, nameless, &now("b2", 3));
    // Of the same epoch: its own attempt is not proved dead by its own hold.
    let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(&local, 1));
    let turn = intent.settle(Outcome::Unknown(fault("lost")), &early);
    let doubt = shelf.reconcile(turn, &early);
    let turn = doubt.resolve(Finding::NotLanded, &early);
    assert!(until(shelf.rest(turn, &early)) > 0, "the same epoch");
}

#[test]
fn a_take_over_after_the_deadline_moves_the_end_once() {
    let mut shelf = Shelf::lost(&ask());
    let late = now("b1", 1_000 + DEADLINE_MS + 60_000);
    let unmoved = absent(&shelf, 2, fenced(), &late);
    assert_eq!(unmoved, None, "without a proof of death the deadline is the end");
    assert!(absent(&shelf, 2, dead(), &late).is_some(), "a machine that slept may have sent as late as now");
    drop(shelf.reconcile(shelf.turn(2, dead()), &late));
    assert_eq!(shelf.operation(1).attempts[0].ended.as_ref(), Some(&late.mark));
    let second = now("b1", late.mark.since_boot_ms + 10_000);
    drop(shelf.reconcile(shelf.turn(3, dead()), &second));
    assert_eq!(shelf.operation(1).attempts[0].ended.as_ref(), Some(&late.mark), "moved again");
    assert_eq!(absent(&shelf, 4, dead(), &now("b1", late.mark.since_boot_ms + LAG_MS + 1)), Some(1));
    assert_eq!(absent(&shelf, 4, dead(), &now("b1", late.mark.since_boot_ms + LAG_MS + 2)), None);
    // A take-over before the deadline shortens nothing and moves nothing, then or later.
    let mut shelf = Shelf::lost(&ask());
    drop(shelf.reconcile(shelf.turn(2, dead()), &now("b1", 1_000 + DEADLINE_MS - 1)));
    assert_eq!(shelf.operation(1).attempts[0].ended, None);
    drop(shelf.reconcile(shelf.turn(3, dead()), &late));
    assert_eq!(shelf.operation(1).attempts[0].ended, None);
    assert_eq!(absent(&shelf, 4, dead(), &now("b1", 1_000 + EARNED_MS)), None);
}

#[test]
fn a_doubt_is_fenced_by_a_commit_of_its_own_before_anything_is_asked() {
    let mut shelf = Shelf::lost(&ask());
    let commits = shelf.commits.len();
    let next = shelf.turn(2, dead()).next(&now("b2", 10)).unwrap();
    let Next::Commit(staged) = next else { panic!("{next:?}") };
    let tags: Vec<_> = staged.commit().entries().iter().map(Entry::tag).collect();
    assert_eq!(tags, ["claimed", "doubted"]);
    assert_eq!(staged.commit().epoch(), Epoch::new(2));
    shelf.publish(&staged).unwrap();
    assert!(matches!(staged.committed().next(&now("b2", 11)).unwrap(), Next::Reconcile(_)));
    assert_eq!(shelf.commits.len(), commits + 1);
    // The owner that was fenced cannot publish: its revision is taken.
    let (shelf_of_first, intent) = Shelf::begun(&plan(1), &terms(&ask(), 1));
    let mut shelf = shelf_of_first.clone();
    drop(shelf.reconcile(shelf.turn(2, fenced()), &now("b1", 1_500)));
    let key = intent.call().operation.key;
    let turn = intent.settle(Outcome::Landed(landed(key)), &now("b1", 1_600));
    let Next::Commit(late) = turn.next(&now("b1", 1_600)).unwrap() else { panic!("no commit") };
    assert!(shelf.publish(&late).is_err());
    assert!(shelf.load().take(late.commit().clone()).is_err(), "it does not fit the chain either");
}

#[test]
fn repeats_stay_inside_the_window_measured_from_the_first_intent() {
    let repeat = terms_of(RecoveryClass::Repeat);
    let last_ms = 1_000 + WITHIN_MS - DEADLINE_MS - LAG_MS;
    let at_edge = |ms, boot: &str, proof| {
        let mut shelf = Shelf::lost(&repeat);
        let turn = shelf.turn(2, proof);
        match shelf.commit_on(turn, &now(boot, ms)) {
            Next::Execute(intent) => Some(intent),
            Next::Rest(rested) => {
                drop(question(rested.why));
                None
            }
            other => panic!("{other:?}"),
        }
    };
    let intent = at_edge(last_ms - 1, "b1", fenced()).unwrap();
    assert_eq!(intent.call().attempt, Attempt::new(2));
    assert!(
        intent.refuses_to_send(&now("b1", last_ms)).is_some(),
        "the window is tested again before sending"
    );
    assert!(at_edge(last_ms, "b1", fenced()).is_none());
    assert!(at_edge(2_000, "b2", fenced()).is_none(), "no clock to measure it by");
    let stamp = |ms| Stamp { ms, term: 1 };
    let proof = |read_ms| Proof { publishes: vec![stamp(1_000)], read: Some(stamp(read_ms)), ..fenced() };
    assert!(at_edge(2_000, "b2", proof(last_ms - 1)).is_some());
    assert!(at_edge(2_000, "b2", proof(last_ms)).is_none());
    // Afterwards the remote is asked, where it can be.
    let mut shelf = Shelf::lost(&OperationTerms { then_ask: true, ..repeat });
    drop(shelf.reconcile(shelf.turn(2, fenced()), &now("b1", last_ms)));
}

#[test]
fn a_late_refusal_of_one_attempt_leaves_the_others_open() {
    let mut shelf = Shelf::lost(&terms_of(RecoveryClass::Repeat));
    drop(shelf.execute(shelf.turn(2, fenced()), &now("b1", 1_500)));
    let key = shelf.operation(1).bound.key;
    for (attempt, observed) in [
        (Attempt::FIRST, Outcome::NotSent(fault("not_sent"))),
        (Attempt::new(2), Outcome::NotLanded(fault("refused"), Retry::Never)),
        (Attempt::FIRST, Outcome::NotLanded(fault("refused"), Retry::Backoff)),
    ] {
        let mut shelf = shelf.clone();
        shelf.late.push(Evidence {
            op: op(1),
            key,
            attempt,
            epoch: Epoch::new(u64::from(attempt.value())),
            observed,
            ended: None,
        });
        drop(shelf.commit_on(shelf.turn(3, fenced()), &now("b1", 1_600)));
        let stands = shelf.operation(1);
        assert!(stands.attempts.iter().all(|a| a.absent == (a.number == attempt)), "{stands:?}");
        assert_eq!(stands.state, State::InDoubt);
        assert!(stands.rest.is_some(), "it is repeated without a pause");
    }
}

// -------------------------------------------------------------------------------------------------------- a person's word

#[test]
fn not_landed_before_its_time_is_refused_with_the_time_and_can_be_overridden() {
    let mut shelf = Shelf::lost(&terms_of(RecoveryClass::Halt));
    drop(shelf.rest(shelf.turn(2, fenced()), &now("b1", 2_000)));
    let before = shelf.commits.clone();
    let too_early =
        shelf.answer(3, fenced(), &request("r1", Word::NotLanded, 1), &now("b1", 3_000)).unwrap_err();
    assert_eq!(too_early, Refused::TooEarly { op: op(1), wait_ms: EARNED_MS - 2_000 });
    assert_eq!(shelf.commits, before, "a refused word was written");
    let mut overridden = shelf.clone();
    overridden.answer(4, fenced(), &request("r2", Word::NotLandedNow, 1), &now("b1", 3_000)).unwrap();
    let text = overridden.commits.last().unwrap().text();
    assert!(text.contains(r#""overridden":true"#) && text.contains(r#""by":"ada""#), "{text}");
    shelf.answer(4, fenced(), &request("r3", Word::NotLanded, 1), &now("b1", 1_000 + EARNED_MS)).unwrap();
    assert!(!shelf.commits.last().unwrap().text().contains("overridden"));
    for mut shelf in [overridden, shelf] {
        let stands = shelf.operation(1);
        assert_eq!((stands.state, stands.answers, stands.restarts), (State::Retrying, 0, 0));
        let turn = shelf.turn(5, dead());
        assert_eq!(shelf.execute(turn, &now("b1", 60_000)).call().attempt, Attempt::new(2));
    }
}

#[test]
fn a_word_is_folded_once_and_only_for_the_attempt_it_spoke_of() {
    let mut shelf = Shelf::lost(&terms_of(RecoveryClass::Halt));
    drop(shelf.rest(shelf.turn(2, fenced()), &now("b1", 2_000)));
    let mut moved = request("r1", Word::Landed, 1);
    moved.attempt = Some(Attempt::new(2));
    let refused = shelf.answer(3, fenced(), &moved, &now("b1", 3_000)).unwrap_err();
    assert_eq!(refused, Refused::Moved { op: op(1), current: Attempt::FIRST, named: Attempt::new(2) });
    let mut word = request("r1", Word::Landed, 1);
    word.attempt = Some(Attempt::FIRST);
    word.receipt = Some(Receipt::new("mail-7"));
    let rest = shelf.answer(3, fenced(), &word, &now("b1", 3_000)).unwrap();
    let line = report(rest).operations.remove(0);
    assert_eq!(line.landed, Some((Receipt::new("mail-7"), Via::Operator)));
    let commits = shelf.commits.len();
    shelf.answer(4, fenced(), &word, &now("b1", 4_000)).unwrap();
    assert_eq!(shelf.commits.len(), commits, "the same request was folded twice");
    let again = shelf.answer(5, fenced(), &request("r2", Word::Skip, 1), &now("b1", 5_000)).unwrap_err();
    assert!(matches!(again, Refused::NotAsked { state: State::Succeeded, .. }), "{again:?}");
}

#[test]
fn what_is_under_way_cannot_be_skipped_and_what_is_in_doubt_is_skipped_as_perhaps_landed() {
    let (shelf, intent) = Shelf::begun(&plan(2), &terms(&ask(), 2));
    let refused = shelf.turn(1, dead()).answer(&request("r1", Word::Skip, 1), &now("b1", 1_001)).unwrap_err();
    assert!(matches!(refused, Refused::NotAsked { state: State::Intended, .. }), "{refused:?}");
    drop(intent);
    let mut shelf = Shelf::lost(&ask());
    let rest = shelf.answer(2, dead(), &request("r1", Word::Skip, 1), &now("b1", 2_000)).unwrap();
    let report = report(rest);
    assert_eq!((report.outcome, report.operations[0].may_have_landed), (End::Completed, true));
}

#[test]
fn a_cancelled_turn_intends_nothing_and_settles_what_is_open_first() {
    for (one, asked) in [
        (ask(), true),
        (OperationTerms { then_ask: true, ..terms_of(RecoveryClass::Repeat) }, true),
        (terms_of(RecoveryClass::Repeat), false),
        (terms_of(RecoveryClass::Halt), false),
    ] {
        let (mut shelf, intent) = Shelf::begun(&plan(2), &terms(&one, 2));
        drop(intent);
        let cancel = request("r1", Word::Cancel, 0);
        drop(shelf.answer(2, dead(), &cancel, &now("b1", 2_000)).unwrap());
        let at = now("b1", 1_000 + EARNED_MS);
        let turn = shelf.turn(3, fenced());
        match shelf.commit_on(turn, &at) {
            Next::Reconcile(doubt) => {
                assert!(asked, "{one:?}");
                let rest = shelf.rest(doubt.resolve(Finding::NotLanded, &at), &at);
                let report = report(rest);
                assert_eq!((report.outcome, report.verdict.as_str()), (End::Cancelled, "cancelled"));
                assert!(report.operations.iter().all(|line| line.state == State::Cancelled));
            }
            Next::Rest(rested) => {
                assert!(!asked, "{one:?}");
                assert_eq!(question(rested.why).about, About::Landing);
                assert!(matches!(shelf.load().standing(&at), Rest::NeedsPerson(_)), "{one:?}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(shelf.entries().iter().filter(|tag| **tag == "intended").count(), 1);
    }
}

// ------------------------------------------------------------------------------------------------------ an older copy

fn restore(shelf: &mut Shelf, at: &Now) {
    let restored = entry::Restored {
        mark_revision: Revision::new(9),
        mark_epoch: Epoch::new(5),
        boot: at.mark.boot.clone(),
        since_boot_ms: at.mark.since_boot_ms,
        mark_head: None,
        extra: Extra::default(),
    };
    let commit = forged(shelf, vec![restored.into()]);
    shelf.load().take(commit.clone()).unwrap();
    shelf.commits.push(commit);
    invariants::check(&shelf.commits).unwrap();
}

#[test]
fn after_a_restore_everything_that_is_not_settled_must_be_looked_for_first() {
    let mut shelf = Shelf::default();
    let turn = shelf.turn(1, dead()).offer(&plan(1), &terms(&ask(), 1)).unwrap();
    drop(refuse(&mut shelf, turn, &now("b1", 1_000), Retry::After { ms: 1_000 }));
    restore(&mut shelf, &now("b1", 500_000));
    assert_eq!(shelf.operation(1).state, State::InDoubt);
    // The lost attempt may have been sent right before the restore: its whole time has to pass.
    let lost = |shelf: &Shelf, ms| {
        let mut shelf = shelf.clone();
        let at = now("b1", ms);
        let doubt = shelf.reconcile(shelf.turn(2, fenced()), &at);
        assert_eq!(shelf.load().session().epoch, Epoch::new(6), "epochs start above the mark's");
        matches!(shelf.commit_on(doubt.resolve(Finding::NotLanded, &at), &at), Next::Execute(_))
    };
    assert!(!lost(&shelf, 500_000 + EARNED_MS - 1));
    assert!(lost(&shelf, 500_000 + EARNED_MS));
    // What is bound later begins in doubt as well, and may be found.
    let mut fresh = Shelf::default();
    let turn = fresh.turn(1, dead()).offer(&plan(1), &terms(&ask(), 1)).unwrap();
    drop(run_landing(&mut fresh, turn, &now("b1", 1_000)));
    restore(&mut fresh, &now("b1", 500_000));
    let mut second = plan(1);
    second.turn = Some(TurnNumber::new(2));
    let turn = fresh.turn(2, dead()).offer(&second, &terms(&ask(), 1)).unwrap();
    let doubt = fresh.reconcile(turn, &now("b1", 500_001));
    assert_eq!((doubt.call().op, doubt.call().attempt), (op(2), Attempt::LOST));
    let key = doubt.call().operation.key;
    let turn = doubt.resolve(Finding::Landed(landed(key)), &now("b1", 500_002));
    assert_eq!(report(fresh.rest(turn, &now("b1", 500_002))).outcome, End::Completed);
}

#[test]
fn after_a_restore_nothing_is_repeated_since_nobody_knows_when_it_began() {
    let mut shelf = Shelf::lost(&terms_of(RecoveryClass::Repeat));
    restore(&mut shelf, &now("b1", 2_000));
    let turn = shelf.turn(2, fenced());
    assert_eq!(question(shelf.rest(turn, &now("b1", 2_001))).about, About::Landing);
}

#[test]
fn after_a_restore_a_doubt_is_settled_without_an_intent_beside_it() {
    let mut shelf = Shelf::lost(&ask());
    restore(&mut shelf, &now("b1", 2_000));
    let at = now("b1", 2_000 + EARNED_MS);
    let doubt = shelf.reconcile(shelf.turn(2, fenced()), &at);
    let next = doubt.resolve(Finding::NotLanded, &at).next(&at).unwrap();
    let Next::Commit(staged) = next else { panic!("{next:?}") };
    assert_eq!(staged.commit().entries().iter().map(Entry::tag).collect::<Vec<_>>(), ["failed"]);
    shelf.publish(&staged).unwrap();
    drop(shelf.execute(staged.committed(), &at));
}

#[test]
fn after_a_restore_nothing_runs_without_its_approval() {
    let mut plan = plan(1);
    plan.operations[0].approval = Some(Approval::Required);
    let mut shelf = Shelf::default();
    let turn = shelf.turn(1, dead()).offer(&plan, &terms(&ask(), 1)).unwrap();
    drop(question(shelf.rest(turn, &now("b1", 1_000))));
    restore(&mut shelf, &now("b1", 2_000));
    let at = now("b1", 2_000 + EARNED_MS);
    let doubt = shelf.reconcile(shelf.turn(2, fenced()), &at);
    let rest = shelf.rest(doubt.resolve(Finding::NotLanded, &at), &at);
    assert_eq!(question(rest).about, About::Approval);
}

/// A lost attempt lands after all, and its owner, which is fenced, leaves the receipt: it is read before anything is
/// intended, also where a look-up found nothing and a person has said yes to another attempt.
#[test]
fn after_a_restore_the_receipt_of_a_lost_attempt_is_read_whatever_was_said_meanwhile() {
    let mut plan = plan(1);
    plan.operations[0].approval = Some(Approval::Required);
    for (approved, epoch, read) in [(false, 5, true), (true, 5, true), (true, 1, true), (true, 6, false)] {
        let mut shelf = Shelf::default();
        let turn = shelf.turn(1, dead()).offer(&plan, &terms(&ask(), 1)).unwrap();
        drop(question(shelf.rest(turn, &now("b1", 1_000))));
        restore(&mut shelf, &now("b1", 2_000));
        let at = now("b1", 2_000 + EARNED_MS);
        let doubt = shelf.reconcile(shelf.turn(2, fenced()), &at);
        drop(shelf.rest(doubt.resolve(Finding::NotLanded, &at), &at));
        if approved {
            shelf.answer(3, fenced(), &request("r1", Word::Approve, 1), &at).unwrap();
        }
        let key = shelf.operation(1).bound.key;
        let (attempt, observed) = (Attempt::FIRST, Outcome::Landed(landed(key)));
        shelf.late.push(Evidence {
            op: op(1),
            key,
            attempt,
            epoch: Epoch::new(epoch),
            observed,
            ended: None,
        });
        let at = now("b1", 3_000_000 + EARNED_MS);
        let turn = shelf.turn(4, fenced());
        if read {
            assert_eq!(report(shelf.rest(turn, &at)).outcome, End::Completed, "{approved} {epoch}");
            assert_eq!(shelf.operation(1).landed.as_ref().map(|l| l.1), Some(Via::Late));
        } else {
            // No attempt of that epoch was lost, nor is one known.
            drop(shelf.execute(turn, &at));
        }
        invariants::check(&shelf.commits).unwrap();
    }
}

// ------------------------------------------------------------------------------------------------------- late evidence

#[test]
fn a_late_landing_is_heeded_before_a_new_attempt() {
    let mut shelf = Shelf::lost(&terms_of(RecoveryClass::Halt));
    drop(shelf.rest(shelf.turn(2, fenced()), &now("b1", 2_000)));
    shelf.answer(3, fenced(), &request("r1", Word::NotLandedNow, 1), &now("b1", 3_000)).unwrap();
    let key = shelf.operation(1).bound.key;
    let observed = Outcome::Landed(landed(key));
    shelf.late.push(Evidence {
        op: op(1),
        key,
        attempt: Attempt::FIRST,
        epoch: Epoch::FIRST,
        observed,
        ended: None,
    });
    let turn = shelf.turn(4, fenced());
    let next = shelf.commit_on(turn, &now("b1", 4_000));
    assert!(
        !matches!(next, Next::Execute(_)),
        "it is executed although its first attempt is known to have landed"
    );
}

#[test]
fn a_landing_is_recorded_whatever_its_receipt_holds() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let long = format!("[{}]", "\"x\",".repeat(8_000) + "1");
    for detail in [r#"{"id":1,"id":2}"#, r#"{"text":"\ud83d"}"#, &deep, &long] {
        let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(&ask(), 1));
        let receipt = Receipt::new("r").with_detail(Raw::new(detail).unwrap());
        let at = now("b1", 1_001);
        let rest = shelf.rest(intent.settle(Outcome::Landed(receipt), &at), &at);
        let kept = report(rest).operations.remove(0).landed.unwrap().0;
        assert_eq!(kept.reference, "r");
        assert!(kept.detail.unwrap().as_str().contains("\"digest\":\"sha256:"), "{detail:.40}");
    }
    let exact = r#"{"n":1.50,"text":"é"}"#;
    let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(&ask(), 1));
    let receipt = Receipt::new("r").with_detail(Raw::new(exact).unwrap());
    drop(shelf.rest(intent.settle(Outcome::Landed(receipt), &now("b1", 1)), &now("b1", 1)));
    assert_eq!(shelf.operation(1).landed.unwrap().0.detail.unwrap().as_str(), exact);
}

#[test]
fn on_another_boot_the_wait_for_a_persons_not_landed_begins_with_the_first_step() {
    let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(&terms_of(RecoveryClass::Halt), 1));
    let at = now("b1", 1_500);
    drop(question(shelf.rest(intent.settle(Outcome::Unknown(fault("lost")), &at), &at)));
    let commits = shelf.commits.len();
    assert!(shelf.load().rests(&Proof::default(), &[], false, &now("b1", 9_000)).is_some());
    assert!(
        shelf.load().rests(&Proof::default(), &[], false, &now("b2", 10)).is_none(),
        "the read must be noted"
    );
    for hold in 2..=4 {
        let turn = shelf.turn(hold, fenced());
        drop(question(shelf.rest(turn, &now("b2", 10 * u64::from(hold)))));
        assert_eq!(shelf.commits.len(), commits + 1, "once per boot");
    }
    let word = request("r1", Word::NotLanded, 1);
    let early = shelf.answer(5, fenced(), &word, &now("b2", 20 + EARNED_MS - 1)).unwrap_err();
    assert_eq!(early, Refused::TooEarly { op: op(1), wait_ms: 1 });
    drop(shelf.answer(5, fenced(), &word, &now("b2", 20 + EARNED_MS)).unwrap());
}

#[test]
fn a_person_who_comes_too_early_is_told_a_time_that_stays() {
    for (boot, first_ms) in [("b1", 100_000), ("b2", 10)] {
        let mut shelf = Shelf::lost(&terms_of(RecoveryClass::Halt));
        let word = request("r1", Word::NotLanded, 1);
        let first = now(boot, first_ms);
        let Err(Refused::TooEarly { wait_ms, .. }) = shelf.answer(2, dead(), &word, &first) else {
            panic!("taken")
        };
        let Next::Commit(noted) = shelf.turn(2, dead()).note(&first).unwrap() else { panic!("not recorded") };
        assert_eq!(
            noted.commit().entries().iter().map(Entry::tag).collect::<Vec<_>>(),
            ["claimed", "doubted", "released"]
        );
        shelf.publish(&noted).unwrap();
        let later = |ms| now(boot, first_ms + ms);
        let early = shelf.answer(3, dead(), &word, &later(wait_ms - 1)).unwrap_err();
        assert_eq!(early, Refused::TooEarly { op: op(1), wait_ms: 1 });
        assert!(
            matches!(shelf.turn(3, dead()).note(&later(wait_ms - 1)).unwrap(), Next::Rest(_)),
            "recorded twice"
        );
        drop(shelf.answer(4, dead(), &word, &later(wait_ms)).unwrap());
    }
}

#[test]
fn an_attempt_that_was_handed_out_is_not_handed_out_again_even_to_its_own_hold() {
    for recovery in [RecoveryClass::Ask, RecoveryClass::Halt, RecoveryClass::Repeat] {
        let (mut shelf, intent) = Shelf::begun(&plan(1), &terms(&terms_of(recovery), 1));
        drop(intent);
        let turn = shelf.turn(1, dead());
        match (recovery, shelf.commit_on(turn, &now("b1", 1_001))) {
            (RecoveryClass::Ask, Next::Reconcile(_)) => {}
            (RecoveryClass::Halt, Next::Rest(rested)) => {
                assert_eq!(question(rested.why).about, About::Landing)
            }
            (RecoveryClass::Repeat, Next::Rest(rested)) => assert!(until(rested.why) > 0),
            other => panic!("{other:?}"),
        }
        let stored = shelf.load();
        assert_eq!((stored.session().epoch, shelf.operation(1).state), (Epoch::FIRST, State::InDoubt));
        assert_eq!(shelf.operation(1).attempts.len(), 1);
    }
}

#[test]
fn a_take_over_with_a_doubt_is_a_commit_of_its_own_whatever_follows() {
    let tags = |turn: Turn| match turn.next(&now("b1", 1_500)).unwrap() {
        Next::Commit(staged) => staged.commit().entries().iter().map(Entry::tag).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    for recovery in [RecoveryClass::Ask, RecoveryClass::Halt, RecoveryClass::Repeat] {
        let mut shelf = Shelf::lost(&terms_of(recovery));
        assert_eq!(tags(shelf.turn(2, dead())), ["claimed"], "{recovery:?}");
        let key = shelf.operation(1).bound.key;
        let observed = Outcome::Landed(landed(key));
        let (op, attempt, epoch) = (op(1), Attempt::FIRST, Epoch::FIRST);
        shelf.late.push(Evidence { op, key, attempt, epoch, observed, ended: None });
        assert_eq!(tags(shelf.turn(2, dead())), ["claimed"], "{recovery:?}, with late evidence");
    }
}

#[test]
fn a_commit_of_another_branch_does_not_fit() {
    let mut ours = Shelf::lost(&ask());
    let mut theirs = ours.clone();
    drop(ours.reconcile(ours.turn(2, dead()), &now("b1", 1_500)));
    let turn = theirs.turn(3, dead());
    let doubt = theirs.reconcile(turn, &now("b1", 1_600));
    drop(theirs.rest(doubt.resolve(Finding::NotLanded, &now("b1", 1_600)), &now("b1", 1_600)));
    assert_eq!(ours.commits.len() + 1, theirs.commits.len());
    let graft = theirs.commits[ours.commits.len()].clone();
    let refused = ours.load().take(graft).unwrap_err();
    assert!(matches!(refused, Misfit::Chain { .. }), "{refused:?}");
    assert!(!theirs.load().is_on(ours.load().session()) && !ours.load().is_on(theirs.load().session()));
    let earlier = Envelope::from_commits(session_id(), theirs.commits[..1].to_vec()).unwrap();
    assert!(earlier.is_on(theirs.load().session()));
}

/// The numbers begin at 1; a journal that says 0 does not mean the first operation (found by the fuzzer).
#[test]
fn operation_0_is_no_operation() {
    let shelf = Shelf::lost(&ask());
    let key = shelf.operation(1).bound.key;
    let succeeded = |n: u32| {
        Entry::from(entry::Succeeded {
            op: op(n),
            key,
            attempt: Attempt::FIRST,
            via: Via::Late,
            receipt: landed(key),
            by: None,
            because: None,
            request: None,
            extra: Extra::default(),
        })
    };
    let refused = shelf.load().take(forged(&shelf, vec![succeeded(0)])).unwrap_err();
    assert!(matches!(refused, Misfit::NoSuchOperation { .. }), "{refused:?}");
    shelf.load().take(forged(&shelf, vec![succeeded(1)])).unwrap();
}

/// The checker that every other test leans on finds what it is there for, in journals that the fold never saw.
#[test]
fn each_invariant_is_found_broken_without_the_fold() {
    let (shelf, intent) = Shelf::begun(&plan(2), &terms(&ask(), 2));
    drop(intent);
    let keys = [shelf.operation(1).bound.key, shelf.operation(2).bound.key];
    let intended = |n: u32, attempt: u32| {
        Entry::from(entry::Intended {
            op: op(n),
            key: keys[n as usize - 1],
            attempt: Attempt::new(attempt),
            budget_ms: 1,
            boot: "b1".into(),
            since_boot_ms: 1,
            deadline: now("b1", 1).wall,
            machine: None,
            extra: Extra::default(),
        })
    };
    let succeeded = |n: u32, attempt: u32| {
        Entry::from(entry::Succeeded {
            op: op(n),
            key: keys[n as usize - 1],
            attempt: Attempt::new(attempt),
            via: Via::Executed,
            receipt: Receipt::new("r"),
            by: None,
            because: None,
            request: None,
            extra: Extra::default(),
        })
    };
    let finished = |outcome| {
        Entry::from(entry::Finished { lane: 0, turn: TurnNumber::FIRST, outcome, extra: Extra::default() })
    };
    let released = || Entry::from(entry::Released { extra: Extra::default() });
    let broken = |entries: Vec<Entry>| {
        let mut commits = shelf.commits.clone();
        commits.push(forged(&shelf, entries));
        invariants::check(&commits).map_err(|broken| broken.invariant)
    };
    assert_eq!(broken(vec![succeeded(1, 1), intended(2, 1)]), Ok(()));
    assert_eq!(broken(vec![succeeded(1, 2)]), Err("I1"));
    assert_eq!(broken(vec![intended(1, 2)]), Err("I2"));
    assert_eq!(broken(vec![intended(2, 1)]), Err("I4"));
    assert_eq!(broken(vec![succeeded(1, 1), finished(End::Completed)]), Err("I7"));
    assert_eq!(broken(vec![intended(1, 1)]), Err("I8"));
    assert_eq!(broken(vec![succeeded(1, 1), succeeded(1, 1)]), Err("I9"));
    let chained = |epoch: u64, revision: u64, entries: Vec<Entry>| {
        let fields = forged(&shelf, entries).into_fields();
        let fields = CommitFields { epoch: Epoch::new(epoch), revision: Revision::new(revision), ..fields };
        let second = Commit::seal(fields).unwrap();
        let mut commits = shelf.commits.clone();
        commits.push(second);
        invariants::check(&commits).map_err(|broken| broken.invariant)
    };
    assert_eq!(chained(1, 3, vec![succeeded(1, 1)]), Err("I5"));
    assert_eq!(chained(0, 2, vec![succeeded(1, 1)]), Err("I6"));
    assert_eq!(chained(2, 2, vec![succeeded(1, 1)]), Err("I6"));
    // Nobody owns it after a release.
    let mut let_go = shelf.clone();
    let_go.commits.push(forged(&shelf, vec![succeeded(1, 1), released()]));
    invariants::check(&let_go.commits).unwrap();
    let_go.commits.push(forged(&let_go, vec![intended(2, 1)]));
    assert_eq!(invariants::check(&let_go.commits).map_err(|broken| broken.invariant), Err("I6"));
}

#[test]
fn a_time_is_read_only_as_it_is_written() {
    let read = |text: &str| serde_json::from_str::<Wall>(&format!("\"{text}\""));
    let text = "2026-11-18T11:07:13.006Z";
    assert_eq!(read(text).unwrap().to_string(), text);
    for other in [
        "2026-11-18T11:07:13.0060Z",
        "2026-11-18T11:07:13.0061Z",
        "2026-11-18T11:07:13Z",
        "2026-11-18T12:07:13.006+01:00",
    ] {
        assert!(read(other).unwrap_err().to_string().contains("is written"), "{other}");
    }
    // Whatever it was made of, what is written is read as the same time.
    let fine = Wall::new("2026-11-18T11:07:13.0069Z".parse().unwrap());
    assert_eq!(read(&fine.to_string()).unwrap(), fine);
    for ms in [i64::MIN, -1, 0, i64::MAX] {
        let at = Wall::from_unix_ms(ms);
        assert_eq!(read(&at.to_string()).unwrap(), at);
    }
}
