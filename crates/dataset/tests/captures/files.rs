//! Captures as files: damaged, empty, from a pipe, and in the cache.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kqps_dataset::{Check, Dataset, Format};

use super::bench::{Bench, MS, START_NS, asked, capture, captured, end, facts, labels, query, response};

/// A capture of everything: clients, responses, connections, and packets out of order.
fn mixed() -> Vec<u8> {
    let server = end("198.51.100.1:53");
    capture(|writer| {
        for index in 0..3000_u64 {
            let at_ns = START_NS + (index ^ 3) * MS;
            let client = end(&format!("192.0.{}.{}:{}", index % 7, index % 50, 1000 + index % 9));
            let asked = query(index as u16, &format!("name{}", index % 100));
            let answer = response(&asked, [0x84, (index % 6) as u8], (index % 3) as u8);
            if index % 5 == 0 {
                writer.tcp_query(at_ns, client, server, &asked, Some((at_ns + MS, &answer[..])))?;
            } else {
                writer.udp(at_ns, client, server, &asked)?;
                writer.udp(at_ns + MS, server, client, &answer)?;
            }
        }
        Ok(())
    })
}

#[test]
fn the_same_capture_gives_the_same_bytes() {
    let traffic = mixed();
    let encoded = || {
        let bench = Bench::new();
        let dataset = bench.open(&traffic).expect("a capture");
        assert_eq!(facts(&dataset).queries, 3000);
        fs::read(bench.cached().remove(0)).expect("the encoded form")
    };
    assert_eq!(encoded(), encoded());
}

#[test]
fn an_encoded_capture_is_made_once() {
    let (bench, traffic) = (Bench::new(), mixed());
    let first = bench.open(&traffic).expect("a capture");
    let kept = bench.cached();
    let inode = || fs::metadata(&kept[0]).expect("a file").ino();
    let before = inode();
    let again = bench.open(&traffic).expect("a capture");
    assert_eq!((bench.cached().len(), inode()), (1, before));
    assert_eq!((first.capture(), captured(&first)), (again.capture(), captured(&again)));
    assert_eq!((again.check(), again.note()), (Check::Off, None));
    assert!(first.iter().eq(again.iter()));
}

#[test]
fn a_damaged_encoded_capture_is_made_again() {
    let bench = Bench::new();
    let traffic = asked(&[(0, "a"), (MS, "b")]);
    bench.open(&traffic).expect("a capture");
    let kept = bench.cached().remove(0);
    let whole = fs::read(&kept).expect("the file");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&kept, bytes).expect("damage");
        assert_eq!(labels(&bench.open(&traffic).expect("a capture")), ["a", "b"], "{at}");
        assert_eq!(fs::read(&kept).expect("the file"), whole, "{at}");
    }
}

#[test]
fn a_capture_from_a_pipe_is_read_once() {
    let (bench, traffic) = (Bench::new(), mixed());
    let from_file = bench.open(&traffic).expect("a capture");
    let file = File::open(bench.path()).expect("the capture");
    let mut child = Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().expect("cat runs");
    let pipe = child.stdout.take().expect("its output");
    let path = PathBuf::from(format!("/proc/self/fd/{}", pipe.as_raw_fd()));
    let piped = Bench::new();
    let from_pipe = Dataset::open(&path, &piped.options).expect("a capture");
    assert_eq!(from_pipe.hash(), from_file.hash());
    assert_eq!(from_pipe.capture(), from_file.capture());
    let encoded = |bench: &Bench| fs::read(bench.cached().remove(0)).expect("the encoded form");
    assert!(encoded(&piped) == encoded(&bench), "the same bytes");
    child.wait().expect("cat ends");
}

#[test]
fn a_cut_capture_is_an_error_with_its_place() {
    let bench = Bench::new();
    let traffic = asked(&[(0, "a"), (MS, "b")]);
    for bytes in [traffic.len() - 1, traffic.len() - 30, 30] {
        let refused = bench.refused(&traffic[..bytes]);
        assert!(refused.starts_with(": ") && refused.contains("byte"), "{bytes}: {refused}");
    }
    let cached = fs::read_dir(bench.options.cache_dir.as_deref().expect("a cache")).expect("the cache");
    assert_eq!(cached.count(), 0, "nothing is kept of what failed");
}

#[test]
fn a_capture_without_queries_says_what_it_has() {
    let (client, server) = (end("192.0.2.1:1000"), end("198.51.100.1:53"));
    let answer = response(&query(1, "a"), [0x84, 0], 1);
    let traffic = capture(|writer| {
        writer.udp(START_NS, server, client, &answer)?;
        writer.udp(START_NS + MS, client, end("198.51.100.1:123"), b"not DNS at all")
    });
    assert_eq!(
        Bench::new().refused(&traffic),
        " holds no query: 2 packets, 1 response, skipped: 1 other-port (port 123); name the servers' port by --captured-port"
    );
    let mut two_questions = query(1, "a");
    two_questions[5] = 2;
    let traffic = capture(|writer| writer.udp(START_NS, client, server, &two_questions));
    assert_eq!(
        Bench::new().refused(&traffic),
        " holds no query: 1 packet, 0 responses, skipped: 1 bad-message"
    );
    assert_eq!(Bench::new().refused(&capture(|_| Ok(()))), " holds no query: 0 packets, 0 responses");
}

#[test]
fn the_first_bytes_say_what_a_file_is_unless_the_options_do() {
    let as_capture = Bench::with(|options| options.format = Format::Capture);
    assert_eq!(labels(&as_capture.open(&asked(&[(0, "a")])).expect("a capture")), ["a"]);
    assert!(as_capture.refused(b"www.test A\n").contains("not a capture"));
    let as_text = Bench::with(|options| options.format = Format::Text);
    assert!(as_text.refused(&asked(&[(0, "a")])).starts_with(":1:"), "a bad line");
    let text = Bench::new().open(b"www.test A NXDOMAIN\n").expect("a query file");
    assert_eq!((text.capture(), text.check()), (None, Check::Rcode));
}
