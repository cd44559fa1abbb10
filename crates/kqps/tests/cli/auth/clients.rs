//! `kdig`, `dig` and `curl` at our server, over each transport that they have.

use std::net::SocketAddr;
use std::process::Command;

use kqps_kernel::process::Signal;
use kqps_skips::{Capability, skip};

use super::Rig;
use super::dns::{A, Reply, TXT, ask_by, connect, query};
use crate::serve::https::base64url;
use crate::serve::running::Running;

/// The clients, each with its Debian package.
const CLIENTS: [(&str, &str); 2] = [("kdig", "knot-dnsutils"), ("dig", "bind9-dnsutils")];

/// The flags of a client for each transport. UDP is the usual one, and `+notcp` would keep kdig from asking again.
const TRANSPORTS: [(&str, &[&str]); 5] = [
    ("udp", &["+noignore"]),
    ("tcp", &["+tcp"]),
    ("tls", &["+tls"]),
    ("https", &["+https"]),
    ("https", &["+https", "+https-get"]),
];

/// The records in a client's answer, sorted; an error if it cannot be started.
fn lines(client: &str, port: u16, flags: &[&str], question: [&str; 2]) -> std::io::Result<Vec<String>> {
    let mut command = Command::new(client);
    command.args(["@127.0.0.1", "-p", &port.to_string(), "+short"]).args(flags).args(question);
    let output = command.output()?;
    let words = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{client} {flags:?}: {words}{errors}");
    let mut lines: Vec<String> =
        words.lines().filter(|line| !line.is_empty() && !line.starts_with(';')).map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

#[test]
fn clients_of_others_get_the_same_answers_over_each_transport() {
    let rig = Rig::new();
    let encrypted = ["--listen", "tls://127.0.0.1:0", "--listen", "https://127.0.0.1:0"];
    let server: Running = rig.start(&[&["--listen", "127.0.0.1:0"], &encrypted[..]].concat());
    let port_of = |transport: &str| match server.ready[transport][0].as_str() {
        Some(address) => address.parse::<SocketAddr>().unwrap().port(),
        None => server.addresses[0].port(),
    };
    let mut asked_in_tls = 0;
    for (client, package) in CLIENTS {
        for (transport, flags) in TRANSPORTS {
            let port = port_of(transport);
            let alias = match lines(client, port, flags, ["alias.auth.test", "A"]) {
                Ok(lines) => lines,
                Err(error) => {
                    skip(Capability::Programs, format!("{client} ({error}): apt-get install {package}"));
                    break;
                }
            };
            assert_eq!(alias, ["192.0.2.80", "www.auth.test."], "{client} {flags:?}");
            // Too long for UDP, after which clients ask again over TCP.
            let texts = lines(client, port, flags, ["big.auth.test", "TXT"]).unwrap();
            assert_eq!(texts.len(), 40, "{client} {flags:?}");
            assert_eq!(texts[0], "\"text number 00000000\"", "{client} {flags:?}");
            assert!(
                lines(client, port, flags, ["nothing.auth.test", "A"]).unwrap().is_empty(),
                "{client} {flags:?}"
            );
            asked_in_tls += 3 * u64::from(["tls", "https"].contains(&transport));
        }
    }
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!(tcp.handshakes.values().sum::<u64>(), asked_in_tls, "{tcp:?}");
    assert!(tcp.received >= asked_in_tls && tcp.received == tcp.answered, "{tcp:?}");
}

/// The reply that curl gets with these flags; an error if it cannot be started.
fn by_curl(ca: &str, flags: &[&str]) -> std::io::Result<Reply> {
    let mut command = Command::new("curl");
    command.args(["--disable", "--silent", "--show-error", "--fail", "--noproxy", "*"]);
    command.args(["--http2", "--cacert", ca]);
    command.args(["--header", "accept: application/dns-message", "--write-out", "%{stderr}%{http_version}"]);
    let output = command.args(flags).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {flags:?}: {words}");
    assert_eq!(words, "2", "the version of HTTP");
    Ok(Reply(output.stdout))
}

#[test]
fn curl_gets_the_answers_of_tcp_by_post_and_by_get() {
    let rig = Rig::new();
    let server = rig.start(&["--listen", "127.0.0.1:0", "--listen", "https://127.0.0.1:0"]);
    let url = format!("https://{}/dns-query", server.ready["https"][0].as_str().unwrap());
    let ca = server.ready["ca"].as_str().unwrap();
    let file = rig.folder.path().join("query");
    let body = format!("@{}", file.display());
    for (name, rtype) in [("alias.auth.test", A), ("nothing.auth.test", A), ("big.auth.test", TXT)] {
        let query = query(0, name, rtype);
        std::fs::write(&file, &query).unwrap();
        let by_tcp = ask_by(&mut connect(server.addresses[0]), &query);
        let url_of_get = format!("{url}?dns={}", base64url(&query));
        let dns = "content-type: application/dns-message";
        let post = ["--header", dns, "--data-binary", body.as_str(), url.as_str()];
        for flags in [&post[..], &[url_of_get.as_str()]] {
            match by_curl(ca, flags) {
                Ok(reply) => assert_eq!(reply, by_tcp, "{flags:?}"),
                Err(error) => {
                    skip(Capability::Programs, format!("curl ({error}): apt-get install curl"));
                    return;
                }
            }
        }
    }
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((tcp.received, tcp.answered, tcp.connections), (9, 9, 9));
    assert_eq!(tcp.handshakes.values().sum::<u64>(), 6);
}

#[test]
fn curl_sees_the_status_of_a_request_that_is_no_query() {
    let rig = Rig::new();
    let server = rig.start(&["--listen", "https://127.0.0.1:0"]);
    let url = format!("https://{}/dns-query", server.ready["https"][0].as_str().unwrap());
    let other = url.replace("dns-query", "other");
    let (short, long) = (rig.folder.path().join("short"), rig.folder.path().join("long"));
    std::fs::write(&short, query(0, "www.auth.test", A)).unwrap();
    std::fs::write(&long, vec![0; 300_000]).unwrap();
    let [short, long] = [short, long].map(|file| format!("@{}", file.display()));
    let dns = ["--header", "content-type: application/dns-message"];
    let text = ["--header", "content-type: text/plain"];
    let put = ["--request", "PUT"];
    let cases: [(&[&str], &str, &str, &str); 5] = [
        (&text, &short, &url, "415"),
        (&dns, &short, &other, "404"),
        (&[&dns[..], &put].concat(), &short, &url, "405"),
        (&text, &long, &url, "415"),
        (&dns, &long, &url, "413"),
    ];
    for (flags, file, url, status) in cases {
        let mut command = Command::new("curl");
        command.args(["--disable", "--silent", "--show-error", "--noproxy", "*", "--http2"]);
        command.args(["--cacert", server.ready["ca"].as_str().unwrap(), "--write-out", "%{http_code}"]);
        let output = match command.args(flags).args(["--data-binary", file, url]).output() {
            Ok(output) => output,
            Err(error) => {
                skip(Capability::Programs, format!("curl ({error}): apt-get install curl"));
                return;
            }
        };
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "curl {flags:?} {status}: {words}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), status, "{flags:?}");
    }
    let refused = server.stop(Signal::Terminate).tcp.unwrap().refused;
    let expected = [("404", 1), ("405", 1), ("413", 1), ("415", 2)];
    assert_eq!(refused, expected.map(|(status, count)| (status.to_owned(), count)).into());
}
