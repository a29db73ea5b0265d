//! Commands of an effect, run below the guard from async code.
//!
//! What holds:
//! 1. A blocking closure owns a clone of the attempt, and with it the session's lock: a future that is dropped
//!    cannot free the lock under a command that still runs.
//! 2. A dropped future whose closure has not begun never begins: nothing starts for an engine that gave up.
//! 3. Only [`Runner::act`] leaves a record. A command that is only asked proves nothing about an attempt.

use std::path::{Path, PathBuf};

use surestep::{Attempt, Cancel, Fault, Outcome, Retry, Tether};
use tokio::task::AbortHandle;

use crate::guard::{Guard, GuardError, Job, Label, Report, since_boot_ms};

/// The most bytes of a command's output that a fault shows.
pub(crate) const SHOWN_BYTES: usize = 2 << 10;

/// What the guard says of a command that it could not start, where trying again cannot help: ENOENT, E2BIG,
/// ENOEXEC, EACCES, ENOTDIR, EISDIR, ENAMETOOLONG, ELOOP.
const HOPELESS: [&str; 8] = [
    "(os error 2)",
    "(os error 7)",
    "(os error 8)",
    "(os error 13)",
    "(os error 20)",
    "(os error 21)",
    "(os error 36)",
    "(os error 40)",
];

/// A command: what to run, where, with which variables on top of the inherited ones. No `Debug`: it may hold secrets.
#[derive(Clone, Default)]
pub(crate) struct Command {
    /// The program and its arguments.
    pub(crate) run: Vec<String>,
    /// The working directory; `None`: the process's own.
    pub(crate) cwd: Option<PathBuf>,
    /// Variables.
    pub(crate) env: Vec<(String, String)>,
}

/// Runs commands on behalf of one attempt, or of a plan that is not bound yet. No `Debug`: it holds secrets.
pub(crate) struct Runner {
    guard: Guard,
    tether: Tether,
    label: Label,
    env: Vec<(String, String)>,
    record: Option<PathBuf>,
    deadline_boot_ms: u64,
    cancel: Cancel,
    secrets: Vec<String>,
}

impl Runner {
    /// On behalf of an attempt, until its deadline.
    pub(crate) fn of(guard: &Guard, attempt: &Attempt) -> Self {
        let call = &attempt.call;
        let named = [
            ("SURESTEP_OPERATION", call.op.to_string()),
            ("SURESTEP_REPO", call.operation.repo.clone()),
            ("SURESTEP_TARGET", call.operation.target.clone()),
        ];
        let trace = call.traceparent.clone().map(|parent| ("TRACEPARENT", parent));
        Self {
            guard: guard.clone(),
            tether: attempt.tether.clone(),
            label: Label {
                session: call.session.to_string(),
                operation: call.op.value(),
                key: call.operation.key.to_string(),
                attempt: call.attempt.value(),
                epoch: call.epoch.value(),
            },
            env: named.into_iter().chain(trace).map(|(name, value)| (name.to_owned(), value)).collect(),
            record: attempt.tether.record(call.op, call.attempt),
            deadline_boot_ms: call.deadline_mark.since_boot_ms,
            cancel: attempt.cancel.clone(),
            secrets: attempt.secrets.iter().map(|secret| secret.expose().to_owned()).collect(),
        }
    }

    /// Before there is an attempt: for what a kind must know to state its terms.
    pub(crate) fn unbound(guard: &Guard, limit_ms: u64) -> Self {
        let nobody = String::new;
        Self {
            guard: guard.clone(),
            tether: Tether::none(),
            label: Label { session: nobody(), operation: 0, key: nobody(), attempt: 0, epoch: 0 },
            env: Vec::new(),
            record: None,
            deadline_boot_ms: since_boot_ms().saturating_add(limit_ms),
            cancel: Cancel::default(),
            secrets: Vec::new(),
        }
    }

    /// Runs what only asks. Blocks.
    pub(crate) fn ask(&self, command: Command) -> Result<Report, GuardError> {
        self.run(command, None, None)
    }

    /// Runs what may land, on record, with the `ref` that its landing would have. Blocks.
    pub(crate) fn act(&self, command: Command, receipt: &str) -> Result<Report, GuardError> {
        self.run(command, self.record.clone(), Some(receipt.to_owned()))
    }

    /// The deadline is over.
    pub(crate) fn is_late(&self) -> bool {
        since_boot_ms() >= self.deadline_boot_ms
    }

    fn run(
        &self,
        command: Command,
        record: Option<PathBuf>,
        receipt: Option<String>,
    ) -> Result<Report, GuardError> {
        let Command { run, cwd, mut env } = command;
        env.extend(self.env.iter().cloned());
        let (deadline_boot_ms, label) = (self.deadline_boot_ms, self.label.clone());
        let secrets = self.secrets.clone();
        let job = Job { run, cwd, env, deadline_boot_ms, label, record, secrets, receipt };
        // What only asks is not cut: its answer is what the cut is followed by.
        let acts = job.receipt.is_some();
        self.guard.run_until(self.tether.lock(), &job, &|| acts && self.cancel.is_set())
    }

