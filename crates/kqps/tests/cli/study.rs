//! `kqps run STUDY.toml` as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kqps_observation::run::{Purpose, Role};
use kqps_observation::trial::Transport;
use kqps_observation::{EarlyFacts, Run, Store};
use serde_json::Value;
use tempfile::TempDir;

/// Two I/O models, one or two processes, and fixed rates beside a closed loop.
const STUDY: &str = r#"
name = "tiny"
title = "A tiny study"
question = "Does it work?"
source = "a test"
repetitions = 2
load = { closed_s = 0.1 }

[bundles.client.few]
"player.sockets" = 1
[bundles.client.many]
"player.sockets" = 6

[[experiment]]
name = "models"
title = "Models"
fixed = { sockets = "reuseport" }
[experiment.factors]
io = ["blocking", "poll"]
processes = [1, 2]
client = ["many"]
[[experiment.table]]
title = "Rates"
rows = ["io"]
columns = "processes"
show = ["median", "published"]
[[experiment.published]]
factors = { io = "poll" }
across = "processes"
rates_qps = [1000, 2000]

[[experiment]]
name = "rates"
title = "Rates"
load = { rates_qps = [1000, 2000], seconds = 0.1 }
fixed = { "host.nice" = 3 }
[experiment.factors]
client = ["few"]
"#;

struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new(study: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("study.toml"), study).unwrap();
        Self { folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let study = self.folder.path().join("study.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        command.env_remove("KQPS_INSTALL_SUBJECTS").stdin(Stdio::null());
        command.arg("run").arg(study).args(["--records", "200", "--seed", "5"]).args(arguments);
        command.output().unwrap()
    }

    fn stored(&self) -> Run {
        Store::read(&self.out().join("run.sqlite")).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_cell_is_measured_as_often_as_the_study_says() {
    let lab = Lab::new(STUDY);
    let output = lab.run(&["--out", &lab.out().display().to_string()]);
    let run = lab.stored();
    assert!(run.finished_unix_ms.is_some(), "{}", text(&output.stderr));
    assert_eq!(run.question.as_ref().unwrap().experiments.len(), 2);
    for (index, cell) in run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::Subject) {
        let trials = || run.trials.iter().filter(move |trial| trial.cell as usize == index);
        assert!(trials().all(|trial| trial.failure().is_none()), "{}: {:?}", cell.name, trials().next());
        let wanted = if cell.experiment == "rates" { (Purpose::Rate, 4) } else { (Purpose::Closed, 2) };
        let made = trials().filter(|trial| trial.purpose == wanted.0).count();
        assert!(made >= wanted.1, "{}: {made}", cell.name);
        let starts = trials().map(|trial| trial.start).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(starts.len(), 2, "{}", cell.name);
        let sockets = if cell.experiment == "rates" { 1 } else { 6 };
        assert!(
            trials().filter_map(|trial| trial.measured()).all(|trial| trial.players.first.sockets == sockets)
        );
        let processes: u32 = cell.factors.word("processes").map_or(1, |word| word.parse().unwrap());
        // A supervisor and its workers; a single worker has no supervisor.
        let seen = trials().filter_map(|trial| Some(trial.measured()?.subject.as_ref()?.processes));
        assert!(seen.into_iter().all(|seen| seen >= processes), "{}", cell.name);
    }
    let study = std::fs::read_to_string(lab.out().join("study.toml")).unwrap();
    assert_eq!(study, STUDY, "the study as it was run lies beside its results");
    assert!(lab.out().join("report.html").exists());
}

/// Kept connections, and one for each query, at the echo and at a server.
const OVER_TCP: &str = r#"
name = "over-tcp"
title = "Over TCP"
question = "Do connections work?"
repetitions = 1
load = { rates_qps = [500], seconds = 0.4 }
fixed = { "player.transport" = "tcp", "player.timeout_s" = 2 }

[bundles.connections.kept]
"player.connections" = 4
[bundles.connections.each]
"player.connections" = 64
"player.queries_per_connection" = 1
"player.sources" = "spread"

[[experiment]]
name = "tcp"
title = "TCP"
subjects = ["echo", "kqps-auth"]
[experiment.factors]
connections = ["kept", "each"]
[[experiment.table]]
title = "Rates"
rows = ["subject"]
columns = "connections"
show = ["median", "cpu", "ceiling-share"]
"#;

#[test]
fn a_study_over_tcp_plays_every_cell_and_ceiling_over_connections() {
    let lab = Lab::new(OVER_TCP);
    let output = lab.run(&["--out", &lab.out().display().to_string()]);
    let run = lab.stored();
    assert!(run.finished_unix_ms.is_some(), "{}", text(&output.stderr));
    let names: Vec<&str> = run.cells.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(run.cells.len(), 8, "a ceiling of the player and an echo for each of both ways: {names:?}");
    for (index, cell) in run.cells.iter().enumerate() {
        assert!(cell.role == Role::Subject || cell.name.contains(" over tcp, "), "{}", cell.name);
        let of_cell = || run.trials.iter().filter(move |trial| trial.cell as usize == index);
        assert!(of_cell().all(|trial| trial.failure().is_none()), "{}: {:?}", cell.name, of_cell().next());
        let measured: Vec<_> = of_cell().filter_map(|trial| trial.measured()).collect();
        assert!(measured.iter().any(|trial| trial.accounts.correct > 0), "{}: no figure", cell.name);
        for trial in measured {
            assert_eq!(trial.transport, Transport::Tcp, "{}", cell.name);
            assert_eq!(trial.accounts.check(), Ok(()), "{}", cell.name);
            let connections = trial.connections.as_ref().unwrap();
            assert_eq!(connections.check(trial.sent_on_connections()), Ok(()), "{}", cell.name);
            assert_eq!(trial.accounts.wrong, 0, "{}", cell.name);
            if cell.factors.player().queries_per_connection.is_none() {
                assert_eq!((connections.before_load, connections.handed), (4, trial.accounts.sent));
            } else {
                assert_eq!(connections.before_load, 0, "{}", cell.name);
                assert!(connections.established >= trial.accounts.correct, "{}: {connections:?}", cell.name);
            }
        }
    }
    let json = serde_json::to_value(run.trials[0].measured().unwrap()).unwrap();
    assert_eq!(json["transport"], "tcp");
    let page = std::fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(
        page.contains("player.connections 4") && page.contains("player.transport tcp"),
        "the cells' factors"
    );
}

/// Kept connections, and a full handshake for each query, at the echo and at a server.
const OVER_TLS: &str = r#"
name = "over-tls"
title = "Over TLS"
question = "Do handshakes work?"
repetitions = 1
load = { rates_qps = [200], seconds = 0.4 }
fixed = { "player.transport" = "tls", "player.timeout_s" = 2 }

[bundles.way.kept]
"player.connections" = 4
[bundles.way.full]
"player.connections" = 16
"player.queries_per_connection" = 1
"player.resume" = false
"player.tls_group" = "secp256r1"
"player.sources" = "127.3.0.0/16"
"subject.certificate" = "rsa-2048"

[[experiment]]
name = "tls"
title = "TLS"
subjects = ["echo", "kqps-auth"]
[experiment.factors]
way = ["kept", "full"]
[[experiment.table]]
title = "Rates"
rows = ["subject"]
columns = "way"
show = ["median", "cpu", "ceiling-share", "memory-per-connection"]
"#;

#[test]
fn an_encrypted_study_has_certificates_of_its_own_and_ceilings_over_its_transport() {
    studied_over(Transport::Tls, &["echo", "kqps-auth"], &["kept", "full"]);
    for transport in [Transport::Https, Transport::Quic] {
        studied_over(transport, &["kqps-auth"], &["full"]);
    }
}

fn studied_over(transport: Transport, subjects: &[&str], ways: &[&str]) {
    let word = transport.word();
    let of_transport = format!("\"player.transport\" = \"{word}\"");
    let study = OVER_TLS.replace("\"player.transport\" = \"tls\"", &of_transport);
    let study = study.replace("[\"echo\", \"kqps-auth\"]", &format!("{subjects:?}"));
    let own = match transport {
        Transport::Https => "\"player.http_method\" = \"get\"\n",
        Transport::Quic => "\"player.congestion\" = \"cubic\"\n\"player.connect_timeout_s\" = 3\n",
        Transport::Udp | Transport::Tcp | Transport::Tls => "",
    };
    let study = study.replace("\"player.resume\" = false\n", &format!("\"player.resume\" = false\n{own}"));
    let lab = Lab::new(&study.replace("[\"kept\", \"full\"]", &format!("{ways:?}")));
    let output = lab.run(&["--out", &lab.out().display().to_string()]);
    let run = lab.stored();
    assert!(run.finished_unix_ms.is_some(), "{}", text(&output.stderr));
    let ceilings = 2;
    let cells = (ceilings + subjects.len()) * ways.len();
    assert_eq!(run.cells.len(), cells, "a ceiling of the player and an echo for each way");
    for (index, cell) in run.cells.iter().enumerate() {
        let over = format!(" over {word}, ");
        assert!(cell.role == Role::Subject || cell.name.contains(&over), "{}", cell.name);
        let of_cell = || run.trials.iter().filter(move |trial| trial.cell as usize == index);
        assert!(of_cell().all(|trial| trial.failure().is_none()), "{}: {:?}", cell.name, of_cell().next());
        let measured: Vec<_> = of_cell().filter_map(|trial| trial.measured()).collect();
        assert!(measured.iter().any(|trial| trial.accounts.correct > 0), "{}: no figure", cell.name);
        let is_kept = cell.factors.player().queries_per_connection.is_none();
        for trial in measured {
            assert_eq!((trial.transport, trial.accounts.wrong), (transport, 0), "{}", cell.name);
            let connections = trial.connections.as_ref().unwrap();
            assert_eq!(connections.check(trial.sent_on_connections()), Ok(()), "{}", cell.name);
            assert!(connections.http.as_ref().is_none_or(|http| http.method == "get"), "{}", cell.name);
            assert!(connections.quic.as_ref().is_none_or(|quic| quic.congestion == "cubic"), "{}", cell.name);
            let tls = connections.tls.as_ref().unwrap();
            assert_eq!((tls.trust.as_str(), tls.resume), ("ca", is_kept), "{}", cell.name);
            assert!(tls.failures.is_empty(), "{}: {:?}", cell.name, tls.failures);
            let certificate = if is_kept { "ECDSA-P256" } else { "RSA-2048" };
            for session in &tls.sessions {
                assert_eq!(session.certificate.as_deref(), Some(certificate), "{}", cell.name);
                assert!(is_kept || session.group.as_deref() == Some("secp256r1"), "{session:?}");
            }
            let resumed = tls.handshakes.get("resumed").copied().unwrap_or(0);
            assert!(is_kept || resumed == 0, "{:?}", tls.handshakes);
        }
    }
    let page = std::fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(page.contains("player.resume false") && page.contains("subject.certificate rsa-2048"));
    assert!(!has_private_key(&lab.out()), "no key stays in the folder of the run");
}

/// The places for connections in [`EARLY`].
const EARLY_PLACES: u64 = 4;

/// A connection for each query, with early data and without it, at a server that takes it and at one that does not.
const EARLY: &str = r#"
name = "early"
title = "Early data"
question = "Is it taken?"
repetitions = 1
load = { rates_qps = [200], seconds = 0.4 }

[fixed]
"player.transport" = "tls"
"player.timeout_s" = 2
"player.queries_per_connection" = 1
"player.connections" = 4

[[experiment]]
name = "early"
title = "Early data"
subjects = ["kqps-auth"]
[experiment.factors]
"player.early_data" = [true, false]
early_data = ["yes", "no"]

[[experiment]]
name = "cache"
title = "Early data of a cache"
subjects = ["kqps-cache"]
[experiment.factors]
"player.early_data" = [true]
early_data = ["yes"]
"#;

#[test]
fn a_study_of_early_data_has_servers_and_ceilings_that_take_it() {
    let lab = Lab::new(EARLY);
    let output = lab.run(&["--out", &lab.out().display().to_string()]);
    let run = lab.stored();
    assert!(run.finished_unix_ms.is_some(), "{}", text(&output.stderr));
    let mut subjects = 0;
    for (index, cell) in run.cells.iter().enumerate() {
        let is_sent = cell.factors.player().early_data == Some(true);
        let is_taken = cell.factors.word("early_data") == Some("yes");
        assert!(cell.role == Role::Subject || is_taken == is_sent, "{}", cell.name);
        subjects += usize::from(cell.role == Role::Subject);
        let of_cell = run.trials.iter().filter(|trial| trial.cell as usize == index);
        let measured: Vec<_> = of_cell.filter_map(|trial| trial.measured()).collect();
        assert!(!measured.is_empty(), "{}", cell.name);
        let (mut accepted, mut attempts) = (0, 0);
        for trial in measured {
            let connections = trial.connections.as_ref().unwrap();
            assert_eq!(connections.check(trial.accounts.sent), Ok(()), "{}", cell.name);
            let early = connections.early_data();
            assert_eq!(early.is_some(), is_sent, "{}", cell.name);
            let Some(early) = early else { continue };
            if !is_taken {
                assert_eq!(early, EarlyFacts::default(), "{}: no ticket allows it", cell.name);
                continue;
            }
            // The server knows each session that a ticket resumes, and a session is resumed once.
            assert_eq!((early.rejected, early.queries_again), (0, 0), "{}: {early:?}", cell.name);
            assert_eq!(early.offered, connections.tls.as_ref().unwrap().tickets_offered, "{}", cell.name);
            accepted += early.accepted;
            attempts += connections.attempts;
        }
        // The first connection of a place has a ticket for the second one before it ends.
        let has_tickets = is_taken && attempts > EARLY_PLACES;
        assert!(accepted > 0 || !has_tickets, "{}: none of {attempts} attempts", cell.name);
    }
    assert_eq!(subjects, 5);
}

/// Whether a file in this folder, or in one below it, has a private key.
fn has_private_key(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            return has_private_key(&path);
        }
        let content = std::fs::read(&path).unwrap_or_default();
        String::from_utf8_lossy(&content).contains("PRIVATE KEY")
    })
}

