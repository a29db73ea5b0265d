//! What this machine says of itself and of its processes: for people, and to tell one boot from another.

use std::path::{Path, PathBuf};

use surestep::Digest;

use crate::disk::Disk as _;
use crate::real::{RealDisk, read_whole};

/// The boot's id; empty where the system has none.
pub(crate) fn boot_id() -> String {
    line("/proc/sys/kernel/random/boot_id")
}

/// A hash of this machine and a store; empty where the machine is not known.
pub(crate) fn machine(store: &str) -> String {
    let id = line("/etc/machine-id");
    let id = if id.is_empty() { line("/var/lib/dbus/machine-id") } else { id };
    if id.is_empty() || id == "uninitialized" {
        return String::new();
    }
    Digest::of(format!("{id}\n{store}").as_bytes()).hex()
}

/// When a process started, in clock ticks since boot; `None` when it is not there.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = text(&proc_file(pid, "stat"));
    // The command's name stands in parentheses and may hold anything, parentheses included.
    let fields = stat.rsplit_once(')')?.1;
    let alive = !matches!(fields.split_whitespace().next(), Some("Z" | "X") | None);
    if alive { fields.split_whitespace().nth(19)?.parse().ok() } else { None }
}

/// A process's command line.
pub(crate) fn command(pid: u32) -> Vec<String> {
    text(&proc_file(pid, "cmdline")).split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The living processes in whose environment a variable's comma-separated list holds a word.
pub(crate) fn bearing(variable: &str, word: &str) -> Vec<(u32, Vec<String>)> {
    let bears = |pid: u32| {
        text(&proc_file(pid, "environ"))
            .split('\0')
            .filter_map(|pair| pair.strip_prefix(variable)?.strip_prefix('='))
            .any(|value| value.split(',').any(|part| part == word))
    };
    let names = RealDisk.list(Path::new("/proc")).unwrap_or_default();
    let pids = names.iter().filter_map(|name| name.to_str()?.parse::<u32>().ok());
    pids.filter(|pid| start_time(*pid).is_some() && bears(*pid)).map(|pid| (pid, command(pid))).collect()
}

/// A command line as a message shows it: in one line, not too long.
pub(crate) fn shown(command: &[String]) -> String {
    let line: String = command.join(" ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(120) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

fn proc_file(pid: u32, name: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(name)
}

fn line(path: &str) -> String {
    text(Path::new(path)).trim().to_owned()
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&read_whole(path).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_alive_and_the_boot_has_a_name() {
        assert!(start_time(std::process::id()).is_some());
        assert!(start_time(u32::MAX).is_none());
        assert!(!command(std::process::id()).is_empty());
        assert_eq!(boot_id().len(), 36);
        assert!(machine("a").is_empty() || machine("a") != machine("b"));
    }
}
