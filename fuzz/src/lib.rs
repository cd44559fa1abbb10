//! Fuzz targets for the readers of bytes that anyone may have sent or written.
//!
//! For: the bodies of the targets, as ordinary functions that panic if a rule is broken. libFuzzer runs them
//! for any length of time (`fuzz_targets/`, `cargo xtask fuzz`). A test runs each for a moment over mutations
//! of `corpus/`. A target that needs private parts of a crate stands there, behind the crate's feature `fuzz`. Not for: the
//! reasons of these rules, which are where the rules are implemented.
//!
//! Invariant: a target is a function of its bytes. The same bytes fail again.

mod answer;
mod cache;
mod capture;
mod capture_tcp;
mod connection;
mod dnstap;
mod feeding;
mod handshake;
mod http;
mod parsed;
mod quic;
mod sockets;
mod store;
mod study_file;
mod subject_file;
mod tcp_segment;
mod text;
mod tls;
mod zone_file;

use std::io::Cursor;
use std::path::Path;

use kqps_dataset::{Additions, DatasetError, Digest, Format, Options};
use kqps_message::name::{self, NAME_BYTES_MAX};
use kqps_message::tsig::{Algorithm, KeyName};
use kqps_message::{Edns, HEADER_BYTES, Header, canonical, edns, question, record};

use feeding::Pieces;

pub use answer::answer;
pub use cache::cache;
pub use capture::capture;
pub use capture_tcp::capture_tcp;
pub use connection::{connection, early_data, secure_connection};
pub use dnstap::dnstap;
pub use http::{client as http_client, server as http_server};
pub use kqps_front::fuzz::{framing as front_framing, reply as front_reply};
pub use kqps_host::residence::fuzz::packets as tapped_packet;
pub use kqps_zone::source::fuzz::lists as zone_list;
pub use quic::{client as quic_client, server as quic_server};
pub use store::store;
pub use study_file::study_file;
pub use subject_file::subject_file;
pub use tcp_segment::tcp_segment;
pub use tls::{client as tls_client, server as tls_server};
pub use zone_file::zone_file;

/// Takes any bytes as what controller and agent send each other, in pieces whose length is the first byte.
pub fn host_message(bytes: &[u8]) {
    if let Some((&length, bytes)) = bytes.split_first() {
        kqps_fleet::fuzz::messages(bytes, Pieces::new(bytes, length));
    }
}

/// Takes any bytes as a request. In pieces, whose length is the first byte, it is the same request, or refused alike.
pub fn web_request(bytes: &[u8]) {
    if let Some((&length, bytes)) = bytes.split_first() {
        kqps_web::fuzz::request(bytes, Pieces::new(bytes, length));
    }
}

/// Takes any bytes as replies that reach the player on a connection, in pieces whose length is the first byte.
pub fn player_framing(bytes: &[u8]) {
    if let Some((&length, stream)) = bytes.split_first() {
        kqps_player::wire::tcp::fuzz::framing(sockets::pair(), stream, feeding::pieces(stream, length));
    }
}

/// Takes any bytes as a client's query and the reply of a name server to it. What leaves the cache can be parsed by
/// another reader.
pub fn upstream_reply(bytes: &[u8]) {
    if let Some(reply) = kqps_resolve::fuzz::reply(bytes) {
        parsed::can_be_parsed(&reply);
    }
}

/// Takes any bytes as a message, and as a name in presentation form.
pub fn message(bytes: &[u8]) {
    let header = Header::from_bytes(bytes);
    assert_eq!(header.is_some(), bytes.len() >= HEADER_BYTES);
    if let Some(end) = question::end(bytes) {
        let asked = &bytes[HEADER_BYTES..end];
        assert!(asked.is_empty() || question::same(asked, bytes), "a message repeats its own question");
        let _ = record::read(bytes, end);
    }
    let (asked, reply) = bytes.split_at(bytes.len() / 2);
    let _ = question::same(asked, reply);
    if record::end(bytes) == Some(bytes.len()) && edns::find(bytes) == Ok(None) {
        adds_opt(bytes);
    }
    canonical(bytes);
    reads_back(bytes);
}

