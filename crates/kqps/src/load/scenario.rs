//! Scenarios: classes of clients that are played beside the load of the flags, and events during it. A class is a load as
//! well, whose keys are flags of `kqps load`.

pub(crate) mod played;
mod text;
mod zone;

use std::ffi::OsString;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Parser;
use kqps_dataset::{Dataset, Format};
use kqps_files::toml_file;
use kqps_files::unfinished::Unfinished;
use kqps_host::SubjectWatched;
use kqps_kernel::local_address::is_local;
use kqps_observation::Trial;
use kqps_observation::merge::together;
use kqps_observation::trial::ClassTrial;
use kqps_player::{Class, Plan, Together};
use kqps_testbed::play::{PlayClass, QueryFile};
use kqps_verdict::scenario::GOOD;
use tempfile::NamedTempFile;

use super::Args;
use super::allowed::Allowed;
use super::events::{self, EventsOfLoad};
use super::flags::{PlayerArgs, query_file};
use super::hostile;
use super::per_query::bytes_of_hex;
use super::prepared::Prepared;
use crate::exit::bad_input;
use crate::value::parse_rate;
use text::{ClassText, OPEN, ScenarioFile, open_rates, read};

pub(crate) use text::{OpenRate, Typed, parse};

/// The rate of a class whose scenario leaves it open, and the user does not name one, queries a second.
const RATE: &str = "10k";

/// Flags that a class cannot have.
const OF_THE_LOAD: [&str; 14] = [
    "scenario",
    "yes-attack",
    "json",
    "out",
    "fail-on",
    "interval",
    "tui",
    "live",
    "linger",
    "metrics",
    "subject",
    "subject-pid",
    "priority",
    "drop-reasons",
];

/// Flags whose value is a file, named from the folder of the scenario.
const FILES: [&str; 3] = ["queries", "ca", "course"];

/// A scenario to be played beside a load.
pub(crate) struct Asked<'a> {
    pub(crate) scenario: &'a Typed,
    /// The flags of the good clients.
    pub(crate) player: &'a PlayerArgs,
    /// Whether the good clients go by several transports.
    pub(crate) has_mix: bool,
    /// Servers on other hosts that it may attack.
    pub(crate) yes_attack: &'a [Allowed],
    pub(crate) seed: Option<u64>,
    /// The core of classes that name none; `None` for any.
    pub(crate) cpu: Option<u32>,
}

impl Scenario {
    /// A scenario without events.
    pub(crate) fn from_classes(classes: Vec<ClassLoad>) -> Self {
        Self { classes, events: None }
    }
}

impl Asked<'_> {
    fn check_target(&self, targets: impl Iterator<Item = SocketAddr>) -> anyhow::Result<()> {
        check_target("--scenario", self.yes_attack, targets)
    }

    fn wrong(&self, why: &str) -> anyhow::Error {
        bad_input(format!("--scenario {}: {why}", self.scenario.source()))
    }
}

/// A scenario that can be played.
#[derive(Default)]
pub(crate) struct Scenario {
    pub(super) classes: Vec<ClassLoad>,
    /// `None` if it has no events.
    pub(super) events: Option<EventsOfLoad>,
}

/// A class that can be played.
pub(crate) struct ClassLoad {
    pub(crate) name: String,
    pub(crate) plan: Plan,
    pub(crate) dataset: Dataset,
    /// Whether a search varies its rate.
    pub(crate) is_sought: bool,
}

/// A file that is removed when it is dropped, and if a signal ends kqps before.
type TemporaryFile = (NamedTempFile, Unfinished);

/// Where the queries of a class come from, for a player in another process.
pub(crate) struct Source {
    pub(crate) open_rate: OpenRate,
    queries: QueryFile,
    edns_options: Vec<u8>,
    /// The file of queries that stand in the scenario.
    _file: Option<TemporaryFile>,
}

impl Source {
    /// Whether another process can open the queries.
    pub(crate) fn is_file(&self) -> bool {
        Path::new(&self.queries.path).is_file()
    }

    /// The request to play a class with these queries.
    pub(crate) fn request(&self, class: &ClassLoad) -> PlayClass {
        PlayClass {
            name: class.name.clone(),
            plan: class.plan.clone(),
            queries: self.queries.clone(),
            edns_options: self.edns_options.clone(),
            is_sought: class.is_sought,
        }
    }
}

