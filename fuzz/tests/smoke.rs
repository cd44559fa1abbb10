//! A smoke pass of every fuzz target: its corpus, then some thousand seeded mutations of it.

use std::fs;
use std::path::Path;

/// Mutations of each target, and of one that parses a long text, fills memory, or opens files or sockets.
const ROUNDS: u32 = 15_000;
const ROUNDS_OF_SLOW: u32 = 1_500;

/// Mutations of a target that makes handshakes of TLS, alone or in QUIC.
const ROUNDS_OF_TLS: u32 = 400;

fn pass(name: &str, target: fn(&[u8])) {
    pass_for(ROUNDS, name, target);
}

fn pass_for(rounds: u32, name: &str, target: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(directory).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let corpus: Vec<_> = paths.iter().map(|path| fs::read(path).expect("a file of the corpus")).collect();
    assert!(!corpus.is_empty());
    for bytes in &corpus {
        target(bytes);
    }
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..rounds {
        let bytes = mutated(&corpus, &mut random);
        let outcome = std::panic::catch_unwind(|| target(&bytes));
        assert!(outcome.is_ok(), "round {round} of {name} fails on b\"{}\"", bytes.escape_ascii());
    }
}

/// A file of the corpus after a few changes.
fn mutated(corpus: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = random.choice(corpus).cloned().unwrap_or_default();
    for _ in 0..random.u32(1..8) {
        let at = random.usize(0..=bytes.len());
        match random.u32(0..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.u8(..)),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.u32(0..8),
            3 if at < bytes.len() => {
                bytes[at] = *random.choice(b"\0\xff\xc0\x3f\x40 \t\r\n.\\;0").unwrap_or(&0);
            }
            4 => {
                let other = random.choice(corpus).cloned().unwrap_or_default();
                let from = random.usize(0..=other.len());
                bytes.extend_from_slice(&other[from..]);
            }
            5 => {
                let repeated = bytes[at..].to_vec();
                bytes.extend_from_slice(&repeated);
            }
            _ => {}
        }
    }
    bytes
}

#[test]
fn message() {
    pass("message", kqps_fuzz::message);
}

#[test]
fn answer() {
    pass("answer", kqps_fuzz::answer);
}

#[test]
fn cache() {
    pass_for(ROUNDS_OF_SLOW, "cache", kqps_fuzz::cache);
}

#[test]
fn capture() {
    pass_for(ROUNDS_OF_SLOW, "capture", kqps_fuzz::capture);
}

#[test]
fn query_file() {
    pass("query_file", kqps_fuzz::query_file);
}

#[test]
fn capture_tcp() {
    pass_for(ROUNDS_OF_SLOW, "capture_tcp", kqps_fuzz::capture_tcp);
}

#[test]
fn dnstap() {
    pass_for(ROUNDS_OF_SLOW, "dnstap", kqps_fuzz::dnstap);
}

#[test]
fn connection() {
    pass_for(ROUNDS_OF_SLOW, "connection", kqps_fuzz::connection);
}

#[test]
fn secure_connection() {
    pass_for(ROUNDS_OF_TLS, "secure_connection", kqps_fuzz::secure_connection);
}

#[test]
fn early_data() {
    pass_for(ROUNDS_OF_TLS, "early_data", kqps_fuzz::early_data);
}

#[test]
fn player_framing() {
    pass_for(ROUNDS_OF_SLOW, "player_framing", kqps_fuzz::player_framing);
}

#[test]
fn tls_client() {
    pass_for(ROUNDS_OF_TLS, "tls_client", kqps_fuzz::tls_client);
}

#[test]
fn tls_server() {
    pass_for(ROUNDS_OF_TLS, "tls_server", kqps_fuzz::tls_server);
}

#[test]
fn http_client() {
    pass_for(ROUNDS_OF_SLOW, "http_client", kqps_fuzz::http_client);
}

#[test]
fn http_server() {
    pass_for(ROUNDS_OF_SLOW, "http_server", kqps_fuzz::http_server);
}

#[test]
fn quic_client() {
    pass_for(ROUNDS_OF_TLS, "quic_client", kqps_fuzz::quic_client);
}

#[test]
fn quic_server() {
    pass_for(ROUNDS_OF_TLS, "quic_server", kqps_fuzz::quic_server);
}

#[test]
fn tcp_segment() {
    pass("tcp_segment", kqps_fuzz::tcp_segment);
}

#[test]
fn front_framing() {
    pass("front_framing", kqps_fuzz::front_framing);
}

#[test]
fn front_reply() {
    pass("front_reply", kqps_fuzz::front_reply);
}

#[test]
fn upstream_reply() {
    pass("upstream_reply", kqps_fuzz::upstream_reply);
}

#[test]
fn store() {
    pass_for(ROUNDS_OF_SLOW, "store", kqps_fuzz::store);
}

#[test]
fn study_file() {
    pass_for(ROUNDS_OF_SLOW, "study_file", kqps_fuzz::study_file);
}

#[test]
fn subject_file() {
    pass_for(ROUNDS_OF_SLOW, "subject_file", kqps_fuzz::subject_file);
}

#[test]
fn zone_file() {
    pass("zone_file", kqps_fuzz::zone_file);
}

#[test]
fn zone_list() {
    pass("zone_list", kqps_fuzz::zone_list);
}

#[test]
fn tapped_packet() {
    pass_for(ROUNDS_OF_SLOW, "tapped_packet", kqps_fuzz::tapped_packet);
}

#[test]
fn web_request() {
    pass("web_request", kqps_fuzz::web_request);
}

#[test]
fn host_message() {
    pass_for(ROUNDS_OF_SLOW, "host_message", kqps_fuzz::host_message);
}
