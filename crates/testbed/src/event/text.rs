//! The text of an event in a scenario or a study, and what is wrong with it.

use std::net::SocketAddr;
use std::time::Duration;

use kqps_catalogue::value::{parse_duration, scaled};
use serde::Deserialize;

use super::{Action, By, Control, ControlSignal, Event, Outage, PathFault};

/// The most updates a second: one socket sends them and waits for their replies.
const UPDATES_MOST: f64 = 10_000.0;

/// An event as typed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventText {
    at: String,
    #[serde(rename = "do")]
    what: Option<What>,
    zone: Option<String>,
    command: Option<Vec<String>>,
    signal: Option<ControlSignal>,
    #[serde(rename = "for")]
    lasting: Option<String>,
    to: Option<SocketAddr>,
    serial: Option<u32>,
    rate: Option<Rate>,
    loss: Option<String>,
    delay: Option<String>,
    servers: Option<Outage>,
}

/// The words of `do`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Reload,
    Reconfigure,
    Rotate,
    Flush,
    KillBackEnd,
    Restart,
    Kill,
    Stop,
    Notify,
    Transfer,
    Update,
    Standstill,
    Outage,
}

/// A rate with or without a unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Rate {
    Number(f64),
    Text(String),
}

impl TryFrom<EventText> for Event {
    type Error = String;

    fn try_from(text: EventText) -> Result<Self, String> {
        let at = parse_duration(&text.at).map_err(|error| format!("at = \"{}\": {error}", text.at))?;
        let action = text.action()?;
        text.check_keys(&action)?;
        let by = text.by(&action)?;
        if matches!(action, Action::Restart) && matches!(by, Some(By::Signal(_))) {
            return Err("a restart is no signal: give the `command` that restarts the server".into());
        }
        Ok(Self { at, action, by })
    }
}

impl EventText {
    /// Whether the path gets worse.
    fn is_path(&self) -> bool {
        self.loss.is_some() || self.delay.is_some()
    }

    fn action(&self) -> Result<Action, String> {
        let is_path = self.is_path();
        let zone = self.zone.as_deref().map(absolute).transpose()?;
        let control = |control| Action::Control { control, zone: zone.clone() };
        Ok(match self.what {
            None if is_path => self.path(self.fault()?)?,
            None => match self.command()? {
                Some(words) => Action::Command(words.to_vec()),
                None => return Err("an event needs `do`, `command`, `loss` or `delay`".into()),
            },
            Some(_) if is_path => {
                return Err("`loss` and `delay` are an event of their own: leave `do` out".into());
            }
            Some(What::Reload) => control(Control::Reload),
            Some(What::Reconfigure) => control(Control::Reconfigure),
            Some(What::Rotate) => control(Control::Rotate),
            Some(What::Flush) => control(Control::Flush),
            Some(What::KillBackEnd) => control(Control::KillBackEnd),
            Some(What::Restart) => Action::Restart,
            Some(What::Kill) => Action::Kill,
            Some(What::Stop) => Action::Stop(self.lasting()?),
            Some(What::Notify) => Action::Notify { zone, to: self.to },
            Some(What::Transfer) => Action::Transfer { zone, since: self.serial },
            Some(What::Update) => {
                let lasting = self.lasting()?.ok_or("an update needs `for`, such as for = \"5s\"")?;
                Action::Update { zone, rate_qps: self.rate()?, lasting }
            }
            Some(What::Standstill) => self.path(PathFault::Standstill)?,
            Some(What::Outage) => {
                let servers = self.servers.ok_or("an outage needs `servers`: tld or company")?;
                self.path(PathFault::Outage(servers))?
            }
        })
    }

    fn fault(&self) -> Result<PathFault, String> {
        let share = |text: &String| {
            let share = scaled(text, &[("%", 0.01), ("", 1.0)]).filter(|share| *share > 0.0 && *share <= 1.0);
            share.ok_or_else(|| format!("loss = \"{text}\": expected a share, such as 5% or 0.05"))
        };
        let loss = self.loss.as_ref().map_or(Ok(0.0), share)?;
        let time = |text: &String| duration("delay", text);
        let delay = self.delay.as_ref().map_or(Ok(Duration::ZERO), time)?;
        Ok(PathFault::Worse { loss, delay })
    }

    fn path(&self, fault: PathFault) -> Result<Action, String> {
        let lasting = self.lasting()?.ok_or("a fault of the path needs `for`, such as for = \"2s\"")?;
        Ok(Action::Path { fault, lasting })
    }

