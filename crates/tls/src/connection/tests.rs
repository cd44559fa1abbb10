//! Both ends in memory.

use std::ops::Range;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256};
use time::{Duration, OffsetDateTime};

use super::*;
use crate::certificate::{KeyType, Made, make, make_valid};
use crate::client::{Client, ClientSettings, Connector, Trust, server_name};
use crate::server::{Acceptor, Identity};
use crate::session::Kind;

mod early_data;
mod per_client;
mod sealed;
mod types;

const NAME: &str = "dns.test";

fn settings(trust: Trust) -> ClientSettings {
    ClientSettings::new(trust, true)
}

fn connector(settings: &ClientSettings, name: &str) -> Connector {
    Client::new(settings).unwrap().connector(server_name(name).unwrap(), 8)
}

fn made(days: Range<i64>) -> Made {
    make_valid(KeyType::Ecdsa, &[NAME.into(), "127.0.0.1".into()], days).unwrap()
}

/// An end of a connection, with bytes that it received and bytes that it has to send.
struct End<S> {
    tls: Tls<S>,
    plain: Vec<u8>,
    outgoing: Vec<u8>,
}

impl<S: Side> End<S> {
    /// Takes bytes in pieces of this length.
    fn take(&mut self, bytes: &[u8], piece: usize) -> Result<Peer, Failure> {
        let mut peer = Peer::Open;
        for piece in bytes.chunks(piece) {
            let mut records = [self.tls.kept(), piece].concat();
            if self.tls.open(&mut records, &mut self.plain, &mut self.outgoing)? == Peer::Closed {
                peer = Peer::Closed;
            }
        }
        Ok(peer)
    }
}

type Pair = (End<UnbufferedClientConnection>, End<UnbufferedServerConnection>);

fn begin(connector: &Connector, acceptor: &Acceptor) -> Pair {
    let mut outgoing = Vec::new();
    let tls = connector.connect(&mut outgoing).unwrap();
    let client = End { tls, plain: Vec::new(), outgoing };
    let server = End { tls: acceptor.accept().unwrap(), plain: Vec::new(), outgoing: Vec::new() };
    (client, server)
}

/// Passes bytes both ways, in pieces, until none are left. Returns the failure of the client, and that of the server.
fn run((client, server): &mut Pair, piece: usize) -> (Option<Failure>, Option<Failure>) {
    let (mut of_client, mut of_server) = (None, None);
    while !client.outgoing.is_empty() || !server.outgoing.is_empty() {
        let to_server = std::mem::take(&mut client.outgoing);
        if of_server.is_none() {
            of_server = server.take(&to_server, piece).err();
        }
        let to_client = std::mem::take(&mut server.outgoing);
        if of_client.is_none() {
            of_client = client.take(&to_client, piece).err();
        }
    }
    (of_client, of_server)
}

fn established(connector: &Connector, acceptor: &Acceptor, piece: usize) -> Pair {
    let mut pair = begin(connector, acceptor);
    assert_eq!(run(&mut pair, piece), (None, None));
    assert!(pair.0.tls.is_established() && pair.1.tls.is_established());
    pair
}

#[test]
fn messages_pass_both_ways_whatever_the_pieces() {
    let made = made(-1..1);
    let acceptor = Acceptor::new(&made.identity).unwrap();
    let connector = connector(&settings(Trust::Ca(made.ca)), NAME);
    for piece in [1, 2, 7, 1000, 1 << 20] {
        let mut pair = established(&connector, &acceptor, piece);
        let long: Vec<u8> = (0..70_000_u32).map(|number| number as u8).collect();
        pair.0.tls.seal(b"a query", &mut pair.0.outgoing).unwrap();
        pair.1.tls.seal(&long, &mut pair.1.outgoing).unwrap();
        assert_eq!(run(&mut pair, piece), (None, None));
        assert_eq!(pair.1.plain, b"a query");
        assert!(pair.0.plain == long, "pieces of {piece}");
        pair.0.tls.close(&mut pair.0.outgoing);
        let last = std::mem::take(&mut pair.0.outgoing);
        assert_eq!(pair.1.take(&last, piece), Ok(Peer::Closed));
        assert!(pair.1.tls.kept().is_empty());
    }
}

