//! The guard's own life, from its start to its last reap.
//!
//! ```text
//!  own session ▸ read the order ▸ subreaper, lock, pipes, threads ▸ record `begun` ▸ announce ▸
//!  start the command ▸ wait for every descendant, cutting at the deadline ▸ record `ended` ▸ report
//! ```
//!
//! 1. Everything that can be refused is asked for before the command starts, so that a refusal means
//!    that nothing ran; afterwards no error ends the guard.
//! 2. The command starts only after `begun` is written and the engine was told; an engine that is
//!    already dead gets nothing started.
//! 3. `ended` is written only after `wait` said that there is no child left.
//! 4. The lock (stdin) is never closed nor unlocked: it goes with the process.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags};
use rustix::process::{WaitOptions, WaitStatus};
use surestep::scrub::Scrubber;

use super::record::Keeper;
use super::tail::{Kept, Tail};
use super::tree::{self, MARK_VARIABLE, Stat};
use super::wire::{self, Order};
use super::{Exit, Process, Report, boot_id, since_boot_ms};

/// The longest sleep between two readings of the boot clock: a timer does not run in a suspend.
const SLICE: Duration = Duration::from_secs(1);
/// The pause between two rounds of killing, at first and later.
const ROUND: Duration = Duration::from_millis(5);
const ROUND_LATER: Duration = Duration::from_millis(250);
/// How long after a refused kill, and after kills that nobody refused, survivors are reported.
const REFUSED_AFTER: Duration = Duration::from_secs(2);
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// Where descendants inherit the lock: above the descriptors that shell scripts use by number.
const LOCK_FD_MIN: i32 = 64;

/// Who this guard is.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) pid: i32,
    pub(super) start_time: u64,
    pub(super) boot: String,
    pub(super) since_boot_ms: u64,
    pub(super) mark: String,
}

impl Identity {
    fn take() -> io::Result<Identity> {
        let stat = Stat::of_self()?;
        let since_boot_ms = since_boot_ms();
        Ok(Identity {
            pid: stat.pid,
            start_time: stat.start_time,
            boot: boot_id()?,
            since_boot_ms,
            mark: format!("{}-{}-{since_boot_ms}", stat.pid, stat.start_time),
        })
    }

    /// Below another guard both marks are borne, so that each finds its own.
    fn marks(&self) -> String {
        match std::env::var(MARK_VARIABLE) {
            Ok(outer) if !outer.is_empty() => format!("{outer},{}", self.mark),
            Ok(_) | Err(_) => self.mark.clone(),
        }
    }
}

/// The body of the guard: call it first thing in `main` and return what it returns.
///
/// It takes its order from the socket that its parent gave it as standard output; started by hand it
/// says so and exits with 2.
pub fn guard_main() -> ExitCode {
    // Off the terminal: no Ctrl-C, no hang-up, and a command that asks there fails instead of
    // stopping. It is refused to a group leader, which a shell's Ctrl-C does not reach either.
    let _ = rustix::process::setsid();
    super::heed_children();
    let engine = match io::stdout().as_fd().try_clone_to_owned().map(UnixStream::from) {
        Ok(socket) if socket.local_addr().is_ok() => socket,
        Ok(_) | Err(_) => {
            let _ = writeln!(io::stderr(), "surestep-guard is started by surestep, not by hand");
            return ExitCode::from(2);
        }
    };
    let order = wire::receive(&engine, || true).and_then(|frame| wire::decode::<Order>(&frame));
    // Without an order there is nothing to do, and nobody left to tell.
    let Ok(order) = order else { return ExitCode::FAILURE };
    match Started::new(&order, &engine) {
        Ok(started) => started.attend(&engine),
        Err(why) => {
            tell(&engine, &not_started(why));
            ExitCode::SUCCESS
        }
    }
}

/// The engine may be dead: then the record is what stays.
fn tell(engine: &UnixStream, report: &Report) {
    if let Ok(frame) = wire::encode(report) {
        let _ = wire::send(engine, &frame);
    }
}

fn not_started(why: String) -> Report {
    report(Exit::NotStarted(why), boot_id().unwrap_or_default())
}

fn report(exit: Exit, boot: String) -> Report {
    Report {
        exit,
        cut: false,
        stdout: Vec::new(),
        stdout_truncated: false,
        stderr: Vec::new(),
        stderr_truncated: false,
        boot,
        ended_boot_ms: since_boot_ms(),
        survivors: Vec::new(),
    }
}

/// What comes from the thread that waits.
#[derive(Debug)]
enum News {
    /// The command itself ended so.
    Ended(Exit),
    /// There is no descendant left.
    Alone,
}