/// The flags of a class.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    load: Args,
}

impl ClassLoad {
    /// A class that another process asks for.
    pub(crate) fn open(asked: PlayClass) -> anyhow::Result<Self> {
        let dataset = asked.open()?;
        Ok(Self { name: asked.name, plan: asked.plan, dataset, is_sought: asked.is_sought })
    }

    pub(super) fn class(&self) -> Class<'_> {
        Class { plan: &self.plan, dataset: &self.dataset }
    }
}

/// A scenario beside a load with this plan and these queries at this subject.
pub(super) fn open(
    asked: &Asked<'_>,
    (good, subject): (&Plan, &SubjectWatched),
    queries: &Dataset,
) -> anyhow::Result<Scenario> {
    let wrong = |why: String| asked.wrong(&why);
    let ReadScenario { file, open_rates, folder } = ReadScenario::new(asked, good, queries)?;
    if !file.class.is_empty() || events::send_messages(&file.event) {
        asked.check_target(good.targets.iter().copied().chain(events::notified(&file.event)))?;
    }
    let events = (!file.event.is_empty())
        .then(|| EventsOfLoad::new(file.event, zone::of_queries(queries), (good, subject)));
    let events = events.transpose().map_err(wrong)?;
    let loads = classes_of(asked, good, (file.class, &open_rates), &folder)?;
    // The queries are mapped: their sources go.
    let classes = loads.into_iter().map(|(class, _)| class).collect();
    Ok(Scenario { classes, events })
}

/// The classes of a scenario without events beside a load with this plan and these queries, each with the source of its
/// own.
pub(crate) fn classes(
    asked: &Asked<'_>,
    good: &Plan,
    queries: &Dataset,
) -> anyhow::Result<Vec<(ClassLoad, Source)>> {
    asked.check_target(good.targets.iter().copied())?;
    let ReadScenario { file, open_rates, folder } = ReadScenario::new(asked, good, queries)?;
    if !file.event.is_empty() {
        return Err(asked.wrong("it has events, which kqps load plays and a search of rates does not"));
    }
    classes_of(asked, good, (file.class, &open_rates), &folder)
}

/// The file of a scenario with its zone and its rate filled in.
struct ReadScenario {
    file: ScenarioFile,
    /// How each class uses the rate that the scenario leaves open.
    open_rates: Vec<OpenRate>,
    /// The folder from which its files are named.
    folder: PathBuf,
}

impl ReadScenario {
    fn new(asked: &Asked<'_>, good: &Plan, queries: &Dataset) -> anyhow::Result<Self> {
        let typed = asked.scenario;
        let wrong = |why: String| asked.wrong(&why);
        if good.stop.after.is_none() {
            return Err(asked.wrong("say how long it lasts (-l)"));
        }
        let (text, folder) = read(typed).map_err(wrong)?;
        let zone =
            if text.contains("{zone}") { zone::of_queries(queries).map_err(wrong)? } else { String::new() };
        let rate = typed.rate().unwrap_or(RATE);
        parse_rate(rate).map_err(|error| wrong(format!("`{rate}`: {error}")))?;
        let text = text.replace("{zone}", &zone.replace('\\', "\\\\"));
        let open_rates = open_rates(&text);
        let text = text.replace(OPEN, rate);
        let file: ScenarioFile = toml_file::read(typed.source(), &text).map_err(bad_input)?;
        if file.class.is_empty() && file.event.is_empty() {
            return Err(asked.wrong("it has no class and no event"));
        }
        Ok(Self { file, open_rates, folder })
    }
}

/// The loads of the classes, each with the source of its queries.
fn classes_of(
    asked: &Asked<'_>,
    good: &Plan,
    (of_file, open_rates): (Vec<ClassText>, &[OpenRate]),
    folder: &Path,
) -> anyhow::Result<Vec<(ClassLoad, Source)>> {
    let wrong = |why: String| asked.wrong(&why);
    let mut names = vec![GOOD.to_owned()];
    let mut classes = Vec::new();
    for class in of_file {
        if class.name.is_empty() {
            return Err(wrong("a class has no name".into()));
        }
        if names.contains(&class.name) {
            return Err(wrong(format!("two classes are called `{}`", class.name)));
        }
        names.push(class.name.clone());
        let of_class = |error: anyhow::Error| wrong(format!("class {}: {error:#}", class.name));
        let number = classes.len() as u64 + 1;
        let open_rate = open_rates.get(classes.len()).copied().unwrap_or_default();
        let (prepared, source) = prepared((number, &class), asked, good, folder).map_err(of_class)?;
        let Prepared { plan, dataset, .. } = prepared;
        let is_sought = open_rate == OpenRate::IsRate;
        let name = class.name.clone();
        classes.push((ClassLoad { name, plan, dataset, is_sought }, Source { open_rate, ..source }));
    }
    Ok(classes)
}

