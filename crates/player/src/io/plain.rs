//! One call per packet: `sendto` and `recvfrom`, as most load generators do. The specimen to compare others
//! with.

use std::io;

use kqps_kernel::udp::{Peer, Wait};

use super::Stage;
use super::stage::write_query;
use crate::plan::BURST_MOST;

pub(super) fn play(stage: &mut Stage<'_>) -> io::Result<()> {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    let mut burst = Vec::with_capacity(BURST_MOST);
    let target = Peer { address: stage.target, asked: None };
    stage.begin();
    loop {
        let (now_ns, more) = stage.turn();
        let heard = hear(stage, &mut buffer, now_ns)?;
        if !more {
            break;
        }
        let mut sent = false;
        while stage.deck.is_due(stage.deck.now_ns(), stage.burst_most) {
            let socket = stage.deck.deal(stage.deck.now_ns(), stage.burst_most, &mut burst);
            for due in &burst {
                let query = &mut buffer[..usize::from(due.bytes)];
                write_query(&stage.deck, due, query);
                let now_ns = stage.deck.now_ns();
                stage.deck.tally.send_began(now_ns);
                let send = |socket: &kqps_kernel::udp::UdpSocket, _| match socket.send(query, &target) {
                    Ok(()) => Ok(1),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                    Err(error) => Err(error),
                };
                let due = std::slice::from_ref(due);
                stage.send_all(socket, 1, send, |deck, _, outcome| match outcome {
                    Ok(()) => deck.sent(socket, now_ns, due),
                    Err(errno) => deck.refused(socket, errno, due),
                });
            }
            sent |= !burst.is_empty();
            if burst.is_empty() || stage.deck.window().is_some() {
                break;
            }
        }
        if !sent {
            stage.rest(now_ns, heard)?;
        }
    }
    stage.drain(|stage, now_ns| hear(stage, &mut buffer, now_ns))
}

/// Reads what has arrived on the sockets that are awaited now, packet by packet.
fn hear(stage: &mut Stage<'_>, buffer: &mut [u8], now_ns: u64) -> io::Result<bool> {
    let (sockets, target) = (stage.sockets, stage.target);
    let mut outcome = Ok(false);
    stage.deck.for_each_awaited(now_ns, |deck, socket| {
        let mut peer = Peer::default();
        loop {
            match sockets[socket].recv(buffer, &mut peer, Wait::No) {
                Ok(Some(bytes)) if peer.address == target => {
                    // The time of reading: this loop asks for no stamps, as its like do not.
                    let at_ns = deck.now_ns();
                    deck.arrived(socket, &buffer[..bytes], None, at_ns);
                }
                Ok(Some(_)) => deck.arrived_from_elsewhere(1),
                Ok(None) => return,
                Err(error) => {
                    outcome = Err(error);
                    return;
                }
            }
            deck.tally.messages_heard += 1;
            if let Ok(heard) = &mut outcome {
                *heard = true;
            }
        }
    });
    outcome
}
