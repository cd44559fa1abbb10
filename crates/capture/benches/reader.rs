//! Packets a second through the reader: queries and responses over UDP in Ethernet frames.

use std::hint::black_box;
use std::io::Cursor;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use kqps_capture::write::Writer;
use kqps_capture::{Event, Reader, Settings};

/// Packets of the capture.
const PACKETS: u32 = 100_000;

/// A capture at 100,000 packets a second, every second a response.
fn capture() -> Arc<[u8]> {
    let mut writer = Writer::ethernet(Vec::new()).expect("memory takes all");
    let server = SocketAddr::from(([192, 0, 2, 53], 53));
    for number in 0..PACKETS {
        let client = Ipv4Addr::from_bits(0x0a00_0000 + number / 2 % 5000);
        let client = SocketAddr::from((client, 1024 + (number / 2 % 50_000) as u16));
        let mut message = *b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
        message[..2].copy_from_slice(&((number / 2) as u16).to_be_bytes());
        let is_response = number % 2 == 1;
        message[2] |= if is_response { 0x80 } else { 0 };
        let (from, to) = if is_response { (server, client) } else { (client, server) };
        let at_ns = 1_700_000_000_000_000_000 + u64::from(number) * 10_000;
        writer.udp(at_ns, from, to, &message).expect("memory takes all");
    }
    writer.finish().expect("memory takes all").into()
}

fn read(capture: Arc<[u8]>) -> u64 {
    let mut reader = Reader::new(Cursor::new(capture), &Settings::default()).expect("a capture");
    let mut bytes = 0;
    while let Some(event) = reader.next().expect("no damage") {
        if let Event::Message(message) = event {
            bytes += message.bytes.len() as u64;
        }
    }
    assert_eq!(reader.counts().queries + reader.counts().responses, u64::from(PACKETS));
    bytes
}

fn main() {
    let capture = capture();
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("reader");
    group.throughput(Throughput::Elements(u64::from(PACKETS)));
    group.bench_function("udp", |bencher| bencher.iter(|| black_box(read(Arc::clone(&capture)))));
    group.finish();
    criterion.final_summary();
}
