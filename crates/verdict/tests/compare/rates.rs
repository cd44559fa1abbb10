//! How often the rule is right, counted over simulated hosts.

use kqps_verdict::compare::{ERROR_RATE, Outcome};
use kqps_verdict::interval::bootstrap_ratio;

use crate::simulate::{Host, Session};

const COMPARISONS: u64 = 300;

/// The default number of blocks.
const BLOCKS: usize = 6;

fn share_of(happens: impl Fn(u64) -> bool) -> f64 {
    (0..COMPARISONS).filter(|seed| happens(*seed)).count() as f64 / COMPARISONS as f64
}

#[test]
fn equals_are_seldom_called_different() {
    let drifting = Host { drift: 1.0, ..Host::REAL };
    let wandering = Host { walk: 1.0, ..Host::CALM };
    for host in [Host::CALM, Host::REAL, drifting, wandering, Host { spread: 0.03, ..Host::REAL }] {
        let wrong = share_of(|seed| Session::new(host, seed).compare(BLOCKS, 1.0).outcome.is_different());
        assert!(wrong <= ERROR_RATE, "{host:?}: {wrong}");
    }
}

/// On a host where about half of all comparisons have an MDE below 5 %, a loss of 5 % is about as large as what
/// can be detected.
#[test]
fn a_loss_as_large_as_the_mde_is_found() {
    for host in [Host { spread: 0.02, ..Host::CALM }, Host { spread: 0.017, ..Host::REAL }] {
        let compared = (0..COMPARISONS).map(|seed| Session::new(host, seed).compare(BLOCKS, 0.95));
        let clear: Vec<_> = compared.filter(|it| it.mde.is_some_and(|mde| mde < 0.05)).collect();
        let found = clear.iter().filter(|it| it.outcome == Outcome::Slower).count();
        assert!(clear.len() as f64 > COMPARISONS as f64 * 0.3, "{host:?}: {}", clear.len());
        assert!(found as f64 >= clear.len() as f64 * 0.95, "{host:?}: {found} of {}", clear.len());
    }
}

#[test]
fn a_quarter_of_the_mde_is_not_claimed() {
    // Its MDE is 2 % on average.
    for host in [Host { spread: 0.0085, ..Host::CALM }, Host { spread: 0.0085, ..Host::REAL }] {
        let claimed = share_of(|seed| Session::new(host, seed).compare(BLOCKS, 0.995).outcome.is_different());
        assert!(claimed <= ERROR_RATE, "{host:?}: {claimed}");
    }
}

/// Why the interval is not the bootstrap's alone.
#[test]
fn the_bootstrap_of_six_blocks_is_wrong_too_often() {
    let wrong = share_of(|seed| {
        let blocks = Session::new(Host::CALM, seed).blocks(BLOCKS, 1.0);
        bootstrap_ratio(&blocks, 1.0 - ERROR_RATE, seed).is_some_and(|it| it.low > 1.0 || it.high < 1.0)
    });
    assert!(wrong > 2.0 * ERROR_RATE, "{wrong}");
}
