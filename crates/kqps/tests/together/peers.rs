//! The measurements of `cargo xtask peers` in a tiny form. At this length their figures mean nothing; the
//! tests check that there are figures.

use std::fs;
use std::path::Path;

use kqps_proofs::peers::{Extent, Name, Programs, measure};
use kqps_skips::{Capability, skip};
use kqps_testbed::subject::programs;
use serde_json::Value;

fn measured(name: Name, file: &str) -> Value {
    measured_of(name, None, file)
}

fn measured_of(name: Name, only: Option<&str>, file: &str) -> Value {
    measured_for(0.3, name, only, file)
}

/// How often a table is measured in which a side has no answer, each time for four times as long. A host that takes the
/// cores for a moment is the cause as a rule.
const ATTEMPTS: i32 = 3;

fn measured_for(seconds: f64, name: Name, only: Option<&str>, file: &str) -> Value {
    let mut table = measured_once(seconds, name, only, file);
    for attempt in 1..ATTEMPTS {
        if !every_side_has_answers(&table) {
            table = measured_once(seconds * 4_f64.powi(attempt), name, only, file);
        }
    }
    table
}

/// Whether each side of each row got an answer in each block.
fn every_side_has_answers(table: &Value) -> bool {
    let each = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let blocks = each(table, "rows").iter().flat_map(|row| each(row, "blocks")).collect::<Vec<_>>();
    let mut sides = blocks.iter().flat_map(|block| [each(block, "a"), each(block, "b")].concat());
    sides.all(|side| side["answered_qps"].as_f64() > Some(0.0))
}

fn measured_once(seconds: f64, name: Name, only: Option<&str>, file: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let extent = Extent { only, blocks: 1, seconds };
    let kqps = Path::new(env!("CARGO_BIN_EXE_kqps"));
    let calls = kqps.with_file_name("examples/calls");
    // `cargo xtask test` builds it, and so does `cargo test` of the whole workspace.
    assert!(calls.is_file(), "build it first: cargo build --workspace --examples");
    let rings = kqps.with_file_name("examples/rings");
    let programs = Programs { kqps, calls: &calls, rings: &rings };
    measure(name, extent, programs, folder.path()).unwrap_or_else(|e| panic!("{e:#}"));
    serde_json::from_str(&fs::read_to_string(folder.path().join(file)).unwrap()).unwrap()
}

