//! The memory that a capture takes to compile. This file has only one test, so its process can be measured.

mod measured;

use std::fs;
use std::io::BufWriter;
use std::net::{Ipv4Addr, SocketAddr};

use kqps_capture::write::Writer;
use measured::{QUERY, START_NS};

/// Anonymous memory that compiling may use with a million clients, whatever the length of the capture.
const GROWTH_KIB_MAX: u64 = 64 << 10;
const CLIENTS: u32 = 1_000_000;

#[test]
fn a_million_clients_take_less_than_64_mib() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("traffic.pcap");
    let file = BufWriter::new(fs::File::create(&path).expect("a file"));
    let mut writer = Writer::ethernet(file).expect("a header");
    let server = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1), 53));
    for client in 0..CLIENTS {
        // An odd factor gives each client an address of its own, over all networks of 10.0.0.0/8.
        let address = Ipv4Addr::from_bits(0x0a00_0000 | (client.wrapping_mul(257) & 0x00ff_ffff));
        let at_ns = START_NS + u64::from(client) * 1000;
        writer.udp(at_ns, SocketAddr::from((address, 1234)), server, QUERY).expect("a packet");
    }
    drop(writer.finish().expect("the capture"));
    let dataset = measured::open(&path, GROWTH_KIB_MAX);
    assert_eq!(dataset.capture().map(|facts| facts.clients), Some(CLIENTS));
}
