//! Damaged captures: one clear error with its offset.

use kqps_capture::Why;

use super::bytes::{PACKET, asked, pcap, pcap_packet, read};
use super::pcapng::{AT_US, LITTLE, PACKET_BLOCK, SIMPLE_PACKET};

const RAW: u32 = 101;
const FILE_HEADER_BYTES: usize = 24;
const RECORD_BYTES: usize = 16 + PACKET.len();

fn error_of(capture: Vec<u8>) -> String {
    read(capture).error.expect("an error")
}

#[test]
fn a_capture_may_end_anywhere() {
    let whole = pcap(RAW, &[asked(1), asked(2)]);
    for bytes in 0..whole.len() {
        let outcome = read(whole[..bytes].to_vec());
        let (records, rest) = match bytes.checked_sub(FILE_HEADER_BYTES) {
            Some(rest) => (rest / RECORD_BYTES, rest % RECORD_BYTES),
            None => (0, bytes),
        };
        assert_eq!(outcome.messages.len(), records);
        let expected = match (bytes, rest) {
            (0, _) => Some("not a capture: it is empty;".to_owned()),
            (1..4, _) => Some("not a capture: it begins with the bytes 4d".to_owned()),
            (4..FILE_HEADER_BYTES, _) => {
                Some("the capture is damaged at byte 0: the capture ends within its header".to_owned())
            }
            (_, 0) => None,
            (_, rest) => {
                let offset = FILE_HEADER_BYTES + records * RECORD_BYTES;
                let what = if rest < 16 { "the header of a packet" } else { "a packet of 47 bytes" };
                Some(format!("the capture is damaged at byte {offset}: the capture ends within {what}"))
            }
        };
        match (expected, outcome.error) {
            (None, None) => {}
            (Some(expected), Some(said)) => assert!(said.starts_with(&expected), "{bytes}: {said}"),
            (expected, said) => panic!("{bytes}: {said:?} is not {expected:?}"),
        }
    }
}

#[test]
fn the_remedy_for_a_capture_that_ends_too_soon_helps() {
    let mut whole = pcap(RAW, &[asked(1), asked(2)]);
    whole.truncate(FILE_HEADER_BYTES + RECORD_BYTES + 20);
    let said = error_of(whole.clone());
    let (_, remedy) = said.split_once("; `head -c ").expect("a remedy");
    let bytes: usize = remedy.split('`').next().and_then(|bytes| bytes.parse().ok()).expect("a number");
    let outcome = read(whole[..bytes].to_vec());
    assert_eq!((outcome.error.clone(), outcome.ids()), (None, vec![1]));
}

#[test]
fn a_pcapng_capture_may_end_anywhere() {
    let parts = [LITTLE.section(), LITTLE.interface(101, 0, &[]), LITTLE.packet(0, AT_US, &PACKET)];
    let starts = [0, parts[0].len(), parts[0].len() + parts[1].len()];
    let whole = parts.concat();
    for bytes in 4..whole.len() {
        let outcome = read(whole[..bytes].to_vec());
        let start = *starts.iter().rev().find(|start| **start <= bytes).expect("the first is 0");
        if bytes == start {
            assert_eq!(outcome.error, None);
        } else {
            let said = outcome.error.expect("an error");
            let begin = format!("the capture is damaged at byte {start}: the capture ends within ");
            assert!(said.starts_with(&begin), "{bytes}: {said}");
        }
    }
}

#[test]
fn a_packet_of_an_impossible_length_is_an_error() {
    let mut capture = pcap(RAW, &[asked(1), asked(2)]);
    let second = FILE_HEADER_BYTES + RECORD_BYTES;
    capture[second + 8..second + 12].copy_from_slice(&[0xff; 4]);
    let outcome = read(capture);
    assert_eq!(outcome.ids(), [1]);
    assert_eq!(
        outcome.error.as_deref(),
        Some("the capture is damaged at byte 87: a packet of 4294967295 bytes; 134217728 are the most")
    );
}

#[test]
fn a_packet_that_is_too_long_for_ip_is_one_bad_packet() {
    for (link, why) in [(RAW, Why::BadHeader), (189, Why::Link)] {
        let mut capture = pcap(link, &[asked(1)]);
        let long = vec![0x45; (256 << 10) + 1];
        capture.extend(pcap_packet(1_700_000_001, 0, &long, long.len()));
        capture.extend(pcap_packet(1_700_000_002, 0, &asked(2), asked(2).len()));
        let outcome = read(capture);
        let read = if link == RAW { vec![1, 2] } else { vec![] };
        assert_eq!((outcome.error.clone(), outcome.ids()), (None, read));
        assert_eq!(outcome.counts.skipped_by(why), if link == RAW { 1 } else { 3 });
    }
    let long = LITTLE.packet(0, AT_US, &vec![0x45; 512 << 10]);
    let blocks = [LITTLE.section(), LITTLE.interface(101, 0, &[]), long, LITTLE.packet(0, AT_US, &PACKET)];
    let outcome = read(blocks.concat());
    assert_eq!((outcome.error.clone(), outcome.ids()), (None, vec![1]));
    assert_eq!(outcome.skipped(), [(Why::BadHeader, 1)]);
}

