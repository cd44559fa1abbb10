//! `kqps load` and `kqps find`, run as a user would, against the echo: what they print, what they refuse, and
//! that bad input leads to one clear error.

pub(crate) mod bench;
mod dnsperf;
mod early_data;
pub(crate) mod encrypted;
mod families;
mod finite;
mod https;
mod interrupted;
mod large;
pub(crate) mod limited;
mod odd_lines;
mod per_query;
mod ports;
mod progress;
mod quic;
mod sent;
mod slow;
mod status;
mod tcp;
mod tls;
pub(crate) mod trouble;
mod watched;
mod window;
mod words;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use bench::{Bench, Echo, kqps, unused_address, words};
use kqps_kernel::process::{Signal, signal};
use kqps_kernel::{affinity, idle, priority};
use kqps_observation::Trial;
use kqps_skips::{Capability, skip};
use trouble::offered_io;

#[test]
fn the_record_says_what_was_really_used() {
    let bench = Bench::new();
    for io in offered_io() {
        let trial =
            bench.trial(&["-Q", "2k", "-l", "0.3s", "--io", io, "-T", "2", "-c", "6", "--burst", "8"]);
        trial.accounts.check().unwrap();
        assert_eq!(trial.accounts.intended, 600);
        assert_eq!(
            (trial.players.first.io.as_str(), trial.players.first.threads, trial.players.first.sockets),
            (io, 2, 6)
        );
        assert_eq!((trial.load.burst, trial.dataset.queries), (8, 1000));
        assert_eq!(trial.response_rcodes.get("NOERROR"), Some(&trial.accounts.correct));
    }
}

#[test]
fn auto_takes_the_best_that_the_host_offers_and_says_which() {
    let offered = ["gso", "mmsg"].into_iter().find(|io| kqps_player::offers(io.parse().unwrap()).is_ok());
    let bench = Bench::new();
    for flags in [&[][..], &["--io", "auto"]] {
        let trial = bench.trial(&[&["-Q", "1k", "-n", "1"], flags].concat());
        assert_eq!(Some(trial.players.first.io.as_str()), offered, "{flags:?}");
    }
}

#[test]
fn sockets_and_passes_are_shared_out_among_any_number_of_threads() {
    let bench = Bench::new();
    for (threads, sockets) in [("3", "4"), ("4", "6"), ("5", "8")] {
        let trial = bench.trial(&["-Q", "2k", "-l", "0.1s", "-T", threads, "-c", sockets]);
        assert_eq!(trial.accounts.intended, 200);
        assert_eq!(trial.players.first.sockets.to_string(), sockets);
    }
    std::fs::write(bench.queries(), "one.example.test A\n").unwrap();
    let trial = bench.trial(&["-Q", "1k", "-T", "4", "-n", "10"]);
    // A late player takes longer, but none is faster.
    assert_eq!(trial.accounts.intended, 10);
    assert!(trial.load.duration_s >= 0.01, "{}", trial.load.duration_s);
    assert_eq!(bench.trial(&["-q", "8", "-T", "4", "-n", "10"]).accounts.intended, 10);
    assert_eq!(bench.trial(&["-q", "8", "-x", "0"]).accounts.intended, 1, "port 0 is any");
    // Two queries at two a second take a second, not half of one.
    let two = bench.trial(&["-Q", "2", "-n", "2"]);
    assert!(two.load.duration_s >= 1.0 && two.load.offered_qps <= 2.0, "{:?}", two.load);
}

#[test]
fn several_targets_each_get_their_share() {
    let bench = Bench::new();
    let other = Echo::new();
    let mut load = kqps(&["load", &bench.echo.address, &other.address, "-d"]);
    load.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path());
    load.args(["-Q", "5k", "-n", "2", "--lag", "1m", "--burst", "1", "-T", "2", "-c", "6", "--json"]);
    let trial: Trial = serde_json::from_slice(&load.output().unwrap().stdout).unwrap();
    assert_eq!(trial.accounts.correct, 2000);
    assert_eq!(trial.accounts.unsolicited, 0);
    assert_eq!(trial.targets, [bench.echo.address.clone(), other.address.clone()]);
    assert_eq!((bench.echo.answered(), other.answered()), (1000, 1000));
}

