//! Events of a load: what happens to the subject, its zones or its path at a moment, as scenarios and studies describe
//! it. [`runner`] performs them while the player plays, and records when each was due, begun and done.

pub mod control;
pub mod exchange;
pub mod overlap;
pub mod performer;
pub mod runner;
pub mod running;
pub mod serial;
pub mod stage;

pub(crate) mod command;
mod family;
mod message;
mod notify;
pub(crate) mod over;
mod reconnecting;
mod text;
pub(crate) mod transfer;
mod update;
mod usage;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use kqps_observation::secret;
use serde::Deserialize;

pub use control::{Control, ControlSignal};

/// Something that happens once during a load. Its text is a table of TOML, which [`Deserialize`] reads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "text::EventText")]
pub struct Event {
    /// When it is due, after the start of the trial.
    pub at: Duration,
    /// The kind of the event.
    pub action: Action,
    /// How it is done, if the event says it itself. The subject's definition says it otherwise.
    pub by: Option<By>,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A command of the user: a program and its arguments, which run in the folder of kqps.
    Command(Vec<String>),
    /// The subject does something to itself: all of it, or for one zone.
    Control {
        /// The request to it.
        control: Control,
        /// The zone, with a dot at its end; `None` for all.
        zone: Option<String>,
    },
    /// The subject is stopped and started again.
    Restart,
    /// All processes of the subject get SIGKILL.
    Kill,
    /// All processes of the subject stand still (SIGSTOP), and go on after this time; `None` for the end of the load.
    Stop(Option<Duration>),
    /// NOTIFY is sent (RFC 1996).
    Notify {
        /// The zone; `None` for that of the queries.
        zone: Option<String>,
        /// Where it is sent; `None` for the target of the load.
        to: Option<SocketAddr>,
    },
    /// A zone is transferred out of the subject: all of it (AXFR, RFC 5936), or since a serial (IXFR, RFC 1995).
    Transfer {
        /// The zone; `None` for that of the queries.
        zone: Option<String>,
        /// The serial of IXFR; `None` for AXFR.
        since: Option<u32>,
    },
    /// Dynamic updates add and remove addresses below a zone (RFC 2136).
    Update {
        /// The zone; `None` for that of the queries.
        zone: Option<String>,
        /// Updates a second.
        rate_qps: f64,
        /// How long they are sent.
        lasting: Duration,
    },
    /// The path to the subject is worse for some time.
    Path {
        /// The fault of the path.
        fault: PathFault,
        /// How long.
        lasting: Duration,
    },
}

/// A fault of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PathFault {
    /// Queries are lost at random, or later, or both.
    Worse {
        /// The share that is lost, 0 to 1.
        loss: f64,
        /// The delay of the others.
        delay: Duration,
    },
    /// Neither a query nor a reply passes.
    Standstill,
    /// Some servers of an Internet in a box cannot be reached.
    Outage(Outage),
}

/// The servers of an Internet in a box that cannot be reached for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outage {
    /// Servers of the top-level domain with most zones.
    Tld,
    /// Servers of the hosting company with most zones.
    Company,
}

impl Outage {
    /// The word in scenarios and studies.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tld => "tld",
            Self::Company => "company",
        }
    }
}

/// How an event is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A program and its arguments, which run in the folder of kqps.
    Command(Vec<String>),
    /// A signal to the first process of the subject.
    Signal(ControlSignal),
}

impl Event {
    /// The zone that it names.
    pub fn zone(&self) -> Option<&str> {
        match &self.action {
            Action::Control { zone, .. }
            | Action::Notify { zone, .. }
            | Action::Transfer { zone, .. }
            | Action::Update { zone, .. } => zone.as_deref(),
            _ => None,
        }
    }

    /// Whether it cannot be performed without a zone.
    pub fn needs_zone(&self) -> bool {
        matches!(self.action, Action::Notify { .. } | Action::Transfer { .. } | Action::Update { .. })
    }

    /// The event with the zone of the queries, if it needs one and names none.
    #[must_use]
    pub fn for_zone(mut self, usual: &str) -> Self {
        if let Action::Notify { zone, .. } | Action::Transfer { zone, .. } | Action::Update { zone, .. } =
            &mut self.action
        {
            zone.get_or_insert_with(|| usual.to_owned());
        }
        self
    }
}

