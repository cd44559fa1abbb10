//! Scenarios: classes of clients that are played beside the load of the flags. A class is a load as well, whose keys are
//! flags of `kqps load`.

mod zone;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Parser;
use kqps_dataset::{Dataset, Format};
use kqps_kernel::local_address::is_local;
use kqps_observation::Trial;
use kqps_observation::merge::together;
use kqps_observation::trial::ClassTrial;
use kqps_player::{Class, Plan, Together};
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::Args;
use super::per_query::bytes_of_hex;
use super::prepared::Prepared;
use crate::exit::bad_input;
use crate::value::parse_rate;

/// The name of the clients that the flags describe.
pub(super) const GOOD: &str = "good";

/// The scenarios that kqps has.
const BUILT_IN: [(&str, &str); 5] = [
    ("random-names", include_str!("../../scenarios/random-names.toml")),
    ("one-name", include_str!("../../scenarios/one-name.toml")),
    ("large-answers", include_str!("../../scenarios/large-answers.toml")),
    ("malformed", include_str!("../../scenarios/malformed.toml")),
    ("connections", include_str!("../../scenarios/connections.toml")),
];

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

/// A scenario as typed: a name or a file, and the rate for `{rate}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    source: String,
    rate: Option<String>,
}

/// Parses `NAME`, `FILE`, or either with `=RATE` behind it.
pub(super) fn parse(text: &str) -> Result<Typed, String> {
    // The name of a file may have the sign.
    let parts = text.rsplit_once('=').filter(|_| !Path::new(text).exists());
    let (source, rate) = parts.map_or((text, None), |(source, rate)| (source, Some(rate)));
    if source.is_empty() {
        return Err(expected());
    }
    Ok(Typed { source: source.to_owned(), rate: rate.map(str::to_owned) })
}

fn expected() -> String {
    let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    format!("expected {}, or a file, with =RATE behind it for the rate that it leaves open", names.join(", "))
}

/// A file of a scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    /// Its story in a sentence, for readers.
    #[serde(default, rename = "title")]
    _title: String,
    class: Vec<ClassText>,
}

/// A class as a scenario describes it.
#[derive(Deserialize)]
struct ClassText {
    name: String,
    /// Lines of a query file.
    #[serde(default)]
    ask: Vec<String>,
    /// Messages in hex, which are sent as they are.
    #[serde(default)]
    messages: Vec<String>,
    /// Flags of `kqps load` without their dashes.
    #[serde(flatten)]
    flags: BTreeMap<String, toml::Value>,
}

/// A class that can be played.
pub(super) struct ClassLoad {
    name: String,
    prepared: Prepared,
}

/// The flags of a class.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    load: Args,
}

impl ClassLoad {
    pub(super) fn class(&self) -> Class<'_> {
        Class { plan: &self.prepared.plan, dataset: &self.prepared.dataset }
    }
}

/// The classes of the scenario that the flags name, for a load with this plan and these queries; none without a
/// scenario.
pub(super) fn classes(args: &Args, good: &Plan, queries: &Dataset) -> anyhow::Result<Vec<ClassLoad>> {
    let Some(typed) = &args.scenario else { return Ok(Vec::new()) };
    let wrong = |why: String| bad_input(format!("--scenario {}: {why}", typed.source));
    if good.stop.after.is_none() {
        return Err(wrong("say how long it lasts (-l)".into()));
    }
    check_target(args, good)?;
    let (text, folder) = read(typed).map_err(wrong)?;
    let zone =
        if text.contains("{zone}") { zone::of_queries(queries).map_err(wrong)? } else { String::new() };
    let rate = typed.rate.as_deref().unwrap_or(RATE);
    parse_rate(rate).map_err(|error| wrong(format!("`{rate}`: {error}")))?;
    let text = text.replace("{zone}", &zone.replace('\\', "\\\\")).replace("{rate}", rate);
    let file: ScenarioFile = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if file.class.is_empty() {
        return Err(wrong("it has no class".into()));
    }
    let mut names = vec![GOOD.to_owned()];
    let mut classes = Vec::new();
    for class in file.class {
        if class.name.is_empty() {
            return Err(wrong("a class has no name".into()));
        }
        if names.contains(&class.name) {
            return Err(wrong(format!("two classes are called `{}`", class.name)));
        }
        names.push(class.name.clone());
        let of_class = |error: anyhow::Error| wrong(format!("class {}: {error:#}", class.name));
        let number = classes.len() as u64 + 1;
        let prepared = prepared((number, &class), args, good, &folder).map_err(of_class)?;
        classes.push(ClassLoad { name: class.name.clone(), prepared });
    }
    Ok(classes)
}

