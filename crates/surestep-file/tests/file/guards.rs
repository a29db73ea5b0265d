//! What stands beside the chain: guards' records, late results, requests.

use surestep::core::Attempt;
use surestep::core::Extra;
use surestep::core::entry::{Intended, Succeeded};
use surestep::{
    Epoch, Evidence, Fault, Key, Mark, OpNumber, Outcome, Receipt, Request, RequestId, Retry, Revision,
    Store, StoreError, Via, Wall, Word, record_name,
};

use crate::support::{commit, commit_of, id, store};

pub(crate) fn key(digit: char) -> Key {
    format!("v1:{}", digit.to_string().repeat(32)).parse().unwrap()
}

pub(crate) fn landed_late() -> Evidence {
    Evidence {
        op: OpNumber::FIRST,
        key: key('a'),
        attempt: Attempt::FIRST,
        epoch: Epoch::FIRST,
        observed: Outcome::landed("#12"),
        ended: None,
    }
}

pub(crate) fn cancel(request: &str) -> Request {
    Request {
        id: RequestId::new(request).unwrap(),
        word: Word::Cancel,
        by: "ann".into(),
        because: "enough".into(),
        op: None,
        key: None,
        attempt: None,
        turn: None,
        receipt: None,
        extra: Extra::default(),
    }
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

fn record(state: &str, op: u32, attempt: u32, boot: &str, more: &str) -> String {
    let loose = format!(
        r#"{{"format":"surestep.guard/1","state":"{state}","session":"g","operation":{op},"key":"{}","attempt":{attempt},
        "epoch":1,"pid":{},"start_time":{},"boot":"{boot}","since_boot_ms":6,"mark":"4-5-6","command":["make","install"]{more}}}"#,
        key(char::from_digit(op, 10).unwrap()),
        std::process::id(),
        start_time(),
    );
    sealed(&loose)
}

/// As a guard writes it: canonical, with its digest as the last field.
fn sealed(loose: &str) -> String {
    let bare = surestep::core::json::canonical(loose, 128).unwrap();
    let sum = surestep::Digest::of(bare.as_bytes());
    format!("{},\"sum\":\"{sum}\"}}", bare.strip_suffix('}').unwrap())
}

fn start_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap()
}

fn intended(op: u32, attempt: u32) -> surestep::Entry {
    Intended {
        op: OpNumber::new(op),
        key: key(char::from_digit(op, 10).unwrap()),
        attempt: Attempt::new(attempt),
        budget_ms: 1,
        boot: boot(),
        since_boot_ms: 1,
        deadline: Wall::from_unix_ms(0),
        machine: None,
        extra: Extra::default(),
    }
    .into()
}

#[tokio::test]
async fn guards_that_may_still_run_deny_the_proof_of_death() {
    let (_dir, store) = store();
    let session = id("g");
    let hold = store.hold(&session).await.unwrap();
    assert_eq!(hold.proof.unfinished, []);
    assert!(hold.proof.machine.is_empty() || hold.proof.machine.len() == 64);
    store.publish(&hold, &commit_of(&session, 1, None, vec![intended(4, 2)]), &[]).await.unwrap();
    let guards = store.session_dir(&session).join("guards");
    let write = |op, attempt, text: &str| {
        std::fs::write(guards.join(record_name(OpNumber::new(op), Attempt::new(attempt))), text).unwrap();
    };
    write(1, 1, &record("begun", 1, 1, &boot(), ""));
    write(2, 1, &record("begun", 2, 1, "another-boot", ""));
    let end = r#","end":{"exit":{"code":0},"cut":false,"stdout":"","stdout_truncated":false,"stderr":"","stderr_truncated":false,"ended_boot_ms":9}"#;
    write(3, 1, &record("ended", 3, 1, &boot(), end));
    write(4, 2, "torn"); // its key stands in its intent
    write(5, 1, ""); // no intent: nothing of this session can stand behind it
    write(6, 1, &record("ended", 6, 1, &boot(), "")); // contradicts itself; no intent either
    std::fs::write(guards.join("notes.txt"), "foreign").unwrap();
    std::fs::write(guards.join("0001-1.json.4-5-6.tmp"), "half").unwrap();
    let busy = store.hold(&session).await.unwrap_err();
    let StoreError::Busy { holder } = busy else { panic!("{busy:?}") };
    assert!(holder.what.contains("(make install) of operation 1, attempt 1"), "{}", holder.what);
    drop(hold);
    let proof = store.hold(&session).await.unwrap().proof;
    assert!(guards.join("notes.txt").exists() && !guards.join("0001-1.json.4-5-6.tmp").exists());
    assert_eq!(proof.unfinished, [(key('1'), Attempt::FIRST), (key('4'), Attempt::new(2))]);
}

