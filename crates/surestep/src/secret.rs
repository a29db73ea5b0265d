//! Secrets: a body names them, a source has them, and they never reach the disk.
//!
//! `{"$secret":"NAME"}` stands in a body where a value belongs. It is part of what is bound, hashed and stored; the value
//! is fetched right before an attempt, handed to the effect in [`Attempt::body`](crate::Attempt::body), and scrubbed
//! from whatever comes back.

use std::fmt;

use async_trait::async_trait;
use surestep_core::{Body, Extra, Fault, Finding, OpNumber, Outcome, Raw, Receipt, Session, json};

use crate::scrub::Scrubber;

/// How a reference begins in a canonical body. Within a JSON string its quotes would be escaped, so it can stand
/// nowhere else.
const OPENS: &str = r#"{"$secret":""#;
const CLOSES: &str = r#""}"#;

/// Where secrets come from.
#[async_trait]
pub trait SecretSource: Send + Sync + 'static {
    /// The secret of a name. It is asked before each attempt and each look-up, and must answer soon.
    ///
    /// # Errors
    /// [`SecretError`]: nothing is sent then.
    async fn secret(&self, name: &str) -> Result<Secret, SecretError>;
}

/// A secret value. It shows itself to nobody by accident, and is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value: for a request, never for a message.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0).into_bytes();
        bytes.fill(0);
        std::hint::black_box(&bytes);
    }
}

/// Why a secret is not to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The source does not have it.
    #[error("there is no secret `{name}`: {place}")]
    Absent {
        /// Its name.
        name: String,
        /// Where it was looked for.
        place: String,
    },
    /// The source has it, and it cannot be used, or the source does not answer.
    #[error("secret `{name}` cannot be used: {why}")]
    Unusable {
        /// Its name.
        name: String,
        /// Why, without the value.
        why: String,
    },
}

/// No source: every reference is refused.
pub(crate) struct NoSecrets;

#[async_trait]
impl SecretSource for NoSecrets {
    async fn secret(&self, name: &str) -> Result<Secret, SecretError> {
        Err(SecretError::Absent {
            name: name.to_owned(),
            place: "this engine has no secret source".to_owned(),
        })
    }
}

/// The names that a canonical body refers to, in order, each once.
#[must_use]
pub(crate) fn names(body: &Body) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for part in body.as_str().split(OPENS).skip(1) {
        if let Some((name, _)) = part.split_once(CLOSES)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// A body with every reference replaced by a string; `None` where it has none.
fn replaced<'a>(body: &Body, value: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let (first, rest) = body.as_str().split_once(OPENS)?;
    let mut out = String::with_capacity(body.as_str().len());
    out.push_str(first);
    for part in rest.split(OPENS) {
        let (name, after) = part.split_once(CLOSES)?;
        out.push_str(&json::quote(value(name)?));
        out.push_str(after);
    }
    Some(out)
}

/// What a body's kind is shown before there is an attempt: every secret is the word `$secret`.
pub(crate) fn placeholders(body: &Body) -> Option<Body> {
    Body::bind(&replaced(body, |_| Some("$secret"))?, usize::MAX).ok()
}

/// The secrets of the operation at hand, and what else must be scrubbed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fetched {
    values: Vec<(String, Secret)>,
    /// Of operations before it: what they left in a file may come back through this one.
    earlier: Vec<Secret>,
    /// How many operations were looked through for names.
    seen: usize,
}

