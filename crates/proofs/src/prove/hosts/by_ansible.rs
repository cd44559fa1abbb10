//! Ansible: the shipped role installs kqps on the hosts and tunes them, a run takes the same inventory as its hosts'
//! file, and the role takes all of it back.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_programs::{python, shell};

use super::super::Bench;
use super::lab::Lab;
use super::{leftovers, study};

/// Room for a program, and for what Ansible puts there.
const DISK: &str = "512m";

/// The version of ansible-core. It is the last one for the Python of Debian 12.
const ANSIBLE: &str = "ansible-core>=2.19,<2.20";

/// Where the role puts kqps: on a file system of the host's own.
const THERE: &str = "/run/kqps/kqps";

/// The settings that the role applies.
const TUNING: [(&str, &str); 2] = [("sysctl.net.ipv4.udp_rmem_min", "16384"), ("rps.data0.0", "0")];

/// A setting of these, and the value that somebody else gives it.
const CHANGED: (&str, &str) = ("sysctl.net.ipv4.udp_rmem_min", "77");

/// The folder that is shipped.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/ansible");

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let ansible = Ansible::install(bench)?;
    let lab = Lab::new(bench, DISK)?;
    let before = leftovers::settings(&lab)?;
    let inventory = ansible.write_inventory(&lab)?;

    ansible.play(&lab, bench, &inventory, "present")?;
    for (host, before) in lab.hosts.iter().zip(&before) {
        ensure!(host.path(Path::new(THERE)).is_file(), "{} has no kqps", host.name);
        let now = host.settings()?;
        for (name, _) in TUNING {
            ensure!(now.get(name) != before.get(name), "{name} of {} was not set", host.name);
        }
    }
    study::agrees(bench, &lab, ("by an inventory of Ansible", &inventory), |command| {
        ansible.prepare(command);
    })?;

    // Changes that somebody else made meanwhile stay, and the role still takes the rest back.
    let meddled = lab.server();
    meddled.write(CHANGED.0, CHANGED.1.as_bytes())?;
    ansible.play(&lab, bench, &inventory, "absent")?;
    for host in &lab.hosts {
        ensure!(!host.path(Path::new(THERE)).exists(), "kqps is still on {}", host.name);
    }
    let now = meddled.settings()?;
    let value = now.get(CHANGED.0).map(|value| String::from_utf8_lossy(value).trim().to_owned());
    ensure!(value.as_deref() == Some(CHANGED.1), "the value of somebody else became {value:?}");
    meddled.write(CHANGED.0, &before[0][CHANGED.0])?;
    ensure!(leftovers::settings(&lab)? == before, "the role did not take every setting back");
    eprintln!("{} settings of {} hosts are byte for byte as they were", TUNING.len(), lab.hosts.len());
    Ok(())
}

/// Ansible in a Python environment of its own.
struct Ansible {
    programs: PathBuf,
}

impl Ansible {
    fn install(bench: &Bench) -> Result<Self> {
        let programs = python::environment(&bench.folder.path().join("venv"), [ANSIBLE])?;
        let version = shell::read(Command::new(programs.join("ansible-playbook")).arg("--version"))?;
        eprintln!("{}", version.lines().next().unwrap_or_default());
        Ok(Self { programs })
    }

