//! Every subject that kqps knows and that is installed here: it starts with each of its settings, answers
//! correctly, reads its zone again, stops in time, and leaves nothing behind.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kqps_ask::{AskError, Server};
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::factors::CertificateType;
use kqps_observation::trial::Transport;
use kqps_skips::{Capability, skip};
use kqps_testbed::certificates::Certificates;
use kqps_testbed::event::performer::Performed;
use kqps_testbed::event::{Control, Event};
use kqps_testbed::path::LaidPath;
use kqps_testbed::subject::definition::ReadyKind;
use kqps_testbed::subject::{
    Definition, LaunchSetting, Over, StartError, Subject, Zone, builtin, programs, version,
};
use tempfile::TempDir;

const NOERROR: u8 = 0;
const NXDOMAIN: u8 = 3;

struct Rig {
    folder: TempDir,
    starts: u32,
    /// Zones beside the first.
    more: Vec<Zone>,
}

type Settings = BTreeMap<String, String>;

impl Rig {
    fn new() -> Self {
        let rig = Self { folder: tempfile::tempdir().unwrap(), starts: 0, more: Vec::new() };
        rig.write_zone(1, "");
        rig
    }

    fn zone(&self) -> PathBuf {
        self.folder.path().join("zone")
    }

    fn write_zone(&self, serial: u32, more: &str) {
        Self::write("bench.test.", &self.zone(), serial, more);
    }

    fn write(origin: &str, path: &Path, serial: u32, more: &str) {
        let zone = format!(
            "$ORIGIN {origin}\n$TTL 3600\n@ SOA ns1 host {serial} 3600 600 86400 1\n@ NS ns1\n\
             ns1 A 192.0.2.1\n{more}"
        );
        // A rename makes it another file, which a server that polls its files must notice.
        fs::write(path.with_extension("part"), zone).unwrap();
        fs::rename(path.with_extension("part"), path).unwrap();
    }

    fn start(
        &mut self,
        definition: &Definition,
        workers: u32,
        settings: &Settings,
    ) -> Result<Started, StartError> {
        self.start_over(Transport::Udp, definition, workers, settings)
    }

    fn start_over<'c>(
        &mut self,
        over: impl Into<Over<'c>>,
        definition: &Definition,
        workers: u32,
        settings: &Settings,
    ) -> Result<Started, StartError> {
        self.starts += 1;
        // Deeper than the longest path of a socket (107 bytes, unix(7)).
        let deep = self.folder.path().join("deep/".repeat(24));
        let folder = deep.join(format!("{}-{}", definition.name, self.starts));
        let zones = [&[Zone::new("bench.test.", self.zone())], &self.more[..]].concat();
        let setting = LaunchSetting {
            path: &LaidPath::Loopback,
            folder: &folder,
            zones: &zones,
            kqps: Path::new(env!("CARGO_BIN_EXE_kqps")),
            io: "mmsg",
            workers,
            cpus: &[last_core()],
            settings,
        };
        let subject = Subject::start_over(over, definition, &setting, &Interrupts::default(), None)?;
        Ok(Started { subject, folder })
    }

    fn started(&mut self, definition: &Definition, workers: u32, settings: &Settings) -> Started {
        self.start(definition, workers, settings).unwrap_or_else(|error| {
            panic!("{} with {settings:?}: {error}\n{}", definition.name, error.output().join("\n"))
        })
    }
}

struct Started {
    subject: Subject,
    folder: PathBuf,
}

impl Started {
    fn output(&self) -> String {
        fs::read_to_string(self.folder.join("output")).unwrap_or_default()
    }

    /// Stops it, and asserts that nothing is left.
    fn stop(self, definition: &Definition) {
        let asked = Instant::now();
        self.subject.stop();
        assert!(asked.elapsed() < definition.stop.within(), "{} stops when it is asked", definition.title);
        let left = processes_of(&self.folder);
        assert!(left.is_empty(), "{} left {left:?}", definition.title);
    }
}