#[test]
fn the_record_says_what_shaped_the_load() {
    let bench = Bench::new();
    std::fs::write(bench.queries(), "good.example A\nbad.example AAAAB\n").unwrap();
    let flags = ["-Q", "1k", "-n", "5", "--skip-bad", "--coalesce", "7us", "--seed", "9"];
    let trial = bench.trial(&flags);
    assert_eq!((trial.dataset.queries, trial.dataset.skipped), (1, 1));
    let load = trial.load;
    assert_eq!((load.coalesce_us, load.lag_allowed_us, load.seed), (Some(7.0), Some(6e7), Some(9)));
    assert_eq!(trial.targets, [trial.target]);
}

/// A core for the player and another for the subject, as flags take them. `None` if there is only one, which is
/// reported as a skip.
fn two_cores() -> Option<(String, String)> {
    let cpus = affinity::allowed().unwrap();
    let [one, .., other] = &*cpus else {
        skip(Capability::Cores, "one core only");
        return None;
    };
    Some((one.to_string(), other.to_string()))
}

#[test]
fn threads_run_first_and_stay_awake_only_on_cores_that_are_not_the_subjects() {
    let Some((one, other)) = two_cores() else { return };
    let (one, other) = (&*one, &*other);
    let is_permitted = std::thread::spawn(priority::run_first).join().unwrap().is_ok();
    let can_stay_awake = idle::stay_awake().is_ok();
    let bench = Bench::new();
    // Whether the player's thread ran before others, and whether it stayed awake while idle.
    let played = |flags: &[&str]| {
        let trial = bench.trial(&[&["-Q", "1k", "-n", "1"], flags].concat());
        assert_eq!(trial.accounts.intended, 1000);
        if is_permitted {
            assert_eq!(trial.players.first.cores_awake, trial.players.first.real_time && can_stay_awake);
        }
        let thread = &trial.players.first.per_thread[0];
        let sum_s = thread.busy * trial.hosts.first.wall_s + thread.awake_s;
        assert!((sum_s - thread.cpu_s).abs() < 1e-6, "{sum_s} of {} s", thread.cpu_s);
        let stayed_awake = thread.awake_s > 0.0;
        if !flags.contains(&"--coalesce") {
            assert_eq!(trial.load.coalesce_us, Some(if stayed_awake { 10.0 } else { 20.0 }));
        }
        (trial.players.first.real_time, stayed_awake)
    };
    let own = ["--cpus", one, "--subject-cpus", other];
    assert_eq!(played(&own), (is_permitted, true));
    assert_eq!(played(&[&own[..], &["--coalesce", "20us"]].concat()), (is_permitted, true));
    // A user who lets queries wait for longer wants to save CPU time.
    assert_eq!(played(&[&own[..], &["--coalesce", "21us"]].concat()), (is_permitted, false));
    let both = format!("{one},{other}");
    for flags in [
        &["--cpus", one, "--subject-cpus", other, "--priority", "usual"][..],
        &["--cpus", &both, "--subject-cpus", other],
        // Two threads on one core.
        &["--cpus", one, "--subject-cpus", other, "-T", "2"],
        &["--cpus", one],
        &["--subject-cpus", other],
    ] {
        assert_eq!(played(flags), (false, false), "{flags:?}");
    }
}

#[test]
fn without_an_end_it_plays_the_queries_once() {
    let bench = Bench::new();
    assert_eq!(bench.trial(&["-q", "20"]).accounts.intended, 1000);
    assert_eq!(bench.trial(&["-q", "20", "-n", "3"]).accounts.intended, 3000);
}

