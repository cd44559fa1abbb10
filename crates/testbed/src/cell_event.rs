//! The event of a cell: something that happens to its subject in the middle of each load.

use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use kqps_catalogue::value::scaled;
use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::run::Purpose;
use kqps_observation::{Cell, EventFacts, Trial};
use kqps_player::MomentsPlan;
use tempfile::TempPath;

use crate::event::stage::Stage;
use crate::event::transfer::WHOLE;
use crate::event::{Action, Control, Event, PathFault, runner};
use crate::play::PlayRequest;
use crate::primary::Primary;
use crate::subject::zones::{Zone, copy, renew};
use crate::trial_request::{NoTrial, TrialRequest};

/// The words of a study, for people.
pub const EXPECTED: &str = "none, reload, reconfigure, rotate, flush, restart, kill-back-end, notify, transfer or transfer-in; \
                            ixfr=1k, changes; stop=300ms or standstill=300ms, for so long; update=100, a second; loss=5% or \
                            delay=20ms, of the path; outage=tld or outage=company, of a resolver's servers";

/// The most changes of an incremental transfer.
const CHANGES_MOST: u32 = 1_000_000;

/// The longest time that a subject may take to read its changed zone before the load.
const READ_WITHIN: Duration = Duration::from_mins(3);

/// The share of a load's time after which its event is due.
const AT_SHARE: f64 = 0.4;

/// The share of a load's time for which updates are sent, or the path is worse.
const LASTING_SHARE: f64 = 0.3;

/// The time that a player has to become ready, nanoseconds.
const LEAD_NS: u64 = 1_000_000_000;

/// The event of a cell, without its moment.
#[derive(Debug)]
pub struct CellEvent {
    event: Event,
    preparation: Preparation,
    /// A file of the first zone for this subject alone, which gets a new serial before the zone is read again. `None` if
    /// the event neither reads nor changes it.
    zone_file: Option<TempPath>,
}

/// The state of the subject's zone that an event needs, before each load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preparation {
    /// Any.
    None,
    /// Its file has a new serial, which the subject has not read.
    NewSerial,
    /// The subject has read this many changes.
    Changes(u32),
    /// The primary has a new serial.
    Primary,
}

/// An event of a cell at its running subject.
pub struct StagedEvent<'a> {
    /// The event.
    pub event: &'a CellEvent,
    /// The subject, its zone and its path.
    pub stage: Stage<'a>,
    /// The primary from which the subject transfers its zone in, if it does.
    pub primary: Option<&'a Primary>,
}

