//! `xdp`: frames come from the worker's queue of a device, past the kernel's network stack. Each query is answered in
//! place, its frame is turned round, and one system call hands all replies of a turn to the device.
//!
//! What reaches the kernel all the same (fragments, headers with options, queues without a worker) is answered at the
//! ordinary sockets, one datagram per call: when there are no frames, and else every few turns.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, RawFd};

use kqps_kernel::clock::{now_ns, sleep_until_ns};
use kqps_kernel::errno::{EAGAIN, EBUSY, ENETDOWN};
use kqps_kernel::poll::PollSet;
use kqps_kernel::udp::Peer;
use kqps_kernel::xdp::XdpSocket;
use kqps_kernel::{Address, LocalAddress, Wait};
use kqps_stack::{Protocol, parse, udp};

use super::{BUFFER_BYTES, TURNS};
use crate::answer::{Answer, Query};
use crate::counts::{Cause, Counts};
use crate::frames::Queue;
use crate::sockets::Endpoint;
use crate::worker::Worker;

/// Frames that are answered before their replies are sent.
pub(super) const FRAMES: usize = 64;

/// Turns with frames after which the loop looks at the ordinary sockets.
const TURNS_PER_LOOK: u32 = 64;

/// The header of Ethernet, without and with the tag of a VLAN.
const LINK_BYTES: usize = 14;
const TAGGED_BYTES: usize = 18;

/// The longest wait for frames, after which the loop asks whether the device is still there.
const WAIT_NS: u64 = 1_000_000_000;

/// The pause before a device is asked again that was down.
const DOWN_NAP_NS: u64 = 1_000_000;

/// How long the device may take for the last replies, and the pause between looks.
const PATIENCE_NS: u64 = 100_000_000;
const PAUSE_NS: u64 = 100_000;

pub(super) fn run(worker: &mut Worker<impl Answer>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, stop, queue } = worker;
    let Some(Queue { socket, mtu, by_kernel, .. }) = queue else {
        return Err(io::Error::other("the worker has no queue of a device"));
    };
    let receivers = endpoints.iter().map(|endpoint| endpoint.receiver.as_raw_fd());
    let descriptors: Vec<RawFd> = receivers.chain([socket.as_raw_fd()]).collect();
    let mut ordinary = PollSet::new(&descriptors[..endpoints.len()]);
    let mut all = PollSet::new(&descriptors);
    let addresses: Vec<SocketAddr> =
        endpoints.iter().map(|endpoint| endpoint.receiver.local_addr()).collect::<io::Result<_>>()?;
    let (mut turns, mut is_idle) = (0, false);
    stop.report_ready()?;
    while !stop.is_set() {
        if socket.is_down() {
            // It may be up again, and then takes the replies of this turn.
            send(socket, counts)?;
        }
        let frames = turn(socket, (*mtu, &addresses[..]), answer, counts);
        answer.end_turn();
        send(socket, counts)?;
        let was_idle = std::mem::replace(&mut is_idle, frames == 0);
        // A wait for the queue would itself send frames that wait, and not say which ones the device refuses.
        let set = if frames == 0 && socket.waiting() == 0 {
            if was_idle {
                // A wait brought no frame, and does not show that the device is gone.
                socket.check_device()?;
            }
            all.wait(WAIT_NS)?;
            &all
        } else if socket.is_down() {
            ordinary.wait(DOWN_NAP_NS)?;
            &ordinary
        } else {
            turns += 1;
            if turns < TURNS_PER_LOOK {
                continue;
            }
            turns = 0;
            ordinary.wait(0)?;
            &ordinary
        };
        for (index, endpoint) in endpoints.iter().enumerate().filter(|(index, _)| set.is_ready(*index)) {
            *by_kernel += at_socket(index, endpoint, answer, counts)?;
            answer.end_turn();
        }
    }
    end(socket, counts)
}

/// Answers frames that arrived. Returns how many it read. Replies for a device that is down are not sent: they would
/// leave when it is up again, and clients have given up by then.
#[inline]
fn turn<A: Answer>(
    socket: &mut XdpSocket,
    of_worker: (usize, &[SocketAddr]),
    answer: &mut A,
    counts: &mut Counts,
) -> usize {
    let query = |frame| parse(frame).map_or(&[][..], |parsed| parsed.payload());
    answer.foresee(socket.arrived(FRAMES).map(query));
    let is_down = socket.is_down();
    socket.receive(FRAMES, |frame, length, _| {
        counts.received += 1;
        match reply(frame, length, of_worker, answer) {
            Ok(length) if !is_down => Some(length),
            Ok(_) => {
                counts.refused(&io::Error::from_raw_os_error(ENETDOWN), 1);
                None
            }
            Err(cause) => {
                counts.drop(cause);
                None
            }
        }
    })
}

