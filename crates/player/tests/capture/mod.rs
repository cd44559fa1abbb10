//! Common parts of the tests of replays: captures with known queries, and a plan that replays them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use kqps_capture::write::Writer;
use kqps_dataset::{Dataset, Options};
use kqps_player::{Arrivals, Io, LoadPlan, Plan, ReplayPlan};

pub(crate) const MS: u64 = 1_000_000;

pub(crate) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53);

/// A query for `NAME.test`, type A.
pub(crate) fn query(name: &str) -> Vec<u8> {
    let header = [7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8];
    [&header[..], name.as_bytes(), b"\x04test\0\0\x01\0\x01"].concat()
}

/// The first label of a query or reply.
pub(crate) fn name(message: &[u8]) -> String {
    String::from_utf8(message[13..13 + usize::from(message[12])].to_vec()).unwrap()
}

/// A client of a capture.
pub(crate) fn client(address: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::from((address, port))
}

/// A capture, and the folder that holds it.
pub(crate) struct Captured {
    pub(crate) dataset: Dataset,
    _folder: tempfile::TempDir,
}

impl Captured {
    /// The packets that `write` writes, at nanoseconds since the beginning.
    pub(crate) fn new(write: impl FnOnce(&mut Writer<Vec<u8>>)) -> Self {
        let mut writer = Writer::ethernet(Vec::new()).unwrap();
        write(&mut writer);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("capture.pcap");
        std::fs::write(&file, writer.finish().unwrap()).unwrap();
        let options = Options { cache_dir: Some(folder.path().join("cache")), ..Options::default() };
        Self { dataset: Dataset::open(&file, &options).unwrap(), _folder: folder }
    }

    /// `count` queries `q0`, `q1` … of these clients in turn, one every 2 ms.
    pub(crate) fn of_clients(count: u64, clients: &[SocketAddr]) -> Self {
        Self::new(|writer| {
            for (number, client) in (0..count).zip(clients.iter().cycle()) {
                writer.udp(number * 2 * MS, *client, SERVER, &query(&format!("q{number}"))).unwrap();
            }
        })
    }
}

/// A plan that replays a capture at its own pace.
pub(crate) fn plan(target: SocketAddr, local: Option<&str>, replay: ReplayPlan) -> Plan {
    let load = LoadPlan::Open { rate_qps: 500.0, arrivals: Arrivals::Captured, window: None };
    let plan = crate::support::plan(target, 1, load, Io::Auto);
    Plan { replay: Some(replay), local: local.map(|local| local.parse().unwrap()), ..plan }
}