/// A command that runs, and all that is needed to see it to its end.
#[derive(Debug)]
struct Started {
    identity: Identity,
    keeper: Option<Keeper>,
    scrubber: Scrubber,
    deadline_boot_ms: u64,
    command: i32,
    news: Receiver<News>,
    stdout: Tail,
    stderr: Tail,
    /// The lock as the descendants inherit it.
    _lock: Option<OwnedFd>,
}

/// What is there before the command starts.
struct Ready {
    identity: Identity,
    lock: Option<OwnedFd>,
    command: Command,
    stdout: Tail,
    stderr: Tail,
    go: Sender<i32>,
    news: Receiver<News>,
}

impl Started {
    /// Start the command, or say why nothing ran.
    fn new(order: &Order, engine: &UnixStream) -> Result<Started, String> {
        let in_time = || match since_boot_ms() < order.deadline_boot_ms {
            true => Ok(()),
            false => Err("the deadline was over before the command started".to_owned()),
        };
        in_time()?;
        let mut ready = Ready::new(order)?;
        let keeper = order
            .record()
            .map(|path| Keeper::begin(path, order, &ready.identity))
            .transpose()
            .map_err(|error| error.to_string())?;
        let spawned = wire::send(engine, &[])
            .map_err(|error| format!("the engine was gone before the command started: {error}"))
            .and_then(|()| in_time())
            .and_then(|()| {
                let program = order.run.first().map(String::as_str).unwrap_or_default();
                ready.command.spawn().map_err(|error| format!("starting `{program}`: {error}"))
            })
            .and_then(|child| i32::try_from(child.id()).map_err(|error| format!("its pid: {error}")));
        // Our ends of its pipes go with it, so that the drains see theirs end.
        drop(ready.command);
        match spawned {
            Ok(command) => {
                // The thread lives, and hangs up only at its end.
                let _ = ready.go.send(command);
                Ok(Started {
                    identity: ready.identity,
                    keeper,
                    scrubber: order.scrubber(),
                    deadline_boot_ms: order.deadline_boot_ms,
                    command,
                    news: ready.news,
                    stdout: ready.stdout,
                    stderr: ready.stderr,
                    _lock: ready.lock,
                })
            }
            Err(why) => {
                if let Some(keeper) = keeper {
                    // A record that stays begun only denies.
                    let _ = keeper.end(&not_started(why.clone()));
                }
                Err(why)
            }
        }
    }

    /// Wait for every descendant, cut at the deadline, write down the end, report.
    fn attend(mut self, engine: &UnixStream) -> ExitCode {
        let mut exit = None;
        let mut cut: Option<Cut> = None;
        let mut told = false;
        loop {
            let left = self.deadline_boot_ms.saturating_sub(since_boot_ms());
            let left = Duration::from_millis(left);
            let pause = cut.as_ref().map_or(left.min(SLICE), Cut::pause);
            match self.news.recv_timeout(pause) {
                Ok(News::Ended(how)) => exit = Some(how),
                Ok(News::Alone) => break,
                // Only here, so that an end that is already told is never called a cut.
                Err(RecvTimeoutError::Timeout) if cut.is_some() || self.is_over(engine) => {
                    let cut = cut.get_or_insert_with(Cut::new);
                    let survivors = cut.round(self.identity.pid, self.command);
                    if !told && !survivors.is_empty() {
                        tell(engine, &self.outlived(survivors));
                        told = true;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // The waiting thread died: nothing is known, nothing is written down as ended,
                    // and the command's own share of the lock is what holds it.
                    let why = "the guard's waiting thread ended early".to_owned();
                    tell(engine, &report(Exit::Unknown(why), self.identity.boot));
                    return ExitCode::FAILURE;
                }
            }
        }
        // An ignored SIGCHLD is inherited, and makes the kernel throw exit statuses away.
        let unseen = || {
            let why = "the command ended with no exit status to be had; is SIGCHLD ignored?";
            Exit::Unknown(why.to_owned())
        };
        let mut report = report(exit.unwrap_or_else(unseen), self.identity.boot.clone());
        report.cut = cut.is_some();
        fill(&mut report, &self.scrubber, self.stdout.finish(), self.stderr.finish());
        if let Some(keeper) = self.keeper.take() {
            // On failure the record stays begun, which only denies; the engine still hears it.
            let _ = keeper.end(&report);
        }
        if !told {
            tell(engine, &report);
        }
        ExitCode::SUCCESS
    }

    /// The deadline is over, or the engine asks for the cut: the one frame that it sends after its order.
    fn is_over(&self, engine: &UnixStream) -> bool {
        since_boot_ms() >= self.deadline_boot_ms || wire::is_asked(engine)
    }

    fn outlived(&self, survivors: Vec<Process>) -> Report {
        let why = "processes of the command are still there after the deadline".to_owned();
        let mut report = report(Exit::Unknown(why), self.identity.boot.clone());
        report.cut = true;
        report.survivors = survivors;
        fill(&mut report, &self.scrubber, self.stdout.so_far(), self.stderr.so_far());
        report
    }
}

/// The ends of the output, without credentials: neither the record nor the engine ever has them.
fn fill(report: &mut Report, scrubber: &Scrubber, stdout: Kept, stderr: Kept) {
    (report.stdout, report.stdout_truncated) = stdout.into_parts(scrubber);
    (report.stderr, report.stderr_truncated) = stderr.into_parts(scrubber);
}

/// The killing at the deadline, round after round until nobody is left.
#[derive(Debug)]
struct Cut {
    since: Instant,
    refused: bool,
}

impl Cut {
    fn new() -> Cut {
        Cut { since: Instant::now(), refused: false }
    }

