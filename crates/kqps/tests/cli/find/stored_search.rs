//! `kqps find --out` and `--time-limit`: the stored search, and its longest duration.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kqps_kernel::port;
use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::trial::LoadMode;
use kqps_observation::{Run, Store};
use kqps_skips::{Capability, skip};
use kqps_verdict::judge::judge;
use serde_json::Value;

use super::interrupted_at;
use crate::load::bench::{Bench, Echo, kqps, unused_address, words};
use crate::load::find;

fn stored(folder: &Path) -> Run {
    Store::read(&folder.join("run.sqlite")).unwrap()
}

fn out(bench: &Bench) -> PathBuf {
    bench.folder.path().join("kept/search")
}

fn keeping(bench: &Bench, flags: &[&str]) -> Command {
    let mut command = find(bench, flags);
    command.arg("--out").arg(out(bench));
    command
}

fn page_of(folder: &Path) -> Output {
    kqps(&["report"]).arg(folder).output().unwrap()
}

#[test]
fn a_search_is_kept_with_its_ceilings_its_trials_and_its_page() {
    let bench = Bench::new();
    let output = keeping(&bench, &["--goal", "quick"]).output().unwrap();
    let (printed, err) = words(&output);
    let printed_trials = printed.lines().count() - 1;
    let run = stored(&out(&bench));
    let roles: Vec<Role> = run.cells.iter().map(|cell| cell.role).collect();
    assert_eq!(roles, [Role::PlayerCeiling, Role::EchoCeiling, Role::Subject], "{err}");
    assert_eq!(run.cells[2].name, bench.echo.address);
    assert!(run.finished_unix_ms.is_some());
    let of_search = run.trials.iter().filter(|trial| trial.cell == 2);
    assert_eq!((of_search.count(), run.trials.len()), (printed_trials, printed_trials + 2));
    let facts = run.goal_facts.unwrap();
    assert_eq!((facts.max_qps, facts.width), (1500.0, 0.2));
    let overload = run.trials.iter().find(|trial| trial.cell == 2).unwrap().measured().unwrap();
    assert_eq!((overload.load.mode, overload.load.intended_qps), (LoadMode::Closed, Some(1500.0)));
    let most = 1500.0 * overload.load.duration_s + 1.0;
    assert!(overload.accounts.sent as f64 <= most, "{:?}: {err}", overload.load);

    let report = out(&bench).join("report.html");
    assert!(err.contains(&format!("{}", report.display())), "{err}");
    let first = fs::read_to_string(&report).unwrap();
    assert!(first.contains(&bench.echo.address) && first.ends_with("</html>"));
    fs::remove_file(&report).unwrap();
    assert!(page_of(&out(&bench)).status.success());
    assert_eq!(fs::read_to_string(&report).unwrap(), first, "it can be made again");
    let study: toml::Table = fs::read_to_string(out(&bench).join("study.toml")).unwrap().parse().unwrap();
    assert_eq!(study["name"].as_str(), Some("kqps find"));

    // It cannot be resumed, and no other search replaces it.
    for mut command in [keeping(&bench, &["--goal", "quick"]), resumed(&out(&bench))] {
        let again = command.output().unwrap();
        assert_eq!(again.status.code(), Some(2), "{}", words(&again).1);
    }
    assert_eq!(fs::read_to_string(&report).unwrap(), first);
}

/// An address of this host other than loopback's. `None` on a host without a network, which is reported as a skip.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // This sends nothing: the kernel chooses the address that it would send from.
    let address = socket.connect("198.51.100.1:53").and_then(|()| socket.local_addr());
    if address.is_err() {
        skip(Capability::Route, "a target at an own address beside the loopback's, since there is no route");
    }
    address.ok().map(|address| address.ip())
}

