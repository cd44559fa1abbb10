//! Numbers, periods with units, and points in time in master files.

use super::error::{Parsed, Trouble};
use super::lexer::Token;

/// Reads a decimal number up to `max`.
#[inline]
pub(super) fn decimal<N: Into<u64> + TryFrom<u64>>(
    token: &Token<'_>,
    max: N,
    expected: &'static str,
) -> Parsed<N> {
    let max: u64 = max.into();
    let mut value: u64 = 0;
    for &byte in token.text {
        let digit = byte.wrapping_sub(b'0');
        value = value * 10 + u64::from(digit);
        if digit > 9 || value > max {
            return Err(Trouble::expected(expected, token.text, token.at));
        }
    }
    if token.text.is_empty() || token.quoted() {
        return Err(Trouble::expected(expected, token.text, token.at));
    }
    N::try_from(value).map_err(|_| Trouble::expected(expected, token.text, token.at))
}

/// Parses a period in seconds, at most 2^32 − 1: a number, or numbers with units such as `1h30m` or `1W`. A
/// last number without a unit counts seconds.
#[inline]
pub(super) fn period_s(text: &[u8]) -> Option<u32> {
    let mut total_s: u64 = 0;
    let mut value: u64 = 0;
    let mut digits = 0;
    for &byte in text {
        if byte.is_ascii_digit() {
            value = value * 10 + u64::from(byte - b'0');
            digits += 1;
        } else {
            if digits == 0 {
                return None;
            }
            total_s += value * unit_s(byte)?;
            (value, digits) = (0, 0);
        }
        if value > u64::from(u32::MAX) || total_s > u64::from(u32::MAX) {
            return None;
        }
    }
    if text.is_empty() {
        return None;
    }
    u32::try_from(total_s + value).ok()
}

fn unit_s(unit: u8) -> Option<u64> {
    Some(match unit.to_ascii_lowercase() {
        b's' => 1,
        b'm' => 60,
        b'h' => 3600,
        b'd' => 86_400,
        b'w' => 604_800,
        _ => return None,
    })
}

/// Parses a point in time as in RRSIG (RFC 4034, section 3.2): `YYYYMMDDHHmmSS` in UTC, or seconds since
/// 1970, modulo 2^32.
pub(super) fn time_s(text: &[u8]) -> Option<u32> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |text: &[u8]| text.iter().fold(0, |value: u64, byte| value * 10 + u64::from(byte - b'0'));
    if text.len() <= 10 && !text.is_empty() {
        return u32::try_from(number(text)).ok();
    }
    if text.len() != 14 {
        return None;
    }
    let (date, clock) = text.split_at(8);
    let (year, month, day) = (number(&date[..4]), number(&date[4..6]), number(&date[6..]));
    let (hour, minute, second) = (number(&clock[..2]), number(&clock[2..4]), number(&clock[4..]));
    // A leap second is the second that follows it, as in POSIX time.
    if year < 1970 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let time_s = ((days(year, month, day)? * 24 + hour) * 60 + minute) * 60 + second;
    u32::try_from(time_s % (1 << 32)).ok()
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let month_days = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=month_days).contains(&day) {
        return None;
    }
    let past = year - 1;
    let leap_days = past / 4 - past / 100 + past / 400 - 477;
    let in_year = BEFORE[month as usize - 1] + u64::from(leap && month > 2);
    Some((year - 1970) * 365 + leap_days + in_year + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_units() {
        for (text, seconds) in [
            ("0", Some(0)),
            ("3600", Some(3600)),
            ("1h30m", Some(5400)),
            ("1W2D3H4M5S", Some(788_645)),
            ("1h30", Some(3630)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("7102w", None),
            ("99999999999999999999999", None),
            ("h", None),
            ("1hh", None),
            ("1x", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(period_s(text.as_bytes()), seconds, "{text}");
        }
    }

    /// The values come from `date -u -d … +%s`.
    #[test]
    fn times_are_dates_or_seconds() {
        for (text, seconds) in [
            ("19700101000000", Some(0)),
            ("20000229120000", Some(951_825_600)),
            ("20040509183619", Some(1_084_127_779)),
            ("20261122072400", Some(1_795_332_240)),
            ("21060207062815", Some(u32::MAX)),
            ("21060207062816", Some(0)),
            ("1084127779", Some(1_084_127_779)),
            ("20230229000000", None),
            ("21000229000000", None),
            ("20231301000000", None),
            ("20230100000000", None),
            ("20230101240000", None),
            ("4294967296", None),
            ("202301010000", None),
            ("2023-01-01", None),
            ("", None),
        ] {
            assert_eq!(time_s(text.as_bytes()), seconds, "{text}");
        }
    }
}
