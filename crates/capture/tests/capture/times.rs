//! Stamps of clocks that were set, and strays.

use super::bytes::{asked, pcap_header, pcap_packet, read};

const RAW: u32 = 101;

/// The beginning of the captures, seconds.
const START_S: u32 = 1_700_000_000;

/// The times, in seconds from the beginning, of queries with these stamps; and how many steps and strays there were.
fn times(stamps_s: &[i32]) -> (Vec<i64>, u64, u64) {
    let mut capture = pcap_header(0xa1b2_3c4d, RAW, false);
    for (number, stamp_s) in stamps_s.iter().enumerate() {
        let packet = asked(number as u16);
        capture.extend(pcap_packet(START_S.wrapping_add_signed(*stamp_s), 0, &packet, packet.len()));
    }
    let outcome = read(capture);
    assert_eq!(outcome.ids(), (0..stamps_s.len() as u16).collect::<Vec<_>>(), "all, in their order");
    let second = |at_ns: u64| (at_ns / 1_000_000_000) as i64 - i64::from(START_S);
    let times = outcome.messages.iter().map(|message| second(message.at_ns)).collect();
    (times, outcome.counts.steps, outcome.counts.strays)
}

#[test]
fn times_go_on_when_the_clock_is_set_back() {
    let stamps: Vec<i32> = (0..20).chain(-3600..-3580).collect();
    let expected: Vec<i64> = (0..20).chain(19..39).collect();
    assert_eq!(times(&stamps), (expected, 1, 0));
}

#[test]
fn strays_and_silence() {
    let stamps: Vec<i32> = (0..5).chain([3600, -3600]).chain(5..15).chain([1000, 1001]).collect();
    let expected: Vec<i64> = (0..5).chain([4, 4]).chain(5..15).chain([1000, 1001]).collect();
    assert_eq!(times(&stamps), (expected, 0, 2));
}

#[test]
fn what_is_held_comes_out_before_an_error() {
    let mut capture = pcap_header(0xa1b2_3c4d, RAW, false);
    for (number, stamp_s) in [0, 60, 120].into_iter().enumerate() {
        let packet = asked(number as u16);
        capture.extend(pcap_packet(START_S + stamp_s, 0, &packet, packet.len()));
    }
    capture.extend([0; 7]);
    let outcome = read(capture);
    assert_eq!(outcome.ids(), [0, 1, 2]);
    assert!(outcome.error.is_some_and(|said| said.contains("the header of a packet")));
}