/// kqps makes the page from the store, and the terminal's words from the trials that it has just played.
#[test]
fn what_is_kept_gives_the_verdict_that_was_printed() {
    let Some(own) = own_address() else { return };
    let mut bench = Bench::new();
    bench.echo = Echo::listening(&format!("{own}:0"), &[]);
    let output = keeping(&bench, &["--goal", "quick", "--subject", "none", "--subject-io", "segment"])
        .output()
        .unwrap();
    let (printed, err) = words(&output);
    let printed: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let run = stored(&out(&bench));
    let kept = judge(&run).subjects.remove(0);
    let warned = |warning: &Value| warning["code"].as_str().unwrap().to_owned();
    let printed_codes: Vec<String> = printed["warnings"].as_array().unwrap().iter().map(warned).collect();
    let codes: Vec<String> = kept.warnings.iter().map(|warning| warning.code.to_string()).collect();
    assert_eq!(printed_codes, codes, "{err}");
    assert!(codes.contains(&"single-host".to_owned()), "{codes:?}");
    assert_eq!(printed["grade"], kept.grade.to_string());
    assert_eq!(printed["ceiling_share"].as_f64(), kept.ceiling_share);
    assert_eq!(printed["share"], serde_json::to_value(kept.share).unwrap());
    assert_eq!(printed["throughput_qps"].as_f64(), kept.figure_qps.map(|figure| figure.median));
    let roles: Vec<Role> = run.cells.iter().map(|cell| cell.role).collect();
    assert_eq!(roles, [Role::EchoCeiling, Role::Subject], "one echo is both ceilings");
    // A server that ran before has one start in any search, so no reason mentions it.
    assert!(!kept.reasons.concat().contains("running before"), "{:?}", kept.reasons);
}

fn resumed(folder: &Path) -> Command {
    let mut command = kqps(&["run", "--resume", "--out"]);
    command.arg(folder);
    command
}

#[test]
fn files_that_no_search_wrote_stay_as_they_are() {
    let bench = Bench::new();
    fs::create_dir_all(out(&bench)).unwrap();
    for name in ["report.html", "study.toml"] {
        let mine = out(&bench).join(name);
        fs::write(&mine, "mine").unwrap();
        let output = keeping(&bench, &["--goal", "quick"]).output().unwrap();
        let (_, err) = words(&output);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains("already exists, and no run wrote it") && !err.contains("overload"), "{err}");
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
        assert!(!out(&bench).join("run.sqlite").exists());
        fs::remove_file(mine).unwrap();
    }
}

