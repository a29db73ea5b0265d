//! A session as the command line shows it: the typed objects behind `--json`, and the words for people.

use serde::Serialize;
use surestep::core::{About, Operation, RecoveryClass, Session};
use surestep::{End, Envelope, Fault, Raw, Receipt, Rest, State, Via, Wall};

use crate::text;

/// One session, in full: `show`, `run`, and each entry of `resume`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SessionView {
    pub(crate) schema: &'static str,
    /// What the command exits with on its account.
    pub(crate) exit: u8,
    pub(crate) session: String,
    pub(crate) status: &'static str,
    pub(crate) verdict: Option<String>,
    pub(crate) agent: String,
    pub(crate) task: String,
    pub(crate) turn: Option<u32>,
    pub(crate) revision: u64,
    pub(crate) epoch: u64,
    pub(crate) rest: RestView,
    pub(crate) operations: Vec<OperationView>,
}

/// Why nothing more can be done now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RestView {
    /// `finished`, `person`, `until`, `ready`, `no_plan` or `handed_off`.
    pub(crate) kind: &'static str,
    pub(crate) why: Option<String>,
    pub(crate) until: Option<Wall>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) operation: Option<u32>,
}

/// One operation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OperationView {
    pub(crate) n: u32,
    pub(crate) key: String,
    pub(crate) kind: String,
    pub(crate) repo: String,
    pub(crate) target: String,
    pub(crate) state: &'static str,
    pub(crate) attempts: usize,
    pub(crate) via: Option<Via>,
    pub(crate) receipt: Option<ReceiptView>,
    pub(crate) fault: Option<FaultView>,
    pub(crate) deadline: Option<Wall>,
    pub(crate) until: Option<Wall>,
    /// True while its outcome is open (`intended`, `in_doubt`), and when it was skipped out of doubt.
    pub(crate) may_have_landed: bool,
    pub(crate) doubt: Vec<EvidenceView>,
}

/// A receipt.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ReceiptView {
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    pub(crate) detail: Option<Raw>,
}

/// A fault.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FaultView {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// One piece of evidence about a doubt.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct EvidenceView {
    pub(crate) at: Wall,
    pub(crate) code: String,
    pub(crate) message: String,
}

impl SessionView {
    pub(crate) fn new(schema: &'static str, envelope: &Envelope, rest: &Rest, exit: u8) -> Self {
        let session = envelope.session();
        let opened = session.opened.as_ref();
        Self {
            schema,
            exit,
            session: session.id.to_string(),
            status: session.status(),
            verdict: verdict(session),
            agent: opened.map(|o| o.agent.clone()).unwrap_or_default(),
            task: opened.map(|o| o.task.clone()).unwrap_or_default(),
            turn: session.turn().map(|t| t.number.value()),
            revision: session.revision.value(),
            epoch: session.epoch.value(),
            rest: RestView::new(rest),
            operations: session.operations.iter().map(OperationView::new).collect(),
        }
    }
}

/// The verdict of the present turn, once it is over.
pub(crate) fn verdict(session: &Session) -> Option<String> {
    let turn = session.turn()?;
    Some(match turn.ended? {
        End::Completed => turn.verdict.clone(),
        End::Failed => "failed".into(),
        End::Cancelled => "cancelled".into(),
    })
}

impl RestView {
    pub(crate) fn new(rest: &Rest) -> Self {
        let plain = |kind| Self { kind, why: None, until: None, wait_ms: None, operation: None };
        match rest {
            Rest::Finished(_) => plain("finished"),
            Rest::NeedsPerson(q) => {
                Self { why: Some(about(q.about).into()), operation: Some(q.op.value()), ..plain("person") }
            }
            Rest::Until { wait_ms: 0, why, .. } => Self { why: Some(why.clone()), ..plain("ready") },
            Rest::Until { at, wait_ms, why } => {
                Self { why: Some(why.clone()), until: Some(*at), wait_ms: Some(*wait_ms), ..plain("until") }
            }
            Rest::NoPlan => plain("no_plan"),
            Rest::HandedOff { to } => {
                Self { why: Some(format!("it lives in store {to}")), ..plain("handed_off") }
            }
            _ => plain("unknown"),
        }
    }
}

