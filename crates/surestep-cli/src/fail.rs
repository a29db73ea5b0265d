//! What is said when a command did not end as done: what happened, why, what was *not* done, and the exact next command.
//!
//! One shape for errors, for questions and for rests, on stderr and, under `--json`, as the one object on stdout.

use std::fmt;

use serde::Serialize;
use surestep::{Receipt, Wall, exit};

use crate::out::{Ink, Out};

/// Why a command ends with another code than 0.
#[derive(Debug, Clone)]
pub(crate) struct Fail {
    pub(crate) kind: FailKind,
    pub(crate) code: &'static str,
    pub(crate) exit: u8,
    /// What happened, in one line, without a full stop.
    pub(crate) what: String,
    pub(crate) why: Vec<String>,
    /// What was not done.
    pub(crate) state: Vec<String>,
    /// Commands to type, each with a word on when.
    pub(crate) next: Vec<Next>,
    /// The time from which on the same would succeed, where that is known.
    pub(crate) until: Option<Wall>,
    /// What was seen of an attempt and could not be recorded.
    pub(crate) observed: Option<Seen>,
}

/// What was seen of an attempt and could not be recorded: its receipt must not be lost.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Seen {
    pub(crate) n: u32,
    pub(crate) key: String,
    pub(crate) attempt: u32,
    /// `landed`, `not_landed` or `unknown`.
    pub(crate) outcome: &'static str,
    pub(crate) receipt: Option<Receipt>,
    pub(crate) fault: Option<String>,
}

/// How it is headed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailKind {
    Error,
    /// Nothing is wrong: only time, or a person's answer to a known question, is missing.
    Rest,
}

/// A command to type next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Next {
    /// The exact command, or an instruction where no command can do it.
    pub(crate) command: String,
    /// When to take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) when: Option<String>,
}

/// `surestep.error/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FailObject<'a> {
    schema: &'static str,
    code: &'a str,
    exit: u8,
    what: &'a str,
    why: &'a [String],
    state: &'a [String],
    next: &'a [Next],
    until: Option<Wall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<&'a Seen>,
}

impl Fail {
    pub(crate) fn new(code: &'static str, exit: u8, what: impl Into<String>) -> Self {
        Self {
            kind: FailKind::Error,
            code,
            exit,
            what: what.into(),
            why: vec![],
            state: vec![],
            next: vec![],
            until: None,
            observed: None,
        }
    }

    /// A wrong command line, plan or setting.
    pub(crate) fn usage(code: &'static str, what: impl Into<String>) -> Self {
        Self::new(code, exit::USAGE, what)
    }

    pub(crate) fn rest(mut self) -> Self {
        self.kind = FailKind::Rest;
        self
    }

    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    pub(crate) fn whys(mut self, why: impl IntoIterator<Item = String>) -> Self {
        self.why.extend(why);
        self
    }

    pub(crate) fn state(mut self, state: impl Into<String>) -> Self {
        self.state.push(state.into());
        self
    }

    pub(crate) fn seen(mut self, seen: Option<Seen>) -> Self {
        self.observed = seen;
        self
    }

    pub(crate) fn next(mut self, command: impl Into<String>) -> Self {
        self.next.push(Next { command: command.into(), when: None });
        self
    }

    pub(crate) fn next_if(mut self, command: impl Into<String>, when: impl Into<String>) -> Self {
        self.next.push(Next { command: command.into(), when: Some(when.into()) });
        self
    }

    pub(crate) fn nexts(mut self, next: impl IntoIterator<Item = Next>) -> Self {
        self.next.extend(next);
        self
    }

    /// The lines for people.
    pub(crate) fn lines(&self, out: &Out) -> Vec<String> {
        let head = match self.kind {
            FailKind::Error => out.ink_err(Ink::Error, &format!("error[{}]", self.code)),
            FailKind::Rest => out.ink_err(Ink::Doubt, &format!("rests[{}]", self.code)),
        };
        let mut lines = vec![format!("{head}: {}", self.what)];
        let width =
            self.next.iter().map(|n| n.command.chars().count()).filter(|n| *n <= 72).max().unwrap_or(0);
        let next: Vec<String> = self
            .next
            .iter()
            .map(|next| match &next.when {
                Some(when) => format!("{}  # {when}", crate::text::pad(&next.command, width)),
                None => next.command.clone(),
            })
            .collect();
        for (label, block) in [("why", &self.why), ("state", &self.state), ("next", &next)] {
            for (n, line) in block.iter().enumerate() {
                let label = if n == 0 { format!("{label}:") } else { String::new() };
                lines.push(format!("  {}{line}", out.ink_err(Ink::Strong, &crate::text::pad(&label, 7))));
            }
        }
        lines
    }

    /// Says it on stderr.
    pub(crate) fn say(&self, out: &Out) {
        for line in self.lines(out) {
            out.say(&line);
        }
    }

    /// The one object of `--json`, for commands that end with nothing else to say.
    pub(crate) fn object(&self, out: &Out) {
        out.object(&FailObject {
            schema: "surestep.error/1",
            code: self.code,
            exit: self.exit,
            what: &self.what,
            why: &self.why,
            state: &self.state,
            next: &self.next,
            until: self.until,
            observed: self.observed.as_ref(),
        });
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.what)
    }
}
