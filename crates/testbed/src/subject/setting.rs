//! The settings of a subject that a study can vary, as its definition declares them. A setting has either
//! named values, each of which stands for one text or for several, or a free value: a count or a text. Each
//! setting is a placeholder.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::template;
use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_observation::factors::name;

/// A setting, `[settings.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// The effect of the setting.
    pub about: String,
    /// Its default value.
    pub default: String,
    /// The type of a free value; `None` for a choice.
    pub kind: Option<Kind>,
    /// The choice: value → the text of the placeholder.
    #[serde(default)]
    pub values: BTreeMap<String, Texts>,
    /// Value of a choice → the program that it needs beside those of the subject.
    #[serde(default)]
    pub needs: BTreeMap<String, Need>,
}

/// A program that a value of a setting needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// Its name on the PATH.
    pub program: String,
    /// The Debian package that contains it.
    pub package: String,
}

/// The type of a free value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A number without sign or fraction.
    Count,
    /// A line of text.
    Text,
}

/// The text or texts of a value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a text, or a table of texts")]
pub enum Texts {
    /// A single text, for `{setting}`.
    One(String),
    /// Several texts, for `{setting.key}`.
    Several(BTreeMap<String, String>),
}

/// A setting that a subject does not have, or a value that it does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum SettingError {
    #[error("{title} has no setting `{name}`{} ({})", did_you_mean(.near.as_deref()), known(.names))]
    Name { title: String, name: String, near: Option<String>, names: Vec<String> },
    #[error("{title}: {name} = \"{value}\"{}: expected {expected}", did_you_mean(.near.as_deref()))]
    Value { title: String, name: String, value: String, near: Option<String>, expected: String },
    #[error("{title} takes no number of workers, so it cannot have {workers}")]
    Workers { title: String, workers: u32 },
    #[error("{title} answers over {known}, and not over {transport}: its file names no such transport")]
    Transport { title: String, known: String, transport: &'static str },
    #[error("{title} resolves in an Internet in a box, and there is none on this path")]
    Internet { title: String },
    #[error("{title} takes one zone, so it cannot have {zones}: its file has no each_zone")]
    Zones { title: String, zones: usize },
    #[error("{title} transfers no zone in: its file has no each_secondary")]
    Secondary { title: String },
    #[error("{title}: ports = \"{text}\": expected a number from 1 to {max}, or a product of numbers", max = kqps_kernel::port::MANY)]
    Ports { title: String, text: String },
}

fn known(names: &[String]) -> String {
    if names.is_empty() { "it has none".into() } else { format!("known: {}", names.join(", ")) }
}

impl Declared {
    /// Checks the declaration.
    pub(super) fn check(&self, name: &str) -> Result<(), String> {
        if !template::is_word(name) || template::BUILT_IN.contains(&name) {
            return Err(format!(
                "`{name}` cannot be a setting: expected lower-case letters and `_`, and none of {}",
                template::BUILT_IN.join(", ")
            ));
        }
        if name::is_reserved(name) {
            return Err(format!("`{name}` cannot be a setting: it is a factor of kqps's own"));
        }
        if self.kind.is_some() != self.values.is_empty() {
            return Err(format!("the setting `{name}` needs either a kind or values"));
        }
        if self.kind.is_some() && !self.needs.is_empty() {
            return Err(format!("the setting `{name}` has no values that could need a program"));
        }
        if let Some(value) = self.needs.keys().find(|value| !self.values.contains_key(*value)) {
            return Err(format!(
                "`needs` of the setting `{name}` names the value `{value}`: expected one of {}",
                self.words().join(", ")
            ));
        }
        let mut keys = self.values.values().map(Texts::keys);
        let first = keys.next();
        if keys.any(|keys| Some(&keys) != first.as_ref()) {
            return Err(format!("the values of `{name}` stand for different texts"));
        }
        if first.is_some_and(|keys| keys.iter().any(|key| !key.is_empty() && !template::is_word(key))) {
            return Err(format!("the texts of `{name}` need names of lower-case letters and `_`"));
        }
        // A default that is itself a placeholder is known only at a start.
        if template::BUILT_IN.iter().any(|built_in| template::uses(&self.default, built_in)) {
            return Ok(());
        }
        self.accepts(&self.default).map_err(|expected| {
            format!("the default of `{name}` is \"{}\": expected {expected}", self.default)
        })
    }