/// Seconds for which the core was withheld from a player that was stopped for 0.2 s.
fn withheld_s_when_stopped(bench: &Bench, flags: &[&str]) -> f64 {
    let mut load = bench.load(&["-Q", "1k", "-l", "1h", "-S", "100ms", "--json"]);
    let mut child = load.args(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(printed.any(|line| !line.contains("sent 0.0k q/s")));
    signal(child.id(), Signal::Stop).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    signal(child.id(), Signal::Continue).unwrap();
    assert!(printed.any(|line| !line.contains("sent 0.0k q/s")));
    signal(child.id(), Signal::Interrupt).unwrap();
    let output = child.wait_with_output().unwrap();
    let trial: Trial = serde_json::from_slice(&output.stdout).unwrap();
    trial.players.first.per_thread.iter().map(|thread| thread.withheld_s).sum()
}

#[test]
fn a_core_that_was_withheld_shows_where_nothing_else_can_have_had_it() {
    let Some((one, other)) = two_cores() else { return };
    if std::thread::spawn(priority::run_first).join().unwrap().is_err() {
        return skip(Capability::RealTime, "no thread may run before all others");
    }
    let bench = Bench::new();
    let own = ["--cpus", &*one, "--subject-cpus", &*other, "--coalesce", "100us"];
    let withheld_s = withheld_s_when_stopped(&bench, &own);
    assert!(withheld_s >= 0.15, "{withheld_s}");
    let usual = [&own[..], &["--priority", "usual"]].concat();
    let withheld_s = withheld_s_when_stopped(&bench, &usual);
    assert!(withheld_s == 0.0, "{withheld_s}");
}

#[test]
fn silence_is_reported_with_its_likely_cause() {
    let bench = Bench::new();
    let unused = unused_address();
    let mut command = kqps(&["load", &unused, "-Q", "100", "-l", "0.1s", "-t", "0.1s", "-d"]);
    let output = command.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (out, _) = words(&output);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.starts_with(&format!("Nothing listens at {unused}: the kernel counted ")), "{out}");
    assert_eq!(out.matches("Nothing listens").count(), 1, "{out}");
    // Advice for other loads does not follow from this one.
    assert!(!out.contains("single-host") && !out.contains("kqps find"), "{out}");
}

/// A search of the echo with an easy goal, so that a busy host does not decide its end. It takes long to end.
pub(crate) fn find(bench: &Bench, flags: &[&str]) -> Command {
    let mut find = kqps(&["find", &bench.echo.address, "--max", "1.5k", "--width", "20%"]);
    find.args(["-t", "100ms", "--lag", "10s", "--json", "-d"]).arg(bench.queries()).args(flags);
    find.env("XDG_CACHE_HOME", bench.folder.path());
    find
}

