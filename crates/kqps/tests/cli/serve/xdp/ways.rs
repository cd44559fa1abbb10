//! Servers past the kernel at addresses of IPv6 and of a VLAN.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use kqps_kernel::process::Signal;
use kqps_skips::{Capability, skip};
use serde_json::Value;

use super::super::sent::{query, reply};
use super::{Pair, ask};

const QUERIES: u16 = 50;

/// Runs lines of shell at both ends, in which `{end}` is 1 at the near end and 2 at the far end.
fn at_both(pair: &Pair, lines: &str) -> Result<(), String> {
    pair.shell(false, &lines.replace("{end}", "1"))?;
    pair.shell(true, &lines.replace("{end}", "2"))
}

#[test]
fn over_ipv6_frames_are_answered_in_place() {
    if !Path::new("/proc/sys/net/ipv6").exists() {
        skip(Capability::Ipv6, "servers past the kernel: this host has no IPv6");
        return;
    }
    let Some(pair) = Pair::new(1) else { return };
    let addresses = "echo 0 > /proc/sys/net/ipv6/conf/kqps0/disable_ipv6\n\
                     ip addr add 2001:db8::{end}/64 dev kqps0 nodad";
    at_both(&pair, addresses).unwrap();
    let (near, far): (IpAddr, SocketAddr) =
        ("2001:db8::1".parse().unwrap(), "[2001:db8::2]:5300".parse().unwrap());
    let server = pair.serve_at("echo", far, &["--io", "xdp"]);
    let flow = pair.flow_between(near, far);
    for id in 0..QUERIES {
        assert_eq!(ask(&flow, &query(id)), reply(id));
    }
    let report = server.stop(Signal::Terminate);
    let all = u64::from(QUERIES);
    assert_eq!((report.received, report.answered), (all, all));
    let xdp = report.xdp.unwrap();
    assert_eq!((xdp.matched, xdp.read, xdp.by_kernel), (all, all, 0), "{xdp:?}");
}

#[test]
fn in_a_vlan_frames_with_its_tag_are_answered_in_place() {
    let Some(pair) = Pair::new(1) else { return };
    let vlan = "ip link add link kqps0 name kqps0.7 type vlan id 7\n\
                ip addr add 198.18.7.{end}/24 dev kqps0.7\nip link set kqps0.7 up";
    if let Err(reason) = at_both(&pair, vlan) {
        skip(Capability::Vlans, format!("a VLAN over a veth pair: {reason}"));
        return;
    }
    let (near, far): (IpAddr, SocketAddr) =
        ("198.18.7.1".parse().unwrap(), "198.18.7.2:5300".parse().unwrap());
    let server = pair.serve_at("echo", far, &["--io", "xdp"]);
    // An ordinary sender's kernel leaves the tag beside the frame, and veth keeps it there. So this query comes by the
    // kernel, as with a card that takes tags out of frames.
    assert_eq!(ask(&pair.flow_between(near, far), &query(1)), reply(1));
    // The player writes the tag into its frames, and gets it back in those of the server.
    let trial = played(&pair, far);
    let accounts = &trial["accounts"];
    let counts = ["sent", "correct", "unsolicited"].map(|name| accounts[name].as_u64());
    assert_eq!(counts, [Some(QUERIES.into()), Some(QUERIES.into()), Some(0)], "{accounts}");
    let report = server.stop(Signal::Terminate);
    let by_frames = u64::from(QUERIES);
    assert_eq!((report.received, report.answered), (by_frames + 1, by_frames + 1));
    let xdp = report.xdp.unwrap();
    assert_eq!((xdp.matched, xdp.read, xdp.by_kernel), (by_frames, by_frames, 1), "{xdp:?}");
}

/// The record of a player past the kernel at the near end.
fn played(pair: &Pair, target: SocketAddr) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries");
    std::fs::write(&file, "a.test A\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(["load", &target.to_string(), "--io", "xdp", "-q", "8", "-n", &QUERIES.to_string()]);
    command.args(["-t", "5s", "--json", "-d"]).arg(&file).stdin(Stdio::null()).stderr(Stdio::piped());
    pair.path.place_player(&mut command).unwrap();
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}
