//! Axes: from a value to its place, with ticks at round numbers.

/// An axis from 0, for lengths that are compared by eye.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Linear {
    /// The end of the axis; above 0.
    pub(super) max: f64,
    /// Ticks from 0, with a step of 1, 2 or 5 times a power of ten.
    pub(super) ticks: Vec<f64>,
}

impl Linear {
    /// An axis from 0 to `highest` with at most `most` ticks beyond 0.
    pub(super) fn upto(highest: f64, most: u32) -> Self {
        let highest = if highest.is_finite() && highest > 0.0 { highest } else { 1.0 };
        let rough = highest / f64::from(most.max(1));
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|digit| digit * power)
            // A small tolerance, so that 100 / 4 * 4 still counts as 4 steps.
            .find(|step| *step >= rough * (1.0 - 1e-9))
            .unwrap_or(10.0 * power);
        let steps = (highest / step * (1.0 + 1e-9)).floor();
        let steps = u32::try_from(steps as u64).unwrap_or(u32::MAX);
        Self { max: highest, ticks: (0..=steps).map(|index| f64::from(index) * step).collect() }
    }

    /// The place of a value, from 0 to 1; a value beyond the axis lies at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        if value.is_finite() { (value / self.max).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A logarithmic axis, for times that span decades.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Log {
    low: f64,
    high: f64,
    /// Powers of ten; on a short axis also 2 and 5 times these.
    pub(super) ticks: Vec<f64>,
}

impl Log {
    /// An axis of at least a decade over these values. Values that are not finite and above 0 are left
    /// out.
    pub(super) fn over(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        if high <= 0.0 {
            (low, high) = (1.0, 10.0);
        }
        let steps: Vec<f64> =
            (-3..13).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power))).collect();
        low = steps.iter().rev().copied().find(|step| *step <= low * 1.000_001).unwrap_or(low);
        high = steps.iter().copied().find(|step| *step >= high / 1.000_001).unwrap_or(high);
        high = high.max(low * 10.0);
        let few = high / low > 150.0;
        let ticks = steps.into_iter().filter(|step| *step >= low / 1.001 && *step <= high * 1.001);
        let ticks = ticks.filter(|step| !few || (step.log10() - step.log10().round()).abs() < 1e-6);
        Self { low, high, ticks: ticks.collect() }
    }

    /// The place of a value, from 0 (lowest) to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        if !value.is_finite() || value <= self.low {
            return 0.0;
        }
        ((value / self.low).ln() / (self.high / self.low).ln()).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn ticks_are_numbers_a_person_would_choose() {
        for (highest, expected) in [
            (480_000.0, vec![0.0, 200_000.0, 400_000.0]),
            (100.0, vec![0.0, 50.0, 100.0]),
            (0.8, vec![0.0, 0.2, 0.4, 0.6, 0.8]),
            (1.0, vec![0.0, 0.5, 1.0]),
            (6.3e6, vec![0.0, 2e6, 4e6, 6e6]),
        ] {
            let axis = Linear::upto(highest, 4);
            assert_eq!(axis.ticks.len(), expected.len(), "{highest}: {:?}", axis.ticks);
            assert!(axis.ticks.iter().zip(&expected).all(|(a, b)| close(*a, *b)), "{:?}", axis.ticks);
        }
    }

    #[test]
    fn an_axis_of_nothing_still_has_a_length() {
        for highest in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let axis = Linear::upto(highest, 4);
            assert!(close(axis.max, 1.0));
            assert!(close(axis.place(f64::NAN), 0.0));
        }
    }

    #[test]
    fn decades_are_equally_long() {
        let axis = Log::over([20.0, 1e6].into_iter());
        assert_eq!(axis.ticks.len(), 5, "{:?}", axis.ticks);
        let decade = axis.place(1e4) - axis.place(1e3);
        assert!(close(axis.place(1e5) - axis.place(1e4), decade));
        assert!(close(axis.place(20.0), 0.0) && close(axis.place(1e6), 1.0));
        assert!(close(axis.place(0.0), 0.0) && close(axis.place(f64::NAN), 0.0));
    }

    #[test]
    fn one_figure_gets_a_decade() {
        let axis = Log::over([30.0].into_iter());
        assert_eq!(axis.ticks.len(), 4, "{:?}", axis.ticks);
        assert!(Log::over(std::iter::empty()).ticks.len() > 1);
    }
}
