//! `spin`: one datagram per call, and no call blocks. The loop never sleeps, so it keeps a core busy.

use std::io;

use kqps_kernel::Wait;
use kqps_kernel::udp::Peer;

use super::BUFFER_BYTES;
use crate::answer::{Answer, Query};
use crate::worker::Worker;

pub(super) fn run(worker: &mut Worker<impl Answer>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, stop, .. } = worker;
    let mut buffer = [0; BUFFER_BYTES];
    let mut peer = Peer::default();
    stop.report_ready()?;
    while !stop.is_set() {
        for (number, endpoint) in endpoints.iter().enumerate() {
            let Some(bytes) = endpoint.receiver.recv(&mut buffer, &mut peer, Wait::No)? else { continue };
            counts.received += 1;
            let query = Query::by_udp(&mut buffer, bytes, &peer.address).at(number, peer.asked);
            match answer.answer(query).one() {
                Ok(bytes) => counts.sent(endpoint.sender.send(&buffer[..bytes], &peer)),
                Err(cause) => counts.drop(cause),
            }
            answer.end_turn();
        }
    }
    Ok(())
}
