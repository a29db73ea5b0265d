//! The command line, as clap reads it. What each argument means is said here, once, for `--help`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

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
#[command(
    after_help = "Exit codes: 0 done · 1 unexpected · 2 usage or plan · 3 failed · 4 a person must answer · \
    5 rests until a time · 6 held by another · 7 written by a newer version · 8 damaged · \
    9 not from this store's journal · 10 no such session · 11 store · 12 wait limit · 13 cancelled\n\
    New here? Run `surestep demo`."
)]
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
    /// The store's folder
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "SURESTEP_STORE",
        default_value = ".surestep",
        hide_env_values = true
    )]
    pub(crate) store: PathBuf,
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
    List,
    /// Show where a session stands
    Show {
        /// The session
        session: String,
    },
    /// Show a session's journal, commit by commit
    Log {
        /// The session
        session: String,
    },
    /// List everything that waits for a person, oldest first, over the whole store
    Questions,
    /// Answer an open question about one operation
    Resolve(Resolve),
    /// Allow an operation that waits for a person's yes; `resume` then runs it
    Approve(Decide),
    /// Forbid an operation that waits for a person's yes: it is never run, and the turn fails
    Deny(Decide),
    /// Cancel a session's open turn: nothing more is started; what is in doubt is settled first
    Cancel(Cancel),
    /// Explain an operation, an error code or a kind of effect
    #[command(
        override_usage = "surestep explain SESSION OP\n       surestep explain code CODE\n       surestep explain kind KIND"
    )]
    Explain {
        /// `SESSION OP`, `code CODE` or `kind KIND` (a session named `code`: `session code OP`)
        #[arg(required = true, num_args = 1..=3, value_name = "WHAT")]
        what: Vec<String>,
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
    /// The first minute: a turn in a scratch repository, killed and resumed before your eyes
    Demo(Demo),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The plan file, or `-` for stdin
    pub(crate) plan: String,
    /// The session; replaces the one that the plan names
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
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
#[command(override_usage = "surestep resume <SESSION> | --all [--wait[=<DURATION>]]")]
pub(crate) struct Resume {
    /// The session
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) session: Option<String>,
    /// Every session of the store that is not finished
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// Arguments of `resolve`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("word").required(true).args(["landed", "not_landed", "skip"]))]
#[command(
    after_help = "There is no undo. The answer, your name and your reason are written into the journal."
)]
pub(crate) struct Resolve {
    /// The session
    pub(crate) session: String,
    /// The operation's number from 1, or the start of its key (4 digits at least)
    pub(crate) op: String,
    /// It landed: record it as done, never run it again
    #[arg(long)]
    pub(crate) landed: bool,
    /// With --landed: what it left behind, as JSON like `{"ref":"118"}`, or just the text of the ref
    #[arg(long, value_name = "JSON", requires = "landed", conflicts_with_all = ["not_landed", "skip"])]
    pub(crate) receipt: Option<String>,
    /// It did not land: it may run again, once that can be true
    #[arg(long)]
    pub(crate) not_landed: bool,
    /// With --not-landed: do not wait until it can no longer land; recorded as your override
    #[arg(long, requires = "not_landed", conflicts_with_all = ["landed", "skip"])]
    pub(crate) now: bool,
    /// Leave it as it is, and go on with the next operation
    #[arg(long)]
    pub(crate) skip: bool,
    /// Why you say so
    #[arg(long, value_name = "TEXT", required = true)]
    pub(crate) because: String,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `approve` and `deny`.
#[derive(Debug, Args)]
#[command(after_help = "There is no undo. The word, your name and your reason are written into the journal.")]
pub(crate) struct Decide {
    /// The session
    pub(crate) session: String,
    /// The operation's number from 1, or the start of its key (4 digits at least)
    pub(crate) op: String,
    /// Why you say so
    #[arg(long, value_name = "TEXT", required = true)]
    pub(crate) because: String,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
#[command(
    after_help = "There is no undo. What landed stays landed. The word, your name and your reason are written into the \
    journal. What is in doubt is settled first: `resume` goes on with that, and ends the turn."
)]
pub(crate) struct Cancel {
    /// The session
    pub(crate) session: String,
    /// Why you say so
    #[arg(long, value_name = "TEXT", required = true)]
    pub(crate) because: String,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `exec`.
#[derive(Debug, Args)]
#[command(
    after_help = "The command runs without a shell. Its output is kept in the receipt (`--json`), not printed.\n\
    --check is one shell line (`sh -c`), and sees $SURESTEP_KEY like the \
    command: exit 0 says that it landed, 1 that it did not, anything else that nobody can tell.\n\
    Without --check, a command whose outcome was lost becomes a question for you."
)]
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
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(
    after_help = "With --hand-off the session moves: it never runs here again, unless it is handed back. What may have \
    landed is looked up first; a session with an open doubt stays. Asked again for the same store, the same bytes are written.\n\
    A copy without --hand-off is for looking at: no store steps it."
)]
pub(crate) struct Export {
    /// The session
    pub(crate) session: String,
    /// Hand it off to the store with this id (`surestep doctor` prints it there)
    #[arg(long, value_name = "TO")]
    pub(crate) hand_off: Option<String>,
    /// Write to this file (mode 0600); default: stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(
    after_help = "An envelope can come from a stranger: it is taken in only if every operation that is still to run is of \
    a kind that you allow, and no other kind ever runs in the turn that came with it. The same file twice is taken in once."
)]
pub(crate) struct Import {
    /// The envelope that `export --hand-off` wrote, or `-` for stdin
    pub(crate) file: String,
    /// A kind of effect that may run (repeatable)
    #[arg(long, value_name = "KIND")]
    pub(crate) allow: Vec<String>,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `step`.
#[derive(Debug, Args)]
#[command(
    after_help = "For relays in any language: one step, whatever may be left to do. The envelope may be new (with a plan), \
    an older state of a session of this store, or one that was handed off to it. Only kinds that are allowed run. The exit \
    code says why it rests; on an error nothing is written to stdout."
)]
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
#[command(
    after_help = "Without --repair nothing is changed, made or locked: it is safe beside running sessions.\n\
    --repair deletes nothing: what is damaged is moved into STORE/aside, with a report. A journal that had to be cut \
    goes on in doubt: every operation that may have run is looked up, or asked about, before anything else."
)]
pub(crate) struct Fsck {
    /// Only this session; default: the whole store
    pub(crate) session: Option<String>,
    /// Move what is damaged aside, and restore what can be restored
    #[arg(long)]
    pub(crate) repair: bool,
    /// With --repair: only say what would be done
    #[arg(long, requires = "repair")]
    pub(crate) dry_run: bool,
    /// An older copy of the store was put back: note it in the journals, so that `resume` looks for what may have run
    /// since, or asks
    #[arg(long)]
    pub(crate) restored: bool,
    /// A store that is gone from this path: say what was in it; with its id: forget it, so that a fresh one can begin
    #[arg(long, value_name = "STORE-ID", num_args = 0..=1, require_equals = true, conflicts_with = "session")]
    pub(crate) forget: Option<Option<String>>,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Take the look-up away and kill the guard too: the honest question, and how it is answered
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Work in this new folder and keep it; default: a temporary one
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wait_takes_a_duration_only_after_an_equals_sign() {
        let wait = |line: &str| {
            let Command::Resume(resume) = parse(line).unwrap().command else {
                panic!("not `resume`: {line}")
            };
            (resume.session, resume.wait.wait)
        };
        assert_eq!(wait("surestep resume a"), (Some("a".into()), None));
        assert_eq!(wait("surestep resume --wait a"), (Some("a".into()), Some(None)));
        assert_eq!(
            wait("surestep resume a --wait=5s"),
            (Some("a".into()), Some(Some(Duration::from_secs(5))))
        );
        assert!(parse("surestep resume a --wait=soon").is_err());
        assert!(parse("surestep resume").is_err());
        assert!(parse("surestep resume a --all").is_err());
    }

