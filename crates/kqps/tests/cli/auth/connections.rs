//! TCP (RFC 7766): pipelining, frames cut anywhere, limits, and peers that do not behave.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use kqps_kernel::process::Signal;

use super::dns::{A, TXT, connect, framed, next, query};
use super::{PATIENCE, Rig};

/// `count` queries in a row, each with its length.
pub(crate) fn many(count: u16) -> Vec<u8> {
    (0..count).flat_map(|id| framed(&query(id, "www.auth.test", A))).collect()
}

pub(super) fn assert_all_answered(stream: &mut impl Read, count: u16) {
    for id in 0..count {
        let reply = next(stream);
        assert_eq!((reply.id(), reply.answers()), (id, 1));
    }
}

/// Whether the server closes a connection, which this awaits.
pub(crate) fn is_closed(stream: &mut impl Read) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(0) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
        Ok(_) => false,
    }
}

/// Sends `at_once` queries at once, 3 byte by byte and 500 in pieces, and has `answered` check the replies of
/// each lot.
pub(crate) fn ask_cut_and_joined<S: Write>(stream: &mut S, at_once: u16, answered: impl Fn(&mut S, u16)) {
    stream.write_all(&many(at_once)).unwrap();
    answered(stream, at_once);
    for byte in many(3) {
        stream.write_all(&[byte]).unwrap();
    }
    answered(stream, 3);
    // No piece is a whole query.
    for piece in many(500).chunks(37) {
        stream.write_all(piece).unwrap();
    }
    answered(stream, 500);
}

#[test]
fn queries_are_answered_wherever_they_are_cut_and_joined() {
    let rig = Rig::new();
    for workers in [&["--processes", "1"][..], &["--processes", "2", "--threads", "2"]] {
        let server = rig.start(&[&["--listen", "127.0.0.1:0"], workers].concat());
        let mut stream = connect(server.addresses[0]);
        ask_cut_and_joined(&mut stream, 1000, assert_all_answered);
        // The last queries come with the end of the stream. The server answers them before it closes.
        stream.write_all(&many(10)).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_all_answered(&mut stream, 10);
        assert!(is_closed(&mut stream));
        let tcp = server.stop(Signal::Terminate).tcp.unwrap();
        assert_eq!((tcp.connections, tcp.received, tcp.answered), (1, 1513, 1513));
        assert_eq!(tcp.response_rcodes, [("NOERROR".to_owned(), 1513)].into());
    }
}

#[test]
fn what_is_no_message_ends_its_connection_only() {
    let rig = Rig::new();
    let server = rig.start(&["--listen", "127.0.0.1:0"]);
    let address = server.addresses[0];
    let mut other = connect(address);
    let mut stream = connect(address);
    // The server answers what came before it (RFC 7766, section 6.2.1.1).
    stream.write_all(&[&framed(&query(6, "www.auth.test", A))[..], &[0, 11], &[0; 11]].concat()).unwrap();
    assert_eq!(next(&mut stream).id(), 6);
    assert!(is_closed(&mut stream));
    // A response gets no answer, but the query after it does.
    let mut response = query(7, "www.auth.test", A);
    response[2] |= 0x80;
    other.write_all(&[framed(&response), framed(&query(8, "www.auth.test", A))].concat()).unwrap();
    assert_eq!(next(&mut other).id(), 8);
    drop(other);
    // A reset instead of an end.
    let broken = connect(address);
    socket2::SockRef::from(&broken).set_linger(Some(Duration::ZERO)).unwrap();
    drop(broken);
    // The server accepts this client after the reset, so its answer shows that the reset was seen.
    assert_eq!(super::ask_by(&mut connect(address), &query(1, "www.auth.test", A)).answers(), 1);
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((tcp.connections, tcp.ended["not-dns"]), (4, 1));
    assert_eq!(tcp.dropped, [("is-response".to_owned(), 1)].into());
    assert_eq!(tcp.ended.values().sum::<u64>(), 4);
}

