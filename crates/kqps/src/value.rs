//! Values as people type them, the same for every flag: numbers with `k`, `M` or `G` (thousand, million,
//! thousand million), durations with `ns us ms s m h`, sizes with `k M G` (thousands) or `KiB MiB GiB` (of
//! 1024), shares such as `0.01%`, lists such as `0,2-5`. Each parser is a `clap` value parser. Its error
//! gives the expected form, an example, and the likely meaning of a near miss.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use kqps_catalogue::course::RATE_MOST;
use kqps_catalogue::value::{NUMBERS, hint, scaled};
use kqps_kernel::affinity;
use kqps_observation::cpu_list::{self, CpuListError};

use crate::exit::bad_input;

pub(crate) use kqps_catalogue::value::{
    TIMEOUT_LEAST, parse_duration, parse_seconds, parse_timeout, parse_timeout_seconds,
};

/// The greatest accepted whole number. `f64` represents it and all smaller ones exactly.
const WHOLE_MOST: f64 = 9e15;

/// The largest accepted buffer, bytes. A larger one is a slip.
pub(crate) const BUFFER_MOST: u64 = 1 << 30;

const SIZES: [(&str, f64); 8] = [
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("B", 1.0),
    ("", 1.0),
];

/// A rate in queries a second: a positive number with an optional `k`, `M` or `G`, up to 100M.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let expected = "expected a rate in queries a second, such as 500, 100k or 1.5M";
    let rate = scaled(text, &NUMBERS).ok_or_else(|| expected.to_owned() + &hint(text, &NUMBERS))?;
    if rate > RATE_MOST {
        Err(format!("{expected}, and 100M at most"))
    } else if rate > 0.0 {
        Ok(rate)
    } else {
        Err(format!("{expected}, and above 0"))
    }
}

/// A whole count with an optional `k`, `M` or `G`.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    whole(text, &NUMBERS, "expected a whole number, such as 8, 100k or 1M")
}

/// A parser of a whole number within `range`, for a flag of type `T`.
pub(crate) fn parse_within<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let expected = || format!("expected a whole number from {} to {}", range.start(), range.end());
        match scaled(text, &NUMBERS) {
            None => Err(expected() + &hint(text, &NUMBERS)),
            Some(number) => {
                let whole = (number.fract() == 0.0 && number <= WHOLE_MOST).then_some(number as u64);
                let inside = whole.filter(|number| range.contains(number));
                inside.and_then(|number| T::try_from(number).ok()).ok_or_else(expected)
            }
        }
    }
}

/// The range of a count that must not be 0.
pub(crate) const SOME: RangeInclusive<u64> = 1..=u32::MAX as u64;

/// The range of ports.
pub(crate) const PORTS: RangeInclusive<u64> = 1..=u16::MAX as u64;

/// Parses a seed: any whole number of 64 bits.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}, such as 1", u64::MAX))
}

/// Parses an address to listen at: an IP address and a port, no name.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected ADDR:PORT, such as 127.0.0.1:5300 or [::1]:5300, with a port from 0 to 65535";
    text.parse().map_err(|_| expected.into())
}

/// Parses the size of a socket's buffer: more than 0 bytes, and 1 GiB at most.
pub(crate) fn parse_buffer_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("expected a size above 0, such as 1MiB".into()),
        bytes if bytes > BUFFER_MOST => Err("expected 1GiB at most".into()),
        bytes => Ok(bytes),
    }
}

/// A size in bytes with an optional `k`, `M`, `G`, `KiB`, `MiB` or `GiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    whole(text, &SIZES, "expected a size in bytes, such as 4096, 512KiB, 4MiB or 1M")
}

/// A duration above 0.
pub(crate) fn parse_some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("expected a duration above 0, such as 250ms or 10s".into()),
        time => Ok(time),
    }
}

/// A share: `0.01%` or `0.0001`, from 0 up to but not including 1.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let expected = "expected a share from 0 up to 100%, such as 0.1% or 0.001";
    match scaled(text, &[("%", 0.01), ("", 1.0)]) {
        Some(share) if share < 1.0 => Ok(share),
        // A user who types 5 probably means 5 percent.
        Some(share) if share < 100.0 && !text.contains('%') => {
            Err(format!("{expected}; did you mean {}%?", text.trim()))
        }
        _ => Err(expected.into()),
    }
}

/// A share that is kept: `99%` or `0.99`, above 0 and up to 1.
pub(crate) fn parse_kept(text: &str) -> Result<f64, String> {
    let expected = "expected a share above 0 up to 100%, such as 99% or 0.99";
    match scaled(text, &[("%", 0.01), ("", 1.0)]) {
        Some(share) if share > 0.0 && share <= 1.0 => Ok(share),
        // A user who types 99 probably means 99 percent.
        Some(share) if share > 1.0 && share <= 100.0 && !text.contains('%') => {
            Err(format!("{expected}; did you mean {}%?", text.trim()))
        }
        _ => Err(expected.into()),
    }
}

/// A list of cores, as in `0,2-5`; kept in the order in which it was typed. An empty text is an empty list.
pub(crate) fn parse_list(text: &str) -> Result<List, CpuListError> {
    cpu_list::parse(text).map(List)
}

/// A parsed list. It is a type of its own, since `clap` would take a `Vec` as several values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List(pub(crate) Vec<u32>);

