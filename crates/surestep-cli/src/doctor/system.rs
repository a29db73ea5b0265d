//! This machine: clocks, the guard, git, the folder of the marks, limits, the environment.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use surestep::exit;
use surestep_effects::guard::{Exit, Guard, Job, Label, boot_id, since_boot_ms};

use super::Check;
use super::place::nearest;
use crate::context::Context;
use crate::duration::short;
use crate::kinds::GUARD_ARG;
use crate::text::{self, tick};

/// How long the guard's trial may take, in milliseconds.
const TRIAL_MS: u64 = 10_000;
/// The least number of open files that leaves room for the guard's and git's own.
const FILES_MIN: u64 = 64;
/// Variables that change what surestep does. What names a repository for git, `git.push` takes away.
const OURS: [&str; 5] = ["SURESTEP_STORE", "SURESTEP_CONFIG", "XDG_STATE_HOME", "NO_COLOR", "TZ"];
pub(super) fn checks(cx: &Context) -> Vec<Check> {
    vec![clock(), machine(), guard(), git(), marks(cx), umask(), files(), environment()]
}

fn clock() -> Check {
    match boot_id() {
        Ok(boot) => Check::ok("clock", format!("boot {boot}, up for {}", short(since_boot_ms()))),
        Err(e) => Check::problem("clock", exit::USAGE, text::line(&e.to_string()))
            .next("mount /proc: without a boot id no attempt can be told to be over"),
    }
}

/// After a restart, a store that knows its machine settles local work at once.
fn machine() -> Check {
    let known =
        |path: &str| std::fs::read_to_string(path).is_ok_and(|id| !matches!(id.trim(), "" | "uninitialized"));
    if known("/etc/machine-id") || known("/var/lib/dbus/machine-id") {
        return Check::ok("machine", "it has an id, and is known again after a restart");
    }
    Check::warning("machine", "it has no id: after a restart, what was under way waits out its deadline")
        .next("systemd-machine-id-setup")
}

fn guard() -> Check {
    let job = Job {
        secrets: Vec::new(),
        run: vec!["/proc/self/exe".into(), "--version".into()],
        cwd: None,
        env: vec![],
        deadline_boot_ms: since_boot_ms().saturating_add(TRIAL_MS),
        label: Label { session: "doctor".into(), operation: 1, key: String::new(), attempt: 1, epoch: 0 },
        record: None,
        receipt: None,
    };
    let next = "surestep explain kind shell";
    match Guard::own_exe(GUARD_ARG).run(None, &job) {
        Ok(report) if report.exit == Exit::Code(0) => {
            Check::ok("guard", "it starts, runs a command and sees its end")
        }
        Ok(report) => {
            let how = match report.exit {
                Exit::Code(code) => format!("a command ended with {code}"),
                Exit::Signal(signal) => format!("a command was killed by signal {signal}"),
                Exit::NotStarted(why) | Exit::Unknown(why) => why,
            };
            Check::problem("guard", exit::USAGE, format!("its trial failed: {}", text::line(&how))).next(next)
        }
        Err(e) => Check::problem("guard", exit::USAGE, text::line(&e.to_string())).next(next),
    }
}

fn git() -> Check {
    let output = Command::new("git").arg("--version").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            Check::ok("git", text::line(said.strip_prefix("git version ").unwrap_or(&said)))
        }
        Ok(output) => Check::warning("git", format!("`git --version` ended with {}", output.status))
            .next("repair git: `git.push` needs it, nothing else does"),
        Err(e) => Check::warning("git", text::line(&e.to_string()))
            .next("install git: `git.push` needs it, nothing else does"),
    }
}

/// The high-water marks lie outside the store, so that a store put back to an older copy is seen.
fn marks(cx: &Context) -> Check {
    let lost = |why: String| {
        Check::warning("marks", format!("roll-back not detected: {why}"))
            .next("`state_dir = \"PATH\"` in surestep.toml, with a folder of this user outside the store")
    };
    let Some(dir) = cx.config.state_dir() else { return lost("no home folder is known".into()) };
    let shown = tick(&dir.to_string_lossy());
    let there = nearest(&dir);
    let inside = std::fs::canonicalize(&cx.store).is_ok_and(|root| there.starts_with(root));
    if inside {
        return lost(format!("{shown} lies inside the store, and would be put back with it"));
    }
    match may_write(&there) {
        Ok(()) if dir.is_dir() => Check::ok("marks", shown),
        Ok(()) => Check::ok("marks", format!("{shown}, made when it is needed")),
        Err(why) => lost(format!("{shown}: {why}")),
    }
}

fn may_write(there: &Path) -> Result<(), String> {
    if !there.is_dir() {
        return Err(format!("{} is no folder", tick(&there.to_string_lossy())));
    }
    access(there, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| std::io::Error::from(e).to_string())
}

fn umask() -> Check {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:")).map(str::trim);
    match mask.and_then(|mask| u32::from_str_radix(mask, 8).ok()) {
        Some(mask) if mask & 0o700 != 0 => {
            Check::problem("umask", exit::USAGE, format!("{mask:04o}: it takes away the owner's own rights"))
                .next("umask 077")
        }
        Some(mask) => Check::ok("umask", format!("{mask:04o}; what surestep writes is its owner's alone")),
        None => Check::ok("umask", "not known; what surestep writes is its owner's alone"),
    }
}

fn files() -> Check {
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < FILES_MIN => {
            Check::warning("open files", format!("at most {files}: an operation may find none left"))
                .next("ulimit -n 1024")
        }
        Some(files) => Check::ok("open files", format!("at most {files}")),
        None => Check::ok("open files", "no limit"),
    }
}

fn environment() -> Check {
    let shown = |name: &str| {
        std::env::var_os(name).map(|value| format!("{name}={}", text::line(&value.to_string_lossy())))
    };
    let set: Vec<String> = OURS.into_iter().filter_map(shown).collect();
    let words = if set.is_empty() { "nothing that matters is set".into() } else { set.join(" ") };
    Check::ok("environment", words)
}
