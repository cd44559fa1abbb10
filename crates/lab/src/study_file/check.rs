//! Checks a study without a machine. Every error has a place in the file.

use std::collections::BTreeSet;

use kqps_verdict::search::Preset;

use super::possible::{self, Possible, PossibleSettings};
use super::values::{self, ONE_PER_CORE, check_length, is_common};
use super::{Experiment, Published, RawLoad, StudyFile, attack, common, events, transports};
use kqps_files::toml_file::{TomlError, did_you_mean, nearest};
use kqps_observation::factors::{
    SourceChoice,
    name::{self, IO, SUBJECT},
};
use kqps_observation::question;
use kqps_testbed::echo_io;
use kqps_testbed::subject::Definition;
use kqps_testbed::subject::setting::SettingError;

/// The most starts of every cell.
const REPETITIONS_MOST: u32 = 1000;

/// The most seconds of a trial.
const SECONDS_MOST: f64 = 3600.0;

pub(super) fn check(study: &StudyFile) -> Result<(), TomlError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if study.name.is_empty() || !study.name.chars().all(plain) {
        return Err(study.wrong("name", "a name is made of letters, digits, `-` and `_`"));
    }
    if !(1..=REPETITIONS_MOST).contains(&study.repetitions) {
        let what = format!("repetitions: expected 1 to {REPETITIONS_MOST}");
        return Err(study.wrong("repetitions", what));
    }
    if study.canary_qps.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
        return Err(study.wrong("canary_qps", "canary_qps: expected a rate above 0"));
    }
    if study.experiments.is_empty() {
        return Err(study.wrong("experiment", "a study has at least one [[experiment]]"));
    }
    let mut names = BTreeSet::new();
    for experiment in &study.experiments {
        if !names.insert(&experiment.name) {
            let what = format!("two experiments are called `{}`", experiment.name);
            return Err(study.wrong(&format!("\"{}\"", experiment.name), what));
        }
        of_experiment(study, experiment)?;
    }
    goals(study)
}

/// Checks an experiment with its subjects: a setting that one of them does not have, or a value that it does
/// not accept.
pub(super) fn beside(
    study: &StudyFile,
    experiment: &Experiment,
    definition: &Definition,
) -> Result<(), TomlError> {
    let bundled = |name: &str| study.bundles.contains_key(name);
    for (name, possible) in possible::settings(study, experiment) {
        if is_common(name) || bundled(name) {
            continue;
        }
        for one in possible.iter().filter(|one| one.word() != ONE_PER_CORE) {
            let wrong = |what: String| {
                let what = format!("experiment `{}`: {what}", experiment.name);
                study.wrong_value(name, one.word(), what)
            };
            for value in one.samples(name).map_err(wrong)? {
                if name == IO && definition.takes_io() {
                    let known: Vec<&str> = echo_io::models().collect();
                    common::one_of(name, &value, &known).map_err(wrong)?;
                } else {
                    let alone = [(name.to_string(), value)].into();
                    definition.check_settings(&alone).map_err(|error| match error {
                        SettingError::Name { .. } => {
                            let error = common::with_common(definition, error, study.bundles.keys().cloned());
                            study.wrong_key(name, format!("experiment `{}`: {error}", experiment.name))
                        }
                        other => wrong(other.to_string()),
                    })?;
                }
            }
        }
    }
    Ok(())
}

fn of_experiment(study: &StudyFile, experiment: &Experiment) -> Result<(), TomlError> {
    let load = experiment.load.as_ref().unwrap_or(&study.load);
    if let Err((key, what)) = of_load(load) {
        return Err(study.wrong_key(key, format!("experiment `{}`: {what}", experiment.name)));
    }
    for (factor, words) in &experiment.factors {
        if words.is_empty() {
            return Err(study.wrong_key(factor, format!("the factor `{factor}` has no values")));
        }
        for word in words {
            unbundled(study, factor, &word.0)?;
        }
    }
    for (name, word) in study.fixed.iter().chain(&experiment.fixed) {
        unbundled(study, name, &word.0)?;
    }
    if let Some(name) = study.bundles.keys().find(|name| name::is_reserved(name)) {
        return Err(
            study.wrong_key(name, format!("`{name}` cannot have bundles: it is a factor of kqps's own"))
        );
    }
    let bundled = study.bundles.values().flat_map(|values| values.values()).flat_map(|bundle| bundle.keys());
    for name in bundled {
        common_name(study, name)?;
    }
    let settings = possible::settings(study, experiment);
    common_settings(study, experiment, &settings)?;
    transports::check(study, experiment)?;
    attack::check(study, experiment, load, &settings)?;
    events::check(study, experiment, load, &settings)?;
    excluded(study, experiment, &settings)?;
    let shown = experiment.tables.iter().flat_map(|table| table.rows.iter().chain([&table.columns]));
    let drawn = experiment.charts.iter().flat_map(|chart| chart.series.iter().chain([&chart.x]));
    let published = experiment.published.iter().flat_map(|one| one.factors.keys().chain(&one.across));
    for factor in shown.chain(drawn).chain(published).filter(|factor| !factor.is_empty()) {
        known_factor(study, experiment, &settings, factor)?;
    }
    let is_rate = |gbit: &f64| gbit.is_finite() && *gbit > 0.0;
    if !experiment.links.iter().all(|chart| chart.gbit_per_s.iter().all(is_rate)) {
        return Err(study.wrong("gbit_per_s", "gbit_per_s: expected gigabits a second above 0"));
    }
    experiment.published.iter().try_for_each(|one| of_published(study, one))
}

