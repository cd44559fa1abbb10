//! The result does not depend on how a file is cut into pieces, or on how many threads read them.

use std::fmt::Write as _;
use std::path::Path;

use kqps_zone::master::{self, Options, Reading};
use proptest::prelude::*;

use super::{ALONE, EXAMPLE, shown, texts};

/// Parts of files, good and bad. At many places in them a cut would be wrong.
const FRAGMENTS: &[&str] = &[
    "a 1 A 10.0.0.1\n",
    "b A 10.0.0.2\n",
    " A 10.0.0.3\n",
    "c 2 AAAA ::1 ; comment (\n",
    "d TXT \"x\ny 1 A 10.0.0.4\n$TTL 5\n\"\n",
    "e 3 MX ( 1\nf )\n",
    "f A (\n$ORIGIN wrong.\n10.0.0.5 )\n",
    "$ORIGIN g\n",
    "$ORIGIN example.\n",
    "$TTL 6\n",
    "$TTL 4000000000\n",
    "$INCLUDE more\n",
    "$GENERATE 1-3 h$ A 10.0.0.$\n",
    "@ SOA . . 1 1 1 1 7\n",
    "i 8 A 10.0.0\n",
    "j 9 A ( 10.0.0.6\n",
    "k 9 TXT \"\n",
    ")\n",
    "\n",
    "; comment\n",
    "l\\",
    "m 1 ",
    "\r\n",
];

const INCLUDED: &[u8] = b" A 10.1.0.1\nz A 10.1.0.2\n$TTL 9\n$ORIGIN y\nx A 10.1.0.3\n y 2 A ( 10.1.0.4 )\n";

fn read(text: &str, threads: usize, piece_bytes: usize) -> Reading {
    let options = Options { threads, piece_bytes, open: &|_| Ok(INCLUDED.to_vec()), ..ALONE };
    master::read(text.as_bytes(), Path::new("zone"), EXAMPLE, &options)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pieces_make_the_whole(
        fragments in prop::collection::vec(prop::sample::select(FRAGMENTS), 0..60),
        piece_bytes in 1_usize..200,
        threads in 1_usize..4,
    ) {
        let text = fragments.concat();
        let whole = read(&text, 1, usize::MAX);
        let pieces = read(&text, threads, piece_bytes);
        prop_assert_eq!(texts(&whole.errors), texts(&pieces.errors));
        prop_assert_eq!(whole.more_errors, pieces.more_errors);
        if !whole.more_errors {
            prop_assert_eq!(shown(&whole), shown(&pieces));
            prop_assert_eq!(texts(&whole.warnings), texts(&pieces.warnings));
        }
    }
}

#[test]
fn a_big_file_has_the_right_lines() {
    let mut text = "@ SOA . . 1 1 1 1 3600\n".to_owned();
    for line in 2..=60_000 {
        match line % 1000 {
            0 => writeln!(text, "$ORIGIN {line}.example."),
            1 => writeln!(text),
            500 => writeln!(text, "; a comment"),
            _ => writeln!(text, "host{line} A 10.0.0.1"),
        }
        .expect("there is memory");
    }
    text += "wrong\n";
    let reading = read(&text, 3, 1 << 16);
    assert_eq!(
        texts(&reading.errors),
        ["zone:60001:6: expected a TTL, a class or a type, found the end of the record"]
    );
    assert!(reading.batches.len() > 10, "the file was cut");
    let mut hosts = 0;
    for (_, record) in reading.batches.iter().flat_map(|batch| batch.records()).skip(1) {
        assert!(record.owner[1..].starts_with(format!("host{}", record.line).as_bytes()));
        assert_eq!(record.ttl_s, 3600);
        hosts += 1;
    }
    // Three of each thousand lines are not records; line 1 is the SOA record.
    assert_eq!(hosts, 60 * 997);
}