/// Processes of a folder, by their environment or their working directory.
fn processes_of(folder: &Path) -> Vec<u32> {
    let mark = format!("KQPS_SUBJECT={}\0", folder.display());
    let is_of = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let works_there = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at == folder);
        works_there || String::from_utf8_lossy(&environment).contains(&mark)
    };
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(is_of).collect()
}

/// The definitions that can be tried here. The others are reported as skipped.
fn installed() -> Vec<Definition> {
    let all = builtin::servers().into_iter().chain([builtin::echo()]);
    all.filter(|definition| {
        let missing = definition.programs.iter().find(|program| programs::find(program).is_none());
        if let Some(program) = missing {
            let package = definition.package.as_deref().unwrap_or_default();
            let title = &definition.title;
            skip(Capability::Programs, format!("{title}: `{program}` is missing (apt install {package})"));
        }
        // A resolver needs an Internet in a box.
        missing.is_none() && !definition.resolves()
    })
    .collect()
}

/// Asks for a name's address until there is a reply. Returns its rcode and number of answers.
fn ask(server: SocketAddr, name: &str) -> (u8, u16) {
    let patience = Duration::from_millis(500);
    let mut socket = Server::over_udp(server).connect(patience).unwrap();
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    for _ in 0..20 {
        // A refusing port is an error at once; the remaining time is for slow servers.
        if let Ok(reply) = socket.ask(&query, patience) {
            assert_eq!(reply[2] & 0x80, 0x80);
            return (reply[3] & 0x0f, u16::from_be_bytes([reply[6], reply[7]]));
        }
    }
    panic!("{server} does not answer");
}

fn assert_answers(definition: &Definition, subject: &Subject) {
    for &address in subject.addresses() {
        if definition.ready.kind == ReadyKind::Soa {
            assert_eq!(ask(address, "ns1.bench.test"), (NOERROR, 1), "{}", definition.title);
            assert_eq!(ask(address, "x7f.bench.test"), (NXDOMAIN, 0), "{}", definition.title);
            assert_eq!(ask(address, "ns1.bench.test"), (NOERROR, 1), "{} from its cache", definition.title);
        } else {
            assert_eq!(ask(address, "ns1.bench.test").0, NOERROR, "{}", definition.title);
        }
    }
}

/// The last core, which servers do not choose first by themselves.
fn last_core() -> u32 {
    *kqps_kernel::affinity::allowed().unwrap().last().unwrap()
}

fn cores_of(tid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    line.split_whitespace().last().unwrap().to_string()
}

#[test]
fn each_starts_under_each_of_its_settings_answers_and_stops() {
    let mut rig = Rig::new();
    for definition in installed() {
        let mut tried = vec![Settings::new()];
        for (name, declared) in &definition.settings {
            tried.extend(declared.values.keys().map(|value| [(name.clone(), value.clone())].into()));
        }
        for settings in tried {
            // The echo can steer only if each worker has a socket, and of the fronts dnsdist alone has a protection.
            let needed = match &*definition.name {
                "echo" if settings.contains_key("steer") => Some(("sockets", "reuseport")),
                "front" if settings.contains_key("protection") => Some(("front", "dnsdist")),
                _ => None,
            };
            let needed = needed.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let settings: Settings = settings.into_iter().chain(needed).collect();
            let mut started = match rig.start(&definition, 1, &settings) {
                // A front needs another program, as its back end or beside it.
                Err(error) if error.output().iter().any(|line| line.contains("is not on the PATH")) => {
                    let what = format!("{} with {settings:?}: {:?}", definition.title, error.output());
                    skip(Capability::Programs, what);
                    continue;
                }
                Err(error) => {
                    let output = error.output().join("\n");
                    panic!("{} with {settings:?}: {error}\n{output}", definition.title)
                }
                Ok(started) => started,
            };
            assert_answers(&definition, &started.subject);
            assert_eq!(started.subject.ended(), None);
            for thread in kqps_host::threads_of(started.subject.pid()) {
                let cores = cores_of(thread);
                assert_eq!(cores, last_core().to_string(), "a thread of {}", definition.title);
            }
            started.stop(&definition);
        }
    }
}

