//! Flags of the player's settings, made from the rows of the catalogue, and those of certificates beside them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use kqps_catalogue::choice::{Transport, TrustChoice, expected};
use kqps_catalogue::factors::{FactorError, Factors, SourceChoice};
use kqps_catalogue::name;
use kqps_catalogue::setting::{Flag, Kind, Over, Setting};
use kqps_catalogue::settings;
use kqps_player::Sources;
use kqps_tls::{Group, Suite};

use crate::exit::bad_input;
use crate::value::{parse_timeout, parse_within};

/// The flags of settings that the user gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingFlags {
    /// The words of the settings, by their names.
    pub(crate) words: BTreeMap<&'static str, String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) insecure: bool,
    pub(crate) server_name: Option<String>,
}

const CA: Flag = Flag {
    long: "ca",
    short: None,
    value: "FILE",
    help: "Accept certificates of the issuers in this file alone (default: those that this host trusts)",
    more: "The file is PEM, and a run keeps a copy of it. The certificate must be valid and name the server \
           (--server-name). One that signs itself is accepted if it stands in the file.",
};

const INSECURE: Flag = Flag {
    long: "insecure",
    value: "",
    help: "Accept any certificate: kqps then does not know which server it measures",
    more: "",
    ..CA
};

const SERVER_NAME: Flag = Flag {
    long: "server-name",
    value: "NAME",
    help: "The server's name in its certificate, handshake and requests of HTTPS (default: the target as typed)",
    more: "All targets have this name then. An address is in no handshake (RFC 6066, section 3). A request of HTTPS \
           names the server with its port, unless that is 443 (:authority).",
    ..CA
};

/// The settings of a command that have a flag, with it.
fn flags(of_command: fn(&Setting) -> bool) -> impl Iterator<Item = (&'static Setting, Flag)> {
    settings::all()
        .filter(move |setting| of_command(setting))
        .filter_map(|setting| Some((setting, setting.flag?)))
}

/// The argument of a flag; its name in matches is `id`.
fn argument(id: &'static str, flag: &Flag, heading: &'static str) -> Arg {
    let long_help =
        if flag.more.is_empty() { flag.help.to_owned() } else { [flag.help, flag.more].join("\n\n") };
    let argument = Arg::new(id).long(flag.long).help(flag.help).long_help(long_help).help_heading(heading);
    let argument = flag.short.into_iter().fold(argument, Arg::short);
    if flag.value.is_empty() { argument.action(ArgAction::SetTrue) } else { argument.value_name(flag.value) }
}

/// The arguments of the settings that a command has. `heading` is that of the settings for some transports.
pub(crate) fn arguments(of_command: fn(&Setting) -> bool, heading: fn(Over) -> &'static str) -> Vec<Arg> {
    let of_settings = flags(of_command).map(|(setting, flag)| {
        let argument = argument(setting.name, &flag, heading(setting.over));
        let parser = ValueParser::from(move |text: &str| word(setting, text));
        if flag.value.is_empty() { argument } else { argument.value_parser(parser) }
    });
    let tls = heading(Over::Encrypted);
    let of_certificates = [
        argument(CA.long, &CA, tls).value_parser(clap::value_parser!(PathBuf)),
        argument(INSECURE.long, &INSECURE, tls).conflicts_with(CA.long),
        argument(SERVER_NAME.long, &SERVER_NAME, tls),
    ];
    of_settings.chain(of_certificates).collect()
}

