//! Numbers with units as people type them, the same on command lines and in files: `1.5M`, `512KiB`, `60s`.

use std::time::Duration;

/// Units of numbers. The empty one stands last, since units are tried in order.
pub const NUMBERS: [(&str, f64); 4] = [("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)];

/// Units of durations.
const DURATIONS: [(&str, f64); 7] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// The least wait for a reply or a connection. Over loopback a reply may take about as long, since threads sleep and
/// wake up in between.
pub const TIMEOUT_LEAST: Duration = Duration::from_micros(100);

/// A duration with a unit (`ns`, `us`, `ms`, `s`, `m`, `h`). 0 needs none.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = "expected a duration, such as 500ns, 20us, 250ms, 10s or 2m";
    let bare = scaled(text, &[("", 1.0)]);
    let seconds = scaled(text, &DURATIONS).or(bare.filter(|number| *number == 0.0));
    let seconds = seconds.ok_or_else(|| match bare {
        Some(_) => format!("{expected}, with a unit; did you mean {0}ms or {0}s?", text.trim()),
        None => expected.to_owned() + &hint(text, &DURATIONS),
    })?;
    if seconds > 366.0 * 86_400.0 {
        return Err(format!("{expected}, and a year at most"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A duration of a flag that dnsperf has as well: a bare number is seconds.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let is_bare = scaled(text, &[("", 1.0)]).is_some();
    if is_bare { parse_duration(&format!("{}s", text.trim())) } else { parse_duration(text) }
}

/// A timeout: a duration of [`TIMEOUT_LEAST`] or more.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    at_least_a_timeout(parse_duration(text)?)
}

/// A timeout of a flag that dnsperf has as well: a bare number is seconds.
pub fn parse_timeout_seconds(text: &str) -> Result<Duration, String> {
    at_least_a_timeout(parse_seconds(text)?)
}

fn at_least_a_timeout(time: Duration) -> Result<Duration, String> {
    if time < TIMEOUT_LEAST {
        return Err("expected a timeout of 100us at least, such as 250ms or 1s".to_owned());
    }
    Ok(time)
}

/// Splits a number from its unit and scales it. `None` if the number is negative or not finite, or the unit
/// is unknown. Units are tried in order, so the empty one stands last.
pub fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let (number, scale) = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    let number = number.trim_end();
    // Rust also parses "inf", "nan" and "1e9". Here they are errors.
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    number.parse::<f64>().ok().map(|number| number * scale).map(tidy)
}

/// The likely meaning of an unknown unit: a known unit in other letter case, or under another name. Empty if
/// there is none.
pub fn hint(text: &str, units: &[(&str, f64)]) -> String {
    let number = text.trim().trim_end_matches(|c: char| c.is_alphabetic());
    let unit = &text.trim()[number.len()..];
    let meant = match unit.to_lowercase().as_str() {
        "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hour" | "hours" | "hr" => "h",
        "kb" => "k",
        "mb" => "M",
        "gb" => "G",
        "ki" => "KiB",
        "mi" => "MiB",
        "gi" => "GiB",
        _ => unit,
    };
    let is_meant = |(known, _): &&(&str, f64)| !known.is_empty() && known.eq_ignore_ascii_case(meant);
    match units.iter().find(is_meant) {
        Some((known, _)) if scaled(&format!("{number}{known}"), units).is_some() => {
            format!("; did you mean {}{known}?", number.trim_end())
        }
        _ => String::new(),
    }
}

/// Removes the noise of binary fractions: 0.7 × 1000 is 700.
fn tidy(value: f64) -> f64 {
    let rounded = value.round();
    if (value - rounded).abs() < rounded.abs() * 1e-12 { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_no_shorter_than_replies_take() {
        assert_eq!(parse_timeout("100us"), Ok(Duration::from_micros(100)));
        for text in ["0", "1ns", "99us"] {
            let error = parse_timeout(text).unwrap_err();
            assert_eq!(error, "expected a timeout of 100us at least, such as 250ms or 1s", "{text}");
        }
        assert!(parse_timeout("soon").is_err());
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("500ns"), Ok(Duration::from_nanos(500)));
        assert_eq!(parse_duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(
            (parse_duration("0"), parse_seconds("10")),
            (Ok(Duration::ZERO), Ok(Duration::from_secs(10)))
        );
        assert_eq!(
            (parse_seconds(" 1.5 "), parse_seconds("3ms")),
            (Ok(Duration::from_millis(1500)), Ok(Duration::from_millis(3)))
        );
        assert_eq!(
            (parse_timeout_seconds("2"), parse_timeout_seconds("0").is_err()),
            (Ok(Duration::from_secs(2)), true)
        );
        for bare in ["10", " 5", "0.5"] {
            let error = parse_duration(bare).unwrap_err();
            let number = bare.trim();
            assert!(
                error.ends_with(&format!("with a unit; did you mean {number}ms or {number}s?")),
                "{error}"
            );
        }
        assert_eq!(parse_duration("1.5 h"), Ok(Duration::from_mins(90)));
        for bad in ["", "s", "-1s", "1 year", "99999h"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
