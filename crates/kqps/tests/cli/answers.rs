//! What the generator calls the right answer is what name servers answer: each that is installed loads the zones of
//! every recipe, and its answers are checked to the last record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;

use kqps_dataset::generate::{Recipe, recipe_names};
use kqps_kernel::affinity;
use kqps_lab::path::LaidPath;
use kqps_lab::subject::{Definition, Setting, Subject, Zone, programs};
use kqps_observation::Trial;
use tempfile::TempDir;

/// A server, and how it reads the lists of zones; `ZONES` stands for their folder.
const SERVERS: [(&str, &str, &str, &str); 3] = [
    (
        "nsd",
        "nsd.conf",
        r#"
server:
    ip-address: {address}@{port}
    server-count: {workers}
    username: ""
    chroot: ""
    database: ""
    zonesdir: "{dir}"
    pidfile: "{dir}/nsd.pid"
    xfrdfile: "{dir}/xfrd.state"
    xfrdir: "{dir}"
    zonelistfile: "{dir}/zone.list"
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
include: "ZONES/nsd.zones"
"#,
        r#"["nsd", "-c", "{dir}/nsd.conf", "-d"]"#,
    ),
    (
        "knotd",
        "knot.conf",
        r#"
server:
    rundir: "{dir}"
    listen: {address}@{port}
    udp-workers: {workers}
    tcp-workers: 1
    background-workers: 1
database:
    storage: "{dir}"
log:
  - target: stderr
    any: notice
template:
  - id: default
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
include: "ZONES/knot.zones"
"#,
        r#"["knotd", "-c", "{dir}/knot.conf"]"#,
    ),
    (
        "named",
        "named.conf",
        r#"
options {
    directory "{dir}";
    listen-on port {port} { {address}; };
    listen-on-v6 { none; };
    recursion no;
    dnssec-validation no;
    minimal-responses yes;
    pid-file "{dir}/named.pid";
    session-keyfile "{dir}/session.key";
    lock-file none;
    notify no;
};
controls {};
include "ZONES/named.zones";
"#,
        r#"["named", "-n", "{workers}", "-c", "{dir}/named.conf", "-g"]"#,
    ),
];

fn definition(program: &str, file: &str, config: &str, command: &str, zones: &Path) -> Definition {
    let config = config.replace("ZONES", &zones.display().to_string());
    let text = format!(
        "name = \"{program}\"\ntitle = \"{program}\"\nprograms = [\"{program}\"]\nio = \"mmsg\"\n\
         [files]\n\"{file}\" = '''{config}# {{origin}} {{zone}}\n'''\n\
         [start]\ncommand = {command}\n[ready]\nkind = \"soa\"\nwithin_s = 60\n[stop]\nsignal = \"TERM\"\nwithin_s = 10\n"
    );
    Definition::read(program, &text).unwrap_or_else(|error| panic!("{error}"))
}

/// What makes a recipe small enough for a test; it stays what it is.
fn settings(name: &str) -> &'static [&'static str] {
    match name {
        "hosting" => &["--set", "zones=50"],
        "windows-mix" => &["--set", "zones=10", "--set", "records=100", "--set", "broken=3"],
        "attack" => &["--set", "zones=5", "--set", "records=100"],
        "tiny" => &["--set", "records=1k"],
        _ => &["--set", "records=300"],
    }
}

struct Materials {
    folder: TempDir,
    origin: String,
}

impl Materials {
    fn zones(&self) -> PathBuf {
        self.folder.path().join("zones")
    }

    fn kqps(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        command.env("XDG_CACHE_HOME", self.folder.path().join("cache")).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.kqps().args(args).current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The zones and queries of a recipe; none where zones are to be signed, and no program is there to do it.
    fn make(name: &str) -> Option<Self> {
        let mut materials = Self { folder: tempfile::tempdir().unwrap(), origin: String::new() };
        let is_signed = Recipe::named(name, &[]).unwrap().signing.is_some();
        if is_signed
            && ["dnssec-signzone", "ldns-signzone"].iter().all(|program| programs::find(program).is_none())
        {
            println!(
                "skipped: {name}: neither dnssec-signzone nor ldns-signzone is installed (bind9-dnsutils)"
            );
            return None;
        }
        let recipe = [&["--recipe", name], settings(name)].concat();
        materials.run(&[&["gen", "zone"], &recipe[..], &["-o", "zones/"]].concat());
        let queries = ["-n", "3000", "--expect", "answers", "-o", "queries"];
        materials.run(&[&["gen", "queries"], &recipe[..], &queries].concat());
        let list = fs::read_to_string(materials.zones().join("zones.list")).unwrap();
        list.split(' ').next().unwrap().clone_into(&mut materials.origin);
        Some(materials)
    }

    /// A trial of a server with these zones.
    fn trial(&self, subject: &Subject) -> Trial {
        let target = subject.address().to_string();
        let queries = self.folder.path().join("queries");
        let mut load = self.kqps();
        load.args([
            "load", &target, "-q", "50", "-t", "5s", "--lag", "1m", "--check", "answers", "--json", "-d",
        ]);
        let output = load.arg(queries).output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

#[test]
fn name_servers_answer_as_the_recipes_expect() {
    for name in recipe_names() {
        let Some(materials) = Materials::make(name) else { continue };
        let materials = &materials;
        thread::scope(|scope| {
            for server in SERVERS {
                scope.spawn(move || answers_rightly(name, server, materials));
            }
        });
    }
}

fn answers_rightly(recipe: &str, server: (&str, &str, &str, &str), materials: &Materials) {
    let (program, file, config, command) = server;
    if programs::find(program).is_none() {
        println!("skipped: {program} is not installed");
        return;
    }
    let definition = definition(program, file, config, command, &materials.zones());
    let setting = Setting {
        path: &LaidPath::Loopback,
        folder: &materials.folder.path().join(program),
        zones: &[Zone::new(&materials.origin, materials.zones())],
        kqps: Path::new(env!("CARGO_BIN_EXE_kqps")),
        io: "mmsg",
        workers: 1,
        cpus: &[*affinity::allowed().unwrap().last().unwrap()],
        settings: &BTreeMap::new(),
    };
    let subject = Subject::start(&definition, &setting, &AtomicBool::new(false))
        .unwrap_or_else(|error| panic!("{recipe}, {program}: {error}\n{}", error.output().join("\n")));
    let trial = materials.trial(&subject);
    trial.accounts.check().unwrap();
    let told = format!(
        "{recipe}, {program}: {:?} {:?} {:?}",
        trial.accounts, trial.wrong_causes, trial.wrong_rcodes
    );
    assert_eq!(trial.dataset.check.as_deref(), Some("answers"));
    assert_eq!((trial.accounts.sent, trial.accounts.correct), (3000, 3000), "{told}");
    assert!(trial.accounts.truncated < 30, "hardly any was left unchecked: {told}");
}
