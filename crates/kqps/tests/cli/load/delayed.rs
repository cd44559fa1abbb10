//! `kqps load` at a server that writes each reply in two pieces without TCP_NODELAY.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::bench::{Bench, words};

/// Answers every query of one connection with itself as a response: the length in one write, the message in the next.
fn answer_in_pieces(mut connection: TcpStream) -> io::Result<()> {
    let mut length = [0; 2];
    while connection.read_exact(&mut length).is_ok() {
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        connection.read_exact(&mut message)?;
        message[2] |= 0x80;
        connection.write_all(&length)?;
        connection.write_all(&message)?;
    }
    Ok(())
}

#[test]
fn replies_that_wait_for_a_delayed_acknowledgement_are_explained() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || answer_in_pieces(listener.accept().unwrap().0));
    let flags = ["-c", "1", "-Q", "10", "-l", "3s", "-t", "10s"];
    let (stdout, stderr) = words(&Bench::new().load_of(&target, &flags).output().unwrap());
    server.join().unwrap().unwrap();
    assert!(stdout.contains("sent 30 = correct 30 "), "{stdout}");
    assert!(stderr.contains("delayed-ack: ") && stderr.contains("TCP_NODELAY"), "{stdout}{stderr}");
}