    /// Checks a value. An error lists the accepted values.
    pub(super) fn accepts(&self, value: &str) -> Result<(), String> {
        let (good, expected) = match self.kind {
            None => (self.values.contains_key(value), self.words().join(", ")),
            Some(Kind::Count) => (
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()),
                "a number such as 2".into(),
            ),
            Some(Kind::Text) => (!value.contains(char::is_control), "one line of text".into()),
        };
        if good { Ok(()) } else { Err(expected) }
    }

    /// The known value that was probably meant.
    pub(super) fn nearest(&self, value: &str) -> Option<String> {
        nearest(value, &self.words()).map(str::to_string)
    }

    fn words(&self) -> Vec<&str> {
        self.values.keys().map(String::as_str).collect()
    }

    /// The placeholders of the setting, without braces.
    pub(super) fn placeholders(&self, name: &str) -> Vec<String> {
        self.values.values().next().map_or_else(|| vec![name.into()], |texts| texts.names(name))
    }

    /// The texts of its placeholders for this value, before their own placeholders are replaced.
    pub(super) fn texts(&self, name: &str, value: &str) -> Vec<(String, String)> {
        self.values
            .get(value)
            .map_or_else(|| vec![(name.into(), value.into())], |texts| texts.by_placeholder(name))
    }

    /// All of its texts that may contain placeholders.
    pub(super) fn templates(&self) -> impl Iterator<Item = &String> {
        self.values.values().flat_map(Texts::all).chain(self.kind.map(|_| &self.default))
    }
}

impl Texts {
    /// The texts by the names of their placeholders under `name`, without braces.
    pub(super) fn by_placeholder(&self, name: &str) -> Vec<(String, String)> {
        match self {
            Self::One(text) => vec![(name.into(), text.clone())],
            Self::Several(texts) => {
                texts.iter().map(|(key, text)| (placeholder(name, key), text.clone())).collect()
            }
        }
    }

    /// The names of the placeholders under `name`, without braces.
    pub(super) fn names(&self, name: &str) -> Vec<String> {
        self.keys().iter().map(|key| placeholder(name, key)).collect()
    }

    /// All texts.
    pub(super) fn all(&self) -> Vec<&String> {
        match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts.values().collect(),
        }
    }

    /// The keys of several texts, or an empty one.
    pub(super) fn keys(&self) -> Vec<&str> {
        match self {
            Self::One(_) => vec![""],
            Self::Several(texts) => texts.keys().map(String::as_str).collect(),
        }
    }
}

