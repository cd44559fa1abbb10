//! The centre of figures, robust against outliers.

/// The geometric form of the Hodges-Lehmann estimate: the median of the means of all pairs, each figure with
/// itself included. A few outliers do not move it, and without outliers it is nearly as efficient as a mean
/// (Annals of Mathematical Statistics 34, 1963). `None` without a figure above 0.
pub(super) fn middle(figures: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = figures.iter().map(|figure| figure.ln()).filter(|log| log.is_finite()).collect();
    let mut means: Vec<f64> = Vec::with_capacity(logs.len() * (logs.len() + 1) / 2);
    for (at, one) in logs.iter().enumerate() {
        means.extend(logs[at..].iter().map(|other| f64::midpoint(*one, *other)));
    }
    if means.is_empty() {
        return None;
    }
    let (half, odd) = (means.len() / 2, means.len() % 2);
    let (below, upper, _) = means.select_nth_unstable_by(half, f64::total_cmp);
    let upper = *upper;
    let lower = if odd == 1 { upper } else { below.iter().copied().fold(f64::NEG_INFINITY, f64::max) };
    Some(f64::midpoint(lower, upper).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_move_it() {
        let is = |figures: &[f64], wanted: f64| {
            let found = middle(figures).unwrap();
            assert!((found / wanted - 1.0).abs() < 1e-9, "{figures:?}: {found}");
        };
        is(&[7.0], 7.0);
        is(&[1.0, 4.0], 2.0);
        // The means of 1, 2, 4 are 1, 1.41, 2, 2, 2.83, 4.
        is(&[4.0, 1.0, 2.0], 2.0);
        is(&[10.0, 10.0, 10.0, 10.0, 10.0, 0.001, 500.0], 10.0);
        assert_eq!(middle(&[0.0, f64::NAN]), None);
    }
}