    #[test]
    fn resolve_takes_exactly_one_word_and_a_reason() {
        assert!(parse("surestep resolve s 2 --landed --because x").is_ok());
        assert!(parse("surestep resolve s 2 --not-landed --now --because x --dry-run").is_ok());
        for bad in [
            "--landed",
            "--because x",
            "--landed --skip --because x",
            "--landed --now --because x",
            "--skip --receipt {} --because x",
        ] {
            assert!(parse(&format!("surestep resolve s 2 {bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn exec_keeps_the_command_as_it_is() {
        let line = "surestep exec --session s --target t -- git push --force -- x";
        let Command::Exec(exec) = parse(line).unwrap().command else { panic!("not `exec`") };
        assert_eq!(exec.command, ["git", "push", "--force", "--", "x"]);
        assert!(parse("surestep exec --session s --target t").is_err());
        assert!(parse("surestep exec --session s --target t --refused-exit 0 -- x").is_err());
        assert!(parse("surestep exec --session s --target t --turn 0 -- x").is_err());
    }

    #[test]
    fn global_flags_stand_anywhere() {
        let cli = parse("surestep show x --json --store /tmp/s -q").unwrap();
        assert!(cli.global.json && cli.global.quiet && cli.global.store.as_os_str() == "/tmp/s");
    }
}