#[test]
fn a_dry_run_prints_cells_order_and_time_and_measures_nothing() {
    let lab = Lab::new(STUDY);
    let output = lab.run(&["--dry-run", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((plan["kind"].as_str(), plan["blocks"].as_u64()), (Some("plan"), Some(2)));
    let cells = plan["cells"].as_array().unwrap();
    let subjects = cells.iter().filter(|cell| cell["role"] == "subject").count();
    assert_eq!(subjects, 5);
    for block in plan["order"].as_array().unwrap() {
        let mut numbers: Vec<u64> = block.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..cells.len() as u64).collect::<Vec<_>>());
    }
    assert!(plan["estimate_s"].as_f64().unwrap() > 1.0);
    let words = text(&lab.run(&["--dry-run"]).stdout);
    assert!(words.ends_with(" if nothing else keeps the host busy.\n"), "{words}");
    assert!(words.contains("models: io=poll; processes=2; client=many: closed loop, 0.1 s"), "{words}");
    assert!(words.starts_with("A tiny study\nDoes it work?\n"), "{words}");
    assert!(
        words.contains("block 2: ") && words.contains("2 blocks, goal `quick`, seed 5: about"),
        "{words}"
    );
    let block = words.split("block 1: ").nth(1).unwrap();
    assert!(
        block.split("block 2: ").next().unwrap().contains(" · "),
        "cells are named in their order: {words}"
    );
    assert_eq!(std::fs::read_dir(lab.folder.path()).unwrap().count(), 1, "nothing was written");
}

