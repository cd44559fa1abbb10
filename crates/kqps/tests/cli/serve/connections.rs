//! The echo over TCP: whole messages come back, wherever they are cut and joined, and are counted.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use kqps_kernel::process::Signal;

use super::running::{Running, serve};
use crate::auth::connections::{ask_cut_and_joined, is_closed};
use crate::auth::dns::{A, Reply, ask, ask_by, connect, framed, next, query};

/// The echo of a query: the same bytes, with QR set.
fn echo(query: &[u8]) -> Reply {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    Reply(reply)
}

fn assert_all_echoed(stream: &mut TcpStream, count: u16) {
    for id in 0..count {
        assert_eq!(next(stream), echo(&query(id, "www.auth.test", A)));
    }
}

#[test]
fn an_echo_answers_on_connections_too() {
    for workers in [&["--threads", "2"][..], &["--processes", "2"]] {
        let server = Running::start(&[&["--listen", "127.0.0.1:0", "--tcp"], workers].concat());
        let mut stream = connect(server.addresses[0]);
        ask_cut_and_joined(&mut stream, 1000, assert_all_echoed);
        // The longest message. UDP carries no such query.
        let mut longest = query(7, "www.auth.test", A);
        longest.resize(65_535, 0);
        assert_eq!(ask_by(&mut stream, &longest), echo(&longest));
        // A response gets no reply, and the connection goes on.
        stream.write_all(&framed(&echo(&longest).0[..12])).unwrap();
        assert_eq!(ask_by(&mut stream, &query(8, "a.test", A)), echo(&query(8, "a.test", A)));
        drop(stream);
        let tcp = server.stop(Signal::Terminate).tcp.unwrap();
        assert_eq!((tcp.connections, tcp.received, tcp.answered), (1, 1506, 1505));
        assert_eq!(tcp.dropped, [("is-response".to_owned(), 1)].into());
    }
}

#[test]
fn each_worker_can_have_a_listening_socket_of_its_own() {
    const CONNECTIONS: u64 = 40;
    for workers in [&["--threads", "2"][..], &["--processes", "2"], &["--processes", "2", "--threads", "2"]] {
        let flags = ["--listen", "127.0.0.1:0", "--listen", "[::1]:0", "--tcp", "--listeners", "reuseport"];
        let server = Running::start(&[&flags[..], workers].concat());
        let mut streams: Vec<TcpStream> = server
            .addresses
            .iter()
            .cycle()
            .take(CONNECTIONS as usize)
            .map(|address| connect(*address))
            .collect();
        for (id, stream) in (0..).zip(&mut streams) {
            let query = query(id, "www.auth.test", A);
            assert_eq!(ask_by(stream, &query), echo(&query));
        }
        let tcp = server.stop(Signal::Terminate).tcp.unwrap();
        assert_eq!((tcp.connections, tcp.received, tcp.answered), (CONNECTIONS, CONNECTIONS, CONNECTIONS));
        assert_eq!(tcp.ended, [("stopped".to_owned(), CONNECTIONS)].into());
    }
}

#[test]
fn flags_about_connections_need_connections() {
    for (flags, said) in [
        (["--listeners", "reuseport"], "--listeners is about connections, and this server accepts none"),
        (["--tcp-idle", "1m"], "--tcp-idle is about connections: it needs --tcp"),
    ] {
        let output = serve(&["--listen", "127.0.0.1:0"]).args(flags).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(said), "{error}");
    }
}

/// The addresses of a kind in the line of a server that can answer.
pub(super) fn addresses(server: &Running, kind: &str) -> Vec<SocketAddr> {
    serde_json::from_value(server.ready[kind].clone()).unwrap()
}

#[test]
fn each_worker_can_have_a_port_of_its_own() {
    let asked = query(1, "www.auth.test", A);
    for workers in [["--threads", "2"], ["--processes", "2"]] {
        let apart = ["--listen", "tcp://127.0.0.1:0", "--listeners", "port-each"];
        let beside =
            ["--listen", "127.0.0.1:0", "--tcp", "--sockets", "port-each", "--listeners", "port-each"];
        for (flags, kind) in [(&apart[..], "tcp"), (&beside, "addresses")] {
            let server = Running::start(&[flags, &workers].concat());
            let addresses = addresses(&server, kind);
            assert!(addresses.len() == 2 && addresses[0].port() != addresses[1].port(), "{addresses:?}");
            for address in addresses {
                assert_eq!(ask_by(&mut connect(address), &asked), echo(&asked));
            }
            assert_eq!(server.stop(Signal::Terminate).tcp.unwrap().answered, 2);
        }
    }
}

#[test]
fn without_the_flag_an_echo_takes_no_connections() {
    let server = Running::start(&["--listen", "127.0.0.1:0"]);
    assert!(TcpStream::connect(server.addresses[0]).is_err());
    assert!(server.stop(Signal::Terminate).tcp.is_none());
}

#[test]
fn a_client_has_as_many_connections_as_it_may() {
    let limits = ["--tcp", "--tcp-per-client", "2", "--tcp-idle", "1m"];
    let server = Running::start(&[&["--listen", "127.0.0.1:0"], &limits[..]].concat());
    let mut streams: Vec<TcpStream> = (0..3).map(|_| connect(server.addresses[0])).collect();
    assert!(is_closed(&mut streams[2]));
    for stream in &mut streams[..2] {
        assert_eq!(ask_by(stream, &query(1, "a.test", A)), echo(&query(1, "a.test", A)));
    }
}

#[test]
fn a_scheme_says_what_a_server_takes_at_an_address() {
    let asked = query(1, "www.auth.test", A);
    let own = ["--threads", "2", "--listeners", "reuseport"];
    for workers in [&["--threads", "2"][..], &own, &["--processes", "2"]] {
        let listen = ["--listen", "tcp://127.0.0.1:0", "--listen", "tcp://[::1]:0"];
        let server = Running::start(&[&listen[..], workers].concat());
        assert!(server.addresses.is_empty(), "no socket takes datagrams");
        let at = addresses(&server, "tcp");
        assert_eq!(at.len(), 2);
        for address in at {
            assert_eq!(ask_by(&mut connect(address), &asked), echo(&asked));
        }
        let report = server.stop(Signal::Terminate);
        assert_eq!((report.received, report.workers.len()), (0, 0));
        assert_eq!(report.tcp.unwrap().answered, 2);
    }
    let server = Running::start(&["--listen", "udp://127.0.0.1:0", "--listen", "127.0.0.1:0", "--tcp"]);
    assert!(server.addresses.iter().all(|address| ask(*address, &asked) == echo(&asked)));
    assert!(TcpStream::connect(server.addresses[0]).is_err());
    assert_eq!(ask_by(&mut connect(server.addresses[1]), &asked), echo(&asked));
    let report = server.stop(Signal::Terminate);
    assert_eq!((report.answered, report.tcp.unwrap().answered), (2, 1));
    let front = ["serve", "front", "--backend", "udp://127.0.0.1:1", "--listen", "tcp://127.0.0.1:0"];
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kqps")).args(front).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("a front takes connections by TCP"), "{error}");
}
