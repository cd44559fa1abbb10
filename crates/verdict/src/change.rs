//! Puts ratios into words as changes: in percent, or as factors once they are large. A reader sees at once what "79.5 times"
//! is, and has to convert "+7850 %".
//!
//! The texts hold plain spaces and hyphens, for terminals. [`typeset`] converts them for pages.

use crate::percent;
use crate::rate;

/// A change to this many times as much, and any greater one, is a factor.
const FACTOR_FROM: f64 = 2.0;

/// A change to less than this share is a fraction: `-99.9 %` hides whether a thousandth is left or a hundred thousandth.
const FRACTION_BELOW: f64 = 0.01;

/// How a change and its interval are put into words. All ratios of one change have one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `+12.3 %`, `-80.0 %`.
    Percent,
    /// `3.40 times`, `1/930`.
    Factor,
}

impl Form {
    /// The form for these ratios: the estimate, and the ends of its interval if it has one. One that is large decides for all.
    pub fn from_ratios(ratios: &[f64]) -> Self {
        let is_large = |ratio: &f64| *ratio >= FACTOR_FROM || *ratio < FRACTION_BELOW;
        if ratios.iter().any(is_large) { Self::Factor } else { Self::Percent }
    }

    /// A ratio as a change: `+12.3 %`, `-80.0 %`, `3.40 times`, `1/930`.
    pub fn change(self, ratio: f64) -> String {
        match self {
            Self::Percent => format!("{} %", signed(ratio)),
            Self::Factor if ratio < FRACTION_BELOW => times(ratio),
            Self::Factor => format!("{} times", times(ratio)),
        }
    }

    /// An interval of ratios: `-2.0 % to +12.3 %`, `3.10 to 3.70 times`.
    pub fn range(self, low: f64, high: f64) -> String {
        match self {
            Self::Factor if high >= FRACTION_BELOW => format!("{} to {} times", times(low), times(high)),
            _ => format!("{} to {}", self.change(low), self.change(high)),
        }
    }
}

/// A ratio without an interval as a change.
pub fn change(ratio: f64) -> String {
    Form::from_ratios(&[ratio]).change(ratio)
}

/// The size of a difference, such as an MDE, from a share (0.02 is 2 %): `2.0 %`, or `a factor of 2.30` if it doubles a figure
/// or more. `decimals` is the number of decimals of a percentage.
pub fn difference(share: f64, decimals: usize) -> String {
    match Form::from_ratios(&[1.0 + share]) {
        Form::Percent => format!("{} %", percent::fixed(share, decimals)),
        Form::Factor => format!("a factor of {}", times(1.0 + share)),
    }
}

/// Bounds around equality as far as such a difference: `± 0.18 %`, or `a factor of 2.30`.
pub fn within(share: f64, decimals: usize) -> String {
    let sign = if Form::from_ratios(&[1.0 + share]) == Form::Percent { "± " } else { "" };
    format!("{sign}{}", difference(share, decimals))
}

/// A factor with three digits, or a fraction: `3.40`, `79.5`, `930`, `0.32`, `1/930`.
pub fn times(ratio: f64) -> String {
    match ratio {
        ..1e-9 => "0".into(),
        ..FRACTION_BELOW => format!("1/{}", rate::rate(1.0 / ratio)),
        ..0.0995 => format!("{ratio:.3}"),
        ..9.995 => format!("{ratio:.2}"),
        ..99.95 => format!("{ratio:.1}"),
        _ => rate::rate(ratio),
    }
}

/// The words as pages print them: with spaces that do not break, and with the minus sign.
pub fn typeset(words: &str) -> String {
    words.replace(" %", "\u{a0}%").replace(" times", "\u{a0}times").replace('-', "\u{2212}")
}

/// A change in percent with its sign; one that rounds to nothing has none.
fn signed(ratio: f64) -> String {
    let text = format!("{:+.1}", (ratio - 1.0) * 100.0);
    if text.ends_with("0.0") && text.len() == 4 { "0.0".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_factor_from_twice_as_much_on() {
        for (ratio, expected) in [
            (1.123, "+12.3 %"),
            (0.999_9, "0.0 %"),
            (1.0, "0.0 %"),
            (1.1, "+10.0 %"),
            (1.999, "+99.9 %"),
            (2.0, "2.00 times"),
            (3.4, "3.40 times"),
            (79.523, "79.5 times"),
            (930.104, "930 times"),
            (12_345.0, "12,345 times"),
            (0.5, "-50.0 %"),
            (0.2, "-80.0 %"),
            (0.011, "-98.9 %"),
            (1.0 / 930.0, "1/930"),
            (0.0, "0"),
        ] {
            assert_eq!(change(ratio), expected, "{ratio}");
        }
    }

    #[test]
    fn an_interval_has_the_form_of_its_change() {
        let range = |low: f64, ratio: f64, high: f64| Form::from_ratios(&[low, ratio, high]).range(low, high);
        assert_eq!(range(0.98, 1.05, 1.123), "-2.0 % to +12.3 %");
        assert_eq!(range(0.1, 0.2, 0.4), "-90.0 % to -60.0 %");
        assert_eq!(range(3.1, 3.4, 3.7), "3.10 to 3.70 times");
        // The high end decides for both.
        assert_eq!(range(0.95, 1.5, 2.4), "0.95 to 2.40 times");
        assert_eq!(Form::from_ratios(&[0.95, 1.5, 2.4]).change(1.5), "1.50 times");
        assert_eq!(range(1.0 / 1250.0, 1.0 / 1000.0, 1.0 / 800.0), "1/1,250 to 1/800");
        assert_eq!(range(0.005, 0.5, 2.5), "1/200 to 2.50 times");
    }

    #[test]
    fn a_difference_has_no_sign() {
        assert_eq!(difference(0.0234, 1), "2.3 %");
        assert_eq!(difference(0.001_8, 2), "0.18 %");
        assert_eq!(difference(1.3, 1), "a factor of 2.30");
        assert_eq!([0.001_8, 1.3].map(|share| within(share, 2)), ["± 0.18 %", "a factor of 2.30"]);
    }

    #[test]
    fn pages_have_a_minus_sign_and_spaces_that_do_not_break() {
        assert_eq!(typeset("-2.0 % to +12.3 %"), "\u{2212}2.0\u{a0}% to +12.3\u{a0}%");
        assert_eq!(typeset("3.10 to 3.70 times"), "3.10 to 3.70\u{a0}times");
    }
}
