//! `epoll`: the kernel keeps the list of sockets and returns those that are readable; then one datagram
//! per call.

use std::io;

use kqps_kernel::Wait;
use kqps_kernel::epoll::Epoll;
use kqps_kernel::udp::Peer;

use super::{BUFFER_BYTES, TURNS};
use crate::answer::{Answer, Query};
use crate::worker::Worker;

pub(super) fn run(worker: &mut Worker<impl Answer>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, stop, .. } = worker;
    let mut set = Epoll::new(endpoints.len())?;
    for (endpoint, key) in endpoints.iter().zip(0..) {
        set.add(&*endpoint.receiver, key)?;
    }
    let mut buffer = [0; BUFFER_BYTES];
    let mut peer = Peer::default();
    stop.report_ready()?;
    while !stop.is_set() {
        for key in set.wait()? {
            let number = key as usize;
            let endpoint = &endpoints[number];
            for _ in 0..TURNS {
                let Some(bytes) = endpoint.receiver.recv(&mut buffer, &mut peer, Wait::No)? else { break };
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
