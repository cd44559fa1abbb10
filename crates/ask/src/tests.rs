//! Replies that come, that do not come, and that answer another query.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::thread;

use super::*;

/// A wait for something that should take no time, and one for a reply that never comes.
const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(20);

/// A message with this ID, of the length of a header.
fn message(id: u8) -> [u8; 12] {
    let mut message = [0; 12];
    message[1] = id;
    message
}

/// A server that accepts one connection, reads this many queries, and sends these messages.
fn by_tcp(queries: usize, replies: &'static [u8]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::over_tcp(listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut vec![0; queries * 14]).unwrap();
        for id in replies {
            stream.write_all(&[&[0, 12][..], &message(*id)].concat()).unwrap();
        }
    });
    server
}

#[test]
fn over_udp_a_datagram_with_another_id_is_dropped() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut connection = Server::over_udp(socket.local_addr().unwrap()).connect(PATIENCE).unwrap();
    connection.send(&[&message(1)]).unwrap();
    let (_, client) = socket.recv_from(&mut [0; 64]).unwrap();
    for reply in [&message(9)[..], &[0], &message(2)] {
        socket.send_to(reply, client).unwrap();
    }
    assert_eq!(connection.ask(&message(2), PATIENCE).unwrap(), message(2));
    assert!(matches!(connection.receive(SHORT), Err(AskError::TimedOut)));
}

#[test]
fn replies_that_have_arrived_are_taken_without_a_wait() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut connection = Server::over_udp(socket.local_addr().unwrap()).connect(PATIENCE).unwrap();
    assert!(connection.receive_arrived().unwrap().is_none());
    connection.send(&[&message(1)]).unwrap();
    let (_, client) = socket.recv_from(&mut [0; 64]).unwrap();
    for id in [1, 2] {
        // A datagram over loopback has arrived when it is sent.
        socket.send_to(&message(id), client).unwrap();
    }
    assert_eq!([(); 2].map(|()| connection.receive_arrived().unwrap().unwrap()), [message(1), message(2)]);
    assert!(connection.receive_arrived().unwrap().is_none());

    let mut connection = by_tcp(1, &[1, 2]).connect(PATIENCE).unwrap();
    assert!(connection.receive_arrived().unwrap().is_none());
    connection.send(&[&message(1)]).unwrap();
    let mut arrived = Vec::new();
    let ended = loop {
        match connection.receive_arrived() {
            Ok(reply) => arrived.extend(reply),
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, AskError::Closed), "{ended:?}");
    assert_eq!(arrived, [message(1), message(2)]);
}

#[test]
fn over_udp_a_port_without_a_server_is_an_error_of_the_socket() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut connection = Server::over_udp(server.local_addr().unwrap()).connect(PATIENCE).unwrap();
    drop(server);
    let is_refused = |error: AskError| matches!(&error, AskError::Socket(error) if error.kind() == ErrorKind::ConnectionRefused);
    // Over loopback the refusal has arrived when the query is sent.
    connection.send(&[&message(1)]).unwrap();
    assert!(connection.receive_arrived().is_err_and(is_refused));
    assert!(connection.receive_arrived().unwrap().is_none(), "it is one refusal");
    assert!(connection.ask(&message(2), PATIENCE).is_err_and(is_refused));
}

#[test]
fn over_tcp_replies_come_in_any_order_and_then_the_end() {
    let mut connection = by_tcp(2, &[2, 1]).connect(PATIENCE).unwrap();
    connection.send(&[&message(1), &message(2)]).unwrap();
    assert_eq!([(); 2].map(|()| connection.receive(PATIENCE).unwrap()), [message(2), message(1)]);
    assert!(matches!(connection.receive(PATIENCE), Err(AskError::Closed)));
}

#[test]
fn over_tcp_a_reply_with_another_id_is_an_error() {
    let asked = by_tcp(1, &[2]).ask(&message(1), PATIENCE);
    assert!(matches!(asked, Err(AskError::OtherId)), "{asked:?}");
}

#[test]
fn over_tcp_a_port_without_a_server_is_an_error_of_the_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::over_tcp(listener.local_addr().unwrap());
    drop(listener);
    let asked = server.ask(&message(1), PATIENCE);
    assert!(
        matches!(&asked, Err(AskError::Socket(error)) if error.kind() == ErrorKind::ConnectionRefused),
        "{asked:?}"
    );
}
