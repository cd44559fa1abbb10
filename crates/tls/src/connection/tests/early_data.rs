//! Early data of both ends.

use super::*;
use crate::fuzz::sealing::SUITE;

/// Begins a handshake that offers early data, and seals these bytes as early data.
fn begin_early(connector: &Connector, acceptor: &Acceptor, bytes: &[u8]) -> Pair {
    let mut outgoing = Vec::new();
    let mut tls = connector.connect_from(None, true, &mut outgoing).unwrap();
    assert!(tls.early_bytes() >= bytes.len(), "a ticket allows it");
    tls.seal_early(bytes, &mut outgoing).unwrap();
    let client = End { tls, plain: Vec::new(), outgoing };
    (client, End { tls: acceptor.accept().unwrap(), plain: Vec::new(), outgoing: Vec::new() })
}

/// A client with this suite and tickets of a server, and that server.
pub(super) fn acquainted(takes_early_data: bool, suite: &str) -> (Connector, Acceptor, Made) {
    let made = made(-1..1);
    let acceptor = Acceptor::over_tcp(crate::ALPN, &made.identity, takes_early_data).unwrap();
    let suites = vec![suite.parse().unwrap()];
    let settings = ClientSettings { early_data: true, suites, ..settings(Trust::Ca(made.ca.clone())) };
    let connector = connector(&settings, NAME);
    assert_eq!(established(&connector, &acceptor, 1000).0.tls.session().kind, Kind::Full);
    (connector, acceptor, made)
}

#[test]
fn early_data_is_answered_before_the_handshake_is_complete() {
    for piece in [1, 30, 1 << 20] {
        let (connector, acceptor, _) = acquainted(true, SUITE);
        let mut pair = begin_early(&connector, &acceptor, b"a query");
        let first = std::mem::take(&mut pair.0.outgoing);
        pair.1.take(&first, piece).unwrap();
        assert_eq!((pair.1.plain.as_slice(), pair.1.tls.is_established()), (&b"a query"[..], false));
        pair.1.tls.seal(b"a reply", &mut pair.1.outgoing).unwrap();
        let reply = std::mem::take(&mut pair.1.outgoing);
        pair.0.take(&reply, piece).unwrap();
        assert_eq!((pair.0.plain.as_slice(), pair.0.tls.is_established()), (&b"a reply"[..], true));
        assert_eq!(pair.0.tls.early(), Early::Accepted);
        pair.0.tls.seal(b", and more", &mut pair.0.outgoing).unwrap();
        assert_eq!(run(&mut pair, piece), (None, None));
        assert_eq!(pair.1.plain, b"a query, and more");
        assert_eq!([pair.0.tls.session().kind, pair.1.tls.session().kind], [Kind::Early; 2]);
        // The session was resumed, so it cannot be replayed.
        let mut again = acceptor.accept().unwrap();
        let (mut plain, mut outgoing) = (Vec::new(), Vec::new());
        again.open(&mut first.clone(), &mut plain, &mut outgoing).unwrap();
        assert_eq!((plain.len(), again.early()), (0, Early::None));
    }
}

#[test]
fn early_data_of_a_session_that_the_server_forgot_is_rejected() {
    let (connector, _, made) = acquainted(true, SUITE);
    for takes_early_data in [true, false] {
        let acceptor = Acceptor::over_tcp(crate::ALPN, &made.identity, takes_early_data).unwrap();
        let mut pair = begin_early(&connector, &acceptor, b"a query");
        assert_eq!(run(&mut pair, 1000), (None, None));
        assert_eq!((pair.0.tls.early(), pair.1.plain.len()), (Early::Offered, 0));
        assert_eq!([pair.0.tls.session().kind, pair.1.tls.session().kind], [Kind::Full; 2]);
        assert_eq!(pair.0.tls.early_bytes(), 0);
        pair.0.tls.seal(b"a query", &mut pair.0.outgoing).unwrap();
        assert_eq!(run(&mut pair, 1000), (None, None));
        assert_eq!(pair.1.plain, b"a query");
    }
}

#[test]
fn as_much_early_data_as_is_allowed_in_records_of_any_size_is_rejected_without_an_error() {
    for suite in ["TLS_AES_128_GCM_SHA256", SUITE, "TLS_CHACHA20_POLY1305_SHA256"] {
        let (connector, _, made) = acquainted(true, suite);
        for record in [1, 40, 1 << 14] {
            // The server has no such session.
            let acceptor = Acceptor::over_tcp(crate::ALPN, &made.identity, true).unwrap();
            let mut pair = begin_early(&connector, &acceptor, b"");
            let mut left = pair.0.tls.early_bytes();
            while left > 0 {
                pair.0.tls.seal_early(&vec![7; left.min(record)], &mut pair.0.outgoing).unwrap();
                left = pair.0.tls.early_bytes();
            }
            assert_eq!(run(&mut pair, 1000), (None, None), "{suite}, records of {record} bytes");
            assert_eq!((pair.0.tls.early(), pair.1.plain.len()), (Early::Offered, 0));
            pair.0.tls.seal(b"a query", &mut pair.0.outgoing).unwrap();
            assert_eq!(run(&mut pair, 1000), (None, None));
            assert_eq!(pair.1.plain, b"a query");
        }
    }
}

#[test]
fn no_early_data_is_offered_without_a_ticket_that_allows_it() {
    let (connector, acceptor, _) = acquainted(false, SUITE);
    let mut outgoing = Vec::new();
    let tls = connector.connect_from(None, true, &mut outgoing).unwrap();
    assert_eq!((tls.early_bytes(), tls.early()), (0, Early::None));
    assert_eq!(established(&connector, &acceptor, 1000).0.tls.session().kind, Kind::Resumed);
    // Early data is for connections that have some.
    let (connector, acceptor, _) = acquainted(true, SUITE);
    let pair = established(&connector, &acceptor, 1000);
    assert_eq!([pair.0.tls.session().kind, pair.1.tls.session().kind], [Kind::Resumed; 2]);
}
