//! Hosts from an inventory of Ansible, as `ansible-inventory --list` prints it: the group `kqps_server` has the server,
//! and `kqps_players` has the players. Variables of a host, or of its groups, are those of Ansible for ssh, and:
//!
//! - `kqps_data`: the address for queries, which is needed;
//! - `kqps_become`: in place of `ansible_become`, which is often set for all hosts of an inventory;
//! - `kqps_sources`, `kqps_program`, `kqps_cores`, `kqps_device`: as in the hosts' file.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::error::HostsError;
use crate::host::{Host, Hosts, Words, Wrong};
use crate::message::LINE_MOST;
use crate::remote::{Collects, LineKind, Remote};

/// The program that lists an inventory.
const PROGRAM: &str = "ansible-inventory";

/// The groups of the hosts.
const SERVER: &str = "kqps_server";
const PLAYERS: &str = "kqps_players";

/// The time that listing may take. An inventory may be a program that asks a cloud.
const LIST_WITHIN: Duration = Duration::from_mins(1);

/// Reads an inventory by Ansible.
pub(crate) fn read(path: &Path) -> Result<Hosts, HostsError> {
    read_by(Command::new(PROGRAM), path)
}

/// Reads an inventory by a command that takes the arguments of `ansible-inventory`.
fn read_by(command: Command, path: &Path) -> Result<Hosts, HostsError> {
    let failed = |what| HostsError::Inventory { file: path.display().to_string(), what };
    let text = list(command, path).map_err(failed)?;
    let listing: Value = serde_json::from_slice(&text)
        .map_err(|error| failed(format!("what {PROGRAM} printed is not JSON: {error}")))?;
    hosts_of(&listing).map_err(failed)
}

/// All that a program prints.
#[derive(Debug, Default)]
struct Whole(Vec<u8>);

impl Collects for Whole {
    fn take(&mut self, line: &[u8], _: u64) -> Result<LineKind, String> {
        if self.0.len() + line.len() > LINE_MOST {
            return Err(format!("more than {LINE_MOST} bytes"));
        }
        self.0.extend_from_slice(line);
        self.0.push(b'\n');
        Ok(LineKind::Message)
    }

    fn line_most(&self) -> usize {
        LINE_MOST
    }
}

fn list(mut command: Command, path: &Path) -> Result<Vec<u8>, String> {
    command.arg("--list").arg("-i").arg(path);
    // Without this, a file that is no inventory is one without hosts.
    command.env("ANSIBLE_INVENTORY_UNPARSED_FAILED", "True");
    let remote = Remote::start(command, Whole::default(), None).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "this is no file with the ending .toml, and the program {PROGRAM}, which reads inventories, is not there; \
             install ansible-core"
        ),
        _ => format!("cannot start {PROGRAM}: {error}"),
    })?;
    remote.outbox().close();
    let over = remote.wait_for(Instant::now() + LIST_WITHIN, |known| {
        known.is_over.then(|| (known.exit, known.fault.take(), std::mem::take(&mut known.collected.0)))
    });
    let Some((exit, fault, text)) = over else {
        return Err(format!("{PROGRAM} did not end within {} s", LIST_WITHIN.as_secs()));
    };
    if let Some(fault) = fault {
        return Err(format!("{PROGRAM} printed {fault}"));
    }
    if exit.is_some_and(|exit| exit.success()) {
        return Ok(text);
    }
    let ended = exit.map_or_else(|| "it is gone".to_owned(), |exit| exit.to_string());
    let said = remote.last_words();
    Err(format!("{PROGRAM} failed ({ended}): {}", said.last().map_or("it printed nothing", String::as_str)))
}

/// The hosts of a listing.
fn hosts_of(listing: &Value) -> Result<Hosts, String> {
    let servers = members(listing, SERVER);
    let [server] = servers.as_slice() else {
        return Err(format!("expected one host in the group {SERVER}, found {}", counted(&servers)));
    };
    let players = members(listing, PLAYERS);
    if players.is_empty() {
        return Err(format!("expected at least one host in the group {PLAYERS}, found none"));
    }
    let named = |name: &String| host_of(listing, name).map_err(|what| format!("host {name}: {what}"));
    let all = players.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    Hosts::new(named(server)?, all).map_err(|(place, Wrong { key, what })| {
        let name = place.checked_sub(1).map_or(server, |player| &players[player]);
        format!("host {name}: {}: {what}", variable(key))
    })
}

