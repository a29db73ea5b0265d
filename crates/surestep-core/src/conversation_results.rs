//! Results for calls that have none (I10): what became of a call, as the journal knows it, in the call's own shape.

use crate::conversation::{Ledger, Shape, Spoken};
use crate::entry::{Entry, Said};
use crate::envelope::{Envelope, list_of};
use crate::fold::{Context, order};
use crate::ids::Digest;
use crate::json;
use crate::limits::RESULT_DETAIL_BYTES_MAX;
use crate::misfit::Misfit;
use crate::operation::State;
use crate::plan::{Plan, PlanError};
use crate::record::{Extra, Raw};
use crate::session::Operation;
use crate::time::Wall;
use crate::turn::Turn;

/// The result of a call of which nobody can say what became: the default.
pub const RESULT_UNKNOWN: &str = "outcome unknown, do not repeat";
/// The result of a call whose operation was never begun.
pub const RESULT_NOT_STARTED: &str = "not started";

/// What became of one operation. While its turn is `over` or not makes a difference only to what may still run.
fn outcome(operation: &Operation, over: bool) -> String {
    let failed =
        || operation.fault.as_ref().map_or_else(|| "failed".into(), |fault| format!("failed: {fault}"));
    match operation.state {
        State::Succeeded => {
            let Some((receipt, _)) = &operation.landed else { return "succeeded".into() };
            let detail =
                receipt.detail.as_ref().map(Raw::as_str).filter(|d| d.len() <= RESULT_DETAIL_BYTES_MAX);
            let detail = detail.map(|detail| format!(", detail {detail}")).unwrap_or_default();
            format!("succeeded, ref {}{detail}", receipt.reference)
        }
        State::Failed => failed(),
        // No attempt landed, and in a turn that is over there will be no other one.
        State::Retrying if over => failed(),
        State::Denied => "denied by a person".into(),
        State::Skipped if operation.may_have_landed => RESULT_UNKNOWN.into(),
        State::Skipped => "skipped".into(),
        State::Cancelled => "cancelled".into(),
        State::Planned | State::AwaitingApproval => RESULT_NOT_STARTED.into(),
        State::Intended | State::InDoubt | State::Retrying => RESULT_UNKNOWN.into(),
    }
}

