//! The file with the back ends of a front, and the rules that choose among them.
//!
//! ```toml
//! policy = "least-outstanding"
//! retry-servfail = true
//!
//! [[backend]]
//! name = "authoritative"
//! url = "unix:/run/kqps.sock"
//!
//! [[backend]]
//! name = "recursive"
//! url = "udp://127.0.0.1:5301"
//! weight = 2
//!
//! [[rule]]
//! rd = true
//! to = ["recursive"]
//!
//! [[rule]]
//! suffix = ["example."]
//! type = ["A", "AAAA"]
//! to = ["authoritative"]
//! policy = "hash"
//! ```

use std::path::Path;

use kqps_files::toml_file::{self, FileError, TomlError, did_you_mean, nearest};
use kqps_front::Policy;
use kqps_front::policy::{BackEnd, Choice, Rule};
use kqps_message::{name, rtype};
use serde::Deserialize;
use toml::Spanned;

pub(super) const WEIGHT_MOST: u32 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    policy: Option<Spanned<String>>,
    #[serde(default, rename = "retry-servfail")]
    retry_servfail: bool,
    backend: Spanned<Vec<BackEndEntry>>,
    #[serde(default)]
    rule: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackEndEntry {
    name: Option<Spanned<String>>,
    url: Spanned<String>,
    weight: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    rd: Option<bool>,
    #[serde(default)]
    suffix: Vec<Spanned<String>>,
    #[serde(default, rename = "type")]
    types: Vec<Spanned<String>>,
    to: Spanned<Vec<Spanned<String>>>,
    policy: Option<Spanned<String>>,
}

/// Reads a file. It has a policy only if the whole file is valid.
pub(super) fn read(path: &Path) -> Result<Policy, FileError> {
    toml_file::open(path, |file, text| Reader { file, text }.policy())
}

/// A file's name and text, for the places of errors.
struct Reader<'t> {
    file: &'t str,
    text: &'t str,
}

