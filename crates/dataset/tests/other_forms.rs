//! Files in the forms of dnsperf: lines of which nothing follows the type, messages of any bytes, and dynamic updates.

use std::fs;

use kqps_dataset::{Additions, Dataset, DatasetError, Format, Options};
use kqps_message::Header;
use kqps_message::tsig::{Algorithm, KeyName};

fn open(content: &[u8], options: &Options) -> Result<Dataset, DatasetError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("queries");
    fs::write(&path, content).expect("a file");
    Dataset::open(&path, &Options { cache_dir: Some(folder.path().join("cache")), ..options.clone() })
}

#[test]
fn what_follows_a_type_is_not_read() {
    let options = Options { format: Format::Plain, skip_bad: true, ..Options::default() };
    let dataset = open(b"a.test A IN\nb.test MX NXDOMAIN x y\nbad\n; c\n", &options).expect("two queries");
    assert_eq!((dataset.queries(), dataset.skipped()), (2, 1));
    assert!(dataset.iter().all(|query| query.expected_rcode.is_none()));
    let text = Options { format: Format::Text, ..Options::default() };
    assert!(matches!(open(b"a.test A IN\n", &text), Err(DatasetError::Bad { .. })));
}

#[test]
fn messages_of_any_bytes_are_taken_but_for_those_without_an_id() {
    let options = Options { format: Format::AnyBytes, skip_bad: true, ..Options::default() };
    let dataset = open(b"\0\x07garbage\0\x01x\0\x02ab", &options).expect("two messages");
    let messages: Vec<&[u8]> = dataset.iter().map(|query| query.message).collect();
    assert_eq!(messages, [&b"\0\0rbage"[..], b"\0\0"]);
    assert_eq!(dataset.skipped_causes().collect::<Vec<_>>(), [("bad message", 1)]);
}

#[test]
fn nothing_is_added_to_a_message_that_is_signed() {
    let key = || KeyName::new(Algorithm::Sha1, b"k").expect("a name");
    let mut message = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\x00\x01\x00\x01".to_vec();
    let file = |message: &[u8]| [&(message.len() as u16).to_be_bytes(), message].concat();
    let binary = Options { format: Format::Binary, ..Options::default() };
    let signing =
        || Options { additions: Additions { tsig: Some(key()), ..Additions::default() }, ..binary.clone() };
    let signed = open(&file(&message), &signing()).expect("a query without a signature");
    assert_eq!(signed.iter().map(|query| query.message[11]).collect::<Vec<_>>(), [1]);
    assert!(key().append(&mut message));
    for options in [signing(), Options { edns: true, ..binary.clone() }] {
        let error = open(&file(&message), &options).expect_err("it is signed").to_string();
        assert!(error.contains("it is signed already"), "{error}");
    }
    let as_it_is = open(&file(&message), &binary).expect("a signed query");
    assert!(as_it_is.iter().all(|query| query.message == message));
}

#[test]
fn updates_are_taken_block_by_block() {
    let text = b"a.test\nadd x 60 A 192.0.2.1\nsend\n\n\
                 b.test\nfoo\nadd y 60 A 192.0.2.1\nsend\nc.test\ndelete z\nsend\nd.test\n";
    let strict = Options { format: Format::Updates, ..Options::default() };
    let error = open(text, &strict).expect_err("a bad line").to_string();
    assert!(error.contains(":6:1: unknown word \"foo\""), "{error}");
    let key = KeyName::new(Algorithm::Sha1, b"k").expect("a name");
    let additions = Additions { tsig: Some(key), ..Additions::default() };
    let options = Options { edns: true, skip_bad: true, additions, ..strict };
    let dataset = open(text, &options).expect("two updates");
    assert_eq!(dataset.skipped_causes().collect::<Vec<_>>(), [("dynamic update", 2)]);
    let zones: Vec<&[u8]> =
        dataset.iter().map(|query| &query.message[12..12 + query.question_bytes]).collect();
    assert_eq!(zones, [&b"\x01a\x04test\0\x00\x06\x00\x01"[..], b"\x01c\x04test\0\x00\x06\x00\x01"]);
    for query in dataset.iter() {
        let header = Header::from_bytes(query.message).expect("a header");
        assert_eq!((header.opcode(), header.authorities(), header.additionals()), (5, 1, 2));
    }
}
