//! A subject as events act on it: its control program or a signal, and its processes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use kqps_kernel::process::Signal;
use kqps_tls::TlsError;

use super::current::NONE;
use super::definition::StopSignal;
use super::process::Process;
use super::{Subject, programs};
use crate::event::control::{Control, ControlSignal};
use crate::event::exchange::Target;
use crate::event::over::Over;
use crate::event::performer::Performed;
use crate::event::stage::{Actor, Family, Stage};
use crate::event::{Event, command, runner};
use crate::path::LaidPath;

/// The file of the output before a restart.
const OUTPUT_BEFORE: &str = "output.before";

/// A subject at the end of its path.
pub struct PlacedSubject<'a> {
    subject: &'a Subject,
    path: &'a LaidPath,
}

/// How a subject is asked.
enum Way {
    Signal(ControlSignal),
    /// A program with its arguments.
    Command(PathBuf, Vec<String>),
}

impl Subject {
    /// The subject at the end of the path over which it was started.
    pub fn placed<'a>(&'a self, path: &'a LaidPath) -> PlacedSubject<'a> {
        PlacedSubject { subject: self, path }
    }

    /// Performs an event now, and waits until it is done, for some time at most.
    ///
    /// # Errors
    ///
    /// If the subject cannot do it; the reason.
    pub fn perform(&self, path: &LaidPath, event: &Event, within: Duration) -> Result<Performed, String> {
        let placed = self.placed(path);
        let stage = placed.stage().map_err(|error| error.to_string())?;
        stage.check(event)?;
        Ok(runner::now(event, &stage, within, &self.interrupts))
    }
}

impl PlacedSubject<'_> {
    /// The stage of a load of the subject. The serial of its first zone shows that it is done with something.
    ///
    /// # Errors
    ///
    /// If the library of TLS cannot make a client.
    pub fn stage(&self) -> Result<Stage<'_>, TlsError> {
        let Subject { transport, values, .. } = self.subject;
        let target = Target::new(self.subject.address(), *transport, self.path)?;
        Ok(Stage { actor: self, target, zone: Some(values.fill("{origin}")) })
    }

    /// How the subject is asked to do this.
    fn way(&self, control: Control, zone: Option<&str>) -> Result<Way, String> {
        let Subject { definition, values, .. } = self.subject;
        let title = &definition.title;
        let way = definition.control.get(&control).ok_or_else(|| cannot(title, control, zone))?;
        let words = if zone.is_some() { &way.zone_command } else { &way.command };
        if let (None, Some(signal), true) = (zone, way.signal, words.is_empty()) {
            return Ok(Way::Signal(signal));
        }
        let values = match zone {
            Some(zone) => values.clone().with("origin", &zone),
            None => values.clone(),
        };
        let mut words = words.iter().map(|word| values.fill(word));
        let program = words.next().ok_or_else(|| cannot(title, control, zone))?;
        let path = programs::find(&program).ok_or_else(|| {
            format!("{title} is asked to {} by `{program}`, which is not on the PATH", control.word())
        })?;
        Ok(Way::Command(path, words.filter(|word| !word.is_empty()).collect()))
    }

    /// Its command, as at its start.
    fn command(&self) -> Result<Command, String> {
        let Subject { definition, folder, values, .. } = self.subject;
        let mut command = super::command(definition, folder, values).map_err(|error| error.to_string())?;
        let placed = self.path.place_subject(&mut command);
        placed.map_err(|error| format!("entering a network namespace: {error}"))?;
        Ok(command)
    }
}

fn cannot(title: &str, control: Control, zone: Option<&str>) -> String {
    let word = control.word();
    match zone {
        Some(_) => format!("{title} cannot {word} one zone: [control] has no zone_command for {word}"),
        None => format!("{title} cannot {word}: [control] has no command or signal for {word}"),
    }
}

/// The processes of a subject. They end with kqps, so none stands still for good if kqps is killed.
struct SubjectFamily<'a> {
    subject: &'a Subject,
    /// The process that got the signal.
    reached: Option<u32>,
}

