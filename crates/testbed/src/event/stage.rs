//! The parts of a load that its events act on: the subject, its zone, the target, and the path. It says before the load
//! which events it cannot perform.

use super::exchange::Target;
use super::over::Over;
use super::{Action, By, Control, ControlSignal, Event, PathFault};
use crate::path::LaidPath;
use crate::subject::programs;

/// A server that events act on: one that kqps started, or one that runs already.
pub trait Actor: Sync {
    /// Whether its first process is known and takes signals from kqps; the reason otherwise.
    fn check_first(&self) -> Result<(), String>;

    /// Whether its processes are known and all take signals from kqps; the reason otherwise.
    fn check_processes(&self) -> Result<(), String>;

    /// Whether it knows how to do this, for all zones or for one; the reason otherwise.
    fn check_control(&self, control: Control, zone: Option<&str>) -> Result<(), String>;

    /// Whether it can be started again; the reason otherwise.
    fn check_restart(&self) -> Result<(), String>;

    /// Asks it to do this. Calls `begun` when the signal is about to be sent, or the program has been started.
    /// Returns whether a program did it and ended; after a signal it may still be at it.
    fn control(
        &self,
        control: Control,
        zone: Option<&str>,
        over: &Over,
        begun: &mut dyn FnMut(),
    ) -> Result<bool, String>;

    /// Sends a signal to its first process.
    fn ask(&self, signal: ControlSignal) -> Result<(), String>;

    /// Its processes that do not descend from each other; empty if they are not known.
    fn first_pids(&self) -> Vec<u32>;

    /// Its processes, to be suspended or killed.
    fn family(&self) -> Box<dyn Family + '_>;

    /// Stops it and starts it again. It may not answer yet when this returns.
    fn restart(&self) -> Result<(), String>;

    /// Completes a restart when it answers again.
    fn settle(&self) {}
}

/// The processes of a server, as one event suspends or kills them.
pub trait Family {
    /// Prepares [`Self::suspend`], which then takes no time: starts what resumes the processes if kqps is killed.
    fn prepare(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Suspends all of them; the first error.
    fn suspend(&mut self) -> Result<(), String>;

    /// Resumes those that were suspended; the first error.
    fn resume(&mut self) -> Result<(), String>;

    /// Kills all of them; the first error.
    fn kill(&mut self) -> Result<(), String>;

    /// Whether any of those that were killed is left.
    fn is_left(&mut self) -> bool;
}

/// The subject, the target, the zone and the path on which the events of a load act.
pub struct Stage<'a> {
    /// The subject.
    pub actor: &'a dyn Actor,
    /// The address and transport at which the subject answers, and the path to it.
    pub target: Target<'a>,
    /// The zone whose serial shows that something is done if an event names none; `None` if it is not known.
    pub zone: Option<String>,
}

impl Stage<'_> {
    /// Whether an event can be performed, as far as it is known before the load.
    ///
    /// # Errors
    ///
    /// The reason why it cannot, and what to do.
    pub fn check(&self, event: &Event) -> Result<(), String> {
        if event.needs_zone() && self.zone_of(event).is_none() {
            return Err("it needs a zone: add `zone`, such as zone = \"example.\"".into());
        }
        if let Some(by) = &event.by {
            return match by {
                By::Command(words) => check_program(&words[0]),
                By::Signal(_) => self.actor.check_first(),
            };
        }
        match &event.action {
            Action::Command(words) => check_program(&words[0]),
            Action::Control { control, zone } => self.actor.check_control(*control, zone.as_deref()),
            Action::Restart => self.actor.check_restart(),
            Action::Kill | Action::Stop(_) => self.actor.check_processes(),
            Action::Transfer { .. } if !self.target.has_stream() => {
                Err("a zone is transferred over TCP or TLS, and the load goes over another transport".into())
            }
            Action::Notify { to: None, .. } if !self.target.has_datagrams() => {
                Err("NOTIFY goes by UDP, and the port of the load's target is not one for plain DNS: add `to`, such as \
                     to = \"127.0.0.1:53\""
                    .into())
            }
            Action::Notify { .. } | Action::Transfer { .. } | Action::Update { .. } => Ok(()),
            Action::Path { fault: PathFault::Outage(_), .. } if self.target.path().internet().is_none() => {
                Err("an outage is of servers of an Internet in a box, in which the subject must resolve".into())
            }
            Action::Path { .. } => check_path(self.target.path()),
        }
    }

    /// The zone of an event: its own, or the usual one.
    pub(super) fn zone_of<'e>(&'e self, event: &'e Event) -> Option<&'e str> {
        event.zone().or(self.zone.as_deref())
    }
}

/// Whether there is a program of this name.
fn check_program(program: &str) -> Result<(), String> {
    match programs::find(program) {
        Some(_) => Ok(()),
        None if program.contains('/') => Err(format!("there is no program `{program}` that can be started")),
        None => Err(format!("`{program}` is not on the PATH")),
    }
}

fn check_path(path: &LaidPath) -> Result<(), String> {
    match path {
        LaidPath::Veth(_) | LaidPath::Internet(_) => Ok(()),
        LaidPath::Loopback => {
            Err("the load goes over loopback, which other programs of this host use as well: kqps \
                                   makes only a path of its own worse, and `kqps load` has none yet"
                .into())
        }
        LaidPath::Network(_) => {
            Err("the load goes over a network that others use as well: kqps makes only a path of \
                                     its own worse, and `kqps load` has none yet"
                .into())
        }
    }
}