#[test]
fn a_ticket_resumes_one_session() {
    let made = made(-1..1);
    let acceptor = Acceptor::new(&made.identity).unwrap();
    let connector = connector(&settings(Trust::Ca(made.ca.clone())), "127.0.0.1");
    let kinds: Vec<Kind> =
        (0..3).map(|_| established(&connector, &acceptor, 100).0.tls.session().kind).collect();
    assert_eq!(kinds, [Kind::Full, Kind::Resumed, Kind::Resumed]);
    let tickets = connector.tickets();
    assert!(tickets.offered == 2 && tickets.received >= 3, "{tickets:?}");
    let without = ClientSettings { resume: false, ..settings(Trust::Ca(made.ca)) };
    let connector = Client::new(&without).unwrap().connector(server_name(NAME).unwrap(), 8);
    for _ in 0..2 {
        assert_eq!(established(&connector, &acceptor, 100).0.tls.session().kind, Kind::Full);
    }
    // The server sends two after each handshake, whether anyone wants them or not.
    assert_eq!(connector.tickets(), crate::TicketCounts { received: 4, offered: 0 });
}

#[test]
fn a_session_of_tls_1_2_is_resumed_by_all_connections() {
    let made = made(-1..1);
    let acceptor = Acceptor::new(&made.identity).unwrap();
    let suites = vec!["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".parse().unwrap()];
    let connector = connector(&ClientSettings { suites, ..settings(Trust::Ca(made.ca)) }, NAME);
    assert_eq!(established(&connector, &acceptor, 100).0.tls.session().kind, Kind::Full);
    // All offer the session before any of them has another one.
    let mut pairs: Vec<Pair> = (0..3).map(|_| begin(&connector, &acceptor)).collect();
    for pair in &mut pairs {
        assert_eq!(run(pair, 100), (None, None));
        let session = pair.0.tls.session();
        assert_eq!((session.version, session.kind), ("TLSv1.2", Kind::Resumed));
    }
    assert_eq!(connector.tickets().offered, 3);
}

#[test]
fn a_session_is_what_the_settings_ask_for() {
    for (key, certificate) in [(KeyType::Ecdsa, "ECDSA-P256"), (KeyType::Rsa, "RSA-2048")] {
        let made = make(key, &[NAME.into()]).unwrap();
        let acceptor = Acceptor::new(&made.identity).unwrap();
        for (suite, version) in [
            ("TLS_CHACHA20_POLY1305_SHA256", "TLSv1.3"),
            (
                if key == KeyType::Rsa {
                    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
                } else {
                    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
                },
                "TLSv1.2",
            ),
        ] {
            let settings = ClientSettings {
                suites: vec![suite.parse().unwrap()],
                groups: vec!["secp384r1".parse().unwrap()],
                ..settings(Trust::Ca(made.ca.clone()))
            };
            let session = established(&connector(&settings, NAME), &acceptor, 1000).0.tls.session();
            assert_eq!((session.version, session.certificate), (version, Some(certificate)));
            assert_eq!((session.suite.to_string(), session.kind), (suite.to_owned(), Kind::Full));
            assert_eq!(session.group.map(|group| group.to_string()), Some("secp384r1".to_owned()));
        }
    }
}

/// The failures of both ends of a handshake.
fn failures(made: &Made, settings: &ClientSettings, name: &str) -> (Option<Failure>, Option<Failure>) {
    let acceptor = Acceptor::new(&made.identity).unwrap();
    let mut pair = begin(&connector(settings, name), &acceptor);
    let failures = run(&mut pair, 1000);
    assert_eq!(pair.0.tls.is_established(), failures.0.is_none());
    failures
}

