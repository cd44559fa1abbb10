//! The cells of a study on a given machine: every combination of every experiment, with its cores. A function
//! of the file and of what the machine offers.

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::factors::{
    FactorError,
    name::{self, CORES, SUBJECT},
};
use kqps_observation::run::Role;
use kqps_observation::{Cell, CellLoad, Factors, Question, cpu_list, question};
use kqps_player::plan::window_most;
use kqps_recipe::RecipeError;

use super::events::EVENT_ON_ONE_HOST;
use super::offer::HostOffer;
use super::values::{self, FactorWords, ONE_PER_CORE, VALUES_MOST};
use super::{Experiment, Published, RawLoad, StudyFile, Word};
use super::{attack, ceilings};
use crate::placement::{self, CoreRequest, Placed, place};
use kqps_files::toml_file::TomlError;
use kqps_testbed::cell_event::CellEvent;
use kqps_testbed::echo_io;
use kqps_testbed::host_settings;
use kqps_testbed::internet;
use kqps_testbed::materials::MaterialsSpec;
use kqps_testbed::past_kernel;
use kqps_testbed::player_hosts::{Players, players_of};
use kqps_testbed::player_setup::PlayerSetup;
use kqps_testbed::subject::Definition;
use kqps_testbed::subject::setting::SettingError;

/// The cells of a study on a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyLayout {
    /// The cells, ceilings and canary included.
    pub cells: Vec<Cell>,
    /// The parts that are left out → the reason.
    pub skipped: BTreeMap<String, String>,
    /// The question of the study, for the report.
    pub question: Question,
}

/// Lays out a study.
///
/// # Errors
///
/// A mistake in the file that shows only with the machine and the subjects.
pub fn lay_out(study: &StudyFile, offer: &HostOffer) -> Result<StudyLayout, TomlError> {
    let question = Question {
        title: study.title.clone(),
        question: study.question.clone(),
        source: study.source.clone(),
        path: study.path,
        experiments: Vec::new(),
    };
    let mut layout = StudyLayout { question, ..StudyLayout::default() };
    for experiment in &study.experiments {
        let asked = Matrix { study, experiment, offer }.lay_out(&mut layout)?;
        layout.question.experiments.push(asked);
    }
    ceilings::add(offer, &mut layout.cells);
    if let Some(rate_qps) = study.canary_qps {
        ceilings::add_canary(offer, rate_qps, &mut layout.cells);
    }
    Ok(layout)
}

struct Matrix<'a> {
    study: &'a StudyFile,
    experiment: &'a Experiment,
    offer: &'a HostOffer,
}

