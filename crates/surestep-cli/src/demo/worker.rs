//! The demo's workers: this very program as a child process, killed from outside when something has landed.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use surestep::core::Attempt;
use surestep::{OpNumber, Wall};
use surestep_effects::guard::read_record;

use super::scene::{SESSION, Scene, broken, clean_git};
use crate::fail::Fail;

/// How long anything in the demo may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A worker that runs.
pub(super) struct Worker {
    child: Child,
    talk: PathBuf,
}

/// What was killed, and when.
#[derive(Debug, Clone)]
pub(super) struct Kill {
    pub(super) at: Wall,
    pub(super) guard: bool,
    pub(super) after: &'static str,
}

/// How a worker ended by itself.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) talk: Vec<String>,
}

impl Worker {
    /// Starts `surestep …` on the demo's store.
    pub(super) fn start(scene: &Scene, words: &[&str]) -> Result<Self, Fail> {
        let talk = scene.dir.join("worker.log");
        let refuse = |e: std::io::Error| broken("the demo's worker cannot be started", &e.to_string());
        let log = File::create(&talk).map_err(refuse)?;
        // Through /proc, so that a program replaced while it runs still starts itself.
        let mut command = Command::new("/proc/self/exe");
        clean_git(&mut command).arg("--store").arg(scene.store());
        if scene.volatile.is_some() {
            command.arg("--allow-volatile");
        }
        command.args(words).current_dir(&scene.dir).env("NO_COLOR", "1");
        // Nobody's settings decide what the demonstration shows.
        command.env_remove("SURESTEP_STORE").env("SURESTEP_CONFIG", "/dev/null");
        command.env("XDG_STATE_HOME", scene.state());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::from(log));
        Ok(Self { child: command.spawn().map_err(refuse)?, talk })
    }

    /// Waits until something has landed, then kills the worker with SIGKILL, and its guard too if asked. What landed
    /// is held back meanwhile, so that its outcome cannot have been recorded.
    pub(super) fn kill_after(
        mut self,
        scene: &Scene,
        op: u32,
        what: &'static str,
        guard: bool,
        now: impl Fn() -> Wall,
    ) -> Result<(Kill, Vec<String>), Fail> {
        let start = Instant::now();
        while !scene.has_landed(what) {
            if let Ok(Some(status)) = self.child.try_wait() {
                let talk = fs::read_to_string(&self.talk).unwrap_or_default();
                return Err(broken(&format!("the worker ended too early ({status})"), &talk));
            }
            if start.elapsed() > PATIENCE {
                return Err(broken(&format!("the {what} did not land in time"), &self.said().join("\n")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|e| broken("the worker cannot be killed", &e.to_string()))?;
        if guard {
            kill_guard(scene, op)?;
        }
        let kill = Kill { at: now(), guard, after: what };
        scene.go(what)?;
        Ok((kill, self.said()))
    }

    /// Waits until it ends by itself.
    pub(super) fn wait(self) -> Result<Ended, Fail> {
        let talk = self.talk.clone();
        let output = self.child.wait_with_output();
        let output = output.map_err(|e| broken("the worker cannot be waited for", &e.to_string()))?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Ended { code: output.status.code(), stdout, talk: lines(&talk) })
    }

    fn said(&self) -> Vec<String> {
        lines(&self.talk)
    }
}

fn lines(file: &PathBuf) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The guard's pid stands in its record, beside the lock.
fn kill_guard(scene: &Scene, op: u32) -> Result<(), Fail> {
    let name = surestep::record_name(OpNumber::new(op), Attempt::FIRST);
    let record = scene.store().join("sessions").join(SESSION).join("guards").join(name);
    let refuse = |why: String| broken("the guard cannot be killed", &why);
    let record = read_record(&record).map_err(|e| refuse(e.to_string()))?;
    let pid = Pid::from_raw(record.pid).ok_or_else(|| refuse("its record has no pid".into()))?;
    kill_process(pid, Signal::KILL).map_err(|e| refuse(e.to_string()))
}
