//! Queries by datagrams.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::time::Instant;

use fastrand::Rng;
use kqps_kernel::UdpOptions;

use super::fault::{self, Fault, SLOW};
use super::{LOOK, Shared};

const HEADER: usize = 12;

/// Size of the socket's receive buffer to ask for.
const BUFFER_BYTES: usize = 16 << 20;

/// Serves until it is stopped. The socket is closed while the back end refuses.
pub(super) fn serve(socket: UdpSocket, shared: &Shared, seed: u64) {
    let (mut rng, mut late) = (Rng::with_seed(seed), VecDeque::new());
    let address = socket.local_addr().expect("a bound socket has an address");
    let mut open = Some(socket);
    while !shared.is_stopped() {
        if shared.fault() == Fault::Refusing {
            open = None;
        } else if open.is_none() {
            open = bind(address).ok();
        }
        match &open {
            Some(socket) => turn(socket, shared, &mut rng, &mut late),
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Binds a socket with room for the burst that a front sends when another back end goes down.
pub(super) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let options = UdpOptions { recv_buffer: Some(BUFFER_BYTES), ..UdpOptions::default() };
    let socket = kqps_kernel::UdpSocket::bind(address, &options)?;
    Ok(socket.as_fd().try_clone_to_owned()?.into())
}

type Late = VecDeque<(Instant, SocketAddr, Vec<u8>)>;

/// Receives and answers a query, and sends the late replies that are due.
fn turn(socket: &UdpSocket, shared: &Shared, rng: &mut Rng, late: &mut Late) {
    let mut buffer = [0; 4096];
    socket.set_read_timeout(Some(LOOK)).expect("a time above zero");
    if let Ok((bytes, client)) = socket.recv_from(&mut buffer) {
        let (query, fault) = (&buffer[..bytes], shared.fault());
        shared.received.fetch_add(1, Ordering::Relaxed);
        if bytes >= HEADER && !matches!(fault, Fault::HalfOpen | Fault::Refusing) {
            let reply = fault::reply(query, fault, rng);
            if fault == Fault::Slow {
                late.push_back((Instant::now() + SLOW, client, reply));
            } else {
                send(socket, client, &reply, fault.is_right(), shared);
            }
        }
    }
    while let Some((_, client, reply)) = late.pop_front_if(|(due, ..)| *due <= Instant::now()) {
        send(socket, client, &reply, true, shared);
    }
}

fn send(socket: &UdpSocket, client: SocketAddr, reply: &[u8], is_right: bool, shared: &Shared) {
    // Count before sending, so that a client that sees the reply finds it counted.
    shared.count(u64::from(is_right), u64::from(!is_right));
    // A client that has gone needs no reply.
    let _ = socket.send_to(reply, client);
}
