//! Unix sockets: batches as a front process writes them, peers that misbehave, and the socket files.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use kqps_kernel::process::Signal;
use socket2::{Domain, SockAddr, Socket, Type};

use super::connections::{IDLE, IDLE_LEAST, assert_all_answered, is_closed, many};
use super::dns::{A, TXT, ask, ask_by, connect, framed, next, query};
use super::{PATIENCE, Rig, Running, WORKERS, curious, questions, refused};

const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

impl Rig {
    fn socket(&self) -> PathBuf {
        self.folder.path().join("batches")
    }

    pub(super) fn start_with_socket(&self, arguments: &[&str]) -> Running {
        let path = self.socket();
        let server = self.start(&[&LISTEN, &["--unix", path.to_str().unwrap()], arguments].concat());
        assert_eq!(server.ready["unix"], serde_json::json!([path]));
        server
    }

    pub(super) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Starts a server that cannot bind the socket. Returns its status and stderr.
    fn refused_socket(&self) -> (Option<i32>, String) {
        let (zone, path) = (self.argument(), self.socket());
        refused(&[&LISTEN[..], &["--zone", &zone, "--unix", path.to_str().unwrap()]].concat())
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

#[test]
fn a_batch_comes_back_complete_and_is_answered_as_by_tcp() {
    let rig = Rig::new();
    for workers in WORKERS {
        let server = rig.start_with_socket(workers);
        assert!(is_socket(&rig.socket()));
        let mut tcp = connect(server.addresses[0]);
        let mut asked = questions();
        asked.push((query(10, "big.auth.test", TXT), 0, 40));
        let expected: Vec<_> = asked.iter().map(|(query, ..)| ask_by(&mut tcp, query)).collect();
        let batch: Vec<u8> = asked.iter().cycle().take(500).flat_map(|(query, ..)| framed(query)).collect();
        let mut stream = rig.connect();
        stream.write_all(&batch).unwrap();
        for expected in expected.iter().cycle().take(500) {
            assert_eq!(&next(&mut stream), expected, "{workers:?}");
        }
        let report = server.stop(Signal::Terminate).tcp.unwrap();
        assert_eq!((report.connections, report.received, report.answered), (2, 510, 510));
        assert!(!rig.socket().exists());
    }
}

/// More replies than the kernel buffers, to a client that reads late. The server does not wait for it.
#[test]
fn replies_that_find_no_room_are_written_later() {
    let rig = Rig::new();
    let server = rig.start_with_socket(&[]);
    let mut late = rig.connect();
    let asked: Vec<u8> = (0..5000).flat_map(|id| framed(&query(id, "big.auth.test", TXT))).collect();
    let mut writer = late.try_clone().unwrap();
    let writes = std::thread::spawn(move || writer.write_all(&asked).unwrap());
    assert_eq!(ask_by(&mut rig.connect(), &query(1, "www.auth.test", A)).answers(), 1);
    for id in 0..5000 {
        let reply = next(&mut late);
        assert_eq!((reply.id(), reply.answers()), (id, 40));
    }
    writes.join().unwrap();
    // The server watches the connection again.
    late.write_all(&many(10)).unwrap();
    assert_all_answered(&mut late, 10);
    let report = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((report.received, report.answered), (5011, 5011));
}

#[test]
fn half_a_frame_ends_with_its_connection() {
    let rig = Rig::new();
    let server = rig.start_with_socket(&[]);
    let half = [&many(20)[..], &[0, 40, 1]].concat();
    let mut ended = rig.connect();
    ended.write_all(&half).unwrap();
    ended.shutdown(Shutdown::Write).unwrap();
    assert_all_answered(&mut ended, 20);
    assert!(is_closed(&mut ended));
    // Closed without an end of the query.
    let mut gone = rig.connect();
    gone.write_all(&half).unwrap();
    drop(gone);
    // Cut anywhere, and no DNS in the end.
    let mut cut = rig.connect();
    for piece in many(50).chunks(37) {
        cut.write_all(piece).unwrap();
    }
    cut.write_all(&[0, 11]).unwrap();
    cut.write_all(&[0; 11]).unwrap();
    assert_all_answered(&mut cut, 50);
    assert!(is_closed(&mut cut));
    let report = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((report.connections, report.ended["not-dns"]), (3, 1));
    assert_eq!(report.ended.values().sum::<u64>(), 3);
}

#[test]
fn one_peer_may_have_all_connections_and_each_its_time() {
    let rig = Rig::new();
    let limits = ["--tcp-per-client", "1", "--tcp-connections", "5", "--tcp-idle", IDLE];
    let server = rig.start_with_socket(&limits);
    let begin = Instant::now();
    let mut open: Vec<UnixStream> = (0..5).map(|_| rig.connect()).collect();
    for stream in &mut open {
        assert_eq!(ask_by(stream, &query(1, "www.auth.test", A)).answers(), 1);
    }
    // Half a query is no progress.
    open[0].write_all(&[0, 40, 1]).unwrap();
    assert!(open.iter_mut().all(is_closed));
    assert!(begin.elapsed() >= IDLE_LEAST, "{:?}", begin.elapsed());
    // The limits of TCP clients still hold.
    let mut tcp = connect(server.addresses[0]);
    assert_eq!(ask_by(&mut tcp, &query(2, "www.auth.test", A)).answers(), 1);
    assert!(is_closed(&mut connect(server.addresses[0])));
    let report = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((report.ended["idle"], report.ended["too-many-of-client"]), (5, 1));

    let server = rig.start_with_socket(&["--tcp-connections", "5", "--tcp-idle", "1m"]);
    let mut open: Vec<UnixStream> = Vec::new();
    for _ in 0..20 {
        open.push(rig.connect());
        assert_eq!(ask_by(open.last_mut().unwrap(), &query(1, "www.auth.test", A)).answers(), 1);
    }
    assert!(open[..15].iter_mut().all(is_closed));
    let report = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((report.ended["displaced"], report.ended["stopped"]), (15, 5));
}

#[test]
fn it_serves_without_tcp_and_with_cookies() {
    let rig = Rig::new();
    let second = rig.folder.path().join("second");
    let server = rig.start(
        &[
            &LISTEN[..],
            &["--no-tcp", "--tcp-idle", "1m", "--cookies", "--processes", "2"],
            &["--unix", rig.socket().to_str().unwrap(), "--unix", second.to_str().unwrap()],
        ]
        .concat(),
    );
    assert_eq!(server.ready["unix"], serde_json::json!([rig.socket(), second]));
    let address = server.addresses[0];
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(ask(address, &query(1, "www.auth.test", A)).answers(), 1);
    let by_second = &mut UnixStream::connect(&second).unwrap();
    for stream in [&mut rig.connect(), by_second] {
        // An option of 24 bytes that begins with the client's cookie.
        let cookie = [0, 10, 0, 24, 1, 2, 3, 4, 5, 6, 7, 8];
        let reply = ask_by(stream, &curious(2, "www.auth.test"));
        assert!(reply.0.windows(cookie.len()).any(|window| window == cookie), "{reply:?}");
    }
    assert_eq!(server.stop(Signal::Interrupt).tcp.unwrap().connections, 2);
    assert!(!rig.socket().exists() && !second.exists());
}

#[test]
fn the_file_of_a_server_that_is_gone_is_replaced() {
    let rig = Rig::new();
    drop(UnixListener::bind(rig.socket()).unwrap());
    assert!(is_socket(&rig.socket()));
    let mut server = rig.start_with_socket(&[]);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(is_socket(&rig.socket()));
    let server = rig.start_with_socket(&["--processes", "2"]);
    assert_eq!(ask_by(&mut rig.connect(), &query(1, "www.auth.test", A)).answers(), 1);
    // A socket that another program has put there meanwhile stays.
    fs::remove_file(rig.socket()).unwrap();
    let _other = UnixListener::bind(rig.socket()).unwrap();
    server.stop(Signal::Terminate);
    assert!(is_socket(&rig.socket()));
}

#[test]
fn a_socket_in_use_and_what_is_no_socket_stay() {
    let rig = Rig::new();
    let said = |why: &str| format!("kqps: cannot listen on {}: {why}", rig.socket().display());
    let server = rig.start_with_socket(&[]);
    let (status, error) = rig.refused_socket();
    assert!(status == Some(1) && error.starts_with(&said("another program listens there")), "{error}");
    assert_eq!(ask_by(&mut rig.connect(), &query(1, "www.auth.test", A)).answers(), 1);
    server.stop(Signal::Terminate);

    // A socket that accepts no connection and whose backlog is full.
    let deaf = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    deaf.bind(&SockAddr::unix(rig.socket()).unwrap()).unwrap();
    deaf.listen(0).unwrap();
    let _waiting = rig.connect();
    let (status, error) = rig.refused_socket();
    assert!(status == Some(1) && error.starts_with(&said("another program listens there")), "{error}");
    fs::remove_file(rig.socket()).unwrap();

    fs::write(rig.socket(), "precious").unwrap();
    let (status, error) = rig.refused_socket();
    assert!(status == Some(1) && error.starts_with(&said("a file that is not a socket is there")), "{error}");
    assert_eq!(fs::read_to_string(rig.socket()).unwrap(), "precious");
}

#[test]
fn a_server_that_cannot_start_leaves_no_file() {
    let rig = Rig::new();
    let (zone, path) = (rig.argument(), rig.socket());
    let [path, nowhere] = [path.clone(), path.join("below")].map(|path| path.to_str().unwrap().to_owned());
    let good = [&LISTEN[..], &["--zone", &zone, "--unix", &path]].concat();
    let (status, error) = refused(&[&good[..], &["--unix", &path]].concat());
    assert_eq!((status, &*error), (Some(2), &*format!("kqps: --unix {path} is given twice\n")));
    let (status, error) = refused(&[&good[..], &["--unix", &nowhere]].concat());
    assert!(status == Some(1) && error.contains(&format!("cannot listen on {nowhere}: ")), "{error}");
    assert!(!rig.socket().exists());
    // The socket is bound first, and then there is no zone to answer from.
    rig.write("$TTL 60\n@ SOA nonsense\n");
    for processes in ["1", "2"] {
        let (status, error) = refused(&[&good[..], &["--processes", processes]].concat());
        assert_eq!(status, Some(2), "{error}");
        assert!(!rig.socket().exists());
    }
}
