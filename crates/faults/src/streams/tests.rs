//! The server as a plain client sees it: one query, one fault, and what comes back.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use super::*;

const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02n1\x04test\x00\x00\x01\x00\x01";

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// Bytes that came back on a connection, and whether it was reset.
#[derive(Debug, PartialEq, Eq)]
struct Received {
    bytes: Vec<u8>,
    was_reset: bool,
}

/// Asks once, reads `awaited` bytes or to the end, closes the connection and reads the rest.
fn ask(fault: Fault, awaited: usize) -> (Received, Counts) {
    let plan = Plan::from_faults(&[fault], 1.0).unwrap();
    let server = Server::start(ServerSettings { plan, late_us: 2_000, ..ServerSettings::default() }).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(&framed(QUERY)).unwrap();
    let (mut seen, mut buffer) = (Received { bytes: Vec::new(), was_reset: false }, [0; 512]);
    while seen.bytes.len() < awaited {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => seen.bytes.extend_from_slice(&buffer[..bytes]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{fault}");
                seen.was_reset = true;
                break;
            }
        }
    }
    drop(stream);
    (seen, server.stop().unwrap())
}

fn right() -> Vec<u8> {
    framed(&reply::right(QUERY.to_vec()))
}

/// The faults of a stage over TCP.
fn faults(stage: Stage) -> impl Iterator<Item = Fault> {
    Fault::ALL.iter().copied().filter(move |fault| fault.stage() == stage && fault.is_over(Kind::Tcp))
}

#[test]
fn replies_have_their_faults_and_are_counted() {
    let frame = right();
    for fault in faults(Stage::Reply) {
        let wanted = match fault {
            Fault::Twice => [&frame[..], &frame].concat(),
            Fault::Empty => [&[0, 0][..], &frame].concat(),
            Fault::WrongId => framed(&reply::with_wrong_id(QUERY.to_vec())),
            Fault::WrongQuestion => framed(&reply::with_wrong_question(QUERY.to_vec())),
            Fault::Never => Vec::new(),
            _ => frame.clone(),
        };
        let (seen, counts) = ask(fault, wanted.len());
        assert_eq!((seen.bytes, seen.was_reset), (wanted, false), "{fault}");
        assert_eq!((counts.queries, counts.count(fault), counts.connections), (1, 1, 1), "{fault}");
        assert_eq!(counts.doubt(), None, "{fault}");
        counts.expected().accounts.check().unwrap();
    }
}

#[test]
fn connections_end_as_their_faults_say_and_are_counted() {
    let frame = right();
    for fault in faults(Stage::End) {
        let (seen, counts) = ask(fault, usize::MAX);
        let bytes = match fault {
            Fault::Reset | Fault::Close => 0,
            Fault::ResetInReply => frame.len() / 2,
            _ => frame.len(),
        };
        assert_eq!(seen.bytes.len(), bytes, "{fault}");
        let is_reset = matches!(fault, Fault::Reset | Fault::ResetInReply);
        assert_eq!(seen.was_reset, is_reset, "{fault}");
        let cause = match fault {
            Fault::HalfClose => "idle",
            _ if is_reset => "reset",
            _ => "closed",
        };
        let expected = counts.expected();
        assert_eq!(expected.closed, [(cause.to_owned(), 1)].into(), "{fault}");
        assert_eq!(expected.accounts.correct, u64::from(fault == Fault::HalfClose), "{fault}");
        expected.accounts.check().unwrap();
    }
}

#[test]
fn a_cut_steps_through_every_offset() {
    let plan = Plan::from_faults(&[Fault::Split], 1.0).unwrap();
    let server = Server::start(ServerSettings { plan, ..ServerSettings::default() }).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let frame = right();
    for _ in 1..frame.len() {
        stream.write_all(&framed(QUERY)).unwrap();
        let mut whole = vec![0; frame.len()];
        stream.read_exact(&mut whole).unwrap();
        assert_eq!(whole, frame);
    }
    drop(stream);
    let counts = server.stop().unwrap();
    assert!(counts.cut_at.iter().copied().eq(1..frame.len()));
}

#[test]
fn a_refusal_begins_when_all_connections_are_open_and_ends() {
    let lasts = Duration::from_millis(500);
    let refusal = Some(Refusal { after_queries: 1, connections: 2, lasts });
    let server = Server::start(ServerSettings { refusal, ..ServerSettings::default() }).unwrap();
    let mut first = TcpStream::connect(server.address()).unwrap();
    first.write_all(&framed(QUERY)).unwrap();
    let mut reply = vec![0; right().len()];
    first.read_exact(&mut reply).unwrap();
    let mut second = TcpStream::connect(server.address()).unwrap();
    for stream in [&mut first, &mut second] {
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "the server closes both");
    }
    assert_eq!(TcpStream::connect(server.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    drop((first, second));
    let began = std::time::Instant::now();
    let mut third = loop {
        if let Ok(third) = TcpStream::connect(server.address()) {
            break third;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "it refuses for ever");
        std::thread::sleep(Duration::from_millis(1));
    };
    // The server has accepted a connection on which it answers.
    third.write_all(&framed(QUERY)).unwrap();
    third.read_exact(&mut reply).unwrap();
    let counts = server.stop().unwrap();
    assert_eq!((counts.connections, counts.closed["idle"]), (3, 2));
}
