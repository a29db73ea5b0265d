//! The two streams: stdout is data, stderr is talk.
//!
//! A reader that went away (`surestep log x | head -1`) is no error: writing stops quietly and the exit code stays what
//! the command earned. Colour is for terminals only, and never where `NO_COLOR` is set.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use surestep::scrub::Scrubber;

/// Where to write, and how. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Out {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    colour: Colour,
    broken: Arc<AtomicBool>,
    /// What a person typed may hold a credential, and what we say may be kept in a log.
    scrubber: Scrubber,
}

#[derive(Debug, Clone, Copy)]
struct Colour {
    stdout: bool,
    stderr: bool,
}

/// What a piece of text is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Error,
    Good,
    Doubt,
    Dim,
    Strong,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Error => "1;31",
            Self::Good => "32",
            Self::Doubt => "1;33",
            Self::Dim => "2",
            Self::Strong => "1",
        }
    }
}

impl Out {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let colour = Colour {
            stdout: wanted && io::stdout().is_terminal(),
            stderr: wanted && io::stderr().is_terminal(),
        };
        Self { json, quiet, colour, broken: Arc::default(), scrubber: Scrubber::new() }
    }

    /// Whether a person watches stderr.
    pub(crate) fn watched(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Paints text for stdout.
    pub(crate) fn ink(&self, ink: Ink, text: &str) -> String {
        paint(self.colour.stdout, ink, text)
    }

    /// Paints text for stderr.
    pub(crate) fn ink_err(&self, ink: Ink, text: &str) -> String {
        paint(self.colour.stderr, ink, text)
    }

    /// A line of data. Under `--json` the one object is the data, and lines for people are left out.
    pub(crate) fn put(&self, line: &str) {
        if !self.json {
            self.write(&mut io::stdout().lock(), &self.scrubber.text(line));
        }
    }

    /// The one object of `--json`.
    pub(crate) fn object<T: serde::Serialize>(&self, value: &T) {
        if self.json {
            match serde_json::to_string_pretty(value) {
                Ok(text) => self.write(&mut io::stdout().lock(), &self.scrubber.json(&text)),
                Err(e) => self.say(&format!("the JSON object could not be made: {e}")),
            }
        }
    }

    /// A whole document as data, whatever else is asked for.
    pub(crate) fn document(&self, text: &str) {
        self.write(&mut io::stdout().lock(), text);
    }

    /// One object on one line, of commands that go on: `--json` with `--follow`.
    pub(crate) fn json_line<T: serde::Serialize>(&self, value: &T) {
        if self.json {
            match serde_json::to_string(value) {
                Ok(text) => self.write(&mut io::stdout().lock(), &text),
                Err(e) => self.say(&format!("the JSON object could not be made: {e}")),
            }
            self.flush();
        }
    }

    /// A line of talk that must be read: an error, a question.
    pub(crate) fn say(&self, line: &str) {
        // Nobody is left to be told when this fails.
        let _ = writeln!(io::stderr().lock(), "{}", self.scrubber.text(line));
    }

    /// A line of talk that `--quiet` leaves out: progress, hints.
    pub(crate) fn note(&self, line: &str) {
        if !self.quiet {
            self.say(line);
        }
    }

    /// Whether data was lost for another reason than a reader that went away.
    pub(crate) fn lost_data(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Writes what is buffered.
    pub(crate) fn flush(&self) {
        self.judge(io::stdout().lock().flush());
    }

    fn write(&self, to: &mut impl Write, line: &str) {
        self.judge(writeln!(to, "{line}"));
    }

    fn judge(&self, written: io::Result<()>) {
        if let Err(e) = written
            && e.kind() != io::ErrorKind::BrokenPipe
        {
            self.broken.store(true, Ordering::Relaxed);
        }
    }
}

fn paint(colour: bool, ink: Ink, text: &str) -> String {
    if colour { format!("\x1b[{}m{text}\x1b[0m", ink.code()) } else { text.to_owned() }
}
