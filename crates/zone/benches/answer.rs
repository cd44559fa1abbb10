//! The cost of an answer from a small zone, unsigned and signed, and of making that zone from its text.

use std::hint::black_box;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion};
use kqps_message::{Edns, edns, name, rtype};
use kqps_zone::master::{self, DEPTH_MAX, GENERATED_MAX, PIECE_BYTES, Reading};
use kqps_zone::{Asker, Builder, Compiled, Entry, Responder, ResponderSettings, Transport, Zones};

/// The zone's name in wire form.
const ORIGIN: &[u8] = b"\x07example\0";

/// The texts of the zone, with the names of their groups.
const TEXTS: [(&str, &str); 3] = [
    ("unsigned", include_str!("../tests/zones/example.zone")),
    ("nsec", include_str!("../tests/zones/nsec.zone")),
    ("nsec3", include_str!("../tests/zones/nsec3.zone")),
];

/// Questions, by the kind of their answer.
const QUESTIONS: [(&str, &str, &[u8]); 6] = [
    ("address", "www.example.", b"A"),
    ("alias", "alias.example.", b"A"),
    ("wildcard", "any.wild.example.", b"A"),
    ("referral", "deep.sub.example.", b"A"),
    ("no data", "www.example.", b"MX"),
    ("no name", "nothing.example.", b"A"),
];

/// The buffer of a message over UDP, bytes.
const BUFFER_BYTES: usize = 4096;

fn read(text: &str) -> Reading {
    let options = master::Options {
        threads: 1,
        piece_bytes: PIECE_BYTES,
        generated_max: GENERATED_MAX,
        depth_max: DEPTH_MAX,
        open: &|_| Err(io::Error::from(io::ErrorKind::NotFound)),
        advance: &|_| {},
    };
    master::read(text.as_bytes(), Path::new("zone"), ORIGIN, &options)
}

fn compile(reading: Reading) -> Compiled {
    let mut builder = Builder::new(ORIGIN);
    for batch in reading.batches {
        builder.add(batch);
    }
    builder.finish(1)
}

/// A query with EDNS and the DO flag.
fn query(qname: &str, qtype: &[u8]) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    name::encode(qname.as_bytes(), &mut query).expect("a name");
    query.extend(rtype::parse(qtype).expect("a type").to_be_bytes());
    query.extend([0, 1]);
    assert!(edns::append(&mut query, 0, &Edns { dnssec_ok: true, ..Edns::default() }));
    query
}

fn measure_answers(criterion: &mut Criterion) {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let asker = Asker { address, transport: Transport::Udp, now_s: 1_800_000_000, idle_ds: None };
    for (signing, text) in TEXTS {
        let zone = compile(read(text)).zone.expect("a good zone");
        let zones = Zones::build([Entry::Loaded(Arc::new(zone))].into_iter());
        let mut responder = Responder::new(ResponderSettings::default());
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut group = criterion.benchmark_group(format!("answer {signing}"));
        for (kind, qname, qtype) in QUESTIONS {
            let query = query(qname, qtype);
            group.bench_function(BenchmarkId::from_parameter(kind), |bencher| {
                bencher.iter(|| {
                    buffer[..query.len()].copy_from_slice(black_box(&query));
                    responder.respond(&zones, &mut buffer, query.len(), &asker)
                });
            });
        }
        group.finish();
    }
}

fn measure_making(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    for (signing, text) in TEXTS {
        group.bench_function(BenchmarkId::from_parameter(signing), |bencher| {
            bencher.iter(|| read(black_box(text)));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("compile");
    for (signing, text) in TEXTS {
        group.bench_function(BenchmarkId::from_parameter(signing), |bencher| {
            bencher.iter_batched(|| read(text), compile, BatchSize::SmallInput);
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    measure_answers(&mut criterion);
    measure_making(&mut criterion);
    criterion.final_summary();
}