#[tokio::test]
async fn guards_that_ended_answer_for_their_attempts() {
    let (_dir, store) = store();
    let session = id("g");
    let hold = store.hold(&session).await.unwrap();
    store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
    let guards = store.session_dir(&session).join("guards");
    let file = |op| guards.join(record_name(OpNumber::new(op), Attempt::FIRST));
    let end = |exit: &str, cut: bool| {
        format!(
            r#","end":{{"exit":{exit},"cut":{cut},"stdout":"out\n","stdout_truncated":false,"stderr":"no space","stderr_truncated":false,"ended_boot_ms":9}}"#
        )
    };
    let receipt = format!(r#","receipt":"c0ffee"{}"#, end(r#"{"code":0}"#, false));
    let ends = [
        end(r#"{"code":0}"#, false),
        receipt,
        end(r#"{"code":3}"#, false),
        end(r#"{"signal":9}"#, true),
        end(r#"{"code":0}"#, true),
        end(r#"{"not_started":"no such program"}"#, false),
    ];
    for (op, end) in (1..).zip(&ends) {
        std::fs::write(file(op), record("ended", op, 1, &boot(), end)).unwrap();
    }
    let late = store.read(&session, Revision::NONE).await.unwrap().late;
    let seen: Vec<_> = late.iter().map(|evidence| evidence.observed.clone()).collect();
    let Outcome::Landed(landed) = &seen[0] else { panic!("{seen:?}") };
    assert_eq!(landed.reference, key('1').to_string());
    assert_eq!(landed.detail.as_ref().unwrap().as_str(), r#"{"exit":0,"stdout":"out\n"}"#);
    assert!(matches!(&seen[1], Outcome::Landed(receipt) if receipt.reference == "c0ffee"));
    assert_eq!(seen[2], Outcome::Ended(Fault::new("exit", "exit 3: no space")));
    assert_eq!(
        seen[3],
        Outcome::Over(Fault::new("timeout", "ended by signal 9, cut at its deadline: no space"))
    );
    assert!(matches!(seen[4], Outcome::Over(_)));
    assert_eq!(seen[5], Outcome::NotSent(Fault::new("not_started", "no such program")));
    assert!(late.iter().all(|evidence| evidence.ended == Some(Mark::new(boot(), 9))));

    let settled = Succeeded {
        op: OpNumber::FIRST,
        key: key('1'),
        attempt: Attempt::FIRST,
        via: Via::Late,
        receipt: landed.clone(),
        by: None,
        because: None,
        request: Some(RequestId::new("r/1").unwrap()),
        extra: Extra::default(),
    };
    store.request(&session, &cancel("r/1")).await.unwrap();
    store.publish(&hold, &commit_of(&session, 2, None, vec![settled.into()]), &[]).await.unwrap();
    assert!(!file(1).exists() && file(2).exists(), "a settled attempt needs no record");
    assert_eq!(
        store.read(&session, Revision::NONE).await.unwrap().requests,
        [],
        "an answered request is gone"
    );
}

#[tokio::test]
async fn late_results_and_requests_are_kept_without_a_hold() {
    let (_dir, store) = store();
    let session = id("late");
    assert!(matches!(store.request(&session, &cancel("r")).await, Err(StoreError::Absent { .. })));
    let hold = store.hold(&session).await.unwrap();
    store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
    let fault = Fault::new("exit", "it \"said\" so\n");
    let detail = surestep::Raw::new(r#"{"a":1.0,"n":1E2}"#).unwrap();
    let mut all = Vec::new();
    for (op, observed) in (1..).zip([
        Outcome::Landed(Receipt::new("#12").with_detail(detail)),
        Outcome::NotLanded(fault.clone(), Retry::Never),
        Outcome::NotSent(fault.clone()),
        Outcome::Unknown(fault.clone()),
        Outcome::Over(fault.clone()),
    ]) {
        let ended = (op == 5).then(|| Mark::new("b", 7));
        all.push(Evidence { op: OpNumber::new(op), observed, ended, ..landed_late() });
        store.keep_late(&session, all.last().unwrap()).await.unwrap();
    }
    for request in ["r-1", "R 2", "r-1"] {
        store.request(&session, &cancel(request)).await.unwrap();
    }
    let other = Request { because: "another".into(), ..cancel("r-1") };
    assert!(store.request(&session, &other).await.is_err(), "one id is one request");
    let read = store.read(&session, Revision::NONE).await.unwrap();
    // When it may be tried again is not kept.
    all[1].observed = Outcome::NotLanded(fault, Retry::Backoff);
    assert_eq!(read.late, all);
    let mut ids: Vec<_> = read.requests.iter().map(|r| r.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["R 2", "r-1"]);

    for folder in ["late", "requests"] {
        let folder = store.session_dir(&session).join(folder);
        let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let whole = std::fs::read_to_string(&file).unwrap();
        let edited = whole.replace(r#""attempt":1"#, r#""attempt":2"#).replace("enough", "plenty");
        assert_ne!(edited, whole);
        for damage in [String::new(), edited, whole[..whole.len() - 1].to_owned()] {
            std::fs::write(&file, damage).unwrap();
            let read = store.read(&session, Revision::NONE).await.unwrap_err();
            assert!(matches!(&read, StoreError::Corrupt { file: at, .. } if *at == file), "{read:?}");
        }
        std::fs::write(&file, whole.replace("/1\"", "/2\"")).unwrap();
        assert!(matches!(store.read(&session, Revision::NONE).await, Err(StoreError::TooNew { .. })));
        std::fs::write(&file, whole).unwrap();
    }
    assert!(store.read(&session, Revision::NONE).await.is_ok());
}

#[tokio::test]
async fn a_damaged_record_never_says_another_outcome_and_is_not_passed_over_in_silence() {
    let (_dir, store) = store();
    let session = id("g");
    let hold = store.hold(&session).await.unwrap();
    store.publish(&hold, &commit_of(&session, 1, None, vec![intended(1, 1)]), &[]).await.unwrap();
    drop(hold);
    let file = store.session_dir(&session).join("guards").join(record_name(OpNumber::new(1), Attempt::FIRST));
    let end = r#","end":{"exit":{"code":1},"cut":false,"stdout":"","stdout_truncated":false,"stderr":"","stderr_truncated":false,"ended_boot_ms":9}"#;
    let whole = record("ended", 1, 1, &boot(), end).into_bytes();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).step_by(5).map(|n| whole[..n].to_vec()).collect();
    damaged.extend((0..whole.len()).map(|at| {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        flipped
    }));
    for bytes in damaged {
        std::fs::write(&file, &bytes).unwrap();
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let late = store.read(&session, Revision::NONE).await.unwrap().late;
        let Outcome::Unknown(fault) = &late[0].observed else { panic!("{late:?} of {shown}") };
        assert!(fault.to_string().contains("0001-1.json"), "{fault}");
        let proof = store.hold(&session).await.unwrap().proof;
        assert_eq!(proof.unfinished, [(key('1'), Attempt::FIRST)], "{shown}");
    }
    std::fs::write(&file, &whole).unwrap();
    let late = store.read(&session, Revision::NONE).await.unwrap().late;
    assert!(matches!(late[0].observed, Outcome::Ended(_)), "{late:?}");
}

#[tokio::test]
async fn a_damaged_late_result_or_request_is_refused_whatever_bit_it_is() {
    let (_dir, store) = store();
    let session = id("g");
    let hold = store.hold(&session).await.unwrap();
    store.publish(&hold, &commit(&session, 1), &[]).await.unwrap();
    store.keep_late(&session, &landed_late()).await.unwrap();
    store.request(&session, &cancel("r")).await.unwrap();
    for folder in ["late", "requests"] {
        let folder = store.session_dir(&session).join(folder);
        let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let whole = std::fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            for bytes in [&flipped[..], &whole[..at]] {
                std::fs::write(&file, bytes).unwrap();
                let read = store.read(&session, Revision::NONE).await;
                let refused = matches!(&read, Err(StoreError::Corrupt { .. } | StoreError::TooNew { .. }));
                assert!(refused, "{at}: {read:?}");
            }
        }
        std::fs::write(&file, whole).unwrap();
    }
    assert!(store.read(&session, Revision::NONE).await.is_ok());
}
