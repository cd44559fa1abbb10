//! Performs one event, and sees when it is done.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use kqps_kernel::clock::now_ns;
use kqps_kernel::namespace::impair::Impairment;
use kqps_kernel::priority;
use kqps_observation::EventUsage;

use super::over::Over;
use super::serial::{Answer, EVERY, SerialQuery};
use super::stage::{Family, Stage};
use super::update::{self, Updates};
use super::usage::UsageBefore;
use super::{Action, By, Event, PathFault, command, notify, transfer};
use crate::subject::programs;

/// The interval at which the end of killed processes is looked for.
const LOOK: Duration = Duration::from_millis(1);

/// The outcome of an event, on the monotonic clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Performed {
    /// When it began.
    pub begun_ns: Option<u64>,
    /// When it was done; `None` if that was not seen.
    pub done_ns: Option<u64>,
    /// Why it failed.
    pub failure: Option<String>,
    /// Its counts.
    pub counts: BTreeMap<String, u64>,
    /// CPU time and memory of the subject meanwhile; `None` if its processes are not known.
    pub usage: Option<EventUsage>,
}

/// An event whose moment has not come.
pub(super) struct Prepared<'a> {
    event: &'a Event,
    stage: &'a Stage<'a>,
    /// Queries for the serial that shows that the event is done.
    serial: Option<SerialQuery<'a>>,
    before: Answer,
    /// The processes that are suspended or killed; `None` if none are, or why they cannot be.
    family: Result<Option<Box<dyn Family + 'a>>, String>,
    /// The messages of dynamic updates, or why there are none. It takes milliseconds to make them.
    updates: Result<Vec<Vec<u8>>, String>,
    /// The subject just before the event; `None` until it is read.
    usage_before: Option<UsageBefore>,
    /// The servers of an outage, or why they are not known.
    silenced: Result<Vec<IpAddr>, String>,
}

/// The sign that an event is done, after it was performed.
enum End {
    /// It is done.
    Now,
    /// Nothing shows it.
    Unseen,
    /// Another serial than before is answered.
    NewSerial,
    /// The server answers.
    Answers,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(event: &'a Event, stage: &'a Stage<'a>) -> Self {
        let is_watched = matches!(
            event.action,
            Action::Control { control: super::Control::Reload, .. }
                | Action::Notify { .. }
                | Action::Update { .. }
                | Action::Restart
        );
        // Whether a server answers again can be seen from any answer.
        let any = matches!(event.action, Action::Restart).then_some(".");
        let zone = stage.zone_of(event).or(any).filter(|_| is_watched);
        let serial = zone.and_then(|zone| SerialQuery::new(&stage.target, zone).ok());
        let family = match event.action {
            Action::Kill => Ok(Some(stage.actor.family())),
            Action::Stop(_) => {
                let mut family = stage.actor.family();
                family.prepare().map(|()| Some(family))
            }
            _ => Ok(None),
        };
        let updates = match event.action {
            Action::Update { .. } => update::messages(stage.zone_of(event).unwrap_or_default()),
            _ => Ok(Vec::new()),
        };
        let silenced = match (&event.action, stage.target.path().internet()) {
            (Action::Path { fault: PathFault::Outage(outage), .. }, Some(internet)) => {
                internet.servers(*outage).map_err(|error| error.to_string())
            }
            _ => Ok(Vec::new()),
        };
        Self { event, stage, serial, before: Answer::None, family, updates, usage_before: None, silenced }
    }

    /// How long before its moment an event asks for the serial, nanoseconds: some queries may be lost.
    pub(super) fn ahead_ns(&self) -> u64 {
        u64::try_from(self.stage.target.patience().as_nanos()).unwrap_or(u64::MAX).saturating_mul(3)
    }

