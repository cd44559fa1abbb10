//! kqps accounts for a load over IPv6 as for one over IPv4.

use kqps_kernel::process::Signal;

use super::bench::{Bench, Echo};
use super::encrypted::{played, server_at};
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

#[test]
fn over_ipv6_both_sides_count_the_same_on_connections_of_every_transport() {
    for scheme in ["tcp", "tls", "https", "quic"] {
        let (server, url, ca) = server_at(scheme, "[::1]:0", &[]);
        assert!(url.starts_with(&format!("{scheme}://[::1]:")), "{url}");
        let trust: &[&str] = if scheme == "tcp" { &[] } else { &["--ca", &ca] };
        let each = ["-q", "20", "-c", "8", "-a", "::1", "--queries-per-connection", "10"];
        let trial = played(&url, &[trust, &each].concat());
        assert_eq!(
            (trial.accounts.correct, trial.accounts.sent),
            (1000, 1000),
            "{url}: {:?}",
            trial.accounts
        );
        let report = server.stop(Signal::Terminate);
        let counts = report.quic.map(|quic| quic.counts).or(report.tcp).unwrap();
        assert_eq!((counts.received, counts.answered), (1000, 1000), "{url}");
        let made = trial.connections.unwrap();
        assert_eq!(counts.connections, made.established, "{url}: {made:?}");
        assert!(made.established >= 100 && made.failed.is_empty(), "{url}: {made:?}");
    }
}