/// What became of a call: of each operation that carries its id, a line.
fn text(operations: &[&Operation], over: bool) -> String {
    match operations {
        [] => RESULT_UNKNOWN.into(),
        [one] => outcome(one, over),
        many => {
            let line =
                |o: &&Operation| format!("operation {} ({}): {}", o.number, o.bound.kind, outcome(o, over));
            many.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Results as messages; those of consecutive block calls stand in one message.
fn messages(results: &[(&Spoken, String)]) -> Vec<Raw> {
    let mut out = Vec::new();
    for group in results.chunk_by(|(a, _), (b, _)| a.shape == Shape::Block && b.shape == Shape::Block) {
        let mut blocks = Vec::new();
        for (call, text) in group {
            let (id, text) = (json::quote(&call.id), json::quote(text));
            let item = |kind| format!(r#"{{"call_id":{id},"output":{text},"type":"{kind}"}}"#);
            blocks.push(match call.shape {
                Shape::Chat => format!(r#"{{"content":{text},"role":"tool","tool_call_id":{id}}}"#),
                Shape::Function => item("function_call_output"),
                Shape::Custom => item("custom_tool_call_output"),
                Shape::Block => format!(r#"{{"content":{text},"tool_use_id":{id},"type":"tool_result"}}"#),
            });
        }
        let block = group.first().is_some_and(|(call, _)| call.shape == Shape::Block);
        let list = blocks.join(",");
        out.extend(
            Raw::new(if block { format!(r#"{{"content":[{list}],"role":"user"}}"#) } else { list }).ok(),
        );
    }
    out
}

impl Envelope {
    /// What was said, with a result for each call that has none yet: **what a model is to read**. It is
    /// [`Envelope::conversation`] itself once a turn is finished, for every call has its result then. Before that the
    /// results are provisional, and are not kept: what is in doubt says *outcome unknown, do not repeat*, what was never
    /// begun says *not started*.
    ///
    /// Pure; nothing is written. A host shortens what it sends to its model as it likes: neither the journal nor the
    /// conversation in this envelope depends on that, and a later turn's plan brings only the messages that are new.
    #[must_use]
    pub fn conversation_with_results(&self) -> Vec<Raw> {
        let over = self.session.turn().is_some_and(|turn| turn.ended.is_some());
        let mut all = self.conversation.clone();
        all.extend(self.results(&[], &[], over));
        all
    }

    /// Results for the calls that have none, neither in what was said nor in what `comes` next. `pending` are entries
    /// that are in no commit yet.
    fn results(&self, pending: &[Entry], comes: &[Raw], over: bool) -> Vec<Raw> {
        let mut ledger = Ledger::of(&self.conversation);
        let before = ledger.calls.len();
        for message in comes {
            let _ = ledger.hear(message);
        }
        let open = || ledger.calls.iter().take(before).filter(|call| !call.answered);
        if open().next().is_none() {
            return Vec::new();
        }
        // Each said entry's end, in messages, with the turn that was bound next: the first that can carry its calls.
        let (mut end, mut turn, mut turns) = (0, 0, Vec::new());
        for entry in self.commits.iter().flat_map(|commit| commit.entries()).chain(pending) {
            if let Entry::Said(said) = entry {
                end += said.messages as usize;
                turns.push((end, turn));
            } else if let Entry::Bound(_) = entry {
                turn += 1;
            }
        }
        let session = &self.session;
        let mut results = Vec::new();
        for call in open() {
            let end = turns.iter().find(|(end, _)| call.message < *end);
            let bound = end.and_then(|(_, turn)| session.turns.get(*turn));
            let first = bound.map_or(usize::MAX, |turn| turn.operations.0.index());
            let carries = |o: &&Operation| o.bound.call_id.as_ref() == Some(&call.id);
            let operations: Vec<_> = session.operations.iter().skip(first).filter(carries).collect();
            results.push((call, text(&operations, over)));
        }
        messages(&results)
    }

    /// Whether all is here that the journal says was said.
    fn has_all_that_was_said(&self) -> Result<(), Misfit> {
        let named: usize = self.session.said.iter().map(|said| said.messages as usize).sum();
        let here = self.conversation.len();
        if here == named {
            return Ok(());
        }
        Err(order("said", format!("{here} messages are loaded, and the journal names {named}")))
    }

    /// Refuses a plan whose messages do not pair with what was said before (I10). What was said must be loaded.
    ///
    /// # Errors
    /// [`PlanError::Unpaired`], with the place in the plan.
    pub fn pairs_with(&self, plan: &Plan) -> Result<(), PlanError> {
        plan.pairs_with(&self.conversation)
    }
}

impl Turn {
    /// Adds messages to the conversation, in the commit that is being made.
    pub(crate) fn say(&mut self, list: String, messages: u32) -> Result<(), Misfit> {
        let at = Context { revision: self.session().revision.next(), at: Wall::from_unix_ms(0) };
        let digest = Digest::of(list.as_bytes());
        let said = Said { digest, messages, bytes: list.len() as u64, extra: Extra::default() };
        self.envelope.say(&list);
        self.content.push(list);
        self.envelope.session.apply(&Entry::Said(said.clone()), at)?;
        self.pending.push(said.into());
        Ok(())
    }

    /// Gives each call that was said its result, now that its turn is over; `comes` is the list that is said next.
    pub(crate) fn give_results(&mut self, comes: Option<&str>) -> Result<(), Misfit> {
        if self.session().said.is_empty() {
            return Ok(());
        }
        self.envelope.has_all_that_was_said()?;
        let comes: Vec<Raw> = comes.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
        let results = self.envelope.results(&self.pending, &comes, true);
        if results.is_empty() {
            return Ok(());
        }
        let list = list_of(&results).map_err(|e| order("said", e.to_string()))?;
        self.say(list, u32::try_from(results.len()).unwrap_or(u32::MAX))
    }
}
