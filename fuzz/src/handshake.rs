//! TLS of the two ends of a target: one name, one certificate, clients that trust it, and handshakes.

use std::sync::OnceLock;

use kqps_tls::certificate::{KeyType, Made, make};
use kqps_tls::client::server_name;
use kqps_tls::{Acceptor, Client, ClientSettings, ClientTls, Connector, ServerTls, Trust};

/// The name of every server.
pub(crate) const NAME: &str = "fuzz.test";

/// The certificate of every server.
pub(crate) fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| make(KeyType::Ecdsa, &[NAME.to_owned()]).expect("a certificate"))
}

/// The settings of clients. With `early_data` they resume sessions, and may send early data then.
pub(crate) fn settings(early_data: bool) -> ClientSettings {
    ClientSettings { early_data, ..ClientSettings::new(Trust::Ca(made().ca.clone()), early_data) }
}

/// Connects clients to a server, and keeps this many of its tickets.
pub(crate) fn connector(client: &Client, tickets: usize) -> Connector {
    client.connector(server_name(NAME).expect("a name"), tickets)
}

/// The makers of two ends that resume no session.
pub(crate) fn makers() -> &'static (Connector, Acceptor) {
    static MAKERS: OnceLock<(Connector, Acceptor)> = OnceLock::new();
    MAKERS.get_or_init(|| {
        let client = Client::new(&settings(false)).expect("a client");
        (connector(&client, 0), Acceptor::new(&made().identity).expect("a server"))
    })
}

/// Two ends after their handshake. The client has the tickets of the server.
pub(crate) fn shake_hands(connector: &Connector, acceptor: &Acceptor) -> (ClientTls, ServerTls) {
    let (mut to_server, mut to_client, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let mut client = connector.connect(&mut to_server).expect("a client has a first message");
    let mut server = acceptor.accept().expect("a server waits");
    while !to_server.is_empty() {
        server.open(&mut to_server, &mut plain, &mut to_client).expect("the client obeys TLS");
        to_server.clear();
        client.open(&mut to_client, &mut plain, &mut to_server).expect("the server obeys TLS");
        to_client.clear();
    }
    assert!(client.is_established() && server.is_established() && plain.is_empty());
    (client, server)
}
