//! Measures the cost of a zone of A records. `cargo run --release -p kqps-zone --example cost [RECORDS
//! [THREADS]]` prints how long the zone takes to compile, how much memory it uses, and how long a reply takes,
//! for names that exist and for names that do not, in random order.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use kqps_zone::{
    Asker, Batch, Builder, Entry, Outcome, Record, Responder, ResponderSettings, Transport, Zones,
};

const APEX: &[u8] = b"\x07example\0";
const BATCH_RECORDS: usize = 20_000;
const QUERIES: usize = 1_000_000;
const BATCH_QUERIES: usize = 50;
/// Only the fastest pass counts, since other work of the machine can only make a pass slower.
const PASSES: usize = 5;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let records: usize = arguments.next().unwrap_or(10_000);
    let threads = arguments.next().unwrap_or(2);

    let mut builder = Builder::new(APEX);
    for first in (0..records).step_by(BATCH_RECORDS) {
        builder.add(batch(first, records.min(first + BATCH_RECORDS)));
    }
    let begun = Instant::now();
    let compiled = builder.finish(threads);
    let took = begun.elapsed();
    let zone = compiled.zone.expect("a good zone");
    println!(
        "{records} records, {threads} threads: compiled in {:.3} s, {:.1} bytes a record ({:.1} resident)",
        took.as_secs_f64(),
        zone.memory_bytes() as f64 / records as f64,
        resident_bytes() as f64 / records as f64,
    );

    let zones = Zones::build(std::iter::once(Entry::Loaded(Arc::new(zone))));
    let few = records.min(64);
    ask("few names that exist", &zones, |number| name(number % few));
    ask("names that exist", &zones, |number| name(scattered(number) % records));
    ask("names that do not exist", &zones, |number| name(records + scattered(number) % records));
}

fn name(number: usize) -> Vec<u8> {
    let label = format!("{:010x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) as u64 >> 24);
    [&[10][..], label.as_bytes(), APEX].concat()
}

fn scattered(number: usize) -> usize {
    number.wrapping_mul(0xd134_2543_de82_ef95) >> 20
}

fn batch(first: usize, end: usize) -> Batch {
    let mut batch = Batch::with_capacity((end - first) * 40);
    let mut push = |owner: &[u8], rtype, data: &[u8]| {
        assert!(batch.push(&Record { owner, rtype, ttl_s: 3600, data, line: 1 }));
    };
    if first == 0 {
        push(APEX, 6, &[&[0, 0][..], &[0, 0, 0, 1].repeat(5)].concat());
        push(APEX, 2, b"\x02ns\x04test\0");
    }
    for number in first..end {
        push(&name(number), 1, &(number as u32).to_be_bytes());
    }
    batch
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

/// Prints how long a reply takes, alone and with its batch foreseen. The time to copy the queries is
/// subtracted.
fn ask(what: &str, zones: &Zones, name: impl Fn(usize) -> Vec<u8>) {
    let queries: Vec<Vec<u8>> = (0..QUERIES.min(200_000))
        .map(|number| [b"\0\0\x01\0\0\x01\0\0\0\0\0\0", &name(number)[..], b"\0\x01\0\x01"].concat())
        .collect();
    let mut responder = Responder::new(ResponderSettings::default());
    let asker = Asker {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        transport: Transport::Udp,
        now_s: 1_800_000_000,
        idle_ds: None,
    };
    let mut buffer = [0; 1500];
    let mut bytes = 0;
    let mut run = |answers: bool, foresees: bool| {
        let begun = Instant::now();
        for queries in queries.chunks(BATCH_QUERIES).cycle().take(QUERIES / BATCH_QUERIES) {
            if foresees {
                responder.foresee(zones, queries.iter().map(|query| &query[..]));
            }
            for query in queries {
                buffer[..query.len()].copy_from_slice(query);
                if answers {
                    match responder.respond(zones, &mut buffer, query.len(), &asker) {
                        Outcome::Reply(length) => bytes += length,
                        outcome => panic!("{outcome:?}"),
                    }
                } else {
                    std::hint::black_box(&buffer);
                }
            }
        }
        begun.elapsed().as_nanos() as f64 / QUERIES as f64
    };
    let [mut idle_ns, mut alone_ns, mut foreseen_ns] = [f64::INFINITY; 3];
    for _ in 0..PASSES {
        idle_ns = run(false, false).min(idle_ns);
        alone_ns = run(true, false).min(alone_ns);
        foreseen_ns = run(true, true).min(foreseen_ns);
    }
    println!(
        "{what}: {:.0} ns a reply of {} bytes, {:.0} ns with its batch foreseen",
        alone_ns - idle_ns,
        bytes / QUERIES / (2 * PASSES),
        foreseen_ns - idle_ns
    );
}
