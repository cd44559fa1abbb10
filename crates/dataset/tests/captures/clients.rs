//! Who asked, and whom.

use std::fs;

use kqps_dataset::{Client, ClientPlace};

use super::bench::{Bench, MS, START_NS, capture, captured, end, facts, query};

const CLIENTS: [&str; 8] = [
    "192.0.2.9:1000",
    "203.0.113.77:1000",
    "192.0.2.200:1000",
    "[2001:db8:77:1::abcd:1]:1000",
    "192.0.2.9:2000",
    "[2001:db8:78::1]:1000",
    "[2001:db8:77:ffff::2]:1000",
    "203.0.113.77:1000",
];

/// A query by each client, every millisecond, to a server of its own version of IP.
fn traffic() -> Vec<u8> {
    capture(|writer| {
        CLIENTS.iter().enumerate().try_for_each(|(index, client)| {
            let (client, at_ns) = (end(client), START_NS + index as u64 * MS);
            let server = end(if client.is_ipv4() { "198.51.100.1:53" } else { "[2001:db8::53]:53" });
            writer.udp(at_ns, client, server, &query(index as u16, "www"))
        })
    })
}

#[test]
fn clients_are_numbered_by_their_first_queries() {
    let dataset = Bench::new().open(&traffic()).expect("a capture");
    let clients: Vec<u32> = captured(&dataset).iter().map(|captured| captured.client).collect();
    assert_eq!(clients, [0, 1, 2, 3, 0, 4, 5, 1]);
    assert_eq!((facts(&dataset).clients, facts(&dataset).networks), (6, 4));
    let places: Vec<ClientPlace> = (0..6).map(|client| dataset.network_of(client)).collect();
    let expected = [(0, 0), (1, 0), (0, 1), (2, 0), (3, 0), (2, 1)];
    assert_eq!(places, expected.map(|(network, member)| ClientPlace { network, member }));
    let sizes: Vec<u32> = (0..4).map(|network| dataset.network_clients(network)).collect();
    assert_eq!(sizes, [2, 1, 2, 1]);
}

#[test]
fn a_port_makes_another_client_if_asked_for() {
    let bench = Bench::with(|options| options.capture.client = Client::AddressAndPort);
    let dataset = bench.open(&traffic()).expect("a capture");
    let clients: Vec<u32> = captured(&dataset).iter().map(|captured| captured.client).collect();
    assert_eq!(clients, [0, 1, 2, 3, 4, 5, 6, 1]);
    assert_eq!(dataset.network_of(4), ClientPlace { network: 0, member: 2 });
    assert_eq!(facts(&dataset).networks, 4);
}

#[test]
fn no_address_is_in_the_encoded_form() {
    let bench = Bench::new();
    bench.open(&traffic()).expect("a capture");
    let encoded = fs::read(bench.cached().remove(0)).expect("the encoded form");
    let holds = |bytes: &[u8]| encoded.windows(bytes.len()).any(|window| window == bytes);
    assert!(holds(b"\x03www\x04test"), "it holds the questions");
    assert!(!holds(&[203, 0, 113, 77]) && !holds(&[77, 113, 0, 203]));
    assert!(!holds(&[0x20, 0x01, 0x0d, 0xb8, 0, 0x77]) && !holds(b"2001:db8"));
}

#[test]
fn servers_are_counted_and_so_are_those_that_ask_others() {
    let (client, resolver) = (end("192.0.2.1:1000"), end("198.51.100.1:53"));
    let traffic = capture(|writer| {
        writer.udp(START_NS, client, resolver, &query(1, "www"))?;
        for server in ["203.0.113.1:53", "203.0.113.2:53"] {
            writer.udp(START_NS + MS, end("198.51.100.1:4000"), end(server), &query(2, "www"))?;
        }
        Ok(())
    });
    let mut bench = Bench::new();
    for client in [Client::Address, Client::AddressAndPort] {
        bench.options.capture.client = client;
        let dataset = bench.open(&traffic).expect("a capture");
        assert_eq!((facts(&dataset).servers, facts(&dataset).servers_asking), (3, 1));
    }
    bench.options.capture.servers = vec![resolver.ip()];
    let dataset = bench.open(&traffic).expect("a capture");
    assert_eq!((facts(&dataset).servers, facts(&dataset).servers_asking), (1, 0));
}

#[test]
fn queries_to_one_server_can_be_taken_alone() {
    let client = end("192.0.2.1:1000");
    let traffic = capture(|writer| {
        for (number, server) in ["198.51.100.1:53", "198.51.100.2:53", "198.51.100.1:5353"].iter().enumerate()
        {
            writer.udp(START_NS, client, end(server), &query(0, &"x".repeat(1 + number)))?;
        }
        Ok(())
    });
    let lengths = |bench: &Bench| {
        let dataset = bench.open(&traffic).expect("a capture");
        let skipped = facts(&dataset).skipped.clone();
        (dataset.iter().map(|query| query.message[12]).collect::<Vec<_>>(), skipped)
    };
    let mut bench = Bench::new();
    assert_eq!(lengths(&bench), (vec![1, 2], [("other-port".to_owned(), 1)].into()));
    bench.options.capture.servers = vec!["198.51.100.1".parse().expect("an address")];
    let (only, skipped) = lengths(&bench);
    assert_eq!((only, skipped["other-server"]), (vec![1], 1));
    bench.options.capture.ports = vec![5353, 53];
    assert_eq!(lengths(&bench).0, [1, 3]);
    assert_eq!(bench.cached().len(), 3, "one for each way to read it");
}