#[test]
fn a_newcomer_takes_the_place_of_who_was_idle_longest() {
    const MOST: usize = 50;
    let rig = Rig::new();
    let most = MOST.to_string();
    let server = rig.start(&["--listen", "127.0.0.1:0", "--tcp-connections", &most, "--tcp-idle", "1m"]);
    let mut open: Vec<TcpStream> = Vec::new();
    for _ in 0..1000 {
        let mut stream = connect(server.addresses[0]);
        assert_eq!(super::ask_by(&mut stream, &query(1, "www.auth.test", A)).answers(), 1);
        open.push(stream);
    }
    let (closed, kept) = open.split_at_mut(1000 - MOST);
    assert!(closed.iter_mut().all(is_closed));
    for stream in kept {
        assert_eq!(super::ask_by(stream, &query(2, "www.auth.test", A)).answers(), 1);
    }
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((tcp.connections, tcp.ended["displaced"], tcp.ended["stopped"]), (1000, 950, 50));
}

/// The idle time in the tests of it: longer than other programs keep a test from a core.
pub(crate) const IDLE: &str = "3s";

/// The least time until an idle connection is closed. The clocks of server and test differ by less.
pub(crate) const IDLE_LEAST: Duration = Duration::from_millis(2990);

#[test]
fn a_client_has_its_share_and_an_idle_connection_its_time() {
    let rig = Rig::new();
    let server = rig.start(&["--listen", "127.0.0.1:0", "--tcp-per-client", "3", "--tcp-idle", IDLE]);
    let mut open: Vec<TcpStream> = (0..3).map(|_| connect(server.addresses[0])).collect();
    let begin = Instant::now();
    for stream in &mut open {
        assert_eq!(super::ask_by(stream, &query(1, "www.auth.test", A)).answers(), 1);
    }
    assert!(is_closed(&mut connect(server.addresses[0])));
    // Half a query is no progress.
    open[0].write_all(&[0, 40, 1]).unwrap();
    assert!(open.iter_mut().all(is_closed));
    assert!(begin.elapsed() >= IDLE_LEAST, "{:?}", begin.elapsed());
    assert_eq!(super::ask_by(&mut connect(server.addresses[0]), &query(2, "www.auth.test", A)).answers(), 1);
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((tcp.ended["too-many-of-client"], tcp.ended["idle"]), (1, 3));
}

/// Sends queries and reads nothing, until the server stops reading.
fn flood(server: SocketAddr, query: &[u8]) -> TcpStream {
    let mut stream = connect(server);
    stream.set_nonblocking(true).unwrap();
    let queries = framed(query).repeat(100);
    let begin = Instant::now();
    let mut blocked_since = None;
    loop {
        match stream.write(&queries) {
            Ok(_) => blocked_since = None,
            // It must stay full for a while: a server that is busy for a moment still reads.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let since = *blocked_since.get_or_insert_with(Instant::now);
                if since.elapsed() > Duration::from_millis(200) {
                    return stream;
                }
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
        assert!(begin.elapsed() < PATIENCE, "it reads without end");
    }
}

#[test]
fn a_client_that_does_not_read_is_not_read_from_and_closed_in_the_end() {
    let rig = Rig::new();
    let server = rig.start(&["--listen", "127.0.0.1:0", "--tcp-idle", "1s"]);
    let address = server.addresses[0];
    let flooded = flood(address, &query(1, "big.auth.test", TXT));
    // The server still serves others.
    assert_eq!(super::ask_by(&mut connect(address), &query(2, "www.auth.test", A)).answers(), 1);
    // The end comes after the bytes that the kernels hold, or breaks them off.
    flooded.set_nonblocking(false).unwrap();
    wait_until(|| connections_of(&server) == 0);
    drop(flooded);
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!(tcp.ended["slow-reader"], 1);
}

/// The number of connections that a server has open, by the system's tables.
fn connections_of(server: &super::Running) -> usize {
    let folder = format!("/proc/{}/fd", server.child.id());
    let descriptors = std::fs::read_dir(folder).unwrap().flatten();
    let sockets: Vec<String> = descriptors
        .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .filter_map(|target| Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let is_open = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // 01 is established, 08 waits for us to close (tcp_states.h).
        ["01", "08"].contains(&fields[3]) && sockets.iter().any(|inode| inode == fields[9])
    };
    table.lines().skip(1).filter(is_open).count()
}

pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
}
