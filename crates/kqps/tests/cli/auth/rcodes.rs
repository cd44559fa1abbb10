//! Servers count replies by their whole rcode: four bits of it are in the header, eight in the OPT record
//! (RFC 6891, section 6.1.3).

use std::process::Command;

use kqps_kernel::process::Signal;

use super::Rig;
use super::dns::{A, ask, ask_by, connect, query_edns};
use crate::serve::available;

/// A query with version 1 of EDNS.
fn version_1() -> Vec<u8> {
    let mut query = query_edns(1, "www.auth.test", A, 1232);
    let version = query.len() - 5;
    query[version] = 1;
    query
}

#[test]
fn another_version_of_edns_is_counted_as_badvers() {
    let rig = Rig::new();
    for model in available() {
        for processes in ["1", "2"] {
            let arguments = ["--listen", "127.0.0.1:0", "--io", model.name(), "--processes", processes];
            let server = rig.start(&arguments);
            let mut stream = connect(server.addresses[0]);
            for reply in [ask(server.addresses[0], &version_1()), ask_by(&mut stream, &version_1())] {
                let opt = &reply.0[reply.0.len() - 11..];
                assert_eq!((reply.rcode(), &opt[..3], &opt[5..7]), (0, &[0, 0, 41][..], &[1, 0][..]));
            }
            assert_eq!(ask(server.addresses[0], &query_edns(2, "www.auth.test", A, 1232)).answers(), 1);
            let report = server.stop(Signal::Terminate);
            let rcodes = [("BADVERS", 1), ("NOERROR", 1)].map(|(rcode, count)| (rcode.to_owned(), count));
            assert_eq!(report.response_rcodes, rcodes.into(), "{model:?}");
            assert_eq!(report.tcp.unwrap().response_rcodes, [("BADVERS".to_owned(), 1)].into(), "{model:?}");
        }
    }
}

/// A front also prints the rcode's name, both while it runs and at the end.
#[test]
fn badvers_is_printed_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let status = folder.path().join("status");
    let back_end = ["--backend", "udp://127.0.0.1:5301", "--listen", "127.0.0.1:0", "--status"];
    let server = crate::serve::running::Running::start_as(
        "front",
        &[&back_end[..], &[status.to_str().unwrap(), "--metrics", "127.0.0.1:0"]].concat(),
    );
    ask(server.addresses[0], &version_1());
    let begin = std::time::Instant::now();
    loop {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        let output = command.args(["serve", "status"]).arg(&status).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if text.contains("Received 1, answered 1") {
            assert!(text.contains("\n  BADVERS: 1\n"), "{text}");
            break;
        }
        assert!(begin.elapsed() < super::PATIENCE, "{text}");
    }
    let metrics: std::net::SocketAddr = serde_json::from_value(server.ready["metrics"].clone()).unwrap();
    let text = crate::front::status::get(metrics, "/metrics").1;
    assert!(text.contains("kqps_front_replies_total{transport=\"udp\",rcode=\"BADVERS\"} 1\n"), "{text}");
    server.stop(Signal::Terminate);
}
