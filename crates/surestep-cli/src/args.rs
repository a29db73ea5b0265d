//! The command line, as clap reads it. What each argument means is said here, once, for `--help`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

mod answers;
mod exits;

pub(crate) use answers::{Cancel, Decide, Matching, Resolve};

use crate::duration;

/// Durable agent turns: each effect lands at most once, or you get one honest question.
#[derive(Debug, Parser)]
#[command(
    name = "surestep",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = exits::ALL)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The store's folder [default: `store` in surestep.toml, else .surestep]
    #[arg(long, global = true, value_name = "PATH", env = "SURESTEP_STORE", hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,
    /// The settings [default: surestep.toml, here or above, up to the repository's root]
    #[arg(long, global = true, value_name = "FILE", env = "SURESTEP_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON object on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress and no hints on stderr
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Accept a store on a file system that does not keep what it acknowledges (tmpfs, network)
    #[arg(long, global = true)]
    pub(crate) allow_volatile: bool,
    /// How long a landing may stay invisible, for kinds that are not local (for tests)
    #[arg(long, global = true, hide = true, value_name = "N")]
    pub(crate) lag_ms: Option<u64>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a plan's turn, or re-enter it: nothing is repeated
    Run(Run),
    /// Go on with a session that was interrupted or that rests
    Resume(Resume),
    /// List the store's sessions
    #[command(after_help = exits::LIST)]
    List,
    /// Show where a session stands
    #[command(after_help = exits::READ)]
    Show {
        /// The session
        session: String,
    },
    /// Show a session's journal, commit by commit
    #[command(after_help = exits::LOG)]
    Log {
        /// The session
        session: String,
        /// Go on with what is added, one line for each entry, until nothing more can be
        #[arg(long, short)]
        follow: bool,
    },
    /// List everything that waits for a person, oldest first, over the whole store
    #[command(after_help = exits::QUESTIONS)]
    Questions,
    /// Answer an open question about an operation
    Resolve(Resolve),
    /// Allow an operation that waits for a person's yes; `resume` then runs it
    Approve(Decide),
    /// Forbid an operation that waits for a person's yes: it is never run, and the turn fails
    Deny(Decide),
    /// Cancel a session's open turn: nothing more is started; what is in doubt is settled first
    Cancel(Cancel),
    /// Explain an operation, an error code or a kind of effect
    #[command(
        override_usage = "surestep explain SESSION OP\n       surestep explain code CODE\n       surestep explain kind KIND",
        after_help = exits::EXPLAIN
    )]
    Explain {
        /// `SESSION OP`, `code CODE` or `kind KIND` (a session named `code`: `session code OP`)
        #[arg(required = true, num_args = 1..=3, value_name = "WHAT")]
        what: Vec<String>,
    },
    /// Print a JSON Schema: of a file that surestep reads or stores, or of what a command prints with --json
    #[command(after_help = exits::SCHEMA)]
    Schema {
        /// Its name, like `plan` or `show`; without one, all names are listed
        name: Option<String>,
    },
    /// Run one command as a durable operation: at most once, even when killed
    Exec(Exec),
    /// Write a session's envelope: a copy to look at or, with --hand-off, the session itself
    Export(Export),
    /// Take in a session that was handed off to this store; nothing is started
    Import(Import),
    /// Read an envelope on stdin, step it against the store, write its next state to stdout
    Step(Step),
    /// Find what is damaged in the store, and say what to do; with --repair, move it aside
    Fsck(Fsck),
    /// Look at this machine, the store and the settings: what puts a turn at risk, and what to do
    #[command(after_help = exits::DOCTOR)]
    Doctor,
    /// Seal finished sessions and prune old ones: says what would go, and with that plan's name does it
    Gc(Gc),
    /// The first minute: a turn in a scratch repository, killed and resumed before your eyes
    Demo(Demo),
    /// Print a shell's completions, to be read by that shell
    #[command(after_help = exits::PRINT)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command
    #[command(after_help = exits::PRINT)]
    Man {
        /// Write surestep.1, surestep-run.1 … into this folder, which must be there
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

impl Command {
    /// Whether it works with `surestep.toml`; the others work where that file is broken, too.
    pub(crate) fn takes_settings(&self) -> bool {
        match self {
            Self::Demo(_)
            | Self::Doctor
            | Self::Completions { .. }
            | Self::Man { .. }
            | Self::Schema { .. } => false,
            Self::Explain { what } => {
                !matches!(what.first().map(String::as_str), Some("code" | "kind")) && what.len() > 1
            }
            Self::Run(_)
            | Self::Resume(_)
            | Self::List
            | Self::Show { .. }
            | Self::Log { .. }
            | Self::Questions
            | Self::Resolve(_)
            | Self::Approve(_)
            | Self::Deny(_)
            | Self::Cancel(_)
            | Self::Exec(_)
            | Self::Export(_)
            | Self::Import(_)
            | Self::Step(_)
            | Self::Fsck(_)
            | Self::Gc(_) => true,
        }
    }
}

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = exits::STEP)]
pub(crate) struct Run {
    /// The plan file, or `-` for stdin
    pub(crate) plan: String,
    /// The session; replaces the one that the plan names
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// Only say what would be bound and started: nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Whether to sleep while only time is missing.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Wait {
    /// Wait while only time is missing or somebody else holds the session; at most so long, if a duration is given
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, value_parser = duration::parse)]
    pub(crate) wait: Option<Option<Duration>>,
}

