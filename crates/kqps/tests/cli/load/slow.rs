//! `kqps load` at servers whose replies take their time, and what it says about that.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::bench::{Bench, words};

/// Answers every query of a connection with itself as a response, after `delay`: the length in one write, the message in
/// the next.
fn answer_in_pieces(mut connection: &TcpStream, delay: Duration) -> io::Result<()> {
    let mut length = [0; 2];
    while connection.read_exact(&mut length).is_ok() {
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        connection.read_exact(&mut message)?;
        message[2] |= 0x80;
        thread::sleep(delay);
        connection.write_all(&length)?;
        connection.write_all(&message)?;
    }
    Ok(())
}

/// A server with a thread for each connection, as long as the test runs. Returns its target.
fn serve(delay: Duration, is_nagling: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = connection.unwrap();
            connection.set_nodelay(!is_nagling).unwrap();
            thread::spawn(move || answer_in_pieces(&connection, delay));
        }
    });
    target
}

#[test]
fn replies_that_wait_for_a_delayed_acknowledgement_are_explained() {
    let target = serve(Duration::ZERO, true);
    let flags = ["-c", "1", "-Q", "10", "-l", "3s", "-t", "10s"];
    let (stdout, stderr) = words(&Bench::new().load_of(&target, &flags).output().unwrap());
    assert!(stdout.contains("sent 30 = correct 30 "), "{stdout}");
    assert!(stderr.contains("delayed-ack: ") && stderr.contains("TCP_NODELAY"), "{stdout}{stderr}");
}

#[test]
fn a_load_that_has_too_few_connections_says_so() {
    let target = serve(Duration::from_millis(40), false);
    let each = ["--queries-per-connection", "1", "-Q", "500", "-l", "1s", "-t", "10s"];
    let load =
        |flags: &[&str]| words(&Bench::new().load_of(&target, &[&each, flags].concat()).output().unwrap());
    let (stdout, stderr) = load(&["-c", "2"]);
    assert!(stderr.contains("few-places: ") && stderr.contains("all 2 connections"), "{stdout}{stderr}");
    // The usual number suffices for a delay of half a second.
    let (stdout, stderr) = load(&[]);
    assert!(stdout.contains("256 connections") && !stderr.contains("few-places: "), "{stdout}{stderr}");
}