impl Reader<'_> {
    fn policy(&self) -> Result<Policy, TomlError> {
        let config: Config = toml_file::read(self.file, self.text)?;
        let mut back_ends: Vec<BackEnd> = Vec::new();
        for entry in config.backend.get_ref() {
            let back_end = self.back_end(entry)?;
            if back_ends.iter().any(|other| other.name == back_end.name) {
                let at = entry.name.as_ref().unwrap_or(&entry.url);
                return Err(
                    self.wrong(at, format!("there are two back ends of the name `{}`", back_end.name))
                );
            }
            back_ends.push(back_end);
        }
        if back_ends.is_empty() {
            return Err(self.wrong(&config.backend, "there is no back end".to_owned()));
        }
        let choice = config.policy.as_ref().map_or(Ok(super::CHOICE), |choice| self.choice(choice))?;
        let rules = config.rule.iter().map(|rule| self.rule(rule, &back_ends)).collect::<Result<_, _>>()?;
        Ok(Policy { back_ends, choice, rules, retry_servfail: config.retry_servfail })
    }

    fn back_end(&self, entry: &BackEndEntry) -> Result<BackEnd, TomlError> {
        let target = entry.url.get_ref().parse().map_err(|why| self.wrong(&entry.url, why))?;
        let weight = entry.weight.as_ref().map_or(Ok(1), |weight| match *weight.get_ref() {
            in_range @ 1..=WEIGHT_MOST => Ok(in_range),
            _ => Err(self.wrong(weight, format!("expected a weight of 1 to {WEIGHT_MOST}"))),
        })?;
        let name = entry.name.as_ref().unwrap_or(&entry.url).get_ref().clone();
        Ok(BackEnd { name, target, weight })
    }

    fn rule(&self, entry: &RuleEntry, back_ends: &[BackEnd]) -> Result<Rule, TomlError> {
        let names: Vec<&str> = back_ends.iter().map(|back_end| back_end.name.as_str()).collect();
        let place = |to: &Spanned<String>| {
            let name = to.get_ref().as_str();
            names.iter().position(|&known| known == name).ok_or_else(|| {
                let hint = did_you_mean(nearest(name, &names));
                self.wrong(to, format!("there is no back end `{name}`{hint}"))
            })
        };
        let to = entry.to.get_ref().iter().map(place).collect::<Result<Vec<_>, _>>()?;
        if to.is_empty() {
            return Err(self.wrong(&entry.to, "a rule names at least one back end".to_owned()));
        }
        let suffix = |text: &Spanned<String>| {
            let mut wire = Vec::new();
            name::encode(text.get_ref().as_bytes(), &mut wire)
                .map_err(|error| self.wrong(text, error.to_string()))?;
            wire.make_ascii_lowercase();
            Ok(wire)
        };
        let qtype = |text: &Spanned<String>| {
            rtype::parse(text.get_ref().as_bytes())
                .ok_or_else(|| self.wrong(text, format!("there is no type `{}`", text.get_ref())))
        };
        Ok(Rule {
            recursion_desired: entry.rd,
            suffixes: entry.suffix.iter().map(suffix).collect::<Result<_, _>>()?,
            types: entry.types.iter().map(qtype).collect::<Result<_, _>>()?,
            to,
            choice: entry.policy.as_ref().map(|choice| self.choice(choice)).transpose()?,
        })
    }

    fn choice(&self, text: &Spanned<String>) -> Result<Choice, TomlError> {
        text.get_ref().parse().map_err(|why| {
            let hint = did_you_mean(nearest(text.get_ref(), Choice::NAMES));
            self.wrong(text, format!("{why}{hint}"))
        })
    }

    fn wrong<T>(&self, at: &Spanned<T>, what: String) -> TomlError {
        TomlError::at(self.file, self.text, at.span().start, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Result<Policy, String> {
        Reader { file: "front.toml", text }.policy().map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_as_a_whole() {
        let text = r#"
            policy = "hash"
            retry-servfail = true
            [[backend]]
            name = "auth"
            url = "unix:/run/a.sock"
            [[backend]]
            url = "udp://127.0.0.1:5301"
            weight = 7
            [[rule]]
            rd = true
            to = ["udp://127.0.0.1:5301"]
            policy = "random"
            [[rule]]
            suffix = ["Example.", "test"]
            type = ["A", "TYPE65"]
            to = ["udp://127.0.0.1:5301", "auth"]
        "#;
        let policy = policy(text).unwrap();
        assert_eq!((policy.choice, policy.retry_servfail), (Choice::Hash, true));
        assert_eq!(policy.back_ends[1].weight, 7);
        let [first, second] = &policy.rules[..] else { panic!("{:?}", policy.rules) };
        assert_eq!((first.recursion_desired, &first.to[..]), (Some(true), &[1][..]));
        assert_eq!(first.choice, Some(Choice::Random));
        assert_eq!(second.suffixes, [b"\x07example\0".to_vec(), b"\x04test\0".to_vec()]);
        assert_eq!((&second.types[..], &second.to[..]), (&[1, 65][..], &[1, 0][..]));
    }

    #[test]
    fn what_is_wrong_is_placed_and_the_nearest_is_named() {
        let good = "[[backend]]\nname = \"one\"\nurl = \"udp://127.0.0.1\"\n";
        for (text, why) in [
            ("backend = []", "front.toml:1:11: there is no back end"),
            (
                "polcy = \"hash\"",
                "front.toml:1:1: unknown field `polcy`, expected one of `policy`, `retry-servfail`, `backend`, `rule`; did you mean `policy`?",
            ),
            ("policy = \"hsh\"\n[[backend]]\nurl = \"udp://127.0.0.1\"", "front.toml:1:10: no policy `hsh`"),
            ("retry-servfail = 1\n[[backend]]\nurl = \"udp://127.0.0.1\"", "front.toml:1:18: "),
            ("retry-servfial = true", "front.toml:1:1: unknown field `retry-servfial`"),
            (
                "[[backend]]\nurl = \"udp://x\"",
                "front.toml:2:7: `x` in `udp://x` is not an address of the form",
            ),
            ("[[backend]]\nurl = \"udp://127.0.0.1\"\nweight = 0", "front.toml:3:10: expected a weight"),
            ("[[rule]]\nto = [\"on\"]", "front.toml:5:7: there is no back end `on`; did you mean `one`?"),
            ("[[rule]]\nto = []", "front.toml:5:6: a rule names"),
            ("[[rule]]\nto = [\"one\"]\ntype = [\"AA\"]", "front.toml:6:9: there is no type `AA`"),
            ("[[rule]]\nto = [\"one\"]\nsuffix = [\"a..b\"]", "front.toml:6:11: "),
            (
                "[[backend]]\nname = \"one\"\nurl = \"udp://127.0.0.2\"",
                "front.toml:5:8: there are two back ends",
            ),
        ] {
            let whole = if text.starts_with("[[rule") || text.contains("127.0.0.2") {
                format!("{good}{text}")
            } else {
                text.to_owned()
            };
            let error = policy(&whole).unwrap_err();
            assert!(error.starts_with(why), "{error}\n{why}");
        }
    }
}