/// Checks settings that belong to no subject: they must be known, have accepted values, and have an effect.
fn common_settings(
    study: &StudyFile,
    experiment: &Experiment,
    settings: &PossibleSettings<'_>,
) -> Result<(), TomlError> {
    let can_be_veth = |experiment: &Experiment| match possible::settings(study, experiment).get(name::PATH) {
        Some(words) => words.iter().any(|one| one.word() == question::Path::Veth.word()),
        None => experiment.path.unwrap_or(study.path) == question::Path::Veth,
    };
    for (&name, possible) in settings {
        common_name(study, name)?;
        let is_checked = is_common(name) && !study.bundles.contains_key(name);
        for one in possible {
            let wrong = |what: String| {
                let what = format!("experiment `{}`: {what}", experiment.name);
                study.wrong_value(name, one.word(), what)
            };
            for value in one.samples(name).map_err(wrong)?.iter().filter(|_| is_checked) {
                common::accepts(name, value).map_err(wrong)?;
            }
        }
        let one_address = SourceChoice::One.word();
        let is_spread = |one: &&Possible<'_>| name == name::PLAYER_SOURCES && one.word() != one_address;
        if let Some(spread) = possible.iter().find(is_spread).filter(|_| can_be_veth(experiment)) {
            let what = format!(
                "experiment `{}`: spread source addresses are those of `loopback`, and the path is `veth`",
                experiment.name
            );
            return Err(study.wrong_value(name, spread.word(), what));
        }
        let of_all = study.fixed.contains_key(name) && study.experiments.iter().any(can_be_veth);
        if name.starts_with(name::PATH_SETTING) && !of_all && !can_be_veth(experiment) {
            let what = format!(
                "experiment `{}`: `{name}` sets nothing on the path `loopback`: it is for `veth`",
                experiment.name
            );
            return Err(study.wrong_key(name, what));
        }
    }
    Ok(())
}

/// An exclusion must name a setting of the experiment, with a value that it can have.
fn excluded(
    study: &StudyFile,
    experiment: &Experiment,
    settings: &PossibleSettings<'_>,
) -> Result<(), TomlError> {
    for (name, word) in experiment.exclude.iter().flatten() {
        check_length(&word.0).map_err(|what| {
            study.wrong_value(
                name,
                &word.0,
                format!("experiment `{}`: factor `{name}`: {what}", experiment.name),
            )
        })?;
        known_factor(study, experiment, settings, name)?;
        let subjects = experiment.subjects.iter().map(String::as_str).filter(|_| name == SUBJECT);
        let possible = settings.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let words: Vec<&str> = possible.iter().map(Possible::word).chain(subjects).collect();
        if !words.contains(&word.0.as_str()) && !possible.iter().any(|one| one.can_be(&word.0)) {
            let near = did_you_mean(nearest(&word.0, &words));
            let what = format!(
                "experiment `{}`: no cell has {name} = `{word}`, so none can be left out{near} (known: {})",
                experiment.name,
                words.join(", ")
            );
            return Err(study.wrong_value(name, &word.0, what));
        }
    }
    Ok(())
}

fn of_published(study: &StudyFile, published: &Published) -> Result<(), TomlError> {
    let what = if published.rates_qps.is_empty() || published.rates_qps.iter().any(|rate| !rate.is_finite()) {
        "published: rates_qps holds at least one rate"
    } else if !published.values.is_empty() && published.values.len() != published.rates_qps.len() {
        "published: as many values as rates_qps are needed"
    } else if published.best && published.across.is_some() {
        "published: the best of several cells is one figure, and cannot have `across`"
    } else if published.across.is_none() && published.rates_qps.len() > 1 {
        "published: several rates need `across`, the factor they vary"
    } else {
        return Ok(());
    };
    Err(study.wrong("published", what))
}

