//! What every command works with: the streams, the store, the engine, and how to name a command to type next.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use surestep::{Builder, Engine, Kind, MemoryStore, SessionId, StoreError, Tuning, Wall, exit};
use surestep_effects::{CommandSecrets, EnvSecrets, FileSecrets};
use surestep_file::{FileStore, Options};

use crate::args::Global;
use crate::config::{Config, Found, Secrets};
use crate::fail::Fail;
use crate::fails;
use crate::out::Out;
use crate::progress::{self, Progress};
use crate::stop::Stop;
use crate::text;

/// The environment of one command.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) out: Out,
    pub(crate) store: PathBuf,
    /// The options that a command of this command line must repeat to mean the same.
    pub(crate) named: Vec<String>,
    pub(crate) allow_volatile: bool,
    pub(crate) config: Arc<Config>,
    pub(crate) lag_ms: Option<u64>,
    pub(crate) stop: Stop,
    /// The command line as it was typed, for "again".
    pub(crate) again: String,
    /// The store that was opened first, to say what went wrong with its high-water marks.
    pub(crate) opened: Arc<OnceLock<FileStore>>,
    /// Where the marks are kept, if not in the user's state folder.
    pub(crate) marks: Option<PathBuf>,
}

/// Whether a command may make the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// Makes it where it is not there.
    Create,
    /// It must be there.
    MustExist,
    /// It must be there, and nothing in it is made or changed.
    Read,
}

/// Options whose value a person chose.
const VALUED: [&str; 3] = ["--session", "--target", "--check"];

/// Commands whose first argument is a session.
const SESSION_FIRST: [&str; 9] =
    ["resume", "show", "log", "explain", "resolve", "approve", "deny", "cancel", "export"];

/// The store, where nothing names another one.
const STORE_DEFAULT: &str = ".surestep";

impl Context {
    pub(crate) fn new(global: &Global, config: Config, out: Out, stop: Stop) -> Self {
        let given = global.store.as_deref().filter(|path| !path.as_os_str().is_empty());
        let fallback = config.store.as_deref().unwrap_or(Path::new(STORE_DEFAULT));
        let store = given.unwrap_or(fallback).to_owned();
        let mut named = Vec::new();
        if let Some((path, Found::Option)) = &config.file {
            named.extend(["--config".to_owned(), path.to_string_lossy().into_owned()]);
        }
        if store != fallback && std::env::var_os("SURESTEP_STORE").is_none_or(|s| s != *store) {
            named.extend(["--store".to_owned(), store.to_string_lossy().into_owned()]);
        }
        if global.allow_volatile {
            named.push("--allow-volatile".into());
        }
        let marks = config.state_dir.clone();
        Self {
            out,
            store,
            named,
            allow_volatile: global.allow_volatile || config.allow_volatile,
            config: Arc::new(config),
            lag_ms: global.lag_ms,
            stop,
            marks,
            opened: Arc::default(),
            again: again(),
        }
    }

    /// The same command line on another store, with the default settings: for the demonstration.
    pub(crate) fn on_store(&self, store: PathBuf, allow_volatile: bool, marks: PathBuf) -> Self {
        let mut named = vec!["--store".to_owned(), store.to_string_lossy().into_owned()];
        if allow_volatile {
            named.push("--allow-volatile".into());
        }
        let marks = Some(marks);
        Self { store, named, allow_volatile, config: Arc::default(), marks, ..self.clone() }
    }

