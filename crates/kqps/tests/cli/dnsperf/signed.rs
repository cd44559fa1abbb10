//! TSIG (RFC 8945): beside dnsperf, and judged by BIND.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;

use super::both::Both;
use super::peer::{Answer, Query};
use crate::load::bench::{kqps, words};
use crate::load::limited::Server;

/// `secret12secret12secret12secret12`, which every algorithm takes.
const SECRET: &str = "c2VjcmV0MTJzZWNyZXQxMnNlY3JldDEyc2VjcmV0MTI=";

const ALGORITHMS: [(&str, usize); 6] = [
    ("hmac-md5", 16),
    ("hmac-sha1", 20),
    ("hmac-sha224", 28),
    ("hmac-sha256", 32),
    ("hmac-sha384", 48),
    ("hmac-sha512", 64),
];

/// A signed message without ID, time, MAC and original ID.
fn unsigned(query: &Query, mac_bytes: usize) -> Vec<u8> {
    let mut message = query.message.clone();
    let end = message.len();
    message[..2].fill(0);
    // Original ID, error and other length follow the MAC; fudge and its length precede it, and the time precedes them.
    let mac_at = end - 6 - mac_bytes;
    message[mac_at - 10..mac_at - 4].fill(0);
    message[mac_at..mac_at + mac_bytes + 2].fill(0);
    message
}

#[test]
fn signed_queries_are_those_of_dnsperf_but_for_the_signature() {
    let Some(both) = Both::new() else { return };
    for (algorithm, mac_bytes) in ALGORITHMS {
        for more in if algorithm == "hmac-sha256" { &["", "-m tcp"][..] } else { &["-e"] } {
            let flags = format!("-y {algorithm}:Key.Test:{SECRET} {more}");
            let [theirs, ours] = [both.theirs(Answer::Echo, &flags), both.ours(Answer::Echo, &flags)];
            assert_eq!((ours.status, theirs.status), (Some(0), Some(0)), "{flags}: {}", ours.err);
            let messages = |heard: &[Query]| {
                let mut all: Vec<Vec<u8>> = heard.iter().map(|query| unsigned(query, mac_bytes)).collect();
                all.sort_unstable();
                all
            };
            // dnsperf writes the name as it was typed.
            let lower = |messages: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
                messages.iter().map(|message| message.to_ascii_lowercase()).collect()
            };
            assert_eq!(lower(messages(&ours.heard)), lower(messages(&theirs.heard)), "{flags}");
            let original_id = |query: &Query| query.message[query.message.len() - 6..][..2].to_vec();
            assert!(ours.heard.iter().all(|query| original_id(query) == query.message[..2]), "{flags}");
        }
    }
}

const BIND: &str = "\
options {
    directory \"{dir}\";
    listen-on port {port} { 127.0.0.1; };
    listen-on-v6 { none; };
    recursion no;
    dnssec-validation no;
    pid-file \"{dir}/pid\";
    session-keyfile \"{dir}/key\";
    lock-file none;
};
controls {};
zone \"example.test\" { type primary; file \"zone\"; allow-update {{keys} }; };
";

/// Whether the server has an address of this name, asked without a key.
fn has(port: u16, label: &str) -> bool {
    let name = [&[label.len() as u8], label.as_bytes(), b"\x07example\x04test\0"].concat();
    let query = [&b"\0\x07\0\0\0\x01\0\0\0\0\0\0"[..], &name, b"\0\x01\0\x01"].concat();
    let server = kqps_ask::Server::over_udp((Ipv4Addr::LOCALHOST, port).into());
    server.ask(&query, Duration::from_secs(10)).unwrap()[7] == 1
}

fn rcodes(trial: &Value) -> Vec<(String, u64)> {
    let rcodes = trial["response_rcodes"].as_object().unwrap();
    rcodes.iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap())).collect()
}

/// BIND takes an update only if its signature is right, and says why not otherwise.
#[test]
fn bind_accepts_our_signatures_and_no_others() {
    let keys = ALGORITHMS.map(|(word, _)| format!(" key {word};")).concat();
    let key =
        |(word, _): (&str, usize)| format!("key \"{word}\" {{ algorithm {word}; secret \"{SECRET}\"; }};\n");
    let config = ALGORITHMS.map(key).concat() + &BIND.replace("{keys}", &keys);
    let Some(server) = Server::start("named", &config, &["-g", "-n", "1", "-c", "{dir}/config"]) else {
        return;
    };
    let folder = server.folder.path();
    let target = format!("127.0.0.1:{}", server.port);
    let load = |label: &str, key: &str, more: &[&str]| -> Value {
        let each = |n| format!("example.test\nadd {label}{n} 60 A 192.0.2.9\nsend\n");
        let updates: Vec<String> = (0..10).map(each).collect();
        std::fs::write(folder.join("updates"), updates.concat()).unwrap();
        let mut load = kqps(&["load", &target, "--json", "-q", "1", "-d"]);
        load.arg(folder.join("updates")).args(["-u", "-y", key]).args(more);
        let output = load.env("XDG_CACHE_HOME", folder).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", words(&output).1))
    };
    for (number, (algorithm, _)) in ALGORITHMS.into_iter().enumerate() {
        let (label, key) = (format!("n{number}-"), format!("{algorithm}:{algorithm}:{SECRET}"));
        let more =
            [&[][..], &["-m", "tcp"], &["-e"], &["-E", "65001:00"], &["-T", "1", "--io", "plain"], &["-D"]];
        assert!(!has(server.port, &format!("{label}0")));
        assert_eq!(rcodes(&load(&label, &key, more[number])), [("NOERROR".to_owned(), 10)], "{algorithm}");
        assert!(
            has(server.port, &format!("{label}0")) && has(server.port, &format!("{label}9")),
            "{algorithm}"
        );
    }
    let dnsperf = |secret: &str| {
        let (port, key) = (server.port.to_string(), format!("hmac-sha256:hmac-sha256:{secret}"));
        let mut command = kqps(&["dnsperf", "-s", "127.0.0.1", "-p", &port, "-u", "-y", &key, "-d"]);
        command.arg(folder.join("updates")).env("XDG_CACHE_HOME", folder);
        words(&command.output().unwrap()).0
    };
    let right = dnsperf(SECRET);
    assert!(right.contains("Response codes:       NOERROR 10 (100.00%)"), "{right}");
    let wrong = dnsperf("d3Jvbmc=");
    assert!(wrong.contains("Response codes:       NOTAUTH 10 (100.00%)"), "{wrong}");
    assert!(
        wrong.contains("Note: 10 replies were NOTAUTH: the server does not know the key of -y"),
        "{wrong}"
    );
}
