//! A server of a proof, which answers some queries and drops the others by a rule that is known, or stands still for some.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use kqps_faults::streams::Standstill;
use kqps_faults::thread::Background;
use kqps_kernel::clock;
use kqps_kernel::udp::{self, UdpOptions};

/// The bit of a reply in the third byte of a message (RFC 1035, section 4.1.1).
const QR: u8 = 0x80;

/// How long the server waits for a query before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A server that stands still waits no longer than this, so that held replies leave in time.
const LOOK_HELD: Duration = Duration::from_millis(1);

/// A second of queries.
const BUFFER_BYTES: usize = 64 << 20;

/// The server. Dropping it ends it.
pub(super) struct StandIn {
    pub(super) address: SocketAddr,
    thread: Background<u64>,
}

impl StandIn {
    /// Starts it on this core. It answers the queries for which `answers` returns true.
    pub(super) fn start(cpu: u32, answers: impl FnMut(&[u8]) -> bool + Send + 'static) -> Result<Self> {
        Self::run(cpu, LOOK, move |socket, stop| serve(socket, answers, stop))
    }

    /// Starts one that answers every query, and stands still once.
    pub(super) fn standing_still(cpu: u32, standstill: Standstill) -> Result<Self> {
        Self::run(cpu, LOOK_HELD, move |socket, stop| serve_held(socket, standstill, stop))
    }

    fn run(
        cpu: u32,
        look: Duration,
        serve: impl FnOnce(&UdpSocket, &AtomicBool) -> Result<u64> + Send + 'static,
    ) -> Result<Self> {
        let options = UdpOptions { recv_buffer: Some(BUFFER_BYTES), ..UdpOptions::default() };
        let bound = udp::UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &options)?;
        let socket = UdpSocket::from(bound.as_fd().try_clone_to_owned()?);
        socket.set_read_timeout(Some(look))?;
        let address = socket.local_addr()?;
        let serve = move |stop: &AtomicBool| serve(&socket, stop);
        Ok(Self { address, thread: Background::start(("the stand-in", "stand-in"), Some(cpu), serve)? })
    }

    /// Ends it, and returns how many queries it dropped.
    pub(super) fn stop(self) -> Result<u64> {
        self.thread.stop()
    }
}

fn serve(socket: &UdpSocket, mut answers: impl FnMut(&[u8]) -> bool, stop: &AtomicBool) -> Result<u64> {
    let mut message = [0; 512];
    let mut dropped = 0;
    while !stop.load(Ordering::Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut message) else { continue };
        if answers(&message[..bytes]) {
            message[2] |= QR;
            socket.send_to(&message[..bytes], from)?;
        } else {
            dropped += 1;
        }
    }
    Ok(dropped)
}

/// Answers every query, and holds the replies to those of a standstill until it is over. It drops none.
fn serve_held(socket: &UdpSocket, mut standstill: Standstill, stop: &AtomicBool) -> Result<u64> {
    let mut message = [0; 512];
    let mut held: VecDeque<(u64, Vec<u8>, SocketAddr)> = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        let received = socket.recv_from(&mut message);
        let now_ns = clock::now_ns();
        while let Some((_, reply, to)) = held.pop_front_if(|(until_ns, ..)| *until_ns <= now_ns) {
            socket.send_to(&reply, to)?;
        }
        let Ok((bytes, from)) = received else { continue };
        let until_ns = standstill.holds_until_ns(&message[..bytes], now_ns);
        message[2] |= QR;
        match until_ns {
            Some(until_ns) => held.push_back((until_ns, message[..bytes].to_vec(), from)),
            None => {
                socket.send_to(&message[..bytes], from)?;
            }
        }
    }
    Ok(0)
}