fn placeholder(name: &str, key: &str) -> String {
    if key.is_empty() { name.into() } else { format!("{name}.{key}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::subject::definition::Definition;
    use crate::subject::template::Values;

    const TEXT: &str = r#"
name = "fake"
title = "Fake"
programs = []
io = "plain"
[settings.processes]
about = "how many"
kind = "count"
default = "{workers}"
[settings.sockets]
about = "how they share"
default = "shared"
[settings.sockets.values]
shared = { conf = "one", ports = "1" }
port-each = { conf = "{processes} of {workers}", ports = "{processes} * 2" }
[files]
"fake.conf" = "{sockets.conf}"
[start]
command = ["fake", "{port}"]
ports = "{sockets.ports}"
[ready]
kind = "soa"
within_s = 1
[stop]
signal = "TERM"
within_s = 1
"#;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_value_stands_for_its_texts() {
        let fake = Definition::read("fake.toml", TEXT).unwrap();
        let workers = Values::default().with("workers", &3);
        let conf = |given: &[(&str, &str)]| {
            fake.settle(&self::given(given), workers.clone()).fill("{sockets.conf}, {processes}")
        };
        assert_eq!(conf(&[]), "one, 3");
        assert_eq!(conf(&[("sockets", "port-each")]), "3 of 3, 3");
        assert_eq!(conf(&[("sockets", "port-each"), ("processes", "2")]), "2 of 3, 2");
        assert_eq!(fake.ports(&given(&[]), 3).unwrap(), 1);
        assert_eq!(fake.ports(&given(&[("sockets", "port-each")]), 3).unwrap(), 6);
    }

    #[test]
    fn what_a_subject_does_not_know_is_refused_with_the_nearest() {
        let fake = Definition::read("fake.toml", TEXT).unwrap();
        for (name, value, expected) in [
            (
                "socket",
                "shared",
                "Fake has no setting `socket`; did you mean `sockets`? (known: processes, sockets)",
            ),
            (
                "sockets",
                "share",
                "Fake: sockets = \"share\"; did you mean `shared`?: expected port-each, shared",
            ),
            ("processes", "-1", "Fake: processes = \"-1\": expected a number such as 2"),
        ] {
            assert_eq!(fake.check_settings(&given(&[(name, value)])).unwrap_err().to_string(), expected);
        }
        let many = fake.ports(&given(&[("sockets", "port-each"), ("processes", "900")]), 1).unwrap_err();
        assert!(many.to_string().contains("ports = \"900 * 2\""), "{many}");
        let factors = given(&[("sockets", "shared"), ("player_window", "500")]);
        assert_eq!(fake.settings_among(&factors), given(&[("sockets", "shared")]));
    }

    #[test]
    fn one_without_workers_has_one() {
        let text = TEXT.replace("{workers}", "1");
        let fake = Definition::read("fake.toml", &text).unwrap();
        assert!(!fake.takes_workers());
        assert!(fake.ports(&given(&[]), 1).is_ok());
        let error = fake.ports(&given(&[]), 2).unwrap_err().to_string();
        assert_eq!(error, "Fake takes no number of workers, so it cannot have 2");
    }

    #[test]
    fn slips_in_declarations_are_placed_and_explained() {
        for (from, to, expected) in [
            ("settings.processes", "settings.port", "fake.toml:6:2: `port` cannot be a setting"),
            ("kind = \"count\"", "", "fake.toml:6:2: the setting `processes` needs either a kind or values"),
            ("kind = \"count\"", "kind = \"cuont\"", "did you mean `count`?"),
            ("\"{workers}\"", "\"many\"", "the default of `processes` is \"many\": expected a number"),
            (
                "\"{workers}\"",
                "\"{worker}\"",
                "the default of `processes` is \"{worker}\": expected a number",
            ),
            ("default = \"shared\"", "default = \"none\"", "expected port-each, shared"),
            (
                "{ conf = \"one\", ports = \"1\" }",
                "\"one\"",
                "the values of `sockets` stand for different texts",
            ),
            (
                "default = \"shared\"",
                "default = \"shared\"\nneeds.own = { program = \"sh\", package = \"dash\" }",
                "`needs` of the setting `sockets` names the value `own`: expected one of port-each, shared",
            ),
            ("{processes} * 2", "{sockets.conf}", "unknown placeholder `{sockets.conf}`"),
            ("\"{sockets.conf}\"", "\"{sockets.con}\"", "did you mean `{sockets.conf}`?"),
            ("\"{sockets.conf}\"", "\"{sockets}\"", "unknown placeholder `{sockets}`"),
            ("{ conf = \"one\", ports = \"1\" }", "3", "expected a text, or a table of texts"),
        ] {
            let error = Definition::read("fake.toml", &TEXT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected} is not in {error}");
        }
    }
}
