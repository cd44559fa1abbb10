//! The agents of these tests: the program of the tests, started with variables that make one test serve. They play no
//! load, and note what they were asked for.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use kqps_fleet::{Host, Identity, Worker, serve};
use kqps_host::Topology;
use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::trial::{DatasetFacts, LoadFacts, LoadMode, PlayerFacts};
use kqps_observation::{Accounts, Fingerprint, Histogram, HostFacts, NonEmpty, Trial};
use kqps_player::LoadPlan;

use crate::agent::job::{Done, Job};
use kqps_testbed::play::PlayRequest;

/// The test that serves.
const TEST: &str = "controller::tests::agent::it_serves_if_it_was_started_as_an_agent";

/// The variables with the folder of the test, and with the name of the host.
const FOLDER: &str = "KQPS_LAB_TEST_AGENT";
const NAME: &str = "KQPS_LAB_TEST_NAME";

/// Where the subject is said to answer.
pub(super) const ADDRESS: &str = "127.0.0.1:5300";

/// The time from the start of a trial to the death of an agent that dies in it, nanoseconds.
const DIES_AFTER_NS: u64 = 50_000_000;

/// The interval at which an agent that plays looks for its end.
const LOOK: Duration = Duration::from_millis(5);

/// The time that an agent with the file `NAME.slow` takes to stop a trial.
pub(super) const STOPS_IN: Duration = Duration::from_secs(1);

/// The time that it takes to read its counters: longer than the time from a request to the start of a trial.
pub(super) const READS_IN: Duration = Duration::from_millis(600);

type Failure = (String, Vec<String>);

/// A host with such an agent. It cannot be reached while the file `NAME.away` is in the folder.
pub(super) fn host(folder: &Path, name: &str) -> Host {
    let away = format!("test ! -e '{}/{name}.away' && exec \"$@\"", folder.display());
    let variables = [format!("{FOLDER}={}", folder.display()), format!("{NAME}={name}")];
    let program = std::env::current_exe().unwrap().display().to_string();
    // With two threads the harness prints a line before its test, and none within.
    let harness = ["--exact", "--nocapture", "--test-threads=2"];
    let reach = ["sh", "-c", &away, "sh", "env", &variables[0], &variables[1], &program];
    Host {
        name: name.into(),
        reach: reach.into_iter().chain(harness).map(str::to_owned).collect(),
        kqps: TEST.into(),
        data: IpAddr::V4(Ipv4Addr::LOCALHOST),
        sources: None,
        cores: None,
        device: None,
    }
}

#[test]
fn it_serves_if_it_was_started_as_an_agent() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let mut agent = Agent { folder: folder.into(), name: std::env::var(NAME).unwrap() };
    agent.note("agent");
    let served = serve(&mut agent, &Identity::of_this_program().unwrap(), |_| Ok(()));
    std::process::exit(i32::from(served.is_err()));
}

struct Agent {
    folder: PathBuf,
    name: String,
}

impl Agent {
    fn file(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", self.name))
    }

    /// Notes an event, with the time of the monotonic clock.
    fn note(&self, event: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.file("log")).unwrap();
        file.write_all(format!("{} {event}\n", clock::now_ns()).as_bytes()).unwrap();
    }

    /// Dies soon after the start of a trial, if the file `NAME.dies` has a number above 0, which then is one less.
    fn die_if_asked(&self, at_ns: u64) {
        let path = self.file("dies");
        let left = fs::read_to_string(&path).ok().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        if left > 0 {
            fs::write(&path, (left - 1).to_string()).unwrap();
            clock::sleep_until_ns(at_ns + DIES_AFTER_NS);
            self.note("dies");
            std::process::exit(9);
        }
    }

    /// The fingerprint of a host with the kernel that the file `NAME.kernel` names.
    fn fingerprint(&self) -> Fingerprint {
        let kernel = fs::read_to_string(self.file("kernel")).unwrap_or_default();
        Fingerprint { kernel, ..Fingerprint::default() }
    }

    /// How late its reading or its start is said to be, nanoseconds: the next line of the file `NAME.late`, which it
    /// then loses.
    fn lateness_ns(&self) -> u64 {
        let path = self.file("late");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let Some((first, rest)) = text.split_once('\n') else { return 0 };
        fs::write(&path, rest).unwrap();
        first.parse().unwrap()
    }

    fn play(
        &self,
        request: &PlayRequest,
        at_ns: Option<u64>,
        interrupts: &Interrupts,
    ) -> Result<Done, Failure> {
        let at_ns = at_ns.unwrap();
        let LoadPlan::Open { rate_qps, .. } = request.plan.load else { panic!("a closed loop") };
        let duration = request.plan.stop.after.unwrap();
        self.note(&format!("play {rate_qps} {at_ns}"));
        self.die_if_asked(at_ns);
        while clock::now_ns() < at_ns + duration.as_nanos() as u64 {
            if interrupts.is_asked() {
                self.note("stopped");
                if self.file("slow").exists() {
                    thread::sleep(STOPS_IN);
                }
                return Err(("the trial was interrupted".into(), Vec::new()));
            }
            thread::sleep(LOOK);
        }
        let is_deaf = self.file("deaf").exists();
        let trial = record(rate_qps, duration.as_secs_f64(), at_ns, is_deaf);
        Ok(Done::Played(Box::new(Trial { late_start_ns: Some(self.lateness_ns()), ..trial })))
    }
}