/// The rcodes of replies to `count` queries, which are all sent on one connection before the first reply is read.
fn ask_by_connection(server: SocketAddr, count: u16) -> Result<Vec<u8>, AskError> {
    let patience = Duration::from_secs(10);
    let mut connection = Server::over_tcp(server).connect(patience)?;
    let after_id = b"\x01\0\0\x01\0\0\0\0\0\0\x03ns1\x05bench\x04test\0\0\x01\0\x01";
    let queries: Vec<_> = (0..count).map(|id| [&id.to_be_bytes()[..], after_id].concat()).collect();
    connection.send(&queries.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    queries.iter().map(|_| Ok(connection.receive(patience)?[3] & 0x0f)).collect()
}

/// More connections than a server takes by default, and many queries on each.
#[test]
fn each_that_answers_over_tcp_keeps_many_connections_for_many_queries() {
    let mut rig = Rig::new();
    for definition in installed() {
        if definition.check_transport(Transport::Tcp).is_err() {
            assert_eq!(definition.name, "front");
            continue;
        }
        let started = rig.start_over(Transport::Tcp, &definition, 2, &Settings::new());
        let mut started = started.unwrap_or_else(|error| {
            panic!("{} over tcp: {error}\n{}", definition.title, error.output().join("\n"))
        });
        let address = started.subject.address();
        let kept: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        let rcodes = ask_by_connection(address, 500);
        let rcodes = rcodes.unwrap_or_else(|error| panic!("{}: {error}", definition.title));
        assert_eq!(rcodes, vec![NOERROR; 500], "{}", definition.title);
        drop(kept);
        assert_eq!(started.subject.ended(), None);
        started.stop(&definition);
    }
}

/// The subjects that answer over each encrypted transport.
const ENCRYPTED: [(Transport, &[&str]); 3] = [
    (Transport::Tls, &["nsd", "bind", "unbound", "dnsdist", "echo", "kqps-auth", "kqps-cache"]),
    (Transport::Https, &["bind", "unbound", "dnsdist", "echo", "kqps-auth", "kqps-cache"]),
    (Transport::Quic, &["echo", "kqps-auth", "kqps-cache"]),
];

/// The probe asks for the zone over the transport, and accepts certificates of the run's issuer alone.
#[test]
fn each_that_answers_encrypted_has_the_certificate_that_it_is_given() {
    let types = [CertificateType::EcdsaP256, CertificateType::Rsa2048];
    let certificates = Certificates::make(types).unwrap();
    let mut rig = Rig::new();
    for definition in installed() {
        for (transport, names) in ENCRYPTED {
            let answers = definition.check_transport(transport).is_ok();
            assert_eq!(answers, names.contains(&definition.name.as_str()), "{}", definition.title);
            for certificate in types.map(|one| certificates.certificate(one)).into_iter().filter(|_| answers)
            {
                let started =
                    rig.start_over(Over { transport, certificate }, &definition, 2, &Settings::new());
                let mut started = started.unwrap_or_else(|error| {
                    let (title, word) = (&definition.title, transport.word());
                    panic!("{title} over {word}: {error}\n{}", error.output().join("\n"))
                });
                assert_eq!(started.subject.ended(), None);
                started.stop(&definition);
            }
        }
    }
    let echo = builtin::echo();
    let error = rig.start_over(Transport::Tls, &echo, 1, &Settings::new()).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "echo cannot listen over tls without a certificate");
}

#[test]
fn each_may_have_two_workers() {
    let mut rig = Rig::new();
    for definition in installed() {
        let started = rig.started(&definition, 2, &Settings::new());
        assert_answers(&definition, &started.subject);
        started.stop(&definition);
    }
}

#[test]
fn each_reports_its_version() {
    for definition in installed() {
        let said = version::ask(&definition, Path::new(env!("CARGO_BIN_EXE_kqps")))
            .ok()
            .flatten()
            .unwrap_or_default();
        assert!(said.starts_with(|first: char| first.is_ascii_digit()), "{}: {said}", definition.title);
    }
}

