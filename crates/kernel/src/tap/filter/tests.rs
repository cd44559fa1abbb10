//! The program on packets that no interface received, as of an interface whose frames are IP packets.

use std::os::fd::AsFd as _;

use super::*;
use crate::bpf;

const TCP: u8 = 6;
const SNAP_BYTES: u32 = 100;

/// The bytes that the program copies of each packet, as of one that came in; `None` without the right to load it.
fn copied(one_in: u32, packets: &[Vec<u8>]) -> Option<Vec<u32>> {
    if let Err(reason) = crate::probe::probe_one("packet-stamps") {
        kqps_skips::skip(kqps_skips::Capability::Root, format!("no program on packets: {reason}"));
        return None;
    }
    let sample = Sample::one_in(one_in);
    let filter = Filter { ports: &[5300, 53], sample, snap_bytes: SNAP_BYTES, has_ethernet: false };
    let program = bpf::load(&filter.program().unwrap(), bpf::OF_SOCKET).unwrap();
    let run = |packet: &Vec<u8>| bpf::run(program.as_fd(), &framed(packet)).unwrap();
    Some(packets.iter().map(run).collect())
}

/// The kernel takes off the Ethernet header before it runs the program.
fn framed(packet: &[u8]) -> Vec<u8> {
    let protocol: u16 = if packet[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
    [&[0; 12], &protocol.to_be_bytes()[..], packet].concat()
}

/// A datagram from port 40000, whose payload begins with an ID.
fn datagram(to: u16, id: u16) -> Vec<u8> {
    let words = [40_000, to, 8 + 12, 0, id];
    [&words.map(u16::to_be_bytes).concat()[..], &[0; 10]].concat()
}

/// IPv4 with these words of options, and with this word of flags and offset.
fn version_4(options: u8, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 20 + 4 * usize::from(options)];
    header[0] = 0x45 + options;
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[9] = protocol;
    [&header[..], payload].concat()
}

fn version_6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; 40];
    (header[0], header[6]) = (0x60, next);
    [&header[..], payload].concat()
}

/// A fragment header of IPv6, with this word of offset and flags.
fn fragment(next: u8, word: u16, payload: &[u8]) -> Vec<u8> {
    let [high, low] = word.to_be_bytes();
    [&[next, 0, high, low, 0, 0, 0, 1], payload].concat()
}

#[test]
fn datagrams_to_the_ports_are_copied_whatever_stands_before_them() {
    let udp = UDP as u8;
    let of_fragment = FRAGMENT as u8;
    let ours = datagram(53, 7);
    let cases = [
        ("plain", version_4(0, 0, udp, &ours), true),
        ("the other port", version_4(0, 0, udp, &datagram(5300, 7)), true),
        ("a port that is not ours", version_4(0, 0, udp, &datagram(54, 7)), false),
        ("options", version_4(2, 0, udp, &ours), true),
        ("the first fragment", version_4(0, 0x2000, udp, &ours), true),
        ("not to be fragmented", version_4(0, 0x4000, udp, &ours), true),
        ("a later fragment", version_4(0, 0x2001, udp, &ours), false),
        ("TCP", version_4(0, 0, TCP, &ours), false),
        ("a payload of one byte", version_4(0, 0, udp, &ours[..9]), false),
        ("version 5", [&[0x55; 20], &ours[..]].concat(), false),
        ("plain IPv6", version_6(udp, &ours), true),
        ("the first fragment of IPv6", version_6(of_fragment, &fragment(udp, 1, &ours)), true),
        ("a later fragment of IPv6", version_6(of_fragment, &fragment(udp, 1 << 3, &ours)), false),
        ("a fragment of TCP", version_6(of_fragment, &fragment(TCP, 1, &ours)), false),
        ("another extension of IPv6", version_6(0, &ours), false),
        ("TCP over IPv6", version_6(TCP, &ours), false),
    ];
    let packets: Vec<_> = cases.iter().map(|(_, packet, _)| packet.clone()).collect();
    let Some(copied) = copied(1, &packets) else { return };
    for ((name, _, is_copied), bytes) in cases.iter().zip(copied) {
        assert_eq!(bytes, if *is_copied { SNAP_BYTES } else { 0 }, "{name}");
    }
}

#[test]
fn the_program_takes_the_sample_that_the_reader_expects() {
    let ids: Vec<u16> = (0..300).map(|number: u16| number.wrapping_mul(977)).collect();
    let packets: Vec<_> = ids.iter().map(|id| version_4(0, 0, UDP as u8, &datagram(53, *id))).collect();
    for one_in in [2, 16, 64] {
        let Some(copied) = copied(one_in, &packets) else { return };
        let sample = Sample::one_in(one_in);
        for (id, bytes) in ids.iter().zip(copied) {
            assert_eq!(bytes > 0, sample.takes(*id), "{id} of one in {one_in}");
        }
    }
}
