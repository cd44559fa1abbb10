//! A subject as the user types it, `knot workers=2 steer=cpu`: its definition, with settings of its own and
//! with factors that every subject has.

use std::collections::BTreeMap;

use kqps_catalogue::name::{self, CORES, IO, PLAYER_TRANSPORT, WORKERS};
use kqps_catalogue::settings::{PlayerFactors, is_for, transports_for};
use kqps_host::Topology;
use kqps_observation::question::Path;
use kqps_observation::run::Role;
use kqps_observation::trial::Transport;
use kqps_observation::{Cell, Factors};

use crate::placement::{CoreRequest, Placement, place};
use crate::study_file::common;
use crate::study_file::values::{ONE_PER_CORE, is_common};
use kqps_testbed::echo_io;
use kqps_testbed::host_settings;
use kqps_testbed::internet;
use kqps_testbed::materials::MaterialsSpec;
use kqps_testbed::past_kernel;
use kqps_testbed::player_hosts::{PlayerHosts, players_of};
use kqps_testbed::player_setup;
use kqps_testbed::subject::Definition;
use kqps_testbed::subject::setting::SettingError;

/// A subject with the user's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Configured {
    /// The name of its cell: the words that the user typed, or another name that is unique.
    pub name: String,
    /// The definition of the subject.
    pub definition: Definition,
    /// The user's settings of the subject, and factors of its cell.
    pub factors: Factors,
}

/// Why a subject cannot have the given settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum ConfiguredError {
    #[error("`{words}`: expected NAME=VALUE, found `{word}`")]
    Pair { words: String, word: String },
    #[error("`{words}`: {name} is given twice")]
    Twice { words: String, name: String },
    #[error("`{words}`: {what}")]
    Value { words: String, what: String },
    #[error("`{words}`: {error}")]
    Setting { words: String, error: Box<SettingError> },
}

impl Configured {
    /// A subject with its default settings.
    pub fn plain(definition: Definition) -> Self {
        Self { name: definition.name.clone(), definition, factors: Factors::default() }
    }

    /// A subject with settings. `words` is all that the user typed; `pairs` are the words after the name, each
    /// `NAME=VALUE`.
    pub fn with(definition: Definition, words: &str, pairs: &[String]) -> Result<Self, ConfiguredError> {
        let words = words.trim().to_string();
        let mut factors = Factors::default();
        for word in pairs {
            let pair = || ConfiguredError::Pair { words: words.clone(), word: word.clone() };
            let (name, value) = word.split_once('=').ok_or_else(pair)?;
            accepts(&definition, &words, name, value)?;
            if factors.word(name).is_some() {
                return Err(ConfiguredError::Twice { words, name: name.into() });
            }
            let set = factors.set(name, value);
            set.map_err(|error| ConfiguredError::Value { words: words.clone(), what: error.to_string() })?;
        }
        let name = if factors.words().is_empty() { definition.name.clone() } else { words.clone() };
        let configured = Self { name, definition, factors };
        configured.check_together(&words)?;
        Ok(configured)
    }

    /// Settings that are valid one by one may still exclude each other.
    fn check_together(&self, words: &str) -> Result<(), ConfiguredError> {
        let Self { definition, factors, .. } = self;
        let wrong = |what: String| ConfiguredError::Value { words: words.into(), what };
        let of_setting = |error| ConfiguredError::Setting { words: words.into(), error: Box::new(error) };
        definition.ports(&definition.settings_among(factors.words()), self.workers()).map_err(of_setting)?;
        let recipe =
            MaterialsSpec::new(factors.dataset()).recipe(0).map_err(|error| wrong(error.to_string()))?;
        definition.check_zones((recipe.zones + recipe.broken) as usize).map_err(of_setting)?;
        definition.check_transport(factors.transport()).map_err(of_setting)?;
        self.check_transport().map_err(wrong)?;
        internet::check(definition, factors).map_err(wrong)?;
        internet::check_rate(factors).map_err(wrong)?;
        let io = factors.word(IO).filter(|_| definition.takes_io());
        if let Some(what) = past_kernel::why_not(io, factors, &BTreeMap::new()) {
            return Err(wrong(what));
        }
        let of_path = factors.words().keys().find(|name| name.starts_with(name::PATH_SETTING));
        match of_path.filter(|_| factors.path().kind != Some(Path::Veth)) {
            Some(name) => Err(wrong(format!("{name} sets nothing on loopback: add path=veth"))),
            None => Ok(()),
        }
    }

