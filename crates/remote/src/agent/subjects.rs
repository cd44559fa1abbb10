//! The subjects that an agent started. They listen at an address of the host's network.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::limits;
use kqps_observation::fingerprint::BinaryFacts;

use super::address;
use super::failure::{Failure, plain};
use super::job::{Done, StartRequest};
use kqps_testbed::folder::Folder;
use kqps_testbed::path::LaidPath;
use kqps_testbed::subject::{Definition, LaunchSetting, Over, Subject, Zone, programs, version};

/// The name of subjects' folders, which the number of the start completes.
const SUBJECT: &str = "subject";

/// Subjects that run, by the numbers of their starts.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    running: BTreeMap<u64, Running>,
    /// The text of a definition → what it starts.
    installed: BTreeMap<String, Installed>,
}

/// The programs of a definition on this host.
#[derive(Clone, Debug)]
struct Installed {
    /// The version that the subject reports, if it does.
    version: Option<String>,
    /// Name → file.
    programs: BTreeMap<String, BinaryFacts>,
}

#[derive(Debug)]
struct Running {
    subject: Subject,
    folder: PathBuf,
}

/// Supplies of the agent for a start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supplies<'a> {
    /// The agent's folder.
    pub(super) folder: &'a Folder,
    /// The zones of the subject's cell.
    pub(super) zones: &'a [Zone],
    /// The path of this program.
    pub(super) kqps: &'a Path,
}

impl Subjects {
    /// Starts a subject and waits until it answers. The main thread must call this.
    pub(super) fn start(
        &mut self,
        request: &StartRequest,
        supplies: Supplies<'_>,
        interrupts: &Interrupts,
    ) -> Result<Done, Failure> {
        let &StartRequest { start, ref definition, ref cell, address, ref certificate, within_s } = request;
        if self.running.contains_key(&start) {
            return Err(plain(format!("a subject of start {start} runs already")));
        }
        address::check(address)?;
        let definition = Definition::read("the subject's definition", definition).map_err(plain)?;
        let Supplies { folder: all, zones, kqps } = supplies;
        let written = certificate.as_ref().map(|pem| pem.write(&all.path().join("certificates"), start));
        let certificate = written
            .transpose()
            .map_err(|error| plain(format!("writing the certificate of {}: {error}", definition.title)))?;
        let transport = cell.factors.transport();
        if transport.has_connections() {
            // Subjects inherit the limit, and each connection is a file. If it stays, some attempts fail.
            let _ = limits::raise_open_files();
        }
        let (path, folder) = (LaidPath::Network(address), all.work(SUBJECT, start));
        let setting = LaunchSetting {
            path: &path,
            folder: &folder,
            zones,
            kqps,
            io: &cell.io,
            workers: cell.workers,
            cpus: &cell.subject_cpus,
            settings: &definition.settings_among(cell.factors.words()),
        };
        let over = Over { transport, certificate: certificate.as_ref() };
        let subject = Subject::start_over(over, &definition, &setting, interrupts, share(within_s));
        let subject = subject.map_err(|error| (error.to_string(), error.output().to_vec()));
        let subject =
            subject.and_then(|subject| nice(subject, cell.factors.niceness())).inspect_err(|_| {
                // It may not have been made.
                let _ = fs::remove_dir_all(&folder);
            })?;
        let Installed { version, programs } = self.installed(&definition, kqps);
        let (addresses, ready_s, pid) = (subject.addresses().to_vec(), subject.ready_s(), subject.pid());
        self.running.insert(start, Running { subject, folder });
        Ok(Done::Started { addresses, ready_s, version, programs, pid })
    }

    /// The programs of a definition, which are looked at once.
    fn installed(&mut self, definition: &Definition, kqps: &Path) -> Installed {
        let look = || {
            let version = version::ask(definition, kqps).ok().flatten();
            let programs = programs::facts_of(&definition.programs, version.as_deref()).collect();
            Installed { version, programs }
        };
        self.installed.entry(definition.text.clone()).or_insert_with(look).clone()
    }

    /// Stops a subject within this many seconds and the time of its definition. Urgent interrupts shorten that.
    pub(super) fn stop(
        &mut self,
        start: u64,
        within_s: Option<f64>,
        interrupts: &Interrupts,
    ) -> Result<(), Failure> {
        let Running { mut subject, folder } = self.running.remove(&start).ok_or_else(|| unknown(start))?;
        subject.heed(interrupts);
        subject.stop_within(share(within_s));
        // Files that stay are removed with the agent's folder.
        let _ = fs::remove_dir_all(folder);
        Ok(())
    }

    /// A subject that runs, or has ended by itself.
    pub(super) fn get(&mut self, start: u64) -> Result<&mut Subject, Failure> {
        self.running.get_mut(&start).map(|running| &mut running.subject).ok_or_else(|| unknown(start))
    }

    /// Kills all subjects, with all that they started.
    pub(super) fn kill(&mut self) {
        self.running.clear();
    }
}

/// A subject with this niceness, if there is one.
fn nice(subject: Subject, niceness: Option<i32>) -> Result<Subject, Failure> {
    niceness.map_or(Ok(()), |niceness| subject.set_niceness(niceness)).map_err(plain)?;
    Ok(subject)
}

/// The share of time that a request gives.
fn share(within_s: Option<f64>) -> Option<Duration> {
    within_s.and_then(|within_s| Duration::try_from_secs_f64(within_s).ok())
}

fn unknown(start: u64) -> Failure {
    plain(format!("no subject of start {start} runs here"))
}
