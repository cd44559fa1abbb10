//! The server's socket of UDP, which can drop and swap datagrams.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use kqps_kernel::udp::{DATAGRAM_BYTES, Peer, UdpOptions, UdpSocket, Wait};

use crate::streams::Disorder;
use crate::streams::counts::Datagrams;

/// The socket's buffers: more than what a player has outstanding.
const BUFFER_BYTES: usize = 64 << 20;

type Datagram = (Vec<u8>, SocketAddr);

/// A socket, and what it does with datagrams.
pub(super) struct Line {
    /// `None` while nobody listens.
    socket: Option<UdpSocket>,
    disorder: Disorder,
    counts: Datagrams,
    /// Datagrams that found no room in sockets that are closed by now.
    overflowed: u64,
    buffer: Box<[u8]>,
    /// A datagram that waits for the next one, in each direction, and one that is passed on after that.
    incoming: Option<Datagram>,
    after: Option<Datagram>,
    outgoing: Option<Datagram>,
}

impl Line {
    pub(super) fn open(address: SocketAddr, disorder: Disorder) -> Result<Self> {
        Ok(Self {
            socket: Some(bind(address)?),
            disorder,
            counts: Datagrams::default(),
            overflowed: 0,
            buffer: vec![0; DATAGRAM_BYTES].into(),
            incoming: None,
            after: None,
            outgoing: None,
        })
    }

    /// The socket. An error if nobody listens.
    pub(super) fn socket(&self) -> Result<&UdpSocket> {
        self.socket.as_ref().context("the socket is closed")
    }

    /// Closes the socket. What arrives from now on is refused by the kernel.
    pub(super) fn close(&mut self) -> Result<()> {
        self.overflowed = self.overflowed()?;
        self.socket = None;
        Ok(())
    }

    /// Opens the socket again.
    pub(super) fn reopen(&mut self, address: SocketAddr) -> Result<()> {
        self.socket = Some(bind(address)?);
        Ok(())
    }

    /// The counts of its datagrams.
    pub(super) fn counts(&self) -> Datagrams {
        self.counts
    }

    /// Datagrams that found no room in the socket's buffer.
    pub(super) fn overflowed(&self) -> Result<u64> {
        let now = self.socket.as_ref().map_or(Ok(0), UdpSocket::drops)?;
        Ok(self.overflowed + now)
    }

    /// Takes the next datagram with its sender; `None` if none has arrived.
    pub(super) fn receive(&mut self) -> Result<Option<Datagram>> {
        if let Some(datagram) = self.after.take() {
            return Ok(Some(datagram));
        }
        loop {
            let Some(socket) = &self.socket else { return Ok(None) };
            let mut peer = Peer::default();
            let Some(bytes) = socket.recv(&mut self.buffer, &mut peer, Wait::No)? else { return Ok(None) };
            self.counts.received += 1;
            let Disorder { drop_every, swap_every } = self.disorder;
            if is_nth(self.counts.received, drop_every) {
                self.counts.received_dropped += 1;
                continue;
            }
            let Some(from) = peer.address.to_socket_addr() else { continue };
            let datagram = (self.buffer[..bytes].to_vec(), from);
            if self.incoming.is_none() && is_nth(self.counts.received, swap_every) {
                self.counts.swapped += 1;
                self.incoming = Some(datagram);
                continue;
            }
            self.after = self.incoming.take();
            return Ok(Some(datagram));
        }
    }

    /// Sends a datagram.
    pub(super) fn send(&mut self, bytes: &[u8], to: SocketAddr) {
        self.counts.sent += 1;
        let Disorder { drop_every, swap_every } = self.disorder;
        if is_nth(self.counts.sent, drop_every) {
            self.counts.sent_dropped += 1;
            return;
        }
        if self.outgoing.is_none() && is_nth(self.counts.sent, swap_every) {
            self.counts.swapped += 1;
            self.outgoing = Some((bytes.to_vec(), to));
            return;
        }
        let Some(socket) = &self.socket else { return };
        hand_over(socket, bytes, to);
        if let Some((bytes, to)) = self.outgoing.take() {
            hand_over(socket, &bytes, to);
        }
    }
}

/// Whether the thing of this number, from 1 on, is one of every `every`; none is if that is 0.
fn is_nth(number: u64, every: u64) -> bool {
    every > 0 && number.is_multiple_of(every)
}

/// Sends a datagram. QUIC sends again what the kernel does not take, as what the network loses.
fn hand_over(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) {
    let _ = socket.send(bytes, &Peer { address: to.into(), asked: None });
}

fn bind(address: SocketAddr) -> Result<UdpSocket> {
    let options = UdpOptions {
        recv_buffer: Some(BUFFER_BYTES),
        send_buffer: Some(BUFFER_BYTES),
        ..UdpOptions::default()
    };
    UdpSocket::bind(address, &options).with_context(|| format!("cannot bind {address}"))
}
