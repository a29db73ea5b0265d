//! Effect kinds of surestep, each with its reconciler, and the guard that runs commands.
//!
//! One file per kind: `shell.rs`, `file_write.rs`, `git_push.rs` (with `git.rs`, what it asks git for). What every
//! command has in common stands in `command.rs`; what a command's process tree may and may not do, in
//! [`guard`].
//!
//! What holds for each kind here:
//! 1. *Not landed* and *not sent* are said only where that is known; every other failure is unknown.
//! 2. An execution and its look-up name a landing by the same `ref`.
//! 3. Whatever may land runs once per attempt, below the guard or inside one blocking closure, and holds on to
//!    the session's lock until it is over.

pub mod guard;

mod command;
mod file_write;
mod git;
mod git_push;
mod outside;
mod remote;
mod secrets;
mod shell;

use std::path::Path;
use std::sync::Arc;

use surestep::{Effect, Fault, Kind, Recovery};

pub use file_write::{FILE_WRITE, FileWrite, FileWriteLook};
pub use git_push::{GIT_PUSH, GitPush, GitPushLook};
use guard::Guard;
pub use secrets::{CommandSecrets, EnvSecrets, FileSecrets, SECRET_PREFIX};
pub use shell::{SHELL, Shell, ShellCheck};

/// Time for one attempt of a command or of git, in milliseconds.
const LOCAL_DEADLINE_MS: u64 = 600_000;
/// How long what was sent elsewhere may stay invisible, in milliseconds.
const REMOTE_LAG_MS: u64 = 15_000;
/// How long after its deadline the guard may take to cut a command and to say so, in milliseconds: more than the
/// 10 s after which it reports what it cannot kill.
const GRACE_MS: u64 = 12_000;

/// The kinds of this crate, each with its recovery, ready to be registered.
///
/// ```
/// # use surestep_effects::{builtin, guard::Guard};
/// let kinds = builtin(Guard::new("surestep-guard"));
/// let names: Vec<_> = kinds.iter().map(|(effect, _)| effect.kind().to_string()).collect();
/// assert_eq!(names, ["shell", "file.write", "git.push"]);
/// ```
#[must_use]
pub fn builtin(guard: Guard) -> Vec<(Arc<dyn Effect>, Recovery)> {
    vec![
        (Arc::new(Shell::new(guard.clone())), Recovery::ask(ShellCheck::new(guard.clone()))),
        (Arc::new(FileWrite::new()), Recovery::ask(FileWriteLook::new())),
        (Arc::new(GitPush::new(guard.clone())), Recovery::ask(GitPushLook::new(guard))),
    ]
}

/// As [`builtin`], for a store in this folder: none of the kinds that write files by themselves writes into it.
#[must_use]
pub fn builtin_for(guard: Guard, store: &Path) -> Vec<(Arc<dyn Effect>, Recovery)> {
    let mut kinds = builtin(guard);
    for (effect, _) in kinds.iter_mut().filter(|(effect, _)| effect.kind().as_str() == FILE_WRITE) {
        *effect = Arc::new(FileWrite::outside(store));
    }
    kinds
}

/// What a kind of this crate is, for people: its body, how a landing is recognised afterwards, and what each
/// failure means.
#[must_use]
pub fn describe(kind: &str) -> Option<&'static str> {
    match kind {
        SHELL => Some(shell::ABOUT),
        FILE_WRITE => Some(file_write::ABOUT),
        GIT_PUSH => Some(git_push::ABOUT),
        _ => None,
    }
}

/// A kind of ours, whose name is valid.
#[expect(
    clippy::expect_used,
    reason = "the names are constants of this crate, and the test below builds each"
)]
fn kind(name: &'static str) -> Kind {
    Kind::new(name).expect("BUG: a kind's name is invalid")
}

/// What a planner is told when an operation cannot be what it says.
fn refusal(kind: &str, why: &str) -> Fault {
    Fault::new("body", format!("`{kind}`: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_described_under_its_name() {
        for (effect, _) in builtin(Guard::new("surestep-guard")) {
            let name = effect.kind().to_string();
            let about = describe(&name).unwrap();
            assert!(about.starts_with(&format!("{name}: ")));
            assert!(about.lines().all(|line| line.len() <= 115), "{name}");
        }
        assert_eq!(describe("shell.nope"), None);
    }
}
