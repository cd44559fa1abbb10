//! A frame past the stack and back, over a veth pair between two private networks: shows whether a host can do it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use super::{Attached, Filter, Prefix, Protocols, XdpMode, XdpSocket, route};
use crate::namespace::NetNs;
use crate::namespace::veth::{End, VethSettings, complete_checksums, join};
use crate::udp::{Peer, UdpOptions, UdpSocket, Wait};

/// The address of the end with the program and the socket.
pub(super) const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The address of the other end.
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// The port whose frames go past the stack.
pub(super) const PORT: u16 = 5300;

const SECOND_NS: u64 = 1_000_000_000;

/// Two networks joined by a veth pair. With one queue at each end, the driver runs programs.
pub(super) fn pair() -> io::Result<(NetNs, NetNs)> {
    let (near, far) = (NetNs::new()?, NetNs::new()?);
    let settings = VethSettings { queues: Some(1), ..VethSettings::default() };
    join(End { namespace: &near, address: NEAR }, End { namespace: &far, address: FAR }, &settings)?;
    Ok((near, far))
}

/// A program at the near end, and a socket with these many frames.
pub(super) fn open(near: &NetNs, frames: u32) -> io::Result<(Attached, XdpSocket)> {
    near.within(|| {
        let device = route::to(FAR.into())?.device;
        let filter = Filter {
            device,
            own: vec![Prefix::of_one(NEAR.into())],
            ports: PORT..=PORT,
            peers: Vec::new(),
            protocols: Protocols::Udp,
            vlan: None,
            untagged: false,
        };
        let attached = Attached::attach(&filter, XdpMode::Auto)?;
        let mut sockets = attached.open(0..1, frames)?;
        let socket = sockets.pop().ok_or_else(|| io::Error::other("a queue without a socket"))?;
        Ok((attached, socket))
    })
}

/// An ordinary socket at the far end, whose datagrams have complete checksums.
pub(super) fn client(far: &NetNs) -> io::Result<UdpSocket> {
    far.within(|| {
        complete_checksums()?;
        UdpSocket::bind((FAR, 0).into(), &UdpOptions::default())
    })
}

/// The near end as a peer of the far end.
pub(super) fn near_end() -> Peer {
    Peer { address: SocketAddr::from((NEAR, PORT)).into(), asked: None }
}

/// Turns a frame with a UDP datagram over IPv4 round: exchanges the hardware addresses, the IP addresses and the ports,
/// which changes no checksum.
pub(super) fn turn_round(frame: &mut [u8]) {
    for (one, other, bytes) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        let (left, right) = frame.split_at_mut(other);
        left[one..one + bytes].swap_with_slice(&mut right[..bytes]);
    }
}

/// Receives a datagram past the stack and sends it back. The error names the step that failed.
pub(crate) fn round_trip() -> io::Result<()> {
    let (near, far) = pair()?;
    let (attached, mut socket) = open(&near, 64)?;
    let client = client(&far)?;
    client.send(b"there and back", &near_end())?;
    let lost = |what: &str| io::Error::other(format!("a frame over a veth pair was not {what} within 1 s"));
    if !socket.wait(SECOND_NS)? {
        return Err(lost("received"));
    }
    let received = socket.receive(1, |frame, bytes, _| {
        turn_round(frame);
        Some(bytes)
    });
    let mut refused = 0;
    let sent = socket.flush(|_| refused += 1)?;
    if (received, sent, refused, attached.matched()?) != (1, 1, 0, 1) {
        let what = format!("of one frame, {received} were received, {sent} sent back and {refused} refused");
        return Err(io::Error::other(what));
    }
    let mut buffer = [0; 64];
    let is_back = client.wait_readable(SECOND_NS)?;
    match client.recv(&mut buffer, &mut Peer::default(), Wait::No)? {
        Some(bytes) if &buffer[..bytes] == b"there and back" => Ok(()),
        _ if is_back => Err(io::Error::other("a frame over a veth pair came back changed")),
        _ => Err(lost("sent back")),
    }
}
