//! `kqps host` as a user runs it.

use std::process::{Command, Output};

use kqps_host::setup::HostSetup;

fn host(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kqps")).arg("host").args(args).output().unwrap()
}

#[test]
fn it_shows_cores_limits_and_settings() {
    let shown = host(&["show"]);
    assert!(shown.status.success());
    let text = String::from_utf8(shown.stdout).unwrap();
    let sections = ["Kernel", "Clock source", "Governor", "same L2", "net.core.rmem_max", "Max open files"];
    let settings = ["node 0", "SMT", "idle states", "conntrack", "irqbalance", "busy_read"];
    for wanted in sections.iter().chain(&settings) {
        assert!(text.contains(wanted), "no {wanted} in:\n{text}");
    }
    assert_eq!(String::from_utf8(shown.stderr).unwrap(), "");
    assert_eq!(String::from_utf8(host(&[]).stdout).unwrap().lines().next(), text.lines().next());
}

#[test]
fn its_json_is_one_object_and_nothing_else() {
    for args in [["--json", "show"], ["show", "--json"]] {
        let shown: serde_json::Value = serde_json::from_slice(&host(&args).stdout).unwrap();
        assert_eq!((&shown["kind"], &shown["schema"]), (&"host".into(), &kqps_observation::SCHEMA.into()));
        let offered = std::thread::available_parallelism().unwrap().get();
        assert_eq!(shown["cores"].as_array().unwrap().len(), offered);
        assert!(shown["sysctls"]["net.core.rmem_max"].is_string());
    }
}

#[test]
fn its_json_has_how_the_machine_is_set_up() {
    let shown: serde_json::Value = serde_json::from_slice(&host(&["--json"]).stdout).unwrap();
    let setup: HostSetup = serde_json::from_value(shown["setup"].clone()).unwrap();
    let loopback = setup.device("lo").unwrap();
    assert_eq!((loopback.queues.receiving(), loopback.bus.as_ref()), (1, None));
    assert_eq!(setup.sysctls["net.core.rmem_max"], shown["sysctls"]["net.core.rmem_max"]);
}

#[test]
fn only_cores_of_the_affinity_mask_are_offered() {
    let cpu = kqps_kernel::affinity::allowed().unwrap()[0].to_string();
    let shown = Command::new("taskset")
        .args(["--cpu-list", &cpu, env!("CARGO_BIN_EXE_kqps"), "host", "--json"])
        .output()
        .unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((shown["cores"].as_array().unwrap().len(), &shown["shared"]), (1, &true.into()));
}
