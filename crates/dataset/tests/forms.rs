//! Text and binary files are two forms of the same queries. What is read from one form and written in the
//! other is read back as the same queries.

use std::fs;
use std::io::Write;
use std::path::Path;

use kqps_dataset::{Dataset, Format, Options};
use kqps_message::{Edns, edns, rcode};
use proptest::prelude::*;

/// A line: its name, type, and further columns.
fn line() -> impl Strategy<Value = (String, u16, String, Option<u16>)> {
    let label = prop_oneof![4 => "[a-z0-9_-]{1,30}", 1 => r"(\\[0-1][0-9]{2}|\\[!-/:-~]){1,5}"];
    let name = prop::collection::vec(label, 1..5).prop_map(|labels| labels.join("."));
    let flags = prop::sample::select(vec!["", " E", "\tD", " 192.0.2.0/24", " D 2001:db8::/56"]);
    let rcode = prop::option::of(0..=rcode::MAX);
    (name, 1..u16::MAX, flags.prop_map(str::to_owned), rcode)
}

fn open(directory: &Path, content: &[u8], format: Format, edns: bool) -> Dataset {
    let path = directory.join("queries");
    fs::write(&path, content).expect("a query file");
    let options = Options { format, edns, cache_dir: Some(directory.join("cache")), ..Options::default() };
    Dataset::open(&path, &options).expect("a dataset")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_binary_file_holds_what_the_text_said(lines in prop::collection::vec(line(), 1..40), edns: bool) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut text = Vec::new();
        for (name, qtype, flags, rcode) in &lines {
            let rcode = rcode.map(|rcode| format!(" {}", rcode::RcodeName(rcode))).unwrap_or_default();
            writeln!(text, "{name} TYPE{qtype}{flags}{rcode}").expect("a line");
        }
        let from_text = open(directory.path(), &text, Format::Auto, edns);
        prop_assert_eq!(from_text.queries(), lines.len() as u64);
        let mut binary = Vec::new();
        for (query, (_, qtype, flags, rcode)) in from_text.iter().zip(&lines) {
            prop_assert_eq!(query.expected_rcode, *rcode);
            let question = &query.message[12..12 + query.question_bytes];
            prop_assert_eq!(&question[question.len() - 4..question.len() - 2], qtype.to_be_bytes());
            let opt = edns::find(query.message).expect("well formed");
            prop_assert_eq!(opt.is_some(), edns || !flags.is_empty());
            if let Some(opt) = opt {
                prop_assert_eq!(opt.ttl_s & edns::DO != 0, flags.contains('D'));
                prop_assert_eq!(opt.class, Edns::default().udp_payload_bytes);
            }
            binary.extend_from_slice(&(query.message.len() as u16).to_be_bytes());
            binary.extend_from_slice(query.message);
        }
        let from_binary = open(directory.path(), &binary, Format::Auto, edns);
        prop_assert_eq!(from_binary.queries(), from_text.queries());
        for (one, other) in from_text.iter().zip(from_binary.iter()) {
            prop_assert_eq!((one.message, one.question_bytes), (other.message, other.question_bytes));
        }
    }
}
