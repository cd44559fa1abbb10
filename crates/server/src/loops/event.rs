//! `event`: the event library mio, which plays the part of libevent here. It reports a socket only when
//! something new has arrived, so the loop keeps a socket on its list until the socket is empty.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use kqps_kernel::Wait;
use kqps_kernel::udp::Peer;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::{BUFFER_BYTES, TURNS};
use crate::answer::{Answer, Query};
use crate::worker::Worker;

pub(super) fn run(worker: &mut Worker<impl Answer>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, stop, .. } = worker;
    let mut poll = Poll::new()?;
    for (index, endpoint) in endpoints.iter().enumerate() {
        let descriptor = endpoint.receiver.as_raw_fd();
        poll.registry().register(&mut SourceFd(&descriptor), Token(index), Interest::READABLE)?;
    }
    let mut events = Events::with_capacity(endpoints.len());
    let mut readable = vec![false; endpoints.len()];
    let mut buffer = [0; BUFFER_BYTES];
    let mut peer = Peer::default();
    stop.report_ready()?;
    while !stop.is_set() {
        let timeout = readable.contains(&true).then_some(Duration::ZERO);
        match poll.poll(&mut events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => events.iter().for_each(|event| readable[event.token().0] = true),
        }
        let places = endpoints.iter().zip(&mut readable).enumerate();
        for (number, (endpoint, readable)) in places.filter(|(_, (_, readable))| **readable) {
            for _ in 0..TURNS {
                let Some(bytes) = endpoint.receiver.recv(&mut buffer, &mut peer, Wait::No)? else {
                    *readable = false;
                    break;
                };
                counts.received += 1;
                let query = Query::by_udp(&mut buffer, bytes, &peer.address).at(number, peer.asked);
                match answer.answer(query).one() {
                    Ok(bytes) => counts.sent(endpoint.sender.send(&buffer[..bytes], &peer)),
                    Err(cause) => counts.drop(cause),
                }
            }
            answer.end_turn();
        }
    }
    Ok(())
}
