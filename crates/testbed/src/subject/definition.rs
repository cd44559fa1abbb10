//! The definition of a name server, read from `subjects/NAME.toml`: how it is configured, started on a port,
//! found ready and stopped, how it reports its version, and which settings can vary. No code is about any one
//! server.

mod check;
mod command_line;
mod names;
mod parts;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use kqps_kernel::port;
use kqps_observation::Factors;
use kqps_observation::factors::name::IO;
use kqps_observation::secret;
use kqps_observation::trial::Transport;
use serde::Deserialize;

use super::setting::{Declared, Need, SettingError, Texts};
use super::template::{self, Values};
use crate::echo_io;
use crate::event::control::Control;
use kqps_files::toml_file::{self, FileError, TomlError, nearest};

pub use command_line::CommandLineError;
pub use parts::{ControlWay, Ready, ReadyKind, Start, Stop, StopSignal, Version};

/// A name server that can be measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// A short name, which is also that of its cell: `nsd`.
    pub name: String,
    /// The name as people write it: `NSD`.
    pub title: String,
    /// A description of what is measured, if the name does not show it.
    pub about: Option<String>,
    /// The Debian package that contains it.
    pub package: Option<String>,
    /// Programs that it needs on the PATH.
    pub programs: Vec<String>,
    /// The I/O model of the echo that comes nearest to its own, which makes that echo its ceiling. It may
    /// contain placeholders of settings.
    pub io: String,
    /// The default I/O model for subjects with `io = "{io}"`, apart from the reference echo.
    pub io_default: Option<String>,
    /// How the workers of that echo share sockets: a value of its setting `sockets`. It may contain
    /// placeholders of settings.
    #[serde(default = "shared")]
    pub echo_sockets: String,
    /// The text of its configuration for each zone, with placeholders. Repeated for all zones, it is `{zones}`.
    /// Without it, the subject serves one zone.
    pub each_zone: Option<String>,
    /// The text for a zone that the subject transfers in from a primary, at its own address and `{primary_port}`. Without it,
    /// the subject transfers no zone in.
    pub each_secondary: Option<String>,
    /// The transports that it answers over, each with the text of `{of_transport}` in cells over it, or with the texts
    /// of `{of_transport.KEY}`.
    #[serde(default = "udp_alone")]
    pub transports: BTreeMap<Transport, Texts>,
    /// Files written into its work folder before it starts: name → text with placeholders.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The settings that a study can vary.
    #[serde(default)]
    pub settings: BTreeMap<String, Declared>,
    /// How it is started.
    pub start: Start,
    /// How it is found ready.
    pub ready: Ready,
    /// The former place of `control.reload`. Files of users and stored runs have it; it is empty after reading.
    reload: Option<ControlWay>,
    /// How it is asked to do something during a load.
    #[serde(default)]
    pub control: BTreeMap<Control, ControlWay>,
    /// How it is stopped.
    pub stop: Stop,
    /// How it reports its version.
    pub version: Option<Version>,
    /// The text of the definition.
    #[serde(skip)]
    pub text: String,
}

fn udp_alone() -> BTreeMap<Transport, Texts> {
    [(Transport::Udp, Texts::One(String::new()))].into()
}

fn shared() -> String {
    Definition::SHARED.into()
}

impl Definition {
    /// The value of the echo's setting `sockets` for one socket of all workers.
    pub const SHARED: &str = "shared";

    /// The placeholder of what a definition needs for the transport of a cell.
    pub(super) const OF_TRANSPORT: &str = "of_transport";