    /// A surestep command on this store, ready to be pasted.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        self.line(words, None)
    }

    /// As [`Context::command`], with an argument that the person must fill in.
    pub(crate) fn command_because(&self, words: &[&str]) -> String {
        self.line(words, Some("--because '…'"))
    }

    /// The command that was typed, with one more option.
    pub(crate) fn again_with(&self, option: &str) -> String {
        match self.again.split_once(" -- ") {
            Some((before, after)) => format!("{before} {option} -- {after}"),
            None => format!("{} {option}", self.again),
        }
    }

    /// The words of a command. What a person named and begins like an option goes behind `--`, or, where it is an
    /// option's value, behind `=`.
    fn line(&self, words: &[&str], last: Option<&str>) -> String {
        let mut all: Vec<String> = std::iter::once("surestep".to_owned()).chain(self.named.clone()).collect();
        let mut behind = Vec::new();
        let named_first = words.first().is_some_and(|verb| SESSION_FIRST.contains(verb));
        let mut words = words.iter().copied().enumerate().peekable();
        while let Some((n, word)) = words.next() {
            match words.peek() {
                Some((_, value)) if VALUED.contains(&word) && value.starts_with('-') => {
                    all.push(format!("{word}={value}"));
                    words.next();
                }
                // The word after these commands' names is a session; only `resume` may have none.
                _ if n == 1 && named_first && word.starts_with('-') && word != "--all" => {
                    behind.push(word.to_owned());
                    behind.extend(words.next_if(|(_, op)| !op.starts_with('-')).map(|(_, op)| op.to_owned()));
                }
                Some(_) | None => all.push(word.to_owned()),
            }
        }
        let mut text = all.iter().map(|word| text::word(word)).collect::<Vec<_>>().join(" ");
        text.extend(last.into_iter().flat_map(|last| [" ", last]));
        if !behind.is_empty() {
            text.push_str(" --");
            text.extend(behind.iter().flat_map(|word| [" ".to_owned(), text::word(word)]));
        }
        text
    }

    /// The engine on this store, for what comes from outside: only these kinds may run.
    pub(crate) fn engine_from_outside(&self, store: Store, allow: Vec<Kind>) -> Result<Engine, Fail> {
        Self::built(self.builder_on(store, None)?.from_outside(allow))
    }

    /// The engine on this store, with every built-in kind.
    pub(crate) fn engine(&self, store: Store, progress: Option<Arc<Progress>>) -> Result<Engine, Fail> {
        Self::built(self.builder_on(store, progress)?)
    }

    /// What [`Context::looking`] gives, for what comes from outside.
    pub(crate) fn looking_from_outside(&self, allow: Vec<Kind>) -> Result<(Engine, bool), Fail> {
        let (builder, makes_store) = self.looking_on()?;
        Ok((Self::built(builder.from_outside(allow))?, makes_store))
    }

    /// An engine that only looks, and whether the store would have to be made: then it works on an empty one in memory.
    pub(crate) fn looking(&self) -> Result<(Engine, bool), Fail> {
        let (builder, makes_store) = self.looking_on()?;
        Ok((Self::built(builder)?, makes_store))
    }

    fn looking_on(&self) -> Result<(Builder, bool), Fail> {
        match self.options().read_only(true).open(&self.store) {
            Ok(store) => Ok((self.kinds_on(Engine::builder(store), None), false)),
            Err(StoreError::Absent { .. }) => {
                Ok((self.kinds_on(Engine::builder(MemoryStore::new()), None), true))
            }
            Err(e) => Err(self.store_fail(&e)),
        }
    }

    fn built(builder: Builder) -> Result<Engine, Fail> {
        builder.build().map_err(|e| Fail::new("SE0001", exit::UNEXPECTED, format!("BUG: {e}")))
    }

    fn builder_on(&self, store: Store, progress: Option<Arc<Progress>>) -> Result<Builder, Fail> {
        let options = self.options().create(store == Store::Create).read_only(store == Store::Read);
        let builder = self.kinds_on(Engine::builder(self.open(options)?), progress);
        // Who only reads has nothing to wait for: a signal ends it at once.
        Ok(if store == Store::Read { builder } else { builder.stop(self.stop.flag()) })
    }

    /// How this command opens its store.
    pub(crate) fn options(&self) -> Options {
        let options = Options::default().allow_volatile(self.allow_volatile);
        if self.marks.is_some() { options.marks(self.marks.clone()) } else { options }
    }

    /// Opens the store.
    pub(crate) fn open(&self, options: Options) -> Result<FileStore, Fail> {
        let opened = options.open(&self.store).map_err(|e| self.store_fail(&e))?;
        let _ = self.opened.set(opened.clone());
        Ok(opened)
    }

    /// Says once, at the end, that a store put back to an older copy would not be noticed.
    pub(crate) fn say_marks_problem(&self) {
        if let Some(why) = self.opened.get().and_then(FileStore::marks_problem) {
            self.out.note(&format!(
                "surestep: a store put back to an older copy would not be noticed: {}",
                text::line(why)
            ));
        }
    }

    /// The engine on a store, with every built-in kind.
    pub(crate) fn engine_over(
        &self,
        opened: FileStore,
        progress: Option<Arc<Progress>>,
    ) -> Result<Engine, Fail> {
        Self::built(self.kinds_on(Engine::builder(opened), progress))
    }

    fn kinds_on(&self, builder: Builder, progress: Option<Arc<Progress>>) -> Builder {
        let builder = builder.owner(owner());
        let mut builder = match &self.config.secrets {
            Secrets::Env { prefix } => builder.secrets(EnvSecrets::new(prefix.as_str())),
            Secrets::File { dir } => builder.secrets(FileSecrets::new(dir)),
            Secrets::Command { command } => builder.secrets(CommandSecrets::new(command.iter().cloned())),
        };
        let hidden = match &self.config.secrets {
            Secrets::Env { prefix } => prefix.as_str(),
            Secrets::File { .. } | Secrets::Command { .. } => "",
        };
        for (effect, recovery) in crate::kinds::builtin(&self.store, hidden) {
            let (effect, recovery) = match &progress {
                Some(progress) => progress::watch(effect, recovery, progress),
                None => (effect, recovery),
            };
            builder = builder.register(effect, recovery);
        }
        for (kind, tuning) in self.config.tuning(self.lag_ms) {
            builder = builder.tune(kind, tuning);
        }
        if let Some(lag_ms) = self.lag_ms {
            builder = builder.tune_all(Tuning { lag_ms: Some(lag_ms), ..Tuning::default() });
        }
        builder
    }

    pub(crate) fn store_fail(&self, error: &StoreError) -> Fail {
        if !matches!(error, StoreError::Absent { .. }) {
            return fails::of_store(self, error, None);
        }
        let shown = text::tick(&self.store.to_string_lossy());
        Fail::new("SE0109", exit::NO_SUCH, format!("there is no store at {shown}"))
            .why("a store is made by the first `surestep run`; `--store` or `SURESTEP_STORE` names another one")
            .state("nothing was read or made")
            .next_if("surestep --store PATH list", "if the store is elsewhere")
            .next_if("surestep demo", "to see one at work")
    }

    /// A session id from the command line.
    pub(crate) fn session(&self, given: &str) -> Result<SessionId, Fail> {
        SessionId::new(given).map_err(|e| {
            Fail::usage("SE0101", format!("{} is no session id: {e}", text::tick(given)))
                .state("nothing was read or started")
                .next(self.command(&["list"]))
        })
    }
}

/// The command line as it was typed.
pub(crate) fn again() -> String {
    let typed: Vec<String> = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    text::command(std::iter::once("surestep").chain(typed.iter().map(String::as_str)))
}

/// The wall clock, for people.
pub(crate) fn wall(engine: &Engine) -> Wall {
    engine.now().wall
}

/// `user@host`: who a person is, for the journal.
pub(crate) fn actor() -> String {
    let env = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let user = env("USER")
        .or_else(|| env("LOGNAME"))
        .unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
    format!("{user}@{}", host())
}

fn owner() -> String {
    format!("{} pid {}", host(), std::process::id())
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
