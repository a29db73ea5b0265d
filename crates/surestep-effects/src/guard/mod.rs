//! The guard: a small process of ours that runs one command for an effect.
//!
//! ```text
//!  engine ── fd 0: the session's lock ──────▶ guard ── fd 64: the same lock ──▶ command ─▶ …
//!         ◀─ fd 1: socket: order, report ──▶  (subreaper, own session)          (own group)
//! ```
//!
//! What holds, whatever happens to the engine:
//! 1. The lock is held until the last descendant of the command is reaped: by the guard, and, should
//!    somebody kill the guard, by each descendant that did not close the inherited descriptor.
//! 2. The command is cut at its deadline on CLOCK_BOOTTIME, by the guard's own clock reading.
//! 3. A record says `begun` before the command starts, and `ended` only after the last reap.
//! 4. No answer from a guard that had not announced the start means that nothing ever ran.
//!
//! Not covered: work handed to a daemon that is no descendant (ssh, a container engine,
//! systemd-run). The decisions: `process.rs` (the guard's life), `tree.rs` (who is below it, and
//! their end), `record.rs` (what stays on disk), `wire.rs` (frames), `tail.rs` (bounded output).
//! Linux only.

mod children;
mod process;
mod record;
mod tail;
mod tree;
mod wire;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::secrets::SECRET_PREFIX;

pub use children::heed_children;
pub use process::guard_main;
pub use record::{Record, RecordState, read_record};
pub use tree::Process;

/// The most bytes kept of each output stream of a command, its last ones: 16 KiB.
pub const TAIL_BYTES: usize = 16 * 1024;

/// How long after the deadline a guard may stay silent before it counts as lost, in seconds.
const SILENCE_S: u64 = 60;

/// How to start the guard.
#[derive(Debug, Clone)]
pub struct Guard {
    program: PathBuf,
    args: Vec<OsString>,
    hidden: Vec<String>,
}

/// One command to run, and until when. Its `Debug` shows whose it is, and nothing that may hold a secret.
#[derive(Clone)]
pub struct Job {
    /// The program and its arguments; no shell is involved.
    pub run: Vec<String>,
    /// The working directory; the engine's own when absent.
    pub cwd: Option<PathBuf>,
    /// Variables set on top of the inherited environment.
    pub env: Vec<(String, String)>,
    /// When the guard cuts the command: milliseconds on CLOCK_BOOTTIME, see [`since_boot_ms`].
    pub deadline_boot_ms: u64,
    /// Whose attempt this is.
    pub label: Label,
    /// The file that holds the record of this attempt; none for a command that is only asked.
    pub record: Option<PathBuf>,
    /// What neither the record nor the report may hold, on top of what looks like a credential.
    pub secrets: Vec<String>,
    /// What names the landing, should the command exit with 0; kept in the record for who finds it later.
    pub receipt: Option<String>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("label", &self.label).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// Whose attempt a command is; the command sees it as `SURESTEP_SESSION`, `SURESTEP_KEY`,
/// `SURESTEP_ATTEMPT` and `SURESTEP_EPOCH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The session's id.
    pub session: String,
    /// The operation's number in its plan.
    pub operation: u32,
    /// The operation's key.
    pub key: String,
    /// The attempt's number.
    pub attempt: u32,
    /// The epoch of the claim under which it runs.
    pub epoch: u64,
}

/// How a command came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited by itself with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// Nothing ever ran: the reason.
    NotStarted(String),
    /// It ran, and how it ended, or whether it did, is not known: the reason.
    Unknown(String),
}

