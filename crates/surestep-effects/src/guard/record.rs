//! The record of one attempt on disk: written before the command starts, replaced after the last reap.
//!
//! ```text
//!  (no file) ── before the command ──▶ begun ── after the last reap ──▶ ended{exit, tails}
//! ```
//!
//! A record that stays `begun` only ever denies: it says that the command may have run, and nothing
//! about its end. A pid in it is for people; who asks whether everything is over asks the lock.
//!
//! Format `surestep.guard/1`: one canonical JSON object whose last field, `sum`, is the digest of the rest; readers
//! pass over fields that they do not know.
//! `begun` is not synced: after a power failure the boot id, or a file that cannot be read, says as
//! much. `ended` is synced before it replaces it, since it is evidence.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use surestep::core::json;
use surestep::scrub::Scrubber;

use super::tree::{self, Stat};
use super::wire::Order;
use super::{Exit, Label, Process, Report, at, boot_id};

const FORMAT: &str = "surestep.guard/1";
const BEGUN: &str = "begun";
const ENDED: &str = "ended";

/// What a guard wrote down about one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whose attempt it is.
    pub label: Label,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What names the landing, should the command have exited with 0.
    pub receipt: Option<String>,
    /// The guard's pid, in its own pid namespace.
    pub pid: i32,
    /// The guard's start time, in clock ticks since boot.
    pub start_time: u64,
    /// The boot id of the machine it ran on.
    pub boot: String,
    /// When it began, in milliseconds on CLOCK_BOOTTIME.
    pub since_boot_ms: u64,
    /// The mark in `SURESTEP_GUARD` of everything that the guard started.
    pub mark: String,
    /// How far it came.
    pub state: RecordState,
}

/// How far an attempt came, as far as its guard was able to write it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordState {
    /// The command may have been started, and its end is not known.
    Begun,
    /// The command and everything below it is over.
    Ended {
        /// The end of the command itself.
        exit: Exit,
        /// Whether the guard cut it at its deadline.
        cut: bool,
        /// The end of its standard output.
        stdout: String,
        /// Whether there was more.
        stdout_truncated: bool,
        /// The end of its standard error.
        stderr: String,
        /// Whether there was more.
        stderr_truncated: bool,
        /// When the last descendant was reaped, in milliseconds on CLOCK_BOOTTIME.
        ended_boot_ms: u64,
    },
}

/// Read a guard's record.
///
/// # Errors
/// When the file cannot be read, or is not a record of a known format.
pub fn read_record(path: impl AsRef<Path>) -> io::Result<Record> {
    let path = path.as_ref();
    let text = fs::read(path).map_err(|error| at("reading the record", path, &error))?;
    serde_json::from_slice::<Stored>(&text).map_err(io::Error::from).and_then(Stored::into_record).map_err(
        |error| {
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            at("reading the record", path, &error)
        },
    )
}

impl Record {
    /// Whether something of this attempt is seen alive on this machine.
    ///
    /// True is certain, apart from pid namespaces; false is no proof of an end: other users'
    /// processes do not show their environment. The lock is the proof.
    pub fn still_running(&self) -> bool {
        !self.living().is_empty()
    }

    /// The guard and the processes of this attempt that are seen alive, for a message to people.
    pub fn living(&self) -> Vec<Process> {
        if boot_id().ok().as_deref() != Some(self.boot.as_str()) {
            return Vec::new();
        }
        let guard =
            Stat::of(self.pid).ok().filter(|stat| stat.start_time == self.start_time && stat.is_alive());
        guard.iter().map(Stat::shown).chain(tree::bearing(&self.mark)).collect()
    }
}

/// The file's own shape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    format: String,
    state: String,
    session: String,
    operation: u32,
    key: String,
    attempt: u32,
    epoch: u64,
    pid: i32,
    start_time: u64,
    boot: String,
    since_boot_ms: u64,
    mark: String,
    command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<End>,
}

/// What a record gains at the end.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct End {
    exit: Exit,
    cut: bool,
    stdout: String,
    stdout_truncated: bool,
    stderr: String,
    stderr_truncated: bool,
    ended_boot_ms: u64,
}

impl Stored {
    fn into_record(self) -> io::Result<Record> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        if self.format != FORMAT {
            return Err(invalid(format!("format `{}` is not `{FORMAT}`", self.format)));
        }
        let state = match (self.state.as_str(), self.end) {
            (BEGUN, None) => RecordState::Begun,
            (ENDED, Some(end)) => RecordState::Ended {
                exit: end.exit,
                cut: end.cut,
                stdout: end.stdout,
                stdout_truncated: end.stdout_truncated,
                stderr: end.stderr,
                stderr_truncated: end.stderr_truncated,
                ended_boot_ms: end.ended_boot_ms,
            },
            (state, end) => {
                let with = if end.is_some() { "with" } else { "without" };
                return Err(invalid(format!("state `{state}` {with} an end")));
            }
        };
        Ok(Record {
            label: Label {
                session: self.session,
                operation: self.operation,
                key: self.key,
                attempt: self.attempt,
                epoch: self.epoch,
            },
            command: self.command,
            receipt: self.receipt,
            pid: self.pid,
            start_time: self.start_time,
            boot: self.boot,
            since_boot_ms: self.since_boot_ms,
            mark: self.mark,
            state,
        })
    }
}