impl Fetched {
    /// Fetches what an operation refers to. What earlier ones refer to is asked for once a step, to be scrubbed only: it
    /// may be gone.
    pub(crate) async fn fetch(
        &mut self,
        source: &dyn SecretSource,
        session: &Session,
        op: OpNumber,
    ) -> Result<(), SecretError> {
        let used = std::mem::take(&mut self.values);
        self.earlier.extend(used.into_iter().map(|(_, secret)| secret));
        let Some(operation) = session.operation(op) else { return Ok(()) };
        let mut values = Vec::new();
        for name in names(&operation.bound.body) {
            let secret = source.secret(name).await?;
            if secret.expose().is_empty() {
                return Err(SecretError::Unusable { name: name.to_owned(), why: "it is empty".to_owned() });
            }
            values.push((name.to_owned(), secret));
        }
        let before = session.operations.iter().take_while(|o| o.number < op);
        let mut others: Vec<&str> =
            before.clone().skip(self.seen).flat_map(|o| names(&o.bound.body)).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|name| values.iter().all(|(known, _)| known != name));
        for name in others {
            self.earlier.extend(source.secret(name).await.ok());
        }
        self.seen = self.seen.max(before.count());
        self.values = values;
        Ok(())
    }

    /// The body as it is executed; `None`: as it is bound.
    pub(crate) fn resolved(&self, body: &Body) -> Option<Body> {
        let value = |name: &str| self.values.iter().find(|(known, _)| known == name).map(|(_, s)| s.expose());
        Body::bind(&replaced(body, value)?, usize::MAX).ok()
    }

    /// What an effect must keep out of every file.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let mut all: Vec<Secret> = Vec::new();
        for secret in self.values.iter().map(|(_, secret)| secret).chain(&self.earlier) {
            if !all.contains(secret) {
                all.push(secret.clone());
            }
        }
        all
    }
}

/// What an attempt said, fit for the disk.
pub(crate) fn outcome(seen: Outcome, with: &Scrubber) -> Outcome {
    match seen {
        Outcome::Landed(r) => Outcome::Landed(receipt(r, with)),
        Outcome::NotLanded(f, retry) => Outcome::NotLanded(fault(f, with), retry),
        Outcome::NotSent(f) => Outcome::NotSent(fault(f, with)),
        Outcome::Unknown(f) => Outcome::Unknown(fault(f, with)),
        Outcome::Ended(f) => Outcome::Ended(fault(f, with)),
        Outcome::Over(f) => Outcome::Over(fault(f, with)),
    }
}

/// What a look-up said, fit for the disk.
pub(crate) fn finding(found: Finding, with: &Scrubber) -> Finding {
    match found {
        Finding::Landed(r) => Finding::Landed(receipt(r, with)),
        Finding::NotLanded => Finding::NotLanded,
        Finding::Conflict(f) => Finding::Conflict(fault(f, with)),
        Finding::Unknown(f) => Finding::Unknown(fault(f, with)),
    }
}

/// A receipt, fit for the disk.
pub(crate) fn receipt(mut receipt: Receipt, with: &Scrubber) -> Receipt {
    receipt.reference = with.text(&receipt.reference).into_owned();
    receipt.detail = receipt.detail.and_then(|detail| Raw::new(with.json(detail.as_str()).into_owned()).ok());
    receipt.extra = extra(receipt.extra, with);
    receipt
}

/// A fault, fit for the disk; only then is it cut.
fn fault(mut fault: Fault, with: &Scrubber) -> Fault {
    fault.code = with.text(&fault.code).into_owned();
    fault.message = with.text(&fault.message).into_owned();
    fault.extra = extra(fault.extra, with);
    fault.bounded()
}

/// Fields that nobody knows are kept as they are, or not at all.
fn extra(extra: Extra, with: &Scrubber) -> Extra {
    let clean =
        extra.iter().all(|(name, value)| with.text(name) == name && with.json(value.get()) == value.get());
    if clean { extra } else { Extra::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Body {
        Body::bind(text, 1 << 20).unwrap()
    }

    #[test]
    fn only_references_are_replaced_and_nothing_else_changes() {
        let bound = body(
            r#"{"a":{"$secret":"X"},"b":"{\"$secret\":\"X\"}","n":1E2,"l":[{"$secret":"Y"},{"$secret":"X"}]}"#,
        );
        assert_eq!(names(&bound), ["X", "Y"]);
        let fetched = Fetched {
            values: vec![("X".into(), Secret::new("p\"w")), ("Y".into(), Secret::new("{\"$secret\":\"Z\"}"))],
            ..Fetched::default()
        };
        let resolved = fetched.resolved(&bound).unwrap();
        let right = r#"{"a":"p\"w","b":"{\"$secret\":\"X\"}","l":["{\"$secret\":\"Z\"}","p\"w"],"n":1E2}"#;
        assert_eq!(resolved.as_str(), right);
        assert_eq!(fetched.resolved(&body(r#"{"n":1E2}"#)), None);
        assert_eq!(placeholders(&bound).unwrap().as_str().matches("\"$secret\"").count(), 3);
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        assert_eq!(format!("{:?}", Secret::new("hunter22")), "Secret(…)");
    }
}