/// Turns the frame of a query into that of its reply. Returns the length of the frame. No reply is longer than a packet
/// of the link (`mtu`): the service truncates it to the room that it has. A reply that comes later leaves by the socket
/// of the endpoint that stands for the query's address among those of the worker, and names that address.
#[inline]
fn reply<A: Answer>(
    frame: &mut [u8],
    length: usize,
    (mtu, addresses): (usize, &[SocketAddr]),
    answer: &mut A,
) -> Result<usize, Cause> {
    let parsed = parse(&frame[..length]).filter(|parsed| parsed.protocol() == Protocol::Udp);
    let Some(parsed) = parsed else { return Err(Cause::BadFrame) };
    let (place, source) = (parsed.payload_range(), Address::from(parsed.ends.from));
    let link = if parsed.ends.path.vlan.is_some() { TAGGED_BYTES } else { LINK_BYTES };
    let end = frame.len().min(link + mtu).max(place.end);
    let local = LocalAddress { ip: parsed.ends.to.ip(), interface: 0 };
    let endpoint = if A::LATER { endpoint_of(addresses, parsed.ends.to) } else { 0 };
    let query = Query::by_udp(&mut frame[place.start..end], place.len(), &source).at(endpoint, Some(local));
    let bytes = answer.answer(query).one()?;
    udp::reply(frame, length, bytes).ok_or(Cause::BadFrame)
}

/// The index of the address that stands for the target of a frame: the same address, or one for all of its family.
/// Sockets of one family cannot send to the other.
fn endpoint_of(addresses: &[SocketAddr], to: SocketAddr) -> usize {
    let is_same = |own: &SocketAddr| own.ip() == to.ip();
    let is_for_all = |own: &SocketAddr| own.ip().is_unspecified() && own.is_ipv4() == to.is_ipv4();
    let is_of_family = |own: &SocketAddr| own.is_ipv4() == to.is_ipv4();
    let exact = addresses.iter().position(is_same);
    let for_all = || addresses.iter().position(is_for_all);
    exact.or_else(for_all).or_else(|| addresses.iter().position(is_of_family)).unwrap_or(0)
}

/// Hands the replies to the device, as many as it takes now.
#[inline]
fn send(socket: &mut XdpSocket, counts: &mut Counts) -> io::Result<()> {
    let mut refused = 0;
    counts.answered += socket.flush(|_| refused += 1)? as u64;
    if refused > 0 {
        counts.refused(&io::Error::from_raw_os_error(EBUSY), refused);
    }
    Ok(())
}

/// Answers what came by the kernel to an ordinary socket. Returns how many datagrams it read.
#[cold]
fn at_socket(
    number: usize,
    endpoint: &Endpoint,
    answer: &mut impl Answer,
    counts: &mut Counts,
) -> io::Result<u64> {
    let mut buffer = [0; BUFFER_BYTES];
    let mut peer = Peer::default();
    for read in 0..TURNS as u64 {
        let Some(bytes) = endpoint.receiver.recv(&mut buffer, &mut peer, Wait::No)? else { return Ok(read) };
        counts.received += 1;
        let query = Query::by_udp(&mut buffer, bytes, &peer.address).at(number, peer.asked);
        match answer.answer(query).one() {
            Ok(bytes) => counts.sent(endpoint.sender.send(&buffer[..bytes], &peer)),
            Err(cause) => counts.drop(cause),
        }
    }
    Ok(TURNS as u64)
}

