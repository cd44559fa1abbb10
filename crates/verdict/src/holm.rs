//! Holm's step-down correction: the more comparisons are made together, the stricter each one is.
//!
//! The comparison that is least likely among equals must meet the error rate divided by the number of
//! comparisons, the next one the error rate divided by one less, and so on until one fails. All after it must
//! meet the bound of the one that failed. The interval of a comparison at its bound then excludes equality only
//! if Holm's procedure rejects it. (S. Holm, A Simple Sequentially Rejective Multiple Test Procedure,
//! Scandinavian Journal of Statistics 6, 1979.)

/// The error rate of each comparison, in the order of `chances`. A chance is the probability, among equals, of
/// a result as extreme as the one seen.
pub fn error_rates(chances: &[f64], error_rate: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut rates = vec![error_rate; chances.len()];
    let mut failed_at = None;
    for (rank, &index) in order.iter().enumerate() {
        let rate = failed_at.unwrap_or(error_rate / (chances.len() - rank) as f64);
        if chances[index] > rate {
            failed_at = Some(rate);
        }
        rates[index] = rate;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(chances: &[f64]) -> Vec<i64> {
        error_rates(chances, 0.05).iter().map(|rate| (rate * 1e5).round() as i64).collect()
    }

    #[test]
    fn each_step_is_easier_until_one_fails() {
        assert_eq!(rounded(&[0.04]), [5_000]);
        assert_eq!(rounded(&[0.01, 0.04, 0.03, 0.005]), [1_667, 2_500, 2_500, 1_250]);
        assert_eq!(rounded(&[0.02, 0.02, 0.02]), [1_667; 3], "none is sure enough for the first step");
        assert!(rounded(&[]).is_empty());
    }
}
