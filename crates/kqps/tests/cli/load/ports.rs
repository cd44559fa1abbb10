//! Loads over UDP for whose sockets there are not enough ports.

use kqps_skips::{Capability, skip};

use super::bench::{Bench, words};
use super::status::in_a_namespace;

/// A network whose addresses have four ports each.
const FOUR_PORTS: &str = "ip link set lo up && echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range";

#[test]
fn sockets_without_a_port_are_an_error_that_says_what_to_do() {
    let bench = Bench::new();
    let range = "and each address has 4 ports (net.ipv4.ip_local_port_range); send from";
    let or = "source addresses at least (-a 127.1.0.0/16), or use fewer sockets (-c)";
    for (flags, expected) in [
        (&["-c", "9"][..], format!("cannot bind 9 sockets: no port is free at 0.0.0.0, {range} 3 {or}")),
        (
            &["-c", "9", "-a", "127.1.0.0/31"],
            format!("cannot bind 9 sockets: no port is free at 127.1.0.0, {range} 3 {or}"),
        ),
        (&["-c", "9", "-a", "127.1.0.0/29"], String::new()),
        (&["-c", "4"], String::new()),
    ] {
        let Some(output) = in_a_namespace(&bench, FOUR_PORTS, "127.0.0.1", flags) else { return };
        let (out, err) = words(&output);
        if err.contains("ip_local_port_range: ") {
            return skip(Capability::Networks, format!("the ports of a network cannot be limited: {err}"));
        }
        assert_eq!(output.status.code(), Some(1), "nothing listens there: {out}{err}");
        if expected.is_empty() {
            assert!(!err.contains("cannot bind") && out.contains("Nothing listens"), "{out}{err}");
        } else {
            assert_eq!((out.as_str(), err.trim_end()), ("", &*format!("kqps: {expected}")));
        }
    }
}