#[test]
fn a_certificate_is_checked_unless_the_settings_say_otherwise() {
    let right = made(-1..1);
    let of_right = settings(Trust::Ca(right.ca.clone()));
    assert_eq!(failures(&right, &of_right, NAME), (None, None));
    // Each server gets an alert, whose name depends on the fault.
    let (client, server) = failures(&right, &of_right, "other.test");
    assert_eq!(client, Some(Failure::Certificate("another name".into())));
    assert!(matches!(server, Some(Failure::Alert(_))), "{server:?}");
    let other = made(-1..1);
    let (client, server) = failures(&other, &of_right, NAME);
    assert_eq!(client, Some(Failure::Certificate("unknown issuer".into())));
    assert_eq!(server, Some(Failure::Alert(48)));
    let old = made(-9..-2);
    let of_old = settings(Trust::Ca(old.ca.clone()));
    assert!(fault(failures(&old, &of_old, NAME).0).starts_with("expired at 20"));
    for made in [&other, &old] {
        assert_eq!(failures(made, &settings(Trust::Anyone), "other.test"), (None, None));
    }
}

/// The fault that was found in a certificate.
fn fault(failure: Option<Failure>) -> String {
    match failure {
        Some(Failure::Certificate(fault)) => fault.into_owned(),
        other => panic!("{other:?}"),
    }
}

/// A certificate that signs itself and may issue others, as `openssl req -x509` makes them.
fn self_signed(days: Range<i64>) -> Made {
    let mut params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "signs itself");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let now = OffsetDateTime::now_utc();
    params.not_before = now + Duration::days(days.start);
    params.not_after = now + Duration::days(days.end);
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    Made { identity: Identity { chain: certificate.clone(), key: key.serialize_pem() }, ca: certificate }
}

#[test]
fn a_certificate_that_signs_itself_is_accepted_if_it_is_trusted() {
    let made = self_signed(-1..1);
    let trusting = settings(Trust::Ca(made.ca.clone()));
    assert_eq!(failures(&made, &trusting, NAME), (None, None));
    let of_other_name = failures(&made, &trusting, "other.test").0;
    assert_eq!(of_other_name, Some(Failure::Certificate("another name".into())));
    let of_other = failures(&self_signed(-1..1), &trusting, NAME).0;
    assert_eq!(of_other, Some(Failure::Certificate("that of an issuer".into())));
    for (days, wanted) in [(-9..-2, "expired at 20"), (2..9, "not valid yet, before 20")] {
        let made = self_signed(days);
        let trusting = settings(Trust::Ca(made.ca.clone()));
        let said = fault(failures(&made, &trusting, NAME).0);
        assert!(said.starts_with(wanted) && said.ends_with(" UTC"), "{said}");
    }
    // Other certificates may stand beside it.
    let both = settings(Trust::Ca(format!("{}{}", self_signed(-1..1).ca, made.ca)));
    assert_eq!(failures(&made, &both, NAME), (None, None));
}

#[test]
fn what_is_not_tls_is_a_failure() {
    let made = made(-1..1);
    let acceptor = Acceptor::new(&made.identity).unwrap();
    let mut server = End { tls: acceptor.accept().unwrap(), plain: Vec::new(), outgoing: Vec::new() };
    let failure = server.take(b"\x00\x1d a query without TLS on it ", 1000).unwrap_err();
    assert!(matches!(failure, Failure::Protocol(_)), "{failure:?}");
}

#[test]
fn settings_survive_being_sent() {
    let settings =
        ClientSettings { groups: vec!["x25519".parse().unwrap()], ..settings(Trust::Ca("pem".into())) };
    let text = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<ClientSettings>(&text).unwrap(), settings, "{text}");
}

#[test]
fn an_identity_is_a_certificate_with_its_own_key() {
    let (one, other) = (made(-1..1).identity, made(-1..1).identity);
    let error = |chain: &str, key: &str| {
        Acceptor::new(&Identity { chain: chain.to_owned(), key: key.to_owned() }).unwrap_err().to_string()
    };
    assert!(error(&one.chain, &other.key).starts_with("the certificate and its key: "));
    assert!(error("", &one.key).contains("expected a certificate"));
    assert!(error(&one.chain, "").starts_with("the key: "));
    assert!(Acceptor::new(&one).is_ok());
}

#[test]
fn texts_without_certificates_are_errors() {
    let error = |trust| Client::new(&settings(trust)).err().map(|error| error.to_string());
    assert!(error(Trust::Ca(String::new())).unwrap().contains("expected a certificate"));
    assert!(server_name("a b").is_err());
    assert!(server_name("dns.test.").is_ok() && server_name("::1").is_ok());
}
