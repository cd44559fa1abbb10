//! The generator's expected answers are those of real name servers: each installed one loads the zones of
//! every recipe, and its answers are checked to the last record.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use kqps_kernel::affinity;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::Trial;
use kqps_recipe::{LIST, Recipe, recipe_names};
use kqps_skips::{Capability, skip};
use kqps_testbed::path::LaidPath;
use kqps_testbed::subject::{Definition, LaunchSetting, Subject, Zone, builtin, programs};
use tempfile::TempDir;

/// The authoritative subjects.
const AUTHORITATIVE: [&str; 5] = ["nsd", "knot", "bind", "pdns", "kqps-auth"];

/// Settings that make a recipe small enough for a test, and change nothing else.
fn settings(name: &str) -> &'static [&'static str] {
    match name {
        "hosting" | "resolver" => &["--set", "zones=50"],
        "windows-mix" => &["--set", "zones=10", "--set", "records=100", "--set", "broken=3"],
        "attack" => &["--set", "zones=5", "--set", "records=100"],
        "tiny" => &["--set", "records=1k"],
        _ => &["--set", "records=300"],
    }
}

struct Materials {
    folder: TempDir,
    zones: Vec<Zone>,
}

impl Materials {
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

    /// The zones and queries of a recipe; `None` if the zones must be signed and the signing program is
    /// missing.
    fn make(name: &str) -> Option<Self> {
        let mut materials = Self { folder: tempfile::tempdir().unwrap(), zones: Vec::new() };
        let is_signed = Recipe::named(name, &[]).unwrap().signing.is_some();
        if is_signed
            && ["dnssec-signzone", "ldns-signzone"].iter().all(|program| programs::find(program).is_none())
        {
            let lacking = "neither dnssec-signzone nor ldns-signzone is installed (bind9-dnsutils)";
            skip(Capability::Programs, format!("{name}: {lacking}"));
            return None;
        }
        let recipe = [&["--recipe", name], settings(name)].concat();
        materials.run(&[&["gen", "zone"], &recipe[..], &["-o", "zones/"]].concat());
        let queries = ["-n", "3000", "--expect", "answers", "-o", "queries"];
        materials.run(&[&["gen", "queries"], &recipe[..], &queries].concat());
        let list = materials.folder.path().join("zones").join(LIST);
        materials.zones = Zone::listed(&list).unwrap();
        Some(materials)
    }

    /// Plays a trial at a server with these zones.
    fn trial(&self, subject: &Subject) -> Trial {
        let target = subject.address().to_string();
        let queries = self.folder.path().join("queries");
        let mut load = self.kqps();
        load.args(["load", &target, "-q", "50", "-t", "5s", "--lag", "1m", "--json", "-d"]);
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
            for server in builtin::servers() {
                if !AUTHORITATIVE.contains(&server.name.as_str()) {
                    continue;
                }
                if server.programs.iter().any(|program| programs::find(program).is_none()) {
                    skip(Capability::Programs, format!("{} is not installed", server.title));
                    continue;
                }
                scope.spawn(move || answers_rightly(name, &server, materials));
            }
        });
    }
}

fn answers_rightly(recipe: &str, server: &Definition, materials: &Materials) {
    let program = &server.name;
    let setting = LaunchSetting {
        path: &LaidPath::Loopback,
        folder: &materials.folder.path().join(program),
        zones: &materials.zones,
        kqps: Path::new(env!("CARGO_BIN_EXE_kqps")),
        io: "mmsg",
        workers: 1,
        cpus: &[*affinity::allowed().unwrap().last().unwrap()],
        settings: &BTreeMap::new(),
    };
    let subject = Subject::start(server, &setting, &Interrupts::default())
        .unwrap_or_else(|error| panic!("{recipe}, {program}: {error}\n{}", error.output().join("\n")));
    let trial = materials.trial(&subject);
    trial.accounts.check().unwrap();
    let context = format!(
        "{recipe}, {program}: {:?} {:?} {:?}",
        trial.accounts, trial.wrong_causes, trial.wrong_rcodes
    );
    assert_eq!(trial.dataset.check.as_deref(), Some("answers"));
    assert_eq!((trial.accounts.sent, trial.accounts.correct), (3000, 3000), "{context}");
    assert!(trial.accounts.truncated < 30, "hardly any was left unchecked: {context}");
}

/// For each list of zones: the configuration that includes it, and the command that checks the configuration.
const CATALOGUES: [(&str, &str, &[&str]); 3] = [
    ("named.zones", "include \"{list}\";\n", &["named-checkconf", "-z", "{config}"]),
    ("nsd.zones", "server:\n    username: \"\"\ninclude: \"{list}\"\n", &["nsd-checkconf", "{config}"]),
    (
        "knot.zones",
        "server:\n    rundir: \"/tmp\"\ninclude: \"{list}\"\n",
        &["knotc", "-c", "{config}", "conf-check"],
    ),
];

#[test]
fn servers_take_the_lists_that_are_made_for_them() {
    let materials = Materials::make("hosting").expect("it is not signed");
    for (list, include, checker) in CATALOGUES {
        let Some(program) = programs::find(checker[0]) else {
            skip(Capability::Programs, format!("{} is not installed", checker[0]));
            continue;
        };
        let path = materials.folder.path().join("zones").join(list);
        let check = |text: &str| {
            let config = materials.folder.path().join("checked.conf");
            fs::write(&config, text).unwrap();
            let args = checker[1..].iter().map(|arg| arg.replace("{config}", config.to_str().unwrap()));
            Command::new(&program).args(args).output().unwrap()
        };
        let include = include.replace("{list}", path.to_str().unwrap());
        let output = check(&include);
        assert!(output.status.success(), "{list}: {output:?}");
        assert!(!check(&include.replace(list, "missing")).status.success(), "{list}: nothing is checked");
    }
}
