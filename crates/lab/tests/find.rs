//! Searches as `kqps find` makes them, on a simulated host that stands still now and then: their figures are
//! neither too low nor too high.

use std::convert::Infallible;

use fastrand::Rng;
use kqps_lab::search::{refine, run};
use kqps_observation::Trial;
use kqps_testbed::trial_request::{RequestedPace, TrialRequest};
use kqps_verdict::estimate::{Speed, of_search};
use kqps_verdict::search::{Preset, Start};

#[path = "../../verdict/tests/estimate/host.rs"]
mod host;
#[path = "../../verdict/tests/estimate/played.rs"]
mod played;

use host::{Host, Kind};
use played::Stage;

/// The figure of one search on a host with a stall of 1 to 5 ms once a second, as a share of the subject's true
/// rate.
fn figure(seed: u64) -> f64 {
    let mut rng = Rng::with_seed(seed);
    let goal = Preset::Quick.goal();
    let capacity_qps = 60_000.0 * 4f64.powf(rng.f64());
    let host = Host::new(&mut rng, Kind { stands_still: true, ..Kind::QUIET });
    let mut stage = Stage::new(rng, host, 1.0);
    let mut play = |request: &TrialRequest| -> Result<Trial, Infallible> {
        let wanted_qps = match request.pace {
            RequestedPace::Open { rate_qps } => Some(rate_qps),
            RequestedPace::Closed => None,
        };
        Ok(stage.play(capacity_qps, wanted_qps, request.duration_s))
    };
    let mut played = Vec::new();
    let Ok(found) = run(&goal, &Start::default(), &mut played, &|| 0.0, &mut play);
    let Ok(()) = refine(&goal, &found, &mut played, &|| 0.0, &mut play);
    let facts: Vec<_> = played.iter().map(kqps_testbed::trial_request::Played::facts).collect();
    let estimate = of_search(&goal, &facts, Speed::Reference).expect("the trials bound a rate");
    estimate.interval().median / capacity_qps
}

#[test]
fn the_median_of_a_hundred_searches_on_a_host_that_stands_still_is_what_the_subject_answers() {
    let of_half = |first: u64| (first..100).step_by(2).map(figure).collect::<Vec<_>>();
    let mut figures = std::thread::scope(|scope| {
        let other = scope.spawn(|| of_half(1));
        [of_half(0), other.join().expect("no search panics")].concat()
    });
    figures.sort_by(f64::total_cmp);
    let median = f64::midpoint(figures[49], figures[50]);
    println!(
        "the median is {median:.4} of the truth, nine in ten lie from {:.4} to {:.4}",
        figures[5], figures[94]
    );
    assert!((median - 1.0).abs() <= 0.01, "{median}");
}
