//! `kdig` and `dig` at our server, over each transport that they have.

use std::process::Command;

use kqps_kernel::process::Signal;
use kqps_skips::{Capability, skip};

use super::Rig;
use crate::serve::running::Running;

/// The clients, each with its Debian package.
const CLIENTS: [(&str, &str); 2] = [("kdig", "knot-dnsutils"), ("dig", "bind9-dnsutils")];

/// The flags of a client for each transport. UDP is the usual one, and `+notcp` would keep kdig from asking again.
const TRANSPORTS: [(&str, &str); 3] = [("udp", "+noignore"), ("tcp", "+tcp"), ("tls", "+tls")];

/// The records in a client's answer, sorted; an error if it cannot be started.
fn lines(client: &str, port: u16, flag: &str, question: [&str; 2]) -> std::io::Result<Vec<String>> {
    let mut command = Command::new(client);
    command.args(["@127.0.0.1", "-p", &port.to_string(), "+short", flag]).args(question);
    let output = command.output()?;
    let words = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{client} {flag}: {words}{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<String> =
        words.lines().filter(|line| !line.is_empty() && !line.starts_with(';')).map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

#[test]
fn clients_of_others_get_the_same_answers_over_each_transport() {
    let rig = Rig::new();
    let server: Running = rig.start(&["--listen", "127.0.0.1:0", "--listen", "tls://127.0.0.1:0"]);
    let tls: std::net::SocketAddr = server.ready["tls"][0].as_str().unwrap().parse().unwrap();
    let mut asked_in_tls = 0;
    for (client, package) in CLIENTS {
        for (transport, flag) in TRANSPORTS {
            let port = if transport == "tls" { tls.port() } else { server.addresses[0].port() };
            let alias = match lines(client, port, flag, ["alias.auth.test", "A"]) {
                Ok(lines) => lines,
                Err(error) => {
                    skip(Capability::Programs, format!("{client} ({error}): apt-get install {package}"));
                    break;
                }
            };
            assert_eq!(alias, ["192.0.2.80", "www.auth.test."], "{client} {flag}");
            // Too long for UDP, after which clients ask again over TCP.
            let texts = lines(client, port, flag, ["big.auth.test", "TXT"]).unwrap();
            assert_eq!(texts.len(), 40, "{client} {flag}");
            assert_eq!(texts[0], "\"text number 00000000\"", "{client} {flag}");
            assert!(
                lines(client, port, flag, ["nothing.auth.test", "A"]).unwrap().is_empty(),
                "{client} {flag}"
            );
            asked_in_tls += 3 * u64::from(transport == "tls");
        }
    }
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!(tcp.handshakes.values().sum::<u64>(), asked_in_tls, "{tcp:?}");
    assert!(tcp.received >= asked_in_tls && tcp.received == tcp.answered, "{tcp:?}");
}
