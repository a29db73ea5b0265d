//! Durations as people type them: `90s`, `5m`, `1h30m`, `250ms`; a bare number is seconds.

use std::time::Duration;

/// The longest duration that is taken: a year.
const SECONDS_MAX: u64 = 366 * 24 * 3_600;

/// Reads a duration.
///
/// # Errors
/// What is wrong, in words for the command line.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let help = "write it like `90s`, `5m`, `1h30m`, `30d` or `250ms`";
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(format!("it is empty: {help}"));
    }
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| help.to_owned())?;
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        let unit_ms: u64 = match unit.trim() {
            "ms" => 1,
            "" | "s" | "sec" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            other => return Err(format!("`{other}` is no unit: {help}")),
        };
        total_ms = number.checked_mul(unit_ms).and_then(|ms| total_ms.checked_add(ms)).unwrap_or(u64::MAX);
        rest = next;
    }
    if total_ms > SECONDS_MAX * 1_000 {
        return Err("more than a year: give a shorter one, or none to wait as long as it takes".into());
    }
    Ok(Duration::from_millis(total_ms))
}

/// A duration in one or two units, for people.
pub(crate) fn short(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=9 if !ms.is_multiple_of(1_000) => format!("{}.{} s", seconds, ms % 1_000 / 100),
        1..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A duration that is left, rounded up: nobody comes back too early because of it.
pub(crate) fn left(ms: u64) -> String {
    let unit = match ms {
        0..1_000 => 1,
        1_000..10_000 => 100,
        10_000..120_000 => 1_000,
        120_000..7_200_000 => 60_000,
        7_200_000..172_800_000 => 3_600_000,
        _ => 86_400_000,
    };
    short(ms.div_ceil(unit).saturating_mul(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_read() {
        for (text, ms) in [
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("7", 7_000),
            ("0", 0),
            ("2d", 172_800_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_a_hint() {
        for text in
            ["", "s", "5 parsecs", "-3s", "1.5h", "99999999999999999999s", "400d", "18446744073709551615h"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("5x").is_err_and(|why| why.contains("`x`") && why.contains("`5m`")));
    }

    #[test]
    fn what_is_left_is_rounded_up() {
        for (ms, text) in [
            (0, "0 ms"),
            (1_201, "1.3 s"),
            (9_950, "10 s"),
            (11_001, "12 s"),
            (119_001, "2 min"),
            (596_000, "10 min"),
            (600_000, "10 min"),
            (7_199_000, "2 h"),
            (172_700_000, "2 days"),
        ] {
            assert_eq!(left(ms), text, "{ms}");
        }
    }

    #[test]
    fn short_forms_name_their_unit() {
        for (ms, text) in [
            (5, "5 ms"),
            (1_200, "1.2 s"),
            (3_000, "3 s"),
            (119_000, "119 s"),
            (600_000, "10 min"),
            (7_200_000, "2 h"),
            (200_000_000, "2 days"),
        ] {
            assert_eq!(short(ms), text);
        }
    }
}
