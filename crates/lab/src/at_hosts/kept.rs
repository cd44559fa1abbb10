//! The copy of the hosts' file in the folder of a run, from which the run goes on. It has the form of hosts.toml, whatever
//! form the user's file had.

use std::path::Path;

use kqps_files::write_whole;
use kqps_hosts::{Host, Hosts};
use kqps_observation::cpu_list;
use toml::{Table, Value};

use crate::error::LabError;
use crate::folder::FolderError;

/// The name of the file.
const NAME: &str = "hosts.toml";

/// Writes the hosts into the folder of a run, whole or not at all.
pub fn write(folder: &Path, hosts: &Hosts) -> Result<(), LabError> {
    let path = folder.join(NAME);
    let written = write_whole(&path, text(hosts).as_bytes());
    written.map_err(|error| FolderError { act: "write", path, error }.into())
}

/// Reads the hosts of the run in a folder; `None` if all of it was on one host.
pub fn read(folder: &Path) -> Result<Option<Hosts>, LabError> {
    let path = folder.join(NAME);
    if !path.exists() {
        return Ok(None);
    }
    Hosts::read(&path).map(Some).map_err(|error| LabError::Hosts(error.to_string()))
}

/// The text of the file.
fn text(hosts: &Hosts) -> String {
    let players = hosts.players.iter().map(|host| Value::Table(table(host))).collect();
    let mut all = Table::new();
    all.insert("server".into(), Value::Table(table(&hosts.server)));
    all.insert("player".into(), Value::Array(players));
    format!("# The hosts of this run, which goes on with them.\n\n{all}")
}

fn table(host: &Host) -> Table {
    let reach = host.reach.iter().cloned().map(Value::String).collect();
    let mut table = Table::new();
    table.insert("name".into(), Value::String(host.name.clone()));
    table.insert("reach".into(), Value::Array(reach));
    table.insert("kqps".into(), Value::String(host.kqps.clone()));
    table.insert("data".into(), Value::String(host.data.to_string()));
    let words = [
        ("sources", host.sources.clone()),
        ("cores", host.cores.as_deref().map(cpu_list::write)),
        ("device", host.device.clone()),
    ];
    for (key, word) in words {
        table.extend(word.map(|word| (key.to_owned(), Value::String(word))));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap().is_none());
        let file = folder.path().join("mine.toml");
        let given = "[server]\nname = \"ns1\"\nreach = \"env -i\"\ndata = \"192.0.2.1\"\ncores = \"0,2-5\"\n\
                     [[player]]\nname = \"p1\"\nreach = []\ndata = \"192.0.2.2\"\nsources = \"192.0.2.64/28\"\n\
                     kqps = \"/opt/kqps\"\ndevice = \"eth1\"\n";
        std::fs::write(&file, given).unwrap();
        let hosts = Hosts::read(&file).unwrap();
        write(folder.path(), &hosts).unwrap();
        let again = read(folder.path()).unwrap().unwrap();
        assert_eq!((&again.server, &again.players), (&hosts.server, &hosts.players));
        assert_eq!(again.server.cores, Some(vec![0, 2, 3, 4, 5]));
        assert_eq!(again.players[0].sources.as_deref(), Some("192.0.2.64/28"));
    }
}
