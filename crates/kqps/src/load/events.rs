//! The events of a scenario, at a server that runs already: checked before the load, and performed while it is played.

use std::net::SocketAddr;

use kqps_host::SubjectWatched;
use kqps_observation::EventFacts;
use kqps_observation::trial::Transport;
use kqps_player::{Live, Plan};
use kqps_testbed::event::exchange::Target;
use kqps_testbed::event::overlap;
use kqps_testbed::event::runner::{self, EVENTS_MOST};
use kqps_testbed::event::running::RunningServer;
use kqps_testbed::event::stage::Stage;
use kqps_testbed::event::{Action, Event};
use kqps_testbed::path::LaidPath;

/// Events that can be performed, as far as it is known before the load.
pub(super) struct EventsOfLoad {
    events: Vec<Event>,
    server: RunningServer,
    zone: Option<String>,
    address: SocketAddr,
    transport: Transport,
    path: LaidPath,
}

impl EventsOfLoad {
    /// The events of a load with this plan at this subject. `zone` is that of the queries, or why they have none.
    ///
    /// # Errors
    ///
    /// The first event that cannot be performed, and the reason.
    pub(super) fn new(
        events: Vec<Event>,
        zone: Result<String, String>,
        (good, subject): (&Plan, &SubjectWatched),
    ) -> Result<Self, String> {
        if events.len() > EVENTS_MOST {
            return Err(format!("it has {} events; {EVENTS_MOST} at most", events.len()));
        }
        let usual = zone.as_ref().ok();
        let in_zone = |event: Event| match usual {
            Some(usual) => event.for_zone(usual),
            None => event,
        };
        let events: Vec<Event> = events.into_iter().map(in_zone).collect();
        let server = RunningServer::new(&subject.pids, subject.unknown.as_deref());
        let (address, transport) = (good.targets[0], good.wire.transport());
        let zone = zone.ok();
        let path =
            if address.ip().is_loopback() { LaidPath::Loopback } else { LaidPath::Network(address.ip()) };
        let of_load = Self { events, server, zone, address, transport, path };
        of_load.check(good)?;
        Ok(of_load)
    }

    fn check(&self, good: &Plan) -> Result<(), String> {
        let stage = self.stage()?;
        for (number, event) in self.events.iter().enumerate() {
            let wrong = |why: String| format!("event {} ({event}): {why}", number + 1);
            if let Some(after) = good.stop.after.filter(|after| event.at >= *after) {
                return Err(wrong(format!("it is due after {:?}, and the load lasts {after:?}", event.at)));
            }
            stage.check(event).map_err(wrong)?;
        }
        overlap::check(&self.events)
    }

    fn stage(&self) -> Result<Stage<'_>, String> {
        let target =
            Target::new(self.address, self.transport, &self.path).map_err(|error| error.to_string())?;
        Ok(Stage { actor: &self.server, target, zone: self.zone.clone() })
    }

    /// Runs `play`, and performs the events meanwhile.
    pub(super) fn beside<T>(
        &self,
        live: &Live,
        play: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, Vec<EventFacts>)> {
        let stage = self.stage().map_err(anyhow::Error::msg)?;
        let (played, facts) = runner::beside(&self.events, &stage, &|| live.began_ns(), play);
        Ok((played?, facts))
    }
}

/// The addresses that get NOTIFY.
pub(super) fn notified(events: &[Event]) -> impl Iterator<Item = SocketAddr> {
    events.iter().filter_map(|event| match event.action {
        Action::Notify { to, .. } => to,
        _ => None,
    })
}

/// Whether any of these events sends messages to the server, as an attack does.
pub(super) fn send_messages(events: &[Event]) -> bool {
    events.iter().any(|event| {
        matches!(event.action, Action::Notify { .. } | Action::Transfer { .. } | Action::Update { .. })
    })
}
