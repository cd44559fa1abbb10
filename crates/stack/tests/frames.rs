//! Frames whose bytes were made without this crate, and arbitrary ones.

use std::net::{IpAddr, SocketAddr};

use kqps_stack::tcp::{self, Flags, Header, Options, Segment};
use kqps_stack::{Ends, Path, Protocol, parse, turn_round, udp};
use proptest::prelude::*;

/// UDP over IPv4: `hello` from 192.0.2.1:4242 to 192.0.2.53:53.
const UDP4: &str = "02000000000a02000000000b080045000021000040004011b695c0000201c00002\
                    3510920035000d270468656c6c6f";

/// UDP over IPv6 in VLAN 100: `hi` from `2001:db8::1` port 4242 to `2001:db8::35` port 53.
const UDP6: &str = "02000000000a02000000000b8100006486dd60000000000a114020010db8000000\
                    00000000000000000120010db800000000000000000000003510920035000a2b02\
                    6869";

/// A SYN over IPv4 with MSS, window scale and timestamps, from port 40000 to 53.
const SYN4: &str = "02000000000a02000000000b08004500003c000040004006b685c0000201c00002\
                    359c4000351122334400000000a002800061ec0000020405b4010303030101080a\
                    0102030400000000";

/// Data over IPv6 in VLAN 4094, with timestamps, from port 40000 to 853.
const DATA6: &str = "02000000000a02000000000b81000ffe86dd600000000025064020010db8000000\
                     00000000000000000120010db800000000000000000000003\
                     59c400355fffffff05566778880181234bddb00000101080a0a0b0c0d01020304\
                     0003616263";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks(2).map(|pair| (digit(pair[0]) << 4) | digit(pair[1])).collect()
}

fn ends(from: &str, to: &str, vlan: Option<u16>) -> Ends {
    let path = Path { source_mac: [2, 0, 0, 0, 0, 11], target_mac: [2, 0, 0, 0, 0, 10], vlan };
    Ends { path, from: from.parse().unwrap(), to: to.parse().unwrap() }
}

fn udp_frame(ends: &Ends, payload: &[u8]) -> Vec<u8> {
    let at = udp::header_bytes(ends);
    let mut frame = vec![0xee; at + payload.len()];
    frame[at..].copy_from_slice(payload);
    assert_eq!(udp::write(&mut frame, ends, payload.len()), frame.len());
    frame
}

fn tcp_frame(ends: &Ends, header: &Header, payload: &[u8]) -> Vec<u8> {
    let at = tcp::header_bytes(ends, &header.options);
    let mut frame = vec![0xee; at + payload.len()];
    frame[at..].copy_from_slice(payload);
    assert_eq!(tcp::write(&mut frame, ends, header, payload.len()), frame.len());
    frame
}

fn syn() -> Header {
    Header {
        sequence: 0x1122_3344,
        acknowledgment: 0,
        flags: Flags::SYN,
        window: 0x8000,
        options: Options { mss: Some(1460), window_scale: Some(3), timestamps: Some((0x0102_0304, 0)) },
    }
}

fn data() -> Header {
    Header {
        sequence: 0xffff_fff0,
        acknowledgment: 0x5566_7788,
        flags: Flags::ACK.with(Flags::PSH),
        window: 0x1234,
        options: Options { timestamps: Some((0x0a0b_0c0d, 0x0102_0304)), ..Options::default() },
    }
}

fn known() -> [(&'static str, Ends, Option<Header>, &'static [u8]); 4] {
    let (four, six) = (ends("192.0.2.1:4242", "192.0.2.53:53", None), "[2001:db8::1]:4242");
    [
        (UDP4, four, None, b"hello"),
        (UDP6, ends(six, "[2001:db8::35]:53", Some(100)), None, b"hi"),
        (SYN4, ends("192.0.2.1:40000", "192.0.2.53:53", None), Some(syn()), b""),
        (DATA6, ends("[2001:db8::1]:40000", "[2001:db8::35]:853", Some(4094)), Some(data()), b"\0\x03abc"),
    ]
}

#[test]
fn known_frames_are_written() {
    for (hex, ends, header, payload) in known() {
        let frame = match header {
            Some(header) => tcp_frame(&ends, &header, payload),
            None => udp_frame(&ends, payload),
        };
        assert!(frame == bytes(hex), "{ends:?}: {frame:02x?}");
    }
}

