//! `shell`: one command, and its own `check` as the look-up.
//!
//! ```text
//!  exit 0 ───────────────────────────▶ landed (ref = the operation's key)
//!  exit listed in `refused_exit` ────▶ not landed, by the command's own word
//!  no such program or folder ────────▶ not landed, for good
//!  any other exit, signal, deadline ─▶ unknown but over: the guard reaped everything
//!  guard lost, processes left ───────▶ unknown
//! ```
//!
//! A non-zero exit is no proof that nothing happened; the `check` decides, and without one a person. Decisions:
//! what ran to its deadline is cut and never counts as exit 0, since something of it was killed.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use surestep::{
    Attempt, Body, Call, Effect, Fault, Finding, Kind, Outcome, Planned, Raw, Receipt, Reconciler, Retry,
    Terms,
};

use crate::command::{Command, Runner, SHOWN_BYTES, blocking, guard_fault, no_report, resolve, tail};
use crate::guard::{Exit, Guard, Report};
use crate::{GRACE_MS, LOCAL_DEADLINE_MS, REMOTE_LAG_MS, kind, refusal};

/// The kind's name.
pub const SHELL: &str = "shell";

/// The most bytes of standard output that a receipt keeps.
const KEPT_BYTES: usize = 4 << 10;

/// What `surestep explain kind shell` prints.
pub(crate) const ABOUT: &str = "\
shell: runs one command, without a shell in between.

body
  run           [program, argument, ...]; required
  check         [program, argument, ...]: asked when it is in doubt whether `run` landed
  local         true if all that `run` does happens on this machine and ends with its processes
  cwd           folder for both; relative to where the plan was first run, the default
  env           {NAME: value}, on top of the environment of surestep
  refused_exit  [code, ...]: exit codes (1 to 255) by which `run` says that surely nothing happened
  Any value may be {\"$secret\": \"NAME\"}: it is fetched when the command runs, and never stored. Prefer `env`:
  other users of the machine can read the arguments of a command. Secrets that are not named are not inherited.
  Both commands find SURESTEP_KEY, SURESTEP_SESSION, SURESTEP_OPERATION, SURESTEP_ATTEMPT, SURESTEP_EPOCH,
  SURESTEP_REPO and SURESTEP_TARGET in their environment. `repo` and `target` are labels, and part of the key.

recognised afterwards
  by `check`: exit 0 means landed, 1 not landed, anything else (also: it cannot be started) unknown. A check that
  names SURESTEP_KEY in its arguments is trusted to tell equal operations apart; one that does not is not.
recovery   ask; without `check` every doubt goes to a person
deadline   600 s, then the guard kills the command and all below it
lag        15 s; 0 s with \"local\": true
receipt    ref: the operation's key; detail: exit code and the end of the standard output

outcomes
  exit 0                                landed
  an exit code in `refused_exit`        not landed, tried again after the backoff
  no such program, no such folder       not landed, for good
  deadline over before the start, no
  guard, no room for a process          not sent
  other exit codes, signals, the cut    unknown, but over: `check` or a person decides
  guard lost, unkillable processes      unknown
Not covered: work handed to a daemon (ssh, a container engine, systemd-run, at). A command that leaves processes
in the background is over only when these are.
";

/// The body of a `shell` operation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShellBody {
    /// The command.
    run: Vec<String>,
    /// Who is asked whether it landed.
    check: Option<Vec<String>>,
    /// Whether all its work happens on this machine, below the guard.
    local: Option<bool>,
    /// The folder for both.
    cwd: Option<String>,
    /// Variables for both.
    env: Option<BTreeMap<String, String>>,
    /// Exit codes that say: surely nothing happened.
    refused_exit: Option<Vec<i32>>,
}

impl ShellBody {
    fn parse(body: &Body) -> Result<Self, Fault> {
        let body: Self = serde_json::from_str(body.as_str()).map_err(|e| refusal(SHELL, &e.to_string()))?;
        body.validate().map_err(|why| refusal(SHELL, &why))?;
        Ok(body)
    }

    fn validate(&self) -> Result<(), String> {
        validate_argv("run", &self.run)?;
        if let Some(check) = &self.check {
            validate_argv("check", check)?;
        }
        if let Some(cwd) = &self.cwd
            && (cwd.is_empty() || cwd.contains('\0'))
        {
            return Err("`cwd` is empty or holds a NUL".to_owned());
        }
        for (name, value) in self.env.iter().flatten() {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!("`env`: `{}` is no variable that can be set", name.escape_debug()));
            }
            if name.starts_with("SURESTEP_") {
                return Err(format!("`env`: `{name}` is set by surestep itself"));
            }
        }
        match self.refused_exit.iter().flatten().find(|code| !(1..=255).contains(*code)) {
            Some(code) => Err(format!("`refused_exit`: {code} is no exit code from 1 to 255")),
            None => Ok(()),
        }
    }

    /// One of the two commands, as the guard takes it.
    fn command(&self, run: &[String], call: &Call) -> Command {
        Command {
            run: run.to_vec(),
            cwd: resolve(call.dir.as_deref(), self.cwd.as_deref()),
            env: self.env.clone().into_iter().flatten().collect(),
        }
    }
}

fn validate_argv(name: &str, argv: &[String]) -> Result<(), String> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(format!("`{name}` names no program"));
    }
    match argv.iter().position(|argument| argument.contains('\0')) {
        Some(at) => Err(format!("`{name}[{at}]` holds a NUL, which no argument can")),
        None => Ok(()),
    }
}

