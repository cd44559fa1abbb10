//! How far a server scales: the Universal Scalability Law, fitted to its rates by the number of workers (Gunther,
//! "Guerrilla Capacity Planning", 2007, chapters 4 to 6). Pure functions of rates and a seed.
//!
//! The law has three unknowns: the rate of one worker, contention (what workers do one after the other) and
//! coherency (what each pair of workers costs). Their intervals come from a bootstrap over starts. A rate beyond the
//! workers that were measured has an interval, or it is not given.

mod bootstrap;
mod fit;
mod law;
mod least_squares;
mod predictor;
mod scatter;
mod series;
mod words;

pub use fit::{Peak, PeakRange, Range, Ranged, RatesAt, ScalingFit, fit};
pub use law::Law;
pub use predictor::Prediction;
pub use series::{ScalingSeries, ScalingSize, of_run, series_of};
pub use words::{constant, player_limited, refusals, sentence, workers};

/// The fewest numbers of workers for a fit. The law passes through any three.
pub const SIZES_LEAST: usize = 4;
