//! The guards' records: which commands run, or ran, under this session's lock.
//!
//! A guard writes its record as `begun` before its command starts, and as `ended` after the last process below it is
//! reaped. The store only reads them. They never break a lock and never prove a landing absent: a record that is
//! begun, or that cannot be read, can only *deny* the proof of death; one that is ended answers a doubt.

use std::ffi::OsStr;
use std::path::Path;

use serde::Deserialize;
use surestep::core::{Attempt, json};
use surestep::{
    Entry, Epoch, Evidence, Fault, Key, Mark, OpNumber, Outcome, Raw, Receipt, Revision, SessionId,
    StoreError,
};

use crate::disk::Disk;
use crate::fault::{corrupt, found, io};
use crate::layout::Place;
use crate::{host, journal, sealed};

/// How much of a command's output is kept with what it says, in bytes.
const TAIL_BYTES_MAX: usize = 2 << 10;
const FAMILY: &str = "surestep.guard/";

/// A record (`surestep.guard/1`), as far as it is needed here: fields that are not known are left alone.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Record {
    state: State,
    session: String,
    operation: OpNumber,
    key: Key,
    attempt: Attempt,
    epoch: Epoch,
    pid: u32,
    start_time: u64,
    boot: String,
    command: Vec<String>,
    /// What stands in the environment of all that the guard started.
    #[serde(default)]
    mark: String,
    /// What a landing is called, where it is not the key (`git.push`: the commit id).
    #[serde(default)]
    receipt: Option<String>,
    #[serde(default)]
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum State {
    Begun,
    Ended,
}

/// What a record gains after the last reap.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct End {
    exit: Exit,
    cut: bool,
    stdout: String,
    stderr: String,
    ended_boot_ms: u64,
}

/// How a command ended.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Exit {
    Code(i64),
    Signal(i64),
    NotStarted(String),
    Unknown(String),
}

/// A record's file: what its name says, and what stands in it, if that can be read.
pub(crate) struct Filed {
    op: OpNumber,
    attempt: Attempt,
    record: Option<Record>,
}

/// Reads all records of a session.
pub(crate) fn records<D: Disk>(
    disk: &D,
    place: &Place,
    session: &SessionId,
) -> Result<Vec<Filed>, StoreError> {
    let folder = place.guards();
    let names = found(disk.list(&folder)).map_err(io("cannot list", &folder))?.unwrap_or_default();
    let mut filed = Vec::new();
    for name in names {
        let Some((op, attempt)) = named(&name) else { continue };
        // The record of a settled attempt may be removed at any time; one that cannot be read stays in the list.
        match found(disk.read(&folder.join(&name))) {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                let record = read(&folder.join(&name), &bytes, session.as_str()).ok();
                filed.push(Filed { op, attempt, record });
            }
            Err(_) => filed.push(Filed { op, attempt, record: None }),
        }
    }
    filed.sort_by_key(|filed| (filed.op, filed.attempt));
    Ok(filed)
}

/// The operation and attempt of a record's file name; other names are not ours.
pub(crate) fn named(name: &OsStr) -> Option<(OpNumber, Attempt)> {
    let (op, attempt) = name.to_str()?.strip_suffix(".json")?.split_once('-')?;
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if op.len() < 4 || !digits(op) || !digits(attempt) {
        return None;
    }
    Some((OpNumber::new(op.parse().ok()?), Attempt::new(attempt.parse().ok()?)))
}

/// Reads a record, and compares it with its place.
pub(crate) fn read(file: &Path, bytes: &[u8], session: &str) -> Result<Record, StoreError> {
    let record: Record = sealed::open(file, bytes, FAMILY)?;
    let place = file.file_name().and_then(named);
    let why = if place != Some((record.operation, record.attempt)) {
        format!("it is of operation {}, attempt {}", record.operation, record.attempt)
    } else if record.session != session {
        format!("it belongs to session `{}`, not to `{session}`", record.session)
    } else if (record.state == State::Ended) != record.end.is_some() {
        "it has ended and says nothing of the end, or the other way round".into()
    } else {
        return Ok(record);
    };
    Err(corrupt(file, 0, why))
}

/// The epochs of the records that can be read.
pub(crate) fn epochs<D: Disk>(disk: &D, place: &Place, session: &str) -> Vec<Epoch> {
    let folder = place.guards();
    let files = disk.list(&folder).unwrap_or_default().into_iter().map(|name| folder.join(name));
    files.filter_map(|file| read(&file, &disk.read(&file).ok()?, session).ok()).map(|r| r.epoch).collect()
}

/// The attempts that are not proved dead: begun on this boot and not ended, or not readable.
///
/// The key of a record that cannot be read is looked up in the journal, by the intent that was durable before the
/// guard began. Where there is no such intent no effect of this session can stand behind the record.
pub(crate) fn unfinished<D: Disk>(
    disk: &D,
    place: &Place,
    session: &SessionId,
    survey: journal::Survey,
) -> Result<Vec<(Key, Attempt)>, StoreError> {
    let boot = host::boot_id();
    let mut unfinished = Vec::new();
    let mut unreadable = Vec::new();
    for filed in records(disk, place, session)? {
        match filed.record {
            Some(record) if record.state == State::Ended => {}
            Some(record) if !boot.is_empty() && record.boot != boot => {}
            Some(record) => unfinished.push((record.key, filed.attempt)),
            None => unreadable.push((filed.op, filed.attempt)),
        }
    }
    for (_, key, attempt, _) in intents(disk, place, session, survey, &unreadable)? {
        unfinished.push((key, attempt));
    }
    Ok(unfinished)
}

