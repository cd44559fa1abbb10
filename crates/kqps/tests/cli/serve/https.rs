//! Servers over HTTPS, asked by a client that is not kqps: the answers of UDP, how long they may be kept, and what is
//! no query. The same package is the server that `kqps load` plays at.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::Stdio;

use kqps_kernel::process::Signal;
use kqps_observation::Trial;
use kqps_tls::certificate::{KeyType, make};
use serde_json::{Value, json};

use super::running::Running;
use crate::auth::dns::{A, AXFR, Reply, TXT, ask, query, query_edns};
use crate::load::bench::{Bench, kqps, words};
use crate::python::script;

const ZONE: &str = "$ORIGIN https.test.\n$TTL 300\n@ SOA ns1 host 1 3600 600 86400 60\n@ NS ns1\n\
    ns1 A 192.0.2.1\nwww 60 A 192.0.2.80\nalias CNAME www\ntext TXT \"a text\"\n";

const DNS: [(&str, &str); 1] = [("content-type", "application/dns-message")];

/// The option that asks for padding, with two bytes of it (RFC 7830).
const PADDING: [u8; 6] = [0, 12, 0, 2, 0, 0];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// `bytes` in base64url without padding (RFC 4648, section 5).
pub(crate) fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let all =
            part.iter().enumerate().fold(0_u32, |all, (at, byte)| all | u32::from(*byte) << (16 - 8 * at));
        for at in 0..=part.len() {
            text.push(LETTERS[(all >> (18 - 6 * at)) as usize & 63].into());
        }
    }
    text
}

