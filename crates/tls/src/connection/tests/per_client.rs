//! Tickets of several clients.

use std::net::IpAddr;

use super::*;

/// The kind of a handshake of a client.
fn kind(connector: &Connector, acceptor: &Acceptor, client: Option<IpAddr>) -> Kind {
    let mut outgoing = Vec::new();
    let tls = connector.connect_from(client, false, &mut outgoing).unwrap();
    let server = End { tls: acceptor.accept().unwrap(), plain: Vec::new(), outgoing: Vec::new() };
    let mut pair = (End { tls, plain: Vec::new(), outgoing }, server);
    assert_eq!(run(&mut pair, 1000), (None, None));
    pair.0.tls.session().kind
}

fn client(number: u8) -> IpAddr {
    [127, 0, 0, number].into()
}

#[test]
fn a_ticket_resumes_sessions_of_its_own_client_alone() {
    let made = made(-1..1);
    let acceptor = Acceptor::new(&made.identity).unwrap();
    for suite in ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"] {
        let suites = vec![suite.parse().unwrap()];
        let settings = ClientSettings { suites, ..settings(Trust::Ca(made.ca.clone())) };
        let connector = Client::new(&settings).unwrap().connector(server_name(NAME).unwrap(), 100);
        for client in [Some(client(1)), Some(client(2)), None] {
            let kinds: Vec<Kind> = (0..3).map(|_| kind(&connector, &acceptor, client)).collect();
            assert_eq!(kinds, [Kind::Full, Kind::Resumed, Kind::Resumed], "{suite}");
        }
        assert_eq!(connector.tickets().offered, 6);
    }
}

#[test]
fn the_oldest_tickets_of_all_clients_are_dropped() {
    let made = made(-1..1);
    let acceptor = Acceptor::new(&made.identity).unwrap();
    for suite in ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"] {
        let suites = vec![suite.parse().unwrap()];
        let settings = ClientSettings { suites, ..settings(Trust::Ca(made.ca.clone())) };
        // A server sends no more than four tickets at once.
        let connector = Client::new(&settings).unwrap().connector(server_name(NAME).unwrap(), 4);
        for number in 1..=10 {
            assert_eq!(kind(&connector, &acceptor, Some(client(number))), Kind::Full);
        }
        assert_eq!(kind(&connector, &acceptor, Some(client(10))), Kind::Resumed, "{suite}");
        assert_eq!(kind(&connector, &acceptor, Some(client(1))), Kind::Full, "{suite}");
    }
}
