//! The data of LOC records (RFC 1876): latitude, longitude and altitude with their precision.

use super::error::{Parsed, Trouble};
use super::lexer::{Lexer, Token};

/// The length of the wire form.
pub(super) const BYTES: usize = 16;

/// Thousandths of an arc second in a degree.
const DEGREE: u32 = 3_600_000;
/// The equator and the prime meridian (section 2).
const ZERO: u32 = 1 << 31;
/// The altitude of the reference spheroid. The lowest altitude is 100,000 m below it (section 2).
const SEA_CM: i64 = 10_000_000;
/// Default size, horizontal and vertical precision: 1 m, 10,000 m and 10 m (section 3).
const PRECISIONS: [u8; 3] = [0x12, 0x16, 0x13];

/// Reads `d [m [s]] N|S d [m [s]] E|W ALTITUDE[m] [SIZE[m] [HORIZONTAL[m] [VERTICAL[m]]]]`.
pub(super) fn read(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let latitude = angle(lexer, 90, b'N', b'S')?;
    let longitude = angle(lexer, 180, b'E', b'W')?;
    let expected = "an altitude in metres from -100000.00 to 42849672.95";
    let token = lexer.plain(expected)?;
    let altitude = centimetres(token.text)
        .and_then(|cm| u32::try_from(cm + SEA_CM).ok())
        .ok_or_else(|| Trouble::expected(expected, token.text, token.at))?;
    let mut precisions = PRECISIONS;
    for precision in &mut precisions {
        let Some(token) = lexer.next()? else { break };
        *precision = exponent(&token)?;
    }
    out.push(0);
    out.extend_from_slice(&precisions);
    for value in [latitude, longitude, altitude] {
        out.extend_from_slice(&value.to_be_bytes());
    }
    Ok(())
}

fn angle(lexer: &mut Lexer<'_>, degrees_max: u32, plus: u8, minus: u8) -> Parsed<u32> {
    let (mut total, mut unit) = (0, DEGREE);
    loop {
        let token = lexer.plain("degrees, minutes and seconds, and then N, S, E or W")?;
        let direction = token.text.to_ascii_uppercase();
        if unit < DEGREE && (direction == [plus] || direction == [minus]) {
            if total > degrees_max * DEGREE {
                return Err(Trouble::rule(token.at, "there are no such degrees"));
            }
            return Ok(if direction == [plus] { ZERO + total } else { ZERO - total });
        }
        // Degrees, then minutes below 60, then seconds below 60 with up to three decimals.
        let limit = if unit == DEGREE { degrees_max + 1 } else { 60 };
        let decimals = if unit == 1000 { 3 } else { 0 };
        let value = if unit == 0 { None } else { fixed(token.text, decimals) };
        let value = value.and_then(|value| u32::try_from(value).ok());
        let Some(value) = value.filter(|&value| value < limit * 10_u32.pow(decimals)) else {
            let expected = "degrees, minutes and seconds, and then N, S, E or W";
            return Err(Trouble::expected(expected, token.text, token.at));
        };
        total += value * (unit / 10_u32.pow(decimals));
        unit = if unit == 1000 { 0 } else { unit / 60 };
    }
}

/// Parses a number with up to `decimals` decimals, in units of the last of them.
fn fixed(text: &[u8], decimals: u32) -> Option<u64> {
    let dot = memchr::memchr(b'.', text).unwrap_or(text.len());
    let whole = &text[..dot];
    let fraction = text.get(dot + 1..).unwrap_or_default();
    if whole.is_empty() || whole.len() > 9 || fraction.len() > decimals as usize {
        return None;
    }
    let digits = || whole.iter().chain(fraction);
    if !digits().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    Some(value * 10_u64.pow(decimals - u32::try_from(fraction.len()).ok()?))
}

/// Parses metres with up to two decimals and an optional `m`, in centimetres.
fn centimetres(text: &[u8]) -> Option<i64> {
    let text = text.strip_suffix(b"m").unwrap_or(text);
    let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let value = fixed(text, 2)? as i64;
    Some(if negative { -value } else { value })
}

/// Converts a length up to 90,000 km to the wire form: a digit and a power of ten, in centimetres.
fn exponent(token: &Token<'_>) -> Parsed<u8> {
    let expected = "a length in metres from 0 to 90000000";
    let value = centimetres(token.text).filter(|value| (0..=9_000_000_000).contains(value));
    let mut value = value.ok_or_else(|| Trouble::expected(expected, token.text, token.at))?;
    let mut power = 0;
    while value > 9 {
        value /= 10;
        power += 1;
    }
    let digit = u8::try_from(value).expect("one digit is left");
    Ok(digit << 4 | power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> Parsed<Vec<u8>> {
        let mut out = Vec::new();
        read(&mut Lexer::new(text.as_bytes()), &mut out).map(|()| out)
    }

    /// Calculated by hand: 42° 21' 54" are 152,514,000 thousandths of a second.
    #[test]
    fn places_are_written_in_thousandths_of_a_second() {
        let with = |precisions: [u8; 3], latitude: u32, longitude: u32, altitude: u32| {
            let mut out = vec![0];
            out.extend(precisions);
            out.extend([latitude, longitude, altitude].iter().flat_map(|value| value.to_be_bytes()));
            out
        };
        assert_eq!(
            wire("42 21 54 N 71 06 18 W -24m 30m").unwrap(),
            with([0x33, 0x16, 0x13], ZERO + 152_514_000, ZERO - 255_978_000, 9_997_600)
        );
        assert_eq!(
            wire("52 14 05.123 n 0 e 10.5 0.00 1m 100").unwrap(),
            with([0, 0x12, 0x14], ZERO + 188_045_123, ZERO, 10_001_050)
        );
        for bad in [
            "",
            "N",
            "42",
            "42 N 71 W",
            "91 N 0 E 0m",
            "90 0 1 N 0 E 0m",
            "42 60 N 0 E 0m",
            "42 21 54.1234 N 0 E 0m",
            "42 21 54 1 N 0 E 0m",
            "42 N 0 N 0m",
            "42 N 0 E -100000.01",
            "42 N 0 E 0 90000000.01m",
        ] {
            assert!(wire(bad).is_err(), "{bad}");
        }
    }
}
