//! Clocks, as values: the core reads none.
//!
//! Wall time never decides: it is for people. What decides is time since boot ([`Mark`]), compared only within one
//! boot, and a store server's stamps ([`Stamp`]), compared only within one term. Two machines' clocks are never
//! compared. Source: Linux `CLOCK_BOOTTIME` (it runs on in suspend) and `/proc/sys/kernel/random/boot_id`.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::record::record;

/// Wall-clock time in whole milliseconds, written like `2026-11-30T21:12:18.123Z` and in no other way; for people and for [`Rest::Until`](crate::Rest).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wall(Timestamp);

impl Wall {
    /// The millisecond of a timestamp.
    #[must_use]
    pub fn new(at: Timestamp) -> Self {
        Self::from_unix_ms(at.as_millisecond())
    }

    /// From milliseconds since 1970; what lies outside the years -9999 to 9999 is put on the border.
    #[must_use]
    pub fn from_unix_ms(ms: i64) -> Self {
        let border = if ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Self(Timestamp::from_millisecond(ms).unwrap_or(border))
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn unix_ms(self) -> i64 {
        self.0.as_millisecond()
    }

    /// This time and so many milliseconds more.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self::from_unix_ms(self.unix_ms().saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// The timestamp.
    #[must_use]
    pub const fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl std::str::FromStr for Wall {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse().map(Self::new)
    }
}

impl Serialize for Wall {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Wall {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // A time in another form would be written back as another text.
        let text = String::deserialize(from)?;
        let at: Self = text.parse().map_err(D::Error::custom)?;
        if at.to_string() == text {
            Ok(at)
        } else {
            Err(D::Error::custom(format!("`{text}` is written `{at}`")))
        }
    }
}

record! {
    /// A moment on one boot's clock.
    pub struct Mark {
        /// The boot's id.
        boot: String,
        /// Milliseconds since that boot, suspend included.
        since_boot_ms: u64,
        ;
    }
}

impl Mark {
    /// A moment on a boot's clock.
    #[must_use]
    pub fn new(boot: impl Into<String>, since_boot_ms: u64) -> Self {
        Self { boot: boot.into(), since_boot_ms, extra: crate::record::Extra::default() }
    }

    /// Milliseconds from `earlier` to this moment; `None` where the two are not on one clock. A clock behind a
    /// stored moment of the same boot counts as another boot.
    #[must_use]
    pub fn since(&self, earlier: &Mark) -> Option<u64> {
        if self.boot != earlier.boot {
            return None;
        }
        self.since_boot_ms.checked_sub(earlier.since_boot_ms)
    }
}

/// What the clocks say at one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Now {
    /// The wall clock: for people, never for a decision.
    pub wall: Wall,
    /// The boot clock: it decides.
    pub mark: Mark,
}

/// A store server's time of one publish or read, on stores that have a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Milliseconds on the server's clock.
    pub ms: u64,
    /// The server's term (leader, timeline): stamps compare only within one.
    pub term: u64,
}

impl Stamp {
    /// Milliseconds from `earlier` to this stamp; `None` across terms, or where the clock went back.
    #[must_use]
    pub fn since(&self, earlier: &Stamp) -> Option<u64> {
        if self.term == earlier.term { self.ms.checked_sub(earlier.ms) } else { None }
    }
}

record! {
    /// A stored rest: over when the same boot's clock says so, or, on another boot, when the wall clock does.
    pub struct Pause {
        /// The time for people.
        until: Wall,
        /// How long, in milliseconds, from the mark below.
        wait_ms: u64,
        /// The boot on which it was written.
        boot: String,
        /// When it was written, in milliseconds since that boot.
        since_boot_ms: u64,
        ;
    }
}

impl Pause {
    /// A rest of `wait_ms` from now, at most [`REST_MAX_MS`](crate::limits::REST_MAX_MS).
    #[must_use]
    pub fn from_now(now: &Now, wait_ms: u64) -> Self {
        let wait_ms = wait_ms.min(crate::limits::REST_MAX_MS);
        Self {
            until: now.wall.plus_ms(wait_ms),
            wait_ms,
            boot: now.mark.boot.clone(),
            since_boot_ms: now.mark.since_boot_ms,
            extra: crate::record::Extra::default(),
        }
    }

    /// Milliseconds that are left; 0 when the rest is over. On another boot than the one it was written on, a time
    /// further ahead than the rest is long cannot be right (the wall clock was moved) and counts as over.
    #[must_use]
    pub fn left_ms(&self, now: &Now) -> u64 {
        let written = Mark::new(self.boot.clone(), self.since_boot_ms);
        match now.mark.since(&written) {
            Some(elapsed) => self.wait_ms.saturating_sub(elapsed),
            None => match u64::try_from(self.until.unix_ms().saturating_sub(now.wall.unix_ms())) {
                Ok(left) if left <= self.wait_ms => left,
                Ok(_) | Err(_) => 0,
            },
        }
    }
}
