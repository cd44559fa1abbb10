//! DNS over TLS and over HTTPS, beside dnsperf, at kqps's own echo.

use std::net::TcpListener;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use rustls::server::Acceptor;

use super::both::Both;
use super::shape;
use crate::load::bench::words;
use crate::load::encrypted;

#[test]
fn both_play_over_tls_and_https() {
    let Some(both) = Both::new() else { return };
    for (scheme, flags) in [
        ("tls", "-m dot"),
        ("tls", "-m dot -c 2 -q 10 -n 2"),
        // With more streams Debian's 2.10 misses replies that come together.
        ("https", "-m doh -q 1"),
        ("https", "-m doh -q 1 -O doh-method=POST -O doh-uri=https://localhost/dns-query"),
    ] {
        let (_server, url, _) = encrypted::server(scheme, &[]);
        let port = url.rsplit_once(':').unwrap().1;
        let line = format!("-s 127.0.0.1 -p {port} -d queries -t 2 {flags}");
        let [theirs, ours] = [true, false].map(|is_theirs| both.command(is_theirs, &line).output().unwrap());
        assert_eq!((ours.status.code(), theirs.status.code()), (Some(0), Some(0)), "{flags}");
        let (theirs, (ours, err)) = (words(&theirs).0, words(&ours));
        assert_eq!(shape::lines(&ours), shape::lines(&theirs), "{flags}\n{ours}\n{err}\n{theirs}");
        assert!(ours.contains("Queries lost:         0 (0.00%)"), "{flags}\n{ours}\n{err}");
    }
}

/// A response with another status than 2xx completes no query.
#[test]
fn a_failed_response_of_https_is_counted_and_its_query_is_lost() {
    let Some(both) = Both::new() else { return };
    both.write("few", "a.test A\nb.test A\n");
    let (_server, url, _) = encrypted::server("https", &[]);
    let port = url.rsplit_once(':').unwrap().1;
    let flags = "-m doh -q 1 -t 0.3 -O doh-uri=https://localhost/other";
    let line = format!("-s 127.0.0.1 -p {port} -d few {flags}");
    let [theirs, ours] =
        [true, false].map(|is_theirs| words(&both.command(is_theirs, &line).output().unwrap()).0);
    // dnsperf counts the statuses of responses with a body alone.
    let lines = |out: &str| {
        let all = shape::lines(out).into_iter();
        all.filter(|line| !line.starts_with("  HTTP/2 return codes:")).collect::<Vec<_>>()
    };
    assert_eq!(lines(&ours), lines(&theirs), "{ours}\n{theirs}");
    for wanted in [
        "Queries completed:    0 (0.00%)",
        "Queries lost:         2 (100.00%)",
        "HTTP/2 return codes:  404: 2",
    ] {
        assert!(ours.contains(wanted), "{wanted}: {ours}");
    }
    let shown = words(&both.command(false, &format!("{line} -v")).output().unwrap()).0;
    assert_eq!(shown.lines().filter(|line| line.starts_with("> T ")).count(), 2, "{shown}");
}

/// The name in the first message of TLS that a program sends, which gets no answer.
fn sni_of(both: &Both, is_theirs: bool, flags: &str) -> Option<String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = both.command(is_theirs, &format!("-p {port} -d queries -m dot -l 10 {flags}"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if child.try_wait().unwrap().is_none() => sleep(Duration::from_millis(5)),
            Err(error) => panic!("it ended without a connection: {error}"),
        }
    };
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut acceptor = Acceptor::default();
    let accepted = loop {
        assert!(acceptor.read_tls(&mut stream).unwrap() > 0, "it sent no whole message");
        if let Some(accepted) = acceptor.accept().map_err(|(error, _)| error).unwrap() {
            break accepted;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    accepted.client_hello().server_name().map(str::to_owned)
}

#[test]
fn the_name_of_tls_is_the_one_of_the_option() {
    let Some(both) = Both::new() else { return };
    for (flags, name) in
        [("-f inet -s localhost", None), ("-s 127.0.0.1 -O tls-sni=dns.example", Some("dns.example"))]
    {
        assert_eq!(sni_of(&both, false, flags).as_deref(), name, "{flags}");
        if both.theirs.has_all(flags) {
            assert_eq!(sni_of(&both, true, flags).as_deref(), name, "{flags}");
        }
    }
}