    fn lasting(&self) -> Result<Option<Duration>, String> {
        self.lasting.as_ref().map(|text| duration("for", text)).transpose()
    }

    fn rate(&self) -> Result<f64, String> {
        let expected = "an update needs `rate`, such as rate = \"100\", from above 0 to 10k a second";
        let rate = match &self.rate {
            Some(Rate::Number(rate)) => Some(*rate),
            Some(Rate::Text(text)) => scaled(text, &[("k", 1e3), ("", 1.0)]),
            None => None,
        };
        rate.filter(|rate| *rate > 0.0 && *rate <= UPDATES_MOST).ok_or_else(|| expected.into())
    }

    /// The words of `command`, of which the first is a program.
    fn command(&self) -> Result<Option<&[String]>, String> {
        match self.command.as_deref() {
            Some(words) if words.first().is_none_or(String::is_empty) => {
                Err("`command` is a list: a program and its arguments".into())
            }
            words => Ok(words),
        }
    }

    /// How it is done. Some events are done by kqps alone.
    fn by(&self, action: &Action) -> Result<Option<By>, String> {
        let by = match (self.command()?, self.signal) {
            (Some(_), Some(_)) => return Err("it has both `command` and `signal`; give one of them".into()),
            (Some(_), None) if matches!(action, Action::Command(_)) => None,
            (Some(words), None) => Some(By::Command(words.to_vec())),
            (None, signal) => signal.map(By::Signal),
        };
        let is_asked = matches!(action, Action::Control { .. } | Action::Restart);
        match by {
            Some(By::Command(_)) if !is_asked => Err(self.unwanted("command")),
            Some(By::Signal(_)) if !is_asked => Err(self.unwanted("signal")),
            by => Ok(by),
        }
    }

    /// Refuses keys that the event does not use: it would be another event than its author thinks.
    fn check_keys(&self, action: &Action) -> Result<(), String> {
        let is = |wanted: bool, given: bool| given && !wanted;
        let has_zone = matches!(
            action,
            Action::Control { control: Control::Reload | Control::Flush, .. }
                | Action::Notify { .. }
                | Action::Transfer { .. }
                | Action::Update { .. }
        );
        let lasts = matches!(action, Action::Stop(_) | Action::Update { .. } | Action::Path { .. });
        let given = [
            ("zone", is(has_zone, self.zone.is_some())),
            ("for", is(lasts, self.lasting.is_some())),
            ("to", is(matches!(action, Action::Notify { .. }), self.to.is_some())),
            ("serial", is(matches!(action, Action::Transfer { .. }), self.serial.is_some())),
            ("rate", is(matches!(action, Action::Update { .. }), self.rate.is_some())),
            ("servers", is(self.what == Some(What::Outage), self.servers.is_some())),
        ];
        match given.into_iter().find_map(|(key, is_unwanted)| is_unwanted.then_some(key)) {
            Some(key) => Err(self.unwanted(key)),
            None => Ok(()),
        }
    }

    fn unwanted(&self, key: &str) -> String {
        let kind = match self.what {
            Some(What::KillBackEnd) => "do = \"kill-back-end\"".into(),
            Some(what) => format!("do = \"{}\"", format!("{what:?}").to_lowercase()),
            None if self.is_path() => "a fault of the path".into(),
            None => "a command".into(),
        };
        format!("`{key}` has no meaning for {kind}: leave it out")
    }
}

/// A time above 0.
fn duration(key: &str, text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err(format!("{key} = \"{text}\": expected a time above 0, such as 300ms")),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{key} = \"{text}\": {error}")),
    }
}