/// Refuses a scenario against other hosts, unless the user says which server it attacks.
fn check_target(args: &Args, good: &Plan) -> anyhow::Result<()> {
    for target in good.targets.iter().filter(|target| !is_local(**target)) {
        let address = target.ip();
        if !args.yes_attack.iter().any(|allowed| allowed.contains(address)) {
            return Err(bad_input(format!(
                "--scenario: {target} is on another host. Such a load may only go to a server of your own; if it is, add \
                 --yes-attack {address}"
            )));
        }
    }
    Ok(())
}

/// The text of a scenario, and the folder from which its files are named.
fn read(typed: &Typed) -> Result<(String, PathBuf), String> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(name, _)| *name == typed.source) {
        return Ok(((*text).to_owned(), PathBuf::new()));
    }
    let path = Path::new(&typed.source);
    let text = fs::read_to_string(path).map_err(|error| format!("{error}; {}", expected()))?;
    Ok((text, path.parent().map(Path::to_owned).unwrap_or_default()))
}

/// The load of a class beside the good one.
fn prepared(
    (number, class): (u64, &ClassText),
    args: &Args,
    good: &Plan,
    folder: &Path,
) -> anyhow::Result<Prepared> {
    let has = |flag: &str| class.flags.contains_key(flag);
    for flag in OF_THE_LOAD {
        if has(flag) {
            return Err(bad_input(format!("`{flag}` is for the whole load")));
        }
    }
    if args.mix.is_some() && !has("target") {
        return Err(bad_input("the good clients have several transports (--mix): name its `target`"));
    }
    let mut words =
        if has("target") { Vec::new() } else { args.player.target_words(has("mode"), &good.targets) };
    let has_certificate = ["mode", "target", "ca", "insecure", "server-name"].into_iter().any(has);
    if !has_certificate {
        words.extend(args.player.certificate_words());
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
        let seed = args.seed.map_or_else(|| fastrand::u64(..), |seed| seed.wrapping_add(number));
        words.push(format!("--seed={seed}").into());
    }
    words.extend(["--subject=none", "--priority=usual"].map(OsString::from));
    let (file, format) = queries_of(class)?;
    if let Some(file) = &file {
        words.push("--queries".into());
        words.push(file.path().into());
    }
    let parsed = Words::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        bad_input(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })?;
    if file.is_none() && parsed.load.player.queries.is_none() {
        return Err(bad_input("it has no queries: give `queries`, `ask` or `messages`"));
    }
    let prepared = Prepared::new(&Args { scenario: args.scenario.clone(), ..parsed.load }, format)?;
    check_target(args, &prepared.plan)?;
    Ok(prepared)
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
fn queries_of(class: &ClassText) -> anyhow::Result<(Option<NamedTempFile>, Option<Format>)> {
    let (bytes, format) = match (&*class.ask, &*class.messages) {
        ([], []) => return Ok((None, None)),
        (lines, []) => (lines.join("\n").into_bytes(), Format::Text),
        ([], messages) => (binary(messages)?, Format::AnyBytes),
        _ => return Err(bad_input("it has both `ask` and `messages`; give one of them")),
    };
    let mut file = NamedTempFile::new().context("a file for the queries of the scenario")?;
    file.write_all(&bytes).context("writing the queries of the scenario")?;
    Ok((Some(file), Some(format)))
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
    let names = [GOOD].into_iter().chain(beside.iter().map(|class| class.name.as_str()));
    let named = names.zip(classes).map(|(name, trial)| ClassTrial { name: name.to_owned(), trial });
    Ok(together(named.collect(), ledger)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_typed_with_the_rate_that_it_leaves_open() {
        let typed = |source: &str, rate: Option<&str>| {
            Ok(Typed { source: source.to_owned(), rate: rate.map(str::to_owned) })
        };
        assert_eq!(parse("random-names"), typed("random-names", None));
        assert_eq!(parse("one-name=200k"), typed("one-name", Some("200k")));
        assert_eq!(parse("./a.toml"), typed("./a.toml", None));
        assert!(parse("=5").unwrap_err().contains("random-names, one-name"));
    }

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
