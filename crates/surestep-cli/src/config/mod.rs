//! `surestep.toml`: what an operator fixes for a store, once, for every command.
//!
//! What holds: a file is taken whole or not at all; an unknown key, a wrong type and a wrong value are refused with file
//! and line, at every level; nothing in it is a secret, it only says where secrets come from. A command line option beats
//! an environment variable, which beats the file. Where the file is looked for stands in `find`, how it is read in `read`;
//! the keys for people stand on the page of SE0121.

mod find;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;
use surestep::core::limits::LAG_MAX_MS;
use surestep::{Approval, Kind, Tuning};

use crate::fail::Fail;

/// How long a finished session is kept before `gc` may remove it: 30 days, in milliseconds.
pub(crate) const RETENTION_DEFAULT_MS: u64 = 30 * 24 * 3_600_000;
/// What stands before a secret's name in the environment, where nothing else is configured.
pub(crate) const SECRET_PREFIX_DEFAULT: &str = "SURESTEP_SECRET_";

/// The settings of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// The file that they come from, and how it was found.
    pub(crate) file: Option<(PathBuf, Found)>,
    /// The store's folder. Default: `.surestep` in the current folder.
    pub(crate) store: Option<PathBuf>,
    /// Accept a file system that does not keep what it acknowledges. Default: no.
    pub(crate) allow_volatile: bool,
    /// How long a finished session is kept, in milliseconds. Default: [`RETENTION_DEFAULT_MS`].
    pub(crate) retention_ms: u64,
    /// The folder of the high-water marks. Default: see [`Config::state_dir`].
    pub(crate) state_dir: Option<PathBuf>,
    /// Kinds that may come from outside: `step -`, `import`, relays. Default: none.
    pub(crate) allow: BTreeSet<Kind>,
    /// Kinds whose operations need a person's yes, whatever their plan says. Default: none.
    pub(crate) approval: BTreeSet<Kind>,
    /// Terms of single kinds.
    pub(crate) kinds: BTreeMap<Kind, KindTerms>,
    /// Where secrets come from. Default: the environment, with [`SECRET_PREFIX_DEFAULT`].
    pub(crate) secrets: Secrets,
}

/// How a file was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Found {
    /// `--config` named it.
    Option,
    /// `SURESTEP_CONFIG` named it.
    Environment,
    /// It stands in the current folder or above it.
    Folder,
}

/// What may be changed of a kind's terms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct KindTerms {
    /// How long a landing may stay invisible, in milliseconds; without effect on what is local.
    pub(crate) lag_ms: Option<u64>,
    /// Time for one attempt, in milliseconds.
    pub(crate) deadline_ms: Option<u64>,
    /// Refusals before an operation fails.
    pub(crate) attempts: Option<u32>,
}

/// Where secrets come from. Never a secret itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Secrets {
    /// The variable `PREFIX` + `NAME`.
    Env {
        /// What stands before the name.
        prefix: String,
    },
    /// The file `NAME` in a folder.
    File {
        /// The folder.
        dir: PathBuf,
    },
    /// What a command prints; the name is its last argument.
    Command {
        /// The program and its first arguments.
        command: Vec<String>,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            store: None,
            allow_volatile: false,
            retention_ms: RETENTION_DEFAULT_MS,
            state_dir: None,
            allow: BTreeSet::new(),
            approval: BTreeSet::new(),
            kinds: BTreeMap::new(),
            secrets: Secrets::Env { prefix: SECRET_PREFIX_DEFAULT.into() },
        }
    }
}

impl Config {
    /// Finds and reads the file; without one: the defaults. `again` is the command to type once it is corrected.
    ///
    /// # Errors
    /// SE0120 where it cannot be read, SE0121 for an unknown key, SE0122 for a wrong value. Nothing was started.
    pub(crate) fn load(given: Option<&std::path::Path>, again: &str) -> Result<Self, Fail> {
        let Some((path, found)) = find::find(given, again)? else { return Ok(Self::default()) };
        let text = find::text(&path, found, again)?;
        let dir = std::path::absolute(&path).ok().and_then(|p| p.parent().map(PathBuf::from));
        let config = read::read(&text, &dir.unwrap_or_default(), &crate::kinds::names());
        match config {
            Ok(config) => Ok(Self { file: Some((path, found)), ..config }),
            Err(problems) => Err(read::fail(&path, &problems, again)),
        }
    }

    /// The folder of the high-water marks: as configured, else `$XDG_STATE_HOME/surestep`, else
    /// `~/.local/state/surestep`; `None` where no home is known.
    pub(crate) fn state_dir(&self) -> Option<PathBuf> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        self.state_dir
            .clone()
            .or_else(|| absolute("XDG_STATE_HOME").map(|dir| dir.join("surestep")))
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state/surestep")))
    }

    /// The kinds whose terms it changes, each with what it changes; `lag_ms` is laid over all of them.
    pub(crate) fn tuning(&self, lag_ms: Option<u64>) -> Vec<(Kind, Tuning)> {
        let kinds: BTreeSet<&Kind> = self.kinds.keys().chain(&self.approval).collect();
        let tuned = kinds.into_iter().map(|kind| {
            let terms = self.kinds.get(kind).copied().unwrap_or_default();
            let tuning = Tuning {
                lag_ms: lag_ms.or(terms.lag_ms).map(|ms| ms.min(LAG_MAX_MS)),
                deadline_ms: terms.deadline_ms,
                attempts_max: terms.attempts,
                approval: self.approval.contains(kind).then_some(Approval::Required),
            };
            (kind.clone(), tuning)
        });
        tuned.collect()
    }
}