impl Matrix<'_> {
    fn lay_out(&self, layout: &mut StudyLayout) -> Result<question::Experiment, TomlError> {
        let cores = self.offer.topology.cores.len();
        let mut factors: Vec<(String, Vec<String>)> = Vec::new();
        for (factor, words) in &self.experiment.factors {
            factors.push((factor.clone(), values::values(factor, words, cores)));
        }
        let combinations =
            factors.iter().fold(1, |product: usize, (_, all)| product.saturating_mul(all.len()));
        if combinations > VALUES_MOST {
            let name = &self.experiment.name;
            let what = format!(
                "experiment `{name}`: its factors have {combinations} combinations; at most {VALUES_MOST} are laid out"
            );
            return Err(self.study.wrong_key(name, what));
        }
        let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for subject in &self.experiment.subjects {
            if let Some(reason) = self.offer.absent.get(subject).cloned() {
                layout.skipped.insert(format!("{}: {SUBJECT}={subject}", self.experiment.name), reason);
                continue;
            }
            for combination in values::combinations(&factors) {
                for cell in self.cells(subject, &combination, layout)? {
                    let of_cell = factors.iter().map(|(factor, _)| factor.as_str()).chain([SUBJECT]);
                    for factor in of_cell {
                        let values = seen.entry(factor.into()).or_default();
                        let value = cell.factors.word(factor).map(str::to_owned);
                        values.extend(value.filter(|value| !values.contains(value)));
                    }
                    layout.cells.push(cell);
                }
            }
        }
        let several = self.experiment.subjects.len() > 1;
        let names = factors.iter().map(|(factor, _)| factor.clone());
        let names = several.then(|| SUBJECT.to_string()).into_iter().chain(names);
        let factor = |name: String| question::Factor { values: seen.remove(&name).unwrap_or_default(), name };
        let asked = self.asked(names.map(factor).collect());
        let conditions = self.conditions(&layout.cells);
        Ok(question::Experiment { title: format!("{}{conditions}", asked.title), ..asked })
    }

    /// The cells of one combination: one, or one for each set of cores that its choice stands for.
    fn cells(
        &self,
        subject: &str,
        combination: &[(String, String)],
        layout: &mut StudyLayout,
    ) -> Result<Vec<Cell>, TomlError> {
        let settings = self.settings(subject, combination);
        let cores = self.offer.topology.cores.len();
        if self.experiment.exclude.iter().any(|excluded| agrees(&settings, excluded, cores)) {
            return Ok(Vec::new());
        }
        let wrong = |error: FactorError| self.study.wrong_key(error.name(), error.to_string());
        let mut factors = Factors::read(settings.clone()).map_err(wrong)?.fitting();
        host_settings::number_core(&mut factors, &self.offer.topology);
        let definition = &self.offer.definitions[subject];
        let is_said = |name: &str| combination.iter().any(|(factor, _)| factor == name);
        let unsaid = internet::conditions(&factors).into_iter().filter(|(name, _)| !is_said(name));
        let name = name_of(self.experiment, subject, combination);
        let name = unsaid.fold(name, |name, (_, condition)| format!("{name}, {condition}"));
        let players = match players_of(self.offer.players.as_ref(), &factors) {
            Ok(players) => players,
            Err(reason) => {
                layout.skipped.insert(self.without_hosts(name, combination, &reason), reason);
                return Ok(Vec::new());
            }
        };
        let load = self.experiment.load.as_ref().unwrap_or(&self.study.load);
        let check_rate =
            || load.rates_qps.as_ref().map_or_else(|| internet::check_rate(&factors), |_| Ok(()));
        internet::check(definition, &factors).and_then(|()| check_rate()).map_err(|what| {
            let what = format!("experiment `{}`: {what}", self.experiment.name);
            self.study.wrong_value("subjects", subject, what)
        })?;
        let of_one_host = [
            factors.scenario().filter(|scenario| !scenario.may_be_shared()).map(|_| attack::ON_ONE_HOST),
            factors.event().map(|_| EVENT_ON_ONE_HOST),
            factors.dataset().internet.map(|_| internet::ON_ONE_HOST),
        ];
        if let Some(reason) = of_one_host.into_iter().flatten().next().filter(|_| players.is_some()) {
            layout.skipped.insert(name, reason.into());
            return Ok(Vec::new());
        }
        self.check_window(&factors, players.map_or(1, |players| players.hosts.len()))?;
        // Between hosts the path is the network, and has no settings.
        let factors = if players.is_some() { factors.filtered(|name| name != name::PATH) } else { factors };
        let can_be = self.check_zones(definition, &factors)?;
        let can_be = can_be.and_then(|()| definition.check_transport(factors.transport()));
        if let Err(error) = can_be.and_then(|()| check_event(definition, &factors)) {
            layout.skipped.insert(name, error.to_string());
            return Ok(Vec::new());
        }
        match self.places(definition, &factors, players)? {
            Err(reason) => {
                layout.skipped.insert(name, reason);
                Ok(Vec::new())
            }
            Ok(places) => {
                if let Some(why) = placement::left_out(&self.offer.topology, &self.core_request(&factors)?) {
                    layout.skipped.insert(format!("{name}, other cores"), why);
                }
                let several = places.len() > 1 || settings.get(CORES).is_some_and(|word| is_every(word));
                let mut cells = Vec::new();
                for placed in places {
                    let cpus = cpu_list::write(&placed.subject_cpus);
                    let name = if several { format!("{name}, cores {cpus}") } else { name.clone() };
                    let cell = Cell { name, ..self.cell(subject, definition, &factors, placed)? };
                    // The queues of another host's device are not known here.
                    let few_workers = past_kernel::few_workers(&cell).filter(|_| players.is_none());
                    if let Some(reason) = few_workers {
                        layout.skipped.insert(cell.name, reason);
                    } else {
                        cells.push(cell);
                    }
                }
                Ok(cells)
            }
        }
    }

    /// Refuses a window that the sockets or connections of all players cannot have.
    fn check_window(&self, factors: &Factors, players: usize) -> Result<(), TomlError> {
        let setup = PlayerSetup(factors.player().clone());
        let most = players as u64 * window_most(setup.flows());
        if u64::from(setup.window()) <= most {
            return Ok(());
        }
        let (name, window) = (name::PLAYER_WINDOW, setup.window());
        let what = format!(
            "experiment `{}`: factor `{name}`: expected {most} at most, which is 65536 for each socket or connection, found \
             `{window}`",
            self.experiment.name
        );
        Err(self.study.wrong_value(name, &window.to_string(), what))
    }

    /// The name of what is left out because of its hosts. If one value of a factor is the reason, it is all cells with
    /// that value, so that the reason is given once.
    fn without_hosts(&self, name: String, combination: &[(String, String)], reason: &str) -> String {
        match combination.iter().find(|(factor, _)| reason.starts_with(factor.as_str())) {
            Some((factor, value)) => format!("{}: {factor}={value}", self.experiment.name),
            None => name,
        }
    }

    /// Whether the subject's configuration can hold as many zones as the dataset has.
    fn check_zones(
        &self,
        definition: &Definition,
        factors: &Factors,
    ) -> Result<Result<(), SettingError>, TomlError> {
        let wrong = |error: RecipeError| self.study.wrong(name::DATASET_RECIPE, error.to_string());
        let recipe = MaterialsSpec::new(factors.dataset()).recipe(0).map_err(wrong)?;
        Ok(definition.check_zones((recipe.zones + recipe.broken) as usize))
    }

    /// The settings of one combination, including those of bundles.
    fn settings(&self, subject: &str, combination: &[(String, String)]) -> FactorWords {
        let Self { study, experiment, offer } = *self;
        let cores = offer.topology.cores.len();
        let mut settings = FactorWords::new();
        values::set_all(study, &mut settings, &study.fixed, cores);
        values::set_all(study, &mut settings, &experiment.fixed, cores);
        for (name, value) in combination {
            values::set(study, &mut settings, name, value);
        }
        settings.insert(SUBJECT.into(), subject.into());
        let path = experiment.path.unwrap_or(study.path);
        settings.entry(name::PATH.into()).or_insert_with(|| path.word().into());
        settings
    }

    /// The cores of a cell, or of several cells; or why it cannot be measured on this machine.
    fn places(
        &self,
        definition: &Definition,
        factors: &Factors,
        players: Option<Players<'_>>,
    ) -> Result<Result<Vec<Placed>, String>, TomlError> {
        let Self { study, experiment, offer } = *self;
        if let Some(reason) = self.no_path(factors) {
            return Ok(Err(reason));
        }
        let io = definition.cell_io(factors);
        let own_io = definition.takes_io().then_some(io.as_str());
        let no_frames = match players {
            None => past_kernel::why_not(own_io, factors, &offer.lacking),
            Some(_) => past_kernel::why_not_between_hosts(own_io, factors, &offer.lacking),
        };
        let unfit = || echo_io::why_not(own_io?, &offer.lacking);
        if let Some(reason) = no_frames.or_else(unfit) {
            return Ok(Err(reason));
        }
        let cores = offer.topology.cores.len();
        let senders = factors.player().senders.map_or(1, |senders| senders as usize);
        let request = self.core_request(factors)?;
        let placement = experiment.placement.unwrap_or(study.placement);
        let beside = players.map_or(senders, |players| players.cores_beside_subject(senders));
        Ok(place(&offer.topology, &request, beside, placement).and_then(|mut placed| {
            for one in &mut placed {
                if let Some(players) = players {
                    one.player_cpus = players.first_cpus(senders, &one.subject_cpus);
                }
            }
            if placed.is_empty() { Err(format!("this machine has {cores} cores")) } else { Ok(placed) }
        }))
    }

    /// The cores that a combination asks for; by default one for each worker.
    fn core_request(&self, factors: &Factors) -> Result<CoreRequest, TomlError> {
        let word = factors.words().get(CORES).cloned();
        let word = word.unwrap_or_else(|| workers(factors.words()).to_string());
        let cores = self.offer.topology.cores.len();
        CoreRequest::read(&word, cores).map_err(|what| self.study.wrong(&word, what))
    }

    fn cell(
        &self,
        subject: &str,
        definition: &Definition,
        given: &Factors,
        placed: Placed,
    ) -> Result<Cell, TomlError> {
        let mut factors = given.clone();
        for (name, _) in given.words().iter().filter(|(_, word)| *word == ONE_PER_CORE) {
            let per_core = placed.subject_cpus.len().to_string();
            factors.set(name, per_core).map_err(|error| self.study.wrong_key(name, error.to_string()))?;
        }
        factors.set_cores(&placed.subject_cpus);
        let load = self.experiment.load.as_ref().unwrap_or(&self.study.load);
        if !load.latency_at_percent.is_empty() {
            factors.set_latency_at(&load.latency_at_percent);
        }
        Ok(Cell {
            name: String::new(),
            role: Role::Subject,
            experiment: self.experiment.name.clone(),
            load: cell_load(load),
            subject: definition.name.clone(),
            version: self.offer.versions.get(subject).cloned(),
            io: definition.cell_io(given),
            workers: workers(factors.words()),
            player_cpus: placed.player_cpus,
            subject_cpus: placed.subject_cpus,
            factors,
            profile: self.experiment.profile.unwrap_or(self.study.profile),
            residence: self.experiment.residence.unwrap_or(self.study.residence),
            target: None,
        })
    }

    /// Why there is no such path here; `None` if there is.
    fn no_path(&self, factors: &Factors) -> Option<String> {
        let is_veth = factors.path().kind == Some(question::Path::Veth);
        let needs_networks = is_veth || factors.dataset().internet.is_some();
        let lacking = self.offer.lacking.get("veth").filter(|_| needs_networks);
        lacking.map(|reason| format!("no veth: {reason}"))
    }

    /// The hit rate and the delay that all resolvers of the experiment have, behind its title: ` (80 % hits, servers 20 ms away)`.
    /// A condition that varies is a factor, and stands in the tables. Empty without resolvers.
    fn conditions(&self, cells: &[Cell]) -> String {
        let of_experiment = cells.iter().filter(|cell| cell.experiment == self.experiment.name);
        let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (name, condition) in of_experiment.flat_map(|cell| internet::conditions(&cell.factors)) {
            found.entry(name).or_default().insert(condition);
        }
        let common = found.into_values().rev().filter(|all| all.len() == 1).flatten();
        let common: Vec<String> = common.collect();
        if common.is_empty() { String::new() } else { format!(" ({})", common.join(", ")) }
    }

    fn asked(&self, factors: Vec<question::Factor>) -> question::Experiment {
        let experiment = self.experiment;
        let table = |table: &super::Table| question::Table {
            title: table.title.clone(),
            rows: table.rows.clone(),
            columns: table.columns.clone(),
            show: table.show.clone(),
        };
        let chart = |chart: &super::Chart| question::Chart {
            title: chart.title.clone(),
            x: chart.x.clone(),
            series: chart.series.clone(),
            show: chart.show.clone(),
        };
        let links = |chart: &super::LinkChart| question::LinkChart {
            title: chart.title.clone(),
            gbit_per_s: chart.gbit_per_s.clone(),
        };
        let about = [experiment.about.as_str(), experiment.note.as_str()];
        question::Experiment {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            about: about.iter().filter(|text| !text.is_empty()).copied().collect::<Vec<_>>().join(" "),
            factors,
            tables: experiment.tables.iter().map(table).collect(),
            charts: experiment.charts.iter().map(chart).collect(),
            links: experiment.links.iter().map(links).collect(),
            published: experiment.published.iter().flat_map(published).collect(),
        }
    }
}