impl SubjectFamily<'_> {
    /// Looks at the process that got the signal; `None` if another one has taken its place, or none.
    fn look<T>(&self, look: impl FnOnce(&mut Process) -> T) -> Option<T> {
        let is_it = |process: &mut Process| (self.reached == Some(process.pid())).then(|| look(process));
        self.subject.process.look(is_it).flatten()
    }

    fn reach(&mut self, signal: Signal) -> Result<(), String> {
        let signal = |process: &mut Process| (process.pid(), process.signal_all(signal));
        let (pid, outcome) = self.subject.process.look(signal).ok_or(NONE)?;
        self.reached = Some(pid);
        outcome.map_err(|error| error.to_string())
    }
}

impl Family for SubjectFamily<'_> {
    fn suspend(&mut self) -> Result<(), String> {
        self.reach(Signal::Stop)
    }

    fn resume(&mut self) -> Result<(), String> {
        // If all have ended, none stands still.
        self.look(|process| process.signal_all(Signal::Continue).ok());
        Ok(())
    }

    fn kill(&mut self) -> Result<(), String> {
        self.reach(Signal::Kill)
    }

    fn is_left(&mut self) -> bool {
        self.look(Process::is_left).unwrap_or(false)
    }
}

impl Actor for PlacedSubject<'_> {
    fn check_first(&self) -> Result<(), String> {
        Ok(())
    }

    fn check_processes(&self) -> Result<(), String> {
        Ok(())
    }

    fn check_control(&self, control: Control, zone: Option<&str>) -> Result<(), String> {
        self.way(control, zone).map(drop)
    }

    fn check_restart(&self) -> Result<(), String> {
        Ok(())
    }

    fn control(
        &self,
        control: Control,
        zone: Option<&str>,
        over: &Over,
        begun: &mut dyn FnMut(),
    ) -> Result<bool, String> {
        match self.way(control, zone)? {
            Way::Signal(signal) => {
                begun();
                self.ask(signal)?;
                Ok(false)
            }
            Way::Command(program, words) => {
                let mut line = Command::new(&program);
                line.args(words).current_dir(&self.subject.folder);
                let placed = self.path.place_subject(&mut line);
                placed.map_err(|error| format!("entering a network namespace: {error}"))?;
                let failed = |error| format!("starting {}: {error}", program.display());
                let started = command::start(line).map_err(failed)?;
                begun();
                started.wait(over)?;
                Ok(true)
            }
        }
    }

    fn ask(&self, signal: ControlSignal) -> Result<(), String> {
        self.subject.process.signal(signal.signal()).map_err(|error| error.to_string())
    }

    fn first_pids(&self) -> Vec<u32> {
        vec![self.subject.pid()]
    }

    fn family(&self) -> Box<dyn Family + '_> {
        Box::new(SubjectFamily { subject: self.subject, reached: None })
    }

    fn restart(&self) -> Result<(), String> {
        let Subject { definition, process, folder, cpus, kqps, interrupts, .. } = self.subject;
        let command = self.command()?;
        let mut output = Vec::new();
        if let Some(old) = process.take() {
            output = old.last_lines();
            let signal: StopSignal = definition.stop.signal;
            old.stop(signal, definition.stop.within(), interrupts);
        }
        // A subject that never ran has no output to keep.
        let _ = std::fs::rename(folder.join("output"), folder.join(OUTPUT_BEFORE));
        let started = Process::spawn_kept(command, cpus, folder, kqps);
        match started {
            Ok(started) => {
                process.put(started);
                Ok(())
            }
            Err(error) => {
                process.fail(&format!("could not be started again: {error}"), output);
                Err(format!("starting {}: {error}", definition.title))
            }
        }
    }

    fn settle(&self) {
        // Some servers choose cores for their threads themselves. The next trial confines them again.
        let _ = self.subject.confine();
    }
}
