//! Putting an engine together: a store, effects with their recoveries, a clock.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use surestep_core::Kind;

use crate::clock::{Clock, SystemClock};
use crate::effect::{Effect, Recovery};
use crate::engine::Engine;
use crate::registry::{Registry, Tuning};
use crate::secret::{NoSecrets, SecretSource};
use crate::store::Store;

/// Puts an engine together.
pub struct Builder {
    store: Arc<dyn Store>,
    registry: Registry,
    clock: Arc<dyn Clock>,
    owner: String,
    dir: Option<String>,
    stop: Arc<AtomicBool>,
    allow: Option<Vec<Kind>>,
    secrets: Arc<dyn SecretSource>,
    twice: Option<Kind>,
}

/// Why an engine cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A kind was registered twice.
    #[error("the kind `{kind}` is registered twice")]
    Twice {
        /// The kind.
        kind: Kind,
    },
}

impl Engine {
    /// Starts to put an engine together.
    pub fn builder(store: impl Store) -> Builder {
        Self::builder_of(Arc::new(store))
    }

    /// As [`Engine::builder`], for a store that is shared.
    pub fn builder_of(store: Arc<dyn Store>) -> Builder {
        Builder {
            store,
            registry: Registry::default(),
            clock: Arc::new(SystemClock::new()),
            owner: format!("pid {}", std::process::id()),
            dir: None,
            stop: Arc::default(),
            allow: None,
            secrets: Arc::new(NoSecrets),
            twice: None,
        }
    }
}

impl Builder {
    /// Registers a kind of effect; how doubt about it ends is part of that.
    #[must_use]
    pub fn effect(self, effect: impl Effect, recovery: Recovery) -> Self {
        self.register(Arc::new(effect), recovery)
    }

    /// As [`Builder::effect`], for an effect that is shared.
    #[must_use]
    pub fn register(mut self, effect: Arc<dyn Effect>, recovery: Recovery) -> Self {
        self.twice = self.registry.add(effect, recovery).err().or(self.twice);
        self
    }

    /// Changes a kind's terms by configuration.
    #[must_use]
    pub fn tune(mut self, kind: Kind, tuning: Tuning) -> Self {
        self.registry.tune(Some(kind), tuning);
        self
    }

    /// Changes the terms of all kinds that have no tuning of their own.
    #[must_use]
    pub fn tune_all(mut self, tuning: Tuning) -> Self {
        self.registry.tune(None, tuning);
        self
    }

    /// Uses another clock than the system's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Labels the owner, for people; default: the process id.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// The folder against which relative paths in bodies of new plans are read; default: the process's own, as it is
    /// when the plan is bound.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<String>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// A flag that asks the engine to start nothing more: once it is true, what runs is settled, no further intent is
    /// published, the session is let go, and the step rests with [`Rest::Until`](surestep_core::Rest). Default: a flag that nobody sets.
    #[must_use]
    pub fn stop(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Takes plans and envelopes from outside, where a stranger may have made them: only these kinds may run, and the
    /// journal keeps that for every later step of the turn. Default: the caller's own plans, every registered kind.
    #[must_use]
    pub fn from_outside(mut self, allow: impl IntoIterator<Item = Kind>) -> Self {
        self.allow = Some(allow.into_iter().collect());
        self
    }

    /// Where the secrets come from that bodies refer to. Default: nowhere, and an operation that refers to one waits.
    #[must_use]
    pub fn secrets(mut self, source: impl SecretSource) -> Self {
        self.secrets = Arc::new(source);
        self
    }

    /// The engine.
    ///
    /// # Errors
    /// When a kind was registered twice.
    pub fn build(self) -> Result<Engine, BuildError> {
        match self.twice {
            Some(kind) => Err(BuildError::Twice { kind }),
            None => Ok(Engine {
                store: self.store,
                registry: Arc::new(self.registry),
                clock: self.clock,
                owner: self.owner,
                stop: self.stop,
                allow: self.allow,
                secrets: self.secrets,
                dir: self.dir.or_else(|| Some(std::env::current_dir().ok()?.to_str()?.to_owned())),
            }),
        }
    }
}
