//! Times for people: local, in a short form of RFC 3339, and relative to now.

use jiff::tz::TimeZone;
use surestep::Wall;

use crate::duration::{left, short};

/// `2026-11-30T21:12:18+01:00 (3 min ago)`.
pub(crate) fn at(time: Wall, now: Wall) -> String {
    format!("{} ({})", local(time), relative(time, now))
}

/// `2026-11-30T21:12:18+01:00`, in the local time zone; `Z` where there is none.
pub(crate) fn local(time: Wall) -> String {
    let zoned = time.timestamp().to_zoned(TimeZone::system());
    let offset = zoned.offset().seconds();
    let date = zoned.datetime().round(jiff::Unit::Second).unwrap_or_else(|_| zoned.datetime());
    if offset == 0 {
        return format!("{date}Z");
    }
    let (sign, offset) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    format!("{date}{sign}{:02}:{:02}", offset / 3_600, offset % 3_600 / 60)
}

/// `3 min ago`, `in 12 s`, `now`.
pub(crate) fn relative(time: Wall, now: Wall) -> String {
    let ms = time.unix_ms().saturating_sub(now.unix_ms());
    let abs = ms.unsigned_abs();
    match ms {
        -999..=999 => "now".into(),
        ..=-1_000 => format!("{} ago", short(abs / 1_000 * 1_000)),
        // A time to come is never made to look nearer than it is.
        1_000.. => format!("in {}", left(abs.div_ceil(1_000) * 1_000)),
    }
}

/// How long a time is past, in milliseconds; one to come is 0.
pub(crate) fn past_ms(time: Wall, now: Wall) -> u64 {
    u64::try_from(now.unix_ms().saturating_sub(time.unix_ms())).unwrap_or(0)
}

/// `21:12:18+01:00`, rounded up to a second, with the date only where it is another day.
pub(crate) fn clock(time: Wall, now: Wall) -> String {
    let (time, now) = (local(time.plus_ms(499)), local(now));
    match (time.split_once('T'), now.split_once('T')) {
        (Some((day, clock)), Some((today, _))) if day == today => clock.to_owned(),
        _ => time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_times_are_whole_and_named() {
        let now = Wall::from_unix_ms(1_000_000_000);
        let rel = |ms: i64| relative(Wall::from_unix_ms(1_000_000_000 + ms), now);
        assert_eq!(rel(0), "now");
        assert_eq!(rel(-1_500), "1 s ago");
        assert_eq!(rel(61_000), "in 61 s");
        assert_eq!(rel(61_001), "in 62 s");
        assert_eq!(rel(596_000), "in 10 min");
        assert_eq!(rel(-596_000), "9 min ago");
        assert_eq!(rel(-600_000), "10 min ago");
    }

    #[test]
    fn a_clock_time_has_its_date_only_on_another_day() {
        let at = Wall::from_unix_ms(1_000_000_000);
        assert!(!clock(at, at).contains('T') && clock(at, at).contains(':'));
        assert!(clock(at.plus_ms(172_800_000), at).contains('T'));
    }
}