impl Worker for Agent {
    type Job = Job;
    type Done = Done;

    fn work(&mut self, job: Job, interrupts: &Interrupts) -> Result<Done, Failure> {
        Ok(match job {
            Job::Facts { .. } => Done::Facts {
                fingerprint: Box::new(self.fingerprint()),
                topology: topology(),
                probe: BTreeMap::new(),
                device: Some("eth0".into()),
            },
            Job::Set { .. } => {
                self.note("set");
                Done::Set { changed: Vec::new(), remarks: vec!["irqbalance runs".into()] }
            }
            Job::Unset => {
                self.note("unset");
                if self.file("stuck").exists() {
                    return Err(("rps.lo stays 1".into(), Vec::new()));
                }
                Done::Unset
            }
            Job::Start(request) => {
                self.note(&format!("start {}", request.start));
                Done::Started {
                    addresses: vec![ADDRESS.parse().unwrap()],
                    ready_s: 0.1,
                    version: Some("1.2".into()),
                    pid: 1,
                    programs: BTreeMap::new(),
                }
            }
            Job::Stop { start, .. } => {
                self.note(&format!("stop {start}"));
                Done::Stopped
            }
            Job::WatchBegin { stamped, .. } => {
                if self.file("slow").exists() {
                    thread::sleep(READS_IN);
                }
                let one_in = stamped.map(|stamped| format!("watch one in {}", stamped.one_in));
                self.note(one_in.as_deref().unwrap_or("watch"));
                Done::Begun { over_ns: clock::now_ns() }
            }
            Job::WatchAgain { by_ns } => {
                self.note(&format!("watch-again {by_ns}"));
                self.die_if_asked(by_ns);
                clock::sleep_until_ns(by_ns);
                Done::Begun { over_ns: by_ns + self.lateness_ns() }
            }
            Job::WatchSent => Done::Sent,
            Job::WatchEnd => Done::Seen(Box::default()),
            Job::Play { request, at_ns, .. } => return self.play(&request, at_ns, interrupts),
            Job::CpuTime { .. } => Done::CpuTime { cpu_s: 0.0 },
            other => return Err((format!("{other:?} is no job of these tests"), Vec::new())),
        })
    }

    fn end(&mut self) {}
}

fn topology() -> Topology {
    let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
    Topology { cores: (0..4).map(core).collect(), ..Topology::default() }
}

/// The record of a player, which got all replies or none.
fn record(rate_qps: f64, duration_s: f64, at_ns: u64, is_deaf: bool) -> Trial {
    let sent = (rate_qps * duration_s).round() as u64;
    let (correct, lost) = if is_deaf { (0, sent) } else { (sent, 0) };
    let empty = || Histogram::default().encode();
    Trial {
        started_monotonic_ns: at_ns,
        target: ADDRESS.into(),
        dataset: DatasetFacts { hash: "a3".into(), queries: 7, ..DatasetFacts::default() },
        load: LoadFacts {
            mode: LoadMode::Open,
            arrivals: Some("even".into()),
            intended_qps: Some(rate_qps),
            duration_s,
            timeout_s: 0.25,
            correct_in_time: Some(correct),
            ..LoadFacts::default()
        },
        accounts: Accounts { intended: sent, sent, correct, lost, ..Accounts::default() },
        histograms: ["latency", "lag", "gap"].map(|name| (name.to_owned(), empty())).into(),
        players: NonEmpty::one(PlayerFacts::default()),
        hosts: NonEmpty::one(HostFacts::default()),
        ..Trial::default()
    }
}
