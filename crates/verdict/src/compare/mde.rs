//! The minimum detectable effect: how far A against itself strays in a block.

/// Fewer blocks of A against itself say nothing of their spread.
const LEAST: usize = 3;

/// The normal distribution's quantile at 97.5 %.
const NORMAL: f64 = 1.959_964;

/// The share by which A differs from itself in 19 blocks of 20, estimated from a few of them: the root mean
/// square of the logarithms of their ratios, about the true ratio of 1, times Student's quantile for as many
/// degrees of freedom as there are blocks. None with fewer than three.
pub fn least_detectable(same: &[Vec<f64>]) -> Option<f64> {
    let logs: Vec<f64> = same.iter().filter_map(|ratios| block_log(ratios)).collect();
    if logs.len() < LEAST {
        return None;
    }
    let mean_square = logs.iter().map(|log| log * log).sum::<f64>() / logs.len() as f64;
    Some((student(logs.len()) * mean_square.sqrt()).exp_m1())
}

/// The logarithm of a block's ratio, the geometric mean of those of its pairs: in an ABBA block a steady drift
/// cancels out of it.
fn block_log(ratios: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).filter(|log: &f64| log.is_finite()).collect();
    (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
}

/// Student's 97.5 % quantile for three or more degrees of freedom, to 1 % (Abramowitz and Stegun, Handbook of
/// Mathematical Functions, 26.7.5).
fn student(freedom: usize) -> f64 {
    let n = freedom as f64;
    let powers = |factors: [f64; 4]| {
        let [first, third, fifth, seventh] = factors;
        first * NORMAL + third * NORMAL.powi(3) + fifth * NORMAL.powi(5) + seventh * NORMAL.powi(7)
    };
    NORMAL
        + powers([1.0, 1.0, 0.0, 0.0]) / (4.0 * n)
        + powers([3.0, 16.0, 5.0, 0.0]) / (96.0 * n.powi(2))
        + powers([-15.0, 17.0, 19.0, 3.0]) / (384.0 * n.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_table() {
        for (freedom, quantile) in [(3, 3.182), (4, 2.776), (6, 2.447), (10, 2.228), (30, 2.042)] {
            assert!((student(freedom) / quantile - 1.0).abs() < 0.01, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn it_is_the_spread_and_no_drift() {
        // Log ratios of ± 1 % in six blocks, whatever the drift within them.
        let same: Vec<Vec<f64>> = [0.01, -0.01, 0.01, -0.01, 0.01, -0.01]
            .iter()
            .map(|log: &f64| vec![(log + 0.3).exp(), (log - 0.3).exp()])
            .collect();
        let mde = least_detectable(&same).unwrap();
        assert!((mde - 0.024_77).abs() < 1e-4, "{mde}");
        assert_eq!(least_detectable(&same[..2]), None);
        assert_eq!(least_detectable(&[vec![], vec![0.0], vec![f64::NAN]]), None);
    }
}
