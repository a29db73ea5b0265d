//! What an execution or a look-up may say, and what is kept of it.
//!
//! Three values, everywhere: landed, not landed, unknown. Unknown is the default: any error that nobody thought
//! about becomes one through `?` ([`Fault`] is made from every error type), and is never read as "not landed".

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::ids::Digest;
use crate::limits::{FAULT_BYTES_MAX, RECEIPT_BYTES_MAX, RECEIPT_REF_BYTES_MAX};
use crate::record::{Extra, Raw, record};
use crate::time::Mark;

record! {
    /// What a landing left behind. Only `ref` is compared between a killed turn and its control.
    pub struct Receipt {
        /// What both the execution and a look-up can name: a commit id, a number, the operation's key.
        reference as "ref": String,
        ;
        /// What else is worth keeping, as JSON.
        detail: Raw,
    }
}

impl Receipt {
    /// A receipt without detail.
    #[must_use]
    pub fn new(reference: impl Into<String>) -> Self {
        Self { reference: reference.into(), detail: None, extra: Extra::default() }
    }

    /// The same receipt with a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: Raw) -> Self {
        self.detail = Some(detail);
        self
    }

    /// The receipt as a commit can hold it: a longer `ref` is cut and digested; a detail that is longer, or that the
    /// strict reader would not take back (a remote's JSON may have a key twice), is replaced by its digest.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        if self.reference.len() > RECEIPT_REF_BYTES_MAX {
            let digest = Digest::of(self.reference.as_bytes());
            self.reference = format!("{}… {digest}", cut(&self.reference, RECEIPT_REF_BYTES_MAX - 80));
        }
        if let Some(detail) = &self.detail {
            let text = detail.as_str();
            let exact = crate::json::canonical(text, crate::json::DEPTH_BODY_MAX);
            let kept = exact.ok().filter(|t| t.len() <= RECEIPT_BYTES_MAX - RECEIPT_REF_BYTES_MAX);
            let kept = kept.unwrap_or_else(|| {
                let (bytes, digest) = (text.len(), Digest::of(text.as_bytes()));
                let head = crate::json::quote(cut(text, RECEIPT_BYTES_MAX / 4));
                format!(r#"{{"cut":{{"bytes":{bytes},"digest":"{digest}","head":{head}}}}}"#)
            });
            self.detail = Raw::new(kept).ok();
        }
        self
    }
}

record! {
    /// What went wrong, for people, with a word that machines may rely on.
    pub struct Fault {
        /// A stable word, like `timeout`, `refused`, `panic`.
        code: String,
        /// What happened; at most 4 KiB of it are kept.
        message: String,
        ;
    }
}

impl Fault {
    /// A fault with its word and message. It is cut to its limits later, once it is free of credentials: a cut through
    /// one would leave a piece that nobody recognises.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), extra: Extra::default() }
    }

    /// The fault within its limits, cut at a character border.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        if self.message.len() > FAULT_BYTES_MAX {
            self.message = format!("{}…", cut(&self.message, FAULT_BYTES_MAX - 4));
        }
        if self.code.len() > 64 {
            self.code = cut(&self.code, 64).to_owned();
        }
        self
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// Any error becomes a fault with its whole chain of sources, so that `?` in an effect means *unknown*.
impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let _ = write!(message, ": {inner}");
            source = inner.source();
        }
        Self::new("error", message)
    }
}

/// The longest head of a text within so many bytes that ends at a character border.
#[must_use]
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Whether, and when, something that surely did not land may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Trying again cannot help: the operation fails for good.
    Never,
    /// After the operation's own backoff (exponential, capped, with full jitter).
    Backoff,
    /// Not before so many milliseconds (a remote's `Retry-After`).
    After {
        /// Milliseconds from now.
        ms: u64,
    },
}

/// What an execution says of its attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It landed.
    Landed(Receipt),
    /// It surely did not land, by the remote's or the adapter's own word: a definite refusal.
    NotLanded(Fault, Retry),
    /// It was never sent. Not counted as a refusal.
    NotSent(Fault),
    /// Nobody knows: a timeout, a lost reply, an unclassified error.
    Unknown(Fault),
    /// Nobody knows whether it landed, but its worker ended by itself, with an answer that decides nothing: an exit
    /// code. If a look-up then earns that it did not land, it counts as a refusal.
    Ended(Fault),
    /// Nobody knows whether it landed, but it is over: everything that worked on it was cut or died.
    Over(Fault),
}

impl Outcome {
    /// It landed, and this names it.
    #[must_use]
    pub fn landed(reference: impl Into<String>) -> Self {
        Self::Landed(Receipt::new(reference))
    }
}

/// What a reconciler found when it asked the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The landing is there.
    Landed(Receipt),
    /// The remote, read whole and consistently, does not have it. Whether that counts is decided by time.
    NotLanded,
    /// It is not there and cannot be made to land either: something else stands in its place.
    Conflict(Fault),
    /// The remote could not tell, or there are two candidates.
    Unknown(Fault),
}

/// Where an outcome came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The execution said so itself.
    Executed,
    /// A reconciler asked the remote.
    Reconciled,
    /// The execution said so, too late for its owner to record it.
    Late,
    /// A person said so.
    Operator,
    /// The engine knows it: it never sent the request.
    Engine,
}

/// Which counter a settled attempt without a landing goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    /// An answer: the adapter said that it did not land. Limited by the operation's `attempts`.
    Answer,
    /// An attempt lost to a crash or timeout and earned absent. Its limit leads to a person.
    Restart,
    /// Neither.
    Nothing,
}

/// What somebody observed of an attempt and could not record as state: kept beside the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The operation.
    pub op: crate::ids::OpNumber,
    /// Its key.
    pub key: crate::key::Key,
    /// The attempt that it speaks of.
    pub attempt: crate::ids::Attempt,
    /// The epoch under which that attempt ran.
    pub epoch: crate::ids::Epoch,
    /// What was observed.
    pub observed: Outcome,
    /// When the attempt was known to be over.
    pub ended: Option<Mark>,
}