#[test]
fn an_interrupted_search_keeps_what_was_measured_until_then() {
    let bench = Bench::new();
    let mut command = keeping(&bench, &["--no-ceiling", "--goal", "rfc2544"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupted_at("overload", &mut child);
    child.wait().unwrap();
    let run = stored(&out(&bench));
    assert_eq!(run.finished_unix_ms, None);
    assert_eq!(run.trials.iter().map(|trial| trial.purpose).collect::<Vec<_>>(), [Purpose::Ceiling]);
    let page = fs::read_to_string(out(&bench).join("report.html")).unwrap();
    assert!(page.contains("did not finish") && !page.contains("--resume"), "{page}");
    assert!(page_of(&out(&bench)).status.success());
}

/// Flags of a search beside its goal stand in its record, whether a trial was made or not.
#[test]
fn the_flags_that_shape_the_load_are_kept() {
    let bench = Bench::new();
    // The sockets need two ports that no other program has at this address.
    let (from, port) = ("127.0.53.7", port::free([127, 0, 53, 7].into(), 2).unwrap().port().to_string());
    let of_sockets =
        ["-a", from, "-x", &port, "-c", "2", "-b", "1MiB", "--io", "plain", "--priority", "usual"];
    let of_times = ["--drain", "150ms", "--coalesce", "15us"];
    let of_queries = ["-D", "--skip-bad"];
    let flags = [&["--no-ceiling", "--goal", "rfc2544"], &of_sockets[..], &of_times, &of_queries].concat();
    let mut child = keeping(&bench, &flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupted_at("overload", &mut child);
    child.wait().unwrap();
    let words: Vec<(String, String)> =
        stored(&out(&bench)).cells[0].factors.words().clone().into_iter().collect();
    let expected = [
        ("dataset.edns", "do"),
        ("dataset.skip_bad", "true"),
        ("player.buffer_bytes", "1048576"),
        ("player.burst", "32"),
        ("player.coalesce_s", "0.000015"),
        ("player.drain_s", "0.15"),
        ("player.io", "plain"),
        ("player.lag_s", "10"),
        ("player.local_port", &port),
        ("player.priority", "usual"),
        ("player.senders", "1"),
        ("player.sockets", "2"),
        ("player.sources", "127.0.53.7/32"),
        ("player.timeout_s", "0.1"),
    ];
    assert_eq!(words, expected.map(|(name, word)| (name.to_owned(), word.to_owned())));
}

#[test]
fn why_a_search_broke_off_is_kept_too() {
    let bench = Bench::new();
    let unused = unused_address();
    let mut find = kqps(&["find", &unused, "--goal", "quick", "--no-ceiling", "-t", "0.1s", "-d"]);
    find.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path()).arg("--out").arg(out(&bench));
    let output = find.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", words(&output).1);
    let run = stored(&out(&bench));
    let Outcome::Failed { reason, .. } = &run.trials.last().unwrap().outcome else { panic!("{run:?}") };
    assert!(reason.contains("Nothing listens at") || reason.contains("No reply came"), "{reason}");
    let page = fs::read_to_string(out(&bench).join("report.html")).unwrap();
    assert!(page.contains("could not be measured"), "{page}");
}

/// The search has a disk of its own. A file fills it as soon as the first trial is over. Its width keeps the search from
/// ending before that.
#[test]
fn a_full_disk_ends_a_search_that_prints_what_it_knew_by_then() {
    let mut bench = Bench::new();
    bench.echo = Echo::with(&["--io", "mmsg", "--work", "50us"]);
    fs::create_dir_all(out(&bench)).unwrap();
    let script = "mount -t tmpfs -o size=16m kqps-test \"$1\" || exit 77; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(out(&bench)).arg(env!("CARGO_BIN_EXE_kqps"));
    command.args(["find", &bench.echo.address, "--goal", "quick", "--width", "0.01%", "--why"]);
    command.args(["-t", "100ms", "--lag", "10s", "--no-ceiling", "-d"]).arg(bench.queries());
    command.arg("--out").arg(out(&bench)).env("XDG_CACHE_HOME", bench.folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    while !err.contains("overload") && stderr.read_line(&mut err).unwrap() > 0 {}
    if err.contains("overload") {
        // The disk is mounted for this process alone.
        let there = Path::new("/proc").join(child.id().to_string()).join("root");
        let mut file =
            fs::File::create(there.join(out(&bench).strip_prefix("/").unwrap()).join("full")).unwrap();
        io::copy(&mut io::repeat(0), &mut file).expect_err("the disk is full");
    }
    stderr.read_to_string(&mut err).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = words(&output).0;
    if output.status.code() == Some(77) || err.starts_with("unshare:") {
        return skip(Capability::Mounts, err);
    }
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(err.matches("no space is left").count(), 1, "{err}");
    assert!(printed.contains("\n  bounds"), "{printed}{err}");
    assert!(printed.contains("\n- An error ended the search: this is what it knew by then.\n"), "{printed}");
    assert!(!printed.contains("interrupted"), "{printed}");
}

#[test]
fn a_time_limit_wins_over_the_goals_and_one_that_leaves_no_time_is_refused() {
    let bench = Bench::new();
    for (goal, limit, reason) in [
        ("quick", "2s", "--time-limit 2s: the goal quick takes 2.5 s at least"),
        ("default", "10s", "--time-limit 10s: the goal default takes 13 s at least"),
        ("rfc2544", "1m", "--time-limit 60s: the goal rfc2544 takes 121 s at least"),
        ("quick", "0", "--time-limit 0s"),
        ("quick", "25h", "expected a day (24h) at most"),
        ("quick", "soon", "expected a duration"),
    ] {
        let output = find(&bench, &["--goal", goal, "--time-limit", limit]).output().unwrap();
        let (_, err) = words(&output);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(reason), "{err}");
    }
    // The flag replaces the preset's three minutes.
    let flags = ["--no-ceiling", "--goal", "default", "--time-limit", "13.5s"];
    let mut child = find(&bench, &flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupted_at("overload", &mut child);
    let output = child.wait_with_output().unwrap();
    let verdict: Value = serde_json::from_str(words(&output).0.lines().last().unwrap()).unwrap();
    assert_eq!(verdict["goal"]["limit_s"], 13.5, "{verdict}");
}

/// A search whose bounds cannot come close enough within its limit.
#[test]
fn a_search_ends_when_its_time_limit_says() {
    let mut bench = Bench::new();
    bench.echo = Echo::with(&["--io", "mmsg", "--work", "50us"]);
    let mut command =
        kqps(&["find", &bench.echo.address, "--goal", "quick", "--time-limit", "4s", "--no-ceiling"]);
    command.args(["--width", "0.01%", "--lag", "10s", "-t", "100ms", "--json", "-d"]).arg(bench.queries());
    let output = command.env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (printed, err) = words(&output);
    let verdict: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(verdict["incomplete"], true, "{err}");
    let took_s: f64 =
        verdict["trials"].as_array().unwrap().iter().map(|probe| probe["wall_s"].as_f64().unwrap()).sum();
    // The time reserved for a bound may end a trial late. The goal's own limit is 14 s.
    assert!(took_s < 4.0 * 1.15 + 2.0, "{took_s} s: {err}");
}
