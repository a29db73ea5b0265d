//! Finding the guard's descendants in `/proc`, and killing them.
//!
//! A scan is a snapshot with holes: it finds whom to kill, and it never decides that nobody is left.
//! That is decided by `wait` alone: whoever loses its parent becomes the subreaper's child, so the
//! guard has no descendants exactly when it has no children (ECHILD). Double forks, setsid and
//! closed descriptors change nothing about this.
//!
//! A pid may be reused at any time; a process is a pid *and* its start time, and a signal goes
//! through a pidfd whose process was checked after it was opened.

use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use super::at;

/// The longest command line shown to people, in characters.
const COMMAND_CHARS_MAX: usize = 200;

/// The variable that carries the marks of the guards above a process, outermost first.
pub(super) const MARK_VARIABLE: &str = "SURESTEP_GUARD";

/// A living process, as people want to see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid in this pid namespace.
    pub pid: i32,
    /// Its command line, shortened to 200 characters.
    pub command: String,
}

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: i32,
    name: String,
    state: char,
    parent: i32,
    group: i32,
    threads: u64,
    /// In clock ticks since boot.
    pub(super) start_time: u64,
}

impl Stat {
    pub(super) fn of(pid: i32) -> io::Result<Stat> {
        Stat::read(Path::new(&format!("/proc/{pid}/stat")))
    }

    pub(super) fn of_self() -> io::Result<Stat> {
        Stat::read(Path::new("/proc/self/stat"))
    }

    fn read(path: &Path) -> io::Result<Stat> {
        let bytes = fs::read(path).map_err(|error| at("reading", path, &error))?;
        Stat::parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::InvalidData, "not in the known format");
            at("reading", path, &error)
        })
    }

    /// The name is in brackets and may itself hold brackets and blanks: the last one counts.
    fn parse(text: &str) -> Option<Stat> {
        let (head, tail) = text.rsplit_once(')')?;
        let (pid, name) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        Some(Stat {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it runs, or could. A dead leader whose other threads go on is alive.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }

    pub(super) fn shown(&self) -> Process {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let line = line.trim_end();
        let command = if line.is_empty() {
            format!("[{}]", self.name)
        } else {
            line.chars().take(COMMAND_CHARS_MAX).collect()
        };
        Process { pid: self.pid, command }
    }
}

/// Everybody whom `/proc` shows; who vanishes meanwhile is left out.
fn everybody() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Stat::of(pid).ok())
        .collect()
}

/// The descendants of `root` by the chain of parents, nearest first, without `root` itself.
pub(super) fn descendants(root: i32) -> Vec<Stat> {
    below(root, everybody())
}

fn below(root: i32, everybody: Vec<Stat>) -> Vec<Stat> {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for stat in everybody {
        children.entry(stat.parent).or_default().push(stat);
    }
    // Each list of children is taken out, so that a torn snapshot with a cycle still ends.
    let mut found = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next).map(|stat| stat.pid) {
        found.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// Kill everybody below `root` whom one scan finds, first the `group` at once if it still has a
/// member of ours. Returns whether some kill was refused.
pub(super) fn kill_below(root: i32, group: i32) -> bool {
    let found = descendants(root);
    // With a member the group's number cannot have been given away.
    if found.iter().any(|stat| stat.group == group)
        && let Some(group) = Pid::from_raw(group)
    {
        // What this misses or is refused, the pidfds below find.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    found.iter().map(kill).filter(|killed| *killed == Err(Errno::PERM)).count() > 0
}

fn kill(stat: &Stat) -> Result<(), Errno> {
    let Some(pid) = Pid::from_raw(stat.pid) else { return Ok(()) };
    let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Some(pidfd),
        Err(Errno::SRCH) => return Ok(()),
        // Old kernels and strict sandboxes have no pidfds: the check alone must do.
        Err(_) => None,
    };
    match Stat::of(stat.pid) {
        Ok(now) if now.start_time == stat.start_time => {}
        Ok(_) | Err(_) => return Ok(()),
    }
    let sent = match pidfd {
        Some(pidfd) => rustix::process::pidfd_send_signal(pidfd, Signal::KILL),
        None => rustix::process::kill_process(pid, Signal::KILL),
    };
    match sent {
        Err(Errno::SRCH) => Ok(()),
        other => other,
    }
}

/// Who below `root` is still alive.
pub(super) fn living_below(root: i32) -> Vec<Process> {
    descendants(root).iter().filter(|stat| stat.is_alive()).map(Stat::shown).collect()
}

/// Who has this guard's mark in its environment. Other users' processes do not show theirs.
pub(super) fn bearing(mark: &str) -> Vec<Process> {
    everybody().iter().filter(|stat| stat.is_alive() && bears(stat.pid, mark)).map(Stat::shown).collect()
}

fn bears(pid: i32, mark: &str) -> bool {
    let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environ.split(|byte| *byte == 0).any(|variable| {
        std::str::from_utf8(variable)
            .ok()
            .and_then(|variable| variable.split_once('='))
            .is_some_and(|(name, marks)| name == MARK_VARIABLE && marks.split(',').any(|each| each == mark))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, parent: i32) -> Stat {
        let text = format!("{pid} (a) b (c)) S {parent} 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0");
        Stat::parse(&text).unwrap()
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = stat(12, 3);
        assert_eq!((stat.pid, stat.parent, stat.group, stat.start_time), (12, 3, 7, 99));
        assert_eq!(stat.name, "a) b (c)");
        assert!(stat.is_alive());
    }

    #[test]
    fn descendants_are_found_through_every_generation_and_no_others() {
        let found = below(1, vec![stat(4, 3), stat(3, 2), stat(2, 1), stat(9, 8), stat(8, 0)]);
        assert_eq!(found.iter().map(|stat| stat.pid).collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn a_torn_snapshot_with_a_cycle_ends() {
        let found = below(1, vec![stat(2, 1), stat(3, 2), stat(2, 3)]);
        assert_eq!(found.len(), 3);
    }
}