    /// Puts Ansible on the path of a command, without connections that outlive it.
    fn prepare(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.programs.display()));
        command.env("LC_ALL", "C.UTF-8").env("ANSIBLE_SSH_ARGS", "-oControlMaster=no");
        command.env("ANSIBLE_ROLES_PATH", format!("{DEPLOY}/roles")).env("ANSIBLE_NOCOLOR", "1");
    }

    /// Writes the inventory of the lab's hosts.
    fn write_inventory(&self, lab: &Lab) -> Result<PathBuf> {
        let line = |host: &super::host::LabHost| {
            format!(
                "{} ansible_host={} kqps_data={} kqps_device={}\n",
                host.name,
                host.control,
                host.data,
                super::host::DATA
            )
        };
        let known = lab.config.with_extension("known");
        let mut text = format!("[kqps_server]\n{}\n[kqps_players]\n", line(lab.server()));
        text.extend(lab.players().iter().map(line));
        let _ = write!(
            text,
            "\n[all:vars]\nansible_user=root\nansible_ssh_private_key_file={}\n\
             ansible_ssh_common_args='-oUserKnownHostsFile={} -oGlobalKnownHostsFile=/dev/null'\n\
             ansible_python_interpreter=/usr/bin/python3\nansible_remote_tmp=/run/ansible\nkqps_program={THERE}\n",
            lab.keys.user().display(),
            known.display()
        );
        let file = lab.home.join("inventory.ini");
        fs::write(&file, text)?;
        // The program that kqps asks reads it here, too.
        let mut list = Command::new(self.programs.join("ansible-inventory"));
        list.args(["--list", "-i"]).arg(&file);
        self.prepare(&mut list);
        shell::read(&mut list).context("Ansible cannot read the inventory")?;
        Ok(file)
    }

    /// Plays the shipped playbook.
    fn play(&self, lab: &Lab, bench: &Bench, inventory: &Path, state: &str) -> Result<()> {
        let tuning: Vec<String> = TUNING.iter().map(|(name, value)| format!("\"{name}={value}\"")).collect();
        let variables = format!(
            "{{\"kqps_state\": \"{state}\", \"kqps_local\": \"{}\", \"kqps_tuning\": [{}]}}",
            bench.kqps.program.display(),
            tuning.join(", ")
        );
        let mut command = lab.command(&self.programs.join("ansible-playbook"))?;
        self.prepare(&mut command);
        command.arg("-i").arg(inventory).args(["-e", &variables]).arg(format!("{DEPLOY}/play.yml"));
        let said = shell::read(&mut command)?;
        let sums = said.lines().filter(|line| line.contains("failed="));
        sums.for_each(|line| eprintln!("{}", line.split_whitespace().collect::<Vec<_>>().join(" ")));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    const HOSTS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/HOSTS.md"));
    const PRESENT: &str = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/ansible/roles/kqps/tasks/present.yml"
    ));
    const ABSENT: &str = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/ansible/roles/kqps/tasks/absent.yml"
    ));
    const MANIFEST: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/players.yaml"));

    /// The capabilities of the first `setcap` of a text, without `cap_`, in capitals.
    fn of_setcap(text: &str) -> Vec<String> {
        let is_list = |word: &&str| word.starts_with("cap_") && word.ends_with("ep");
        let list = text.split(|one: char| one.is_whitespace() || one == '"').find(is_list).unwrap();
        let names = list.trim_end_matches("ep").trim_end_matches(['+', '=']);
        names.split(',').map(|word| word.strip_prefix("cap_").unwrap().to_uppercase()).collect()
    }

    /// Capabilities in the table of rights, which root does not stand for.
    fn of_table() -> Vec<String> {
        let rights = HOSTS.split("## Rights").nth(1).unwrap().split("\n## ").next().unwrap();
        let table = rights.lines().filter(|line| line.starts_with('|'));
        let words = table.flat_map(|line| line.split('`'));
        let mut found: Vec<String> =
            words.filter_map(|word| word.strip_prefix("CAP_").map(str::to_owned)).collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn the_docs_the_role_and_the_manifest_give_the_capabilities_of_the_table() {
        // The command of the docs gives those of runs on one host as well.
        let of_docs = of_setcap(HOSTS);
        assert!(of_table().iter().all(|name| of_docs.contains(name)), "{of_docs:?}");
        let mut of_role = of_setcap(PRESENT);
        of_role.sort();
        assert_eq!(of_role, of_table());
        for line in MANIFEST.lines().filter(|line| line.contains("add: [")) {
            assert!(of_table().iter().all(|name| line.contains(&format!("\"{name}\""))), "{line}");
        }
    }

    #[test]
    fn the_role_goes_on_where_somebody_else_has_changed_a_setting() {
        for tasks in [PRESENT, ABSENT] {
            let undo = tasks.split("- name: ").find(|task| task.contains("\"undo\"")).unwrap();
            assert!(undo.contains("failed_when: kqps_undone.rc not in [0, 1]"), "{undo}");
        }
    }
}
