//! Reports of subjects at their start on another host: the versions of their programs, and the programs themselves.
//! They complete the record of a run.

use std::collections::BTreeMap;

use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::{Cell, HostRole, RunHost};

/// Versions and programs that were reported so far.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// Subject → the version that its program reported on its host.
    versions: BTreeMap<String, String>,
    /// Name of a program on the subjects' host → its path, version and hash, and those of each that replaced it.
    programs: BTreeMap<String, Vec<BinaryFacts>>,
}

/// Cells and hosts that a completion changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// The numbers of the cells, from 0.
    pub cells: Vec<usize>,
    /// Whether it changed the hosts.
    pub has_hosts: bool,
}

impl Reports {
    /// Adds what one start reported.
    pub(super) fn add(
        &mut self,
        subject: &str,
        version: Option<String>,
        programs: BTreeMap<String, BinaryFacts>,
    ) {
        if let Some(version) = version {
            self.versions.insert(subject.to_owned(), version);
        }
        for (name, program) in programs {
            let seen = self.programs.entry(name).or_default();
            if !seen.contains(&program) {
                seen.push(program);
            }
        }
    }

    /// Completes the cells and the hosts of a run. A version that is known already stays.
    pub fn complete(&self, cells: &mut [Cell], hosts: &mut [RunHost]) -> Completed {
        let mut completed = Completed::default();
        for (number, cell) in cells.iter_mut().enumerate().filter(|(_, cell)| cell.version.is_none()) {
            cell.version = self.versions.get(&cell.subject).cloned();
            if cell.version.is_some() {
                completed.cells.push(number);
            }
        }
        for host in hosts.iter_mut().filter(|host| host.role == HostRole::Server) {
            let known = &mut host.fingerprint.binaries;
            let firsts = self.programs.iter().filter_map(|(name, seen)| Some((name, seen.first()?)));
            for (name, program) in firsts {
                // A replaced program stays in the record as it was first, with a note on the other.
                let known_one = known.get(name);
                if known_one != Some(program) && !known_one.is_some_and(|known| is_another(known, program)) {
                    known.insert(name.clone(), program.clone());
                    completed.has_hosts = true;
                }
            }
        }
        completed
    }

    /// Notes on what a run lacks, and why, if programs on the subjects' host are not those of `hosts`, its record.
    pub(super) fn replaced(&self, hosts: &[RunHost]) -> BTreeMap<String, String> {
        let mut notes = BTreeMap::new();
        for host in hosts.iter().filter(|host| host.role == HostRole::Server) {
            for (name, seen) in &self.programs {
                let Some(known) = host.fingerprint.binaries.get(name) else { continue };
                if let Some(other) = seen.iter().find(|program| is_another(known, program)) {
                    let (on, then, now) = (&host.name, shown(known), shown(other));
                    let why = format!("it was replaced on {on} during the run: {then} before, {now} now");
                    notes.insert(format!("one {name} for all trials"), why);
                }
            }
        }
        notes
    }
}

/// Whether two programs are surely not the same.
fn is_another(one: &BinaryFacts, other: &BinaryFacts) -> bool {
    one.blake3.is_some() && other.blake3.is_some() && one.blake3 != other.blake3
}

/// The version of a program and the beginning of its hash.
fn shown(program: &BinaryFacts) -> String {
    let hash = program.blake3.as_deref().unwrap_or_default();
    let version = program.version.as_deref().unwrap_or("no version");
    format!("{version} ({})", hash.get(..12).unwrap_or(hash))
}

#[cfg(test)]
mod tests {
    use kqps_observation::Fingerprint;

    use super::*;

    fn host(name: &str, role: HostRole) -> RunHost {
        let (fingerprint, kqps) = (Fingerprint::default(), BinaryFacts::default());
        RunHost { name: name.into(), role, address: [192, 0, 2, 1].into(), fingerprint, kqps }
    }

    fn program(hash: &str) -> BinaryFacts {
        BinaryFacts { path: "/usr/sbin/nsd".into(), version: Some("4.8".into()), blake3: Some(hash.into()) }
    }

    #[test]
    fn versions_and_programs_are_in_the_record_once() {
        let cell = |subject: &str, version: Option<&str>| Cell {
            subject: subject.into(),
            version: version.map(str::to_owned),
            ..Cell::default()
        };
        let mut cells = [cell("nsd", None), cell("echo", Some("1")), cell("knot", None), cell("nsd", None)];
        let mut hosts = [host("ns1", HostRole::Server), host("p1", HostRole::Player)];
        let mut reports = Reports::default();
        assert_eq!(reports.complete(&mut cells, &mut hosts), Completed::default());
        reports.add("nsd", Some("4.8".into()), [("nsd".to_owned(), program("ab"))].into());
        reports.add("echo", Some("2".into()), BTreeMap::new());
        let expected = Completed { cells: vec![0, 3], has_hosts: true };
        assert_eq!(reports.complete(&mut cells, &mut hosts), expected);
        let versions = cells.each_ref().map(|cell| cell.version.as_deref());
        assert_eq!(versions, [Some("4.8"), Some("1"), None, Some("4.8")]);
        assert_eq!(hosts[0].fingerprint.binaries["nsd"], program("ab"));
        assert!(hosts[1].fingerprint.binaries.is_empty(), "a player runs no subject");
        assert_eq!(reports.complete(&mut cells, &mut hosts), Completed::default(), "nothing is new");
        reports.add("nsd", Some("4.9".into()), [("nsd".to_owned(), program("cd"))].into());
        assert_eq!(reports.complete(&mut cells, &mut hosts), Completed::default());
        assert_eq!(hosts[0].fingerprint.binaries["nsd"], program("ab"), "the cells have its version");
        let notes = reports.replaced(&hosts);
        let why = "it was replaced on ns1 during the run: 4.8 (ab) before, 4.8 (cd) now";
        assert_eq!((notes["one nsd for all trials"].as_str(), notes.len()), (why, 1));
        reports.add("nsd", None, [("nsd".to_owned(), program("ab"))].into());
        assert!(reports.replaced(&hosts).contains_key("one nsd for all trials"), "it was another meanwhile");
    }
}