impl CellEvent {
    /// Reads a word of a study.
    ///
    /// # Errors
    ///
    /// The accepted words.
    pub fn read(word: &str) -> Result<Self, String> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let preparation = match (name, value) {
            ("ixfr", Some(changes)) => Preparation::Changes(read_changes(changes)?),
            ("transfer-in", None) => Preparation::Primary,
            ("reload", None) => Preparation::NewSerial,
            _ => Preparation::None,
        };
        let (name, value) = match preparation {
            Preparation::Changes(_) => ("transfer", None),
            // The subject is notified, and does the rest.
            Preparation::Primary => ("notify", None),
            Preparation::None | Preparation::NewSerial => (name, value),
        };
        let (key, is_lasting) = match (name, value) {
            (
                "reload" | "reconfigure" | "rotate" | "flush" | "restart" | "kill-back-end" | "notify"
                | "transfer",
                None,
            ) => (None, false),
            ("stop" | "standstill", Some(_)) => (Some("for"), false),
            ("outage", Some(_)) => (Some("servers"), true),
            ("update", Some(_)) => (Some("rate"), true),
            ("loss" | "delay", Some(_)) => (Some(name), true),
            _ => return Err(EXPECTED.into()),
        };
        let mut table = toml::Table::new();
        table.insert("at".into(), "0s".into());
        if !["loss", "delay"].contains(&name) {
            table.insert("do".into(), name.into());
        }
        if is_lasting {
            table.insert("for".into(), "1s".into());
        }
        for (key, value) in key.into_iter().zip(value) {
            table.insert(key.into(), value.into());
        }
        let event: Event = table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
        Ok(Self { event, preparation, zone_file: None })
    }

    /// The event of a cell; `None` if it has none. The word was checked.
    pub fn from_cell(cell: &Cell) -> Option<Self> {
        Self::read(cell.factors.event()?).ok()
    }

    /// Whether it cannot happen again to the subject until that is started anew.
    pub fn happens_once(&self) -> bool {
        matches!(self.event.action, Action::Control { control: Control::KillBackEnd, .. })
    }

    /// Whether it is an outage of servers of an Internet in a box.
    pub fn is_outage(&self) -> bool {
        matches!(self.event.action, Action::Path { fault: PathFault::Outage(_), .. })
    }

    /// Whether it makes the path worse, which takes a path of kqps's own.
    pub fn is_of_path(&self) -> bool {
        matches!(self.event.action, Action::Path { .. })
    }

    /// Copies the first zone's file into a folder of the subject, if the event makes the subject read the file again or may
    /// make it write there, and returns the zones for the subject. The copy is removed with the event.
    ///
    /// # Errors
    ///
    /// If the file cannot be copied.
    pub fn own_zones(&mut self, zones: &[Zone], folder: &Path) -> io::Result<Vec<Zone>> {
        let mut zones = zones.to_vec();
        let uses =
            self.preparation != Preparation::None || matches!(self.event.action, Action::Update { .. });
        // A resolver has no zone.
        let with_file = |zone: &&mut Zone| uses && !zone.file.as_os_str().is_empty();
        if let Some(first) = zones.first_mut().filter(with_file) {
            let copy = copy(&first.file, folder)?;
            if let Preparation::Changes(changes) = self.preparation {
                renew(&copy, &first.origin, changes)?;
            }
            first.file = copy.to_path_buf();
            self.zone_file = Some(copy);
        }
        Ok(zones)
    }

    /// Whether the subject transfers its first zone in from a primary.
    pub fn needs_primary(&self) -> bool {
        self.preparation == Preparation::Primary
    }

    /// The event in a load of this length.
    fn during(&self, load: Duration) -> Event {
        let mut event = self.event.clone();
        event.at = load.mul_f64(AT_SHARE);
        // A standstill says itself how long it is.
        if let Action::Update { lasting, .. }
        | Action::Path { fault: PathFault::Worse { .. } | PathFault::Outage(_), lasting } =
            &mut event.action
        {
            *lasting = load.mul_f64(LASTING_SHARE);
        }
        event
    }
}

impl StagedEvent<'_> {
    /// Whether the event is part of this trial. Trials that find the rate of other ones have none.
    pub fn is_in(request: &TrialRequest) -> bool {
        request.purpose == Purpose::Rate
    }

    /// Brings the zone into the state that the event needs. Returns the serial since which there are changes, if there are.
    fn prepare(&self, interrupts: &Interrupts) -> Result<Option<u32>, NoTrial> {
        let CellEvent { preparation, zone_file, .. } = self.event;
        let renewed = |changes| {
            let Some(file) = zone_file else { return Ok(None) };
            let origin = self.stage.zone.as_deref().unwrap_or_default();
            let failed = |error| NoTrial::failed(format!("a new serial in {}: {error}", file.display()));
            renew(file, origin, changes).map(Some).map_err(failed)
        };
        match *preparation {
            Preparation::None => Ok(None),
            Preparation::NewSerial => renewed(0).map(|_| None),
            Preparation::Changes(changes) => {
                let before = renewed(changes)?;
                let failed =
                    |why| NoTrial::failed(format!("reading {changes} changes before the load: {why}"));
                let reloaded = self.reload(interrupts);
                if interrupts.is_asked() {
                    return Err(NoTrial::Interrupted);
                }
                reloaded.map_err(failed)?;
                Ok(before)
            }
            Preparation::Primary => {
                let renewed = self.primary.map_or(Ok(()), |primary| primary.renew(self.stage.target.path()));
                renewed.map(|()| None).map_err(|why| NoTrial::failed(format!("the primary: {why}")))
            }
        }
    }

    /// Makes the subject read its zones again, and waits for the new serial.
    fn reload(&self, interrupts: &Interrupts) -> Result<(), String> {
        let action = Action::Control { control: Control::Reload, zone: None };
        let reload = Event { at: Duration::ZERO, action, by: None };
        self.stage.check(&reload)?;
        let performed = runner::now(&reload, &self.stage, READ_WITHIN, interrupts);
        match (performed.failure, performed.done_ns) {
            (Some(why), _) => Err(why),
            (None, None) => Err("its new serial was not answered".into()),
            (None, Some(_)) => Ok(()),
        }
    }

    /// Plays a load with `play`, and performs the event meanwhile. The record has it, and the moments of the load.
    pub(crate) fn beside(
        &self,
        mut message: PlayRequest,
        interrupts: &Interrupts,
        play: impl FnOnce(&PlayRequest) -> Result<Trial, NoTrial>,
    ) -> Result<Trial, NoTrial> {
        let mut event = self.event.during(message.plan.stop.after.unwrap_or_default());
        if let (Some(before), Action::Transfer { since, .. }) = (self.prepare(interrupts)?, &mut event.action)
        {
            *since = Some(before);
        }
        self.stage.check(&event).map_err(|why| NoTrial::failed(format!("the event `{event}`: {why}")))?;
        message.plan.moments = Some(MomentsPlan::default());
        let start_ns = OnceLock::new();
        let played = || {
            let at_ns = *start_ns.get_or_init(|| clock::now_ns() + LEAD_NS);
            message.plan.start_at_ns = Some(at_ns);
            play(&message)
        };
        let began = || start_ns.get().copied();
        let (trial, mut events) = runner::beside(std::slice::from_ref(&event), &self.stage, &began, played);
        let mut trial = trial?;
        if let Some(why) = events.iter().find_map(|event| event.failure.as_ref()) {
            return Err(NoTrial::failed(format!("the event `{event}` failed: {why}")));
        }
        if let (Preparation::Changes(_), Some(event)) = (self.event.preparation, events.first())
            && event.counts.contains_key(WHOLE)
        {
            return Err(NoTrial::failed(format!(
                "the event `{}`: the subject sent the whole zone and not its changes. It keeps changes with transfers = \
                 \"changes\", if it can, and they must be fewer than the zone's records",
                event.name
            )));
        }
        let late_s = trial.late_start_ns.unwrap_or(0) as f64 / 1e9;
        for event in &mut events {
            put_back(event, late_s);
        }
        trial.events = events;
        Ok(trial)
    }
}