#[test]
fn known_frames_are_read() {
    for (hex, ends, header, payload) in known() {
        // A short frame is padded (IEEE 802.3).
        for padding in [0, 1, 20] {
            let frame = [bytes(hex), vec![0; padding]].concat();
            let parsed = parse(&frame).unwrap();
            assert_eq!((parsed.ends, parsed.payload()), (ends, payload));
            assert_eq!(&frame[parsed.payload_range()], payload);
            assert!(parsed.verify());
            let protocol = if header.is_some() { Protocol::Tcp } else { Protocol::Udp };
            assert_eq!(parsed.protocol(), protocol);
            assert_eq!(Segment::from_parsed(&parsed).map(|segment| segment.header), header);
        }
    }
}

#[test]
fn a_cut_frame_is_none_and_a_flipped_bit_is_seen() {
    for (hex, _, _, payload) in known() {
        let frame = bytes(hex);
        for length in 0..frame.len() {
            assert!(parse(&frame[..length]).is_none(), "{length} bytes of {hex}");
        }
        let transport = frame.len() - payload.len() - 8;
        for at in transport..frame.len() {
            for bit in 0..8 {
                let mut flipped = frame.clone();
                flipped[at] ^= 1 << bit;
                let is_seen = parse(&flipped).is_none_or(|parsed| !parsed.verify());
                assert!(is_seen, "bit {bit} of byte {at} of {hex}");
            }
        }
    }
}

#[test]
fn what_is_not_whole_or_not_ours_is_none() {
    let frame = bytes(UDP4);
    let with = |at: usize, value: u8| {
        let mut frame = frame.clone();
        frame[at] = value;
        frame
    };
    // ARP, an unknown version, a header of 16 bytes, more fragments, a later fragment, and ICMP.
    for (at, value) in [(13, 6), (14, 0x55), (14, 0x44), (20, 0x20), (21, 1), (23, 1)] {
        assert!(parse(&with(at, value)).is_none(), "byte {at} is {value}");
    }
    let tagged = [&frame[..12], &[0x81, 0, 0, 1, 0x81, 0, 0, 2], &frame[12..]].concat();
    assert!(parse(&tagged).is_none(), "two tags");
    let tagged = [&frame[..12], &[0x81, 0, 0x60, 1], &frame[12..]].concat();
    assert_eq!(parse(&tagged).unwrap().ends.path.vlan, Some(1), "priority is not part of the number");
    let mut none = frame.clone();
    none[40..42].fill(0);
    assert!(parse(&none).unwrap().verify(), "no checksum of UDP over IPv4");
    let mut none = bytes(UDP6);
    none[64..66].fill(0);
    assert!(!parse(&none).unwrap().verify(), "a datagram over IPv6 must have one");
}

#[test]
fn options_of_ip_are_passed_over() {
    let frame = bytes(UDP4);
    // Four times "no operation", which the checksums below then lack.
    let mut long = [&frame[..34], &[1; 4], &frame[34..]].concat();
    long[14] = 0x46;
    long[17] += 4;
    let parsed = parse(&long).unwrap();
    assert_eq!(parsed.payload(), b"hello");
    let asked = parsed.payload_range();
    long.resize(200, 0);
    let length = udp::reply(&mut long, frame.len() + 4, 9).unwrap();
    let reply = parse(&long[..length]).unwrap();
    assert_eq!((reply.payload_range(), reply.verify()), (asked.start..asked.start + 9, true));

    let frame = bytes(UDP6);
    // Destination options with padding alone, and a fragment header.
    for (next, is_read) in [(60, true), (0, true), (44, false), (43, false)] {
        let mut long = [&frame[..58], &[17, 0, 1, 4, 0, 0, 0, 0], &frame[58..]].concat();
        long[23] += 8;
        long[24] = next;
        let parsed = parse(&long);
        assert_eq!(parsed.is_some(), is_read, "next header {next}");
        assert!(parsed.is_none_or(|parsed| parsed.verify() && parsed.payload() == b"hi"));
    }
}

