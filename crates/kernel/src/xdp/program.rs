//! Frames that a program hands to sockets: UDP or TCP over Ethernet to addresses and ports of this host, all others go
//! on to the kernel.
//!
//! The program leaves to the kernel what it would have to put together or to interpret: fragments, IPv4 headers with
//! options, and IPv6 headers with extensions.

mod ip;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

use crate::bpf::assembler::Register::{R0, R1, R2, R3, R6, R7, R8, R10};
use crate::bpf::assembler::{Assembler, Instruction, Is, Label, Width};
use ip::Family;

/// Conditions for frames of a device to go to sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The index of the device (netdevice(7)) in the network namespace of the calling thread.
    pub device: u32,
    /// The destination address must be in one of these networks.
    pub own: Vec<Prefix>,
    /// The destination port must be one of these.
    pub ports: RangeInclusive<u16>,
    /// The source must be one of these; with none, any source is good.
    pub peers: Vec<SocketAddr>,
    /// The protocols that the IP packet may carry.
    pub protocols: Protocols,
    /// `None`: only frames without a VLAN tag match. Otherwise those with a tag of this number do (IEEE 802.1Q, and no
    /// tag before it).
    pub vlan: Option<u16>,
    /// Whether frames without a tag match as well if there is a VLAN, since some devices remove it before the program
    /// sees the frame. A server that turns frames round answers them without a tag, too.
    pub untagged: bool,
}

/// The addresses whose first bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// An address of the network; bits beyond the prefix do not count.
    pub address: IpAddr,
    /// The number of bits that count: up to 32 for IPv4 and 128 for IPv6.
    pub bits: u8,
}

impl Prefix {
    /// The prefix of a single address.
    pub fn of_one(address: IpAddr) -> Self {
        Self { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }
}

/// Protocols over IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// UDP alone.
    Udp,
    /// TCP alone.
    Tcp,
    /// UDP and TCP.
    Both,
}

/// The length of the time of arrival in front of a frame, in bytes.
pub(super) const ARRIVAL_BYTES: i32 = 8;

/// The counter of frames that went to a socket.
pub(super) const MATCHED: u32 = 0;

/// The counter of frames that matched, but whose queue had no socket: they went on to the kernel.
pub(super) const UNCLAIMED: u32 = 1;

/// The number of counters.
pub(super) const COUNTERS: u32 = 2;

// Results of a program, and fields of its argument (`struct xdp_md`), from linux/bpf.h.
const XDP_PASS: i32 = 2;
const XDP_REDIRECT: u16 = 4;
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const RX_QUEUE: i16 = 16;

// Functions of the kernel, from linux/bpf.h.
const MAP_LOOKUP: i32 = 1;
const KTIME_GET_NS: i32 = 5;
const REDIRECT_MAP: i32 = 51;
const ADJUST_META: i32 = 54;

// Ethernet (IEEE 802.3 and 802.1Q).
const ETHERNET_BYTES: i32 = 14;
const TAG_BYTES: i32 = 4;
const TYPE_AT: i16 = 12;
const TAG: u16 = 0x8100;