fn post(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Value {
    json!({ "method": "POST", "path": path, "headers": headers, "body": hex(body) })
}

fn get(path: &str) -> Value {
    json!({ "method": "GET", "path": path, "headers": [["accept", "application/dns-message"]], "body": "" })
}

/// The responses of a server to these requests over one connection; `None` if the client is missing.
fn asked(server: &Running, requests: &[Value]) -> Option<Vec<Value>> {
    let address: SocketAddr = server.ready["https"][0].as_str().unwrap().parse().unwrap();
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let mut client = script("h2_client.py", "h2")?;
    let mut client = client.args([&ip, &port, server.ready["ca"].as_str().unwrap()]).spawn().unwrap();
    client.stdin.take().unwrap().write_all(json!(requests).to_string().as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success(), "the client failed: {}", output.status);
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn reply(response: &Value) -> Reply {
    assert_eq!(response["status"], 200, "{response}");
    assert_eq!(response["headers"]["content-type"], "application/dns-message", "{response}");
    Reply(unhex(response["body"].as_str().unwrap()))
}

#[test]
fn answers_are_those_of_udp_and_may_be_kept_as_long_as_their_records() {
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("https.test.zone");
    std::fs::write(&zone, ZONE).unwrap();
    let listen = ["--listen", "127.0.0.1:0", "--listen", "https://127.0.0.1:0", "--transfers"];
    let server = Running::start_as("auth", &[&listen[..], &["--zone", zone.to_str().unwrap()]].concat());
    let queries = [
        query(0, "alias.https.test", A),
        query(0, "none.https.test", A),
        query_edns(0, "text.https.test", TXT, 1232),
        query_edns(7, "www.elsewhere.test", A, 1232),
    ];
    let mut padded = query_edns(0, "text.https.test", TXT, 1232);
    let data_bytes = padded.len() - 2;
    padded[data_bytes..].copy_from_slice(&(PADDING.len() as u16).to_be_bytes());
    padded.extend(PADDING);
    let by_get = queries.iter().map(|query| get(&format!("/dns-query?dns={}", base64url(query))));
    let transfer = query(0, "https.test", AXFR);
    let last = [padded, transfer];
    let by_post = queries.iter().chain(&last).map(|query| post("/dns-query", &DNS, query));
    let Some(responses) = asked(&server, &by_get.chain(by_post).collect::<Vec<_>>()) else { return };
    for (at, query) in queries.iter().enumerate() {
        let by_udp = ask(server.addresses[0], query);
        for response in [&responses[at], &responses[queries.len() + at]] {
            assert_eq!(reply(response), by_udp);
        }
    }
    let age = |at: usize| responses[at]["headers"]["cache-control"].as_str();
    // The first answer has records with 300 and 60 seconds, the second denies for 60, the third has a record with 300
    // seconds, and the last one, REFUSED, is not kept.
    let expected = [Some("max-age=60"), Some("max-age=60"), Some("max-age=300"), Some("max-age=0")];
    for (way, first) in [("GET", 0), ("POST", queries.len())] {
        assert_eq!([0, 1, 2, 3].map(|at| age(first + at)), expected, "{way}");
    }
    assert_eq!(reply(&responses[8]).0.len(), 468);
    let refused = reply(&responses[9]);
    assert_eq!((refused.rcode(), refused.answers()), (5, 0), "a transfer needs many messages");
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((tcp.connections, tcp.received, tcp.answered, tcp.transfers), (1, 10, 10, 0));
    assert_eq!(tcp.response_rcodes["REFUSED"], 3);
    assert_eq!(tcp.ended.into_iter().collect::<Vec<_>>(), [("by-peer".to_owned(), 1)]);
}

#[test]
fn answers_that_come_later_go_to_their_requests() {
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("https.test.zone");
    std::fs::write(&zone, ZONE).unwrap();
    let behind = Running::start_as("auth", &["--listen", "127.0.0.1:0", "--zone", zone.to_str().unwrap()]);
    let stub = format!("https.test={}", behind.addresses[0]);
    let listen = ["--listen", "127.0.0.1:0", "--listen", "https://127.0.0.1:0"];
    let server = Running::start_as("cache", &[&listen[..], &["--stub", &stub]].concat());
    // The first three have to be asked for, the fourth may have to wait with the first, and the last is answered at
    // once.
    let asked_for = [
        ("www.https.test", 0, 1),
        ("none.https.test", 3, 0),
        ("alias.https.test", 0, 2),
        ("www.https.test", 0, 1),
        ("www.elsewhere.test", 5, 0),
    ];
    let queries = asked_for.map(|(name, _, _)| {
        let mut query = query(0, name, A);
        query[2] |= 1;
        query
    });
    let requests: Vec<Value> = queries.iter().map(|query| post("/dns-query", &DNS, query)).collect();
    let Some(responses) = asked(&server, &requests) else { return };
    for ((response, query), (name, rcode, answers)) in responses.iter().zip(&queries).zip(asked_for) {
        let reply = reply(response);
        assert_eq!((reply.rcode(), reply.answers()), (rcode, answers), "{name}");
        assert_eq!(reply.0[12..query.len()], query[12..], "{name}");
        // The addresses live for 60 s, and so do denials. REFUSED is not kept.
        let age_s =
            response["headers"]["cache-control"].as_str().and_then(|age| age.strip_prefix("max-age="));
        let age_s: u32 = age_s.expect("an age").parse().unwrap();
        assert!(if rcode == 5 { age_s == 0 } else { (50..=60).contains(&age_s) }, "{name}: {age_s}");
    }
    let report = server.stop(Signal::Terminate);
    let (tcp, cache) = (report.tcp.unwrap(), report.cache.unwrap());
    assert_eq!((tcp.received, tcp.answered, cache.refused), (5, 5, 1));
    assert_eq!((cache.kept, cache.misses + cache.hits), (3, 4));
    behind.stop(Signal::Terminate);
}

#[test]
fn what_is_no_query_gets_a_status_and_is_counted() {
    let server = Running::start(&["--listen", "https://127.0.0.1:0"]);
    let good = query(0, "www.https.test", A);
    let mut response = good.clone();
    response[2] |= 0x80;
    let put = json!({ "method": "PUT", "path": "/dns-query", "headers": DNS, "body": hex(&good) });
    let requests = [
        (post("/", &DNS, &good), 404),
        (put, 405),
        (post("/dns-query", &[("content-type", "text/plain")], &good), 415),
        (post("/dns-query", &[], &good), 415),
        (post("/dns-query", &DNS, &good[..11]), 400),
        (post("/dns-query", &DNS, &vec![0; 66_000]), 413),
        (get("/dns-query"), 400),
        (get("/dns-query?dns=AAAA===="), 400),
        (get("/dns-query?dns=AAAA"), 400),
        // A message that the echo does not answer.
        (post("/dns-query", &DNS, &response), 400),
        (post("/dns-query", &DNS, &good), 200),
    ];
    let all: Vec<Value> = requests.iter().map(|(request, _)| request.clone()).collect();
    let Some(responses) = asked(&server, &all) else { return };
    for ((request, status), response) in requests.iter().zip(&responses) {
        assert_eq!(response["status"], *status, "{request}: {response}");
    }
    assert_eq!(responses[1]["headers"]["allow"], "GET, POST");
    let report = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((report.received, report.answered, report.dropped["is-response"]), (2, 1, 1));
    let refused = [("400", 4), ("404", 1), ("405", 1), ("413", 1), ("415", 2)];
    assert_eq!(report.refused, refused.map(|(status, count)| (status.to_owned(), count)).into());
}

#[test]
fn a_server_that_is_not_kqps_counts_what_the_player_does() {
    const STREAMS: u64 = 10;
    let folder = tempfile::tempdir().unwrap();
    let made = make(KeyType::Ecdsa, &["127.0.0.1", "dns.test"].map(str::to_owned)).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (cert, key) = (file("cert.pem", &made.identity.chain), file("key.pem", &made.identity.key));
    let ca = file("ca.pem", &made.ca);
    let bench = Bench::new();
    let by_name = ["--server-name", "dns.test"];
    for (method, other, name, flags) in
        [("POST", "GET", "127.0.0.1", &[][..]), ("GET", "POST", "dns.test", &by_name[..])]
    {
        let Some(mut server) = script("h2_server.py", "h2") else { return };
        let mut server =
            server.args([&cert, &key, &STREAMS.to_string()]).stderr(Stdio::null()).spawn().unwrap();
        let mut printed = BufReader::new(server.stdout.take().unwrap());
        let mut port = String::new();
        printed.read_line(&mut port).unwrap();
        let url = format!("https://127.0.0.1:{}/dns-query", port.trim());
        let mut load = kqps(&["load", &url, "--json", "--lag", "1m", "-q", "60", "-c", "3", "--ca", &ca]);
        load.args(flags).args(["--http-method", &method.to_lowercase(), "-d"]).arg(bench.queries());
        let output = load.env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
        let trial: Trial =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", words(&output).1));
        drop(server.stdin.take());
        let mut text = String::new();
        printed.read_to_string(&mut text).unwrap();
        server.wait().unwrap();
        let counts: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(counts["wrong"], json!([]));
        assert_eq!((trial.accounts.correct, trial.accounts.wrong), (1000, 0), "{:?}", trial.accounts);
        let of_server = (counts[method].as_u64(), counts[other].as_u64(), counts["connections"].as_u64());
        assert_eq!(of_server, (Some(1000), Some(0), Some(3)));
        assert_eq!(counts["authorities"], json!({ format!("{name}:{}", port.trim()): 1000 }));
        let open = counts["open"].as_u64().unwrap();
        assert!((1..=STREAMS).contains(&open), "{open}");
        let connections = trial.connections.unwrap();
        assert!(connections.http.unwrap().blocked > 0);
    }
}