    /// What it means for an attempt that a command never ran: for good where it would not run the next time
    /// either, else it was just not sent.
    pub(crate) fn nothing_ran(&self, why: &str) -> Outcome {
        if self.is_late() {
            return Outcome::NotSent(Fault::new("deadline", why));
        }
        let fault = Fault::new("not_started", why);
        if would_repeat(why) { Outcome::NotLanded(fault, Retry::Never) } else { Outcome::NotSent(fault) }
    }
}

/// What it means for an attempt that there is no report. A guard that cannot be started is nobody's refusal.
pub(crate) fn no_report(error: GuardError) -> Outcome {
    match &error {
        GuardError::NotStarted { .. } => Outcome::NotSent(guard_fault(error)),
        GuardError::Lost { .. } => Outcome::Unknown(guard_fault(error)),
    }
}

/// A guard's error under its own code.
pub(crate) fn guard_fault(error: GuardError) -> Fault {
    let code = error.code();
    Fault::new(code, Fault::from(error).message)
}

/// Whether a command that did not start for this reason would not start the next time either: there is no such
/// program or folder, as opposed to a full disk or process table.
pub(crate) fn would_repeat(why: &str) -> bool {
    why.starts_with("working directory ")
        || (why.starts_with("starting ") && HOPELESS.iter().any(|end| why.ends_with(end)))
}

/// Runs blocking work on the blocking pool. Dropping the future before the work has begun means that it never
/// begins; afterwards it goes on to its end, holding on to all that it owns.
///
/// # Errors
/// When the work panicked, or the runtime ended first: nobody knows how far it came.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    struct AbortOnDrop(AbortHandle);
    impl Drop for AbortOnDrop {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let task = tokio::task::spawn_blocking(work);
    let _abort = AbortOnDrop(task.abort_handle());
    task.await.map_err(|error| Fault::new("panic", error.to_string()))
}

/// A path of a body: against the plan's folder where it is relative, the folder itself where there is none.
pub(crate) fn resolve(dir: Option<&str>, path: Option<&str>) -> Option<PathBuf> {
    match (dir, path) {
        (Some(dir), Some(path)) => Some(Path::new(dir).join(path)),
        (None, Some(path)) => Some(PathBuf::from(path)),
        (Some(dir), None) => Some(PathBuf::from(dir)),
        (None, None) => None,
    }
}

/// The last bytes of an output as text, from a character border on.
pub(crate) fn tail(bytes: &[u8], bytes_max: usize) -> String {
    let start = bytes.len().saturating_sub(bytes_max);
    let mut kept = bytes.get(start..).unwrap_or_default();
    if start > 0 {
        let inside = kept.iter().take_while(|byte| (0x80..0xc0).contains(*byte)).count().min(3);
        kept = kept.get(inside..).unwrap_or_default();
    }
    String::from_utf8_lossy(kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_comes_back_and_a_panic_is_a_fault() {
        assert_eq!(blocking(|| 7).await, Ok(7));
        assert_eq!(
            blocking(|| panic!("no")).await.map_err(|fault: Fault| fault.code),
            Err::<(), _>("panic".into())
        );
    }

    #[test]
    fn what_was_dropped_before_it_began_never_begins() {
        let one = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let begun = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = begun.clone();
        one.block_on(async {
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || wait.recv());
            let mut late = Box::pin(blocking(move || seen.store(true, std::sync::atomic::Ordering::SeqCst)));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(late.as_mut().poll(&mut cx).is_pending());
            drop(late);
            go.send(()).unwrap();
            busy.await.unwrap().unwrap();
            // The only thread takes its work in order: ours would have run before this.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        });
        assert!(!begun.load(std::sync::atomic::Ordering::SeqCst));
    }

    #[test]
    fn a_tail_starts_at_a_character() {
        assert_eq!(tail("añb".as_bytes(), 2), "b");
        assert_eq!(tail("añb".as_bytes(), 3), "ñb");
        assert_eq!(tail(b"\xff\x80ok", 9), "\u{fffd}\u{fffd}ok");
        assert_eq!(tail(b"abc", 0), "");
    }

    #[test]
    fn only_what_would_repeat_is_final() {
        assert!(would_repeat("starting `nope`: No such file or directory (os error 2)"));
        assert!(would_repeat("working directory `/nope` is no directory"));
        assert!(!would_repeat("starting `sh`: Resource temporarily unavailable (os error 11)"));
        assert!(!would_repeat("writing the record `/x`: No such file or directory (os error 2)"));
    }

    #[test]
    fn paths_are_read_against_the_plans_folder() {
        assert_eq!(resolve(Some("/a"), Some("b")), Some("/a/b".into()));
        assert_eq!(resolve(Some("/a"), Some("/b")), Some("/b".into()));
        assert_eq!(resolve(Some("/a"), None), Some("/a".into()));
        assert_eq!(resolve(None, Some("b")), Some("b".into()));
        assert_eq!(resolve(None, None), None);
    }
}
