//! The copy of the hosts' file in the folder of a run, from which the run goes on. It has the form of hosts.toml,
//! whatever form the user's file had.

use std::path::Path;

use kqps_files::write_whole;
use kqps_fleet::Hosts;

use crate::error::HostsError;
use kqps_testbed::folder::FolderError;

/// The name of the file.
const NAME: &str = "hosts.toml";

/// Writes the hosts into the folder of a run, whole or not at all.
pub fn write(folder: &Path, hosts: &Hosts) -> Result<(), HostsError> {
    let path = folder.join(NAME);
    let text = format!("# The hosts of this run, which goes on with them.\n\n{}", hosts.to_toml());
    let written = write_whole(&path, text.as_bytes());
    written.map_err(|error| FolderError { act: "write", path, error }.into())
}

/// Reads the hosts of the run in a folder; `None` if all of it was on one host.
pub fn read(folder: &Path) -> Result<Option<Hosts>, HostsError> {
    let path = folder.join(NAME);
    if !path.exists() {
        return Ok(None);
    }
    Hosts::read(&path).map(Some).map_err(|error| HostsError::Unfit(error.to_string()))
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
        assert_eq!(read(folder.path()).unwrap(), Some(hosts));
    }
}
