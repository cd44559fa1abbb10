//! Whole zones by AXFR (RFC 5936).

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;

use kqps_kernel::process::Signal;
use kqps_skips::{Capability, skip};

use super::dns::{A, AXFR, Reply, SOA, ask, connect, framed, next, query};
use super::{NOERROR, REFUSED, Rig, ZONE};

/// The zone with `hosts` more hosts.
fn zone_with(hosts: u32) -> String {
    let mut zone = ZONE.to_owned();
    for host in 0..hosts {
        writeln!(zone, "host{host} A 10.{}.{}.{}", host >> 16, host >> 8 & 255, host & 255).unwrap();
    }
    zone
}

/// The number of records of `ZONE`.
const RECORDS: u32 = 8;

#[test]
fn a_zone_comes_as_many_messages_and_other_answers_between_them() {
    const HOSTS: u32 = 50_000;
    let rig = Rig::new();
    rig.write(&zone_with(HOSTS));
    let server = rig.start(&["--listen", "127.0.0.1:0", "--transfers"]);
    let mut stream = connect(server.addresses[0]);
    let asked = [query(7, "auth.test", AXFR), query(8, "www.auth.test", A)];
    stream.write_all(&asked.map(|query| framed(&query)).concat()).unwrap();
    let (mut records, mut messages, mut overtook) = (0, 0, false);
    let mut soas = 0;
    while soas < 2 {
        let reply = next(&mut stream);
        assert_eq!(reply.rcode(), NOERROR);
        if reply.id() == 8 {
            overtook = true;
            continue;
        }
        let types = reply.records();
        soas += types.iter().filter(|(rtype, _)| *rtype == SOA).count();
        records += types.len() as u32;
        messages += 1;
    }
    assert_eq!(records, RECORDS + HOSTS + 1);
    assert!(messages > 10, "{messages} messages");
    assert!(overtook, "a short answer does not wait for a long one");

    let output = Command::new("kdig")
        .args([
            "@127.0.0.1",
            "-p",
            &server.addresses[0].port().to_string(),
            "auth.test",
            "AXFR",
            "+noall",
            "+answer",
        ])
        .output();
    match output {
        Ok(output) => {
            let lines = String::from_utf8(output.stdout).unwrap();
            let count = lines.lines().filter(|line| line.contains("\tIN\t")).count() as u32;
            assert_eq!(count, RECORDS + HOSTS + 1);
        }
        Err(error) => skip(Capability::Programs, format!("kdig ({error}): apt-get install knot-dnsutils")),
    }
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert!(tcp.transfers >= 1 && tcp.received == tcp.answered + tcp.transfers, "{tcp:?}");
}

#[test]
fn a_zone_is_refused_to_those_who_may_not_have_it() {
    let rig = Rig::new();
    let server = rig.start(&["--listen", "127.0.0.1:0"]);
    let axfr = query(1, "auth.test", AXFR);
    assert_eq!(super::ask_by(&mut connect(server.addresses[0]), &axfr).rcode(), REFUSED);
    // There are no transfers over UDP, and the client gets an error.
    let Reply(by_udp) = ask(server.addresses[0], &axfr);
    assert_ne!(by_udp[3] & 0x0f, NOERROR);
}

/// Resident memory of a process, bytes.
fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn transfers_that_are_not_read_take_little_memory() {
    const CONNECTIONS: u64 = 25;
    let rig = Rig::new();
    // Each transfer would take some 5 MB if the server built it as a whole.
    rig.write(&zone_with(200_000));
    let server = rig.start(&["--listen", "127.0.0.1:0", "--transfers", "--tcp-idle", "1m"]);
    let before = resident_bytes(server.child.id());
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| connect(server.addresses[0])).collect();
    for stream in &mut streams {
        stream.write_all(&framed(&query(1, "auth.test", AXFR))).unwrap();
        // The transfer has begun.
        assert_eq!(next(stream).rcode(), NOERROR);
    }
    assert_eq!(ask(server.addresses[0], &query(2, "www.auth.test", A)).answers(), 1);
    let each = (resident_bytes(server.child.id()).saturating_sub(before)) / CONNECTIONS;
    assert!(each < 400_000, "{each} bytes a connection");
}
