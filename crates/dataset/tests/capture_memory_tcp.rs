//! The memory that open connections take to compile. This file has only one test, so its process can be measured.

mod measured;

use std::fs;
use std::io::BufWriter;
use std::net::{Ipv4Addr, SocketAddr};

use kqps_capture::write::{Segment, Writer};
use measured::{QUERY, START_NS};

/// Anonymous memory that compiling may use with a few clients: 27 MiB beside clients and connections, and 11 MiB for
/// the latter.
const GROWTH_KIB_MAX: u64 = 48 << 10;
/// Three times as many as are held.
const CONNECTIONS: u32 = 60_000;

#[test]
fn connections_that_never_end_take_no_more_than_their_bound() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("traffic.pcap");
    let file = BufWriter::new(fs::File::create(&path).expect("a file"));
    let mut writer = Writer::ethernet(file).expect("a header");
    let to = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1), 53));
    // A query, and the beginning of a message of 1024 bytes.
    let begun =
        [&(QUERY.len() as u16).to_be_bytes()[..], QUERY, &[4, 0, 1, 2, 1, 0, 0, 1], &[0; 500]].concat();
    for number in 0..CONNECTIONS {
        let address = Ipv4Addr::from_bits(0x0a00_0000 | (number % 1000));
        let from = SocketAddr::from((address, (number / 1000) as u16 + 1000));
        let at_ns = START_NS + u64::from(number) * 10_000;
        let syn = Segment { from, to, sequence: 0, acknowledgment: 0, flags: Segment::SYN, payload: &[] };
        writer.segment(at_ns, &syn).expect("a packet");
        let query = Segment { sequence: 1, flags: Segment::ACK, payload: &begun, ..syn };
        writer.segment(at_ns, &query).expect("a packet");
    }
    drop(writer.finish().expect("the capture"));
    let dataset = measured::open(&path, GROWTH_KIB_MAX);
    let facts = dataset.capture().expect("a capture");
    assert_eq!((facts.queries, facts.connections), (CONNECTIONS.into(), CONNECTIONS.into()));
}
