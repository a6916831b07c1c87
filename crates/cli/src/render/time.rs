//! Times: ages and local times for people, RFC 3339 for programs, and parsing of times that people write.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

const MINUTE_SECONDS: i64 = 60;
const HOUR_SECONDS: i64 = 60 * MINUTE_SECONDS;
const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;

/// Returns the age of a time as one number and letter; `now` for less than a minute and for
/// a clock that went back.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    match now.as_second() - then.as_second() {
        seconds if seconds < MINUTE_SECONDS => "now".to_owned(),
        seconds if seconds < HOUR_SECONDS => format!("{}m", seconds / MINUTE_SECONDS),
        seconds if seconds < DAY_SECONDS => format!("{}h", seconds / HOUR_SECONDS),
        seconds if seconds < 14 * DAY_SECONDS => format!("{}d", seconds / DAY_SECONDS),
        seconds if seconds < 365 * DAY_SECONDS => format!("{}w", seconds / (7 * DAY_SECONDS)),
        seconds => format!("{}y", seconds / (365 * DAY_SECONDS)),
    }
}

/// Returns a time for programs: RFC 3339 in UTC, to the millisecond.
pub(crate) fn exact(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// Returns a time for people, in the time zone of this machine.
pub(crate) fn local(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %z").to_string()
}

/// The end of a range that a day is parsed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeEnd {
    /// The start; a day is its first instant.
    Since,
    /// The end; a day is its last instant.
    Until,
}

/// Parses a time that a person wrote: an age, a day, a day with time, or an instant. A time without
/// zone is in the zone of `now`.
pub(crate) fn parse(text: &str, now: &Zoned, edge: RangeEnd) -> Option<Timestamp> {
    let text = text.trim();
    match text {
        "now" => return Some(now.timestamp()),
        "today" => return day(now.date(), now.time_zone(), edge),
        "yesterday" => return day(now.date().yesterday().ok()?, now.time_zone(), edge),
        _ => {}
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    if let Ok(span) = text.parse::<Span>() {
        return Some(now.checked_sub(span.abs()).ok()?.timestamp());
    }
    if !text.contains(['T', 't', ' ', ':']) {
        return day(text.parse::<Date>().ok()?, now.time_zone(), edge);
    }
    let local = text.parse::<DateTime>().ok()?;
    Some(local.to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

fn day(date: Date, zone: &TimeZone, edge: RangeEnd) -> Option<Timestamp> {
    let start = date.to_zoned(zone.clone()).ok()?;
    let instant = match edge {
        RangeEnd::Since => start,
        RangeEnd::Until => start.end_of_day().ok()?,
    };
    Some(instant.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_one_number_and_a_letter() {
        fn check(seconds: i64, expected: &str) {
            let then = Timestamp::UNIX_EPOCH;
            assert_eq!(ago(then, Timestamp::from_second(seconds).unwrap()), expected);
        }
        check(-500, "now");
        check(59, "now");
        check(60, "1m");
        check(3 * HOUR_SECONDS + 5, "3h");
        check(13 * DAY_SECONDS, "13d");
        check(15 * DAY_SECONDS, "2w");
        check(400 * DAY_SECONDS, "1y");
    }

    #[test]
    fn ages_days_and_instants_are_parsed() {
        fn check(text: &str, edge: RangeEnd, expected: Option<&str>) {
            let zone = TimeZone::fixed(jiff::tz::offset(2));
            let now = "2026-11-22T01:30:00Z".parse::<Timestamp>().unwrap().to_zoned(zone);
            let read = parse(text, &now, edge).map(|instant| format!("{instant:.0}"));
            assert_eq!(read.as_deref(), expected, "{text}");
        }
        check("2h", RangeEnd::Since, Some("2026-11-21T23:30:00Z"));
        check("2 hours ago", RangeEnd::Since, Some("2026-11-21T23:30:00Z"));
        check("1w", RangeEnd::Since, Some("2026-11-15T01:30:00Z"));
        check("now", RangeEnd::Until, Some("2026-11-22T01:30:00Z"));
        check("today", RangeEnd::Since, Some("2026-11-21T22:00:00Z"));
        check("yesterday", RangeEnd::Since, Some("2026-11-20T22:00:00Z"));
        check("2026-11-01", RangeEnd::Since, Some("2026-10-31T22:00:00Z"));
        check("2026-11-01", RangeEnd::Until, Some("2026-11-01T21:59:59Z"));
        check("2026-11-01 08:00", RangeEnd::Since, Some("2026-11-01T06:00:00Z"));
        check("2026-11-01T08:00", RangeEnd::Since, Some("2026-11-01T06:00:00Z"));
        check("2026-11-01T08:00Z", RangeEnd::Since, Some("2026-11-01T08:00:00Z"));
        check("soon", RangeEnd::Since, None);
        check("", RangeEnd::Since, None);
        check("2026-13-01", RangeEnd::Since, None);
    }
}
