//! The effect ports: what runs an operation, and what asks afterwards whether it landed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use surestep_core::{Body, Call, Fault, Finding, Kind, Outcome};

use crate::scrub::Scrubber;
use crate::secret::Secret;
use crate::tether::Tether;

/// One attempt, as an [`Effect`] or [`Reconciler`] gets it. Its `Debug` shows the body as it is bound, never a secret.
#[derive(Clone)]
pub struct Attempt {
    /// The operation and the attempt: key, kind, repo, target, body, epoch, attempt, deadline, trace context.
    pub call: Call,
    /// What a child process must hold on to.
    pub tether: Tether,
    /// Whether a person cancelled the turn while this attempt runs.
    pub cancel: Cancel,
    /// The body with its secrets in place; `None` where it refers to none. See [`Attempt::body`].
    pub resolved: Option<Body>,
    /// The secrets in it: what an effect writes to a file must be free of them.
    pub secrets: Vec<Secret>,
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("call", &self.call)
            .field("tether", &self.tether)
            .finish_non_exhaustive()
    }
}

impl Attempt {
    /// The body to execute: as it was bound, byte for byte, with its secrets in place of their references.
    #[must_use]
    pub fn body(&self) -> &Body {
        self.resolved.as_ref().unwrap_or(&self.call.operation.body)
    }

    /// Scrubs credentials, those of this attempt by their very values.
    #[must_use]
    pub fn scrubber(&self) -> Scrubber {
        Scrubber::new().knowing(self.secrets.iter().map(Secret::expose))
    }
}

/// Tells a running attempt that a person cancelled its turn. An effect that can stop what it started, and *then* say
/// truly what became of it, may do so; any other one goes on: cutting a request short only makes a doubt of it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Whether the turn was cancelled.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says so.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A planned operation, before it is bound, as a kind sees it when asked for its terms.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    /// Where.
    pub repo: &'a str,
    /// On what.
    pub target: &'a str,
    /// The body, already canonical; each secret that it refers to is the string `$secret` here.
    pub body: &'a Body,
    /// The folder against which relative paths are read.
    pub dir: Option<&'a str>,
}

/// The terms of one operation, decided at bind and stored there: a later process's registry cannot change them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Time for one attempt, in milliseconds.
    pub deadline_ms: u64,
    /// How long a landing may stay invisible after an attempt is over, in milliseconds.
    pub lag_ms: u64,
    /// Whether all that works on it runs on this machine, below our guard (or inside our process).
    pub local: bool,
    /// Whether this very operation can be looked up (a `shell` without `check` cannot): without it, a kind that is
    /// registered as `ask` halts.
    pub can_ask: bool,
    /// Whether a look-up can tell this operation from an equal one.
    pub distinguishes: bool,
    /// The body's top-level fields that make the key; `None`: the whole body.
    pub identity: Option<Vec<String>>,
    /// `repo` and `target` in the form in which they make the key (a host whose names ignore case: lower case);
    /// `None`: as written. What is executed stays as written.
    pub place: Option<(String, String)>,
}

impl Terms {
    /// Terms of a remote kind: so much time for an attempt, so much lag, all else by default (can be asked, tells
    /// equal operations apart, not local, the whole body makes the key).
    #[must_use]
    pub const fn remote(deadline_ms: u64, lag_ms: u64) -> Self {
        Self {
            deadline_ms,
            lag_ms,
            local: false,
            can_ask: true,
            distinguishes: true,
            identity: None,
            place: None,
        }
    }
}

/// Carries out one kind of operation.
#[async_trait]
pub trait Effect: Send + Sync + 'static {
    /// The kind that it carries out.
    fn kind(&self) -> Kind;

    /// Checks an operation's place and body when it is bound, and says under which terms it runs.
    ///
    /// # Errors
    /// Whatever the kind can know to be wrong now, in words for the planner: nothing has been written.
    fn terms(&self, planned: &Planned<'_>) -> Result<Terms, Fault>;

    /// Makes **one** attempt: one wire call, no hidden retries, the key passed on, the deadline honoured.
    ///
    /// [`Outcome::NotLanded`] must be *known*: a refused connection, a definite refusal. Dropping this future means
    /// the attempt is cut; work that blocks its thread cannot be cut, so put it on a blocking pool.
    ///
    /// # Errors
    /// Every error means *unknown*: it may have landed.
    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault>;

    /// How much longer than its deadline an attempt may take to report, in milliseconds, because the kind cuts
    /// itself at the deadline and needs a moment to say how that went. Default 0: the engine cuts.
    fn grace_ms(&self) -> u64 {
        0
    }
}

/// Asks the remote whether an operation landed.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Looks the landing up: all pages of a consistent listing, never a search index. Two candidates are
    /// [`Finding::Unknown`]. Whether *not landed* counts is decided by the engine, from time.
    ///
    /// # Errors
    /// Every error means *unknown*.
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault>;
}

/// How doubt about a kind's operations ends: a mandatory part of registering it.
#[derive(Clone)]
pub enum Recovery {
    /// A reconciler asks the remote.
    Ask(Arc<dyn Reconciler>),
    /// The remote drops duplicates of our key for `within_ms` milliseconds: inside that time execute again with the
    /// same key; later ask, or halt without a reconciler.
    Repeat {
        /// How long the remote remembers our key, in milliseconds.
        within_ms: u64,
        /// Who is asked afterwards.
        then: Option<Arc<dyn Reconciler>>,
    },
    /// Nothing can be asked: every doubt goes to a person.
    Halt,
}

impl Recovery {
    /// A reconciler asks the remote.
    pub fn ask(reconciler: impl Reconciler) -> Self {
        Self::Ask(Arc::new(reconciler))
    }

    /// The remote drops duplicates of our key for so long; afterwards a person is asked.
    #[must_use]
    pub const fn repeat(within_ms: u64) -> Self {
        Self::Repeat { within_ms, then: None }
    }

    /// Nothing can be asked.
    #[must_use]
    pub const fn halt() -> Self {
        Self::Halt
    }
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ask(_) => "Ask",
            Self::Repeat { .. } => "Repeat",
            Self::Halt => "Halt",
        })
    }
}
