//! The private protocol between an engine and its guard: length-prefixed frames on a socket.
//!
//! ```text
//!  engine ─▶ guard   order (JSON)
//!  guard ─▶ engine   empty frame: "the command starts now"; not sent when nothing starts
//!  engine ─▶ guard   empty frame: "cut it now"; a person cancelled the turn
//!  guard ─▶ engine   report (JSON)
//! ```
//!
//! Both ends are the same version of the same program, or were installed together.

use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::{RecvFlags, SendFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use surestep::scrub::Scrubber;

use super::{Job, Label};

/// The longest frame, in bytes: far above what Linux lets a command line and its environment be.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A job as it travels: paths as bytes, since they need not be UTF-8. No `Debug`: it holds secrets.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) run: Vec<String>,
    cwd: Option<Vec<u8>>,
    pub(super) env: Vec<(String, String)>,
    pub(super) deadline_boot_ms: u64,
    pub(super) label: Label,
    record: Option<Vec<u8>>,
    pub(super) receipt: Option<String>,
    pub(super) secrets: Vec<String>,
    /// Whether the guard's stdin is a lock to hold.
    pub(super) locked: bool,
}

impl Order {
    pub(super) fn new(job: &Job, locked: bool) -> io::Result<Order> {
        let bytes = |path: &PathBuf| -> io::Result<Vec<u8>> {
            Ok(std::path::absolute(path)?.as_os_str().as_bytes().to_vec())
        };
        Ok(Order {
            run: job.run.clone(),
            cwd: job.cwd.as_ref().map(bytes).transpose()?,
            env: job.env.clone(),
            deadline_boot_ms: job.deadline_boot_ms,
            label: job.label.clone(),
            record: job.record.as_ref().map(bytes).transpose()?,
            receipt: job.receipt.clone(),
            secrets: job.secrets.clone(),
            locked,
        })
    }

    /// What keeps credentials out of everything that is written down or reported.
    pub(super) fn scrubber(&self) -> Scrubber {
        Scrubber::new().knowing(self.secrets.iter().map(String::as_str))
    }

    pub(super) fn cwd(&self) -> Option<PathBuf> {
        self.cwd.clone().map(path)
    }

    pub(super) fn record(&self) -> Option<PathBuf> {
        self.record.clone().map(path)
    }
}

fn path(bytes: Vec<u8>) -> PathBuf {
    Path::new(&std::ffi::OsString::from_vec(bytes)).to_path_buf()
}

pub(super) fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}

pub(super) fn decode<T: DeserializeOwned>(frame: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(frame)?)
}

/// Send one frame. A peer that is gone is an error and never a SIGPIPE, which the host may not ignore.
pub(super) fn send(socket: &UnixStream, payload: &[u8]) -> io::Result<()> {
    if payload.len() > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "message above 64 MiB"));
    }
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    send_all(socket, &length.to_be_bytes())?;
    send_all(socket, payload)
}

fn send_all(socket: &UnixStream, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match rustix::net::send(socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Whether the peer sent something that nobody has read yet. One that hung up sent nothing.
pub(super) fn is_asked(socket: &UnixStream) -> bool {
    let mut byte = [0_u8; 1];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(socket, byte.as_mut_slice(), flags), Ok((read, _)) if read > 0)
}

/// Receive one frame. `go_on` is asked each time the socket's read timeout passes; on false the
/// error is a timeout.
pub(super) fn receive(socket: &UnixStream, mut go_on: impl FnMut() -> bool) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    fill(socket, &mut length, &mut go_on)?;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message above 64 MiB"));
    }
    let mut payload = vec![0; length];
    fill(socket, &mut payload, &mut go_on)?;
    Ok(payload)
}

fn fill(mut socket: &UnixStream, mut rest: &mut [u8], go_on: &mut impl FnMut() -> bool) -> io::Result<()> {
    while !rest.is_empty() {
        match socket.read(rest) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up")),
            Ok(read) => rest = rest.get_mut(read..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !go_on() {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