    /// Asks for the serial before the event, until it is answered or a moment has come. It is not late for the moment if
    /// the server is slow.
    pub(super) fn look(&mut self, until_ns: u64, over: &Over) {
        let Some(serial) = &mut self.serial else { return };
        loop {
            // A socket's wait may be as much longer as the kernel's tick.
            let left_ns = until_ns.saturating_sub(now_ns()).saturating_sub(EVERY.as_nanos() as u64);
            if left_ns == 0 {
                return;
            }
            match serial.ask(Duration::from_nanos(left_ns)) {
                Answer::None if over.wait(EVERY) => (),
                Answer::None => return,
                answer => {
                    self.before = answer;
                    return;
                }
            }
        }
    }

    /// Performs it now, and waits until it is done or the load is over.
    pub(super) fn perform(mut self, over: &Over) -> Performed {
        let actor = self.stage.actor;
        let before = self.usage_before.take().unwrap_or_else(|| UsageBefore::read(actor));
        let (performed, usage) = before.during(actor, || self.perform_watched(over));
        Performed { usage, ..performed }
    }

    /// Reads what the subject has used so far. It takes time, so it comes before the event's moment.
    pub(super) fn read_usage(&mut self) {
        self.usage_before = Some(UsageBefore::read(self.stage.actor));
    }

    fn perform_watched(mut self, over: &Over) -> Performed {
        let mut performed = Performed::default();
        match self.act(over, &mut performed) {
            Err(why) => performed.failure = Some(why),
            Ok(End::Unseen) => (),
            Ok(End::Now) => performed.done_ns = Some(now_ns()),
            Ok(end) => performed.done_ns = self.seen(&end, over),
        }
        performed
    }

    fn act(&mut self, over: &Over, performed: &mut Performed) -> Result<End, String> {
        let Performed { begun_ns, counts, .. } = performed;
        let mut begun = || *begun_ns = Some(now_ns());
        let zone = self.stage.zone_of(self.event).unwrap_or_default();
        let target = &self.stage.target;
        match &self.event.action {
            Action::Command(words) => {
                run(words, over, &mut begun)?;
                Ok(End::Now)
            }
            Action::Control { control, zone } => {
                let has_ended = match &self.event.by {
                    Some(by) => self.by_itself(by, over, &mut begun)?,
                    None => self.stage.actor.control(*control, zone.as_deref(), over, &mut begun)?,
                };
                Ok(match (&self.serial, has_ended) {
                    (Some(_), _) => End::NewSerial,
                    (None, true) => End::Now,
                    (None, false) => End::Unseen,
                })
            }
            Action::Restart => {
                if let Some(by) = &self.event.by {
                    self.by_itself(by, over, &mut begun)?;
                } else {
                    begun();
                    self.stage.actor.restart()?;
                }
                Ok(End::Answers)
            }
            Action::Kill => self.kill(over, &mut begun),
            Action::Stop(lasting) => self.stop(*lasting, over, &mut begun),
            Action::Notify { to, .. } => {
                let _ = priority::run_last();
                let to = to.unwrap_or(target.address);
                notify::send(target, zone, to, (over, begun))?;
                Ok(End::NewSerial)
            }
            Action::Transfer { since, .. } => {
                let _ = priority::run_last();
                transfer::run(target, (zone, *since), counts, (over, begun))?;
                Ok(End::Now)
            }
            Action::Update { rate_qps, lasting, .. } => {
                let _ = priority::run_last();
                let messages = self.updates.as_ref().map_err(Clone::clone)?;
                let updates = Updates { messages, rate_qps: *rate_qps, lasting: *lasting };
                update::run(target, updates, counts, (over, begun))?;
                Ok(End::NewSerial)
            }
            Action::Path { fault, lasting } => self.worsen(*fault, *lasting, over, &mut begun),
        }
    }

    /// Runs the event's own command or sends its signal. Returns whether a program did it and ended.
    fn by_itself(&self, by: &By, over: &Over, begun: &mut dyn FnMut()) -> Result<bool, String> {
        match by {
            By::Command(words) => run(words, over, begun).map(|()| true),
            By::Signal(signal) => {
                begun();
                self.stage.actor.ask(*signal)?;
                Ok(false)
            }
        }
    }