/// `processes: io=poll; processes=2`, with the subject first if there are several.
fn name_of(experiment: &Experiment, subject: &str, combination: &[(String, String)]) -> String {
    let subject = (experiment.subjects.len() > 1).then_some((SUBJECT, subject));
    let factors = combination.iter().map(|(factor, value)| (factor.as_str(), value.as_str()));
    // A choice of several sets is left out: each cell's name gets the cores of its set.
    let shown = factors.filter(|(factor, value)| *factor != CORES || !is_every(value));
    let words: Vec<String> =
        subject.into_iter().chain(shown).map(|(factor, value)| format!("{factor}={value}")).collect();
    if words.is_empty() {
        experiment.name.clone()
    } else {
        format!("{}: {}", experiment.name, words.join("; "))
    }
}

/// Whether a choice of cores stands for several cells.
fn is_every(choice: &str) -> bool {
    choice.starts_with("each") || choice.starts_with("every")
}

fn agrees(settings: &FactorWords, excluded: &BTreeMap<String, Word>, cores: usize) -> bool {
    excluded.iter().all(|(name, word)| {
        settings.get(name).is_some_and(|value| values::expand(word, cores).contains(value))
    })
}

/// The number of workers that settings mean; 1 until the number of cores is known.
fn workers(settings: &FactorWords) -> u32 {
    let number = |name: &str| settings.get(name).and_then(|word| word.parse::<u32>().ok());
    let of_echo = || number("processes").unwrap_or(1).saturating_mul(number("threads").unwrap_or(1));
    number("workers").unwrap_or_else(of_echo)
}

