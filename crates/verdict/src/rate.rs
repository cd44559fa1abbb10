//! Formats rates, the same way in every sentence and table.

/// Queries a second: whole from 10 on, three digits below: `1234567`, `500`, `0.5`.
pub fn plain(qps: f64) -> String {
    if qps.abs() < 9.995 { digits(qps) } else { format!("{qps:.0}") }
}

/// As [`plain`], with thousands separators: `1,234,567`.
pub fn rate(qps: f64) -> String {
    let whole = plain(qps);
    if whole.contains('.') {
        return whole;
    }
    let mut grouped = String::with_capacity(whole.len() + whole.len() / 3);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Thousands of queries a second with one decimal, and three digits below a tenth: `12.3`, `0.005`.
pub fn in_thousands(qps: f64) -> String {
    let thousands = qps / 1e3;
    if thousands == 0.0 || thousands.abs() >= 0.095 { format!("{thousands:.1}") } else { digits(thousands) }
}

/// A number below 10 with three digits, without trailing zeros.
fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let decimals = (2.0 - value.abs().log10().floor()).clamp(2.0, 12.0) as usize;
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_below_ten_have_digits_and_thousands_stand_apart() {
        for (qps, expected) in [
            (0.0, "0"),
            (0.004, "0.004"),
            (1.0 / 3.0, "0.333"),
            (0.5, "0.5"),
            (1.0, "1"),
            (2.25, "2.25"),
            (9.99, "9.99"),
            (9.999, "10"),
            (10.4, "10"),
            (999.0, "999"),
            (123_456.0, "123,456"),
            (1_234_567.4, "1,234,567"),
        ] {
            assert_eq!(rate(qps), expected);
        }
    }

    #[test]
    fn thousands_have_a_decimal_and_few_queries_more() {
        for (qps, expected) in [
            (0.0, "0.0"),
            (5.0, "0.005"),
            (0.5, "0.0005"),
            (94.0, "0.094"),
            (100.0, "0.1"),
            (12_340.0, "12.3"),
        ] {
            assert_eq!(in_thousands(qps), expected);
        }
    }
}
