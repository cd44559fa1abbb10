//! The bare system calls of an echo, with one or many datagrams per call. Its rate is what this host gives any such
//! server. `cargo xtask peers echo` compares kqps's echo with it.
//!
//! `calls blocking|mmsg` prints its address in the format of `kqps serve echo --json`, and answers until it is
//! killed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use kqps_kernel::Wait;
use kqps_kernel::batch::TurnBatch;
use kqps_kernel::udp::{Peer, UdpOptions, UdpSocket};

/// The batch and buffer sizes of kqps's echo.
const MESSAGES: usize = 64;
const BUFFER_BYTES: usize = 4097;

/// Room for 1 s of queries, as in kqps's echo.
const QUEUE_BYTES: usize = 64 << 20;

fn main() -> io::Result<()> {
    let io = std::env::args().nth(1);
    let answer = match io.as_deref() {
        Some("blocking") => one_by_one,
        Some("mmsg") => in_batches,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "calls blocking|mmsg")),
    };
    let options = UdpOptions {
        recv_buffer: Some(QUEUE_BYTES),
        send_buffer: Some(QUEUE_BYTES),
        ..UdpOptions::default()
    };
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &options)?;
    socket.never_fragment()?;
    println!(r#"{{"addresses":["{}"]}}"#, socket.local_addr()?);
    answer(&socket)
}

/// Sets QR, which makes a query a reply (RFC 1035, section 4.1.1).
fn turn(message: &mut [u8]) {
    if let Some(flags) = message.get_mut(2) {
        *flags |= 0x80;
    }
}

/// The loop with `recvfrom` and `sendto`.
fn one_by_one(socket: &UdpSocket) -> io::Result<()> {
    let (mut buffer, mut peer) = ([0; BUFFER_BYTES], Peer::default());
    loop {
        if let Some(bytes) = socket.recv(&mut buffer, &mut peer, Wait::ForOne)? {
            turn(&mut buffer[..bytes]);
            // A reply that the kernel refuses is lost, like any datagram.
            let _ = socket.send(&buffer[..bytes], &peer);
        }
    }
}

/// The loop with `recvmmsg` and `sendmmsg`.
fn in_batches(socket: &UdpSocket) -> io::Result<()> {
    let mut batch = TurnBatch::new(MESSAGES, BUFFER_BYTES, MESSAGES);
    loop {
        for index in 0..batch.recv(socket, Wait::ForOne)? {
            let message = batch.message_mut(index);
            turn(message);
            let bytes = message.len();
            batch.reply(index, 0, bytes, None);
        }
        let mut first = 0;
        while first < batch.queued() {
            first += batch.send(socket, first).unwrap_or(1);
        }
    }
}