/// The canonical form of a name ends where the name does on the wire, is a name itself, and does not change
/// again. A reply's digest does not depend on the old contents of the scratch buffer.
fn canonical(bytes: &[u8]) {
    let mut name = Vec::new();
    if let Some(end) = canonical::append_name(bytes, 0, &mut name) {
        assert_eq!(name::end(bytes, 0), Some(end));
        let mut again = Vec::new();
        assert_eq!(canonical::append_name(&name, 0, &mut again), Some(name.len()));
        assert_eq!(again, name);
    }
    let rcode = Header::from_bytes(bytes).map_or(0, Header::rcode);
    let digest = Digest::of_reply(bytes, rcode, &mut Vec::new());
    assert_eq!(Digest::of_reply(bytes, rcode, &mut bytes.to_vec()), digest);
}

/// After an OPT record is added, the reader finds it.
fn adds_opt(bytes: &[u8]) {
    let mut message = bytes.to_vec();
    let asked = Edns { dnssec_ok: true, ..Edns::default() };
    assert!(edns::append(&mut message, 0, &asked));
    let found = edns::find(&message).ok().flatten().map(|opt| (opt.class, opt.ttl_s, opt.end));
    assert_eq!(found, Some((asked.udp_payload_bytes, edns::DO, message.len())));
}

/// If a name can be encoded, its presentation form encodes to the same bytes.
fn reads_back(text: &[u8]) {
    let mut wire = Vec::new();
    match name::encode(text, &mut wire) {
        Ok(length) => {
            assert!(length == wire.len() && length <= NAME_BYTES_MAX);
            assert_eq!(name::end(&wire, 0), Some(length));
            let mut again = Vec::new();
            let shown = name::NameText(&wire).to_string();
            assert_eq!(name::encode(shown.as_bytes(), &mut again), Ok(length), "{shown}");
            assert_eq!(again, wire);
        }
        Err(error) => {
            assert!(wire.is_empty(), "nothing is left of a bad name");
            assert!((1..=text.len().max(1)).contains(&error.column));
        }
    }
}

/// Takes any bytes as a query file or a capture, with options that the first byte selects.
pub fn query_file(bytes: &[u8]) {
    let Some((&choice, content)) = bytes.split_first() else { return };
    let formats = if choice & 32 == 0 {
        [Format::Auto, Format::Text, Format::Binary, Format::Capture]
    } else {
        [Format::Plain, Format::AnyBytes, Format::Updates, Format::Updates]
    };
    let additions = Additions {
        edns_options: b"\x00\x03\x00\x00".to_vec(),
        labels: if choice & 128 == 0 { Vec::new() } else { vec![10, 1] },
        tsig: KeyName::new(Algorithm::Sha256, b"key").ok(),
        ..Additions::default()
    };
    let options = Options {
        format: formats[usize::from(choice & 3)],
        additions: if choice & 64 == 0 { Additions::default() } else { additions },
        edns: choice & 4 != 0,
        dnssec: choice & 8 != 0,
        skip_bad: choice & 16 != 0,
        ..Options::default()
    };
    let content = Cursor::new(content.to_vec());
    let path = Path::new("queries");
    let mut encoded = Cursor::new(Vec::new());
    match kqps_dataset::compile(content, path, &options, &mut encoded) {
        Ok(queries) => assert!(queries > 0 && encoded.into_inner().len() as u64 > queries * 8),
        Err(error) => {
            assert!(!(options.skip_bad && matches!(error, DatasetError::Bad { .. })));
            let mut said = error.lines();
            said.push(error.to_string());
            let is_plain = |line: &String| line.starts_with("queries") && !line.contains(char::is_control);
            assert!(said.iter().all(is_plain), "{said:?}");
        }
    }
}
