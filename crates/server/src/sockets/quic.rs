//! The sockets of QUIC: one at each address for each worker (`SO_REUSEPORT`), one with a port of its own for each, or one
//! for all. Among several sockets of an address, the connection ID of a packet says which one it belongs to, since the
//! server chooses the IDs of its connections. So a connection keeps its worker when its client moves to another address
//! or port, and when its packets arrive on another core. Only the first packets of a connection, whose ID the client
//! chooses, are distributed by the kernel, or by the core that receives them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kqps_kernel::{UdpOptions, UdpSocket, steer};
use kqps_quic::transport::SERVER_ID_BYTES;
use kqps_tls::Acceptor;

use super::{ListeningSocket, QuicSocket};
use crate::model::Model;
use crate::setup::ServerSetup;

/// Opens this many sockets at an address. Returns the address with its port.
pub(super) fn open(
    setup: &ServerSetup,
    address: SocketAddr,
    count: usize,
    acceptor: &Acceptor,
) -> io::Result<(SocketAddr, Vec<ListeningSocket>)> {
    let options = UdpOptions {
        recv_buffer: Some(setup.buffer_bytes),
        send_buffer: Some(setup.buffer_bytes),
        gro: Model::Segment.available().is_ok(),
        pktinfo: address.ip().is_unspecified(),
        ..UdpOptions::default()
    };
    // The first socket is bound alone: a port in use is an error, even if its owner would share it.
    let first = UdpSocket::bind(address, &options)?;
    first.share_port(count > 1, false)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    let options = UdpOptions { reuse_port: true, ..options };
    for _ in 1..count {
        sockets.push(UdpSocket::bind(address, &options)?);
    }
    if count > 1 {
        let cpus = setup.steer.then_some(&setup.cpus[..]);
        match steer::to_owners(&sockets, SERVER_ID_BYTES, cpus) {
            // The kernel then distributes packets by their addresses and ports, which suffices unless clients move.
            Err(_) if cpus.is_none() => {}
            steered => steered?,
        }
    }
    // RFC 9000, section 14: packets of QUIC are never fragmented.
    sockets.iter().try_for_each(UdpSocket::never_fragment)?;
    let numbered = sockets.into_iter().zip(0..).map(|(socket, number)| {
        let (socket, acceptor) = (Arc::new(socket), acceptor.clone());
        ListeningSocket::Quic(QuicSocket { socket, acceptor, number })
    });
    Ok((address, numbered.collect()))
}