/// A name with a dot is not the subject's own, so it must be a known one.
fn common_name(study: &StudyFile, name: &str) -> Result<(), TomlError> {
    if !name.contains('.') || is_common(name) {
        return Ok(());
    }
    let near = common::nearest_common(name);
    let known = values::common().collect::<Vec<_>>().join(", ");
    Err(study.wrong_key(
        name,
        format!(
            "unknown setting `{name}`{near} (known: {known}, {}NAME, {}SETTING)",
            name::PATH_SYSCTL,
            name::HOST
        ),
    ))
}

/// A value of a factor with bundles must be one of them.
fn unbundled(study: &StudyFile, factor: &str, value: &str) -> Result<(), TomlError> {
    let Some(bundles) = study.bundles.get(factor).filter(|bundles| !bundles.contains_key(value)) else {
        return Ok(());
    };
    let known: Vec<&str> = bundles.keys().map(String::as_str).collect();
    let near = did_you_mean(nearest(value, &known));
    let known = known.join(", ");
    let what = format!("`{factor}` has no bundle `{value}`{near} (known: {known})");
    Err(study.wrong_value(factor, value, what))
}

fn known_factor(
    study: &StudyFile,
    experiment: &Experiment,
    settings: &PossibleSettings<'_>,
    factor: &str,
) -> Result<(), TomlError> {
    if settings.contains_key(factor) || factor == SUBJECT {
        return Ok(());
    }
    // The factor may be misspelt where it is set. Then no subject has that setting.
    for definition in experiment.subjects.iter().filter_map(|word| study.subject(word).ok()) {
        beside(study, experiment, &definition)?;
    }
    let known: Vec<&str> = settings.keys().copied().chain([SUBJECT]).collect();
    let near = did_you_mean(nearest(factor, &known));
    let what = format!(
        "experiment `{}` has no factor `{factor}`{near} (known: {})",
        experiment.name,
        known.join(", ")
    );
    Err(study.wrong_key(factor, what))
}

/// Checks a load. An error names the key at fault.
fn of_load(load: &RawLoad) -> Result<(), (&'static str, String)> {
    let is_time = |seconds: f64| seconds > 0.0 && seconds <= SECONDS_MOST;
    let wrong = |key, what: &str| Err((key, what.to_string()));
    if load.search.is_none() && !load.latency_at_percent.is_empty() {
        return wrong(
            "latency_at_percent",
            "latency_at_percent: only a search finds a rate to take shares of",
        );
    }
    if load.keep.is_some_and(|keep| load.search.is_none() || !(keep > 0.0 && keep <= 1.0)) {
        return wrong("keep", "keep: expected a share of a search above 0, 1 at most, such as 0.99");
    }
    match (load.closed_s, &load.rates_qps, &load.search) {
        (Some(seconds), None, None) if load.seconds.is_none() => {
            if is_time(seconds) {
                Ok(())
            } else {
                wrong("closed_s", "closed_s: expected seconds above 0, 3600 at most")
            }
        }
        (None, Some(rates), None) => {
            if !load.seconds.is_some_and(is_time) {
                return wrong("rates_qps", "rates_qps need `seconds`, above 0, 3600 at most");
            }
            let right = !rates.is_empty() && rates.iter().all(|&rate| rate > 0.0 && rate.is_finite());
            if right { Ok(()) } else { wrong("rates_qps", "rates_qps: expected rates above 0") }
        }
        (None, None, Some(preset)) if load.seconds.is_none() => {
            if preset.parse::<Preset>().is_err() {
                let presets: Vec<&str> = Preset::ALL.iter().map(|one| one.name()).collect();
                let (near, known) = (did_you_mean(nearest(preset, &presets)), presets.join(", "));
                let what = format!("search = \"{preset}\": expected one of {known}{near}");
                return Err(("search", what));
            }
            let right = load.latency_at_percent.iter().all(|percent| (1..100).contains(percent));
            if right { Ok(()) } else { wrong("latency_at_percent", "latency_at_percent: expected 1 to 99") }
        }
        _ => wrong("load", "a load is one of closed_s, rates_qps with seconds, and search"),
    }
}

/// A run has one goal, so all searches of a study must have the same.
fn goals(study: &StudyFile) -> Result<(), TomlError> {
    let loads = study.experiments.iter().map(|one| one.load.as_ref().unwrap_or(&study.load));
    let searches: Vec<&RawLoad> = loads.filter(|load| load.search.is_some()).collect();
    let goals: BTreeSet<&String> = searches.iter().filter_map(|load| load.search.as_ref()).collect();
    if goals.len() > 1 {
        return Err(study.wrong("search", "all searches of a study have one preset"));
    }
    if searches.windows(2).any(|two| two[0].keep != two[1].keep) {
        return Err(study.wrong_key("keep", "all searches of a study have one `keep`"));
    }
    Ok(())
}
