//! `poll`: passes the whole list of sockets to the kernel every time to find those that are readable, and
//! then reads one datagram per call.

use std::io;

use kqps_kernel::Wait;
use kqps_kernel::poll::{FOREVER_NS, PollSet};
use kqps_kernel::udp::Peer;

use super::{BUFFER_BYTES, TURNS};
use crate::answer::{Answer, Query};
use crate::worker::Worker;

pub(super) fn run(worker: &mut Worker<impl Answer>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, stop, .. } = worker;
    let mut set = PollSet::new(endpoints.iter().map(|endpoint| &*endpoint.receiver));
    let mut buffer = [0; BUFFER_BYTES];
    let mut peer = Peer::default();
    stop.report_ready()?;
    while !stop.is_set() {
        if !set.wait(FOREVER_NS)? {
            continue;
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            if !set.is_ready(index) {
                continue;
            }
            for _ in 0..TURNS {
                let Some(bytes) = endpoint.receiver.recv(&mut buffer, &mut peer, Wait::No)? else { break };
                counts.received += 1;
                let query = Query::by_udp(&mut buffer, bytes, &peer.address).at(index, peer.asked);
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
