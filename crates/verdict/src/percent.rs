//! Formats shares as percentages, the same way in every sentence and table. The sign is the caller's.

/// As a person types a share: up to six decimals, without trailing zeros and without the noise of binary fractions:
/// `2`, `0.1`.
pub fn typed(share: f64) -> String {
    ((share * 1e8).round() / 1e6).to_string()
}

/// With this many decimals: `0.100`.
pub fn fixed(share: f64, decimals: usize) -> String {
    format!("{:.decimals$}", share * 100.0)
}

/// With one decimal below 10, and whole from there on: `0.4`, `45`.
pub fn short(share: f64) -> String {
    fixed(share, usize::from(share * 100.0 < 9.95))
}

/// With this many decimals, or with up to three more if it would look equal to the limit that is printed beside it.
pub fn beside(share: f64, limit: f64, decimals: usize) -> String {
    let differs = |decimals: &usize| fixed(share, *decimals) != fixed(limit, *decimals);
    fixed(share, (decimals..decimals + 4).find(differs).unwrap_or(decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_shares_have_no_dust() {
        assert_eq!([0.001, 0.0001, 0.02, 0.07, 0.0].map(typed), ["0.1", "0.01", "2", "7", "0"]);
    }

    #[test]
    fn short_shares_have_two_digits() {
        let said = [0.0, 0.004, 0.0994, 0.0996, 0.45, 1.02].map(short);
        assert_eq!(said, ["0.0", "0.4", "9.9", "10", "45", "102"]);
    }

    #[test]
    fn what_is_over_a_limit_does_not_look_like_the_limit() {
        let stolen = |share| beside(share, 0.001, 2);
        assert_eq!([0.002, 0.001_04, 0.001_004, 0.000_96].map(stolen), ["0.20", "0.104", "0.1004", "0.096"]);
        assert_eq!([0.0, 0.001].map(stolen), ["0.00", "0.10"]);
        assert_eq!(beside(0.020_3, 0.02, 1), "2.03");
        assert_eq!(beside(0.5, 0.02, 1), "50.0");
    }
}
