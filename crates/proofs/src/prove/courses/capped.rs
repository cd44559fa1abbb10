//! A server that answers no more than a known rate, whatever it is asked: a query beyond it gets no reply.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use kqps_faults::thread::Background;
use kqps_kernel::clock;

/// The bit of a reply in the third byte of a message (RFC 1035, section 4.1.1).
const QR: u8 = 0x80;

/// The replies that are saved up while no query comes, as a time at the rate.
const SAVED_S: f64 = 1e-3;

/// How long the server waits for a query before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The server. Dropping it ends it.
pub(super) struct Capped {
    pub(super) address: SocketAddr,
    thread: Background<u64>,
}

impl Capped {
    /// Starts a server on this core that answers at most this many queries a second.
    pub(super) fn start(most_qps: f64, cpu: u32) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(LOOK))?;
        let address = socket.local_addr()?;
        let serve = move |stop: &AtomicBool| serve(&socket, most_qps, stop);
        let thread = Background::start(("the capped server", "capped"), Some(cpu), serve)?;
        Ok(Self { address, thread })
    }

    /// Ends the server, and returns how many queries it answered.
    pub(super) fn stop(self) -> Result<u64> {
        self.thread.stop()
    }
}

fn serve(socket: &UdpSocket, most_qps: f64, stop: &AtomicBool) -> Result<u64> {
    let mut message = [0; 512];
    let (mut answered, mut room, mut at_ns) = (0, 1.0, clock::now_ns());
    while !stop.load(Ordering::Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut message) else { continue };
        let now_ns = clock::now_ns();
        room += (now_ns - at_ns) as f64 / 1e9 * most_qps;
        room = f64::min(room, (most_qps * SAVED_S).max(1.0));
        at_ns = now_ns;
        if room >= 1.0 && bytes > 2 {
            room -= 1.0;
            message[2] |= QR;
            socket.send_to(&message[..bytes], from)?;
            answered += 1;
        }
    }
    Ok(answered)
}
