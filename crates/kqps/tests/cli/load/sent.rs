//! The datagrams of a load: their bytes, and the addresses and ports that they come from.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use kqps_observation::Trial;

use super::bench::{Bench, is_nothing};

/// Offset of the count of additional records in a header (RFC 1035, section 4.1.1), and offset of the flags
/// in an OPT record (RFC 6891, section 6.1.3).
const ADDITIONAL: usize = 11;
const OPT_FLAGS: usize = 7;

/// Plays once through the queries with these flags. Returns the trial, and the queries that a server
/// received, all of which it answered.
pub(super) fn played(bench: &Bench, flags: &[&str]) -> (Trial, Vec<(SocketAddr, Vec<u8>)>) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let target = server.local_addr().unwrap().to_string();
    let mut load = bench.load_of(&target, &["-Q", "1k", "--json"]);
    let mut load = load.args(flags).stdout(Stdio::piped()).spawn().unwrap();
    let (mut heard, mut buffer) = (Vec::new(), [0; 512]);
    loop {
        match server.recv_from(&mut buffer) {
            Ok((bytes, from)) => {
                heard.push((from, buffer[..bytes].to_vec()));
                buffer[2] |= 0x80;
                server.send_to(&buffer[..bytes], from).unwrap();
            }
            Err(error) if is_nothing(&error) => {
                if load.try_wait().unwrap().is_some() {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    let trial: Trial = serde_json::from_slice(&load.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(trial.accounts.correct, heard.len() as u64, "{:?}", trial.accounts);
    assert_eq!(trial.accounts.correct, trial.accounts.intended, "{:?}", trial.accounts);
    (trial, heard)
}

pub(super) fn write_queries(bench: &Bench, count: usize) {
    let names: Vec<String> = (0..count).map(|number| format!("n{number:02}.example.test A")).collect();
    std::fs::write(bench.queries(), names.join("\n")).unwrap();
}

#[test]
fn edns_and_the_do_bit_are_in_every_query() {
    let bench = Bench::new();
    write_queries(&bench, 20);
    let (_, plain) = played(&bench, &[]);
    assert!(plain.iter().all(|(_, message)| message[ADDITIONAL] == 0));
    let length = plain[0].1.len();
    for (flag, flags) in [("-e", [0, 0]), ("-D", [0x80, 0])] {
        let (_, heard) = played(&bench, &[flag]);
        assert_eq!(heard.len(), 20);
        for (_, message) in heard {
            assert_eq!(message.len(), length + 11, "an OPT record without options (RFC 6891, section 6.1.2)");
            assert_eq!((message[ADDITIONAL], &message[length..length + 3]), (1, &[0, 0, 41][..]));
            assert_eq!(message[length + OPT_FLAGS..][..2], flags, "{flag}");
        }
    }
}

#[test]
fn binary_queries_leave_as_they_stand_but_for_their_ids() {
    let bench = Bench::new();
    // A name, type and flags that no line of text can give: CH TXT, with CD set.
    let message = |number: u8| {
        let header = [number, number, 0x01, 0x10, 0, 1, 0, 0, 0, 0, 0, 0];
        [&header[..], &[2, b'i', b'a' + number, 0, 0, 16, 0, 3]].concat()
    };
    let mut file = Vec::new();
    for number in 0..20 {
        let message = message(number);
        file.extend((message.len() as u16).to_be_bytes());
        file.extend(message);
    }
    std::fs::write(bench.queries(), file).unwrap();
    let (trial, heard) = played(&bench, &["-B", "-c", "1"]);
    assert_eq!(trial.dataset.queries, 20);
    let sent: Vec<&[u8]> = heard.iter().map(|(_, message)| &message[2..]).collect();
    let wanted: Vec<Vec<u8>> = (0..20).map(|number| message(number)[2..].to_vec()).collect();
    assert_eq!(sent, wanted);
}

#[test]
fn queries_leave_from_the_address_and_the_ports_that_were_asked_for() {
    let bench = Bench::new();
    write_queries(&bench, 40);
    let sources = |flags: &[&str]| -> BTreeSet<SocketAddr> {
        played(&bench, flags).1.into_iter().map(|(from, _)| from).collect()
    };
    let addresses =
        |flags: &[&str]| -> BTreeSet<IpAddr> { sources(flags).iter().map(SocketAddr::ip).collect() };
    let wanted =
        |texts: &[&str]| -> BTreeSet<IpAddr> { texts.iter().map(|text| text.parse().unwrap()).collect() };
    assert_eq!(addresses(&["-a", "127.5.3.1"]), wanted(&["127.5.3.1"]));
    assert_eq!(addresses(&["-a", "127.5.3.0/30", "-c", "4"]), wanted(&["127.5.3.1", "127.5.3.2"]));
    // No other program uses this network, and these ports are below the system's ephemeral ones.
    let ports = sources(&["-a", "127.5.3.1", "-x", "20000", "-c", "4", "-T", "2"]);
    assert_eq!(ports, (20_000..20_004).map(|port| SocketAddr::from(([127, 5, 3, 1], port))).collect());
}