impl OperationView {
    pub(crate) fn new(operation: &Operation) -> Self {
        let bound = &operation.bound;
        let open = operation.state.is_open();
        Self {
            n: operation.number.value(),
            key: bound.key.to_string(),
            kind: bound.kind.to_string(),
            repo: bound.repo.clone(),
            target: bound.target.clone(),
            state: operation.state.word(),
            attempts: operation.attempts.len(),
            via: operation.landed.as_ref().map(|(_, via)| *via),
            receipt: operation.landed.as_ref().map(|(receipt, _)| ReceiptView::new(receipt)),
            fault: operation.fault.as_ref().map(FaultView::new),
            deadline: operation.attempt().filter(|_| open).map(|a| a.deadline),
            until: operation.rest.as_ref().filter(|_| !operation.state.is_settled()).map(|r| r.until),
            may_have_landed: may_have_landed(operation),
            doubt: operation.doubts.iter().map(|(at, fault)| EvidenceView::new(*at, fault)).collect(),
        }
    }
}

impl ReceiptView {
    pub(crate) fn new(receipt: &Receipt) -> Self {
        Self { reference: receipt.reference.clone(), detail: receipt.detail.clone() }
    }
}

impl FaultView {
    pub(crate) fn new(fault: &Fault) -> Self {
        Self { code: fault.code.clone(), message: fault.message.clone() }
    }
}

impl EvidenceView {
    pub(crate) fn new(at: Wall, fault: &Fault) -> Self {
        Self { at, code: fault.code.clone(), message: fault.message.clone() }
    }
}

/// Whether something may be there of which nobody knows: its outcome is open, or it was skipped out of doubt.
pub(crate) fn may_have_landed(operation: &Operation) -> bool {
    operation.may_have_landed || operation.state.is_open()
}

/// Where an operation acts, as people write it: `acme/site#118`, `origin:main`.
pub(crate) fn place(repo: &str, target: &str) -> String {
    let (repo, target) = (text::line(repo), text::line(target));
    match (repo.is_empty(), target.is_empty()) {
        (true, true) => "(nowhere)".into(),
        (true, false) => target,
        (false, true) => repo,
        (false, false) if target.bytes().all(|b| b.is_ascii_digit()) => format!("{repo}#{target}"),
        (false, false) => format!("{repo}:{target}"),
    }
}

/// `shell on acme/site#118`.
pub(crate) fn named(operation: &Operation) -> String {
    format!("{} on {}", operation.bound.kind, place(&operation.bound.repo, &operation.bound.target))
}

/// Who says that it landed.
pub(crate) const fn via(via: Via) -> &'static str {
    match via {
        Via::Executed => "executed",
        Via::Reconciled => "reconciled",
        Via::Late => "late evidence",
        Via::Operator => "a person",
        Via::Engine => "the engine",
    }
}

/// What a question is about.
pub(crate) const fn about(about: About) -> &'static str {
    match about {
        About::Landing => "whether an attempt landed",
        About::Approval => "whether it may run",
        About::Restarts => "whether to go on after too many restarts",
        _ => "something that this version does not know",
    }
}

/// Why an attempt without any evidence has no outcome.
pub(crate) const fn unrecorded(lost: bool) -> &'static str {
    if lost {
        "what the journal said of it is lost"
    } else {
        "the process that ran it ended before its outcome was recorded"
    }
}

/// How doubt about it would end.
pub(crate) const fn recovery(class: RecoveryClass) -> &'static str {
    match class {
        RecoveryClass::Ask => "a look-up finds out",
        RecoveryClass::Repeat => "it is sent again while the remote still knows its key",
        RecoveryClass::Halt => "nothing can be asked: a person answers",
    }
}

/// What became of an operation, in a few words: the right-hand column of most screens.
pub(crate) fn fate(operation: &Operation) -> String {
    match operation.state {
        State::Succeeded => match &operation.landed {
            Some((receipt, by)) => format!("{} ({})", text::brief(&receipt.reference), via(*by)),
            None => String::new(),
        },
        State::Planned => "not started".into(),
        State::AwaitingApproval => "waits for a yes".into(),
        State::Intended => "an attempt may be under way".into(),
        State::InDoubt => "may have landed".into(),
        State::Retrying | State::Failed => operation.fault.as_ref().map(fault_line).unwrap_or_default(),
        State::Denied => "a person said no".into(),
        State::Skipped if operation.may_have_landed => "left as it is: may have landed".into(),
        State::Skipped => "left as it is".into(),
        State::Cancelled => "cancelled before it landed".into(),
    }
}

/// A fault in one line.
pub(crate) fn fault_line(fault: &Fault) -> String {
    text::line(&said(fault))
}

/// A fault's word and message, without saying the same twice.
pub(crate) fn said(fault: &Fault) -> String {
    if fault.message.starts_with(&fault.code) { fault.message.clone() } else { fault.to_string() }
}