    fn family(&mut self) -> Result<&mut (dyn Family + 'a), String> {
        let family = self.family.as_mut().map_err(|why| why.clone())?;
        family.as_deref_mut().ok_or_else(|| "the server's processes are not known".into())
    }

    fn kill(&mut self, over: &Over, begun: &mut dyn FnMut()) -> Result<End, String> {
        let family = self.family()?;
        begun();
        family.kill()?;
        while family.is_left() {
            if over.is_long_over() {
                return Ok(End::Unseen);
            }
            std::thread::sleep(LOOK);
        }
        Ok(End::Now)
    }

    /// Suspends the subject. It goes on at the end of the load at the latest.
    fn stop(
        &mut self,
        lasting: Option<Duration>,
        over: &Over,
        begun: &mut dyn FnMut(),
    ) -> Result<End, String> {
        let family = self.family()?;
        begun();
        let stopped = family.suspend();
        let has_passed = match (&stopped, lasting) {
            (Err(_), _) => false,
            (Ok(()), Some(lasting)) => over.wait(lasting),
            (Ok(()), None) => {
                over.wait_for_end();
                true
            }
        };
        let continued = family.resume();
        stopped.and(continued)?;
        Ok(if has_passed { End::Now } else { End::Unseen })
    }

    /// Makes the path worse. It is as before at the end of the load at the latest.
    fn worsen(
        &self,
        fault: PathFault,
        lasting: Duration,
        over: &Over,
        begun: &mut dyn FnMut(),
    ) -> Result<End, String> {
        let path = self.stage.target.path();
        let silenced = self.silenced.as_ref().map_err(Clone::clone)?;
        let silence = |is_dropped| {
            path.internet().map_or(Ok(()), |internet| internet.drop_packets_to(silenced, is_dropped))
        };
        begun();
        let worse = match fault {
            PathFault::Worse { loss, delay } => path.impair(Impairment::Netem { loss, delay }, false),
            PathFault::Standstill => path.impair(Impairment::Blackhole, true),
            PathFault::Outage(_) => silence(true),
        };
        let worse = worse.map_err(|error| error.to_string());
        let has_passed = worse.is_ok() && over.wait(lasting);
        let relieved = match fault {
            PathFault::Outage(_) => silence(false),
            PathFault::Worse { .. } | PathFault::Standstill => path.relieve(),
        };
        let relieved = relieved.map_err(|error| error.to_string());
        worse.and(relieved)?;
        Ok(if has_passed { End::Now } else { End::Unseen })
    }

    /// When it was seen that the event is done, if it was before the end of the load. Player and subject come first.
    fn seen(&mut self, end: &End, over: &Over) -> Option<u64> {
        let before = self.before;
        let serial = self.serial.as_mut()?;
        let is_done = |answer| match (end, answer, before) {
            (End::NewSerial, Answer::Serial(now), Answer::Serial(before)) => now != before,
            // A server that answered with an SOA before does so again.
            (End::Answers, Answer::Serial(_), _) => true,
            (End::Answers, Answer::Other, before) => !matches!(before, Answer::Serial(_)),
            _ => false,
        };
        if matches!(end, End::NewSerial) && !matches!(before, Answer::Serial(_)) {
            return None;
        }
        if matches!(end, End::Answers) {
            // A reply from before the restart would show nothing.
            serial.forget();
        }
        let _ = priority::run_last();
        loop {
            if is_done(serial.ask(Duration::MAX)) {
                let done_ns = now_ns();
                self.stage.actor.settle();
                return Some(done_ns);
            }
            if !over.wait(EVERY) {
                return None;
            }
        }
    }
}

/// Runs a program with its arguments until it ends.
fn run(words: &[String], over: &Over, begun: &mut dyn FnMut()) -> Result<(), String> {
    let name = &words[0];
    let program = programs::find(name).ok_or_else(|| format!("there is no program `{name}`"))?;
    let mut line = Command::new(program);
    line.args(&words[1..]);
    let started = command::start(line).map_err(|error| format!("starting {name}: {error}"))?;
    begun();
    started.wait(over)
}