/// Arguments of `resume`.
#[derive(Debug, Args)]
#[command(
    override_usage = "surestep resume <SESSION> | --all [--wait[=<DURATION>]] [--dry-run]",
    after_help = exits::STEP
)]
pub(crate) struct Resume {
    /// The session
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) session: Option<String>,
    /// Every session of the store that is not finished
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// Only say what would go on: nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `exec`.
#[derive(Debug, Args)]
#[command(after_help = exits::EXEC)]
pub(crate) struct Exec {
    /// The session
    #[arg(long, value_name = "S")]
    pub(crate) session: String,
    /// What the command acts on: part of the operation's identity, and of every message about it
    #[arg(long, value_name = "T")]
    pub(crate) target: String,
    /// How to find out afterwards whether it landed: a shell line
    #[arg(long, value_name = "CMD")]
    pub(crate) check: Option<String>,
    /// An exit code by which the command says that surely nothing happened: it is tried again (repeatable)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) refused_exit: Vec<u8>,
    /// All that works on it runs on this machine, below the guard: no waiting before a check is believed
    #[arg(long)]
    pub(crate) local: bool,
    /// The turn of the session; default 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turn: Option<u32>,
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// Only say what would be bound and started: nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = exits::EXPORT)]
pub(crate) struct Export {
    /// The session
    pub(crate) session: String,
    /// Hand it off to the store with this id (`surestep doctor` prints it there); a wrong id cannot be taken back
    #[arg(long, value_name = "TO")]
    pub(crate) hand_off: Option<String>,
    /// Write to this file (mode 0600); default: stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Only say what would happen: nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = exits::IMPORT)]
pub(crate) struct Import {
    /// The envelope that `export --hand-off` wrote, or `-` for stdin
    pub(crate) file: String,
    /// A kind of effect that may run (repeatable)
    #[arg(long, value_name = "KIND")]
    pub(crate) allow: Vec<String>,
    /// Only say what would happen: nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `step`.
#[derive(Debug, Args)]
#[command(after_help = exits::STEP_ENVELOPE)]
pub(crate) struct Step {
    /// `-`: stdin; or the path of an envelope
    #[arg(value_name = "-")]
    pub(crate) file: String,
    /// A kind of effect that may run (repeatable)
    #[arg(long, value_name = "KIND")]
    pub(crate) allow: Vec<String>,
}

/// Arguments of `fsck`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").args(["repair", "restored", "forget"]))]
#[command(after_help = exits::FSCK)]
pub(crate) struct Fsck {
    /// Only this session; default: the whole store
    pub(crate) session: Option<String>,
    /// Move what is damaged aside, and restore what can be restored
    #[arg(long)]
    pub(crate) repair: bool,
    /// With --repair, --restored or --forget: only say what would be done: nothing is written
    #[arg(long, requires = "what")]
    pub(crate) dry_run: bool,
    /// An older copy of the store was put back: note it in the journals, so that `resume` looks for what may have run
    /// since, or asks
    #[arg(long)]
    pub(crate) restored: bool,
    /// A store that is gone from this path: say what was in it; with its id: forget it, so that a fresh one can begin
    #[arg(long, value_name = "STORE-ID", num_args = 0..=1, require_equals = true, conflicts_with = "session")]
    pub(crate) forget: Option<Option<String>>,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
#[command(after_help = exits::GC)]
pub(crate) struct Gc {
    /// Carry out the plan of this name, which `gc` prints, or nothing if that cannot be done any more
    #[arg(long, value_name = "PLAN")]
    pub(crate) apply: Option<String>,
    /// How long a sealed session stays after its last commit; default: 30 days
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) retention: Option<Duration>,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = exits::DEMO)]
pub(crate) struct Demo {
    /// Take the look-up away and kill the guard too: the honest question, and how it is answered
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Work in this new folder and keep it; default: a temporary one
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
