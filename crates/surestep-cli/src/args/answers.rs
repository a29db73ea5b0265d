//! The arguments of a person's words: `resolve`, `approve`, `deny`, `cancel`.

use std::time::Duration;

use clap::Args;

use super::exits;
use crate::duration;

/// What names one operation.
const SINGLE: [&str; 2] = ["session", "op"];

/// Arguments of `resolve`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("word").required(true).args(["landed", "not_landed", "skip"]))]
#[command(
    override_usage = "surestep resolve <SESSION> <OP> <ANSWER> --because <TEXT>\n       \
    surestep resolve --all-matching <FILTER>… --count <N> <ANSWER> --because <TEXT>\n\n\
    ANSWER is one of --landed, --not-landed and --skip.",
    after_help = exits::RESOLVE
)]
pub(crate) struct Resolve {
    /// The session
    #[arg(required_unless_present = "all_matching")]
    pub(crate) session: Option<String>,
    /// The operation's number from 1, or the start of its key (4 digits at least)
    #[arg(required_unless_present = "all_matching")]
    pub(crate) op: Option<String>,
    /// It landed: record it as done, never run it again
    #[arg(long)]
    pub(crate) landed: bool,
    /// With --landed: what it left behind, as JSON like `{"ref":"118"}`, or just the text of the ref
    #[arg(long, value_name = "JSON", requires = "landed", conflicts_with_all = ["not_landed", "skip", "all_matching"])]
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
    /// Only say what would happen: nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) matching: Matching,
}

/// Many doubts at once: never without a filter, and never without their number.
#[derive(Debug, Args)]
#[command(next_help_heading = "Many doubts at once")]
#[command(group = clap::ArgGroup::new("filter").multiple(true).args(["glob", "kind", "older_than"]))]
pub(crate) struct Matching {
    /// Answer every open doubt that all the filters match; with --dry-run: list them
    #[arg(long, requires = "filter", conflicts_with_all = SINGLE)]
    pub(crate) all_matching: bool,
    /// Filter: sessions whose id matches; `*` is any text, `?` any character
    #[arg(long = "session", value_name = "GLOB", requires = "all_matching", conflicts_with_all = SINGLE)]
    pub(crate) glob: Option<String>,
    /// Filter: operations of this kind
    #[arg(long, value_name = "KIND", requires = "all_matching", conflicts_with_all = SINGLE)]
    pub(crate) kind: Option<String>,
    /// Filter: attempts begun at least so long ago, like `90s`, `5m`, `2d`
    #[arg(long, value_name = "DURATION", requires = "all_matching", conflicts_with_all = SINGLE, value_parser = duration::parse)]
    pub(crate) older_than: Option<Duration>,
    /// How many there are: anything else than exactly so many is refused
    #[arg(long, value_name = "N", requires = "all_matching", conflicts_with_all = SINGLE)]
    pub(crate) count: Option<usize>,
}

/// Arguments of `approve` and `deny`.
#[derive(Debug, Args)]
#[command(after_help = exits::DECIDE)]
pub(crate) struct Decide {
    /// The session
    pub(crate) session: String,
    /// The operation's number from 1, or the start of its key (4 digits at least)
    pub(crate) op: String,
    /// Why you say so
    #[arg(long, value_name = "TEXT", required = true)]
    pub(crate) because: String,
    /// Only say what would happen: nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
#[command(after_help = exits::CANCEL)]
pub(crate) struct Cancel {
    /// The session
    pub(crate) session: String,
    /// Why you say so
    #[arg(long, value_name = "TEXT", required = true)]
    pub(crate) because: String,
    /// Only say what would happen: nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,
}
