//! `kqps agent`: its jobs worked within this process, and the program as a controller starts it, with lines on its
//! standard input.

mod lines;

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use kqps_dataset::Check;
use kqps_fleet::{Role, Worker as _};
use kqps_host::{SubjectWatched, lives};
use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::Cell;
use kqps_observation::run::Purpose;
use kqps_remote::agent::job::{Queries, StartRequest};
use kqps_remote::agent::{Agent, Done, Job};
use kqps_testbed::materials::{MaterialsSpec, QueriesKind};
use kqps_testbed::play::{PlayRequest, QueryFile};
use kqps_testbed::player_setup::PlayerSetup;
use kqps_testbed::subject::builtin;
use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

/// Records of the zone, and the seed of zone and queries.
const RECORDS: u64 = 50;
const SEED: u64 = 3;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Processes that an agent started, and its folder, are gone after this time.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// The cell of an echo with one worker.
pub(crate) fn echo_cell() -> Cell {
    let mut cell = Cell {
        name: "echo".into(),
        subject: "echo".into(),
        io: "mmsg".into(),
        workers: 1,
        ..Cell::default()
    };
    cell.factors.set_records(RECORDS);
    cell
}

fn wanted() -> MaterialsSpec {
    MaterialsSpec::new(echo_cell().factors.dataset())
}

pub(crate) fn materials() -> Job {
    Job::Materials { wanted: wanted(), seed: SEED, file: None }
}

/// Asks what the host of 127.0.0.1 is.
pub(crate) fn facts() -> Job {
    Job::Facts { address: LOOPBACK, sources: Vec::new(), device: None }
}

/// Watches the host, and a subject by its start.
fn watch(start: Option<u64>) -> Job {
    Job::WatchBegin { start, cpus: Vec::new(), device: Some("lo".into()), stamped: None }
}

/// Starts an echo at 127.0.0.1.
pub(crate) fn start(number: u64) -> Job {
    Job::Start(Box::new(StartRequest {
        start: number,
        definition: builtin::echo().text,
        cell: echo_cell(),
        address: LOOPBACK,
        certificate: None,
        within_s: None,
    }))
}

/// Plays at a target for some seconds.
pub(crate) fn play(target: &str, rate_qps: f64, duration_s: f64, at_ns: Option<u64>) -> Job {
    let request =
        TrialRequest { pace: RequestedPace::Open { rate_qps }, duration_s, purpose: Purpose::Search };
    let subject = SubjectWatched::default();
    let targets = [target.parse().unwrap()];
    let plan = PlayerSetup::many_flows().plan(&request, (&targets, None), &[], &subject).unwrap();
    let queries = QueryFile { check: Some(Check::Off), ..QueryFile::new(Path::new("")) };
    let request = PlayRequest {
        plan,
        queries,
        classes: Vec::new(),
        scenario: None,
        is_allowed: false,
        subject,
        shows_bar: true,
        live_every: None,
    };
    let queries = Queries { wanted: wanted(), kind: QueriesKind::Plain };
    Job::Play { request: Box::new(request), queries, at_ns }
}

fn kqps() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_kqps"))
}

fn agent(cache: &Path, role: Role) -> Agent {
    let agent = Agent::within(cache, kqps()).unwrap();
    agent.permission().grant(role, &[LOOPBACK]).unwrap();
    agent
}

fn work(agent: &mut Agent, job: Job) -> Done {
    agent.work(job, &Interrupts::default()).unwrap_or_else(|(reason, output)| panic!("{reason}: {output:?}"))
}

fn refusal(agent: &mut Agent, job: Job) -> String {
    agent.work(job, &Interrupts::default()).unwrap_err().0
}

/// The folders of agents that are in a cache.
pub(crate) fn folders(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache.join("agent")).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|entry| entry.file_name().display().to_string()).collect()
}