    /// Reads a definition from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or its text is no valid definition; with file, line and column.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        toml_file::open(path, Self::read)
    }

    /// The text that a run keeps: without the secrets in its command lines and variables. A run of a definition with
    /// secrets cannot be resumed from it.
    pub fn kept_text(&self) -> Cow<'_, str> {
        let Ok(mut table) = self.text.parse::<toml::Table>() else { return Cow::Borrowed(&self.text) };
        let before = table.clone();
        mask(&mut table);
        if table == before {
            return Cow::Borrowed(&self.text);
        }
        Cow::Owned(toml::to_string(&table).expect("it was read from TOML"))
    }

    /// Reads a definition from the text of a file.
    pub fn read(file: &str, text: &str) -> Result<Self, TomlError> {
        let definition = toml_file::read::<Self>(file, text)?.with_former_reload();
        definition.check(file, text)?;
        Ok(Self { text: text.into(), ..definition })
    }

    /// Moves a way to reload from its former place to `control`, whose own words count first.
    fn with_former_reload(mut self) -> Self {
        if let Some(former) = self.reload.take() {
            let way = self.control.entry(Control::Reload).or_default();
            way.signal = way.signal.or(former.signal);
            if way.command.is_empty() {
                way.command = former.command;
            }
        }
        self
    }

    /// Whether it can be started with these settings: each must be declared, with an accepted value.
    pub fn check_settings(&self, given: &BTreeMap<String, String>) -> Result<(), SettingError> {
        let names = || self.settings.keys().map(String::as_str).collect::<Vec<_>>();
        for (name, value) in given {
            let title = self.title.clone();
            let declared = self.settings.get(name).ok_or_else(|| SettingError::Name {
                title: title.clone(),
                name: name.clone(),
                near: nearest(name, &names()).map(str::to_string),
                names: self.settings.keys().cloned().collect(),
            })?;
            declared.accepts(value).map_err(|expected| SettingError::Value {
                title,
                name: name.clone(),
                value: value.clone(),
                near: declared.nearest(value),
                expected,
            })?;
        }
        Ok(())
    }

    /// The programs that it needs with these settings, beside its own.
    pub fn needs<'a>(&'a self, given: &'a BTreeMap<String, String>) -> impl Iterator<Item = &'a Need> {
        self.settings
            .iter()
            .filter_map(|(name, declared)| declared.needs.get(given.get(name).unwrap_or(&declared.default)))
    }

    /// The factors of a cell that are settings of this subject.
    pub fn settings_among(&self, factors: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mine = factors.iter().filter(|(name, _)| self.settings.contains_key(*name));
        mine.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether the study chooses its I/O model, as for the echo.
    pub fn takes_io(&self) -> bool {
        self.io == "{io}"
    }

    /// The I/O model of the echo that is its ceiling, with these settings. If the study chooses its I/O model,
    /// this is the default one.
    pub fn echo_io(&self, given: &BTreeMap<String, String>) -> String {
        if self.takes_io() {
            return self.io_default.clone().unwrap_or_else(|| echo_io::ECHO_IO.into());
        }
        self.settle(given, Values::default()).fill(&self.io)
    }

    /// The I/O model in a cell with these factors: that of its ceiling, or the one that the cell names for it.
    pub fn cell_io(&self, factors: &Factors) -> String {
        match factors.word(IO) {
            Some(io) if self.takes_io() => io.to_owned(),
            _ if factors.transport().has_connections() => echo_io::OVER_TCP.into(),
            _ => self.echo_io(factors.words()),
        }
    }

    /// How the workers of the echo that is its ceiling share sockets, with these settings.
    pub fn echo_sockets(&self, given: &BTreeMap<String, String>) -> String {
        self.settle(given, Values::default()).fill(&self.echo_sockets)
    }

    /// Whether it is an echo: the study chooses its I/O model, and it answers any query with the query itself.
    pub fn is_echo(&self) -> bool {
        self.takes_io() && self.ready.kind == ReadyKind::Reply
    }

    /// Whether its definition uses a zone.
    pub fn takes_zone(&self) -> bool {
        ["zone", "zones", "origin"].iter().any(|placeholder| self.uses(placeholder))
    }

    /// Whether it resolves in an Internet in a box: its definition uses the root hints.
    pub fn resolves(&self) -> bool {
        self.uses("root_hints")
    }

    /// Whether it validates signatures (DNSSEC) with these settings: its definition uses the trust anchor, and its setting
    /// `validation`, if it has one, is not `off`.
    pub fn validates(&self, given: &BTreeMap<String, String>) -> bool {
        let declared = self.settings.get("validation").map(|setting| &setting.default);
        let validation = given.get("validation").or(declared);
        self.uses("trust_anchor") && validation.is_none_or(|word| word != "off")
    }

    /// Whether its definition uses the number of workers.
    pub fn takes_workers(&self) -> bool {
        self.uses("workers")
    }

    /// The number of ports that it answers on, with these settings and workers.
    pub fn ports(&self, given: &BTreeMap<String, String>, workers: u32) -> Result<u16, SettingError> {
        self.check_settings(given)?;
        if workers != 1 && !self.takes_workers() {
            return Err(SettingError::Workers { title: self.title.clone(), workers });
        }
        let text = self.settle(given, Values::default().with("workers", &workers)).fill(&self.start.ports);
        let product = text
            .split('*')
            .try_fold(1u16, |product, factor| product.checked_mul(factor.trim().parse().ok()?));
        product
            .filter(|ports| (1..=port::MANY).contains(ports))
            .ok_or_else(|| SettingError::Ports { title: self.title.clone(), text })
    }

    /// Whether it can serve this number of zones.
    pub fn check_zones(&self, zones: usize) -> Result<(), SettingError> {
        if zones > 1 && self.each_zone.is_none() {
            return Err(SettingError::Zones { title: self.title.clone(), zones });
        }
        Ok(())
    }

    /// Whether it can transfer a zone in.
    pub fn check_secondary(&self) -> Result<(), SettingError> {
        let is_able = self.each_secondary.is_some();
        is_able.then_some(()).ok_or_else(|| SettingError::Secondary { title: self.title.clone() })
    }

    /// Whether it answers over a transport.
    pub fn check_transport(&self, transport: Transport) -> Result<(), SettingError> {
        self.texts_over(transport).map(|_| ())
    }

    fn texts_over(&self, transport: Transport) -> Result<&Texts, SettingError> {
        self.transports.get(&transport).ok_or_else(|| SettingError::Transport {
            title: self.title.clone(),
            known: self.transports.keys().map(|known| known.word()).collect::<Vec<_>>().join(", "),
            transport: transport.word(),
        })
    }

    /// Adds the texts that it needs for a transport. They may use all other placeholders.
    pub(super) fn over(&self, transport: Transport, values: Values) -> Result<Values, SettingError> {
        let texts = self.texts_over(transport)?.by_placeholder(Self::OF_TRANSPORT);
        Ok(texts.into_iter().fold(values, |values, (name, text)| {
            let filled = values.fill(&text);
            values.with(&name, &filled)
        }))
    }

    /// Adds the texts that the settings stand for. A choice may use counts and texts; these may use only
    /// built-in placeholders.
    pub(super) fn settle(&self, given: &BTreeMap<String, String>, values: Values) -> Values {
        let (free, choices): (Vec<_>, Vec<_>) =
            self.settings.iter().partition(|(_, declared)| declared.kind.is_some());
        [free, choices].into_iter().flatten().fold(values, |values, (name, declared)| {
            let value = given.get(name).unwrap_or(&declared.default);
            let texts = declared.texts(name, value);
            texts.into_iter().fold(values, |values, (name, text)| {
                let filled = values.fill(&text);
                values.with(&name, &filled)
            })
        })
    }

    fn templates(&self) -> impl Iterator<Item = &String> {
        let version = self.version.iter().flat_map(|version| &version.command);
        let start = self.start.command.iter().chain(self.start.env.values()).chain([&self.start.ports]);
        let files = self.files.values().chain(&self.each_zone).chain(&self.each_secondary);
        let files = files.chain(self.transports.values().flat_map(Texts::all));
        let control = self.control.values().flat_map(|way| way.command.iter().chain(&way.zone_command));
        files.chain(start).chain(control).chain(version).chain([&self.io, &self.echo_sockets])
    }

    fn uses(&self, placeholder: &str) -> bool {
        let of_settings = self.settings.values().flat_map(Declared::templates);
        self.templates().chain(of_settings).any(|text| template::uses(text, placeholder))
    }
}

/// Replaces the secrets in every list of words, which is a command line, and in every text by its name.
fn mask(table: &mut toml::Table) {
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => mask(inner),
            toml::Value::String(text) if name == "about" => *text = secret::masked_line(text),
            toml::Value::String(text) if !text.contains('\n') => *text = secret::masked_value(name, text),
            toml::Value::Array(all) => {
                let words =
                    all.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
                if let Some(words) = words {
                    *all = secret::masked(&words).into_iter().map(toml::Value::String).collect();
                } else {
                    all.iter_mut().filter_map(toml::Value::as_table_mut).for_each(mask);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