/// Refuses an attack on other hosts, by this flag, unless the user says which server it attacks.
pub(super) fn check_target(
    flag: &str,
    yes_attack: &[Allowed],
    targets: impl Iterator<Item = SocketAddr>,
) -> anyhow::Result<()> {
    for target in targets.filter(|target| !is_local(*target)) {
        let address = target.ip();
        if !yes_attack.iter().any(|allowed| allowed.contains(address)) {
            return Err(bad_input(format!(
                "{flag}: {target} is on another host. Such a load may only go to a server of your own; if it is, add \
                 --yes-attack {address}"
            )));
        }
    }
    Ok(())
}

/// The load of a class beside the good one.
fn prepared(
    (number, class): (u64, &ClassText),
    asked: &Asked<'_>,
    good: &Plan,
    folder: &Path,
) -> anyhow::Result<(Prepared, Source)> {
    let has = |flag: &str| class.flags.contains_key(flag);
    for flag in OF_THE_LOAD {
        if has(flag) {
            return Err(bad_input(format!("`{flag}` is for the whole load")));
        }
    }
    if asked.has_mix && !has("target") {
        return Err(bad_input("the good clients have several transports (--mix): name its `target`"));
    }
    let mut words =
        if has("target") { Vec::new() } else { asked.player.target_words(has("mode"), &good.targets) };
    let has_certificate = ["mode", "target", "ca", "insecure", "server-name"].into_iter().any(has);
    if !has_certificate {
        words.extend(asked.player.certificate_words());
    }
    for (flag, value) in &class.flags {
        words.extend(flag_words(flag, value, folder)?);
    }
    let time = |seconds: f64| format!("{seconds}s");
    let after_s = good.stop.after.unwrap_or_default().as_secs_f64();
    if !has("duration") {
        words.push(format!("--duration={}", time(after_s)).into());
    }
    if !has("timeout") {
        words.push(format!("--timeout={}", time(good.timeout.as_secs_f64())).into());
    }
    if !has("lag") {
        words.push(format!("--lag={}", time(good.lag_allowed.as_secs_f64())).into());
    }
    if !has("seed") {
        let seed = asked.seed.map_or_else(|| fastrand::u64(..), |seed| seed.wrapping_add(number));
        words.push(format!("--seed={seed}").into());
    }
    words.extend(["--subject=none", "--priority=usual"].map(OsString::from));
    if let Some(cpu) = asked.cpu.filter(|_| !has("cpus")) {
        words.push(format!("--cpus={cpu}").into());
    }
    let (file, format) = queries_of(class)?;
    if let Some((file, _)) = &file {
        words.push("--queries".into());
        words.push(file.path().into());
    }
    let parsed = Words::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        bad_input(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })?;
    let has_none = parsed.load.hostile.is_some_and(|kind| !kind.has_queries());
    let args = Args { scenario: Some(asked.scenario.clone()), ..parsed.load };
    if args.player.queries.is_none() && !has_none {
        return Err(bad_input("it has no queries: give `queries`, `ask` or `messages`"));
    }
    let prepared = Prepared::new(&args, format)?;
    asked.check_target(prepared.plan.targets.iter().copied())?;
    let file = if has_none { Some(hostile::no_queries_file()?) } else { file };
    let own = file.as_ref().map(|(file, _)| file.path());
    let path = own.or(args.player.queries.as_deref()).context("a class has a file of queries")?;
    let reading = args.per_query.reading();
    let queries = query_file(&args.player, format.unwrap_or(reading.format), &prepared.dataset, path);
    let edns_options = reading.additions.edns_options;
    Ok((prepared, Source { open_rate: OpenRate::Unused, queries, edns_options, _file: file }))
}

