//! A plan, before anything of it is looked at by a kind or written: what runs has no credential in it, or is refused.
//!
//! A body is never altered: it would be another request. It refers to a secret as `{"$secret":"NAME"}`, which is
//! resolved when it runs. What is only said about the plan is scrubbed; its digest does not cover that.

use surestep_core::{Plan, PlanError, Raw, SessionId};

use super::Scrubber;
use super::json::{Reference, references};

/// How long the name of a secret may be, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// The plan with what is said about it scrubbed: agent, task, rationale, call ids, the messages of the conversation.
///
/// # Errors
/// [`PlanError::Secret`] where what is to run, or the verdict, has a credential in it, and
/// [`PlanError::SecretReference`] where a reference to a secret is not of its form. Neither says the value.
pub fn plan(plan: &Plan) -> Result<Plan, PlanError> {
    let scrubber = Scrubber::new();
    let refuse =
        |class: super::Class, path: String| PlanError::Secret { class: class.word().to_owned(), path };
    let clear =
        |text: &str, path: String| scrubber.find(text).map_or(Ok(()), |class| Err(refuse(class, path)));
    if let Some(verdict) = &plan.verdict {
        clear(verdict, "$.verdict".into())?;
    }
    for (n, operation) in plan.operations.iter().enumerate() {
        let path = format!("$.operations[{n}]");
        clear(&operation.repo, format!("{path}.repo"))?;
        clear(&operation.target, format!("{path}.target"))?;
        let within = |inner: &str| format!("{path}.body{}", inner.strip_prefix('$').unwrap_or(inner));
        if let Some((class, inner)) = scrubber.find_in_json(operation.body.as_str()) {
            return Err(refuse(class, within(&inner)));
        }
        for reference in references(operation.body.as_str()) {
            check(&reference)
                .map_err(|why| PlanError::SecretReference { path: within(&reference.path), why })?;
        }
    }
    let mut plan = plan.clone();
    let said = [&mut plan.agent, &mut plan.task, &mut plan.rationale];
    let ids = plan.operations.iter_mut().map(|operation| &mut operation.call_id);
    for text in said.into_iter().chain(ids).flatten() {
        *text = scrubber.text(text).into_owned();
    }
    for message in plan.conversation.iter_mut().flatten() {
        let scrubbed = scrubber.json(message.as_str()).into_owned();
        *message =
            Raw::new(scrubbed).map_err(|e| PlanError::Shape { why: format!("`$.conversation`: {e}") })?;
    }
    Ok(plan)
}

/// Whether a new session may have this name: it becomes that of a folder, and stands in every message.
///
/// # Errors
/// [`PlanError::Secret`] where it has a credential in it.
pub(crate) fn name(session: &SessionId) -> Result<(), PlanError> {
    Scrubber::new().find(session.as_str()).map_or(Ok(()), |class| {
        Err(PlanError::Secret { class: class.word().to_owned(), path: "$.session".to_owned() })
    })
}

/// Whether `{"$secret": …}` is a reference, or why not.
fn check(reference: &Reference) -> Result<(), String> {
    if reference.members > 1 {
        return Err("`$secret` stands alone in its object".into());
    }
    let Some(name) = &reference.name else { return Err("the name of a secret is a string".into()) };
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    if first && rest && name.len() <= NAME_BYTES_MAX {
        Ok(())
    } else {
        Err("the name of a secret is a letter or `_`, then up to 99 letters, digits, `_`, `.`, `-`".into())
    }
}
