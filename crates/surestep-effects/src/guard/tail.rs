//! A bounded tail of a command's output: it is drained as fast as it comes, and its end is kept.
//!
//! The thread is started before the command, so that a lack of threads means that nothing ran.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use surestep::scrub::Scrubber;

use super::TAIL_BYTES;

/// How long the drain may take to see the end of a pipe after everybody below the guard is gone; a
/// writer elsewhere, to which the descriptor was sent, must not keep the guard.
const LAST_WORDS: Duration = Duration::from_millis(500);

#[derive(Debug, Default, Clone)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    dropped: bool,
}

impl Kept {
    fn push(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
        if self.bytes.len() > 8 * TAIL_BYTES {
            let excess = self.bytes.len() - 4 * TAIL_BYTES;
            self.bytes.drain(..excess);
            self.dropped = true;
        }
    }

    fn trim(&mut self) {
        let excess = self.bytes.len().saturating_sub(TAIL_BYTES);
        if excess > 0 {
            self.bytes.drain(..excess);
            self.dropped = true;
        }
    }

    /// The last bytes without credentials, and whether there were more. What is kept is scrubbed before it is cut to its
    /// final length, so that no cut leaves a part of one.
    pub(super) fn into_parts(mut self, scrubber: &Scrubber) -> (Vec<u8>, bool) {
        self.bytes = scrubber.tail(&self.bytes, self.dropped);
        self.trim();
        (self.bytes, self.dropped)
    }
}

/// A stream being drained.
#[derive(Debug)]
pub(super) struct Tail {
    kept: Arc<Mutex<Kept>>,
    over: Receiver<()>,
}

impl Tail {
    /// A pipe's writing end, for the command, and the tail of what is written to it.
    pub(super) fn start() -> io::Result<(PipeWriter, Tail)> {
        let (reader, writer) = io::pipe()?;
        let kept = Arc::new(Mutex::new(Kept::default()));
        let (done, over) = mpsc::channel();
        let shared = Arc::clone(&kept);
        std::thread::Builder::new().spawn(move || {
            drain(reader, &shared);
            // Nobody listens when the guard has already reported.
            let _ = done.send(());
        })?;
        Ok((writer, Tail { kept, over }))
    }

    /// What is kept so far.
    pub(super) fn so_far(&self) -> Kept {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is kept in the end, once nobody below the guard can write any more.
    pub(super) fn finish(&self) -> Kept {
        // A hang-up says the same as a message: the drain is over.
        let _ = self.over.recv_timeout(LAST_WORDS);
        self.so_far()
    }
}

fn drain(mut reader: PipeReader, kept: &Mutex<Kept>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => kept
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
