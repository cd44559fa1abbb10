//! One call per packet: `sendto` and `recvmsg`, as in most load generators. This is the baseline for the other
//! loops. Replies carry the kernel's time of arrival here too. An open loop sleeps until a burst is due, and
//! otherwise the time of reading would count as the time of arrival.

use std::io;

use kqps_kernel::udp::{DATAGRAM_BYTES, Peer, UdpSocket, Wait};

use super::Stage;
use super::look::Look;
use super::thread::write_query;
use crate::books::Due;
use crate::plan::BURST_MOST;

pub(super) fn play(stage: &mut Stage<'_>) -> io::Result<()> {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let mut burst = Vec::with_capacity(BURST_MOST);
    if !stage.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = stage.turn();
        let sent_first = stage.sends_first() && send_due(stage, &mut buffer, &mut burst);
        let heard = hear(stage, &mut buffer, now_ns)?;
        if !more {
            break;
        }
        if !send_due(stage, &mut buffer, &mut burst) && !sent_first {
            stage.rest(now_ns, heard)?;
        }
    }
    stage.drain(|stage, now_ns| hear(stage, &mut buffer, now_ns))
}

/// Sends the due queries, packet by packet. Returns whether it sent any.
#[inline]
fn send_due(stage: &mut Stage<'_>, buffer: &mut [u8], burst: &mut Vec<Due>) -> bool {
    let mut sent = false;
    while let Some(socket) = stage.next_burst(burst) {
        let target = Peer { address: stage.targets[socket], asked: None };
        for due in burst.chunks_exact(1) {
            let query = &mut buffer[..usize::from(due[0].bytes)];
            write_query(&stage.state, &due[0], query);
            let send = |socket: &UdpSocket, _| match socket.send(query, &target) {
                Ok(()) => Ok(1),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                Err(error) => Err(error),
            };
            stage.send_all(socket, 1, send, |stage, _, outcome| match outcome {
                Ok(now_ns) => stage.sent(socket, now_ns, due),
                Err(errno) => stage.refused(socket, errno, due),
            });
        }
        sent = true;
    }
    sent
}

/// Reads what has arrived on the sockets that are due for a look, packet by packet.
fn hear(stage: &mut Stage<'_>, buffer: &mut [u8], now_ns: u64) -> io::Result<bool> {
    let (sockets, targets, most) = (stage.sockets, &stage.targets, stage.messages_most);
    let mut outcome = Ok(false);
    stage.polling.each_awaited(&mut stage.state, now_ns, |state, socket| {
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
            if let Ok(heard) = &mut outcome {
                *heard = true;
            }
            state.books.tally.messages_heard += 1;
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