/// The intents behind records that cannot be read, each with its epoch.
fn intents<D: Disk>(
    disk: &D,
    place: &Place,
    session: &SessionId,
    survey: journal::Survey,
    unreadable: &[(OpNumber, Attempt)],
) -> Result<Vec<(OpNumber, Key, Attempt, Epoch)>, StoreError> {
    let mut intents = Vec::new();
    if unreadable.is_empty() {
        return Ok(intents);
    }
    for commit in journal::commits(disk, place, session, Revision::FIRST, survey)? {
        for entry in commit.entries() {
            if let Entry::Intended(intended) = entry
                && unreadable.contains(&(intended.op, intended.attempt))
            {
                intents.push((intended.op, intended.key, intended.attempt, commit.epoch()));
            }
        }
    }
    Ok(intents)
}

/// What the ended records say of their attempts. One that cannot be read says so: it settles nothing, and a person who
/// is asked sees it.
pub(crate) fn evidence<D: Disk>(
    disk: &D,
    place: &Place,
    session: &SessionId,
    survey: journal::Survey,
) -> Result<Vec<Evidence>, StoreError> {
    let records = records(disk, place, session)?;
    let lost = records.iter().filter(|filed| filed.record.is_none());
    let lost: Vec<_> = lost.map(|filed| (filed.op, filed.attempt)).collect();
    let mut all: Vec<_> =
        records.into_iter().filter_map(|filed| filed.record).filter_map(Record::evidence).collect();
    for (op, key, attempt, epoch) in intents(disk, place, session, survey, &lost)? {
        let shown = file(place, op, attempt);
        let why =
            format!("the guard's record cannot be read, and may have said how it ended: {}", shown.display());
        let observed = Outcome::Unknown(Fault::new("damaged", why));
        all.push(Evidence { op, key, attempt, epoch, observed, ended: None });
    }
    Ok(all)
}

/// The living guards, in one line each.
pub(crate) fn living<D: Disk>(disk: &D, place: &Place, session: &SessionId) -> Vec<String> {
    let boot = host::boot_id();
    let records = records(disk, place, session).unwrap_or_default();
    let begun = records.into_iter().filter_map(|filed| filed.record).filter(|record| {
        record.state == State::Begun
            && record.boot == boot
            && host::start_time(record.pid) == Some(record.start_time)
    });
    begun
        .map(|record| {
            let Record { pid, operation, attempt, command, .. } = record;
            format!("pid {pid} ({}) of operation {operation}, attempt {attempt}", host::shown(&command))
        })
        .collect()
}

/// What still lives below a guard that was killed: processes that closed the lock and bear the guard's mark in
/// their environment. A third net, after the guard and the inherited lock; what wiped its environment escapes it.
pub(crate) fn orphans<D: Disk>(
    disk: &D,
    place: &Place,
    session: &SessionId,
) -> Result<Vec<String>, StoreError> {
    let boot = host::boot_id();
    let begun = records(disk, place, session)?
        .into_iter()
        .filter_map(|filed| filed.record)
        .filter(|record| record.state == State::Begun && record.boot == boot && !record.mark.is_empty());
    let mut lines = Vec::new();
    for record in begun {
        for (pid, command) in host::bearing("SURESTEP_GUARD", &record.mark) {
            let (op, attempt) = (record.operation, record.attempt);
            lines.push(format!(
                "pid {pid} ({}), which outlived the guard of operation {op}, attempt {attempt}",
                host::shown(&command)
            ));
        }
    }
    Ok(lines)
}

/// The file of a record.
pub(crate) fn file(place: &Place, op: OpNumber, attempt: Attempt) -> std::path::PathBuf {
    place.guards().join(Path::new(&surestep::record_name(op, attempt)))
}

impl Record {
    pub(crate) fn evidence(self) -> Option<Evidence> {
        let End { exit, cut, stdout, stderr, ended_boot_ms } = self.end?;
        let over = |code: &str, how: String| {
            let (code, cut) = if cut { ("timeout", ", cut at its deadline") } else { (code, "") };
            Outcome::Over(Fault::new(code, format!("{how}{cut}: {}", tail(&stderr))))
        };
        let observed = match exit {
            Exit::NotStarted(why) => Outcome::NotSent(Fault::new("not_started", why)),
            // A command that was cut did not end by its own will: what it left behind is for a look-up to say.
            Exit::Code(0) if !cut => {
                let receipt = Receipt::new(self.receipt.unwrap_or_else(|| self.key.to_string()));
                let detail = format!(r#"{{"exit":0,"stdout":{}}}"#, json::quote(tail(&stdout)));
                Outcome::Landed(Receipt { detail: Raw::new(detail).ok(), ..receipt }.bounded())
            }
            Exit::Code(code) if !cut => {
                Outcome::Ended(Fault::new("exit", format!("exit {code}: {}", tail(&stderr))))
            }
            Exit::Code(code) => over("exit", format!("exit {code}")),
            Exit::Signal(signal) => over("signal", format!("ended by signal {signal}")),
            Exit::Unknown(why) => over("lost", format!("ended, nobody knows how ({why})")),
        };
        let Self { operation: op, key, attempt, epoch, boot, .. } = self;
        Some(Evidence { op, key, attempt, epoch, observed, ended: Some(Mark::new(boot, ended_boot_ms)) })
    }
}

/// The end of a text, within the limit and at a character border.
fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(TAIL_BYTES_MAX);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}
