//! The flags of dnsperf: each works, or an error says what to write.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use kqps_observation::Trial;

use super::bench::{Bench, Echo, kqps, words};

/// The queries that a load sends until it ends by itself. The query file has 1,000.
fn intended(bench: &Bench, arguments: &[&str], stdin: Option<&[u8]>) -> Result<u64, String> {
    let mut load = kqps(&[&["load"], arguments, &["--json"]].concat());
    load.env("XDG_CACHE_HOME", bench.folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = load.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.unwrap_or_default()).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.code() {
        Some(0) => {
            let trial: Trial = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(trial.target, bench.echo.address);
            Ok(trial.accounts.intended)
        }
        Some(2) => Err(words(&output).1),
        status => panic!("{status:?}: {}", words(&output).1),
    }
}

#[test]
fn servers_ports_and_files_are_named_as_in_dnsperf() {
    let bench = Bench::new();
    let queries = bench.queries();
    let file = queries.to_str().unwrap();
    let (address, port) = bench.echo.address.split_once(':').unwrap();
    let text = std::fs::read(file).unwrap();
    for arguments in [
        &["-s", address, "-p", port, "-d", file, "-q", "20"][..],
        &["-s", address, "-p", port, "-d", file],
        &[address, port, "-d", file, "-q", "20"],
        &["-s", &bench.echo.address, "-d", file, "-m", "udp", "-f", "inet"],
        &["-s", "localhost", "-p", port, "-f", "inet", "-d", file],
        &[
            "-s", address, "-p", port, "-d", file, "-c", "8", "-T", "2", "-e", "-D", "-x", "0", "-t", "5",
            "-b", "32",
        ],
    ] {
        assert_eq!(intended(&bench, arguments, None), Ok(1000), "{arguments:?}");
    }
    for arguments in [&[address, port, "-q", "20"][..], &["-s", address, "-p", port, "-d", "-"]] {
        assert_eq!(intended(&bench, arguments, Some(&text)), Ok(1000), "{arguments:?}");
    }
    // Standard input is read by its descriptor. A socket has no name to open, and a file is read from its
    // current position.
    let trial = |stdin: OwnedFd| {
        let mut load = kqps(&["load", &bench.echo.address, "-q", "20", "-d", "-", "--json"]);
        let output = load.env("XDG_CACHE_HOME", bench.folder.path()).stdin(stdin).output().unwrap();
        let trial: Trial = serde_json::from_slice(&output.stdout).unwrap();
        trial.accounts.intended
    };
    let (ours, theirs) = UnixStream::pair().unwrap();
    (&ours).write_all(&text).unwrap();
    drop(ours);
    assert_eq!(trial(theirs.into()), 1000);
    let mut half_read = File::open(&queries).unwrap();
    let first_line = text.iter().position(|&byte| byte == b'\n').unwrap() as u64 + 1;
    half_read.seek(SeekFrom::Start(first_line)).unwrap();
    assert_eq!(trial(half_read.into()), 999);
    // A time limit alone means a closed loop with dnsperf's window.
    let trial = bench.trial(&["-l", "0.1"]);
    assert_eq!((trial.load.outstanding, trial.load.intended_qps), (Some(100), None));
    assert!(trial.load.duration_s >= 0.1);
}

#[test]
fn what_cannot_be_done_says_what_to_write() {
    let bench = Bench::new();
    let queries = bench.queries();
    let load = ["-s", &bench.echo.address, "-l", "1", "-d", queries.to_str().unwrap()];
    for (flags, wanted) in [
        (&["-m", "dnscrypt"][..], "expected udp, tcp, tls, https or quic"),
        (&["--io", "mmsg", "-m", "tcp"], "--io mmsg is for udp; over tcp it is one of auto, epoll, uring"),
        (&["--io", "epoll"], "--io epoll is for tcp, tls, https; over udp it is one of auto, plain"),
        (&["-x", "4000", "-m", "tcp", "--io", "xdp"], "-x has no effect on connections by xdp"),
        (&["--close", "rst"], "UDP has no connections"),
        (&["-c", "0", "-m", "tcp"], "expected"),
        (&["-v"], "--json prints all counts"),
        (&["-W"], "2>&1"),
        (&["-u", "-B"], "--binary"),
        (&["-y", "hmac-sha256:name:se cret"], "the secret is not base64"),
        (&["-y", "hmac-sha3:name:AAAA"], "is no algorithm"),
        (&["-E", "10"], "expected CODE:HEX"),
        (&["-O", "num-queries-per-conn=1"], "--queries-per-connection"),
        (&["-C", "3"], "-c"),
        (&["-X"], "--help"),
        (&["-f", "inet6"], "family"),
        (&["-b", "4096000"], "4096000B"),
        (&["-b", "0"], "above 0"),
        (&["-p", "53"], "leave one of them out"),
        (&["-p", "0"], "0"),
    ] {
        let error = intended(&bench, &[&load[..], flags].concat(), None).unwrap_err();
        assert!(
            error.contains(wanted) && error.contains(flags[0].trim_start_matches('-')),
            "{flags:?}: {error}"
        );
    }
    let nothing = intended(&bench, &["-s", &bench.echo.address], None).unwrap_err();
    assert!(nothing.contains("no -d FILE, so standard input was read"), "{nothing}");
}

#[test]
fn a_buffer_is_in_kib_and_a_small_one_is_warned_of() {
    let bench = Bench::new();
    for (size, is_small) in [("32", false), ("1MiB", false), ("4096B", true), ("4", true)] {
        let output = bench.load(&["-Q", "1k", "-n", "1", "-b", size]).output().unwrap();
        let (out, err) = words(&output);
        assert_eq!(output.status.code(), Some(0), "{err}");
        assert_eq!(err.contains("warning: -b: buffers of 4096 bytes"), is_small, "{size}: {err}");
        assert!(out.contains("Queries sent:         1000\n"), "{out}");
    }
    // Over TCP the server waits while a buffer is full.
    let bench = Bench::before(Echo::with(&["--tcp"]));
    let (out, err) = words(&bench.load(&["-m", "tcp", "-q", "20", "-n", "1", "-b", "4"]).output().unwrap());
    assert!(out.contains("Queries completed:    1000 ") && !err.contains("-b: buffers"), "{out}{err}");
}
