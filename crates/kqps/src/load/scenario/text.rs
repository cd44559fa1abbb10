//! The text of a scenario: its name or file as typed, and the classes that it describes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kqps_testbed::event::Event;
use serde::Deserialize;

/// The scenarios that kqps has.
pub(super) const BUILT_IN: [(&str, &str); 11] = [
    ("random-names", include_str!("../../../scenarios/random-names.toml")),
    ("one-name", include_str!("../../../scenarios/one-name.toml")),
    ("large-answers", include_str!("../../../scenarios/large-answers.toml")),
    ("many-sources", include_str!("../../../scenarios/many-sources.toml")),
    ("few-sources", include_str!("../../../scenarios/few-sources.toml")),
    ("malformed", include_str!("../../../scenarios/malformed.toml")),
    ("connections", include_str!("../../../scenarios/connections.toml")),
    ("idle-connections", include_str!("../../../scenarios/idle-connections.toml")),
    ("half-queries", include_str!("../../../scenarios/half-queries.toml")),
    ("handshakes", include_str!("../../../scenarios/handshakes.toml")),
    ("rapid-reset", include_str!("../../../scenarios/rapid-reset.toml")),
];

/// A scenario as typed: a name or a file, and the rate that it leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    source: String,
    /// The rate for `{rate}`.
    rate: Option<String>,
}

impl Typed {
    /// The name or the file, as typed.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The rate behind the name; `None` if there is none.
    pub(crate) fn rate(&self) -> Option<&str> {
        self.rate.as_deref()
    }
}

/// Parses `NAME`, `FILE`, or either with `=RATE` behind it.
pub(crate) fn parse(text: &str) -> Result<Typed, String> {
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
pub(super) struct ScenarioFile {
    /// Its story in a sentence, for readers.
    #[serde(default, rename = "title")]
    _title: String,
    #[serde(default)]
    pub(super) class: Vec<ClassText>,
    #[serde(default)]
    pub(super) event: Vec<Event>,
}

/// A class as a scenario describes it.
#[derive(Deserialize)]
pub(super) struct ClassText {
    pub(super) name: String,
    /// Lines of a query file.
    #[serde(default)]
    pub(super) ask: Vec<String>,
    /// Messages in hex, which are sent as they are.
    #[serde(default)]
    pub(super) messages: Vec<String>,
    /// Flags of `kqps load` without their dashes.
    #[serde(flatten)]
    pub(super) flags: BTreeMap<String, toml::Value>,
}

/// The word in place of the rate that a scenario leaves open.
pub(super) const OPEN: &str = "{rate}";

/// How a class uses the rate that its scenario leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OpenRate {
    /// The class does not use it.
    #[default]
    Unused,
    /// It is the rate of the class.
    IsRate,
    /// It stands in other keys.
    Elsewhere,
}

/// How each class of a scenario uses the rate that it leaves open; empty if the text is no scenario before it has a rate.
pub(super) fn open_rates(text: &str) -> Vec<OpenRate> {
    let classes = toml::from_str::<ScenarioFile>(text).map(|file| file.class).unwrap_or_default();
    let of_class = |class: ClassText| {
        let has_rate = class.flags.get("rate").and_then(toml::Value::as_str) == Some(OPEN);
        let others = class.flags.iter().filter(|(flag, _)| !has_rate || *flag != "rate");
        let is_elsewhere = others.map(|(_, value)| value.to_string()).any(|text| text.contains(OPEN))
            || class.ask.iter().any(|line| line.contains(OPEN));
        match (is_elsewhere, has_rate) {
            (true, _) => OpenRate::Elsewhere,
            (false, true) => OpenRate::IsRate,
            (false, false) => OpenRate::Unused,
        }
    };
    classes.into_iter().map(of_class).collect()
}

/// The text of a scenario, and the folder from which its files are named.
pub(super) fn read(typed: &Typed) -> Result<(String, PathBuf), String> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(name, _)| *name == typed.source) {
        return Ok(((*text).to_owned(), PathBuf::new()));
    }
    let path = Path::new(&typed.source);
    let text = fs::read_to_string(path).map_err(|error| format!("{error}; {}", expected()))?;
    Ok((text, path.parent().map(Path::to_owned).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use kqps_catalogue::factors::Scenario;

    use super::*;

    #[test]
    fn a_scenario_is_typed_with_the_rate_that_it_leaves_open() {
        let typed = |source: &str, rate: Option<&str>| {
            Ok(Typed { source: source.to_owned(), rate: rate.map(str::to_owned) })
        };
        assert_eq!(parse("random-names"), typed("random-names", None));
        assert_eq!(parse("one-name=200k"), typed("one-name", Some("200k")));
        assert_eq!(parse("./a.toml"), typed("./a.toml", None));
        let with_rate = parse("x=5").unwrap();
        assert_eq!((with_rate.source(), with_rate.rate()), ("x", Some("5")));
        assert!(parse("=5").unwrap_err().contains("random-names, one-name"));
    }

    #[test]
    fn the_open_rate_is_that_of_a_class_or_elsewhere() {
        let class = |keys: &str| format!("[[class]]\nname = \"a\"\n{keys}\n");
        let text = [
            "rate = \"{rate}\"",
            "rate = 5",
            "ramp = \"1..{rate}/1s\"",
            "rate = \"{rate}\"\nask = [\"{rate}. A\"]",
        ];
        let text: String = text.into_iter().map(class).collect();
        let found = [OpenRate::IsRate, OpenRate::Unused, OpenRate::Elsewhere, OpenRate::Elsewhere];
        assert_eq!(open_rates(&text), found);
        assert!(open_rates("rate = {rate}").is_empty());
        assert_eq!(BUILT_IN.map(|(name, _)| name), kqps_catalogue::scenario::NAMES, "studies know the names");
        for (name, text) in BUILT_IN {
            assert_eq!(open_rates(text), [OpenRate::IsRate], "{name}");
            let has_attackers = text.lines().any(|line| line.starts_with("hostile"));
            let known = Scenario::read(name).is_some_and(|scenario| scenario.is_of_attackers());
            assert_eq!(has_attackers, known, "{name}: studies know which scenarios send no queries");
        }
    }
}