/// What the guard says when the command and everything below it is over, or cannot be ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The end of the command itself; what it left running in the background has ended too.
    pub exit: Exit,
    /// Whether the deadline passed first, so that the guard killed what was still running.
    pub cut: bool,
    /// The last [`TAIL_BYTES`] of its standard output.
    pub stdout: Vec<u8>,
    /// Whether there was more output than is kept.
    pub stdout_truncated: bool,
    /// The last [`TAIL_BYTES`] of its standard error.
    pub stderr: Vec<u8>,
    /// Whether there was more than is kept.
    pub stderr_truncated: bool,
    /// The boot id that `ended_boot_ms` belongs to.
    pub boot: String,
    /// When the last descendant was reaped (with survivors: when the guard gave up waiting), in
    /// milliseconds on CLOCK_BOOTTIME.
    pub ended_boot_ms: u64,
    /// Processes that the guard was unable to kill. While there are any it lives on and holds the lock.
    pub survivors: Vec<Process>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The guard did not come as far as starting the command: certainly nothing ran.
    #[error("guard `{}` did not start: {doing}", program.display())]
    NotStarted {
        /// The guard's program.
        program: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The guard went silent after it had announced the start: how the command ended is unknown, and
    /// it may still be running.
    #[error("guard `{}` was lost: {doing}", program.display())]
    Lost {
        /// The guard's program.
        program: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl GuardError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            GuardError::NotStarted { .. } => "guard-not-started",
            GuardError::Lost { .. } => "guard-lost",
        }
    }
}

impl Guard {
    /// The guard is this program, usually `surestep-guard`.
    pub fn new(program: impl Into<PathBuf>) -> Guard {
        Guard::with_args(program, [])
    }

    /// The guard is this program, started with these arguments.
    pub fn with_args(program: impl Into<PathBuf>, args: impl IntoIterator<Item = OsString>) -> Guard {
        let hidden = vec![SECRET_PREFIX.to_owned()];
        Guard { program: program.into(), args: args.into_iter().collect(), hidden }
    }

    /// The guard is the running program itself, which calls [`guard_main`] when it is started with
    /// this hidden argument.
    ///
    /// It goes through `/proc/self/exe`, so that a program replaced on disk while it runs still
    /// starts a guard of its own version.
    pub fn own_exe(hidden_arg: impl Into<OsString>) -> Guard {
        Guard::with_args("/proc/self/exe", [hidden_arg.into()])
    }

    /// Keeps variables with this prefix from the guard and all commands below it, as it does with [`SECRET_PREFIX`]: a
    /// command gets the secrets that its operation names, and no other one by accident. An empty prefix hides nothing.
    #[must_use]
    pub fn hiding(mut self, prefix: impl Into<String>) -> Guard {
        self.hidden.push(prefix.into());
        self
    }

    /// The program that is started.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Run one command below a new guard and wait for its report. Blocks the thread.
    ///
    /// `lock` is the session's locked file; the guard and the command share its lock until both are
    /// gone. The deadline is the guard's business: this returns soon after it, except when the
    /// machine is suspended.
    ///
    /// # Errors
    /// [`GuardError::NotStarted`] when certainly nothing ran, [`GuardError::Lost`] when the guard was
    /// killed or went silent for 60 s after the deadline.
    pub fn run(&self, lock: Option<&File>, job: &Job) -> Result<Report, GuardError> {
        self.run_until(lock, job, &|| false)
    }

    /// As [`Guard::run`]; once `cut` says so, asked each second, the command is cut as if its deadline were over.
    ///
    /// # Errors
    /// As [`Guard::run`].
    pub fn run_until(
        &self,
        lock: Option<&File>,
        job: &Job,
        cut: &dyn Fn() -> bool,
    ) -> Result<Report, GuardError> {
        let (socket, child) = self.spawn(lock)?;
        let said = self.converse(&socket, lock.is_some(), job, cut);
        drop(socket);
        reap(child, matches!(&said, Ok(report) if report.survivors.is_empty()));
        said
    }

