//! pcapng: sections in both byte orders, interfaces with their links and clocks, and all blocks with packets.

use kqps_capture::Why;

use super::bytes::{AT_NS, PACKET, UDP, asked, asked6, client, ip, read, server, udp};

pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE: u32 = 1;
pub(crate) const OLD_PACKET: u32 = 2;
pub(crate) const SIMPLE_PACKET: u32 = 3;
pub(crate) const STATISTICS: u32 = 5;
pub(crate) const PACKET_BLOCK: u32 = 6;

const RAW: u16 = 101;
const ETHERNET: u16 = 1;
/// `AT_NS` in microseconds, the usual resolution.
pub(crate) const AT_US: u64 = AT_NS / 1000;

/// Writes the numbers of one byte order.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub(crate) is_big: bool,
}

pub(crate) const LITTLE: Order = Order { is_big: false };
pub(crate) const BIG: Order = Order { is_big: true };

impl Order {
    fn half(self, number: u16) -> [u8; 2] {
        if self.is_big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    pub(crate) fn word(self, number: u32) -> [u8; 4] {
        if self.is_big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// A block, its content padded to words.
    pub(crate) fn block(self, kind: u32, content: &[u8]) -> Vec<u8> {
        let mut content = content.to_vec();
        content.resize(content.len().next_multiple_of(4), 0);
        let length = self.word(12 + content.len() as u32);
        [&self.word(kind)[..], &length, &content, &length].concat()
    }

    pub(crate) fn section(self) -> Vec<u8> {
        let content = [&self.word(0x1a2b_3c4d)[..], &self.half(1), &self.half(0), &[0xff; 8]].concat();
        self.block(SECTION, &content)
    }

    pub(crate) fn interface(self, link: u16, snap_bytes: u32, options: &[u8]) -> Vec<u8> {
        let content = [&self.half(link)[..], &[0, 0], &self.word(snap_bytes), options].concat();
        self.block(INTERFACE, &content)
    }

    pub(crate) fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [self.half(code), self.half(value.len() as u16)].concat();
        option.extend_from_slice(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    /// An enhanced packet block.
    pub(crate) fn packet(self, interface: u32, ticks: u64, packet: &[u8]) -> Vec<u8> {
        let bytes = packet.len() as u32;
        let words = [interface, (ticks >> 32) as u32, ticks as u32, bytes, bytes].map(|word| self.word(word));
        self.block(PACKET_BLOCK, &[&words.concat()[..], packet].concat())
    }
}

#[test]
fn the_bytes_of_blocks_are_known() {
    let section = [
        0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0,
    ];
    assert_eq!(LITTLE.section(), section);
    let interface = [0, 0, 0, 1, 0, 0, 0, 20, 0, 101, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20];
    assert_eq!(BIG.interface(RAW, 0, &[]), interface);
}

#[test]
fn both_byte_orders_are_read() {
    for order in [LITTLE, BIG] {
        let parts = [order.section(), order.interface(RAW, 0, &[]), order.packet(0, AT_US, &PACKET)];
        let outcome = read(parts.concat());
        assert_eq!(outcome.error, None);
        assert_eq!((outcome.ids(), outcome.messages[0].at_ns), (vec![1], AT_NS));
    }
}

#[test]
fn a_section_has_its_own_order_and_interfaces() {
    let ethernet = [&[2_u8, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &asked(2)].concat();
    let outcome = read(
        [
            LITTLE.section(),
            LITTLE.interface(RAW, 0, &[]),
            LITTLE.packet(0, AT_US, &asked(1)),
            BIG.section(),
            BIG.interface(ETHERNET, 0, &[]),
            BIG.interface(RAW, 0, &[]),
            BIG.packet(0, AT_US, &ethernet),
            BIG.packet(1, AT_US, &asked6(3)),
        ]
        .concat(),
    );
    assert_eq!((outcome.error.clone(), outcome.ids()), (None, vec![1, 2, 3]));
    assert!(outcome.messages.iter().all(|message| message.at_ns == AT_NS));
}

#[test]
fn clocks_have_resolutions_and_offsets() {
    for order in [LITTLE, BIG] {
        let offset = if order.is_big { 1_000_i64.to_be_bytes() } else { 1_000_i64.to_le_bytes() };
        let options = [
            [order.option(2, b"eth0"), order.option(9, &[9]), order.option(0, &[])].concat(),
            [order.option(9, &[0x8a]), order.option(14, &offset), order.option(0, &[])].concat(),
            // Nothing counts after the end of options.
            [order.option(0, &[]), order.option(9, &[3])].concat(),
        ];
        let mut parts = vec![order.section()];
        parts.extend(options.iter().map(|options| order.interface(RAW, 0, options)));
        // A file each: beside the others a time of 1970 would be a stray.
        for (interface, stamp, at_ns) in
            [(0, AT_NS, AT_NS), (1, 1024 * 5 + 512, 1_005_500_000_000), (2, AT_US, AT_NS)]
        {
            let outcome = read([&parts[..], &[order.packet(interface, stamp, &asked(1))]].concat().concat());
            assert_eq!(outcome.error, None);
            let found: Vec<_> = outcome.messages.iter().map(|message| message.at_ns).collect();
            assert_eq!(found, [at_ns], "interface {interface}");
        }
    }
}

#[test]
fn simple_packets_are_of_the_first_interface_and_of_the_time_before() {
    let simple = |packet: &[u8]| {
        LITTLE.block(SIMPLE_PACKET, &[&LITTLE.word(packet.len() as u32)[..], packet].concat())
    };
    let outcome = read(
        [
            LITTLE.section(),
            LITTLE.interface(RAW, 47, &[]),
            simple(&asked(1)),
            LITTLE.packet(0, AT_US, &asked(2)),
            simple(&asked(3)),
            // A byte more than the interface takes of a packet.
            simple(&ip(client(), server(), UDP, 4, &udp(client(), server(), &[0; 20]))),
        ]
        .concat(),
    );
    assert_eq!((outcome.error.clone(), outcome.ids()), (None, vec![1, 2, 3]));
    let at_ns: Vec<_> = outcome.messages.iter().map(|message| message.at_ns).collect();
    assert_eq!(at_ns, [0, AT_NS, AT_NS]);
    assert_eq!(outcome.skipped(), [(Why::Cut, 1)]);
}

#[test]
fn packet_blocks_of_old_are_read() {
    for order in [LITTLE, BIG] {
        let bytes = PACKET.len() as u32;
        let words = [(AT_US >> 32) as u32, AT_US as u32, bytes, bytes].map(|word| order.word(word));
        let content = [&order.half(1)[..], &order.half(7), &words.concat(), &PACKET].concat();
        let outcome = read(
            [
                order.section(),
                order.interface(ETHERNET, 0, &[]),
                order.interface(RAW, 0, &[]),
                order.block(OLD_PACKET, &content),
            ]
            .concat(),
        );
        assert_eq!((outcome.error.clone(), outcome.ids()), (None, vec![1]));
        assert_eq!(outcome.messages[0].at_ns, AT_NS);
    }
}

#[test]
fn other_blocks_are_passed_over_whatever_their_length() {
    let outcome = read(
        [
            LITTLE.section(),
            LITTLE.block(0x8000_1234, &vec![7; 3 << 20]),
            LITTLE.interface(RAW, 0, &[]),
            LITTLE.block(STATISTICS, &[0; 12]),
            LITTLE.block(4, &[]),
            LITTLE.packet(0, AT_US, &PACKET),
            LITTLE.block(0x0bad, &[1, 2, 3, 4]),
        ]
        .concat(),
    );
    assert_eq!((outcome.error.clone(), outcome.ids(), outcome.counts.packets), (None, vec![1], 1));
}

#[test]
fn options_of_packets_do_not_matter() {
    let mut content = LITTLE.packet(0, AT_US, &PACKET)[8..].to_vec();
    content.truncate(content.len() - 4);
    // A comment, and an option that is longer than its block.
    content.extend(LITTLE.option(1, b"a comment"));
    content.extend([2, 0, 0xff, 0xff]);
    let parts = [LITTLE.section(), LITTLE.interface(RAW, 0, &[]), LITTLE.block(PACKET_BLOCK, &content)];
    assert_eq!(read(parts.concat()).ids(), [1]);
}
