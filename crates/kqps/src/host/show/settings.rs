//! The kernel's settings.

use comfy_table::Table;
use kqps_observation::Fingerprint;

use super::table::table;

/// The settings that most often limit a result, with their meanings.
const SETTINGS: [(&str, &str); 9] = [
    ("net.core.rmem_max", "bytes that a socket may buffer of what it receives, without privilege"),
    ("net.core.rmem_default", "the same for a socket that asks for nothing"),
    ("net.core.wmem_max", "bytes that a socket may buffer of what it sends, without privilege"),
    ("net.core.netdev_max_backlog", "packets that wait for one core before more are dropped"),
    ("net.core.netdev_budget", "packets that one round of receiving handles at most"),
    ("net.core.busy_poll", "microseconds that poll and select look into the device themselves"),
    ("net.ipv4.udp_mem", "pages for all UDP sockets: low, pressure, limit"),
    ("net.ipv4.udp_early_demux", "whether a socket is looked up before routing"),
    ("net.ipv4.ip_local_port_range", "ports that sockets get when they ask for any"),
];

pub(super) fn limits(fingerprint: &Fingerprint) -> Table {
    let mut table = table();
    for (name, meaning) in SETTINGS {
        let value = fingerprint.sysctls.get(name).map_or("not known", String::as_str);
        table.add_row([name, value, meaning]);
    }
    for (name, value) in &fingerprint.limits {
        table.add_row([name.as_str(), value, "of this process"]);
    }
    table
}