#[test]
fn other_versions_are_errors() {
    let mut capture = pcap(RAW, &[asked(1)]);
    capture[4] = 3;
    assert_eq!(
        error_of(capture),
        "the capture is damaged at byte 0: version 3.4 of the format; expected 2.4"
    );
    let mut section = LITTLE.section();
    section[12] = 2;
    assert_eq!(
        error_of(section),
        "the capture is damaged at byte 0: version 2.0 of the format; expected 1.0"
    );
}

#[test]
fn text_is_no_capture() {
    assert_eq!(
        error_of(b"a.example. A\n".to_vec()),
        "not a capture: it begins with the bytes 61 2e 65 78; expected pcap, pcapng, or dnstap in Frame Streams, \
         plain or compressed by gzip or zstd"
    );
}

/// Checks the error of a section and an interface, 48 bytes, with this after them.
fn check_block(rest: &[u8], what: &str) {
    let capture = [LITTLE.section(), LITTLE.interface(101, 0, &[]), rest.to_vec()].concat();
    assert_eq!(error_of(capture), format!("the capture is damaged at byte 48: {what}"));
}

#[test]
fn blocks_of_impossible_lengths_are_errors() {
    let of_length = |kind: u32, length: u32| [LITTLE.word(kind), LITTLE.word(length), [0; 4]].concat();
    for length in [0, 4, 8, 11, 13, 0xffff_ffff] {
        let what = format!("a block of {length} bytes; expected at least 12, a multiple of 4");
        for kind in [PACKET_BLOCK, SIMPLE_PACKET, 1, 0x8000_0000] {
            check_block(&of_length(kind, length), &what);
        }
    }
    let most = "a block of 4294967292 bytes; 524288 are the most";
    check_block(&of_length(1, 0xffff_fffc), most);
    // A block that is passed over may have any length, but it must be there.
    let what = "the capture ends within a block of 4294967292 bytes; `head -c 48` of the uncompressed capture keeps \
                what is whole";
    check_block(&of_length(0x8000_0000, 0xffff_fffc), what);
    check_block(&of_length(PACKET_BLOCK, 0xffff_fffc), what);
}

#[test]
fn blocks_that_contradict_themselves_are_errors() {
    for kind in [PACKET_BLOCK, 0x8000_0000] {
        let mut block = LITTLE.block(kind, &[0; 80]);
        let last = block.len() - 4;
        block[last] ^= 4;
        check_block(&block, "a block whose two lengths differ");
    }
    check_block(&LITTLE.block(PACKET_BLOCK, &[0; 16]), "a block of 28 bytes for a packet");
    check_block(&LITTLE.block(SIMPLE_PACKET, &[]), "a block of 12 bytes for a packet");
    let interface = "a packet of interface 1, which has no description";
    check_block(&LITTLE.packet(1, AT_US, &PACKET), interface);
    let mut block = LITTLE.packet(0, AT_US, &PACKET);
    block[20..24].copy_from_slice(&LITTLE.word(49));
    check_block(&block, "a packet of 49 bytes in a block with room for 48");
    block[20..24].copy_from_slice(&[0xff; 4]);
    check_block(&block, "a packet of 4294967295 bytes in a block with room for 48");
}

#[test]
fn interfaces_and_sections_that_cannot_be_read_are_errors() {
    check_block(&LITTLE.block(1, &[0; 4]), "the description of an interface cannot be read");
    let mut section = LITTLE.section();
    section[8] = 0;
    check_block(&section, "the header of a section has no byte order");
    let packet = LITTLE.block(SIMPLE_PACKET, &[0; 8]);
    assert_eq!(
        error_of([LITTLE.section(), packet].concat()),
        "the capture is damaged at byte 28: a packet of interface 0, which has no description"
    );
}

#[test]
fn options_that_loop_or_do_not_fit_are_left_out() {
    // An option of no length, again and again, and one that is longer than its block.
    let mut options = LITTLE.option(5, &[]).repeat(10_000);
    options.extend([9, 0, 0xff, 0xff]);
    let capture = [LITTLE.section(), LITTLE.interface(101, 0, &options), LITTLE.packet(0, AT_US, &PACKET)];
    let outcome = read(capture.concat());
    assert_eq!((outcome.error.clone(), outcome.ids()), (None, vec![1]));
}
