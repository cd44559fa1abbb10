//! Listening sockets, and the TLS of their connections, as a parent hands them down to its worker processes.

use std::io;
use std::os::fd::RawFd;
use std::process::Command;
use std::sync::Arc;

use kqps_kernel::UdpSocket;
use kqps_kernel::process::{hand_down, handed_down};
use serde::{Deserialize, Serialize};

use crate::sockets::{Acceptors, ListeningSocket, QuicSocket};

/// A listening socket by its kind, as a file descriptor. One of QUIC has a number among those of its address.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ListenerDescription {
    Tcp(RawFd),
    Tls(RawFd),
    Https(RawFd),
    Unix(RawFd),
    Quic { descriptor: RawFd, number: u16 },
}

impl ListenerDescription {
    /// Hands a socket down to a child, and describes it.
    pub(super) fn hand_down(command: &mut Command, listener: &ListeningSocket) -> io::Result<Self> {
        let descriptor = hand_down(command, listener)?;
        Ok(match listener {
            ListeningSocket::Tcp(_) => Self::Tcp(descriptor),
            ListeningSocket::Tls(..) => Self::Tls(descriptor),
            ListeningSocket::Https(..) => Self::Https(descriptor),
            ListeningSocket::Unix(_) => Self::Unix(descriptor),
            ListeningSocket::Quic(socket) => Self::Quic { descriptor, number: socket.number },
        })
    }

    /// The socket, in the child.
    pub(super) fn open(&self, acceptors: Option<&Acceptors>) -> io::Result<ListeningSocket> {
        let encrypted =
            || acceptors.ok_or_else(|| io::Error::other("no certificate for encrypted connections"));
        Ok(match *self {
            Self::Tcp(number) => ListeningSocket::Tcp(handed_down(number)?.into()),
            Self::Tls(number) => ListeningSocket::Tls(handed_down(number)?.into(), encrypted()?.tls.clone()),
            Self::Https(number) => {
                ListeningSocket::Https(handed_down(number)?.into(), encrypted()?.https.clone())
            }
            Self::Unix(number) => ListeningSocket::Unix(handed_down(number)?.into()),
            Self::Quic { descriptor, number } => {
                let socket = Arc::new(UdpSocket::from_fd(handed_down(descriptor)?)?);
                let acceptor = encrypted()?.quic.clone();
                ListeningSocket::Quic(QuicSocket { socket, acceptor, number })
            }
        })
    }
}
