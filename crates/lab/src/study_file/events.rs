//! Checks events of a study: each is part of loads with a rate, which are long enough to show what it does.

use kqps_observation::factors::name;
use kqps_observation::question::Path;
use kqps_testbed::cell_event::CellEvent;

use super::possible::PossibleSettings;
use super::{Experiment, RawLoad, StudyFile};
use kqps_files::toml_file::TomlError;

/// Why an experiment over several hosts has no cells with an event.
pub(super) const EVENT_ON_ONE_HOST: &str = "an event happens on one host so far, and this run has several";

/// The shortest load with an event, seconds: time before it, for its effect, and after it.
const SECONDS_LEAST: f64 = 3.0;

/// Checks that loads with events have a rate and are long enough, and that a path that gets worse is one of kqps's own.
pub(super) fn check(
    study: &StudyFile,
    experiment: &Experiment,
    load: &RawLoad,
    settings: &PossibleSettings<'_>,
) -> Result<(), TomlError> {
    let words = settings.get(name::EVENT).map(Vec::as_slice).unwrap_or_default();
    let of = &experiment.name;
    for (word, event) in words.iter().filter_map(|one| Some((one.word(), CellEvent::read(one.word()).ok()?)))
    {
        let is_long =
            load.rates_qps.is_some() && load.seconds.is_some_and(|seconds| seconds >= SECONDS_LEAST);
        let is_own_path = match settings.get(name::PATH) {
            // The path of a resolver to the servers of its Internet.
            _ if settings.contains_key(name::INTERNET) => true,
            Some(paths) => paths.iter().all(|path| path.word() == Path::Veth.word()),
            None => experiment.path.unwrap_or(study.path) == Path::Veth,
        };
        let what = if !is_long {
            format!(
                "an event needs loads with a rate, of {SECONDS_LEAST} s and more: load = {{ rates_qps = [1000], seconds = 10 }}"
            )
        } else if event.is_outage() && !settings.contains_key(name::INTERNET) {
            format!("`{word}` is of servers of an Internet in a box: internet = \"small\"")
        } else if event.is_of_path() && !is_own_path {
            format!("`{word}` makes the path worse, and other programs use `loopback`, too: path = \"veth\"")
        } else {
            continue;
        };
        return Err(study.wrong_value(name::EVENT, word, format!("experiment `{of}`: {what}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(load: &str, settings: &str) -> Result<StudyFile, TomlError> {
        let head = "name = \"a\"\ntitle = \"A\"\nquestion = \"Q\"\n";
        let text = format!("{head}load = {load}\n[[experiment]]\nname = \"e\"\ntitle = \"E\"\n{settings}\n");
        StudyFile::read("a.toml", &text)
    }

    #[test]
    fn an_event_is_part_of_a_load_that_shows_it() {
        let long = "{ rates_qps = [1000], seconds = 5 }";
        study(long, "factors = { \"subject.event\" = [\"none\", \"reload\", \"stop=300ms\"] }").unwrap();
        study(long, "path = \"veth\"\nfixed = { \"subject.event\" = \"loss=5%\" }").unwrap();
        let resolver = "fixed = { internet = \"small\", \"subject.event\" = \"standstill=1s\" }";
        study(long, &format!("subjects = [\"unbound-resolver\"]\n{resolver}")).unwrap();
        study("{ closed_s = 1 }", "fixed = { \"subject.event\" = \"none\" }").unwrap();
        for (load, settings, wanted) in [
            ("{ closed_s = 5 }", "fixed = { \"subject.event\" = \"reload\" }", "loads with a rate"),
            ("{ search = \"quick\" }", "fixed = { \"subject.event\" = \"reload\" }", "loads with a rate"),
            (
                "{ rates_qps = [1000], seconds = 1 }",
                "fixed = { \"subject.event\" = \"reload\" }",
                "of 3 s and more",
            ),
            (long, "fixed = { \"subject.event\" = \"loss=5%\" }", "path = \"veth\""),
            (long, "fixed = { \"subject.event\" = \"outage=tld\" }", "internet = \"small\""),
            (long, "fixed = { \"subject.event\" = \"relaod\" }", "expected none, reload"),
            (long, "fixed = { \"subject.event\" = \"stop=0s\" }", "above 0"),
        ] {
            let error = study(load, settings).unwrap_err().to_string();
            assert!(error.contains(wanted), "{settings}: {error}");
        }
    }
}
