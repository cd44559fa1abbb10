//! Frames of every link.

use kqps_capture::Why;

use super::bytes::{PACKET, asked6, pcap, read};

const STATIONS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// The link's number, and what precedes the packet in a frame.
fn frames_of_ipv4() -> Vec<(u32, Vec<u8>)> {
    let ethernet = |rest: &[u8]| [&STATIONS[..], rest].concat();
    vec![
        (1, ethernet(&[8, 0])),
        // Frames with one tag, two, and three.
        (1, ethernet(&[0x81, 0, 0, 10, 8, 0])),
        (1, ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 10, 8, 0])),
        (1, ethernet(&[0x91, 0, 0, 5, 0x81, 0, 0, 10, 0x81, 0, 0, 11, 8, 0])),
        (1, ethernet(&[0x92, 0, 0, 5, 0x81, 0, 0, 10, 8, 0])),
        (113, vec![0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0]),
        (113, vec![0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x81, 0, 0, 10, 8, 0]),
        (276, vec![8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]),
        (276, vec![0x81, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0, 10, 8, 0]),
        (12, vec![]),
        (14, vec![]),
        (101, vec![]),
        (228, vec![]),
        (0, vec![2, 0, 0, 0]),
        (0, vec![0, 0, 0, 2]),
        (108, vec![0, 0, 0, 2]),
    ]
}

fn frames_of_ipv6() -> Vec<(u32, Vec<u8>)> {
    vec![
        (1, [&STATIONS[..], &[0x86, 0xdd]].concat()),
        (113, vec![0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x86, 0xdd]),
        (276, vec![0x86, 0xdd, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]),
        (101, vec![]),
        (229, vec![]),
        // Linux, OpenBSD, FreeBSD, macOS.
        (0, vec![10, 0, 0, 0]),
        (0, vec![24, 0, 0, 0]),
        (0, vec![28, 0, 0, 0]),
        (0, vec![0, 0, 0, 30]),
        (108, vec![0, 0, 0, 24]),
    ]
}

#[test]
fn a_query_is_found_in_the_frames_of_every_link() {
    let of_ipv4 = frames_of_ipv4().into_iter().map(|frame| (frame, PACKET.to_vec()));
    let of_ipv6 = frames_of_ipv6().into_iter().map(|frame| (frame, asked6(1)));
    for ((link, header), packet) in of_ipv4.chain(of_ipv6) {
        // Frames are padded to the least length of Ethernet.
        let frame = [&header[..], &packet, &[0; 20]].concat();
        let outcome = read(pcap(link, &[frame]));
        assert_eq!((outcome.error.clone(), outcome.ids()), (None, vec![1]), "link {link}, {header:x?}");
    }
}

#[test]
fn every_frame_may_end_too_soon() {
    for (link, header) in frames_of_ipv4() {
        let whole = [&header[..], &PACKET].concat();
        for bytes in 0..whole.len() {
            let outcome = read(pcap(link, &[whole[..bytes].to_vec()]));
            assert_eq!(outcome.skipped(), [(Why::BadHeader, 1)], "link {link}, {bytes} bytes");
        }
    }
}

#[test]
fn other_content_is_no_packet() {
    let arp = [&STATIONS[..], &[8, 6], &[0; 28]].concat();
    let length = [&STATIONS[..], &[0, 40], &[0; 40]].concat();
    for (link, frame) in [
        (1, arp),
        (1, length),
        (0, vec![7, 0, 0, 0, 0x45, 0]),
        (0, vec![2, 0, 0, 0, 0x55, 0]),
        (101, vec![0x50; 40]),
    ] {
        assert_eq!(read(pcap(link, &[frame])).skipped(), [(Why::NotIp, 1)], "link {link}");
    }
}

#[test]
fn an_unknown_link_is_counted() {
    assert_eq!(read(pcap(105, &[PACKET.to_vec(), PACKET.to_vec()])).skipped(), [(Why::Link, 2)]);
}