/// The guard's own record while it works.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    stored: Stored,
    scrubber: Scrubber,
}

impl Keeper {
    /// Write `begun`. Once this has returned, nobody may take the attempt for one that never ran.
    pub(super) fn begin(
        path: PathBuf,
        order: &Order,
        guard: &super::process::Identity,
    ) -> io::Result<Keeper> {
        let label = &order.label;
        let scrubber = order.scrubber();
        let stored = Stored {
            format: FORMAT.to_owned(),
            state: BEGUN.to_owned(),
            session: label.session.clone(),
            operation: label.operation,
            key: label.key.clone(),
            attempt: label.attempt,
            epoch: label.epoch,
            pid: guard.pid,
            start_time: guard.start_time,
            boot: guard.boot.clone(),
            since_boot_ms: guard.since_boot_ms,
            mark: guard.mark.clone(),
            command: order.run.iter().map(|word| scrubber.text(word).into_owned()).collect(),
            receipt: order.receipt.clone(),
            end: None,
        };
        let keeper = Keeper { path, stored, scrubber };
        keeper.replace(false)?;
        Ok(keeper)
    }

    /// Replace it by `ended`.
    pub(super) fn end(mut self, report: &Report) -> io::Result<()> {
        self.stored.state = ENDED.to_owned();
        self.stored.end = Some(End {
            exit: self.said(&report.exit),
            cut: report.cut,
            stdout: String::from_utf8_lossy(&report.stdout).into_owned(),
            stdout_truncated: report.stdout_truncated,
            stderr: String::from_utf8_lossy(&report.stderr).into_owned(),
            stderr_truncated: report.stderr_truncated,
            ended_boot_ms: report.ended_boot_ms,
        });
        self.replace(true)
    }

    /// The reasons in an end may quote a command line.
    fn said(&self, exit: &Exit) -> Exit {
        match exit {
            Exit::NotStarted(why) => Exit::NotStarted(self.scrubber.text(why).into_owned()),
            Exit::Unknown(why) => Exit::Unknown(self.scrubber.text(why).into_owned()),
            Exit::Code(_) | Exit::Signal(_) => exit.clone(),
        }
    }

    fn replace(&self, sync: bool) -> io::Result<()> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{}.tmp", self.stored.mark));
        let scratch = PathBuf::from(name);
        let replaced = self.write(&scratch, sync).and_then(|()| {
            fs::rename(&scratch, &self.path).map_err(|error| at("replacing the record", &self.path, &error))
        });
        if replaced.is_err() {
            // It may never have been created, or its folder is gone.
            let _ = fs::remove_file(&scratch);
        }
        replaced
    }

    fn write(&self, scratch: &Path, sync: bool) -> io::Result<()> {
        let doing = |error: io::Error| at("writing the record", scratch, &error);
        let text = sealed(&serde_json::to_string(&self.stored)?)?;
        let mut file: File =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(scratch).map_err(doing)?;
        // A umask may have taken the owner's own rights away.
        if file.metadata().map_err(doing)?.permissions().mode() & 0o777 != 0o600 {
            file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(doing)?;
        }
        file.write_all(text.as_bytes()).map_err(doing)?;
        if sync {
            file.sync_data().map_err(doing)?;
        }
        Ok(())
    }
}

/// A record's canonical text with its digest as the last field, as the store's reader asks for.
fn sealed(text: &str) -> io::Result<String> {
    let bare = json::canonical(text, json::DEPTH_FILE_MAX).map_err(io::Error::other)?;
    let sum = surestep::Digest::of(bare.as_bytes());
    Ok(format!("{},\"sum\":\"{sum}\"}}", bare.strip_suffix('}').unwrap_or(&bare)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN_V1: &str = r#"{"format":"surestep.guard/1","state":"begun","session":"s","operation":1,
        "key":"k","attempt":2,"epoch":3,"pid":4,"start_time":5,"boot":"b","since_boot_ms":6,
        "mark":"4-5-6","command":["true"],"of_a_later_version":{"x":1}}"#;

    fn parse(text: &str) -> io::Result<Record> {
        serde_json::from_str::<Stored>(text).map_err(io::Error::from).and_then(Stored::into_record)
    }

    #[test]
    fn unknown_fields_are_passed_over() {
        let record = parse(BEGUN_V1).unwrap();
        assert_eq!(record.state, RecordState::Begun);
        assert_eq!((record.label.epoch, record.mark.as_str()), (3, "4-5-6"));
        assert!(!record.still_running(), "another boot has no living processes");
    }

    #[test]
    fn another_format_and_a_state_that_contradicts_itself_are_refused() {
        assert!(parse(&BEGUN_V1.replace("guard/1", "guard/2")).is_err());
        assert!(parse(&BEGUN_V1.replace("begun", "ended")).is_err());
        assert!(parse(&BEGUN_V1.replace("begun", "paused")).is_err());
    }
}