fn cell_load(load: &RawLoad) -> CellLoad {
    match (load.closed_s, &load.rates_qps) {
        (Some(seconds), _) => CellLoad::Closed(seconds),
        (None, Some(rates)) => {
            CellLoad::Rates { rates_qps: rates.clone(), duration_s: load.seconds.unwrap_or(1.0) }
        }
        (None, None) => CellLoad::Search,
    }
}

fn published(published: &Published) -> Vec<question::Published> {
    let rates = published.rates_qps.iter().enumerate();
    rates
        .map(|(index, &rate_qps)| {
            let mut factors: BTreeMap<String, String> =
                published.factors.iter().map(|(name, word)| (name.clone(), word.0.clone())).collect();
            if let Some(across) = &published.across {
                let value =
                    published.values.get(index).map_or_else(|| (index + 1).to_string(), |it| it.0.clone());
                factors.insert(across.clone(), value);
            }
            question::Published { factors, rate_qps, best: published.best, note: published.note.clone() }
        })
        .collect()
}

/// Whether a subject can do its part of the event of a cell, as far as its definition shows.
fn check_event(definition: &Definition, factors: &Factors) -> Result<(), SettingError> {
    let event = factors.event().and_then(|word| CellEvent::read(word).ok());
    event.filter(CellEvent::needs_primary).map_or(Ok(()), |_| definition.check_secondary())
}
