//! A call per packet: `sendto` and `recvmsg`, as in most load generators. This is the baseline for the other loops.
//! Replies carry the kernel's time of arrival here too. An open loop sleeps until a burst is due, and otherwise the
//! time of reading would count as the time of arrival.

use std::io;

use kqps_kernel::udp::{DATAGRAM_BYTES, Peer, UdpSocket, Wait};

use super::look::Look;
use super::thread::{UdpSockets, UdpThread};
use crate::books::Due;
use crate::plan::BURST_MOST;

pub(super) fn play(thread: &mut UdpThread<'_>) -> io::Result<()> {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let mut burst = Vec::with_capacity(BURST_MOST);
    if !thread.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = thread.turn();
        let sent_first = thread.sends_first() && send_due(thread, &mut buffer, &mut burst);
        let received = receive(thread, &mut buffer, now_ns)?;
        if !more {
            break;
        }
        if !send_due(thread, &mut buffer, &mut burst) && !sent_first {
            thread.rest(now_ns, received)?;
        }
    }
    thread.drain(|thread, now_ns| receive(thread, &mut buffer, now_ns))
}

/// Sends the due queries, packet by packet. Returns whether it sent any.
#[inline]
fn send_due(thread: &mut UdpThread<'_>, buffer: &mut [u8], burst: &mut Vec<Due>) -> bool {
    let mut sent = false;
    while let Some(socket) = thread.next_burst(burst) {
        let target = Peer { address: thread.wire.targets[socket], asked: None };
        for due in burst.chunks_exact(1) {
            let query = &mut buffer[..usize::from(due[0].bytes)];
            thread.state.supply.write(due[0].query, due[0].due_ns, due[0].key, query);
            let send = |socket: &UdpSocket, _| match socket.send(query, &target) {
                Ok(()) => Ok(1),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                Err(error) => Err(error),
            };
            thread.send_all(socket, 1, send, |thread, _, outcome| match outcome {
                Ok(now_ns) => thread.sent(socket, now_ns, due),
                Err(errno) => thread.refused(socket, errno, due),
            });
        }
        sent = true;
    }
    sent
}

/// Reads what has arrived on the sockets that are due for a look, packet by packet.
fn receive(thread: &mut UdpThread<'_>, buffer: &mut [u8], now_ns: u64) -> io::Result<bool> {
    let UdpSockets { polling, sockets, targets, messages_most, .. } = &mut thread.wire;
    let most = *messages_most;
    let mut outcome = Ok(false);
    polling.each_awaited(&mut thread.state, now_ns, |state, socket| {
        let mut look = Look::begin(now_ns, most);
        let mut peer = Peer::default();
        loop {
            let reply = match sockets[socket].recv_stamped(buffer, &mut peer, Wait::No) {
                Ok(Some(reply)) => reply,
                Ok(None) => return,
                Err(error) => {
                    outcome = Err(error);
                    return;
                }
            };
            if let Ok(received) = &mut outcome {
                *received = true;
            }
            state.books.tally.messages_received += 1;
            let at_ns = state.clock.arrival_ns(reply.arrived_ns, now_ns);
            if peer.address == targets[socket] {
                state.books.arrived(socket, &buffer[..reply.bytes], at_ns);
            } else {
                state.books.answers_nothing(1);
            }
            if look.has_read_all(1, at_ns) {
                return;
            }
        }
    });
    outcome
}
