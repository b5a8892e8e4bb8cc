//! Time spans as people read them in `kubectl get`: `12s`, `3m20s`, `5h`, `2d3h`.

use jiff::Timestamp;
use serde_json::Value;

/// The two or three most telling digits of a span of whole seconds.
///
/// A clock that runs ahead by one second is forgiven; a span further in the future is `<invalid>`.
pub fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let (unit, (big, small)) = match seconds {
        ..0 => return "0s".to_owned(),
        s if s < 2 * MINUTE => return format!("{s}s"),
        s if s < 10 * MINUTE => (MINUTE, ("m", Some((1, "s")))),
        s if s < 3 * HOUR => (MINUTE, ("m", None)),
        s if s < 8 * HOUR => (HOUR, ("h", Some((MINUTE, "m")))),
        s if s < 2 * DAY => (HOUR, ("h", None)),
        s if s < 8 * DAY => (DAY, ("d", Some((HOUR, "h")))),
        s if s < 2 * YEAR => (DAY, ("d", None)),
        s if s < 8 * YEAR => (YEAR, ("y", Some((DAY, "d")))),
        _ => (YEAR, ("y", None)),
    };
    let whole = seconds / unit;
    match small.map(|(size, letter)| (seconds % unit / size, letter)) {
        Some((rest, letter)) if rest > 0 => format!("{whole}{big}{rest}{letter}"),
        Some(_) | None => format!("{whole}{big}"),
    }
}

/// How long before `now` the RFC 3339 time `then` was; `<unknown>` when there is no such time.
pub fn since(then: &Value, now: Timestamp) -> String {
    match then.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        // Truncated toward zero, so that half a second in the future is still now.
        Some(then) => human((now.as_millisecond() - then.as_millisecond()) / 1000),
        None => "<unknown>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_span_shows_its_most_telling_digits() {
        let table = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ];
        for (seconds, shown) in table {
            assert_eq!(human(seconds), shown, "{seconds} seconds");
        }
    }

    #[test]
    fn a_time_that_is_not_there_has_an_unknown_age() {
        assert_eq!(since(&Value::Null, Timestamp::UNIX_EPOCH), "<unknown>");
        let now: Timestamp = "2026-01-01T00:00:03.9Z".parse().unwrap();
        assert_eq!(since(&json!("2026-01-01T00:00:00Z"), now), "3s");
        assert_eq!(since(&json!("2026-01-01T00:00:00.500000Z"), now), "3s");
    }
}
