//! How often the rule is right, counted over simulated hosts.

use kqps_verdict::compare::{Comparison, ERROR_RATE, Outcome};

use crate::simulate::{Host, Session};

const COMPARISONS: u64 = 1_000;

/// The default number of blocks, and the least.
const BLOCKS: usize = 10;
const LEAST: usize = 6;

/// A share that is 5 % is above this in one of a hundred such counts.
const ERROR_RATE_SEEN: f64 = ERROR_RATE + 0.016;

fn compared(host: Host, blocks: usize, share: f64) -> Vec<Comparison> {
    (0..COMPARISONS).map(|seed| Session::new(host, seed).compare(blocks, share)).collect()
}

fn share_of(compared: &[Comparison], is_so: impl Fn(&Comparison) -> bool) -> f64 {
    compared.iter().filter(|one| is_so(one)).count() as f64 / compared.len() as f64
}

#[test]
fn equals_are_seldom_called_different_and_mostly_equivalent() {
    let restless = Host { of_b: 3.0, ..Host::CALM };
    for host in [Host::CALM, Host::REAL, restless, Host { spread: 0.03, ..Host::REAL }] {
        for blocks in [LEAST, BLOCKS] {
            let compared = compared(host, blocks, 1.0);
            let different = share_of(&compared, |one| one.outcome.is_different());
            assert!(different <= ERROR_RATE_SEEN, "{host:?}, {blocks} blocks: {different}");
            let equivalent = share_of(&compared, |one| one.outcome == Outcome::Equivalent);
            assert!(equivalent >= 0.75, "{host:?}, {blocks} blocks: {equivalent}");
        }
    }
}

#[test]
fn a_loss_as_large_as_the_mde_is_found() {
    for (host, blocks) in
        [(Host::CALM, BLOCKS), (Host::CALM, LEAST), (Host { spread: 0.02, ..Host::CALM }, BLOCKS)]
    {
        let mut mdes: Vec<f64> = compared(host, blocks, 1.0).iter().filter_map(|one| one.mde).collect();
        mdes.sort_by(f64::total_cmp);
        let mde = mdes[mdes.len() / 2];
        let found =
            share_of(&compared(host, blocks, 1.0 / (1.0 + mde)), |one| one.outcome == Outcome::Slower);
        assert!(found >= 0.93, "{host:?}, {blocks} blocks, {mde}: {found}");
    }
}

#[test]
fn more_blocks_find_smaller_differences() {
    let mde = |blocks| {
        let of = compared(Host::CALM, blocks, 1.0);
        of.iter().filter_map(|one| one.mde).sum::<f64>() / of.len() as f64
    };
    let (ten, many) = (mde(10), mde(40));
    assert!((0.43..0.49).contains(&(many / ten)), "{ten}, {many}");
}

#[test]
fn a_quarter_of_the_mde_is_claimed_in_about_one_of_ten() {
    // The MDE is 2 % on average.
    let host = Host { spread: 0.0115, ..Host::CALM };
    let claimed = share_of(&compared(host, BLOCKS, 0.995), |one| one.outcome.is_different());
    assert!(claimed <= 0.12, "{claimed}");
}
