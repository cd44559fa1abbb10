//! Formats figures, the same everywhere on the page: three significant digits and a unit that keeps the
//! number below a thousand. A figure that is absent or not finite is a dash.

use kqps_observation::{Percentile, cpu_list};
use time::OffsetDateTime;
use time::macros::format_description;

/// Stands for an absent figure.
pub(crate) const NONE: &str = "–";

/// Queries a second: `213k q/s`, `1.24M q/s`.
pub(crate) fn rate(qps: f64) -> String {
    match scaled(qps) {
        Some((digits, prefix)) => format!("{digits}{prefix}\u{a0}q/s"),
        None => NONE.to_owned(),
    }
}

/// Queries a second on an axis, without trailing zeros: `200k q/s`.
pub(crate) fn rate_tick(qps: f64) -> String {
    let text = tick(qps);
    if qps == 0.0 || text == NONE { text } else { format!("{text}\u{a0}q/s") }
}

/// A count on an axis: `200k`, `1.2M`.
pub(crate) fn tick(value: f64) -> String {
    match scaled(value) {
        Some((digits, prefix)) => {
            let digits = if digits.contains('.') {
                digits.trim_end_matches('0').trim_end_matches('.')
            } else {
                &digits
            };
            format!("{digits}{prefix}")
        }
        None => NONE.to_owned(),
    }
}

/// An interval of rates: `205k to 219k q/s`.
pub(crate) fn rate_interval(low_qps: f64, high_qps: f64) -> String {
    let (low, high) = (rate(low_qps), rate(high_qps));
    let digits = low.split_once('\u{a0}').map_or(&*low, |(digits, _)| digits);
    format!("{digits} to {high}")
}

/// Microseconds: `87 µs`, `1.24 ms`, `1.00 s`.
pub(crate) fn time_us(time_us: f64) -> String {
    if !time_us.is_finite() {
        return NONE.to_owned();
    }
    // From 999.5 on the next unit is used, since rounding would print 1000.
    if time_us < 999.5 {
        format!("{}\u{a0}µs", significant(time_us).trim_end_matches(".00").trim_end_matches(".0"))
    } else if time_us < 999_500.0 {
        format!("{}\u{a0}ms", significant(time_us / 1e3))
    } else {
        format!("{}\u{a0}s", significant(time_us / 1e6))
    }
}

/// Microseconds, if they are known.
pub(crate) fn known_us(time: Option<u64>) -> String {
    time.map_or(NONE.to_owned(), |us| time_us(us as f64))
}

/// A percentile: `87 µs`, by its bound `≤ 87 µs`, or as the greatest of too few times `greatest 87 µs`.
pub(crate) fn percentile(seen: Option<Percentile>) -> String {
    let time = |us: u64| time_us(us as f64);
    match seen {
        None => NONE.to_owned(),
        Some(Percentile::Is(us)) => time(us),
        Some(Percentile::AtMost(us)) => format!("≤\u{a0}{}", time(us)),
        Some(Percentile::Greatest(us)) => format!("greatest\u{a0}{}", time(us)),
    }
}

