//! A connection to the target of a load that outlives failures of the target, such as a restart: messages to a server that is
//! gone are lost, and later ones reach it when it is back.

use std::io::ErrorKind;
use std::time::Duration;

use kqps_ask::{AskError, Connection};
use kqps_kernel::clock::now_ns;

use super::exchange::Target;

/// The longest wait for a connection.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pause before another attempt to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that is made again after it failed, or over UDP a socket that is kept while the target's port is closed.
pub(super) struct Reconnecting<'a> {
    target: &'a Target<'a>,
    connection: Option<Connection>,
    /// When the next attempt to connect may begin.
    next_ns: u64,
    failure: Option<String>,
}

impl<'a> Reconnecting<'a> {
    /// Connects, if the target can be reached now.
    pub(super) fn new(target: &'a Target<'a>) -> Self {
        let mut connection = Self { target, connection: None, next_ns: 0, failure: None };
        connection.connect();
        connection
    }

    /// The last failure of the connection.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Sends a message. It is lost if there is no connection, and none can be made now.
    pub(super) fn send(&mut self, message: &[u8]) {
        self.connect();
        let Some(connection) = &mut self.connection else { return };
        let sent = match connection.send(&[message]) {
            // The system reports the refusal of an earlier message, and has not sent this one (ip(7)).
            Err(error) if self.target.is_udp() && is_refusal(&error) => connection.send(&[message]),
            sent => sent,
        };
        if let Err(error) = sent {
            self.fail(&error);
        }
    }

    /// Waits for the next reply, for this long at most. Without a connection it waits in vain.
    pub(super) fn receive(&mut self, within: Duration) -> Option<Vec<u8>> {
        let Some(connection) = &mut self.connection else {
            std::thread::sleep(within);
            return None;
        };
        match connection.receive(within) {
            Ok(reply) => Some(reply),
            Err(AskError::TimedOut) => None,
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    /// The next reply if it has arrived.
    pub(super) fn receive_arrived(&mut self) -> Option<Vec<u8>> {
        loop {
            match self.connection.as_mut()?.receive_arrived() {
                Ok(reply) => return reply,
                // Replies may stand behind a refusal.
                Err(error) => self.fail(&error),
            }
        }
    }

    fn connect(&mut self) {
        if self.connection.is_some() || now_ns() < self.next_ns {
            return;
        }
        match self.target.connect(PATIENCE) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.fail(&error),
        }
    }

    /// Notes a failure. A socket for datagrams survives a refusal.
    fn fail(&mut self, error: &AskError) {
        self.failure = Some(error.to_string());
        if !(self.target.is_udp() && is_refusal(error)) {
            self.connection = None;
            self.next_ns = now_ns() + PAUSE.as_nanos() as u64;
        }
    }
}

/// Whether no program has the target's port.
fn is_refusal(error: &AskError) -> bool {
    matches!(error, AskError::Socket(error) if error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{SocketAddr, TcpListener, UdpSocket};
    use std::time::Instant;

    use kqps_observation::trial::Transport;

    use super::*;
    use crate::path::LaidPath;

    const MESSAGE: [u8; 12] = [7; 12];

    fn target(address: SocketAddr, transport: Transport) -> Target<'static> {
        Target::new(address, transport, &LaidPath::Loopback).unwrap()
    }

    #[test]
    fn datagrams_reach_a_server_that_comes_back() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let target = target(address, Transport::Udp);
        let mut connection = Reconnecting::new(&target);
        drop(server);
        for _ in 0..3 {
            connection.send(&MESSAGE);
        }
        assert_eq!(connection.receive_arrived(), None);
        assert!(connection.failure().unwrap().contains("refused"));
        connection.send(&MESSAGE);
        let server = UdpSocket::bind(address).unwrap();
        // The refusal of the one before does not keep it back.
        connection.send(&MESSAGE);
        let (bytes, client) = server.recv_from(&mut [0; 64]).unwrap();
        assert_eq!(bytes, MESSAGE.len());
        server.send_to(&MESSAGE, client).unwrap();
        assert_eq!(connection.receive(Duration::from_secs(20)), Some(MESSAGE.to_vec()));
    }

    #[test]
    fn a_connection_is_made_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let target = target(address, Transport::Tcp);
        let mut connection = Reconnecting::new(&target);
        drop(listener.accept().unwrap());
        drop(listener);
        assert_eq!(connection.receive(Duration::from_secs(20)), None);
        assert!(connection.connection.is_none() && connection.failure().is_some());
        let listener = TcpListener::bind(address).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while connection.connection.is_none() {
            assert!(Instant::now() < deadline, "it is not made again");
            connection.send(&MESSAGE);
        }
        let mut received = [0; 2 + MESSAGE.len()];
        listener.accept().unwrap().0.read_exact(&mut received).unwrap();
        assert_eq!(received[2..], MESSAGE);
    }
}
