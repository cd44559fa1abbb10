//! The folder of a tree that `kqps gen internet -d` writes: master files, and a list of servers with their delays and zones.

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::DELAY_MOST;

/// The list of servers, a line for each, and the folder of their zones.
pub(crate) const SERVERS: &str = "servers";
pub(crate) const ZONES: &str = "zones";

/// A server with its zones: `192.0.2.1 12.345ms zones/0.zone zones/7.zone`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerLine {
    pub(crate) address: IpAddr,
    /// The time from a query to its answer.
    pub(crate) delay: Duration,
    /// Master files `[ORIGIN=]FILE`. In a folder, files are named from it.
    pub(crate) files: Vec<PathBuf>,
}

impl fmt::Display for ServerLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}us", self.address, self.delay.as_micros())?;
        self.files.iter().try_for_each(|file| write!(f, " {}", file.display()))
    }
}

/// The servers of a folder.
pub(super) fn read(folder: &Path) -> Result<Vec<ServerLine>, String> {
    let list = folder.join(SERVERS);
    let text = fs::read_to_string(&list).map_err(|error| {
        format!(
            "{}: {error}; expected a folder that `kqps gen internet -d CAPTURE -o FOLDER` wrote",
            list.display()
        )
    })?;
    let line = |(number, line): (usize, &str)| {
        parse(folder, line).map_err(|why| format!("{}:{}: {why}", list.display(), number + 1))
    };
    let servers: Vec<ServerLine> = text.lines().enumerate().map(line).collect::<Result<_, String>>()?;
    if servers.is_empty() { Err(format!("{} has no servers", list.display())) } else { Ok(servers) }
}

fn parse(folder: &Path, line: &str) -> Result<ServerLine, String> {
    let mut words = line.split_ascii_whitespace();
    let mut next = |expected| words.next().ok_or(expected);
    let address = next("expected an address")?;
    let address: IpAddr = address.parse().map_err(|_| format!("`{address}` is no address"))?;
    let delay = super::parse_delay(next("expected a delay, such as 20ms")?)?;
    debug_assert!(delay <= DELAY_MOST);
    let files: Vec<PathBuf> = words.map(|file| folder.join(file)).collect();
    if files.is_empty() {
        Err("expected a zone's file".into())
    } else {
        Ok(ServerLine { address, delay, files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let files = vec![PathBuf::from("zones/0.zone"), PathBuf::from("zones/7.zone")];
        let server = |address: &str| ServerLine {
            address: address.parse().unwrap(),
            delay: Duration::from_micros(12_345),
            files: files.clone(),
        };
        let written = [server("192.0.2.1"), server("2001:db8::1")];
        assert_eq!(written[0].to_string(), "192.0.2.1 12345us zones/0.zone zones/7.zone");
        fs::write(folder.path().join(SERVERS), written.each_ref().map(ToString::to_string).join("\n"))
            .unwrap();
        let named = |line: &ServerLine| ServerLine {
            files: line.files.iter().map(|file| folder.path().join(file)).collect(),
            ..line.clone()
        };
        assert_eq!(read(folder.path()).unwrap(), written.iter().map(named).collect::<Vec<_>>());
        for (text, why) in [
            ("", "has no servers"),
            ("a 1ms b\n", "servers:1: `a` is no address"),
            ("192.0.2.1 1ms b\n192.0.2.1 soon b\n", "servers:2: "),
            ("192.0.2.1 1h b\n", "expected 2m at most"),
            ("192.0.2.1 1ms\n", "expected a zone's file"),
        ] {
            fs::write(folder.path().join(SERVERS), text).unwrap();
            assert!(read(folder.path()).unwrap_err().contains(why), "{text}");
        }
        assert!(read(Path::new("/nonexistent")).unwrap_err().contains("kqps gen internet -d"));
    }
}
