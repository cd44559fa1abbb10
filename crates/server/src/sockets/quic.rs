//! The sockets of QUIC: one at each address for each worker. The kernel chooses among them by the addresses and ports
//! of a packet (`SO_REUSEPORT`), so a client that moves to another address or port may reach a worker that does not
//! know its connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kqps_kernel::{UdpOptions, UdpSocket};
use kqps_tls::Acceptor;

use super::{BindError, Bound, ListeningSocket, refused};
use crate::model::Model;
use crate::setup::{QuicSetup, ServerSetup};

/// Gives each worker its sockets.
pub(super) fn bind(setup: &ServerSetup, quic: &QuicSetup, bound: &mut Bound) -> Result<(), BindError> {
    let acceptor = Acceptor::over_quic(&quic.identity, quic.early_data).map_err(|error| BindError {
        place: "the addresses of QUIC".to_owned(),
        reason: error.to_string(),
    })?;
    for &address in &quic.listen {
        let refused = |error| refused(address, &error);
        let sockets = open(setup, address, bound.workers.len()).map_err(refused)?;
        bound.quic.push(sockets[0].local_addr().map_err(refused)?);
        for (worker, socket) in bound.workers.iter_mut().zip(sockets) {
            worker.listeners.push(ListeningSocket::Quic(Arc::new(socket), acceptor.clone()));
        }
    }
    Ok(())
}

fn open(setup: &ServerSetup, address: SocketAddr, workers: usize) -> io::Result<Vec<UdpSocket>> {
    let options = UdpOptions {
        recv_buffer: Some(setup.buffer_bytes),
        send_buffer: Some(setup.buffer_bytes),
        gro: Model::Segment.available().is_ok(),
        pktinfo: address.ip().is_unspecified(),
        ..UdpOptions::default()
    };
    // The first socket is bound alone: a port in use is an error, even if its owner would share it.
    let first = UdpSocket::bind(address, &options)?;
    first.share_port(workers > 1, false)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    let options = UdpOptions { reuse_port: true, ..options };
    for _ in 1..workers {
        sockets.push(UdpSocket::bind(address, &options)?);
    }
    // RFC 9000, section 14: packets of QUIC are never fragmented.
    sockets.iter().try_for_each(UdpSocket::never_fragment)?;
    Ok(sockets)
}
