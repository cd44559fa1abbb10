//! IPv4 with options and fragments, and IPv6 with extension headers and fragments.

use std::net::SocketAddr;

use kqps_capture::Why;

use super::bytes::{
    AT_NS, UDP, asked, client, client6, ip, pcap, pcap_header, pcap_packet, query, read, server, server6, udp,
};

const RAW: u32 = 101;

/// A fragment of IPv4. `at` is its place in bytes, a multiple of 8.
fn fragment4(number: u16, at: usize, is_last: bool, content: &[u8]) -> Vec<u8> {
    let mut packet = ip(client(), server(), UDP, number, content);
    let flags = if is_last { 0 } else { 0x2000 };
    packet[6..8].copy_from_slice(&(flags | (at / 8) as u16).to_be_bytes());
    packet
}

/// A fragment of IPv6 whose header names `next`.
fn fragment6(number: u32, next: u8, at: usize, is_last: bool, content: &[u8]) -> Vec<u8> {
    let place = at as u16 | u16::from(!is_last);
    let header = [&[next, 0][..], &place.to_be_bytes(), &number.to_be_bytes()].concat();
    ip(client6(), server6(), 44, 0, &[header, content.to_vec()].concat())
}

/// A datagram of 40 bytes with a query.
fn datagram(from: SocketAddr, to: SocketAddr, id: u16) -> Vec<u8> {
    let mut message = query(id);
    message.resize(32, 0);
    udp(from, to, &message)
}