    /// One round; returns who is left once that has become a fact to report.
    fn round(&mut self, guard: i32, command: i32) -> Vec<Process> {
        self.refused |= tree::kill_below(guard, command);
        let patience = if self.refused { REFUSED_AFTER } else { STUCK_AFTER };
        if self.since.elapsed() < patience { Vec::new() } else { tree::living_below(guard) }
    }

    fn pause(&self) -> Duration {
        if self.since.elapsed() < REFUSED_AFTER { ROUND } else { ROUND_LATER }
    }
}

impl Ready {
    fn new(order: &Order) -> Result<Ready, String> {
        let (program, args) = order.run.split_first().ok_or("no command was given")?;
        let identity = Identity::take().map_err(|error| error.to_string())?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| format!("becoming the subreaper: {error}"))?;
        let lock = order.locked.then(share_lock).transpose();
        let lock = lock.map_err(|error| format!("sharing the lock: {error}"))?;
        let cannot = |error: io::Error| format!("preparing to drain its output: {error}");
        let (out, stdout) = Tail::start().map_err(cannot)?;
        let (err, stderr) = Tail::start().map_err(cannot)?;
        let (go, news) = waiting().map_err(|error| format!("preparing to wait: {error}"))?;
        let mut command = Command::new(program);
        command
            .args(args)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::from(out))
            .stderr(Stdio::from(err))
            .envs(order.env.iter().map(|(name, value)| (name, value)))
            .env("SURESTEP_SESSION", &order.label.session)
            .env("SURESTEP_KEY", &order.label.key)
            .env("SURESTEP_ATTEMPT", order.label.attempt.to_string())
            .env("SURESTEP_EPOCH", order.label.epoch.to_string())
            .env(MARK_VARIABLE, identity.marks());
        if let Some(cwd) = order.cwd() {
            if !cwd.is_dir() {
                return Err(format!("working directory `{}` is no directory", cwd.display()));
            }
            command.current_dir(cwd);
        }
        Ok(Ready { identity, lock, command, stdout, stderr, go, news })
    }
}

/// A descriptor of the lock that descendants inherit, since it lacks CLOEXEC: should the guard be
/// killed, they still hold the lock.
fn share_lock() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    let shared = match rustix::io::fcntl_dupfd_cloexec(&stdin, LOCK_FD_MIN) {
        // Fewer descriptors than that are allowed here.
        Err(Errno::INVAL) => rustix::io::fcntl_dupfd_cloexec(&stdin, 0)?,
        other => other?,
    };
    rustix::io::fcntl_setfd(&shared, FdFlags::empty())?;
    Ok(shared)
}

/// The thread that waits, begun once it is told the command's pid. It is there before the command,
/// and reaps nothing before: a failed start is reaped by who tried it.
fn waiting() -> io::Result<(Sender<i32>, Receiver<News>)> {
    let (go, told) = mpsc::channel();
    let (says, news) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        if let Ok(command) = told.recv() {
            wait_for_all(command, &says);
        }
    })?;
    Ok((go, news))
}

fn wait_for_all(command: i32, says: &Sender<News>) {
    loop {
        let news = match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == command => News::Ended(ended(status)),
            Ok(_) | Err(Errno::INTR) => continue,
            Err(Errno::CHILD) => News::Alone,
            Err(_) => {
                // Not known to happen; an end is never claimed from it.
                thread::sleep(ROUND_LATER);
                continue;
            }
        };
        let last = matches!(news, News::Alone);
        if says.send(news).is_err() || last {
            return;
        }
    }
}

fn ended(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown(format!("wait status {:#x}", status.as_raw())),
    }
}