#[test]
fn a_search_ends_with_a_verdict_beside_the_echos_ceilings() {
    let bench = Bench::new();
    let output = find(&bench, &["--goal", "quick"]).output().unwrap();
    let (out, err) = words(&output);
    assert!(!err.contains("could not be measured"), "{err}");
    let mut printed: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}: {err}")))
        .collect();
    let verdict = printed.pop().unwrap();
    assert_eq!((&verdict["kind"], &verdict["goal"]["name"]), (&"verdict".into(), &"quick".into()));
    assert_eq!(printed.len(), verdict["trials"].as_array().unwrap().len(), "each trial is shown before");
    assert!(printed.len() >= 3);
    assert!(printed.iter().all(|one| one["kind"] == "trial" && one["spoiled"].is_boolean()));
    assert_eq!(printed[0]["purpose"], "ceiling");
    if verdict["grade"] == "F" {
        // Only the host can be the cause.
        let reason = verdict["reasons"][0].as_str().unwrap();
        let code = reason.split(':').next().unwrap();
        // Then the host left no load that met the goal, and nothing is known.
        let spoiled = &verdict["host_spoiled"];
        let is_spoiled = ["shifted", "withheld", "restless", "waited"].iter().any(|by| spoiled[by] != 0);
        let has_no_time = reason.starts_with("The time for the search was used up")
            && (is_spoiled || verdict["reasons"].to_string().contains("noisy-host"));
        assert!(has_no_time || ["player-limited", "client-drops", "lagging"].contains(&code), "{verdict}");
        assert!(verdict["throughput_qps"].is_null() && verdict["ceiling_share"].is_null());
        assert_eq!(output.status.code(), Some(3));
    } else {
        // The echo answers all that it may be asked, unless the host disturbs the search.
        let is_met = verdict["at_least_qps"].is_number();
        let share = verdict["ceiling_share"].as_f64();
        let is_little = |share: f64| share > 0.0 && share < 0.5;
        assert_eq!(share.is_none(), is_met, "{verdict}");
        assert!(share.is_none_or(is_little), "an echo answers more than 3,000 queries a second: {share:?}");
        let lower_qps = verdict["lower_bound_qps"].as_f64().unwrap();
        // With --max, loads and bounds are as played.
        assert_eq!(verdict["usual_speed"], 1.0, "{verdict}");
        assert!((10.0..=1500.0).contains(&lower_qps), "{verdict}");
        let reasons = verdict["reasons"].to_string();
        if is_met {
            assert_eq!((&verdict["at_least_qps"], lower_qps), (&1500.0.into(), 1500.0), "{verdict}");
            assert!(verdict["throughput_qps"].is_null() && verdict["figure_qps"].is_null(), "{verdict}");
        } else {
            let throughput_qps = verdict["throughput_qps"].as_f64().unwrap();
            assert!((10.0..=1500.0).contains(&throughput_qps), "{verdict}");
        }
        if verdict["trials"].as_array().unwrap().iter().all(|one| one["bad_ratio"] == 0.0) {
            assert!(is_met, "{verdict}");
        }
        assert!(!reasons.contains("ceiling was not measured"), "{reasons}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn a_search_that_is_interrupted_prints_what_it_knew() {
    let bench = Bench::new();
    let mut find = find(&bench, &["--no-ceiling", "--goal", "rfc2544"]);
    let mut child = find.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first line is about the overload trial; the next trial takes a minute.
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    while !line.contains("overload") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended by itself");
    }
    signal(child.id(), Signal::Interrupt).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, _) = words(&output);
    let verdict: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((&verdict["kind"], &verdict["interrupted"]), (&"verdict".into(), &true.into()));
    assert_eq!(verdict["trials"].as_array().unwrap().len(), 1, "{out}");
    // The interrupted trial is printed as well, although the verdict leaves it out. The signal may come before it
    // began.
    let printed: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [overload, cut_short @ .., _] = &*printed else { panic!("{out}") };
    assert_eq!(overload["interrupted"], false, "{out}");
    line.clear();
    match cut_short {
        [] => {}
        [one] => {
            assert_eq!(one["interrupted"], true, "{out}");
            assert!(stderr.read_line(&mut line).unwrap() > 0 && line.ends_with(": interrupted\n"), "{line}");
        }
        more => panic!("{} trials after the signal: {out}", more.len()),
    }
    assert_eq!(verdict["incomplete"], false, "{out}");
    let reasons = verdict["reasons"].to_string();
    assert!(reasons.contains("interrupted") && !reasons.contains("used up"), "{out}");
    assert_eq!(output.status.code(), Some(130));
}