#[test]
fn options_of_ipv4_are_passed_over() {
    let mut packet = asked(1);
    packet[0] = 0x47;
    packet[3] += 8;
    // No operation seven times, and the end of options.
    packet.splice(20..20, [1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(read(pcap(RAW, &[packet])).ids(), [1]);
}

#[test]
fn extension_headers_are_passed_over() {
    let datagram = udp(client6(), server6(), &query(1));
    let pad = [1_u8, 4, 0, 0, 0, 0];
    // Hop by hop, destination options, routing, a fragment that is whole, authentication, destination options.
    let headers = [
        &[60_u8, 0][..],
        &pad,
        &[43, 0],
        &pad,
        &[44, 0, 0, 0, 0, 0, 0, 0],
        &[51, 0, 0, 0, 0, 0, 0, 7],
        &[60, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3],
        &[17, 0],
        &pad,
    ]
    .concat();
    let packet = ip(client6(), server6(), 0, 1, &[headers, datagram].concat());
    assert_eq!(read(pcap(RAW, &[packet])).ids(), [1]);
}

#[test]
fn authentication_in_ipv4_is_passed_over() {
    let header = [17_u8, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];
    let content = [&header[..], &udp(client(), server(), &query(1))].concat();
    assert_eq!(read(pcap(RAW, &[ip(client(), server(), 51, 1, &content)])).ids(), [1]);
}

#[test]
fn fragments_of_ipv4_are_put_together_in_any_order() {
    let whole = datagram(client(), server(), 1);
    let parts = [(0, 16), (16, 32), (32, 40)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let packets: Vec<_> = order
            .into_iter()
            .map(|part: usize| {
                let (from, to) = parts[part];
                fragment4(7, from, to == 40, &whole[from..to])
            })
            .collect();
        let outcome = read(pcap(RAW, &packets));
        assert_eq!((outcome.ids(), outcome.skipped()), (vec![1], vec![(Why::Fragment, 2)]), "{order:?}");
        assert_eq!(outcome.messages[0].bytes.len(), 32);
    }
}

#[test]
fn fragments_of_ipv6_are_put_together_and_the_first_says_what_they_carry() {
    let whole = datagram(client6(), server6(), 1);
    // The payload begins with destination options.
    let whole = [&[17_u8, 0, 1, 4, 0, 0, 0, 0][..], &whole].concat();
    let packets = [
        fragment6(7, 6, 40, true, &whole[40..]),
        fragment6(7, 60, 0, false, &whole[..16]),
        fragment6(7, 6, 16, false, &whole[16..40]),
    ];
    let outcome = read(pcap(RAW, &packets));
    assert_eq!((outcome.ids(), outcome.skipped()), (vec![1], vec![(Why::Fragment, 2)]));
}

#[test]
fn fragments_of_several_datagrams_do_not_mix() {
    let (one, two) = (datagram(client(), server(), 1), datagram(client(), server(), 2));
    let packets = [
        fragment4(7, 0, false, &one[..16]),
        fragment4(8, 0, false, &two[..24]),
        fragment4(8, 24, true, &two[24..]),
        fragment4(7, 16, true, &one[16..]),
    ];
    let outcome = read(pcap(RAW, &packets));
    assert_eq!((outcome.ids(), outcome.skipped()), (vec![2, 1], vec![(Why::Fragment, 2)]));
}

#[test]
fn fragments_that_are_never_whole_are_counted_and_the_oldest_given_up() {
    let whole = datagram(client(), server(), 1);
    let firsts = (0..1000).map(|number| fragment4(number, 0, false, &whole[..16]));
    let rests = [10, 990].map(|number| fragment4(number, 16, true, &whole[16..]));
    let outcome = read(pcap(RAW, &firsts.chain(rests).collect::<Vec<_>>()));
    // The datagram 990 was still held, and 10 was not.
    assert_eq!((outcome.ids(), outcome.skipped()), (vec![1], vec![(Why::Fragment, 1001)]));
}

#[test]
fn fragments_of_other_datagrams_take_no_room() {
    let whole = datagram(client(), server(), 1);
    let other = datagram(client(), SocketAddr::new(server().ip(), 2049), 1);
    let mut packets = vec![fragment4(7, 0, false, &whole[..16])];
    packets.extend((1000..2000).flat_map(|number| {
        [fragment4(number, 0, false, &other[..16]), fragment4(number, 16, true, &other[16..])]
    }));
    packets.push(fragment4(7, 16, true, &whole[16..]));
    let outcome = read(pcap(RAW, &packets));
    let skipped = vec![(Why::OtherPort, 2000), (Why::Fragment, 1)];
    assert_eq!((outcome.ids(), outcome.skipped()), (vec![1], skipped));
}

#[test]
fn fragments_do_not_wait_forever() {
    let whole = datagram(client(), server(), 1);
    let mut capture = pcap_header(0xa1b2_3c4d, RAW, false);
    let packets = [fragment4(7, 0, false, &whole[..16]), fragment4(7, 16, true, &whole[16..])];
    for (seconds, packet) in [0, 31].into_iter().zip(packets) {
        let at_s = (AT_NS / 1_000_000_000) as u32 + seconds;
        capture.extend(pcap_packet(at_s, 0, &packet, packet.len()));
    }
    assert_eq!(read(capture).skipped(), [(Why::Fragment, 2)]);
}

#[test]
fn fragments_that_contradict_each_other_are_bad() {
    let whole = datagram(client(), server(), 1);
    let two_ends = [fragment4(7, 32, true, &whole[32..]), fragment4(7, 16, true, &whole[16..32])];
    assert_eq!(read(pcap(RAW, &two_ends)).skipped(), [(Why::BadHeader, 1), (Why::Fragment, 1)]);
    let odd = [fragment4(7, 0, false, &whole[..15])];
    assert_eq!(read(pcap(RAW, &odd)).skipped(), [(Why::BadHeader, 1)]);
    let beyond = [fragment4(7, 65_528, true, &whole)];
    assert_eq!(read(pcap(RAW, &beyond)).skipped(), [(Why::BadHeader, 1)]);
}

#[test]
fn fragments_that_overlap_make_no_datagram() {
    let whole4 = datagram(client(), server(), 1);
    let whole6 = datagram(client6(), server6(), 1);
    let parts4 = |from: usize, to: usize| fragment4(7, from, to == 40, &whole4[from..to]);
    let parts6 = |from: usize, to: usize| fragment6(7, UDP, from, to == 40, &whole6[from..to]);
    for parts in [&parts4 as &dyn Fn(usize, usize) -> Vec<u8>, &parts6] {
        // By all orders of two that overlap: with the same bytes, as if a path cut the datagram twice.
        for places in [[(0, 16), (8, 40)], [(8, 40), (0, 16)], [(16, 40), (0, 24)]] {
            let mut packets = places.map(|(from, to)| parts(from, to)).to_vec();
            // Later fragments do not bring it back.
            packets.extend([parts(0, 16), parts(16, 40)]);
            let outcome = read(pcap(RAW, &packets));
            let skipped = vec![(Why::BadHeader, 1), (Why::Fragment, 3)];
            assert_eq!((outcome.ids(), outcome.skipped()), (vec![], skipped), "{places:?}");
        }
        let repeated = [parts(0, 16), parts(0, 16), parts(16, 40)];
        assert_eq!(read(pcap(RAW, &repeated)).ids(), [1], "an exact repeat is a copy");
    }
    let mut other = parts4(0, 16);
    other[35] ^= 1;
    let outcome = read(pcap(RAW, &[parts4(0, 16), other, parts4(16, 40)]));
    assert_eq!((outcome.ids(), outcome.skipped()), (vec![], vec![(Why::BadHeader, 1), (Why::Fragment, 2)]));
}

#[test]
fn a_length_of_zero_stands_for_what_was_captured() {
    let mut packet = asked(1);
    packet[2..4].copy_from_slice(&[0, 0]);
    assert_eq!(read(pcap(RAW, &[packet])).ids(), [1]);
}
