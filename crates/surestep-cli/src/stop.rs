//! Signals: the first SIGINT or SIGTERM asks to start nothing more, the second is a kill.
//!
//! The guard runs in its own process group, so that a terminal's Ctrl-C reaches no effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::out::Out;

/// How long one look at the flag is apart from the next.
const POLL: Duration = Duration::from_millis(50);

/// Whether somebody asked to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    /// An engine may be at work: before that a signal has nothing to wait for, and kills at once.
    at_work: Arc<AtomicBool>,
    /// Nothing runs here: a request to stop needs no words.
    only_looks: Arc<AtomicBool>,
}

impl Stop {
    /// Takes over the process's signals.
    pub(crate) fn install(out: Out) -> Self {
        let stop = Self::default();
        let Self { asked, at_work, only_looks } = stop.clone();
        // SIGHUP keeps its meaning: `nohup` goes on, a closed terminal kills. Without a handler the others kill at
        // once, which is as safe, only ruder.
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return stop };
        let listen = move || {
            for signal in signals.forever() {
                if asked.swap(true, Ordering::Relaxed) || !at_work.load(Ordering::Relaxed) {
                    // As a kill: nothing is tidied up, and nothing needs to be.
                    std::process::exit(128 + signal);
                }
                if only_looks.load(Ordering::Relaxed) {
                    continue;
                }
                out.say(
                    "surestep: stopping: nothing more is started; waiting for what runs (again: die at once)",
                );
            }
        };
        drop(std::thread::Builder::new().name("surestep-signals".into()).spawn(listen));
        stop
    }

    /// The flag for an engine, which may be at work from now on.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.at_work.store(true, Ordering::Relaxed);
        self.asked.clone()
    }

    /// From now on the first signal is only noted: for who looks on, and ends in good order.
    pub(crate) fn looks_on(&self) {
        self.only_looks.store(true, Ordering::Relaxed);
        self.at_work.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Sleeps, or less if somebody asks to stop.
    pub(crate) async fn sleep_until(&self, end: Instant) {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_set() {
                return;
            }
            tokio::time::sleep(left.min(POLL)).await;
        }
    }
}