/// Counts the frames that the worker did not come to, and waits for the device to take the last replies. The program is
/// off the device already, so no more frames come.
fn end(socket: &mut XdpSocket, counts: &mut Counts) -> io::Result<()> {
    let mut unanswered = |_: &mut [u8], _: usize, _: u64| {
        counts.received += 1;
        counts.drop(Cause::Stopped);
        None
    };
    while socket.receive(FRAMES, &mut unanswered) > 0 {}
    let end_ns = now_ns() + PATIENCE_NS;
    send(socket, counts)?;
    while socket.waiting() > 0 && now_ns() < end_ns {
        sleep_until_ns(now_ns() + PAUSE_NS);
        send(socket, counts)?;
    }
    // A device that reads the ring itself may have taken some meanwhile.
    counts.answered += socket.taken() as u64;
    let left = socket.waiting() as u64;
    if left > 0 {
        let errno = if socket.is_down() { ENETDOWN } else { EAGAIN };
        counts.refused(&io::Error::from_raw_os_error(errno), left);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kqps_stack::{Ends, Path};

    use super::*;
    use crate::answer::Answered;
    use crate::later::Origin;

    /// Answers with as many bytes as it has room for, each one more than the last of the query.
    struct Fill;

    impl Answer for Fill {
        const GROWS: bool = true;

        type Many = Infallible;

        fn answer(&mut self, query: Query<'_>) -> Answered<Infallible> {
            if query.bytes == 0 {
                return Answered::None(Cause::QueryTooShort);
            }
            let byte = query.buffer[query.bytes - 1] + 1;
            query.buffer.fill(byte);
            Answered::One(query.buffer.len())
        }

        fn next(&mut self, many: &mut Infallible, _: &mut [u8]) -> Option<usize> {
            match *many {}
        }
    }

    fn ends(addresses: [&str; 2], vlan: Option<u16>) -> Ends {
        let [from, to]: [SocketAddr; 2] = addresses.map(|text| text.parse().unwrap());
        let path = Path { source_mac: [2, 0, 0, 0, 0, 1], target_mac: [2, 0, 0, 0, 0, 2], vlan };
        Ends { path, from, to }
    }

    /// A frame with these bytes, in the room that a received frame has.
    fn framed(ends: &Ends, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut frame = vec![0; 2048 - 256];
        let at = udp::header_bytes(ends);
        frame[at..at + payload.len()].copy_from_slice(payload);
        let length = udp::write(&mut frame, ends, payload.len());
        (frame, length)
    }

    #[test]
    fn a_reply_goes_back_and_fills_a_packet_at_most() {
        const V4: [&str; 2] = ["192.0.2.1:4000", "192.0.2.2:53"];
        const V6: [&str; 2] = ["[2001:db8::1]:4000", "[2001:db8::2]:53"];
        for (addresses, vlan, mtu, room) in [
            (V4, None, 1500, 1472),
            (V4, Some(7), 1500, 1472),
            (V6, None, 1500, 1452),
            (V6, Some(7), 1280, 1232),
            // No frame is longer than its room, whatever the device takes.
            (V4, None, 9000, 1792 - 42),
            // Nor is a reply shorter than the query needs.
            (V4, None, 68, 100),
        ] {
            let ends = ends(addresses, vlan);
            let (mut frame, length) = framed(&ends, &[9; 100]);
            let length = reply(&mut frame, length, (mtu, &[]), &mut Fill).unwrap();
            let parsed = parse(&frame[..length]).unwrap();
            assert!(parsed.verify() && parsed.ends == ends.turned(), "{addresses:?} {vlan:?} {mtu}");
            assert_eq!(parsed.payload(), vec![10; room], "{addresses:?} {vlan:?} {mtu}");
        }
    }

    #[test]
    fn what_gets_no_reply_has_a_cause() {
        let ends = ends(["192.0.2.1:4000", "192.0.2.2:53"], None);
        let (mut frame, length) = framed(&ends, &[]);
        assert_eq!(reply(&mut frame, length, (1500, &[]), &mut Fill), Err(Cause::QueryTooShort));
        let (mut frame, length) = framed(&ends, &[9; 100]);
        // The length of UDP goes beyond the packet.
        frame[38] = 1;
        assert_eq!(reply(&mut frame, length, (1500, &[]), &mut Fill), Err(Cause::BadFrame));
    }

    /// Answers later, and keeps where the query came in.
    struct Later(Option<Origin>);

    impl Answer for Later {
        const GROWS: bool = true;

        const LATER: bool = true;

        type Many = Infallible;

        fn answer(&mut self, query: Query<'_>) -> Answered<Infallible> {
            self.0 = Some(query.origin);
            Answered::Later
        }

        fn next(&mut self, many: &mut Infallible, _: &mut [u8]) -> Option<usize> {
            match *many {}
        }
    }

    #[test]
    fn a_reply_that_comes_later_leaves_by_a_socket_of_its_family() {
        let own: [SocketAddr; 4] =
            ["0.0.0.0:53", "[2001:db8::1]:53", "[::]:53", "192.0.2.9:53"].map(|text| text.parse().unwrap());
        for (to, endpoint) in
            [("192.0.2.2:53", 0), ("192.0.2.9:53", 3), ("[2001:db8::1]:53", 1), ("[2001:db8::2]:53", 2)]
        {
            let from = if to.starts_with('[') { "[2001:db8::7]:4000" } else { "192.0.2.7:4000" };
            let ends = ends([from, to], None);
            let (mut frame, length) = framed(&ends, &[9; 100]);
            let mut later = Later(None);
            assert_eq!(reply(&mut frame, length, (1500, &own[..]), &mut later), Err(Cause::Later));
            let local = Some(LocalAddress { ip: ends.to.ip(), interface: 0 });
            assert_eq!(later.0, Some(Origin::Datagrams { endpoint, local }));
        }
        let without = endpoint_of(&own[1..3], "192.0.2.2:53".parse().unwrap());
        assert_eq!((without, endpoint_of(&own[..1], own[0])), (0, 0));
    }
}
