//! Checks what the types of a definition do not express: names, limits, and placeholders that exist.

use std::collections::BTreeMap;
use std::path::Path;

use super::Definition;
use crate::echo_io;
use crate::event::control::Control;
use crate::subject::setting::{Declared, Texts};
use crate::subject::template;
use kqps_files::toml_file::{TomlError, did_you_mean, nearest};
use kqps_observation::trial::Transport;

/// The most seconds that a subject may have to become ready or to stop.
const WITHIN_MAX_S: f64 = 3600.0;

/// How the workers of the echo can share sockets.
const ECHO_SOCKETS: [&str; 3] = [Definition::SHARED, "reuseport", "port-each"];

/// The text in which a mistake stands, and the message.
type Slip = (String, String);

impl Definition {
    pub(super) fn check(&self, file: &str, text: &str) -> Result<(), TomlError> {
        self.check_words()
            .and_then(|()| self.check_transports())
            .and_then(|()| self.check_settings_declared())
            .and_then(|()| self.check_templates())
            .and_then(|()| self.check_each_zone())
            .and_then(|()| self.check_echo_sockets())
            .map_err(|(near, what)| TomlError::at_text(file, text, &near, what))
    }

    fn check_words(&self) -> Result<(), Slip> {
        let wrong = |near: &str, what: String| Err((near.to_string(), what));
        if !is_name(&self.name) {
            return wrong("name", "a name is made of letters, digits, `-` and `_`".into());
        }
        if let Some(io) = &self.io_default
            && !(self.takes_io() && echo_io::models().any(|model| model == io))
        {
            let known: Vec<&str> = echo_io::models().collect();
            return wrong("io_default", format!("with io = \"{{io}}\" it is one of {}", known.join(", ")));
        }
        if self.start.command.is_empty() {
            return wrong("command", "the command to start with is empty".into());
        }
        for (near, seconds) in [("[ready]", self.ready.within_s), ("[stop]", self.stop.within_s)] {
            if !(seconds > 0.0 && seconds <= WITHIN_MAX_S) {
                return wrong(near, "within_s is a number of seconds above 0, 3600 at most".into());
            }
        }
        for (control, way) in &self.control {
            let is_empty = way.signal.is_none() && way.command.is_empty() && way.zone_command.is_empty();
            let has_both = way.signal.is_some() && !way.command.is_empty();
            // A server that runs already reloads on the signal.
            if is_empty || (has_both && *control != Control::Reload) {
                let word = control.word();
                let what = format!("control.{word} needs either a signal or a command, or a zone_command");
                return wrong(word, what);
            }
        }
        for name in self.files.keys() {
            if Path::new(name).file_name() != Some(name.as_ref()) {
                return wrong(name, format!("`{name}` must be a plain file name"));
            }
        }
        Ok(())
    }

    /// The echo must be able to share sockets as the definition says, with any settings.
    fn check_echo_sockets(&self) -> Result<(), Slip> {
        let one = |(name, declared): (&String, &Declared)| {
            let with = |value: &String| [(name.clone(), value.clone())].into();
            declared.values.keys().map(with).collect::<Vec<BTreeMap<String, String>>>()
        };
        for given in [BTreeMap::new()].into_iter().chain(self.settings.iter().flat_map(one)) {
            let word = self.echo_sockets(&given);
            if !ECHO_SOCKETS.contains(&word.as_str()) {
                let near = did_you_mean(nearest(&word, &ECHO_SOCKETS));
                let known = ECHO_SOCKETS.join(", ");
                let what = format!("echo_sockets: the echo cannot have `{word}`{near} (known: {known})");
                return Err(("echo_sockets".into(), what));
            }
        }
        Ok(())
    }

    /// Checks the texts that transports need: all must have the same placeholders.
    fn check_transports(&self) -> Result<(), Slip> {
        let wrong = |what: &str| Err(("transports".to_owned(), what.to_owned()));
        let mut keys = self.transports.values().map(Texts::keys);
        let Some(first) = keys.next() else {
            return wrong(&format!("transports: expected one at least of {}", Transport::WORDS.join(", ")));
        };
        if keys.any(|keys| keys != first) {
            return wrong("the transports stand for different texts");
        }
        if first.iter().any(|key| !key.is_empty() && !template::is_word(key)) {
            return wrong("the texts of transports need names of lower-case letters and `_`");
        }
        if self.settings.contains_key(Self::OF_TRANSPORT) {
            return wrong("`of_transport` cannot be a setting: it is what a transport needs");
        }
        Ok(())
    }

    fn check_settings_declared(&self) -> Result<(), Slip> {
        for (name, declared) in &self.settings {
            declared.check(name).map_err(|what| (format!("settings.{name}"), what))?;
        }
        Ok(())
    }

    fn check_templates(&self) -> Result<(), Slip> {
        let built_in = template::BUILT_IN.map(str::to_string);
        let made = |(name, declared): (&String, &Declared)| declared.placeholders(name);
        let free = self.settings.iter().filter(|(_, declared)| declared.kind.is_some());
        let of_choices: Vec<String> = built_in.iter().cloned().chain(free.flat_map(made)).collect();
        let settled: Vec<String> =
            built_in.iter().cloned().chain(self.settings.iter().flat_map(made)).collect();
        for text in self.transports.values().flat_map(Texts::all) {
            check_template(text, &settled)?;
        }
        let of_transport = self.transports.values().take(1).flat_map(|texts| texts.names(Self::OF_TRANSPORT));
        let all: Vec<String> = settled.iter().cloned().chain(of_transport).collect();
        for declared in self.settings.values() {
            let known = if declared.kind.is_some() { &built_in[..] } else { &of_choices };
            declared.templates().try_for_each(|text| check_template(text, known))?;
        }
        self.templates().try_for_each(|text| check_template(text, &all))?;
        if !template::OF_PORT.iter().any(|placeholder| self.uses(placeholder)) {
            let what = "no command or file uses {port} or {endpoint}, so it would not know where to listen";
            return Err(("[start]".into(), what.into()));
        }
        Ok(())
    }

    /// The text for each zone must be used, and must exist if it is used.
    fn check_each_zone(&self) -> Result<(), Slip> {
        let is_used = self.uses("zones");
        let of_zone = [("each_zone", &self.each_zone), ("each_secondary", &self.each_secondary)];
        for (key, text) in of_zone {
            if text.as_ref().is_some_and(|text| template::uses(text, "zones")) {
                return Err((
                    key.into(),
                    format!("{key} is the text for one zone, and cannot use {{zones}}"),
                ));
            }
        }
        match &self.each_zone {
            Some(_) if !is_used => {
                let what = "each_zone is used nowhere: expected {zones} in a file or a command";
                Err(("each_zone".into(), what.into()))
            }
            None if self.each_secondary.is_some() => {
                let what = "each_secondary is the text for a zone in place of each_zone, which is missing";
                Err(("each_secondary".into(), what.into()))
            }
            None if is_used => {
                let what = "{zones} has nothing to repeat: expected each_zone, the text for one zone";
                Err(("{zones}".into(), what.into()))
            }
            _ => Ok(()),
        }
    }
}

fn check_template(text: &str, known: &[String]) -> Result<(), Slip> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    template::check(text, &known).map_err(|unknown| (unknown.placeholder.clone(), unknown.to_string()))
}

/// Whether a text can be the name of a subject.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}