/// Waits until nothing of these processes and of agents' folders is left, for [`GONE_WITHIN`] at most.
pub(crate) fn assert_gone(pids: &[u32], cache: &Path, since: Instant) {
    loop {
        let living: Vec<&u32> = pids.iter().filter(|&&pid| lives(pid)).collect();
        let left = folders(cache);
        if living.is_empty() && left.is_empty() {
            return;
        }
        assert!(since.elapsed() < GONE_WITHIN, "{living:?} live, and {left:?} are left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_and_a_player_work_one_trial() {
    let cache = tempfile::tempdir().unwrap();
    let mut server = agent(cache.path(), Role::Server);
    let mut player = agent(cache.path(), Role::Player);
    let Done::Facts { fingerprint, topology, device, .. } = work(&mut player, facts()) else { panic!() };
    assert!(!topology.cores.is_empty() && !fingerprint.kernel.is_empty());
    assert_eq!(device.as_deref(), Some("lo"), "it carries 127.0.0.1");
    let Done::Materials { hashes } = work(&mut server, materials()) else { panic!() };
    let Done::Materials { hashes: of_player } = work(&mut player, materials()) else { panic!() };
    assert!(hashes.zones.is_some() && of_player.zones.is_none(), "a player needs no zone");
    assert!(hashes.agree(&of_player));
    let Done::Started { addresses, pid, version, programs, .. } = work(&mut server, start(1)) else {
        panic!()
    };
    assert_eq!((addresses.len(), addresses[0].ip()), (1, LOOPBACK));
    assert_eq!(version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert!(programs.is_empty(), "the echo is kqps itself, which the hello named");

    let before_ns = clock::now_ns();
    let Done::Begun { over_ns } = work(&mut server, watch(Some(1))) else { panic!() };
    assert!((before_ns..clock::now_ns()).contains(&over_ns));
    let at_ns = clock::now_ns() + 300_000_000;
    let played = work(&mut player, play(&addresses[0].to_string(), 2000.0, 0.5, Some(at_ns)));
    let Done::Sent = work(&mut server, Job::WatchSent) else { panic!() };
    let Done::Seen(seen) = work(&mut server, Job::WatchEnd) else { panic!() };
    let Done::Played(trial) = played else { panic!() };
    assert_eq!(trial.started_monotonic_ns, at_ns + trial.late_start_ns.unwrap());
    assert_eq!(trial.accounts.intended, 1000);
    assert!(trial.accounts.correct > 0, "{:?}", trial.accounts);
    assert_eq!(seen.subject.facts().unwrap().pid, pid);
    let Done::CpuTime { cpu_s } = work(&mut server, Job::CpuTime { start: 1 }) else { panic!() };
    assert!(cpu_s > 0.0);

    let Done::Stopped = work(&mut server, Job::Stop { start: 1, within_s: Some(3.0) }) else { panic!() };
    assert!(!lives(pid));
    assert_eq!(folders(cache.path()).len(), 2);
    server.end();
    drop(player);
    assert_eq!(folders(cache.path()), [""; 0]);
}

/// A busy host is tried this often.
const TRIES_MOST: u32 = 20;

#[test]
fn a_watch_counts_from_the_last_reading_before_the_moment_that_was_asked_for() {
    let cache = tempfile::tempdir().unwrap();
    let mut server = agent(cache.path(), Role::Server);
    let Done::Begun { over_ns: first_ns } = work(&mut server, watch(None)) else { panic!() };
    // On a busy host, none may be over in time.
    let again = (0..TRIES_MOST).find_map(|_| {
        let by_ns = clock::now_ns() + 300_000_000;
        let Done::Begun { over_ns } = work(&mut server, Job::WatchAgain { by_ns }) else { panic!() };
        assert!((first_ns..=by_ns).contains(&over_ns), "{over_ns} is not between {first_ns} and {by_ns}");
        (over_ns > first_ns).then_some((over_ns, by_ns))
    });
    let (over_ns, by_ns) = again.expect("the host has time for a reading");
    // A moment that is over leaves the reading that was in time.
    clock::sleep_until_ns(by_ns);
    let Done::Begun { over_ns: still_ns } = work(&mut server, Job::WatchAgain { by_ns }) else { panic!() };
    assert_eq!(still_ns, over_ns);
    work(&mut server, Job::WatchSent);
    let since_first_ns = clock::now_ns() - first_ns;
    let Done::Seen(seen) = work(&mut server, Job::WatchEnd) else { panic!() };
    let wall_s = seen.host.wall_s;
    assert!(wall_s * 1e9 < since_first_ns as f64, "the wait is no time of the trial: {wall_s} s");
    assert_eq!(seen.host.device.as_deref(), Some("lo"));
}

#[test]
fn a_start_names_the_files_of_its_programs() {
    let cache = tempfile::tempdir().unwrap();
    let mut server = agent(cache.path(), Role::Server);
    work(&mut server, materials());
    let Job::Start(request) = start(1) else { panic!() };
    let definition = request.definition.replacen("programs = []", "programs = [\"sh\"]", 1);
    let request = StartRequest { definition, ..*request };
    let Done::Started { programs, .. } = work(&mut server, Job::Start(Box::new(request))) else { panic!() };
    let shell = &programs["sh"];
    assert!(shell.path.ends_with("/sh") && shell.blake3.as_ref().unwrap().len() == 64, "{shell:?}");
    server.end();
}

#[test]
fn the_end_of_an_agent_ends_its_subjects() {
    let cache = tempfile::tempdir().unwrap();
    let mut server = agent(cache.path(), Role::Server);
    work(&mut server, materials());
    let pids = [1, 2].map(|number| match work(&mut server, start(number)) {
        Done::Started { pid, .. } => pid,
        other => panic!("{other:?}"),
    });
    let since = Instant::now();
    server.end();
    assert_gone(&pids, cache.path(), since);
}

#[test]
fn a_subject_that_dies_spoils_its_trial() {
    let cache = tempfile::tempdir().unwrap();
    let mut server = agent(cache.path(), Role::Server);
    work(&mut server, materials());
    let Done::Started { pid, .. } = work(&mut server, start(7)) else { panic!() };
    work(&mut server, watch(Some(7)));
    kqps_kernel::process::signal(pid, kqps_kernel::process::Signal::Kill).unwrap();
    while lives(pid) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let reason = refusal(&mut server, Job::WatchEnd);
    assert!(reason.contains("killed by") && reason.ends_with("during a trial"), "{reason}");
    work(&mut server, Job::Stop { start: 7, within_s: None });
}

#[test]
fn what_an_agent_cannot_or_must_not_do_is_one_sentence() {
    let cache = tempfile::tempdir().unwrap();
    let mut new = Agent::within(cache.path(), kqps()).unwrap();
    assert!(refusal(&mut new, facts()).contains("hello"));

    let mut player = agent(cache.path(), Role::Player);
    assert!(
        refusal(&mut player, play("192.0.2.1:53", 1.0, 1.0, None))
            .contains("192.0.2.1 is none of the targets")
    );
    assert!(refusal(&mut player, start(1)).contains("a player's"));
    assert!(refusal(&mut player, play("127.0.0.1:53", 1.0, 1.0, None)).contains("were not made here"));
    work(&mut player, materials());
    let tomorrow = clock::now_ns() + 86_400_000_000_000;
    let reason = refusal(&mut player, play("127.0.0.1:53", 1.0, 1.0, Some(tomorrow)));
    assert!(reason.contains("too far ahead"), "{reason}");

    let mut server = agent(cache.path(), Role::Server);
    assert!(refusal(&mut server, play("127.0.0.1:53", 1.0, 1.0, None)).contains("the server's"));
    assert!(refusal(&mut server, start(1)).contains("were not made here"));
    work(&mut server, materials());
    let Job::Start(request) = start(1) else { panic!() };
    let elsewhere = StartRequest { address: [192, 0, 2, 1].into(), ..(*request).clone() };
    let reason = refusal(&mut server, Job::Start(Box::new(elsewhere)));
    assert!(reason.contains("this host has no address 192.0.2.1"), "{reason}");
    let elsewhere = Job::Facts { address: [192, 0, 2, 1].into(), sources: Vec::new(), device: None };
    assert_eq!(refusal(&mut server, elsewhere), reason);
    assert!(refusal(&mut server, Job::WatchAgain { by_ns: tomorrow }).contains("too far ahead"));
    assert!(refusal(&mut server, Job::WatchAgain { by_ns: 0 }).contains("no watch has begun"));
    let missing = request.definition.replacen("programs = []", "programs = [\"no-such-program\"]", 1);
    let missing = StartRequest { definition: missing, ..*request };
    let reason = refusal(&mut server, Job::Start(Box::new(missing)));
    assert!(reason.contains("`no-such-program` is not on the PATH"), "{reason}");
    for job in [Job::Stop { start: 9, within_s: None }, Job::CpuTime { start: 9 }] {
        assert!(refusal(&mut server, job).contains("no subject of start 9"));
    }
    assert!(refusal(&mut server, Job::WatchEnd).contains("no watch"));
}

fn run(arguments: &[&str]) -> Output {
    Command::new(kqps()).arg("agent").args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_line_for_authorized_keys_names_this_program_and_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ci.pub");
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJQ0Zz9m ci@controller";
    fs::write(&path, format!("{key}\n")).unwrap();
    let output = run(&["--authorized-keys", path.to_str().unwrap()]);
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(
        line.starts_with("restrict,command=\"") && line.ends_with(&format!(" agent\" {key}\n")),
        "{line}"
    );
    assert!(line.contains(env!("CARGO_BIN_EXE_kqps")), "{line}");

    fs::write(&path, "-----BEGIN OPENSSH PRIVATE KEY-----\n").unwrap();
    for file in [path.to_str().unwrap(), "/nonexistent/ci.pub"] {
        let output = run(&["--authorized-keys", file]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(file) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_guard_removes_folders_of_agents_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("agent/lock");
    fs::create_dir_all(folder.path().join("documents")).unwrap();
    fs::create_dir_all(mine.parent().unwrap()).unwrap();
    fs::write(&mine, "").unwrap();
    for kept in ["documents", "agent"] {
        let kept = folder.path().join(kept);
        let output = run(&["--guard", kept.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{}", kept.display());
        assert!(kept.exists());
    }
}
