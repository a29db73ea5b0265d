//! Files that a person names: read whole, within a limit, and never waited for without end.
//!
//! A FIFO is read like a file once somebody writes to it; one to which nobody writes is an error after a while, and a
//! device that never ends is one at the limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// The longest plan that is read, in bytes.
pub(crate) const PLAN_BYTES_MAX: u64 = 128 << 20;
/// The longest envelope that is read, in bytes.
pub(crate) const ENVELOPE_BYTES_MAX: u64 = 1 << 30;
/// How long a FIFO waits for somebody to write to it.
const FIFO_WAIT: Duration = Duration::from_secs(5);

/// Reads a file, or stdin for `-`.
///
/// # Errors
/// What the system says; `FileTooLarge` over the limit; `TimedOut` where nobody writes.
pub(crate) fn read(path: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == "-" {
        io::stdin().lock().take(bytes_max + 1).read_to_end(&mut bytes)?;
    } else {
        let file = open(path)?;
        let meta = file.metadata()?;
        if meta.is_file() && meta.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > bytes_max {
        return Err(too_large(bytes_max));
    }
    Ok(bytes)
}

fn too_large(bytes_max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {bytes_max} bytes"))
}

/// Opens without waiting for a FIFO's other end, and then waits for its first bytes, for a while.
fn open(path: &str) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(nonblocking.bits()).map_err(io::Error::other)?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        wait_for_bytes(&file)?;
    }
    let now = fcntl_getfl(&file)?;
    fcntl_setfl(&file, now - OFlags::NONBLOCK)?;
    Ok(file)
}

fn wait_for_bytes(file: &File) -> io::Result<()> {
    let until = Instant::now() + FIFO_WAIT;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let limit =
            Timespec { tv_sec: left.as_secs().try_into().unwrap_or(0), tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(0) => {
                let what = format!("it is a FIFO, and nobody wrote to it within {} s", FIFO_WAIT.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}