/// Writes the program. `sockets` is a map from queues to sockets, and `counters` counts by core.
pub(super) fn program(
    filter: &Filter,
    sockets: BorrowedFd<'_>,
    counters: BorrowedFd<'_>,
) -> io::Result<Vec<Instruction>> {
    check(filter)?;
    let families: Vec<Family> = Family::ALL.into_iter().filter(|family| family.can_match(filter)).collect();
    if families.is_empty() {
        let what =
            "a filter without a destination address, or with none of the family of a source, matches nothing";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut code = Assembler::default();
    let (pass, ports) = (code.label(), code.label());
    link(&mut code, filter, pass);
    let families: Vec<(Family, Label)> = families.into_iter().map(|family| (family, code.label())).collect();
    for &(family, begin) in &families {
        code.jump_if(R2, Is::Equal, network_order(family.ethernet_type()), begin);
    }
    code.jump(pass);
    for (family, begin) in families {
        code.place(begin);
        family.write(&mut code, filter, pass);
        code.jump(ports);
    }
    code.place(ports);
    transport(&mut code, &filter.ports, pass);
    stamp(&mut code);
    hand_over(&mut code, sockets, counters);
    code.place(pass);
    code.set(R0, XDP_PASS);
    code.exit();
    code.finish()
}

fn check(filter: &Filter) -> io::Result<()> {
    let too_long = filter.own.iter().find(|prefix| prefix.bits > Prefix::of_one(prefix.address).bits);
    let what = if let Some(prefix) = too_long {
        format!("{}/{} has more bits than an address", prefix.address, prefix.bits)
    } else if filter.ports.is_empty() {
        "a filter without ports matches nothing".to_owned()
    } else if filter.vlan.is_some_and(|vlan| vlan > 0x0fff) {
        "the number of a VLAN is at most 4095".to_owned()
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Keeps the argument in R6 and the end of the frame in R8. Leaves the start of the IP header in R7, and the type of
/// Ethernet, in network order, in R2.
fn link(code: &mut Assembler, filter: &Filter, pass: Label) {
    code.copy(R6, R1);
    code.load(Width::Word, R7, R6, DATA);
    code.load(Width::Word, R8, R6, DATA_END);
    let Some(vlan) = filter.vlan else {
        within(code, ETHERNET_BYTES, pass);
        code.load(Width::Half, R2, R7, TYPE_AT);
        code.add(R7, ETHERNET_BYTES);
        return;
    };
    let (tagged, done) = (code.label(), code.label());
    within(code, ETHERNET_BYTES + TAG_BYTES, pass);
    code.load(Width::Half, R2, R7, TYPE_AT);
    code.jump_if(R2, Is::Equal, network_order(TAG), tagged);
    if filter.untagged {
        code.add(R7, ETHERNET_BYTES);
        code.jump(done);
    } else {
        code.jump(pass);
    }
    code.place(tagged);
    code.load(Width::Half, R3, R7, TYPE_AT + 2);
    code.and(R3, u32::from(network_order(0x0fff)));
    code.jump_if(R3, Is::NotEqual, network_order(vlan), pass);
    code.load(Width::Half, R2, R7, TYPE_AT + 4);
    code.add(R7, ETHERNET_BYTES + TAG_BYTES);
    code.place(done);
}

/// Checks the destination port of the UDP or TCP header at R7.
fn transport(code: &mut Assembler, ports: &RangeInclusive<u16>, pass: Label) {
    code.load(Width::Half, R2, R7, 2);
    code.host_order_16(R2);
    code.jump_if(R2, Is::Below, *ports.start(), pass);
    code.jump_if(R2, Is::Above, *ports.end(), pass);
}

/// Writes the time in front of the frame. The driver may have no room there; then it does nothing. Moving the start
/// of the metadata invalidates all pointers into the frame, so they are read again.
fn stamp(code: &mut Assembler) {
    let done = code.label();
    code.copy(R1, R6);
    code.set(R2, -ARRIVAL_BYTES);
    code.call(ADJUST_META);
    code.jump_if(R0, Is::NotEqual, 0, done);
    code.call(KTIME_GET_NS);
    code.load(Width::Word, R3, R6, DATA_META);
    code.load(Width::Word, R2, R6, DATA);
    code.copy(R1, R3);
    code.add(R1, ARRIVAL_BYTES);
    code.jump_if_above(R1, R2, done);
    code.store(Width::Double, R3, 0, R0);
    code.place(done);
}

/// Hands the frame to the socket of its queue, or to the kernel if there is none. Counts which, and ends.
fn hand_over(code: &mut Assembler, sockets: BorrowedFd<'_>, counters: BorrowedFd<'_>) {
    let (counted, done) = (code.label(), code.label());
    code.load(Width::Word, R2, R6, RX_QUEUE);
    code.map(R1, sockets);
    code.set(R3, XDP_PASS);
    code.call(REDIRECT_MAP);
    code.copy(R7, R0);
    code.set(R1, MATCHED as i32);
    code.jump_if(R7, Is::Equal, XDP_REDIRECT, counted);
    code.set(R1, UNCLAIMED as i32);
    code.place(counted);
    code.store(Width::Word, R10, -4, R1);
    code.copy(R2, R10);
    code.add(R2, -4);
    code.map(R1, counters);
    code.call(MAP_LOOKUP);
    code.jump_if(R0, Is::Equal, 0, done);
    code.load(Width::Double, R1, R0, 0);
    code.add(R1, 1);
    code.store(Width::Double, R0, 0, R1);
    code.place(done);
    code.copy(R0, R7);
    code.exit();
}

/// Leaves a frame to the kernel that has fewer than `bytes` bytes from R7 on. The verifier requires this check before
/// any of them is read.
fn within(code: &mut Assembler, bytes: i32, pass: Label) {
    code.copy(R1, R7);
    code.add(R1, bytes);
    code.jump_if_above(R1, R8, pass);
}

/// A number of 16 bits as a load from the frame gives it: in network order.
fn network_order(number: u16) -> u16 {
    number.to_be()
}

#[cfg(test)]
mod tests;