/// The changes of an incremental transfer.
fn read_changes(text: &str) -> Result<u32, String> {
    let changes = scaled(text, &[("k", 1e3), ("M", 1e6), ("", 1.0)]);
    let changes = changes.filter(|changes| (1.0..=f64::from(CHANGES_MOST)).contains(changes));
    let changes = changes.and_then(|changes| u32::try_from(changes as u64).ok());
    changes.ok_or_else(|| format!("expected 1 to {CHANGES_MOST} changes"))
}

/// Moves the moments of an event to the clock of a load that began so many seconds late.
fn put_back(event: &mut EventFacts, late_s: f64) {
    for at_s in [&mut event.begun_s, &mut event.done_s].into_iter().flatten() {
        *at_s = (*at_s - late_s).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn during_10_s(word: &str) -> String {
        let event = CellEvent::read(word).unwrap().during(Duration::from_secs(10));
        assert_eq!(event.at, Duration::from_secs(4), "{word}");
        event.to_string()
    }

    #[test]
    fn a_word_is_an_event_in_the_middle_of_the_load() {
        for (word, wanted) in [
            ("reload", "reload"),
            ("restart", "restart"),
            ("transfer", "AXFR"),
            ("ixfr=10k", "AXFR"),
            ("transfer-in", "notify"),
            ("kill-back-end", "kill-back-end"),
            ("stop=300ms", "stop for 300ms"),
            ("update=1k", "update at 1000/s for 3s"),
            ("loss=5%", "loss 5% for 3s"),
            ("delay=20ms", "delay 20ms for 3s"),
            ("standstill=300ms", "standstill of the path for 300ms"),
            ("outage=tld", "outage of the largest tld for 3s"),
        ] {
            assert_eq!(during_10_s(word), wanted);
        }
    }

    #[test]
    fn a_wrong_word_is_refused_with_what_is_accepted() {
        for word in ["", "kill", "relaod", "reload=5", "stop", "update", "loss"] {
            assert_eq!(CellEvent::read(word).unwrap_err(), EXPECTED, "{word}");
        }
        for (word, wanted) in [
            ("ixfr=0", "expected 1 to 1000000 changes"),
            ("ixfr=2M", "expected 1 to 1000000 changes"),
            ("stop=0s", "above 0"),
            ("stop=5", "expected a duration"),
            ("update=1M", "to 10k a second"),
            ("loss=200%", "expected a share"),
        ] {
            let error = CellEvent::read(word).unwrap_err();
            assert!(error.contains(wanted), "{word}: {error}");
        }
    }

    #[test]
    fn the_moments_of_an_event_follow_a_load_that_began_late() {
        let mut event = EventFacts { begun_s: Some(4.0), ..EventFacts::default() };
        put_back(&mut event, 0.5);
        assert_eq!((event.begun_s, event.done_s), (Some(3.5), None));
    }
}
