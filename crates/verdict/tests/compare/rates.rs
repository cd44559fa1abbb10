//! How often the rule is right, counted over simulated hosts.

use kqps_verdict::compare::{COARSE, Comparison, ERROR_RATE, Outcome};

use super::simulate::{Host, Session};

const COMPARISONS: u64 = 1_000;

/// The default number of blocks, and the least.
const BLOCKS: usize = 10;
const LEAST: usize = 6;

fn compared(host: Host, blocks: usize, share: f64) -> Vec<Comparison> {
    (0..COMPARISONS).map(|seed| Session::new(host, seed).compare(blocks, share)).collect()
}

fn share_of(compared: &[Comparison], is_so: impl Fn(&Comparison) -> bool) -> f64 {
    compared.iter().filter(|one| is_so(one)).count() as f64 / compared.len() as f64
}

#[test]
fn equals_are_seldom_called_different_and_mostly_equivalent_unless_the_mde_is_coarse() {
    let restless = Host { of_b: 3.0, ..Host::CALM };
    for host in [Host::CALM, Host::REAL, restless, Host { spread: 0.03, ..Host::REAL }] {
        for blocks in [LEAST, BLOCKS] {
            let compared = compared(host, blocks, 1.0);
            let different = share_of(&compared, |one| one.outcome.is_different());
            assert!(different <= ERROR_RATE, "{host:?}, {blocks} blocks: {different}");
            let is_coarse = |one: &Comparison| one.mde.is_some_and(|mde| mde > COARSE);
            let undecided = share_of(&compared, |one| one.sees_no_less_than().is_some());
            let equivalent = share_of(&compared, |one| one.outcome == Outcome::Equivalent);
            assert!(equivalent + undecided >= 0.95, "{host:?}, {blocks} blocks: {equivalent}, {undecided}");
            assert!(compared.iter().all(|one| one.outcome != Outcome::Equivalent || !is_coarse(one)));
            assert!(compared.iter().all(|one| one.sees_no_less_than().is_none() || is_coarse(one)));
        }
    }
}

/// If about half of all comparisons on a host have an MDE below 5 %, a loss of 5 % is about as large as what
/// can be detected.
#[test]
fn a_loss_as_large_as_the_mde_is_found() {
    for (spread, blocks) in [(0.0165, LEAST), (0.025, BLOCKS)] {
        for host in [Host { spread, ..Host::CALM }, Host { spread: spread * 0.8, ..Host::REAL }] {
            let compared = compared(host, blocks, 0.95);
            let clear: Vec<_> = compared.iter().filter(|one| one.mde.is_some_and(|mde| mde < 0.05)).collect();
            let found = clear.iter().filter(|one| one.outcome == Outcome::Slower).count();
            assert!(clear.len() as f64 > COMPARISONS as f64 * 0.3, "{host:?}: {}", clear.len());
            assert!(found as f64 >= clear.len() as f64 * 0.95, "{host:?}: {found} of {}", clear.len());
        }
    }
}

#[test]
fn more_blocks_find_smaller_differences() {
    let mde = |blocks| {
        let of = compared(Host::CALM, blocks, 1.0);
        of.iter().filter_map(|one| one.mde).sum::<f64>() / of.len() as f64
    };
    let (ten, many) = (mde(10), mde(40));
    assert!((0.40..0.44).contains(&(many / ten)), "{ten}, {many}");
}

#[test]
fn a_quarter_of_the_mde_is_not_claimed() {
    // The MDE is 2 % on average.
    let host = Host { spread: 0.0115, ..Host::CALM };
    let claimed = share_of(&compared(host, BLOCKS, 0.995), |one| one.outcome.is_different());
    assert!(claimed <= ERROR_RATE, "{claimed}");
}