/// Microseconds on an axis, without trailing zeros: `1 ms`.
pub(crate) fn time_tick(value_us: f64) -> String {
    let text = time_us(value_us);
    match text.split_once('\u{a0}') {
        Some((digits, unit)) if digits.contains('.') => {
            format!("{}\u{a0}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// Seconds, as a person says them: `0.50 s`, `21 s`, `2 min 5 s`.
pub(crate) fn duration_s(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NONE.to_owned();
    }
    if seconds < 9.995 {
        return format!("{seconds:.2}\u{a0}s");
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}\u{a0}s"),
        (0, _) if rest == 0 => format!("{minutes}\u{a0}min"),
        (0, _) => format!("{minutes}\u{a0}min {rest}\u{a0}s"),
        _ => format!("{hours}\u{a0}h {minutes}\u{a0}min"),
    }
}

/// CPU seconds with three digits, however many they are: `0.85 s`, `16.8 s`, `125 s`.
pub(crate) fn cpu_s(seconds: f64) -> String {
    if seconds.is_finite() { format!("{}\u{a0}s", significant(seconds)) } else { NONE.to_owned() }
}

/// A share from 0 to 1: `46 %`, `1.2 %`, `99.98 %`. It is never rounded to 0 % or 100 % unless it is exactly
/// that.
pub(crate) fn percent(share: f64) -> String {
    if !share.is_finite() {
        return NONE.to_owned();
    }
    let percent = share * 100.0;
    // Digits matter near 0, and between 99 and 100.
    let small = if (99.0..100.0).contains(&percent) { 100.0 - percent } else { percent.abs() };
    let decimals = match small {
        0.0 => 0,
        edge if edge >= 9.95 => 0,
        edge if edge >= 0.995 => 1,
        edge if edge >= 0.0995 => 2,
        edge if edge >= 0.001 => 3,
        _ if percent < 50.0 => return "<\u{a0}0.001\u{a0}%".to_owned(),
        _ => return ">\u{a0}99.999\u{a0}%".to_owned(),
    };
    format!("{percent:.decimals$}\u{a0}%")
}

/// A share on an axis: `50 %`.
pub(crate) fn percent_tick(share: f64) -> String {
    if share.is_finite() { format!("{:.0}\u{a0}%", share * 100.0) } else { NONE.to_owned() }
}

/// The share of a core's time: `97 %`, `< 1 %`. The kernel counts too coarsely for more digits.
pub(crate) fn busy(share: f64) -> String {
    match share * 100.0 {
        percent if !percent.is_finite() => NONE.to_owned(),
        percent if percent > 0.0 && percent < 1.0 => "<\u{a0}1\u{a0}%".to_owned(),
        percent => format!("{percent:.0}\u{a0}%"),
    }
}

/// A whole number with narrow spaces between groups of three digits.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// How many there are of a thing: `1 trial`, `3 trials`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Bytes: `561 MiB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 { value.to_string() } else { significant(scaled) };
    format!("{digits}\u{a0}{}", UNITS[unit])
}

/// A moment in UTC: `2026-11-21 22:05:09 UTC`.
pub(crate) fn moment(unix_ms: u64) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    i64::try_from(unix_ms / 1000)
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .and_then(|moment| moment.format(format).ok())
        .unwrap_or_else(|| NONE.to_owned())
}

