//! The system calls of an echo, and next to nothing around them: what a host gives a server that reads and writes UDP
//! one datagram a call, or many. `cargo xtask peers echo` holds kqps's echo against it.
//!
//! `calls blocking|mmsg` prints where it listens, as `kqps serve echo --json` does, and answers until it is ended.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use kqps_kernel::Wait;
use kqps_kernel::batch::TurnBatch;
use kqps_kernel::udp::{Peer, UdpOptions, UdpSocket};

/// As many datagrams, and with room for as many bytes, as in kqps's echo.
const MESSAGES: usize = 64;
const BUFFER_BYTES: usize = 4097;

/// Room for a second of queries, as the echo has it there.
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

/// `recvfrom` and `sendto`.
fn one_by_one(socket: &UdpSocket) -> io::Result<()> {
    let (mut buffer, mut peer) = ([0; BUFFER_BYTES], Peer::default());
    loop {
        if let Some(bytes) = socket.recv(&mut buffer, &mut peer, Wait::ForOne)? {
            turn(&mut buffer[..bytes]);
            // What the kernel refuses is lost, as anything may be.
            let _ = socket.send(&buffer[..bytes], &peer);
        }
    }
}

/// `recvmmsg` and `sendmmsg`.
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