/// The name of a zone with a dot at its end.
fn absolute(zone: &str) -> Result<String, String> {
    let zone = if zone.ends_with('.') { zone.to_owned() } else { format!("{zone}.") };
    kqps_message::name::encode(zone.as_bytes(), &mut Vec::new())
        .map_err(|error| format!("zone = \"{zone}\": {error}"))?;
    Ok(zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Event, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn events_are_read() {
        let event = read("at = \"5s\"\ndo = \"reload\"\nzone = \"example\"\nsignal = \"HUP\"").unwrap();
        assert_eq!(event.at, Duration::from_secs(5));
        assert_eq!(event.zone(), Some("example."));
        assert_eq!(event.by, Some(By::Signal(ControlSignal::Hup)));
        let event = read("at = \"0\"\ncommand = [\"sh\", \"-c\", \"true\"]").unwrap();
        assert_eq!(event.action, Action::Command(["sh", "-c", "true"].map(str::to_owned).to_vec()));
        assert_eq!(event.by, None);
        let event = read("at = \"8s\"\nloss = \"5%\"\nfor = \"2s\"").unwrap();
        let fault = PathFault::Worse { loss: 0.05, delay: Duration::ZERO };
        assert_eq!(event.action, Action::Path { fault, lasting: Duration::from_secs(2) });
        let event = read("at = \"1s\"\ndo = \"update\"\nrate = 100\nfor = \"1s\"").unwrap();
        assert!(matches!(event.action, Action::Update { rate_qps: 100.0, .. }), "{event:?}");
        let event = read("at = \"1s\"\ndo = \"restart\"\ncommand = [\"systemctl\", \"restart\", \"nsd\"]");
        assert_eq!(event.unwrap().action, Action::Restart);
    }

    #[test]
    fn a_wrong_event_is_refused_with_its_reason() {
        for (text, wanted) in [
            ("do = \"reload\"", "missing field `at`"),
            ("at = \"5\"\ndo = \"reload\"", "at = \"5\": expected a duration"),
            ("at = \"5s\"", "an event needs `do`, `command`, `loss` or `delay`"),
            ("at = \"5s\"\ndo = \"relaod\"", "unknown variant `relaod`, expected one of `reload`"),
            ("at = \"5s\"\ndo = \"kill\"\nzone = \"a\"", "`zone` has no meaning for do = \"kill\""),
            ("at = \"5s\"\ndo = \"kill\"\ncommand = [\"x\"]", "`command` has no meaning for do = \"kill\""),
            ("at = \"5s\"\ndo = \"stop\"\nfor = \"0s\"", "for = \"0s\": expected a time above 0"),
            ("at = \"5s\"\ndo = \"standstill\"", "a fault of the path needs `for`"),
            ("at = \"5s\"\ndo = \"outage\"\nfor = \"1s\"", "an outage needs `servers`"),
            ("at = \"5s\"\ndo = \"outage\"\nservers = \"all\"\nfor = \"1s\"", "unknown variant `all`"),
            ("at = \"5s\"\ndo = \"kill\"\nservers = \"tld\"", "`servers` has no meaning for do = \"kill\""),
            ("at = \"5s\"\nloss = \"5%\"", "a fault of the path needs `for`"),
            ("at = \"5s\"\nloss = \"200%\"\nfor = \"1s\"", "loss = \"200%\": expected a share"),
            ("at = \"5s\"\nloss = \"5%\"\ndo = \"kill\"\nfor = \"1s\"", "leave `do` out"),
            (
                "at = \"5s\"\nloss = \"5%\"\nfor = \"1s\"\ncommand = [\"x\"]",
                "`command` has no meaning for a fault of the path",
            ),
            (
                "at = \"5s\"\ndelay = \"5ms\"\nfor = \"1s\"\ncommand = [\"x\"]\nrate = 5",
                "`rate` has no meaning for a fault of the path",
            ),
            ("at = \"5s\"\ncommand = []", "`command` is a list"),
            ("at = \"5s\"\ncommand = [\"x\"]\nrate = 5", "`rate` has no meaning for a command"),
            ("at = \"5s\"\ndo = \"update\"\nfor = \"1s\"", "an update needs `rate`"),
            ("at = \"5s\"\ndo = \"update\"\nrate = \"1M\"\nfor = \"1s\"", "an update needs `rate`"),
            ("at = \"5s\"\ndo = \"update\"\nrate = 1", "an update needs `for`"),
            ("at = \"5s\"\ndo = \"reload\"\nsignal = \"KILL\"", "unknown variant `KILL`"),
            (
                "at = \"5s\"\ndo = \"reload\"\nsignal = \"HUP\"\ncommand = [\"x\"]",
                "both `command` and `signal`",
            ),
            ("at = \"5s\"\ndo = \"restart\"\nsignal = \"HUP\"", "a restart is no signal"),
            ("at = \"5s\"\ndo = \"notify\"\nzone = \"a..b\"", "zone = \"a..b.\": "),
            ("at = \"5s\"\ndo = \"notify\"\nto = \"ns1\"", "invalid socket address"),
            ("at = \"5s\"\ndo = \"flush\"\nwhen = 1", "unknown field `when`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
