//! Factors of a cell that several parts of the lab read.

/// The factor of a cell with the shares of its figure at which latency is measured, in percent.
pub const LATENCY_FACTOR: &str = "latency_at_percent";

/// The factor of a cell with the number of trials in each of its starts.
pub const ROUNDS_FACTOR: &str = "rounds";

/// The factor with a subject's niceness, a setting of the host that ends with its processes.
pub(crate) const NICE_FACTOR: &str = "host.nice";

/// Parses a niceness (setpriority(2)), or returns the accepted values as an error.
pub(crate) fn niceness(word: &str) -> Result<i32, String> {
    let number = word.parse().ok().filter(|number| (-20..=19).contains(number));
    number.ok_or_else(|| format!("factor `{NICE_FACTOR}`: expected a number from -20 to 19, found `{word}`"))
}
