//! Progress, without a hook in the engine: each effect and reconciler is wrapped, and the wrapper says what happens.
//!
//! On a terminal each operation gets its own line; elsewhere one counter line per operation; `--quiet` says nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use surestep::{Attempt, Effect, Fault, Finding, Kind, Outcome, Planned, Reconciler, Recovery, Terms};

use crate::duration::short;
use crate::out::{Ink, Out};
use crate::text;
use crate::view;

/// Says what the engine does, while it does it.
#[derive(Debug)]
pub(crate) struct Progress {
    out: Out,
    /// The operations of the present turn, once that is known.
    total: AtomicU32,
}

impl Progress {
    pub(crate) fn new(out: Out) -> Arc<Self> {
        Arc::new(Self { out, total: AtomicU32::new(0) })
    }

    pub(crate) fn expect(&self, operations: usize) {
        self.total.store(u32::try_from(operations).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn line(&self, attempt: &Attempt, mark: &str, what: &str, ink: Option<Ink>) {
        // The effect's own words: the engine has not scrubbed them yet.
        let what = &*attempt.scrubber().text(what);
        let call = &attempt.call;
        let total = match self.total.load(Ordering::Relaxed) {
            0 => String::new(),
            n => format!("/{n}"),
        };
        let place = view::place(&call.operation.repo, &call.operation.target);
        let line = if self.out.watched() {
            let what = ink.map_or_else(|| what.to_owned(), |ink| self.out.ink_err(ink, what));
            format!("  {mark} {}{total} {} on {place}: {what}", call.op, call.operation.kind)
        } else {
            format!("surestep: {} {}{total} {what}", text::line(call.session.as_str()), call.op)
        };
        self.out.note(&line);
    }

    fn executing(&self, attempt: &Attempt) {
        if self.out.watched() {
            let again = match attempt.call.attempt.value() {
                1 => "started".to_owned(),
                n => format!("started, attempt {n}"),
            };
            self.line(attempt, "→", &again, Some(Ink::Dim));
        }
    }

    fn executed(&self, attempt: &Attempt, outcome: &Result<Outcome, Fault>, ms: u64) {
        let (mark, what, ink) = match outcome {
            Ok(Outcome::Landed(_)) => ("✓", format!("landed ({})", short(ms)), Ink::Good),
            Ok(Outcome::NotLanded(fault, _)) => {
                ("✗", format!("did not land: {}", view::fault_line(fault)), Ink::Error)
            }
            Ok(Outcome::NotSent(fault)) => {
                ("✗", format!("not sent: {}", view::fault_line(fault)), Ink::Doubt)
            }
            Ok(Outcome::Unknown(fault) | Outcome::Ended(fault) | Outcome::Over(fault)) | Err(fault) => {
                ("?", format!("outcome unknown: {}", view::fault_line(fault)), Ink::Doubt)
            }
        };
        self.line(attempt, mark, &what, Some(ink));
    }

    fn looked(&self, attempt: &Attempt, finding: &Result<Finding, Fault>) {
        let (what, ink) = match finding {
            // Whose it is, the engine decides: it may be an equal operation's.
            Ok(Finding::Landed(_)) if !attempt.call.operation.distinguishes => {
                ("looked: something is there; an equal operation would look the same".to_owned(), Ink::Doubt)
            }
            Ok(Finding::Landed(_)) => ("looked: it landed".to_owned(), Ink::Good),
            Ok(Finding::NotLanded) => ("looked: not there".to_owned(), Ink::Doubt),
            Ok(Finding::Conflict(fault)) => {
                (format!("looked: a conflict: {}", view::fault_line(fault)), Ink::Error)
            }
            Ok(Finding::Unknown(fault)) | Err(fault) => {
                (format!("looked: cannot tell: {}", view::fault_line(fault)), Ink::Doubt)
            }
        };
        self.line(attempt, "?", &what, Some(ink));
    }
}

/// Wraps one kind.
pub(crate) fn watch(
    effect: Arc<dyn Effect>,
    recovery: Recovery,
    progress: &Arc<Progress>,
) -> (Arc<dyn Effect>, Recovery) {
    let wrap = |inner: Arc<dyn Reconciler>| -> Arc<dyn Reconciler> {
        Arc::new(Watched { inner, progress: progress.clone() })
    };
    let recovery = match recovery {
        Recovery::Ask(inner) => Recovery::Ask(wrap(inner)),
        Recovery::Repeat { within_ms, then } => Recovery::Repeat { within_ms, then: then.map(wrap) },
        Recovery::Halt => Recovery::Halt,
    };
    (Arc::new(Watched { inner: effect, progress: progress.clone() }), recovery)
}

struct Watched<T: ?Sized> {
    progress: Arc<Progress>,
    inner: Arc<T>,
}

#[async_trait::async_trait]
impl Effect for Watched<dyn Effect> {
    fn kind(&self) -> Kind {
        self.inner.kind()
    }

    fn terms(&self, planned: &Planned<'_>) -> Result<Terms, Fault> {
        self.inner.terms(planned)
    }

    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        self.progress.executing(attempt);
        let start = Instant::now();
        let outcome = self.inner.execute(attempt).await;
        let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress.executed(attempt, &outcome, ms);
        outcome
    }

    fn grace_ms(&self) -> u64 {
        self.inner.grace_ms()
    }
}

#[async_trait::async_trait]
impl Reconciler for Watched<dyn Reconciler> {
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
        let finding = self.inner.look(attempt).await;
        self.progress.looked(attempt, &finding);
        finding
    }
}
