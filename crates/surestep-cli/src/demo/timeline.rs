//! The demo's timeline: the journal of the session with the kills put where they happened.

use surestep::core::entry::Entry;
use surestep::{Envelope, Wall};

use super::worker::Kill;
use crate::{log, text};

/// One moment.
pub(super) struct Moment {
    at: Wall,
    text: String,
    pub(super) kill: bool,
}

/// The journal's entries and the kills, in the order of time.
pub(super) fn of(envelope: &Envelope, kills: &[Kill]) -> Vec<Moment> {
    let mut moments: Vec<Moment> = Vec::new();
    for commit in envelope.commits() {
        for entry in commit.entries().iter().filter(|entry| shown(entry)) {
            let line = log::lines(envelope, entry).into_iter().next().unwrap_or_default();
            let line = line.split(", deadline ").next().unwrap_or_default().to_owned();
            moments.push(Moment { at: commit.at(), text: line, kill: false });
        }
    }
    for kill in kills {
        let place = moments.iter().position(|m| m.at > kill.at).unwrap_or(moments.len());
        let guard = if kill.guard { " and its guard" } else { "" };
        let text = format!(
            "{} worker{guard}: after the {} landed, before that was recorded",
            text::pad("SIGKILL", 12),
            kill.after
        );
        moments.insert(place, Moment { at: kill.at, text, kill: true });
    }
    moments
}

impl Moment {
    /// `+0.42 s  succeeded …`, counted from the first moment.
    pub(super) fn line(&self, start: Wall) -> String {
        let ms = self.at.unix_ms().saturating_sub(start.unix_ms()).max(0);
        format!("{:>7} s  {}", format!("{}.{:02}", ms / 1_000, ms % 1_000 / 10), self.text)
    }
}

/// The first moment's time.
pub(super) fn start(moments: &[Moment]) -> Option<Wall> {
    moments.iter().map(|m| m.at).min()
}

const fn shown(entry: &Entry) -> bool {
    match entry {
        Entry::Claimed(_)
        | Entry::Intended(_)
        | Entry::Succeeded(_)
        | Entry::Failed(_)
        | Entry::Doubted(_)
        | Entry::Skipped(_)
        | Entry::Approved(_)
        | Entry::Denied(_)
        | Entry::Cancelled(_)
        | Entry::Finished(_) => true,
        Entry::Opened(_)
        | Entry::Said(_)
        | Entry::Bound(_)
        | Entry::Released(_)
        | Entry::HandedOff(_)
        | Entry::Restored(_) => false,
    }
}