/// Waits until a reload shows: until a server has this name.
fn until_it_has(name: &str, started: &Started) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while ask(started.subject.address(), name) != (NOERROR, 1) {
        let folder = started.folder.display();
        assert!(Instant::now() < deadline, "no {name} in {folder}: {}", started.output());
        std::thread::yield_now();
    }
}

/// As a server that runs already is asked.
#[test]
fn each_that_reloads_on_a_signal_reads_its_zone_again() {
    let mut rig = Rig::new();
    for definition in installed() {
        let way = definition.control.get(&Control::Reload);
        let Some(signal) = way.and_then(|way| way.signal) else { continue };
        rig.write_zone(1, "");
        let started = rig.started(&definition, 1, &Settings::new());
        rig.write_zone(2, "new A 192.0.2.2\n");
        kqps_kernel::process::signal(started.subject.pid(), signal.signal()).unwrap();
        until_it_has("new.bench.test", &started);
        started.stop(&definition);
    }
}

/// The outcome of an event at a running subject, which must not fail.
fn performed(started: &Started, event: &str) -> Performed {
    let event: Event = toml::from_str(&format!("at = \"0\"\n{event}")).unwrap();
    let outcome = started.subject.perform(&LaidPath::Loopback, &event, Duration::from_secs(30));
    let outcome = outcome.unwrap_or_else(|why| panic!("{event}: {why}"));
    assert_eq!(outcome.failure, None, "{event} in {}: {}", started.folder.display(), started.output());
    assert!(outcome.begun_ns.is_some(), "{event} in {}", started.folder.display());
    outcome
}

#[test]
fn each_is_controlled_as_its_definition_says() {
    let mut rig = Rig::new();
    let other = rig.folder.path().join("other");
    for definition in installed() {
        let title = &definition.title;
        rig.write_zone(1, "");
        Rig::write("other.test.", &other, 1, "");
        rig.more = definition.each_zone.iter().map(|_| Zone::new("other.test.", &other)).collect();
        // Without a cache dnsdist has nothing to flush.
        let has_cache_setting = definition.settings.contains_key("packet_cache");
        let cache = has_cache_setting.then(|| ("packet_cache".to_owned(), "yes".to_owned()));
        let started = rig.started(&definition, 1, &cache.into_iter().collect());
        let mut serial = 1;
        for (control, way) in &definition.control {
            for zone in ["", "zone = \"bench.test.\""] {
                let is_of_all = zone.is_empty();
                let words = if is_of_all { &way.command } else { &way.zone_command };
                if words.is_empty() && !(is_of_all && way.signal.is_some()) {
                    continue;
                }
                serial += 1;
                rig.write_zone(serial, "");
                let new = format!("n{serial}.other.test");
                Rig::write("other.test.", &other, serial, &format!("{new}. A 192.0.2.2\n"));
                let is_of_other = is_of_all && *control == Control::Reload && !rig.more.is_empty();
                if is_of_other {
                    assert_eq!(ask(started.subject.address(), &new), (NXDOMAIN, 0), "{title}");
                }
                let done_ns = performed(&started, &format!("do = \"{}\"\n{zone}", control.word())).done_ns;
                assert!(done_ns.is_some(), "{title} is not seen to {} {zone}", control.word());
                if is_of_other {
                    until_it_has(&new, &started);
                }
            }
        }
        let stop = performed(&started, "do = \"stop\"\nfor = \"50ms\"");
        assert!(stop.done_ns.unwrap() - stop.begun_ns.unwrap() >= 50_000_000, "{title}");
        let pid = started.subject.pid();
        assert!(performed(&started, "do = \"restart\"").done_ns.is_some(), "{title} does not answer again");
        assert_ne!(started.subject.pid(), pid, "{title}");
        assert_answers(&definition, &started.subject);
        started.stop(&definition);
    }
}