#[test]
fn a_reader_that_has_gone_is_no_panic() {
    let bench = Bench::new();
    let mut command = kqps(&["load", "gopher://127.0.0.1", "-Q", "1", "-d"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.arg(bench.queries()).stdout(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(2), "101 is a panic");
}

#[test]
fn bad_input_is_one_clear_error() {
    let bench = Bench::new();
    let folder = bench.folder.path().to_str().unwrap();
    let bad = bench.folder.path().join("bad");
    std::fs::write(&bad, "good.example A\nbad.example AAAAB\n").unwrap();
    let (bad, good) = (bad.to_str().unwrap(), bench.queries());
    let good = good.to_str().unwrap();
    let target = bench.echo.address.as_str();
    let cases: [(&[&str], &str); 24] = [
        (&["load", target, "-d", good, "-Q", "1", "-q", "1", "-T", "2"], "window of 1"),
        (&["load", target, "-d", good, "-q", "1", "--arrivals", "poisson"], "--rate"),
        (&["load", target, "-d", good, "-Q", "fast"], "expected a rate"),
        (&["load", target, "-d", good, "-Q", "0"], "above 0"),
        (&["load", target, "-d", good, "-q", "0"], "at least 1"),
        (&["load", target, "-d", good, "-q", "1", "-T", "2"], "window of 1"),
        (&["load", target, "-d", good, "-Q", "1", "-l", "0"], "nothing"),
        (&["load", target, "-d", good, "-Q", "1", "--io", "magic"], "expected auto, plain"),
        (&["load", target, "-d", good, "-Q", "1", "--cpus", "4095"], "core 4095"),
        (&["load", target, "-d", good, "-Q", "1G"], "100M at most"),
        (&["load", target, "-d", good, "-Q", "1", "-x", "65530", "-c", "7"], "the last is 65536"),
        (&["load", target, "-d", good, "-Q", "1", "-S", "0"], "-S 0"),
        (&["load", target, "-d", good, "-Q", "1", "--subject-pid", "4194305"], "no process 4194305"),
        (&["find", target, "-d", good, "--subject-pid", "4194305"], "no process 4194305"),
        (&["load", target, "-d", good, "-Q", "1", "--subject-cpus", "4095"], "there is no core 4095 here"),
        (&["load", target, "[::1]:53", "-d", good, "-Q", "1"], "different families"),
        (&["load", target, target, "-d", good, "-Q", "1", "-c", "1"], "each of the 2 targets"),
        (&["load", "-d", good, "-Q", "1"], "<TARGET>"),
        (&["load", target, "-d", bad, "-Q", "1"], "bad:2:13: "),
        (&["load", target, "-d", folder, "-Q", "1"], "is a directory"),
        (&["load", target, "-d", "/nonexistent", "-Q", "1"], "No such file"),
        (&["load", "192.0.2.1", "-d", good, "-Q", "1"], "--allow-target 192.0.2.1"),
        (&["load", "gopher://127.0.0.1", "-d", good, "-Q", "1"], "expected udp, tcp, tls, https or quic"),
        (&["find", target, "-d", good, "--goal", "best"], "quick"),
    ];
    for (arguments, wanted) in cases {
        let output = kqps(arguments).env("XDG_CACHE_HOME", folder).output().unwrap();
        let (out, err) = words(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(out.is_empty() && err.contains(wanted), "{arguments:?}: {err}");
        assert!(!err.contains("panicked"), "{err}");
    }
}

#[test]
fn every_command_explains_its_exit_status() {
    let commands: [&[&str]; 15] = [
        &[],
        &["load"],
        &["find"],
        &["run"],
        &["compare"],
        &["report"],
        &["host"],
        &["probe"],
        &["gen"],
        &["gen", "zone"],
        &["gen", "queries"],
        &["serve"],
        &["serve", "echo"],
        &["serve", "auth"],
        &["serve", "front"],
    ];
    for command in commands {
        let (help, _) = words(&kqps(&[command, &["--help"]].concat()).output().unwrap());
        assert!(help.contains("Exit status:\n  0 "), "{command:?}: {help}");
    }
    for page in [&["man"][..], &["man", "load"], &["man", "serve"]] {
        assert!(words(&kqps(page).output().unwrap()).0.contains(".SH \"EXIT STATUS\"\n"), "{page:?}");
    }
}

#[test]
fn manual_pages_and_completions_are_printed() {
    for arguments in
        [&["man"] as &[&str], &["man", "load"], &["completions", "bash"], &["completions", "zsh"]]
    {
        let output = kqps(arguments).output().unwrap();
        assert!(output.status.success() && output.stdout.len() > 500, "{arguments:?}");
    }
    assert_eq!(kqps(&["man", "nonsense"]).output().unwrap().status.code(), Some(2));
}