/// Core numbers as ranges: `0, 2-5`.
pub(crate) fn cpus(cpus: &[u32]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let text = |(first, last): (u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let joined = cpu_list::runs(&sorted).into_iter().map(text).collect::<Vec<_>>().join(", ");
    if joined.is_empty() { NONE.to_owned() } else { joined }
}

/// Quotes words as a shell command. Words that no shell takes, since one has a zero byte, stay as they are. Stores of
/// earlier versions have command lines with their secrets, which no page shows.
pub(crate) fn command(words: &[String]) -> String {
    let words = kqps_observation::secret::masked(words);
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// At most `longest` characters. If the text was longer, the last one is an ellipsis.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let kept: String = text.chars().take(longest.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Three significant digits and the decimal prefix; `None` if the value is not finite.
fn scaled(value: f64) -> Option<(String, &'static str)> {
    if !value.is_finite() {
        return None;
    }
    Some(match value.abs() {
        size if size > 0.0 && size < 0.0995 => (small(value), ""),
        size if size < 999.5 => {
            let text = significant(value);
            (text.trim_end_matches(".00").trim_end_matches(".0").to_owned(), "")
        }
        size if size < 999_500.0 => (significant(value / 1e3), "k"),
        size if size < 999_500_000.0 => (significant(value / 1e6), "M"),
        _ => (significant(value / 1e9), "G"),
    })
}

/// Three significant digits of a number below a tenth, however small, without trailing zeros.
fn small(value: f64) -> String {
    let decimals = 2.0 - value.abs().log10().floor();
    let text = format!("{value:.0$}", decimals.clamp(3.0, 12.0) as usize);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    // No measured figure is smaller.
    if text.trim_start_matches('-') == "0" { "0".to_owned() } else { text.to_owned() }
}

/// Three significant digits of a number below a thousand.
fn significant(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace(['\u{a0}', '\u{202f}'], " ")
    }

    #[test]
    fn rates_have_three_digits_and_a_unit() {
        for (qps, expected) in [
            (0.0, "0 q/s"),
            (0.004, "0.004 q/s"),
            (0.000_123_45, "0.000123 q/s"),
            (0.0999, "0.10 q/s"),
            (0.05, "0.05 q/s"),
            (1e-15, "0 q/s"),
            (0.5, "0.50 q/s"),
            (980.0, "980 q/s"),
            (999.6, "1.00k q/s"),
            (21_340.0, "21.3k q/s"),
            (213_400.0, "213k q/s"),
            (999_600.0, "1.00M q/s"),
            (1_240_000.0, "1.24M q/s"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(plain(&rate(qps)), expected);
        }
        assert_eq!(plain(&rate_interval(205_000.0, 219_000.0)), "205k to 219k q/s");
        assert_eq!(plain(&rate_interval(905_000.0, 1_100_000.0)), "905k to 1.10M q/s");
        assert_eq!(plain(&tick(1_200_000.0)), "1.2M");
        assert_eq!(plain(&tick(200_000.0)), "200k");
        assert_eq!(plain(&tick(50_000.0)), "50k");
        assert_eq!(plain(&rate_tick(50_000.0)), "50k q/s");
        assert_eq!(plain(&rate_tick(0.0)), "0");
    }

    #[test]
    fn a_percentile_of_few_times_is_no_estimate() {
        for (seen, text) in [
            (None, "–"),
            (Some(Percentile::Is(87)), "87\u{a0}µs"),
            (Some(Percentile::AtMost(3_100)), "≤\u{a0}3.10\u{a0}ms"),
            (Some(Percentile::Greatest(87)), "greatest\u{a0}87\u{a0}µs"),
        ] {
            assert_eq!(percentile(seen), text);
        }
    }

    #[test]
    fn times_and_durations() {
        assert_eq!(plain(&time_us(87.0)), "87 µs");
        assert_eq!(plain(&time_us(1_240.0)), "1.24 ms");
        assert_eq!(plain(&time_us(1_000_000.0)), "1.00 s");
        assert_eq!(plain(&time_tick(1_000.0)), "1 ms");
        assert_eq!(plain(&time_tick(100_000.0)), "100 ms");
        assert_eq!(plain(&duration_s(0.5)), "0.50 s");
        assert_eq!(plain(&duration_s(125.0)), "2 min 5 s");
        assert_eq!([0.853, 16.76, 125.0].map(cpu_s).map(|text| plain(&text)), ["0.85 s", "16.8 s", "125 s"]);
        assert_eq!(plain(&duration_s(7_260.0)), "2 h 1 min");
    }

    #[test]
    fn a_share_is_not_rounded_away() {
        for (share, expected) in [
            (0.0, "0 %"),
            (1.0, "100 %"),
            (0.461, "46 %"),
            (0.899_999_9, "90 %"),
            (0.98, "98 %"),
            (0.9998, "99.980 %"),
            (0.995, "99.50 %"),
            (0.0123, "1.2 %"),
            (0.000_04, "0.004 %"),
            (0.000_001, "< 0.001 %"),
            (0.999_999_9, "> 99.999 %"),
            (1.04, "104 %"),
        ] {
            assert_eq!(plain(&percent(share)), expected, "{share}");
        }
    }

    #[test]
    fn cpu_shares_are_whole() {
        assert_eq!(plain(&busy(0.995)), "100 %");
        assert_eq!(plain(&busy(0.002)), "< 1 %");
        assert_eq!(plain(&busy(0.0)), "0 %");
    }

    #[test]
    fn counts_bytes_cores_and_moments() {
        assert_eq!(plain(&count(1_234_567)), "1 234 567");
        assert_eq!(plain(&count(999)), "999");
        assert_eq!(plain(&bytes(561 << 20)), "561 MiB");
        assert_eq!(cpus(&[5, 0, 3, 4, 2]), "0, 2-5");
        assert_eq!(moment(1_000), "1970-01-01 00:00:01 UTC");
    }

    #[test]
    fn a_command_survives_the_shell() {
        let words = ["kqps", "run", "my study.toml", "it's", "", "--command", "x -p {port}", "a=b,c"];
        let words = words.map(str::to_owned);
        assert_eq!(shlex::split(&command(&words)), Some(words.to_vec()));
        assert_eq!(command(&words[..3]), "kqps run 'my study.toml'");
        assert_eq!(command(&["a\0".to_owned(), "b c".to_owned()]), "a\0 b c");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shortened("échoécho", 5), "écho…");
        assert_eq!(shortened("écho", 4), "écho");
    }
}
