//! Times as people write them.

use std::time::Duration;

/// A time as `5s`, `200ms`, `2m`; seconds where there is no unit.
pub(crate) fn read(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is not a time such as 5s or 200ms"))?;
    let seconds = match unit {
        "" | "s" => number,
        "ms" => number / 1000.0,
        "m" => number * 60.0,
        _ => return Err(format!("{unit:?} is not a unit of time: ms, s or m")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text:?} is not a time such as 5s or 200ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units_and_refused_without_sense() {
        assert_eq!(read("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(read("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(read("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(read("2m"), Ok(Duration::from_secs(120)));
        for nonsense in ["", "s", "-1s", "5h", "many"] {
            assert!(read(nonsense).is_err(), "{nonsense:?}");
        }
    }
}
