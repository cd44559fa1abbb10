//! Flags that a server refuses since they would have no effect, and addresses that meet: a sentence for each.

use super::refused_as;
use crate::load::bench::kqps;

/// Asserts that a server refuses these flags as wrong usage, with a sentence that ends or goes on like this.
fn refuses(kind: &str, flags: &[&str], said: &str) {
    let (status, error) = refused_as(kind, flags);
    assert_eq!(status, Some(2), "{flags:?}: {error}");
    assert!(error.starts_with(&format!("kqps: {said}")), "{flags:?}: {error}");
}

const NONE: &str = "is about datagrams, and this server takes connections alone: ";

#[test]
fn flags_about_datagrams_need_datagrams() {
    let leave = "leave it out, or add --listen ADDR:PORT or udp://ADDR[:PORT]";
    for listen in ["tcp://127.0.0.1:0", "tls://127.0.0.1:0", "https://127.0.0.1:0", "quic://127.0.0.1:0"] {
        let refuses = |flags: [&str; 2], said: &str| {
            refuses("echo", &[&["--listen", listen], &flags[..]].concat(), said);
        };
        for flags in [["--io", "uring"], ["--io", "xdp"], ["--reply", "own"], ["--device", "lo"]] {
            refuses(flags, &format!("{} {NONE}{leave}", flags[0]));
        }
        let instead = format!("--sockets {NONE}use --listeners, which is about connections");
        refuses(["--sockets", "port-each"], &instead);
        if listen != "quic://127.0.0.1:0" {
            refuses(["--buffer", "1MiB"], "--buffer is about datagrams and QUIC: ");
        }
        refuses(["--steer", "cpu"], "--steer cpu sends a flow to a worker on the core that receives it");
    }
    let zone = ["--zone", "none.zone", "--listen", "tls://127.0.0.1:0", "--payload", "512"];
    refuses("auth", &zone, &format!("--payload {NONE}"));
    let cache = ["--forward", "127.0.0.1:9", "--listen", "tls://127.0.0.1:0", "--payload", "512"];
    refuses("cache", &cache, &format!("--payload {NONE}"));
    let io = ["--forward", "127.0.0.1:9", "--listen", "tcp://127.0.0.1:0", "--io", "segment"];
    let apart =
        "its sockets to other servers use segments where the kernel can, whatever --io says: leave it out";
    refuses(
        "cache",
        &io,
        &format!("--io is about datagrams of clients, and this cache takes connections alone; {apart}"),
    );
}

#[test]
fn flags_about_connections_need_addresses_for_them() {
    let udp = ["--listen", "udp://127.0.0.1:0"];
    let with = |listen: &[&'static str], flags: &[&'static str]| [listen, flags].concat();
    refuses(
        "echo",
        &with(&udp, &["--tcp"]),
        "--tcp is about connections beside datagrams: it needs --listen",
    );
    let none = "is about connections, and this server accepts none";
    refuses("echo", &with(&udp, &["--listeners", "shared"]), &format!("--listeners {none}"));
    let zone = ["--zone", "none.zone"];
    let auth = with(&udp, &zone);
    refuses("auth", &with(&auth, &["--listeners", "reuseport"]), &format!("--listeners {none}"));
    let idle = ["--tcp-idle", "1m"];
    refuses(
        "auth",
        &with(&auth, &idle),
        "--tcp-idle is about connections: it needs --listen ADDR:PORT, --unix, or",
    );
    let apart = with(&zone, &["--listen", "tcp://127.0.0.1:0", "--no-tcp"]);
    refuses("auth", &apart, "--no-tcp: it is about addresses without a scheme");
    let front = with(&["--backend", "udp://127.0.0.1:9"], &udp);
    refuses(
        "front",
        &with(&front, &idle),
        "--tcp-idle is about connections: it needs --listen ADDR:PORT, or",
    );
}

#[test]
fn workers_share_or_have_sockets_that_suit_what_they_take() {
    let tls = ["--listen", "tls://127.0.0.1:0", "--cpus", "0", "--steer", "cpu"];
    let needs = "--steer chooses among sockets on one port: it needs";
    refuses(
        "echo",
        &[&tls[..], &["--listeners", "shared"]].concat(),
        &format!("{needs} --listeners reuseport"),
    );
    let beside = [&tls[..], &["--listen", "127.0.0.1:0"]].concat();
    refuses("echo", &beside, &format!("{needs} --sockets reuseport"));
    let plain = ["--listen", "127.0.0.1:0", "--tcp", "--threads", "2", "--listeners", "port-each"];
    refuses(
        "echo",
        &plain,
        "--listeners port-each: TCP has the ports of the datagrams beside it, so it needs",
    );
    let quic = ["--listen", "quic://127.0.0.1:0", "--processes", "2", "--listeners", "shared"];
    refuses(
        "echo",
        &quic,
        "--listeners shared: all packets of a connection over QUIC must reach one process: ",
    );
}

#[test]
fn two_addresses_that_meet_are_named() {
    let meets = |kind: &str, flags: &[&str], one: &str, other: &str| {
        let said = format!("--listen {one} and --listen {other} would both take port 5399");
        refuses(kind, &[flags, &["--listen", one, "--listen", other]].concat(), &said);
    };
    for scheme in ["tcp", "tls", "https", "quic"] {
        let address = format!("{scheme}://127.0.0.1:5399");
        let twice = format!("--listen {address} is given twice");
        refuses("echo", &["--listen", &address, "--listen", &address], &twice);
    }
    meets("echo", &[], "tcp://127.0.0.1:5399", "tls://127.0.0.1:5399");
    meets("echo", &[], "tls://0.0.0.0:5399", "https://127.0.0.1:5399");
    meets("echo", &[], "udp://127.0.0.1:5399", "quic://127.0.0.1:5399");
    meets("auth", &["--zone", "none.zone"], "127.0.0.1:5399", "tcp://127.0.0.1:5399");
    let each = ["--threads", "2", "--listeners", "port-each"];
    meets("echo", &each, "tcp://127.0.0.1:5398", "tls://127.0.0.1:5399");
}

#[test]
fn a_scheme_has_a_usual_port() {
    for (scheme, port) in [("udp", 53), ("tcp", 53), ("tls", 853), ("https", 443), ("quic", 853)] {
        // No other program has an address like this one. Without the right to such ports the error names it.
        let command = ["serve", "echo", "--for", "0s", "--listen", &format!("{scheme}://127.53.9.2")];
        let output = kqps(&command).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(said.contains(&format!("127.53.9.2:{port}")), "{said}");
    }
}

#[test]
fn a_front_offers_the_addresses_that_it_takes() {
    let help = |flag| String::from_utf8(kqps(&["serve", "front", flag]).output().unwrap().stdout).unwrap();
    for text in [help("-h"), help("--help")] {
        assert!(text.contains("or udp://ADDR[:PORT] for datagrams alone"), "{text}");
        for scheme in ["tls://", "https://", "quic://"] {
            assert!(!text.contains(scheme), "{scheme} in {text}");
        }
    }
}
