//! What every command works with: the streams, the store, the engine, and how to name a command to type next.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use surestep::{Builder, Engine, Kind, SessionId, StoreError, Tuning, Wall, exit};
use surestep_file::{FileStore, Options};

use crate::args::Global;
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
    pub(crate) allow_volatile: bool,
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
    Create,
    MustExist,
}

impl Context {
    pub(crate) fn new(global: &Global, out: Out, stop: Stop) -> Self {
        let typed: Vec<String> = std::env::args().skip(1).collect();
        Self {
            out,
            store: if global.store.as_os_str().is_empty() {
                ".surestep".into()
            } else {
                global.store.clone()
            },
            allow_volatile: global.allow_volatile,
            lag_ms: global.lag_ms,
            stop,
            again: text::command(std::iter::once("surestep").chain(typed.iter().map(String::as_str))),
            opened: Arc::default(),
            marks: None,
        }
    }

    /// A surestep command on this store, ready to be pasted.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        let store = self.store.to_string_lossy();
        let known =
            store == ".surestep" || std::env::var_os("SURESTEP_STORE").is_some_and(|s| s == *self.store);
        let mut all = vec!["surestep"];
        if !known {
            all.extend(["--store", &store]);
        }
        if self.allow_volatile {
            all.push("--allow-volatile");
        }
        let all: Vec<String> = all.into_iter().chain(words.iter().copied()).map(text::word).collect();
        all.join(" ")
    }

    /// As [`Context::command`], with an argument that the person must fill in.
    pub(crate) fn command_because(&self, words: &[&str]) -> String {
        format!("{} --because '…'", self.command(words))
    }

    /// The engine on this store, for what comes from outside: only these kinds may run.
    pub(crate) fn engine_from_outside(&self, store: Store, allow: Vec<Kind>) -> Result<Engine, Fail> {
        Self::built(self.builder_on(store, None)?.from_outside(allow))
    }

    /// The engine on this store, with every built-in kind.
    pub(crate) fn engine(&self, store: Store, progress: Option<Arc<Progress>>) -> Result<Engine, Fail> {
        Self::built(self.builder_on(store, progress)?)
    }

    fn built(builder: Builder) -> Result<Engine, Fail> {
        builder.build().map_err(|e| Fail::new("SE0001", exit::UNEXPECTED, format!("BUG: {e}")))
    }

    fn builder_on(&self, store: Store, progress: Option<Arc<Progress>>) -> Result<Builder, Fail> {
        let opened = self.open(self.options().create(store == Store::Create))?;
        Ok(self.builder(opened, progress))
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
        Self::built(self.builder(opened, progress))
    }

    fn builder(&self, opened: FileStore, progress: Option<Arc<Progress>>) -> Builder {
        let mut builder = Engine::builder(opened).stop(self.stop.flag()).owner(owner());
        for (effect, recovery) in crate::kinds::builtin() {
            let (effect, recovery) = match &progress {
                Some(progress) => progress::watch(effect, recovery, progress),
                None => (effect, recovery),
            };
            builder = builder.register(effect, recovery);
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