fn every_row_has_a_ratio(table: &Value, rows: usize) {
    let of_table = table["rows"].as_array().unwrap();
    assert_eq!(of_table.len(), rows);
    for row in of_table {
        assert!(row["ratio"]["median"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn a_player_is_laid_beside_dnsperf() {
    let player = measured(Name::Player, "player.json");
    every_row_has_a_ratio(&player, 5);
    every_row_has_a_ratio(&measured_of(Name::Transports, Some("dnsperf"), "transports.json"), 5);
    let open_loop = player["open_loop"].as_array().unwrap();
    assert_eq!(open_loop.len(), 3);
    for rate in open_loop {
        assert!(rate["open_loop"]["repeated"].as_u64().unwrap() <= 2, "{rate}");
        assert!(rate["open_loop"]["second_off"]["median"].is_f64(), "{rate}");
    }
}

#[test]
fn an_open_loop_is_played_over_tcp() {
    let table = measured_of(Name::Transports, Some("open loop"), "transports.json");
    let open_loop = table["open_loop"].as_array().unwrap();
    let rates = open_loop.iter().map(|rate| rate["open_loop"]["rate_qps"].as_u64().unwrap());
    assert_eq!(rates.collect::<Vec<_>>(), [10_000, 50_000]);
    for rate in open_loop {
        assert_eq!(rate["open_loop"]["over"], "tcp");
        assert!(rate["open_loop"]["second_off"]["median"].is_f64(), "{rate}");
    }
}

#[test]
fn kept_connections_over_quic_are_laid_beside_those_in_tls() {
    let table = measured_of(Name::Transports, Some("kqps at echo quic"), "transports.json");
    every_row_has_a_ratio(&table, 1);
}

#[test]
fn handshakes_are_laid_beside_those_of_openssl() {
    if programs::find("openssl").is_none() {
        skip(Capability::Programs, "handshakes beside those of OpenSSL: `openssl` is missing");
        return;
    }
    let table = measured_of(Name::Transports, Some("handshakes"), "transports.json");
    every_row_has_a_ratio(&table, 2);
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows[0]["b"]["player"], "openssl s_time");
    assert!(rows[0]["pass"].is_boolean(), "full handshakes have a target");
    assert!(rows[1]["pass"].is_null(), "resumed handshakes are only reported");
}

#[test]
fn connections_for_each_query_are_laid_beside_those_of_kxdpgun() {
    let what = "connections beside those of kxdpgun";
    for program in ["kxdpgun", "nsd", "ip"] {
        if programs::find(program).is_none() {
            skip(Capability::Programs, format!("{what}: `{program}` is missing"));
            return;
        }
    }
    for capability in ["veth", "af-xdp"] {
        if let Err(reason) = kqps_kernel::probe::probe_one(capability) {
            skip(Capability::Networks, format!("{what}: {reason}"));
            return;
        }
    }
    // All handshakes of QUIC begin at once, and the first answers come after them.
    let table = measured_for(1.0, Name::Transports, Some("kxdpgun"), "transports.json");
    every_row_has_a_ratio(&table, 3);
    for row in table["rows"].as_array().unwrap() {
        assert!(row["a"]["server"].as_str().unwrap().ends_with("over veth"), "{row}");
        assert!(row["b"]["counts"].as_str().unwrap().contains("SYNs"), "{row}");
    }
}

/// Whether the host lacks what measurements over veth with frames or captures need. Reports what that is.
fn lacks(what: &str, programs: &[&str], capabilities: &[&str]) -> bool {
    if let Some(program) = programs.iter().find(|program| programs::find(program).is_none()) {
        skip(Capability::Programs, format!("{what}: `{program}` is missing"));
        return true;
    }
    let reason = capabilities.iter().find_map(|name| kqps_kernel::probe::probe_one(name).err());
    reason.inspect(|reason| skip(Capability::Networks, format!("{what}: {reason}"))).is_some()
}

#[test]
fn players_and_servers_past_the_stack_are_laid_beside_others() {
    if lacks("players past the stack", &["kxdpgun", "nsd", "ip"], &["veth", "af-xdp"]) {
        return;
    }
    let rings = Path::new(env!("CARGO_BIN_EXE_kqps")).with_file_name("examples/rings");
    assert!(rings.is_file(), "build it first: cargo build --workspace --examples");
    // UDP beside kxdpgun, by sockets and at our echo; connections beside kxdpgun; our server beside NSD.
    for (only, rows) in
        [("echo mmsg", 3), ("at NSD: kqps --io xdp, correct answers / kxdpgun -T", 1), ("auth xdp", 1)]
    {
        let table = measured_for(0.5, Name::Xdp, Some(only), "xdp.json");
        every_row_has_a_ratio(&table, rows);
        for row in table["rows"].as_array().unwrap() {
            assert!(row["a"]["server"].as_str().unwrap().ends_with("over veth"), "{row}");
        }
    }
    let table = measured_of(Name::Xdp, Some("rings"), "xdp.json");
    let own = &table["singles"].as_array().unwrap()[0];
    assert!(own["found"]["median"].as_f64().unwrap() > 0.0, "{own}");
}

#[test]
fn replays_are_laid_beside_those_of_other_programs() {
    if lacks("replays beside those of others", &["tcpreplay", "dnsreplay", "ip"], &["veth"]) {
        return;
    }
    let table = measured(Name::Replay, "replay.json");
    let singles = table["singles"].as_array().unwrap();
    // Three figures of each of four players, and two of compiling. A host may lack AF_XDP.
    let players = 4 - table["skipped"].as_array().unwrap().len();
    assert_eq!(singles.len(), 3 * players + 2, "{table}");
    let limited = singles.iter().filter(|one| one["pass"].is_boolean());
    assert_eq!(limited.count(), 2 * (players - 2) + 2, "{table}");
    for one in singles {
        assert!(one["found"]["median"].is_f64(), "{one}");
    }
    let arrived = |player: &str| {
        let of_player = |one: &&Value| one["what"].as_str().is_some_and(|what| what.starts_with(player));
        let first = singles.iter().find(of_player).unwrap();
        first["beside"][0]["arrived"].as_u64().unwrap()
    };
    // kqps gives up queries that it reaches late, as it may beside other tests.
    assert!((1..=12_000).contains(&arrived("replay of a capture by kqps at")), "{table}");
    assert_eq!(arrived("replay of a capture by tcpreplay"), 12_000, "tcpreplay sends every frame: {table}");
}

#[test]
fn our_server_is_laid_beside_others_over_tcp() {
    if let Some(program) = ["nsd", "knotd"].into_iter().find(|program| programs::find(program).is_none()) {
        skip(Capability::Programs, format!("our server beside others over TCP: `{program}` is missing"));
        return;
    }
    let table = measured_of(Name::Transports, Some("kqps auth"), "transports.json");
    every_row_has_a_ratio(&table, 4);
    let side = |row: &Value, side: &str| row[side]["server"].as_str().unwrap().to_owned();
    for (row, peer) in table["rows"].as_array().unwrap().iter().zip(["nsd", "knot", "nsd", "knot"]) {
        assert_eq!((side(row, "a"), side(row, "b")), ("kqps-auth tcp".to_owned(), format!("{peer} tcp")));
    }
}

#[test]
fn echoes_are_laid_beside_each_other() {
    every_row_has_a_ratio(&measured(Name::Echo, "echo.json"), 5);
}

/// The row that needs no other program.
#[test]
fn a_cache_is_laid_beside_the_echo() {
    every_row_has_a_ratio(&measured_of(Name::Cache, Some("kqps echo"), "cache.json"), 1);
}

/// The rows that need no other program, and the row whose result is a difference.
#[test]
fn a_front_is_laid_beside_what_stands_behind_it() {
    for (only, key) in [("by a stream", "ratio"), ("latency", "difference_us")] {
        if only == "latency" && programs::find("nsd").is_none() {
            skip(Capability::Programs, "a front before NSD: `nsd` is missing (apt install nsd)");
            continue;
        }
        let front = measured_of(Name::Front, Some(only), "front.json");
        let rows = front["rows"].as_array().unwrap();
        assert_eq!(rows.len(), if only == "latency" { 1 } else { 2 });
        for row in rows {
            assert!(row[key]["median"].is_f64(), "{row}");
            let of_front = &row["blocks"][0]["a"][0];
            assert!(of_front["server_cpu_s_per_million"].as_f64().unwrap() > 0.0, "{row}");
            assert!(of_front["foreign_cores"].is_null(), "the servers behind it are not others: {row}");
        }
    }
}