#[test]
fn a_budget_bounds_the_repetitions() {
    let lab = Lab::new(STUDY);
    let words = text(&lab.run(&["--dry-run", "--budget", "12s"]).stdout);
    assert!(
        words.contains("1 block, goal `quick`, seed 5: about") && words.contains("of the budget of 12 s."),
        "{words}"
    );
    for more in [&["--dry-run"][..], &[]] {
        let output = lab.run(&[&["--budget", "1s"], more].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let least = said.split("give it --budget ").nth(1).and_then(|rest| rest.split(' ').next());
        let least = least.unwrap_or_else(|| panic!("the least budget is not named: {said}"));
        let enough = lab.run(&["--dry-run", "--budget", least]);
        assert_eq!(enough.status.code(), Some(0), "{least}: {}", text(&enough.stderr));
    }
}

#[test]
fn hours_are_printed_as_such() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kqps")).args(["run", "windows-mix", "--dry-run"]).output().unwrap();
    let words = text(&output.stdout);
    let last = words.lines().last().unwrap_or_default();
    assert!(last.contains(" h ") && last.contains(" min if nothing else keeps the host busy."), "{words}");
}

#[test]
fn the_studies_that_kqps_carries_are_known_by_name() {
    for name in ["isc-echo", "unbound-scaling", "name-servers", "bind10-receptionist", "encrypted", "cache"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_kqps")).args(["run", name, "--dry-run"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("player ceiling"), "{}", text(&output.stdout));
    }
}

#[test]
fn a_wrong_study_is_one_clear_error() {
    let wrong = |study: &str| {
        let lab = Lab::new(study);
        let output = lab.run(&["--out", &lab.out().display().to_string()]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(!lab.out().join("run.sqlite").exists());
        text(&output.stderr)
    };
    assert!(wrong(&STUDY.replace("repetitions", "repetition")).contains("did you mean `repetitions`?"));
    assert!(wrong(&STUDY.replace("\"reuseport\"", "\"reusport\"")).contains("did you mean `reuseport`?"));
    assert!(wrong("name = ").contains("study.toml:1:"));
    let connections = STUDY.replace("\"host.nice\" = 3", "\"player.connections\" = 3");
    let said = wrong(&connections);
    assert!(said.contains("`player.connections` sets nothing over udp"), "{said}");
    assert!(
        wrong(&STUDY.replace("title = \"Models\"", "title = \"Models\"\nsubjects = [\"nds\"]"))
            .contains("did you mean `nsd`?")
    );
    let none =
        Command::new(env!("CARGO_BIN_EXE_kqps")).args(["run", "isc-ecko", "--dry-run"]).output().unwrap();
    assert!(text(&none.stderr).contains("did you mean `isc-echo`?"), "{}", text(&none.stderr));
    let none = Command::new(env!("CARGO_BIN_EXE_kqps")).args(["run", "./none.toml"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    let said = text(&none.stderr);
    assert!(
        said.contains("cannot read ./none.toml") && !said.contains("did you mean"),
        "a path is no name: {said}"
    );
}