#[test]
fn a_frame_is_turned_round_and_stays_right() {
    for (hex, ends, _, payload) in known() {
        let mut frame = bytes(hex);
        let hops = if ends.path.vlan.is_some() { 25 } else { 22 };
        // A hop changed the hop limit, and the checksum of IPv4 with it.
        frame[hops] = 9;
        if ends.path.vlan.is_none() {
            frame[24..26].fill(0);
            let sum = kqps_stack::checksum::Sum::from_bytes(&frame[14..34]).checksum();
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        assert!(turn_round(&mut frame));
        let parsed = parse(&frame).unwrap();
        assert_eq!((parsed.ends, parsed.payload()), (ends.turned(), payload));
        assert!(parsed.verify());
        assert_eq!(frame[hops], 64);
    }
    let mut other = bytes(UDP4)[..30].to_vec();
    assert!(!turn_round(&mut other));
    assert_eq!(other, bytes(UDP4)[..30]);
}

#[test]
fn a_reply_takes_the_place_of_its_query() {
    for (hex, ends) in known().into_iter().filter(|known| known.2.is_none()).map(|known| (known.0, known.1)) {
        for length in [0, 1, 5, 512, 1200] {
            let mut frame = bytes(hex);
            let (asked, at) = (frame.len(), parse(&frame).unwrap().payload_range().start);
            frame.resize(at + 1200, 0);
            for (place, value) in frame[at..].iter_mut().zip(0_u32..) {
                *place = value as u8;
            }
            assert_eq!(udp::reply(&mut frame, asked, length), Some(at + length));
            let expected = udp_frame(&ends.turned(), &frame[at..at + length]);
            assert!(frame[..at + length] == expected, "{length} bytes for {ends:?}");
            assert_eq!(udp::reply(&mut frame, at + length, 1201), None);
        }
    }
    assert_eq!(udp::reply(&mut bytes(SYN4), bytes(SYN4).len(), 0), None);
}

#[test]
fn mixed_families_are_written_as_mapped_addresses() {
    let frame = udp_frame(&ends("192.0.2.1:1", "[2001:db8::2]:2", None), b"abc");
    let parsed = parse(&frame).unwrap();
    assert!(parsed.verify());
    assert_eq!(parsed.ends.from, "[::ffff:192.0.2.1]:1".parse::<SocketAddr>().unwrap());
}

fn any_ends() -> impl Strategy<Value = Ends> {
    let addresses = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(from, to)| (IpAddr::from(from), IpAddr::from(to))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(from, to)| (IpAddr::from(from), IpAddr::from(to))),
    ];
    let path = (any::<[u8; 6]>(), any::<[u8; 6]>(), prop::option::of(0_u16..4096));
    (path, addresses, any::<(u16, u16)>()).prop_map(|(path, (from, to), ports)| Ends {
        path: Path { source_mac: path.0, target_mac: path.1, vlan: path.2 },
        from: SocketAddr::new(from, ports.0),
        to: SocketAddr::new(to, ports.1),
    })
}

/// Whatever the bytes are, they are read without a panic.
fn read(bytes: &[u8]) {
    if let Some(parsed) = parse(bytes) {
        parsed.verify();
        let _ = Segment::from_parsed(&parsed).map(|segment| segment.length());
    }
    let mut frame = bytes.to_vec();
    turn_round(&mut frame);
    let _ = udp::reply(&mut frame, bytes.len(), 7);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        read(&bytes);
    }

    #[test]
    fn known_frames_with_changes_are_read(
        number in 0_usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut frame = bytes(known()[number].0);
        for (place, value) in changes {
            let place = place.index(frame.len());
            frame[place] = value;
        }
        read(&frame);
        read(&frame[..end.index(frame.len())]);
    }

    #[test]
    fn what_is_written_is_read(
        ends in any_ends(),
        payload in prop::collection::vec(any::<u8>(), 0..1400),
        numbers in any::<(u32, u32, u8, u16)>(),
        options in any::<(Option<u16>, bool, Option<(u32, u32)>)>(),
    ) {
        let frame = udp_frame(&ends, &payload);
        let parsed = parse(&frame).unwrap();
        prop_assert!(parsed.verify());
        prop_assert_eq!((parsed.ends, parsed.payload()), (ends, &payload[..]));
        let header = Header {
            sequence: numbers.0,
            acknowledgment: numbers.1,
            flags: Flags(numbers.2),
            window: numbers.3,
            options: Options { mss: options.0, window_scale: options.1.then_some(14), timestamps: options.2 },
        };
        let frame = tcp_frame(&ends, &header, &payload);
        let parsed = parse(&frame).unwrap();
        prop_assert!(parsed.verify());
        let segment = Segment::from_parsed(&parsed).unwrap();
        prop_assert_eq!((parsed.ends, segment.header, segment.payload), (ends, header, &payload[..]));
    }
}
