//! Times for people: local, in a short form of RFC 3339, and relative to now.

use jiff::tz::TimeZone;
use surestep::Wall;

use crate::duration::short;

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
        1_000.. => format!("in {}", short(abs / 1_000 * 1_000)),
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
        assert_eq!(rel(-600_000), "10 min ago");
    }
}