/// The event in a few words, such as `reload example.` or `loss 5% for 2s`, without secrets.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |zone: &Option<String>| zone.as_ref().map_or_else(String::new, |zone| format!(" {zone}"));
        match &self.action {
            Action::Command(words) => {
                let words = secret::masked(words);
                let joined = shlex::try_join(words.iter().map(String::as_str));
                f.write_str(&joined.unwrap_or_else(|_| words.join(" ")))
            }
            Action::Control { control, zone } => write!(f, "{}{}", control.word(), of(zone)),
            Action::Restart => f.write_str("restart"),
            Action::Kill => f.write_str("kill"),
            Action::Stop(None) => f.write_str("stop"),
            Action::Stop(Some(lasting)) => write!(f, "stop for {lasting:?}"),
            Action::Notify { zone, to } => {
                write!(f, "notify{}", of(zone))?;
                to.map_or(Ok(()), |to| write!(f, " to {to}"))
            }
            Action::Transfer { zone, since: None } => write!(f, "AXFR{}", of(zone)),
            Action::Transfer { zone, since: Some(serial) } => write!(f, "IXFR{} since {serial}", of(zone)),
            Action::Update { zone, rate_qps, lasting } => {
                write!(f, "update{} at {rate_qps}/s for {lasting:?}", of(zone))
            }
            Action::Path { fault, lasting } => write!(f, "{fault} for {lasting:?}"),
        }
    }
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Standstill => f.write_str("standstill of the path"),
            Self::Outage(outage) => write!(f, "outage of the largest {}", outage.word()),
            Self::Worse { loss, delay } => {
                let loss = (loss > 0.0).then(|| format!("loss {}%", tidy(loss * 100.0)));
                let delay = (!delay.is_zero()).then(|| format!("delay {delay:?}"));
                let parts: Vec<String> = loss.into_iter().chain(delay).collect();
                f.write_str(&parts.join(", "))
            }
        }
    }
}

/// A number without the noise of binary fractions: 0.07 × 100 is 7.
fn tidy(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_in_a_few_words_without_secrets() {
        for (text, wanted) in [
            ("do = \"reload\"\nzone = \"example\"", "reload example."),
            ("do = \"stop\"\nfor = \"300ms\"", "stop for 300ms"),
            ("do = \"transfer\"\nserial = 7\nzone = \"a.\"", "IXFR a. since 7"),
            ("do = \"transfer\"", "AXFR"),
            ("do = \"notify\"\nto = \"127.0.0.1:53\"", "notify to 127.0.0.1:53"),
            ("do = \"update\"\nrate = \"1k\"\nfor = \"2s\"", "update at 1000/s for 2s"),
            ("loss = \"7%\"\nfor = \"2s\"", "loss 7% for 2s"),
            ("loss = \"5%\"\ndelay = \"20ms\"\nfor = \"2s\"", "loss 5%, delay 20ms for 2s"),
            ("do = \"standstill\"\nfor = \"1s\"", "standstill of the path for 1s"),
            ("do = \"outage\"\nservers = \"tld\"\nfor = \"1s\"", "outage of the largest tld for 1s"),
            ("command = [\"sh\", \"-c\", \"a b\"]", "sh -c 'a b'"),
            ("command = [\"x\", \"--password\", \"abc\"]", "x --password '<secret>'"),
        ] {
            let event: Event = toml::from_str(&format!("at = \"1s\"\n{text}")).unwrap();
            assert_eq!(event.to_string(), wanted);
        }
    }

    #[test]
    fn only_events_that_need_a_zone_get_that_of_the_queries() {
        let event = |text: &str| toml::from_str::<Event>(&format!("at = \"1s\"\n{text}")).unwrap();
        let with_zone = |text: &str| event(text).for_zone("example.").zone().map(str::to_owned);
        assert_eq!(with_zone("do = \"notify\"").as_deref(), Some("example."));
        assert_eq!(with_zone("do = \"transfer\"\nzone = \"a.\"").as_deref(), Some("a."));
        assert_eq!(with_zone("do = \"reload\""), None);
    }
}