/// A flag with its value as the command line has them.
fn flag_words(flag: &str, value: &toml::Value, folder: &Path) -> anyhow::Result<Vec<OsString>> {
    let one = |value: &toml::Value| match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        other => Err(bad_input(format!("`{flag}`: expected text, a number or true, and found {other}"))),
    };
    let with_value = |value: &toml::Value| -> anyhow::Result<OsString> {
        let mut text = one(value)?;
        if FILES.contains(&flag) {
            text = folder.join(text).display().to_string();
        }
        Ok(format!("--{flag}={text}").into())
    };
    match value {
        toml::Value::Boolean(true) => Ok(vec![format!("--{flag}").into()]),
        toml::Value::Boolean(false) => Ok(Vec::new()),
        toml::Value::Array(values) if flag == "target" => {
            values.iter().map(|value| one(value).map(OsString::from)).collect()
        }
        toml::Value::Array(values) => values.iter().map(with_value).collect(),
        value if flag == "target" => Ok(vec![one(value)?.into()]),
        value => Ok(vec![with_value(value)?]),
    }
}

/// A file with the queries or messages that a class has in the scenario itself, and its format.
fn queries_of(class: &ClassText) -> anyhow::Result<(Option<TemporaryFile>, Option<Format>)> {
    let (bytes, format) = match (&*class.ask, &*class.messages) {
        ([], []) => return Ok((None, None)),
        (lines, []) => {
            let has_updates = class.flags.get("updates") == Some(&toml::Value::Boolean(true));
            let format = if has_updates { Format::Updates } else { Format::Text };
            (lines.join("\n").into_bytes(), format)
        }
        ([], messages) => (binary(messages)?, Format::AnyBytes),
        _ => return Err(bad_input("it has both `ask` and `messages`; give one of them")),
    };
    let (mut file, listed) =
        Unfinished::made(NamedTempFile::new).context("a file for the queries of the scenario")?;
    file.write_all(&bytes).context("writing the queries of the scenario")?;
    Ok((Some((file, listed)), Some(format)))
}

/// Messages after their lengths.
fn binary(messages: &[String]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for hex in messages {
        let wrong = |why: &str| bad_input(format!("message {hex}: {why}"));
        let message = bytes_of_hex(hex).map_err(wrong)?;
        let length = u16::try_from(message.len()).map_err(|_| wrong("expected 65,535 bytes at most"))?;
        bytes.extend(length.to_be_bytes());
        bytes.extend(message);
    }
    Ok(bytes)
}

/// The record of a load: of the flags alone, or of all its classes with each by itself.
pub(super) fn record(played: Together, beside: &[ClassLoad]) -> anyhow::Result<Trial> {
    let Together { mut classes, ledger } = played;
    if beside.is_empty() {
        return classes.pop().context("a load has a record");
    }
    let others = beside.iter().map(|class| (class.name.as_str(), class.is_sought));
    let names = [(GOOD, false)].into_iter().chain(others);
    let named = names.zip(classes);
    let named =
        named.map(|((name, is_sought), trial)| ClassTrial { name: name.to_owned(), trial, is_sought });
    Ok(together(named.collect(), ledger)?)
}

#[cfg(test)]
mod tests {
    use super::text::BUILT_IN;
    use super::*;

    #[test]
    fn every_built_in_scenario_can_be_read() {
        for (name, text) in BUILT_IN {
            let file: ScenarioFile = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            for class in &file.class {
                queries_of(class).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(class.flags.contains_key("rate"), "{name}");
            }
        }
    }

    #[test]
    fn keys_are_flags() {
        let words = |flag: &str, value: toml::Value| flag_words(flag, &value, Path::new("/x")).unwrap();
        assert_eq!(words("rate", "10k".into()), ["--rate=10k"]);
        assert_eq!(words("threads", 2.into()), ["--threads=2"]);
        assert_eq!(words("dnssec", true.into()), ["--dnssec"]);
        assert!(words("dnssec", false.into()).is_empty());
        assert_eq!(words("queries", "a".into()), ["--queries=/x/a"]);
        assert_eq!(words("target", "tcp://127.0.0.1".into()), ["tcp://127.0.0.1"]);
        let both = vec![toml::Value::from("a"), toml::Value::from("b")];
        assert_eq!(words("edns-option", both.into()), ["--edns-option=a", "--edns-option=b"]);
    }
}