/// The cores of a `--cpus` flag; empty without one. A core that this process may not run on is bad usage.
pub(crate) fn cores(list: Option<&List>) -> anyhow::Result<Vec<u32>> {
    let cpus = list.cloned().unwrap_or_default().0;
    let allowed = affinity::allowed()?;
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(cpus),
        Some(cpu) => {
            let allowed = cpu_list::write(&allowed);
            Err(bad_input(format!("--cpus: this process may not run on core {cpu}; it may run on {allowed}")))
        }
    }
}

fn whole(text: &str, units: &[(&str, f64)], expected: &str) -> Result<u64, String> {
    match scaled(text, units) {
        Some(number) if number.fract() == 0.0 && number <= WHOLE_MOST => Ok(number as u64),
        Some(number) if number > WHOLE_MOST => Err(format!("{expected}, and {WHOLE_MOST} at most")),
        Some(_) => Err(expected.into()),
        None => Err(expected.to_owned() + &hint(text, units)),
    }
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
    fn what_lies_outside_is_answered_with_the_bounds() {
        let few = parse_within::<u32>(1..=1024);
        assert_eq!((few("1"), few("1k"), few("1024")), (Ok(1), Ok(1000), Ok(1024)));
        for bad in ["0", "1025", "1.5", "-1", "x", "", "99999999999999999999"] {
            assert!(few(bad).unwrap_err().starts_with("expected a whole number from 1 to 1024"), "{bad}");
        }
        assert!(few("1K").unwrap_err().ends_with("did you mean 1k?"));
        assert_eq!(parse_within::<u16>(PORTS)("53"), Ok(53));
        assert!(parse_within::<u16>(PORTS)("65536").unwrap_err().ends_with("from 1 to 65535"));
        assert!(parse_count("9999999999999999999").unwrap_err().ends_with("9000000000000000 at most"));
        assert_eq!(parse_seed("18446744073709551615"), Ok(u64::MAX));
        for bad in ["x", "-1", "1.5", "1k", "18446744073709551616"] {
            assert!(parse_seed(bad).unwrap_err().contains("such as 1"), "{bad}");
        }
        assert_eq!(parse_listen("[::1]:53"), Ok("[::1]:53".parse().unwrap()));
        for bad in ["", "127.0.0.1", "localhost:53", "127.0.0.1:65536", "::1:53:"] {
            assert!(parse_listen(bad).unwrap_err().starts_with("expected ADDR:PORT"), "{bad}");
        }
        assert_eq!(parse_buffer_size("4KiB"), Ok(4096));
        assert!(parse_buffer_size("0").is_err() && parse_buffer_size("2GiB").is_err());
    }

    #[test]
    fn no_time_is_not_some_time() {
        assert_eq!(parse_some_time("250ms"), Ok(Duration::from_millis(250)));
        assert!(parse_some_time("0s").is_err());
    }

    #[test]
    fn sizes_shares_and_lists() {
        assert_eq!(parse_size("4KiB"), Ok(4096));
        assert_eq!(parse_size("4k"), Ok(4000));
        assert_eq!(parse_size("1MiB"), Ok(1_048_576));
        assert_eq!(parse_size("1M"), Ok(1_000_000));
        assert_eq!(parse_size("512B"), Ok(512));
        assert_eq!(parse_share("0.01%"), Ok(0.0001));
        assert!(parse_share("100%").is_err());
        assert_eq!([parse_kept("99%"), parse_kept("0.5"), parse_kept("100%")], [Ok(0.99), Ok(0.5), Ok(1.0)]);
        assert!(parse_kept("99").unwrap_err().ends_with("did you mean 99%?"));
        assert!(["0", "-1%", "101%", "all"].iter().all(|text| parse_kept(text).is_err()));
        assert_eq!(parse_list("0,2-4"), Ok(List(vec![0, 2, 3, 4])));
        assert_eq!(parse_list(""), Ok(List(Vec::new())));
        for bad in [",", "a", "3-1", "1,1", "0-99999", "-1"] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_slip_is_answered_with_an_example_and_with_what_was_probably_meant() {
        let rate = |text| parse_rate(text).unwrap_err();
        let size = |text| parse_size(text).unwrap_err();
        let time = |text| parse_duration(text).unwrap_err();
        let share = |text| parse_share(text).unwrap_err();
        for (error, meant) in [
            (rate("100K"), "did you mean 100k?"),
            (rate("1m"), "did you mean 1M?"),
            (parse_count("5K").unwrap_err(), "did you mean 5k?"),
            (size("4KB"), "did you mean 4k?"),
            (size("1mib"), "did you mean 1MiB?"),
            (size("1Mi"), "did you mean 1MiB?"),
            (time("10sec"), "did you mean 10s?"),
            (time("2 min"), "did you mean 2m?"),
            (time("5MS"), "did you mean 5ms?"),
            (time("5"), "with a unit; did you mean 5ms or 5s?"),
            (share("5"), "such as 0.1% or 0.001; did you mean 5%?"),
        ] {
            assert!(error.ends_with(meant), "{error}");
        }
        for error in [rate("fast"), size("1.5B"), time("soon"), share("half"), share("120"), share("200%")] {
            assert!(error.contains("such as") && !error.contains("did you mean"), "{error}");
        }
    }
}
