//! Zones as text, read by programs of others.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use kqps_internet::{Internet, ZoneId};
use kqps_message::name::NameText;
use kqps_skips::{Capability, skip};

use crate::book::{is_signed, small};

/// Runs a program; `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip(Capability::Programs, format!("{program} is not on the PATH"));
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Checks a zone's text by a program whose arguments follow from its name and file.
fn check(
    internet: &Internet,
    zone: ZoneId,
    program: &str,
    arguments: impl Fn(&str, &str) -> Vec<String>,
) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone");
    std::fs::write(&file, internet.zone_text(zone)).unwrap();
    let name = NameText(&internet.zone_name(zone)).to_string();
    let arguments = arguments(&name, path(&file));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(output) = run(program, &arguments) else { return false };
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{zone:?}: {}", String::from_utf8_lossy(&said));
    true
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of a temporary folder")
}

/// Zones of every kind.
fn zones() -> Vec<ZoneId> {
    let all = [
        ZoneId::Root,
        ZoneId::Tld(0),
        ZoneId::Tld(1),
        ZoneId::Tld(50),
        ZoneId::Company(0),
        ZoneId::Company(9),
    ];
    all.into_iter().chain((0..60).map(ZoneId::Site)).collect()
}

#[test]
fn bind_loads_the_zones() {
    for internet in [small(&["root.algorithm=0"]), small(&["zone.signed=0.5"])] {
        for zone in zones() {
            let arguments = |name: &str, file: &str| {
                ["-i", "local", "-k", "ignore", name, file].map(str::to_owned).to_vec()
            };
            if !check(&internet, zone, "named-checkzone", arguments) {
                return;
            }
        }
    }
}

#[test]
fn programs_of_others_verify_the_signed_zones() {
    // Programs compare the dates of signatures with the clock.
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let date = format!("signing.date_s={now_s}");
    let signed = ["zone.signed=1", "zone.algorithms=[[13,4],[8,1]]", "zone.wildcard=0.5", "zone.srv=0.5"];
    let internet = small(&[&signed[..], &[&date]].concat());
    for zone in zones().into_iter().filter(|zone| is_signed(&internet, *zone)) {
        // -z: one key signs everything.
        let arguments = |name: &str, file: &str| ["-q", "-z", "-o", name, file].map(str::to_owned).to_vec();
        check(&internet, zone, "dnssec-verify", arguments);
        let arguments = |_: &str, file: &str| vec![file.to_owned()];
        check(&internet, zone, "ldns-verify-zone", arguments);
    }
}