#[test]
fn a_killed_subject_is_gone_and_can_be_started_again() {
    let mut rig = Rig::new();
    let echo = builtin::echo();
    let mut started = rig.started(&echo, 1, &Settings::new());
    assert!(performed(&started, "do = \"kill\"").done_ns.is_some());
    assert!(started.subject.ended().is_some(), "it is gone");
    assert!(performed(&started, "do = \"restart\"").done_ns.is_some());
    assert_eq!(started.subject.ended(), None);
    for (event, wanted) in [
        ("do = \"flush\"", "echo cannot flush: [control] has no command or signal for flush"),
        ("do = \"reload\"", "echo cannot reload: [control] has no command or signal for reload"),
        (
            "do = \"reload\"\nzone = \"a.\"",
            "echo cannot reload one zone: [control] has no zone_command for reload",
        ),
        ("do = \"standstill\"\nfor = \"1s\"", "the load goes over loopback"),
    ] {
        let event: Event = toml::from_str(&format!("at = \"0\"\n{event}")).unwrap();
        let refused = started.subject.perform(&LaidPath::Loopback, &event, Duration::ZERO).unwrap_err();
        assert!(refused.contains(wanted), "{refused}");
    }
    started.stop(&echo);
}

#[test]
fn a_port_each_is_as_many_addresses() {
    let mut rig = Rig::new();
    let settings = |pairs: &[(&str, &str)]| -> Settings {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let echo = builtin::echo();
    let of_echo = settings(&[("processes", "2"), ("threads", "2"), ("sockets", "port-each")]);
    let started = rig.started(&echo, 4, &of_echo);
    assert_eq!(started.subject.addresses().len(), 4);
    assert_answers(&echo, &started.subject);
    started.stop(&echo);

    let Some(unbound) = installed().into_iter().find(|definition| definition.name == "unbound") else {
        return;
    };
    for sockets in ["port-each", "reuseport"] {
        let of_unbound = settings(&[("model", "processes"), ("sockets", sockets), ("event", "select")]);
        let started = rig.started(&unbound, 3, &of_unbound);
        assert_eq!(started.subject.addresses().len(), if sockets == "port-each" { 3 } else { 1 });
        assert_answers(&unbound, &started.subject);
        started.stop(&unbound);
    }
    let impossible = settings(&[("sockets", "port-each")]);
    let error = rig.start(&unbound, 3, &impossible).map(|_| ()).unwrap_err();
    assert!(error.output()[0].contains("it needs model = \"processes\""), "{:?}", error.output());
}

#[test]
fn unbound_waits_by_the_call_that_was_asked_for() {
    let Some(unbound) = installed().into_iter().find(|definition| definition.name == "unbound") else {
        return;
    };
    let mut rig = Rig::new();
    for event in ["epoll", "poll", "select"] {
        let started = rig.started(&unbound, 1, &[("event".into(), event.into())].into());
        let descriptors = processes_of(&started.folder).into_iter().flat_map(|pid| {
            fs::read_dir(format!("/proc/{pid}/fd"))
                .unwrap()
                .flatten()
                .map(|entry| fs::read_link(entry.path()))
        });
        let has_epoll = descriptors.flatten().any(|target| target.to_string_lossy().contains("[eventpoll]"));
        assert_eq!(has_epoll, event == "epoll", "{event}");
        started.stop(&unbound);
    }
}

/// If one worker ends, the others end too, so that no trial measures a subject with fewer workers than it
/// should have.
#[test]
fn unbound_is_whole_or_not_at_all() {
    let Some(unbound) = installed().into_iter().find(|definition| definition.name == "unbound") else {
        return;
    };
    let mut rig = Rig::new();
    let mut started = rig.started(&unbound, 2, &[("model".into(), "processes".into())].into());
    let leader = started.subject.pid();
    let worker = processes_of(&started.folder).into_iter().find(|&pid| pid != leader).unwrap();
    kqps_kernel::process::signal(worker, kqps_kernel::process::Signal::Kill).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while started.subject.ended().is_none() {
        assert!(Instant::now() < deadline, "its end was not noticed");
        std::thread::yield_now();
    }
    drop(started.subject);
    assert_eq!(processes_of(&started.folder), Vec::<u32>::new());
}