    /// Whether each setting has an effect over the transport of the cell.
    fn check_transport(&self) -> Result<(), String> {
        let transport = self.factors.transport();
        let mut words = self.factors.words().iter();
        let Some((name, word)) = words.find(|(name, word)| !is_for(name, word, transport)) else {
            return Ok(());
        };
        let words: Vec<&str> = transports_for(name, word).map(Transport::word).collect();
        Err(format!(
            "{name} sets nothing over {}: it is for {PLAYER_TRANSPORT}={}",
            transport.word(),
            words.join(" or ")
        ))
    }

    fn workers(&self) -> u32 {
        self.factors.word(WORKERS).and_then(|word| word.parse().ok()).unwrap_or(1)
    }

    /// The cell of the subject: on the cores that it asks for, or on one for each worker. Everything else is
    /// that of `like`, whose factors and workers apply unless the user set them.
    ///
    /// # Errors
    ///
    /// The core that this machine does not have, or the workers that the queues of its path lack.
    pub fn cell(&self, topology: &Topology, version: Option<String>, like: &Cell) -> Result<Cell, String> {
        self.cell_at(topology, None, version, like)
    }

    /// As [`Self::cell`], on the machine with this topology at which `hosts` play.
    pub(crate) fn cell_at(
        &self,
        topology: &Topology,
        hosts: Option<&PlayerHosts>,
        version: Option<String>,
        like: &Cell,
    ) -> Result<Cell, String> {
        let mut factors = like.factors.with(&self.factors).fitting();
        host_settings::number_core(&mut factors, topology);
        let players = players_of(hosts, &factors)?;
        if factors.dataset().internet.is_some() {
            if players.is_some() {
                return Err(internet::ON_ONE_HOST.into());
            }
            factors = of_resolver(&factors);
        }
        let workers = if self.factors.word(WORKERS).is_some() { self.workers() } else { like.workers };
        let request = match self.factors.word(CORES) {
            Some(word) => CoreRequest::read(word, topology.cores.len())?,
            None => CoreRequest::Count(workers.max(1) as usize),
        };
        let senders = factors.player().senders.map_or(1, |senders| senders as usize);
        let beside = players.map_or(senders, |players| players.cores_beside_subject(senders));
        let mut places = place(topology, &request, beside, Placement::All)?;
        let mut placed =
            places.pop().ok_or_else(|| format!("this machine has {} cores", topology.cores.len()))?;
        if let Some(players) = players {
            placed.player_cpus = players.first_cpus(senders, &placed.subject_cpus);
        }
        let cell = Cell {
            name: self.name.clone(),
            role: Role::Subject,
            subject: self.definition.name.clone(),
            version,
            io: self.definition.cell_io(&self.factors),
            workers,
            player_cpus: placed.player_cpus,
            subject_cpus: placed.subject_cpus,
            factors,
            ..like.clone()
        };
        // The queues of another host's device are not known here.
        past_kernel::few_workers(&cell).filter(|_| players.is_none()).map_or(Ok(cell), Err)
    }
}

/// The factors of a resolver's cell: without those of zones, and with time for answers that take several servers.
fn of_resolver(factors: &Factors) -> Factors {
    let is_of_zones = |name: &str| name.starts_with(name::DATASET) && name != name::DATASET_FILE;
    let mut factors = factors.filtered(|name| !is_of_zones(name));
    let player = factors.player();
    if player.timeout_s.is_none_or(|timeout_s| timeout_s == player_setup::TIMEOUT_S) {
        factors.set_player(PlayerFactors { timeout_s: Some(internet::TIMEOUT_S), ..player.clone() });
    }
    factors
}

