//! The median of a few values.

/// The median of the finite ones among these values; `None` if there are none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    median_of(&mut values)
}

/// The median of these finite values, whose order it changes; `None` if there are none.
pub(crate) fn median_of(sorted: &mut [f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    if sorted.is_empty() {
        return None;
    }
    let is_even = sorted.len().is_multiple_of(2);
    let (below, upper, _) = sorted.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp).filter(|_| is_even);
    Some(lower.map_or(*upper, |lower| f64::midpoint(lower, *upper)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_middle_of_an_odd_number_and_the_mean_of_two_of_an_even_one() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 3.0, f64::NAN, 2.0]), Some(2.5));
        assert_eq!((median([7.0]), median([f64::INFINITY])), (Some(7.0), None));
    }
}
