//! Queues of a veth pair that lose or hold packets, in namespaces of this program alone: netem(8) loses a share and
//! delays, and the `blackhole` queue of every kernel drops all.

use std::io;
use std::time::Duration;

use netlink_packet_core::DefaultNla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::netlink::{Netlink, RequestMode};
use super::veth::INDEX;

/// `TCA_OPTIONS` (`linux/rtnetlink.h`).
const OPTIONS: u16 = 2;

/// `TCA_NETEM_LATENCY64` (`linux/pkt_sched.h`): a signed number of nanoseconds.
const LATENCY64: u16 = 10;

/// Packets that may be on their way at once: more than a delay holds at any rate of this program.
const LIMIT: u32 = 1 << 20;

/// A worse way for packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Impairment {
    /// A share of the packets is lost at random, and the others arrive later.
    Netem {
        /// The share that is lost, 0 to 1.
        loss: f64,
        /// The delay of the others.
        delay: Duration,
    },
    /// Every packet is lost.
    Blackhole,
}

/// Impairs what the veth device of the calling thread's namespace sends.
///
/// # Errors
///
/// If the kernel has no netem (`CONFIG_NET_SCH_NETEM`), or this process lacks `CAP_NET_ADMIN`.
pub fn impair(impairment: Impairment) -> io::Result<()> {
    let (kind, options) = match impairment {
        Impairment::Netem { loss, delay } => ("netem", Some(netem(loss, delay))),
        Impairment::Blackhole => ("blackhole", None),
    };
    let mut message = root();
    message.attributes.push(TcAttribute::Kind(kind.into()));
    message.attributes.extend(options.map(|options| TcAttribute::Other(DefaultNla::new(OPTIONS, options))));
    let set = Netlink::open()?.request(RouteNetlinkMessage::NewQueueDiscipline(message), RequestMode::Set);
    set.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT) => {
            io::Error::new(error.kind(), format!("this kernel has no {kind} (the module sch_{kind})"))
        }
        _ => error,
    })
}

/// Gives the veth device of the calling thread's namespace the queue of the kernel's choice again.
pub fn relieve() -> io::Result<()> {
    let removed =
        Netlink::open()?.request(RouteNetlinkMessage::DelQueueDiscipline(root()), RequestMode::Changed);
    match removed {
        // It has no queue of ours.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(()),
        other => other,
    }
}

fn root() -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = INDEX as i32;
    message.header.parent = TcHandle::ROOT;
    message
}

/// The options of netem: `struct tc_netem_qopt` (`linux/pkt_sched.h`), and the delay in an attribute of its own, since
/// that of the structure counts in ticks of the kernel.
fn netem(loss: f64, delay: Duration) -> Vec<u8> {
    // A share of u32::MAX; `as` stops at both ends.
    let loss = (loss * f64::from(u32::MAX)).round() as u32;
    let [latency, gap, duplicate, jitter] = [0_u32; 4];
    let fields = [latency, LIMIT, loss, gap, duplicate, jitter];
    let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_ne_bytes()).collect();
    let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
    bytes.extend(12_u16.to_ne_bytes());
    bytes.extend(LATENCY64.to_ne_bytes());
    bytes.extend(delay_ns.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use kqps_skips::{Capability, skip};

    use super::*;
    use crate::namespace::NetNs;
    use crate::namespace::joined::joined;
    use crate::namespace::veth::VethSettings;

    #[test]
    fn the_options_have_the_bytes_of_the_kernels_structure() {
        let bytes = netem(0.05, Duration::from_millis(20));
        assert_eq!(bytes.len(), 24 + 12);
        let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
        assert_eq!([word(0), word(4), word(8)], [0, LIMIT, 214_748_365], "5 % of 2^32 - 1");
        assert_eq!(i64::from_ne_bytes(*bytes[28..].first_chunk().unwrap()), 20_000_000);
        assert_eq!(u16::from_ne_bytes([bytes[24], bytes[25]]), 12);
        assert_eq!(netem(1.0, Duration::ZERO)[8..12], [0xff; 4]);
    }

    #[test]
    fn a_black_hole_takes_all_until_it_is_removed() {
        let Some((one, other)) = joined(&VethSettings::default()) else { return };
        one.within(relieve).unwrap();
        one.within(|| impair(Impairment::Blackhole)).unwrap();
        only_the_last_arrives(&one, &other);
    }

    #[test]
    fn netem_takes_the_share_that_it_is_given() {
        let Some((one, other)) = joined(&VethSettings::default()) else { return };
        let netem = Impairment::Netem { loss: 1.0, delay: Duration::from_millis(1) };
        if let Err(error) = one.within(|| impair(netem)) {
            assert!(error.to_string().contains("sch_netem"), "{error}");
            skip(Capability::Netem, format!("a path that loses and delays: {error}"));
            return;
        }
        only_the_last_arrives(&one, &other);
    }

    /// Sends a packet that is lost, removes what loses it, and sends another packet.
    fn only_the_last_arrives(one: &NetNs, other: &NetNs) {
        let address = (Ipv4Addr::new(198, 18, 0, 2), 5300);
        let receiver = other.within(|| UdpSocket::bind(address)).unwrap();
        let sender = one.within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
        let send = |text: &[u8]| sender.send_to(text, address).unwrap();
        send(b"lost");
        one.within(relieve).unwrap();
        send(b"kept");
        // Packets of one socket stay in their order, so the first is the one that came through.
        let mut room = [0; 16];
        assert_eq!(receiver.recv(&mut room).unwrap(), 4);
        assert_eq!(&room[..4], b"kept");
    }
}
