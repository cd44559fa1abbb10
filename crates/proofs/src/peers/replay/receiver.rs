//! The receiver at the server's end: it notes when the kernel got each query, and knows none of the players. It answers
//! only if it has to, since replies would take CPU time from the player's core.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use kqps_faults::thread::Background;
use kqps_kernel::udp::Peer;
use kqps_kernel::{RecvBatch, UdpOptions, UdpSocket, Wait};
use kqps_testbed::path::LaidPath;

use super::traffic::ReceivedQuery;
use crate::numbered::number_of;

/// Room for more than half a second of the fastest traffic.
const BUFFER_BYTES: usize = 256 << 20;
const BATCH: usize = 64;
const MESSAGE_BYTES: usize = 512;

/// The longest sleep, so that the loop notices a stop.
const SLEEP_NS: u64 = 10_000_000;

/// Queries that arrived, and the count of dropped datagrams.
pub(super) struct Arrived {
    pub(super) queries: Vec<ReceivedQuery>,
    /// Datagrams that the socket dropped.
    pub(super) dropped: u64,
}

/// Opens a socket at the subject's end of a path, and starts to receive on a core. Once stopped, it still reads what has
/// arrived.
pub(super) fn start(
    path: &LaidPath,
    address: SocketAddr,
    cpu: u32,
    answers: bool,
) -> Result<Background<Arrived>> {
    let options = UdpOptions { recv_buffer: Some(BUFFER_BYTES), timestamps: true, ..UdpOptions::default() };
    let socket = path
        .at_subject(|| UdpSocket::bind(address, &options))
        .with_context(|| format!("the receiver cannot open {address}"))?;
    Background::start(("the receiver", "receiver"), Some(cpu), move |stop| receive(&socket, answers, stop))
}

fn receive(socket: &UdpSocket, answers: bool, stop: &AtomicBool) -> Result<Arrived> {
    let mut batch = RecvBatch::new(BATCH, MESSAGE_BYTES);
    let mut queries = Vec::new();
    let mut first_ns = None;
    let mut reply = Vec::with_capacity(MESSAGE_BYTES);
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        let received = batch.recv(socket, Wait::No)?;
        for index in 0..received {
            let query = batch.message(index);
            let Some(number) = number_of(query.bytes) else { continue };
            let at_ns = query.arrived_ns.context("the kernel gives no time of arrival")?;
            let since_ns = at_ns.saturating_sub(*first_ns.get_or_insert(at_ns));
            queries.push(ReceivedQuery { number, at_ns: since_ns });
            if answers {
                reply.clear();
                reply.extend_from_slice(query.bytes);
                // QR (RFC 1035, section 4.1.1).
                reply[2] |= 0x80;
                // A reply that the kernel refuses is lost, like any datagram.
                let _ = socket.send(&reply, &Peer { address: query.from, asked: None });
            }
        }
        if received == 0 {
            if is_last {
                break;
            }
            socket.wait_readable(SLEEP_NS)?;
        }
    }
    Ok(Arrived { queries, dropped: socket.drops()? })
}