    /// The descriptors travel as the guard's stdin and stdout: nothing in this process ever lacks
    /// CLOEXEC, so that no other child of the host can inherit the lock.
    fn spawn(&self, lock: Option<&File>) -> Result<(UnixStream, Child), GuardError> {
        let refused = |doing| move |source| self.not_started(doing, source);
        let stdin = match lock {
            Some(file) => Stdio::from(file.try_clone().map_err(refused("duplicating the lock file"))?),
            None => Stdio::null(),
        };
        let (ours, theirs) = UnixStream::pair().map_err(refused("creating its socket"))?;
        // The command, and with it our copies of what the guard got, are dropped at the end of this
        // function: only the guard's death may keep its socket from speaking.
        let mut command = Command::new(&self.program);
        let hides = |name: &OsStr| {
            self.hidden.iter().any(|p| !p.is_empty() && name.as_bytes().starts_with(p.as_bytes()))
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| hides(name)) {
            command.env_remove(name);
        }
        let child = command
            .arg0("surestep-guard")
            .args(&self.args)
            .stdin(stdin)
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::null())
            .spawn()
            .map_err(refused("spawning it"))?;
        Ok((ours, child))
    }

    fn converse(
        &self,
        socket: &UnixStream,
        locked: bool,
        job: &Job,
        cut: &dyn Fn() -> bool,
    ) -> Result<Report, GuardError> {
        let order = wire::Order::new(job, locked)
            .and_then(|order| wire::encode(&order))
            .map_err(|source| self.not_started("writing its order down", source))?;
        // The guard starts nothing before it has read the whole order.
        wire::send(socket, &order).map_err(|source| self.not_started("sending its order", source))?;
        socket
            .set_read_timeout(Some(Duration::from_secs(1)))
            .map_err(|source| self.not_started("setting up its socket", source))?;
        let mut patience = Patience { deadline_boot_ms: job.deadline_boot_ms, since: None };
        let mut started = false;
        let mut told = false;
        let mut go_on = || {
            if !told && cut() {
                // A guard that is gone is found by the next read.
                told = wire::send(socket, &[]).is_ok();
            }
            patience.lasts()
        };
        loop {
            match wire::receive(socket, &mut go_on) {
                Ok(frame) if frame.is_empty() => started = true,
                Ok(frame) => {
                    return wire::decode(&frame).map_err(|source| self.lost("reading its report", source));
                }
                Err(source) if !started && is_hang_up(&source) => {
                    return Err(self.not_started("waiting for it to begin", source));
                }
                Err(source) => return Err(self.lost("waiting for its report", source)),
            }
        }
    }

    fn not_started(&self, doing: &'static str, source: io::Error) -> GuardError {
        GuardError::NotStarted { program: self.program.clone(), doing, source }
    }

    fn lost(&self, doing: &'static str, source: io::Error) -> GuardError {
        GuardError::Lost { program: self.program.clone(), doing, source }
    }
}

/// Milliseconds since boot on CLOCK_BOOTTIME, which also runs while the machine is suspended.
pub fn since_boot_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000)
}

/// The id of the running boot.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn boot_id() -> io::Result<String> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let id = std::fs::read_to_string(path).map_err(|error| at("reading", path, &error))?;
    Ok(id.trim().to_owned())
}

/// An I/O error that says what was being done to which path.
fn at(doing: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{doing} `{}`: {error}", path.display()))
}

/// Bounds the wait for a guard that is stopped or stuck. The grace runs on the monotonic clock, so
/// that after a suspend the guard has the time to cut and to say so.
struct Patience {
    deadline_boot_ms: u64,
    since: Option<Instant>,
}

impl Patience {
    fn lasts(&mut self) -> bool {
        if since_boot_ms() < self.deadline_boot_ms {
            return true;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        since.elapsed() < Duration::from_secs(SILENCE_S)
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::UnexpectedEof || kind == io::ErrorKind::ConnectionReset
}

/// A guard that has reported ends at once, and with it its share of the lock; any other may live
/// on, and is reaped whenever it ends.
fn reap(mut child: Child, ends_now: bool) {
    if ends_now {
        // Only ECHILD is possible: the host reaps everything itself, which is as good.
        let _ = child.wait();
    } else {
        // Without a thread it stays a zombie until the host ends: harmless.
        let _ =
            std::thread::Builder::new().name("surestep-guard-reap".to_owned()).spawn(move || child.wait());
    }
}
