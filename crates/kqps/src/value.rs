//! Values as people type them: rates and counts with `k` and `M`, durations with `us ms s m h`, sizes with
//! `KiB MiB GiB`, lists such as `0,2-5`, shares such as `0.01%`. Each parser is a `clap` value parser: its
//! error says what was expected.

use std::time::Duration;

use kqps_kernel::affinity;

use crate::exit::bad_input;

/// The greatest rate that is taken, queries a second: no link carries more, so more is surely a slip.
const RATE_MOST: f64 = 1e8;

/// A rate in queries a second: a positive number with an optional `k` (thousand), `M` (million), up to 100M.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = scaled(text, &[("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)])
        .ok_or_else(|| "expected a rate in queries a second, such as 500, 100k or 1.5M".to_string())?;
    if rate > RATE_MOST {
        Err("a rate must be at most 100M".into())
    } else if rate > 0.0 {
        Ok(rate)
    } else {
        Err("a rate must be above 0".into())
    }
}

/// A whole count with an optional `k` (thousand) or `M` (million).
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let expected = || "expected a whole number, such as 8, 100k or 1M".to_string();
    let count = scaled(text, &[("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)]).ok_or_else(expected)?;
    if count.fract() == 0.0 && count <= 9e15 { Ok(count as u64) } else { Err(expected()) }
}

/// A duration with a unit (`us`, `ms`, `s`, `m`, `h`); a bare number is seconds, as in dnsperf.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let seconds =
        scaled(text, &units).ok_or_else(|| "expected a duration, such as 250ms, 10s or 2m".to_string())?;
    if seconds > 366.0 * 86_400.0 {
        return Err("a duration of more than a year is surely a slip".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A size in bytes with an optional `KiB`, `MiB` or `GiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let units = [("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("B", 1.0), ("", 1.0)];
    let bytes = scaled(text, &units)
        .ok_or_else(|| "expected a size in bytes, such as 4096, 512KiB or 4MiB".to_string())?;
    if bytes.fract() == 0.0 && bytes <= 9e15 {
        Ok(bytes as u64)
    } else {
        Err("expected a whole number of bytes".into())
    }
}

/// A share: `0.01%` or `0.0001`, from 0 up to but not including 1.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let share = scaled(text, &[("%", 0.01), ("", 1.0)])
        .ok_or_else(|| "expected a share, such as 0.01% or 0.0001".to_string())?;
    if share < 1.0 { Ok(share) } else { Err("a share must be below 100%".into()) }
}

/// A list of whole numbers and ranges, as in `0,2-5`; kept in the order in which it was typed. An empty text is
/// an empty list.
pub(crate) fn parse_list(text: &str) -> Result<List, String> {
    let expected = || format!("expected a list such as 0,2-5, found `{text}`");
    let mut numbers = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| expected())?;
        let last: u32 = last.trim().parse().map_err(|_| expected())?;
        if last < first || last - first > 4096 {
            return Err(expected());
        }
        for number in first..=last {
            if numbers.contains(&number) {
                return Err(format!("{number} stands twice in `{text}`"));
            }
            numbers.push(number);
        }
    }
    Ok(List(numbers))
}

/// A parsed list; a type of its own, so that `clap` takes it as one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List(pub(crate) Vec<u32>);

/// The cores of a `--cpus`, none without it; one that this process may not run on is bad usage.
pub(crate) fn cores(list: Option<&List>) -> anyhow::Result<Vec<u32>> {
    let cpus = list.cloned().unwrap_or_default().0;
    let allowed = affinity::allowed()?;
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(cpus),
        Some(cpu) => {
            Err(bad_input(format!("--cpus: this process may not run on core {cpu}; it may on {allowed:?}")))
        }
    }
}

/// Splits a number from its unit and scales it. None when the number is not finite, negative, or the unit
/// unknown. Units are tried in order, so the empty one stands last.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let (number, scale) = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    // "inf", "nan" and "1e9" are numbers to Rust, but nobody means them here.
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    number.parse::<f64>().ok().map(|number| number * scale).map(tidy)
}

/// Takes away the dust of binary fractions: 0.7 × 1000 is 700.
fn tidy(value: f64) -> f64 {
    let rounded = value.round();
    if (value - rounded).abs() < rounded.abs() * 1e-12 { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_counts() {
        assert_eq!(parse_rate("100k"), Ok(100_000.0));
        assert_eq!(parse_rate("1.5M"), Ok(1_500_000.0));
        assert_eq!(parse_rate("0.7k"), Ok(700.0));
        assert_eq!(parse_count("2M"), Ok(2_000_000));
        assert_eq!(parse_rate("100M"), Ok(1e8));
        for bad in ["", "k", "-1", "0", "1e5", "inf", "10 q/s", "1kk", "101M", "1G"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
        assert!(parse_count("1.5").is_err());
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_mins(90)));
        for bad in ["", "s", "-1s", "1 year", "99999h"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_shares_and_lists() {
        assert_eq!(parse_size("4KiB"), Ok(4096));
        assert!(parse_size("4KB").is_err());
        assert_eq!(parse_share("0.01%"), Ok(0.0001));
        assert!(parse_share("100%").is_err());
        assert_eq!(parse_list("0,2-4"), Ok(List(vec![0, 2, 3, 4])));
        assert_eq!(parse_list(""), Ok(List(Vec::new())));
        for bad in [",", "a", "3-1", "1,1", "0-99999", "-1"] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
    }
}