fn counted(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// The hosts of a group and of the groups within it, each once.
fn members(listing: &Value, group: &str) -> Vec<String> {
    let mut groups = vec![group.to_owned()];
    let mut names: Vec<String> = Vec::new();
    let mut next = 0;
    while let Some(group) = groups.get(next) {
        let listed = |key: &str| texts(&listing[group][key]);
        let (hosts, children) = (listed("hosts"), listed("children"));
        for name in hosts {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for child in children {
            if !groups.contains(&child) {
                groups.push(child);
            }
        }
        next += 1;
    }
    names
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The name of the variable for a key of the hosts' file.
fn variable(key: &str) -> String {
    match key {
        "name" => "inventory_hostname".into(),
        "reach" => "ansible_host".into(),
        "kqps" => "kqps_program".into(),
        key => format!("kqps_{key}"),
    }
}

fn host_of(listing: &Value, name: &str) -> Result<Host, String> {
    let none = Map::new();
    let variables = listing["_meta"]["hostvars"][name].as_object().unwrap_or(&none);
    let text = |key: &str| text_of(variables, key);
    let Some(data) = text("kqps_data")? else {
        return Err("kqps_data is missing: the address of this host for queries".into());
    };
    let (program, sources) = (text("kqps_program")?, text("kqps_sources")?);
    let (cores, device) = (text("kqps_cores")?, text("kqps_device")?);
    let words = Words {
        name,
        reach: reach(name, variables)?,
        kqps: program.as_deref(),
        data: &data,
        sources: sources.as_deref(),
        cores: cores.as_deref(),
        device: device.as_deref(),
    };
    Host::from_words(words).map_err(|Wrong { key, what }| format!("{}: {what}", variable(key)))
}

/// The command that reaches a host, from Ansible's variables for ssh.
fn reach(name: &str, variables: &Map<String, Value>) -> Result<Vec<String>, String> {
    let text = |key: &str| text_of(variables, key);
    let becomes = ["kqps_become", "ansible_become"].into_iter().find(|key| variables.contains_key(*key));
    if let Some(key) = becomes.filter(|key| is_true(&variables[*key])) {
        return Err(format!(
            "{key}: kqps changes no user; let ansible_user be one with the rights and kqps_become be false, or write a \
             hosts' file (TOML) with `reach = \"ssh HOST sudo -n\"`"
        ));
    }
    let connection = text("ansible_connection")?.unwrap_or_else(|| "ssh".into());
    match connection.rsplit('.').next().unwrap_or_default() {
        "local" => return Ok(Vec::new()),
        "ssh" | "smart" => {}
        _ => {
            return Err(format!(
                "ansible_connection: kqps does not know `{connection}`; write a hosts' file (TOML) with `reach`"
            ));
        }
    }
    let ssh = text("ansible_ssh_executable")?.unwrap_or_else(|| "ssh".into());
    if Path::new(&ssh).file_name().is_none_or(|name| name != "ssh") {
        return Err(format!(
            "ansible_ssh_executable: kqps knows the options of ssh alone, found `{ssh}`; write a hosts' file (TOML) \
             with `reach`"
        ));
    }
    let mut words = vec![ssh];
    for key in ["ansible_ssh_common_args", "ansible_ssh_extra_args"] {
        let line = text(key)?.unwrap_or_default();
        words.extend(shlex::split(&line).ok_or_else(|| format!("{key}: a quote is not closed in `{line}`"))?);
    }
    let first = |keys: [&str; 2]| Ok::<_, String>(text(keys[0])?.or(text(keys[1])?));
    for (letter, value) in [
        ("-i", first(["ansible_ssh_private_key_file", "ansible_private_key_file"])?),
        ("-p", first(["ansible_port", "ansible_ssh_port"])?),
        ("-l", first(["ansible_user", "ansible_ssh_user"])?),
    ] {
        words.extend(value.into_iter().flat_map(|value| [letter.to_owned(), value]));
    }
    let host = first(["ansible_host", "ansible_ssh_host"])?.unwrap_or_else(|| name.to_owned());
    if host.is_empty() || host.starts_with('-') {
        return Err(format!("ansible_host: expected a name or an address, found `{host}`"));
    }
    words.push(host);
    Ok(words)
}

/// Whether a value is true, as Ansible reads it.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(is_true) => *is_true,
        Value::Number(number) => number.as_u64() == Some(1),
        Value::String(text) => {
            ["true", "yes", "on", "1", "y", "t"].contains(&text.trim().to_ascii_lowercase().as_str())
        }
        _ => false,
    }
}

/// A variable as text; `None` if it is not set.
fn text_of(variables: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    let text = match variables.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => return Err(format!("{key}: expected text")),
    };
    if text.contains("{{") {
        return Err(format!("{key}: `{text}` is a template, which ansible-inventory does not fill in"));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As ansible-core 2.19 prints an inventory with groups within groups and variables of groups.
    fn listing() -> Value {
        json!({
            "_meta": {
                "hostvars": {
                    "ns1": {
                        "ansible_host": "10.0.0.1",
                        "ansible_port": 2222,
                        "ansible_become": false,
                        "ansible_ssh_executable": "/opt/openssh/bin/ssh",
                        "ansible_ssh_private_key_file": "~/.ssh/lab key",
                        "ansible_user": "bench",
                        "kqps_data": "192.0.2.1",
                        "kqps_device": "eth1"
                    },
                    "p1": {
                        "ansible_ssh_common_args": "-o 'ProxyJump=gate one'",
                        "ansible_ssh_extra_args": "-4",
                        "kqps_cores": "0,2-3",
                        "kqps_data": "192.0.2.11",
                        "kqps_program": "/opt/kqps/kqps",
                        "kqps_sources": "192.0.2.64/28"
                    },
                    "p2": {"ansible_connection": "ansible.builtin.local", "kqps_cores": 3, "kqps_data": "192.0.2.12"}
                }
            },
            "all": {"children": ["ungrouped", "kqps_server", "kqps_players"]},
            "kqps_players": {"children": ["rack1", "rack2"], "hosts": ["p1"]},
            "kqps_server": {"hosts": ["ns1"]},
            "rack1": {"hosts": ["p1"], "children": ["kqps_players"]},
            "rack2": {"hosts": ["p2"]}
        })
    }

    #[test]
    fn groups_and_variables_become_hosts() {
        let hosts = hosts_of(&listing()).unwrap();
        assert_eq!(
            hosts.server.reach,
            ["/opt/openssh/bin/ssh", "-i", "~/.ssh/lab key", "-p", "2222", "-l", "bench", "10.0.0.1"]
        );
        assert_eq!((hosts.server.name.as_str(), hosts.server.device.as_deref()), ("ns1", Some("eth1")));
        let [one, two] = hosts.players.as_slice() else { panic!("{hosts:?}") };
        assert_eq!(one.reach, ["ssh", "-o", "ProxyJump=gate one", "-4", "p1"]);
        assert_eq!((one.kqps.as_str(), one.cores.as_deref()), ("/opt/kqps/kqps", Some(&[0, 2, 3][..])));
        assert_eq!(one.sources.as_deref(), Some("192.0.2.64/28"));
        assert_eq!((two.reach.len(), two.cores.as_deref()), (0, Some(&[3][..])));
    }

    #[test]
    fn the_become_of_kqps_wins_over_that_of_all_plays() {
        let of = |kqps_become: bool| {
            let mut listing = listing();
            let variables = &mut listing["_meta"]["hostvars"]["p1"];
            variables["ansible_become"] = json!(!kqps_become);
            variables["kqps_become"] = json!(kqps_become);
            hosts_of(&listing)
        };
        assert_eq!(of(false).unwrap().players.len(), 2);
        assert!(of(true).unwrap_err().starts_with("host p1: kqps_become: kqps changes no user"));
    }

    #[test]
    fn an_error_names_the_host_and_the_variable() {
        let failed = |change: &dyn Fn(&mut Value)| {
            let mut listing = listing();
            change(&mut listing);
            hosts_of(&listing).unwrap_err()
        };
        let of = |host: &'static str, key: &'static str, value: Value| {
            failed(&move |listing| listing["_meta"]["hostvars"][host][key] = value.clone())
        };
        assert_eq!(
            of("p1", "kqps_data", Value::Null),
            "host p1: kqps_data is missing: the address of this host for queries"
        );
        assert!(of("p1", "kqps_data", json!("p1")).starts_with("host p1: kqps_data: expected an IP address"));
        assert!(
            of("p2", "kqps_data", json!("::1")).starts_with("host p2: kqps_data: ::1 is not of the same IP")
        );
        assert!(of("p2", "kqps_cores", json!("x")).starts_with("host p2: kqps_cores: expected a list"));
        assert_eq!(of("p2", "kqps_cores", json!([1])), "host p2: kqps_cores: expected text");
        assert!(
            of("ns1", "kqps_data", json!("{{ ip }}"))
                .starts_with("host ns1: kqps_data: `{{ ip }}` is a template")
        );
        assert!(of("ns1", "ansible_connection", json!("docker")).contains("kqps does not know `docker`"));
        assert!(
            of("ns1", "ansible_host", json!("-oProxyCommand=x")).contains("expected a name or an address")
        );
        assert!(of("ns1", "ansible_ssh_common_args", json!("'")).contains("a quote is not closed"));
        for is_true in [json!(true), json!("Yes"), json!(1)] {
            assert!(
                of("p1", "ansible_become", is_true)
                    .starts_with("host p1: ansible_become: kqps changes no user")
            );
        }
        assert!(
            of("p1", "ansible_ssh_executable", json!("/usr/bin/dbclient"))
                .contains("found `/usr/bin/dbclient`")
        );
        assert_eq!(
            failed(&|listing| listing["kqps_server"]["hosts"] = json!(["a", "b"])),
            "expected one host in the group kqps_server, found a, b"
        );
        assert_eq!(
            failed(&|listing| listing["kqps_players"] = json!({})),
            "expected at least one host in the group kqps_players, found none"
        );
        assert!(failed(&|listing| *listing = json!({})).ends_with("kqps_server, found none"));
        assert_eq!(
            failed(&|listing| listing["kqps_players"]["hosts"] = json!(["ns1"])),
            "host ns1: inventory_hostname: two hosts have the name `ns1`"
        );
    }

    /// Reads hosts by a stand-in for `ansible-inventory`, which is this script.
    fn read_with(script: &str) -> Result<Hosts, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script, "lister"]);
        read_by(command, Path::new("/etc/hosts.ini")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_listing_is_read_from_the_program() {
        let text = serde_json::to_string_pretty(&listing()).unwrap();
        assert!(!text.contains("EOF"));
        let hosts =
            read_with(&format!("test \"$*\" = '--list -i /etc/hosts.ini' && cat <<'EOF'\n{text}\nEOF"));
        assert_eq!(hosts.unwrap().players.len(), 2);
        for (script, expected) in [
            ("echo broken >&2; exit 4", "ansible-inventory failed (exit status: 4): broken"),
            ("exit 4", "ansible-inventory failed (exit status: 4): it printed nothing"),
            ("echo no", "what ansible-inventory printed is not JSON: expected ident"),
            ("echo '{}'", "expected one host in the group kqps_server, found none"),
        ] {
            let error = read_with(script).unwrap_err();
            assert!(error.starts_with(&format!("/etc/hosts.ini: {expected}")), "{error}");
        }
        let missing = Command::new("/nonexistent/ansible-inventory");
        let missing = read_by(missing, Path::new("hosts.ini")).unwrap_err().to_string();
        assert!(
            missing.ends_with("which reads inventories, is not there; install ansible-core"),
            "{missing}"
        );
    }
}
