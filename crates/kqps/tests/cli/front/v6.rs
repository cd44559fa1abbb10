//! IPv6, and IPv4-mapped IPv6 addresses, from clients and to back ends.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, ExitStatus};

use kqps_skips::{Capability, skip};

use super::{asked, front, stop};
use crate::auth::dns::{A, TXT, ask, ask_by, connect, query, query_edns};
use crate::auth::{Rig, replies_in_short};
use crate::serve::PATIENCE;

#[test]
fn back_ends_are_reached_by_ipv6_and_by_ipv4_written_so() {
    let rig = Rig::new();
    for (listen, written) in
        [("[::1]:0", "[::1]"), ("127.0.0.1:0", "[::ffff:127.0.0.1]"), ("[::]:0", "[::1]")]
    {
        let authority = rig.start(&["--listen", listen, "--payload", "4096"]);
        let port = authority.addresses[0].port();
        for way in ["udp", "tcp"] {
            let url = format!("{way}://{written}:{port}");
            let server = front(&[&url], &["--listen", "[::1]:0", "--listen", "[::]:0"]);
            for ip in ["127.0.0.1", "::1", "::1"].into_iter().zip(&server.addresses) {
                let address = SocketAddr::new(ip.0.parse().unwrap(), ip.1.port());
                replies_in_short(address);
                let whole = ask_by(&mut connect(address), &query(1, "big.auth.test", TXT));
                assert_eq!((whole.answers(), whole.is_truncated()), (40, false), "{url}");
                assert_eq!(ask(address, &query_edns(2, "big.auth.test", TXT, 4096)).answers(), 40, "{url}");
            }
            let report = stop(server);
            assert!(asked(&report, &url) > 0 && report.back_ends[&url].downs == 0, "{report:?}");
        }
    }
}

/// Makes a device with the addresses `fe80::1` and `fe80::2` in a network of the test's own. Returns its
/// index.
fn link_of_our_own() -> Option<u32> {
    if !crate::serve::own_network() {
        return None;
    }
    for arguments in [
        "link add link0 type veth peer name link1",
        "link set link0 up",
        "link set link1 up",
        "address add fe80::1/64 dev link0 nodad",
        "address add fe80::2/64 dev link0 nodad",
    ] {
        let status = Command::new("ip").args(arguments.split(' ')).status();
        if !status.as_ref().is_ok_and(ExitStatus::success) {
            skip(Capability::Networks, format!("`ip {arguments}` (of iproute2) fails: {status:?}"));
            return None;
        }
    }
    // Each line has an address, its interface's index in hexadecimal, and at its end the interface's name.
    let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
    let line = table.lines().find(|line| line.ends_with("link0")).unwrap();
    Some(u32::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap())
}

/// A link-local address means nothing without its link (RFC 4007, section 11).
#[test]
fn an_address_of_a_link_comes_with_its_link() {
    let Some(link) = link_of_our_own() else { return };
    let rig = Rig::new();
    let at_link = format!("[fe80::1%{link}]:0");
    let authority = rig.start(&["--listen", &at_link]);
    let port = authority.addresses[0].port();
    for way in ["udp", "tcp"] {
        let url = format!("{way}://[fe80::1%{link}]:{port}");
        for listen in [&*at_link, "[::]:0"] {
            let server = front(&[&url], &["--listen", listen]);
            let client = UdpSocket::bind(format!("[fe80::2%{link}]:0")).unwrap();
            let port = server.addresses[1].port();
            client.connect(format!("[fe80::1%{link}]:{port}")).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.send(&query(3, "www.auth.test", A)).unwrap();
            let mut buffer = [0; 512];
            client.recv(&mut buffer).unwrap();
            assert_eq!((buffer[1], buffer[7]), (3, 1), "{url} by {listen}");
            let by_tcp = ask_by(&mut connect(client.peer_addr().unwrap()), &query(4, "www.auth.test", A));
            assert_eq!(by_tcp.answers(), 1, "{url} by {listen}");
            let report = stop(server);
            assert_eq!(asked(&report, &url), 2, "{report:?}");
        }
    }
}
