//! `kqps serve front`, run as a user would: real sockets, before our own servers, and before back ends that
//! the test plays itself if they must misbehave.

mod answers;
mod connections;
mod edns;
mod faults;
pub(crate) mod hostile;
mod limits;
mod outage;
mod peer;
mod policy;
mod refused;
mod reload;
mod sick;
pub(crate) mod status;
mod usage;
mod v6;
mod whole;

use kqps_kernel::process::Signal;
use kqps_server::report::BackEndReport;
use kqps_server::{Model, Report};

use crate::auth::Rig;
use crate::serve::available;
use crate::serve::running::Running;

/// Options that keep a front from marking a silent back end down.
const PATIENT: [&str; 6] = ["--silence", "1m", "--check-interval", "1m", "--timeout", "2m"];

fn front(back_ends: &[&str], arguments: &[&str]) -> Running {
    let named = back_ends.iter().flat_map(|&back_end| ["--backend", back_end]);
    let all: Vec<&str> = ["--listen", "127.0.0.1:0"].into_iter().chain(named).collect();
    Running::start_as("front", &[&all, arguments].concat())
}

/// The I/O models that a front supports on this host.
fn models() -> impl Iterator<Item = &'static str> {
    available().map(Model::name).filter(|model| ["mmsg", "segment", "uring"].contains(model))
}

/// An authoritative server, and its three URLs for a front.
fn authority(rig: &Rig) -> (Running, [String; 3]) {
    let path = rig.folder.path().join("batches");
    let path = path.to_str().unwrap();
    let server = rig.start(&["--listen", "127.0.0.1:0", "--unix", path, "--payload", "4096"]);
    let address = server.addresses[0];
    (server, [format!("udp://{address}"), format!("tcp://{address}"), format!("unix:{path}")])
}

/// A server that returns queries, and its URL.
fn echo() -> (Running, String) {
    let server = Running::start(&["--listen", "127.0.0.1:0"]);
    let url = format!("udp://{}", server.addresses[0]);
    (server, url)
}

/// Stops a front, checks its sums, and returns its counts.
fn stop(server: Running) -> Report {
    let report = server.stop(Signal::Terminate);
    assert_sums(&report);
    report
}

fn assert_sums(report: &Report) {
    assert_eq!(report.received, report.answered + report.dropped.values().sum::<u64>(), "{report:?}");
    assert_eq!(report.response_rcodes.values().sum::<u64>(), report.answered, "{report:?}");
    if let Some(tcp) = &report.tcp {
        assert_eq!(tcp.received, tcp.answered + tcp.dropped.values().sum::<u64>(), "{report:?}");
        assert_eq!(tcp.response_rcodes.values().sum::<u64>(), tcp.answered, "{report:?}");
        assert_eq!(tcp.connections, tcp.ended.values().sum::<u64>(), "{report:?}");
    }
    for back_end in report.back_ends.values() {
        let BackEndReport { sent, answered, timed_out, cut_off, displaced, unsettled, .. } = back_end;
        assert_eq!(*sent, answered + timed_out + cut_off + displaced + unsettled, "{report:?}");
    }
}

/// The clients' queries that the front sent to a back end, without checks.
fn asked(report: &Report, back_end: &str) -> u64 {
    let BackEndReport { sent, checks, .. } = report.back_ends[back_end];
    sent - checks
}
