//! Calls and results in the conversation (I10): which messages are which, and whether they pair.
//!
//! Three shapes are known: chat messages (`tool_calls[].id`, `tool_call_id`), items (`function_call` and
//! `function_call_output` with `call_id`) and content blocks (`tool_use.id`, `tool_result.tool_use_id`). Whatever else
//! a message is, it is kept as it is and takes no part. A message is read in one shape, the first of these that fits.
//! An id names one call of the session, in whatever shape.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::outcome::cut;
use crate::plan::{Plan, PlanError};
use crate::record::Raw;

/// How many bytes of a call's id a message shows.
const ID_SHOWN_BYTES: usize = 64;

/// How a call is written, and so its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A chat message with `tool_calls`.
    Chat,
    /// An item `function_call`.
    Function,
    /// An item `custom_tool_call`.
    Custom,
    /// A content block `tool_use`.
    Block,
}

/// One call or one result in a message.
pub(crate) struct Part {
    /// The call's id.
    pub(crate) id: String,
    /// Where that stands in the message, such as `.tool_calls[0].id`.
    pub(crate) path: String,
    /// The call's shape; `None` for a result.
    pub(crate) call: Option<Shape>,
}

/// The fields of a message that say whether it holds calls or results, unread.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// The same of one of `tool_calls`, or of one block of `content`.
#[derive(Deserialize)]
struct Member<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<&'a RawValue>,
}

/// An object's known fields; `None` for what is no object.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}

fn string(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

fn members(list: Option<&RawValue>) -> Vec<Option<Member<'_>>> {
    let list: Option<Vec<&RawValue>> = list.and_then(|list| serde_json::from_str(list.get()).ok());
    list.unwrap_or_default().into_iter().map(|member| object(member.get())).collect()
}

/// The calls and results of a message, in its order.
pub(crate) fn parts(message: &Raw) -> Vec<Part> {
    let Some(message) = object::<Message<'_>>(message.as_str()) else { return Vec::new() };
    let one = |id: Option<&RawValue>, path: &str, call| {
        let part = string(id).map(|id| Part { id, path: path.into(), call });
        part.into_iter().collect::<Vec<_>>()
    };
    let chat = match string(message.role).as_deref() {
        Some("assistant") => {
            let calls = members(message.tool_calls).into_iter().enumerate();
            let part = |(n, call): (usize, Option<Member<'_>>)| {
                let id = string(call?.id)?;
                Some(Part { id, path: format!(".tool_calls[{n}].id"), call: Some(Shape::Chat) })
            };
            calls.filter_map(part).collect()
        }
        Some("tool") => one(message.tool_call_id, ".tool_call_id", None),
        Some(_) | None => Vec::new(),
    };
    if !chat.is_empty() {
        return chat;
    }
    match string(message.kind).as_deref() {
        Some("function_call") => one(message.call_id, ".call_id", Some(Shape::Function)),
        Some("custom_tool_call") => one(message.call_id, ".call_id", Some(Shape::Custom)),
        Some("function_call_output" | "custom_tool_call_output") => one(message.call_id, ".call_id", None),
        Some(_) | None => {
            let blocks = members(message.content).into_iter().enumerate();
            let part = |(n, block): (usize, Option<Member<'_>>)| {
                let block = block?;
                let (id, name, call) = match string(block.kind)?.as_str() {
                    "tool_use" => (block.id, "id", Some(Shape::Block)),
                    "tool_result" => (block.tool_use_id, "tool_use_id", None),
                    _ => return None,
                };
                Some(Part { id: string(id)?, path: format!(".content[{n}].{name}"), call })
            };
            blocks.filter_map(part).collect()
        }
    }
}

/// A call that was said.
pub(crate) struct Spoken {
    pub(crate) id: String,
    pub(crate) shape: Shape,
    /// The message that holds it, counted from 0.
    pub(crate) message: usize,
    pub(crate) answered: bool,
}

/// The calls of a conversation, in its order, and which of them have a result.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) calls: Vec<Spoken>,
    places: BTreeMap<String, usize>,
    messages: usize,
}

impl Ledger {
    pub(crate) fn of(messages: &[Raw]) -> Self {
        let mut ledger = Self::default();
        for message in messages {
            // What does not pair here was written before pairing was checked: it stands.
            let _ = ledger.hear(message);
        }
        ledger
    }

    /// Takes one more message.
    ///
    /// # Errors
    /// Where the first thing in it stands that does not pair, and why.
    pub(crate) fn hear(&mut self, message: &Raw) -> Result<(), (String, String)> {
        let mut wrong = None;
        for Part { id, path, call } in parts(message) {
            let shown = || format!("`{}`", cut(&id, ID_SHOWN_BYTES).escape_debug());
            let known = self.places.get(&id).and_then(|n| self.calls.get_mut(*n));
            let why = match (call, known) {
                (Some(shape), None) => {
                    self.places.insert(id.clone(), self.calls.len());
                    self.calls.push(Spoken { id, shape, message: self.messages, answered: false });
                    continue;
                }
                (None, Some(spoken)) if !spoken.answered => {
                    spoken.answered = true;
                    continue;
                }
                (Some(_), Some(_)) => format!("the call id {} is that of an earlier call", shown()),
                (None, Some(_)) => format!("the call {} has a result already", shown()),
                (None, None) => format!("a result, and no call {} before it", shown()),
            };
            wrong = wrong.or(Some((path, why)));
        }
        self.messages += 1;
        wrong.map_or(Ok(()), Err)
    }
}

impl Plan {
    /// Refuses messages that do not pair with what was said before (I10).
    ///
    /// # Errors
    /// [`PlanError::Unpaired`], with the place in the plan.
    pub(crate) fn pairs_with(&self, said: &[Raw]) -> Result<(), PlanError> {
        let messages = self.conversation.as_deref().unwrap_or_default();
        if messages.iter().all(|message| parts(message).is_empty()) {
            return Ok(());
        }
        let mut ledger = Ledger::of(said);
        for (n, message) in messages.iter().enumerate() {
            ledger.hear(message).map_err(|(path, why)| PlanError::Unpaired {
                path: format!("$.conversation[{n}]{path}"),
                why,
            })?;
        }
        Ok(())
    }
}
