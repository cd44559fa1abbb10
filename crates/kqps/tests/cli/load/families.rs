//! kqps accounts for a load over IPv6 as for one over IPv4.

use super::bench::{Bench, Echo};
use super::trouble::offered_io;

#[test]
fn over_ipv6_every_io_accounts_for_every_query() {
    let bench = Bench::before(Echo::listening("[::1]:0", &[]));
    let target = bench.echo.address.as_str();
    assert!(target.starts_with("[::1]:"), "{target}");
    for io in offered_io() {
        let trial = bench.trial(&["-Q", "2k", "-l", "0.2s", "--io", io, "-c", "4"]);
        trial.accounts.check().unwrap();
        assert_eq!(trial.targets, [target]);
        assert_eq!((trial.players.first.io.as_str(), trial.accounts.intended), (io, 400));
        assert_eq!(
            (trial.accounts.correct, trial.accounts.unsolicited),
            (400, 0),
            "{io}: {:?}",
            trial.accounts
        );
    }
}
