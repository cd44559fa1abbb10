//! `kqps host` as a user runs it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use kqps_kernel::namespace::{self, NetNs, sysfs};
use kqps_kernel::process::{Signal, signal};
use kqps_observation::Store;
use kqps_observation::run::Role;
use kqps_skips::{Capability, skip};

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

/// A setting that every network namespace has for itself, with the value of a new one and the file that holds it.
const TTL: &str = "sysctl.net.ipv4.ip_default_ttl";
const FILE: &str = "/proc/sys/net/ipv4/ip_default_ttl";

/// A network of its own, if this process may make one.
fn network() -> Option<NetNs> {
    match kqps_kernel::probe::probe_one("netns") {
        Ok(()) => Some(NetNs::new().unwrap()),
        Err(reason) => {
            skip(Capability::Networks, reason);
            None
        }
    }
}

/// `kqps host` in a network of its own, with a journal of its own.
fn tuned(network: &NetNs, state: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.arg("host").args(args).env("KQPS_STATE", state).env_remove("SSH_CONNECTION").stdin(Stdio::null());
    namespace::enter(&mut command, network).unwrap();
    command
}

fn ttl(network: &NetNs) -> String {
    network.within(|| fs::read_to_string(FILE)).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_commands_of_a_dry_run_set_what_they_say_in_a_shell() {
    let Some(network) = network() else { return };
    let state = tempfile::tempdir().unwrap();
    let advice = state.path().join("advice.json");
    let changes = format!(r#"[["{TTL}","41"],["sysctl.net.ipv4.ip_local_port_range","20000\t30000"]]"#);
    fs::write(&advice, format!(r#"{{"pieces":[{{"changes":{changes}}}]}}"#)).unwrap();
    let typed = format!("{TTL}=33");
    for (args, ttl_after) in [(vec![&*typed], "33\n"), (vec!["--from", advice.to_str().unwrap()], "41\n")] {
        let args = [&["apply", "--dry-run"][..], &args[..]].concat();
        let dry = tuned(&network, state.path(), &args).output().unwrap();
        assert!(dry.status.success(), "{}", text(&dry.stderr));
        assert!(!text(&dry.stdout).contains("\\x"), "{}", text(&dry.stdout));
        assert!(
            text(&dry.stdout).lines().any(|line| line.starts_with("sysctl -w ")),
            "{}",
            text(&dry.stdout)
        );
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &text(&dry.stdout)]);
        namespace::enter(&mut shell, &network).unwrap();
        let ran = shell.output().unwrap();
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        assert_eq!(ttl(&network), ttl_after);
    }
    let range = network.within(|| fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")).unwrap();
    assert_eq!(range, "20000\t30000\n");
}

#[test]
fn a_setting_is_applied_shown_and_undone() {
    let Some(network) = network() else { return };
    let state = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| tuned(&network, state.path(), args).output().unwrap();
    let before = ttl(&network);
    let dry = run(&["apply", &format!("{TTL}=33"), "--dry-run"]);
    assert!(text(&dry.stdout).contains("sysctl -w net.ipv4.ip_default_ttl=33\n"), "{}", text(&dry.stdout));
    assert_eq!(ttl(&network), before, "a dry run changes nothing");
    let dry = run(&["apply", &format!("{TTL}=33"), "--dry-run", "--json"]);
    let planned: serde_json::Value = serde_json::from_slice(&dry.stdout).unwrap();
    let planned = &planned["settings"][0];
    assert_eq!((&planned["state"], &planned["wanted"]), (&"planned".into(), &"33".into()));
    assert_eq!(planned["command"], "sysctl -w net.ipv4.ip_default_ttl=33");

    let applied = run(&["apply", &format!("{TTL}=33")]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    assert_eq!(ttl(&network), "33\n");
    let status: serde_json::Value = serde_json::from_slice(&run(&["status", "--json"]).stdout).unwrap();
    let shown = &status["settings"][0];
    assert_eq!(
        (&shown["setting"], &shown["wanted"], &shown["state"]),
        (&TTL.into(), &"33".into(), &"set".into())
    );
    let undone = run(&["undo"]);
    assert!(undone.status.success(), "{}", text(&undone.stderr));
    assert_eq!(ttl(&network), before);
    assert!(text(&run(&["status"]).stdout).contains("has set nothing here"));
}

#[test]
fn what_somebody_else_changed_since_is_left_and_named_once() {
    let Some(network) = network() else { return };
    let state = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| tuned(&network, state.path(), args).output().unwrap();
    assert!(run(&["apply", &format!("{TTL}=33")]).status.success());
    network.within(|| fs::write(FILE, "44")).unwrap();
    let undone = run(&["undo"]);
    assert_eq!(undone.status.code(), Some(1));
    let said = text(&undone.stderr);
    assert!(
        said.contains("stays 44, and was ") && said.contains("somebody else has changed it since"),
        "{said}"
    );
    assert_eq!(ttl(&network), "44\n");
    let again = run(&["undo"]);
    assert!(
        again.status.success() && text(&again.stderr).contains("nothing to undo"),
        "{}",
        text(&again.stderr)
    );
}

#[test]
fn devices_are_those_of_its_own_network_whatever_sys_shows() {
    let Some(network) = network() else { return };
    let state = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| tuned(&network, state.path(), args).output().unwrap();
    let read = || fs::read_to_string("/sys/class/net/lo/queues/rx-0/rps_cpus");
    let own = || {
        let seen = network.within(|| {
            sysfs::show_own_devices()?;
            read()
        });
        seen.unwrap()
    };
    // The program sees the host's /sys, in which another device has the name.
    let (of_host, before) = (read().unwrap(), own());
    let applied = run(&["apply", "rps.lo=0"]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    assert_eq!(own().trim().trim_start_matches(['0', ',']), "1");
    assert_eq!(read().unwrap(), of_host, "the host's device is another one");
    assert!(run(&["undo"]).status.success());
    assert_eq!(own(), before);
}

#[test]
fn what_was_set_in_another_network_is_named_and_kept() {
    let Some(network) = network() else { return };
    let state = tempfile::tempdir().unwrap();
    let before = ttl(&network);
    let run = |args: &[&str]| tuned(&network, state.path(), args).output().unwrap();
    assert!(run(&["apply", &format!("{TTL}=33")]).status.success());
    let undone = host_with(&state, &["undo"]);
    assert_eq!(undone.status.code(), Some(1));
    let expected = format!("Left: {TTL}, which was set in network namespace {}", network.number().unwrap());
    assert!(text(&undone.stderr).contains(&expected), "{}", text(&undone.stderr));
    let status: serde_json::Value =
        serde_json::from_slice(&host_with(&state, &["status", "--json"]).stdout).unwrap();
    assert_eq!(status["settings"][0]["state"], "elsewhere");
    assert!(run(&["undo"]).status.success());
    assert_eq!(ttl(&network), before);
}

#[test]
fn what_a_running_process_holds_is_left_and_named() {
    let Some(network) = network() else { return };
    let state = tempfile::tempdir().unwrap();
    let before = ttl(&network);
    let setting = format!("{TTL}=33");
    let loop_until_term = "trap 'echo ended; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let args = ["apply", &setting, "--for", "sh", "-c", loop_until_term];
    let mut command = tuned(&network, state.path(), &args);
    let mut kqps = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(kqps.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "ready"));
    let undone = tuned(&network, state.path(), &["undo"]).output().unwrap();
    assert_eq!(undone.status.code(), Some(1));
    assert!(text(&undone.stderr).contains(&format!("which process {} holds", kqps.id())), "{undone:?}");
    // A signal to kqps alone reaches the command, and the settings are undone when that has ended.
    signal(kqps.id(), Signal::Terminate).unwrap();
    assert!(lines.any(|line| line == "ended"));
    let ended = kqps.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(143));
    assert!(!text(&ended.stderr).contains("To take it back"), "{}", text(&ended.stderr));
    assert_eq!(ttl(&network), before);
}

#[test]
fn the_guard_undoes_what_a_killed_process_held() {
    let Some(network) = network() else { return };
    let state = tempfile::tempdir().unwrap();
    let before = ttl(&network);
    let setting = format!("{TTL}=33");
    let args = ["apply", &setting, "--for", "sh", "-c", "echo $$; exec sleep 600"];
    let mut kqps = tuned(&network, state.path(), &args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(kqps.stdout.take().unwrap()).lines().map_while(Result::ok);
    let sleeper = lines.find_map(|line| line.parse::<u32>().ok()).unwrap();
    assert_eq!(ttl(&network), "33\n");
    kqps.kill().unwrap();
    kqps.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while ttl(&network) != before {
        assert!(Instant::now() < deadline, "the guard does not undo");
        std::thread::yield_now();
    }
    signal(sleeper, Signal::Kill).unwrap();
}

#[test]
fn settings_for_a_command_end_with_it_and_its_status_is_that_of_kqps() {
    let Some(network) = network() else { return };
    let state = tempfile::tempdir().unwrap();
    let before = ttl(&network);
    let setting = format!("{TTL}=33");
    let shown = format!("cat {FILE}; exit 7");
    let ran =
        tuned(&network, state.path(), &["apply", &setting, "--for", "sh", "-c", &shown]).output().unwrap();
    assert_eq!(ran.status.code(), Some(7), "{}", text(&ran.stderr));
    assert!(text(&ran.stdout).ends_with("33\n"), "{}", text(&ran.stdout));
    assert_eq!(ttl(&network), before);
}

#[test]
fn without_a_confirmation_it_is_undone() {
    let Some(network) = network() else { return };
    let state = tempfile::tempdir().unwrap();
    let before = ttl(&network);
    let setting = format!("{TTL}=33");
    // Standard input is at its end at once.
    let ran =
        tuned(&network, state.path(), &["apply", &setting, "--confirm-within", "30s"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stderr).contains("not confirmed, and is undone"), "{}", text(&ran.stderr));
    assert_eq!(ttl(&network), before);
}

#[test]
fn bad_settings_are_one_sentence() {
    let state = tempfile::tempdir().unwrap();
    for (args, status, expected) in [
        (&["apply", "rsp.eth0=0"][..], 2, "no setting is called `rsp.eth0`; did you mean `rps`?"),
        (&["apply", "rps.lo=3-1"], 2, "rps.lo: expected cores such as 0,2-3, or none, found `3-1`"),
        (&["apply", "rps.none0=0"], 1, "kqps: rps.none0: this host has no such setting"),
        (&["apply"], 2, "SETTING=VALUE"),
        (&["try", "rps.none0=0"], 1, "kqps: rps.none0: this host has no such setting"),
        (
            &["try", "rps.kqps0=0", "--subject", "echo path=veth", "--keep"],
            2,
            "--keep: the devices of a veth path",
        ),
        (&["try", "rps.lo=0", "--subject", "echo path=veth"], 2, "over kqps0, and no packet passes lo"),
    ] {
        let command = host_with(&state, args);
        let said = text(&command.stderr);
        assert_eq!(command.status.code(), Some(status), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

fn host_with(state: &tempfile::TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.arg("host").args(args).env("KQPS_STATE", state.path()).stdin(Stdio::null()).output().unwrap()
}

/// A study of one echo over loopback and one over a path of its own, each with settings of the host.
const STUDY: &str = r#"
name = "tuned"
title = "Tuned"
question = "?"
repetitions = 1
load = { closed_s = 0.1 }
fixed = { "host.sysctl.net.ipv4.ip_default_ttl" = "33" }
[[experiment]]
name = "host"
title = "Host"
[experiment.factors]
io = ["mmsg"]
[[experiment]]
name = "path"
title = "Path"
path = "veth"
[experiment.factors]
"host.receive-core" = ["last"]
"#;

#[test]
fn a_study_sets_what_its_cells_ask_for_and_undoes_it() {
    let Some(network) = network() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (study, out, state) =
        (folder.path().join("tuned.toml"), folder.path().join("out"), folder.path().join("state"));
    fs::write(&study, STUDY).unwrap();
    let before = ttl(&network);
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command
        .arg("run")
        .arg(&study)
        .args(["--no-install", "--records", "50", "--seed", "3", "--out"])
        .arg(&out);
    command.env("KQPS_STATE", &state).stdin(Stdio::null());
    let ran = namespace::enter(&mut command, &network).unwrap().output().unwrap();
    assert!(out.join("run.sqlite").exists(), "{}", text(&ran.stderr));
    let run = Store::read(&out.join("run.sqlite")).unwrap();
    assert_eq!(run.skipped.keys().filter(|what| what.contains(": ")).count(), 0, "{:?}", run.skipped);
    let core = run.cells.iter().find_map(|cell| cell.factors.word("host.receive-core"));
    assert!(core.is_some_and(|core| core.parse::<u32>().is_ok()), "{core:?}");
    for (number, cell) in run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::Subject) {
        let trials: Vec<_> = run.trials_of(number).collect();
        let failures: Vec<_> = trials.iter().filter_map(|trial| trial.failure()).collect();
        assert!(!trials.is_empty() && failures.is_empty(), "{}: {failures:?}", cell.name);
    }
    assert_eq!(ttl(&network), before);
    let left = tuned(&network, &state, &["status"]).output().unwrap();
    assert!(text(&left.stdout).contains("has set nothing here"), "{}", text(&left.stdout));
}

#[test]
fn a_setting_that_is_tried_is_undone_and_a_placebo_is_not_kept() {
    let Some(network) = network() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (out, state) = (folder.path().join("out"), folder.path().join("state"));
    let before = ttl(&network);
    let setting = format!("{TTL}=33");
    // A single block cannot show anything. Its trials are longer than a busy host lets a server wait for a core.
    let args = ["try", &setting, "--keep", "--blocks", "1", "--duration", "500ms", "--seed", "3", "--out"];
    let ran = tuned(&network, &state, &args).arg(&out).output().unwrap();
    assert_eq!(ran.status.code(), Some(3), "{}", text(&ran.stderr));
    let run = Store::read(&out.join("run.sqlite")).unwrap();
    let words: Vec<Option<&str>> =
        run.cells.iter().map(|cell| cell.factors.word("host.sysctl.net.ipv4.ip_default_ttl")).collect();
    assert_eq!(words, [None, None, Some("33")]);
    assert!(run.trials.iter().all(|trial| trial.measured().is_some()));
    assert_eq!(ttl(&network), before);
}