/// Reads the value of a flag into the word of its setting.
fn word(setting: &Setting, text: &str) -> Result<String, String> {
    match setting.kind {
        Kind::Number { least, most, .. } | Kind::Limited { least, most } => {
            parse_within::<u32>(least as u64..=most as u64)(text).map(|number| number.to_string())
        }
        Kind::Seconds => parse_timeout(text).map(|timeout| timeout.as_secs_f64().to_string()),
        Kind::Truth(yes, no) => match text {
            "yes" => Ok(yes.to_owned()),
            "no" => Ok(no.to_owned()),
            _ => Err("expected yes or no".to_owned()),
        },
        Kind::Sources => match (text.parse::<Sources>(), SourceChoice::from_prefix(text)) {
            (Ok(_), Some(sources)) => Ok(sources.word()),
            (Ok(_), None) => Err("expected ADDR or ADDR/PREFIX".to_owned()),
            (Err(error), _) => Err(error.to_string()),
        },
        _ if setting.name == name::PLAYER_TLS_SUITE => {
            listed(text, |one| one.parse().map(|suite: Suite| suite.to_string()))
        }
        _ if setting.name == name::PLAYER_TLS_GROUP => {
            listed(text, |one| one.parse().map(|group: Group| group.to_string()))
        }
        Kind::Choice(words) => setting.word_of_value(text).map_err(|_| expected(words)),
        _ => setting.word_of_value(text).map_err(|expected| format!("expected {expected}")),
    }
}

/// The word of a list with commas.
fn listed(text: &str, word: fn(&str) -> Result<String, String>) -> Result<String, String> {
    text.split(',').map(word).collect::<Result<Vec<_>, _>>().map(|words| words.join(","))
}

/// A flag as people type it: `-a` or `--close`.
pub(crate) fn typed(flag: &Flag) -> String {
    flag.short.map_or_else(|| format!("--{}", flag.long), |short| format!("-{short}"))
}

impl SettingFlags {
    /// The flags of a command in these matches.
    pub(crate) fn read(matches: &ArgMatches, of_command: fn(&Setting) -> bool) -> Self {
        let given = flags(of_command).filter_map(|(setting, flag)| {
            let is_given = matches.value_source(setting.name) == Some(ValueSource::CommandLine);
            let word = if flag.value.is_empty() {
                Some("true".to_owned())
            } else {
                matches.get_one::<String>(setting.name).cloned()
            };
            Some((setting.name, word.filter(|_| is_given)?))
        });
        Self {
            words: given.collect(),
            ca: matches.get_one(CA.long).cloned(),
            insecure: matches.get_flag(INSECURE.long),
            server_name: matches.get_one(SERVER_NAME.long).cloned(),
        }
    }

    /// The word of a setting that was given.
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.words.get(name).map(String::as_str)
    }

    /// The flags that were given: the transports that each is for, and its word.
    pub(crate) fn given(&self) -> impl Iterator<Item = (Over, Flag, &str)> {
        let of_certificates =
            [(CA, self.ca.is_some()), (INSECURE, self.insecure), (SERVER_NAME, self.server_name.is_some())];
        let of_certificates = of_certificates.into_iter().filter(|(_, is_given)| *is_given);
        let of_certificates = of_certificates.map(|(flag, _)| (Over::Encrypted, flag, ""));
        let of_settings = flags(|_| true)
            .filter_map(|(setting, flag)| Some((setting.over, flag, self.word(setting.name)?)));
        of_settings.chain(of_certificates)
    }

    /// Refuses early data without tickets. `resume` is the flag that uses none.
    pub(crate) fn check_early_data(&self, resume: &str) -> anyhow::Result<()> {
        if self.word(name::PLAYER_EARLY_DATA).is_none() || self.word(name::PLAYER_RESUME) != Some("false") {
            return Ok(());
        }
        Err(bad_input(format!("--early-data needs tickets of earlier connections: leave {resume} no out")))
    }

    /// The settings that have an effect over this transport.
    pub(crate) fn factors(&self, transport: Transport) -> Result<Factors, FactorError> {
        let words = self.words.iter().filter(|(name, word)| settings::is_for(name, word, transport));
        let transport =
            transport.has_connections().then(|| (name::PLAYER_TRANSPORT, transport.word().to_owned()));
        let words = words.map(|(name, word)| (*name, word.clone())).chain(transport);
        Factors::read(words.map(|(name, word)| (name.to_owned(), word)))
    }

    /// The certificates that the user accepts.
    pub(crate) fn trust(&self) -> TrustChoice {
        match &self.ca {
            _ if self.insecure => TrustChoice::Anyone,
            Some(_) => TrustChoice::Ca,
            None => TrustChoice::System,
        }
    }
}