/// Runs a command below the guard.
#[derive(Debug, Clone)]
pub struct Shell {
    guard: Guard,
}

impl Shell {
    /// Commands run below this guard.
    #[must_use]
    pub const fn new(guard: Guard) -> Self {
        Self { guard }
    }
}

#[async_trait]
impl Effect for Shell {
    fn kind(&self) -> Kind {
        kind(SHELL)
    }

    fn terms(&self, planned: &Planned<'_>) -> Result<Terms, Fault> {
        let body = ShellBody::parse(planned.body)?;
        if planned.repo.contains('\0') || planned.target.contains('\0') {
            return Err(refusal(SHELL, "`repo` or `target` holds a NUL"));
        }
        let local = body.local.unwrap_or(false);
        let tells_apart = |check: &Vec<String>| check.iter().any(|part| part.contains("SURESTEP_KEY"));
        Ok(Terms {
            local,
            lag_ms: if local { 0 } else { REMOTE_LAG_MS },
            can_ask: body.check.is_some(),
            distinguishes: body.check.as_ref().is_some_and(tells_apart),
            ..Terms::remote(LOCAL_DEADLINE_MS, REMOTE_LAG_MS)
        })
    }

    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        let (guard, attempt) = (self.guard.clone(), attempt.clone());
        blocking(move || execute(&guard, &attempt)).await
    }

    fn grace_ms(&self) -> u64 {
        GRACE_MS
    }
}

fn execute(guard: &Guard, attempt: &Attempt) -> Outcome {
    let call = &attempt.call;
    let body = match ShellBody::parse(attempt.body()) {
        Ok(body) => body,
        Err(fault) => return Outcome::NotLanded(fault, Retry::Never),
    };
    let runner = Runner::of(guard, attempt);
    let report = match runner.act(body.command(&body.run, call), &call.operation.key.to_string()) {
        Ok(report) => report,
        Err(error) => return no_report(error),
    };
    match &report.exit {
        Exit::NotStarted(why) => runner.nothing_ran(why),
        Exit::Code(0) if !report.cut => Outcome::Landed(receipt(call, &report)),
        Exit::Code(code)
            if !report.cut && body.refused_exit.iter().flatten().any(|refused| refused == code) =>
        {
            Outcome::NotLanded(fault("refused", &report), Retry::Backoff)
        }
        _ if !report.survivors.is_empty() => Outcome::Unknown(fault("survivors", &report)),
        Exit::Code(_) | Exit::Signal(_) if report.cut => Outcome::Over(fault("timeout", &report)),
        Exit::Code(_) => Outcome::Ended(fault("exit", &report)),
        Exit::Signal(_) => Outcome::Over(fault("signal", &report)),
        Exit::Unknown(_) => Outcome::Unknown(fault("lost", &report)),
    }
}

/// Asks an operation's `check`.
#[derive(Debug, Clone)]
pub struct ShellCheck {
    guard: Guard,
}

impl ShellCheck {
    /// Checks run below this guard.
    #[must_use]
    pub const fn new(guard: Guard) -> Self {
        Self { guard }
    }
}

#[async_trait]
impl Reconciler for ShellCheck {
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
        let (guard, attempt) = (self.guard.clone(), attempt.clone());
        blocking(move || look(&guard, &attempt)).await?
    }
}

fn look(guard: &Guard, attempt: &Attempt) -> Result<Finding, Fault> {
    let call = &attempt.call;
    let body = ShellBody::parse(attempt.body())?;
    let Some(check) = &body.check else {
        return Ok(Finding::Unknown(refusal(SHELL, "the operation has no `check`")));
    };
    let report = Runner::of(guard, attempt).ask(body.command(check, call)).map_err(guard_fault)?;
    Ok(match report.exit {
        Exit::Code(0) if !report.cut => Finding::Landed(receipt(call, &report)),
        Exit::Code(1) if !report.cut => Finding::NotLanded,
        Exit::Code(_) | Exit::Signal(_) | Exit::NotStarted(_) | Exit::Unknown(_) => {
            Finding::Unknown(fault("check", &report))
        }
    })
}

/// A receipt's detail.
#[derive(Serialize)]
struct Detail {
    exit: i32,
    stdout: String,
}

fn receipt(call: &Call, report: &Report) -> Receipt {
    let receipt = Receipt::new(call.operation.key.to_string());
    let detail = Detail { exit: 0, stdout: tail(&report.stdout, KEPT_BYTES) };
    match serde_json::to_string(&detail).and_then(Raw::new) {
        Ok(raw) => receipt.with_detail(raw),
        Err(_) => receipt,
    }
}

/// How a command ended, with the end of what it said.
fn fault(code: &str, report: &Report) -> Fault {
    let mut message = match &report.exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("killed by signal {signal}"),
        Exit::NotStarted(why) => format!("not started: {why}"),
        Exit::Unknown(why) => why.clone(),
    };
    if report.cut {
        message.push_str(", cut at the deadline or by a cancel");
    }
    for process in &report.survivors {
        message.push_str(&format!("; cannot be killed: {} (pid {})", process.command, process.pid));
    }
    let said = if report.stderr.is_empty() { &report.stdout } else { &report.stderr };
    let said = tail(said, SHOWN_BYTES);
    if !said.trim().is_empty() {
        message.push_str("; it said: ");
        message.push_str(said.trim());
    }
    Fault::new(code, message)
}
