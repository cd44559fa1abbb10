//! Values of dnsperf's flags, and what it says of bad ones.

use std::time::Duration;

use super::Fault;

/// A year, in seconds. A longer time is as good as this.
const SECONDS_MOST: f64 = 365.0 * 86_400.0;

/// The number that strtoul(3) reads from the whole text, without a minus sign.
fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

fn invalid(what: &str, text: &str) -> Fault {
    Fault::usage(format!("invalid {what}: {text}"))
}

/// A number from 1 to 4,294,967,295.
pub(in super::super) fn whole(what: &str, text: &str) -> Result<u64, Fault> {
    let is_within = |number: &u64| (1..=u64::from(u32::MAX)).contains(number);
    number(text).filter(is_within).ok_or_else(|| invalid(what, text))
}

/// A port. 0 stands for none.
pub(in super::super) fn port(what: &str, text: &str) -> Result<u16, Fault> {
    number(text).and_then(|port| port.try_into().ok()).ok_or_else(|| invalid(what, text))
}

/// A number from 0 to 4,294,967,295.
pub(in super::super) fn whole_or_zero(what: &str, text: &str) -> Result<u64, Fault> {
    number(text).filter(|number| u32::try_from(*number).is_ok()).ok_or_else(|| invalid(what, text))
}

/// A time in seconds: digits and one point at most. Without a digit it is 0, as by atof(3).
pub(in super::super) fn seconds(what: &str, text: &str) -> Result<Duration, Fault> {
    let are_digits = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !are_digits || text.matches('.').count() > 1 {
        return Err(invalid(what, text));
    }
    let seconds: f64 = text.parse().unwrap_or(0.0);
    Ok(Duration::from_secs_f64(seconds.min(SECONDS_MOST)))
}

/// A time in seconds with six decimals.
pub(in super::super) fn six_decimals(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_whole_or_not_at_all() {
        assert_eq!((whole("n", "7"), whole("n", " +7")), (Ok(7), Ok(7)));
        for bad in ["", "0", "-1", "1x", "1.5", "0x10", "4294967296", "99999999999999999999"] {
            assert!(whole("n", bad).is_err(), "{bad}");
        }
        assert_eq!((whole_or_zero("n", "0"), whole_or_zero("n", "4294967295")), (Ok(0), Ok(4_294_967_295)));
        assert!(whole_or_zero("n", "-1").is_err() && whole_or_zero("n", "4294967296").is_err());
        assert_eq!((port("p", "0"), port("p", "65535")), (Ok(0), Ok(65_535)));
        assert!(port("p", "65536").is_err() && port("p", "-1").is_err());
        assert_eq!(seconds("s", "1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("s", ".25"), Ok(Duration::from_millis(250)));
        assert_eq!((seconds("s", ""), seconds("s", ".")), (Ok(Duration::ZERO), Ok(Duration::ZERO)));
        assert_eq!(seconds("s", "99999999999"), Ok(Duration::from_secs_f64(SECONDS_MOST)));
        for bad in ["x", "-1", "+1", " 1", "1..5", "inf", "nan", "1s", "1e1"] {
            assert!(seconds("s", bad).is_err(), "{bad}");
        }
        assert_eq!(six_decimals(Duration::from_micros(1_500_001)), "1.500001");
    }
}
