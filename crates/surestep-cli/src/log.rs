//! `log`: a session's journal, commit by commit, entry by entry.

use serde::Serialize;
use surestep::core::Counts;
use surestep::core::entry::Entry;
use surestep::{Commit, Envelope, Raw, Wall};

use crate::context::{Context, Store, wall};
use crate::fail::Fail;
use crate::out::Ink;
use crate::text::{self, line, tick};
use crate::{restored, view, when};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LogObject {
    schema: &'static str,
    session: String,
    revision: u64,
    head: Option<String>,
    commits: Vec<Raw>,
}

/// `log SESSION`.
pub(crate) async fn log(cx: &Context, session: &str) -> Result<u8, Fail> {
    let engine = cx.engine(Store::Read, None)?;
    let id = cx.session(session)?;
    let (envelope, behind) = restored::read(cx, &engine, &id).await?;
    let now = wall(&engine);
    for commit in envelope.commits() {
        print(cx, &envelope, commit, now);
    }
    cx.out.object(&LogObject {
        schema: "surestep.log/1",
        session: id.to_string(),
        revision: envelope.session().revision.value(),
        head: envelope.session().head.map(|head| head.to_string()),
        // The commits' own text, byte for byte: their sums still hold.
        commits: envelope.commits().iter().filter_map(|c| Raw::new(c.text()).ok()).collect(),
    });
    let Some(fail) = behind else { return Ok(surestep::exit::DONE) };
    fail.say(&cx.out);
    Ok(fail.exit)
}

fn print(cx: &Context, envelope: &Envelope, commit: &Commit, now: Wall) {
    let sum: String = commit.sum().hex().chars().take(12).collect();
    let head = format!(
        "commit {}  {}  epoch {}  {sum}",
        commit.revision(),
        when::at(commit.at(), now),
        commit.epoch()
    );
    cx.out.put(&cx.out.ink(Ink::Dim, &head));
    for entry in commit.entries() {
        for line in lines(envelope, entry) {
            cx.out.put(&format!("  {line}"));
        }
    }
}

/// An entry, in words.
pub(crate) fn lines(envelope: &Envelope, entry: &Entry) -> Vec<String> {
    let place = |op: surestep::OpNumber| {
        let operation = envelope.session().operation(op);
        operation.map_or_else(|| format!("operation {op}"), |o| format!("{op} {}", view::named(o)))
    };
    let by = |by: &str, because: &str| format!("by {}: {}", line(by), line(because));
    let said = match entry {
        Entry::Opened(e) => match (e.agent.as_str(), e.task.as_str()) {
            ("", "") => String::new(),
            (agent, "") => line(agent),
            (agent, task) => format!("{}: {}", line(agent), line(task)),
        },
        Entry::Said(e) => text::count(e.messages as usize, "message"),
        Entry::Bound(e) => {
            let mut lines = vec![tagged(
                entry,
                &format!(
                    "turn {}: {}{}{}",
                    e.turn,
                    text::count(e.operations.len(), "operation"),
                    if e.verdict.is_empty() {
                        String::new()
                    } else {
                        format!(", verdict {}", tick(&e.verdict))
                    },
                    e.allow.as_ref().map(|allow| only(allow)).unwrap_or_default()
                ),
            )];
            let first = envelope
                .session()
                .turns
                .iter()
                .find(|t| t.number == e.turn)
                .map_or(1, |t| t.operations.0.value());
            for (n, operation) in (first..).zip(&e.operations) {
                let place = view::place(&operation.repo, &operation.target);
                lines.push(format!("{:13}{n} {} on {place}  {}", "", operation.kind, operation.key));
            }
            return lines;
        }
        Entry::Claimed(e) => {
            let taken = e.store.as_ref().map_or("", |_| ", taken in from another store");
            let only = e.allow.as_ref().map(|allow| only(allow)).unwrap_or_default();
            format!("epoch {} by {}{taken}{only}", e.epoch, line(&e.owner))
        }
        Entry::Released(_) => String::new(),
        Entry::Intended(e) => {
            format!("{}, attempt {}, deadline {}", place(e.op), e.attempt, when::local(e.deadline))
        }
        Entry::Succeeded(e) => {
            let who = match (&e.by, &e.because) {
                (Some(who), because) => format!(", {}", by(who, because.as_deref().unwrap_or_default())),
                (None, _) => String::new(),
            };
            format!("{} via {}: {}{who}", place(e.op), via_word(e.via), text::brief(&e.receipt.reference))
        }
        Entry::Failed(e) => {
            let counted = match e.counts {
                Counts::Answer => "counted as a refusal",
                Counts::Restart => "counted as a restart",
                Counts::Nothing => "not counted",
            };
            let last = if e.last { ", for good" } else { "" };
            let who = match (&e.by, &e.because) {
                (Some(who), because) => format!(", {}", by(who, because.as_deref().unwrap_or_default())),
                (None, _) => String::new(),
            };
            let over = if e.overridden == Some(true) { ", before it could be known (override)" } else { "" };
            format!(
                "{}, attempt {}, via {}: {} ({counted}{last}){over}{who}",
                place(e.op),
                e.attempt,
                via_word(e.via),
                view::fault_line(&e.fault)
            )
        }
        Entry::Doubted(e) => {
            let mut parts = vec![format!("{}, attempt {}", place(e.op), e.attempt)];
            parts.extend(e.why.as_ref().map(view::fault_line));
            parts.extend(e.ended.as_ref().map(|_| "known to be over".to_owned()));
            parts.extend(e.rest.as_ref().map(|rest| format!("next look-up {}", when::local(rest.until))));
            parts.extend(e.person.filter(|p| *p).map(|_| "a person must answer".to_owned()));
            parts.join("; ")
        }
        Entry::Approved(e) => format!("{} {}", place(e.op), by(&e.by, &e.because)),
        Entry::Denied(e) => format!("{} {}", place(e.op), by(&e.by, &e.because)),
        Entry::Skipped(e) => {
            let may = if e.may_have_landed { ", may have landed" } else { "" };
            format!("{}{may} {}", place(e.op), by(&e.by, &e.because))
        }
        Entry::Cancelled(e) => by(&e.by, &e.because),
        Entry::Finished(e) => format!("turn {}: {}", e.turn, end_word(e.outcome)),
        Entry::HandedOff(e) => format!("to store {}, which takes it in with epoch {}", line(&e.to), e.epoch),
        Entry::Restored(e) => {
            format!(
                "commits are missing: revision {} was once reached; what they may have run is in doubt",
                e.mark_revision
            )
        }
    };
    vec![tagged(entry, &said)]
}

/// The kinds to which a turn from outside is limited.
fn only(allow: &[surestep::Kind]) -> String {
    let names: Vec<&str> = allow.iter().map(surestep::Kind::as_str).collect();
    format!(", only kinds: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

fn tagged(entry: &Entry, said: &str) -> String {
    format!("{} {said}", text::pad(entry.tag(), 12)).trim_end().to_owned()
}

/// The word that the journal itself uses.
const fn via_word(via: surestep::Via) -> &'static str {
    match via {
        surestep::Via::Executed => "executed",
        surestep::Via::Reconciled => "reconciled",
        surestep::Via::Late => "late evidence",
        surestep::Via::Operator => "operator",
        surestep::Via::Engine => "engine",
    }
}

const fn end_word(end: surestep::End) -> &'static str {
    match end {
        surestep::End::Completed => "completed",
        surestep::End::Failed => "failed",
        surestep::End::Cancelled => "cancelled",
    }
}
