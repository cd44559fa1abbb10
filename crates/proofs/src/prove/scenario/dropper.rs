//! A server that answers every query but each tenth one for one name.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use kqps_faults::thread::Background;
use kqps_kernel::udp::{self, UdpOptions};

/// The name whose queries are dropped.
pub(super) const NAMED: &str = "dropped.example.test.";

/// Its first label as a query has it (RFC 1035, section 3.1).
const LABEL: &[u8] = b"\x07dropped";

/// One in so many of them is dropped.
pub(super) const ONE_IN: u64 = 10;

/// Where a name begins in a query.
const NAME_AT: usize = 12;

/// The bit of a reply in the third byte of a message (RFC 1035, section 4.1.1).
const QR: u8 = 0x80;

/// How long the server waits for a query before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A second of queries.
const BUFFER_BYTES: usize = 64 << 20;

/// The server. Dropping it ends it.
pub(super) struct Dropper {
    pub(super) address: SocketAddr,
    thread: Background<u64>,
}

impl Dropper {
    /// Starts it on this core.
    pub(super) fn start(cpu: u32) -> Result<Self> {
        let options = UdpOptions { recv_buffer: Some(BUFFER_BYTES), ..UdpOptions::default() };
        let bound = udp::UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &options)?;
        let socket = UdpSocket::from(bound.as_fd().try_clone_to_owned()?);
        socket.set_read_timeout(Some(LOOK))?;
        let address = socket.local_addr()?;
        let serve = move |stop: &AtomicBool| serve(&socket, stop);
        Ok(Self { address, thread: Background::start(("the dropper", "dropper"), Some(cpu), serve)? })
    }

    /// Ends it, and returns how many queries it dropped.
    pub(super) fn stop(self) -> Result<u64> {
        self.thread.stop()
    }
}

fn serve(socket: &UdpSocket, stop: &AtomicBool) -> Result<u64> {
    let mut message = [0; 512];
    let (mut named, mut dropped) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut message) else { continue };
        if message[..bytes].get(NAME_AT..).is_some_and(|name| name.starts_with(LABEL)) {
            named += 1;
            if named % ONE_IN == 0 {
                dropped += 1;
                continue;
            }
        }
        message[2] |= QR;
        socket.send_to(&message[..bytes], from)?;
    }
    Ok(dropped)
}