/// Gives every cell a unique name, and every subject a name that only equal subjects share. A second `nsd`
/// becomes `nsd-2`, but `knot workers=1` and `knot workers=2` are one subject.
pub fn with_names_of_their_own(chosen: Vec<Configured>) -> Vec<Configured> {
    let mut named: Vec<Configured> = Vec::new();
    for one in chosen {
        let is_again = named.iter().any(|other| other.name == one.name);
        let is_another = |other: &Configured| is_again || other.definition.text != one.definition.text;
        let name = first_free(&one.name, |name| named.iter().any(|other| other.name == name));
        let of_subject = first_free(&one.definition.name, |name| {
            named.iter().any(|other| other.definition.name == name && is_another(other))
        });
        named.push(Configured { name, definition: one.definition.named(&of_subject), factors: one.factors });
    }
    named
}

/// The name itself if it is free, or else the name with the least number that makes it free.
fn first_free(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = [name.to_string()].into_iter().chain(numbered).find(|name| !is_taken(name));
    free.expect("there is always a further number")
}

/// Whether the subject, or every subject, has such a setting, and whether the setting accepts this value.
fn accepts(definition: &Definition, words: &str, name: &str, value: &str) -> Result<(), ConfiguredError> {
    let wrong = |what: String| ConfiguredError::Value { words: words.into(), what };
    let is_several = value == ONE_PER_CORE || value.starts_with("each ") || value.starts_with("every ");
    if (name == WORKERS || name == CORES) && is_several {
        return Err(wrong(format!(
            "{name}={value} stands for several cells, which takes a study; expected one choice"
        )));
    }
    if is_common(name) {
        return common::accepts(name, value).map_err(wrong);
    }
    if name == IO && definition.takes_io() {
        let known: Vec<&str> = echo_io::models().collect();
        return common::one_of(name, value, &known).map_err(wrong);
    }
    definition.check_settings(&[(name.to_string(), value.to_string())].into()).map_err(|error| {
        ConfiguredError::Setting {
            words: words.into(),
            error: Box::new(common::with_common(definition, error, [])),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_testbed::player_setup::PlayerSetup;
    use kqps_testbed::subject::builtin;

    fn known(name: &str) -> Definition {
        let all = builtin::servers().into_iter().chain([builtin::echo()]);
        all.into_iter().find(|one| one.name == name).unwrap()
    }

    fn configured(name: &str, pairs: &[&str]) -> Result<Configured, String> {
        let words = [&[name], pairs].concat().join(" ");
        let pairs: Vec<String> = pairs.iter().map(ToString::to_string).collect();
        Configured::with(known(name), &words, &pairs).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_make_a_cell() {
        let mut like = Cell { workers: 1, ..Cell::default() };
        like.factors.set_records(10);
        let cell = |name, pairs: &[&str]| {
            configured(name, pairs).unwrap().cell(&Topology::read(), None, &like).unwrap()
        };
        let echo = cell("echo", &["io=uring", "workers=2", "sockets=reuseport"]);
        assert_eq!(
            (echo.name.as_str(), echo.io.as_str()),
            ("echo io=uring workers=2 sockets=reuseport", "uring")
        );
        assert_eq!((echo.subject.as_str(), echo.workers, echo.role), ("echo", 2, Role::Subject));
        assert_eq!(echo.factors.word("sockets"), Some("reuseport"));
        assert_eq!(echo.factors.dataset().records, Some(10), "what is not said is as elsewhere");
        let knot = cell("knot", &[]);
        assert_eq!((knot.name.as_str(), knot.io.as_str(), knot.workers), ("knot", "mmsg", 1));
        let mut with_sockets = like.clone();
        with_sockets.factors.set_player(PlayerSetup::many_flows().0);
        let configured = configured("knot", &["player.transport=tcp", "player.connections=3"]).unwrap();
        let over_tcp = configured.cell(&Topology::read(), None, &with_sockets).unwrap();
        let player = over_tcp.factors.player();
        assert_eq!((over_tcp.io.as_str(), player.connections, player.sockets), ("epoll", Some(3), None));
        assert_eq!(cell("knot", &["dataset.records=7"]).factors.dataset().records, Some(7));
        assert_eq!(cell("echo", &["io=xdp", "path=veth"]).io, "xdp");
        let last = Topology::read().cores.last().unwrap().cpu.to_string();
        let received = cell("echo", &["path=veth", "host.receive-core=last", "host.rps.lo=0"]);
        assert_eq!(received.factors.word("host.receive-core"), Some(last.as_str()));
        assert_eq!(received.factors.host_settings()["rps.lo"], "0");
    }

    #[test]
    fn a_second_of_one_name_is_numbered_in_its_text_too() {
        let servers = builtin::servers();
        let twice = [&servers[0], &servers[1], &servers[0], &servers[0]];
        let named = with_names_of_their_own(twice.map(|one| Configured::plain(one.clone())).to_vec());
        for one in &named {
            assert_eq!(one.name, one.definition.name);
            assert_eq!(Definition::read("again", &one.definition.text).unwrap(), one.definition);
        }
        let names: Vec<&str> = named.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["nsd", "knot", "nsd-2", "nsd-3"]);
    }

    #[test]
    fn one_subject_under_two_settings_is_one_subject() {
        let of = |pairs: &[&str]| configured("knot", pairs).unwrap();
        let named = with_names_of_their_own(vec![of(&["workers=1"]), of(&["workers=2"]), of(&["workers=1"])]);
        let names: Vec<_> =
            named.iter().map(|one| (one.name.as_str(), one.definition.name.as_str())).collect();
        assert_eq!(
            names,
            [("knot workers=1", "knot"), ("knot workers=2", "knot"), ("knot workers=1-2", "knot-2")]
        );
    }

    #[test]
    fn what_cannot_be_is_explained() {
        for (name, pairs, expected) in [
            ("knot", &["worker=2"][..], "Knot DNS has no setting `worker`; did you mean `workers`?"),
            ("knot", &["steer=cup"], "steer = \"cup\"; did you mean `cpu`?"),
            ("knot", &["workers=0"], "factor `workers`: expected a number from 1 on, found `0`"),
            ("knot", &["workers"], "expected NAME=VALUE, found `workers`"),
            ("knot", &["workers=1", "workers=2"], "workers is given twice"),
            ("knot", &["cores=each core"], "stands for several cells"),
            ("knot", &["io=uring"], "has no setting `io`"),
            ("echo", &["io=uirng"], "did you mean `uring`?"),
            ("echo", &["player.windw=3"], "did you mean `player.window`?"),
            ("nsd", &["path.queues=2"], "add path=veth"),
            ("nsd", &["host.rps.eth0=3-1"], "rps.eth0: expected cores such as 0,2-3, or none, found `3-1`"),
            ("nsd", &["host.receive-core=first"], "expected the number of a core, or last, found `first`"),
            ("echo", &["io=xdp"], "loopback has none: it needs path=veth"),
            ("nsd", &["player.connections=2"], "sets nothing over udp: it is for player.transport=tcp"),
            ("nsd", &["player.transport=tcp", "player.sockets=2"], "sets nothing over tcp"),
            ("front", &["player.transport=tcp"], "answers over udp, and not over tcp"),
            ("knot", &["player.transport=tls"], "answers over udp, tcp, and not over tls"),
            (
                "nsd",
                &["player.transport=tcp", "player.resume=false"],
                "player.resume sets nothing over tcp: it is for player.transport=tls",
            ),
            (
                "nsd",
                &["player.transport=tls", "player.http_method=get"],
                "player.http_method sets nothing over tls: it is for player.transport=https",
            ),
            ("unbound", &["player.transport=https", "player.http_method=gte"], "did you mean `get`?"),
            ("nsd", &["player.transport=tls", "player.congestion=cubic"], "it is for player.transport=quic"),
            ("nsd", &["player.sources=192.0.2.1"], "a prefix of loopback such as 127.1.0.0/16"),
            ("nsd", &["player.transport=tls", "player.tls_group=x25518"], "did you mean `x25519`?"),
            (
                "nsd",
                &["player.transport=tls", "player.tls_trust=anyone"],
                "has no setting `player.tls_trust`",
            ),
        ] {
            let error = configured(name, pairs).unwrap_err();
            assert!(error.contains(expected), "{expected} is not in {error}");
        }
    }
}
