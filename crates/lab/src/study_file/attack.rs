//! Checks scenarios of a study: each has a rate, or a search that varies it.

use kqps_observation::factors::{Scenario, name};

use super::possible::PossibleSettings;
use super::{Experiment, RawLoad, StudyFile};
use kqps_files::toml_file::TomlError;

/// Why an experiment over several hosts has no cells with some scenarios.
pub(super) const ON_ONE_HOST: &str = "connections of attackers, and clients with addresses of loopback, are played on the subject's \
                                      host alone so far, and other hosts play here";

/// Checks that every scenario without a rate is searched, beside good clients with a rate.
pub(super) fn check(
    study: &StudyFile,
    experiment: &Experiment,
    load: &RawLoad,
    settings: &PossibleSettings<'_>,
) -> Result<(), TomlError> {
    let words = settings.get(name::SCENARIO).map(Vec::as_slice).unwrap_or_default();
    let find = |has_rate: bool| {
        let scenarios = words.iter().filter_map(|one| Scenario::read(one.word()));
        scenarios.into_iter().find(|scenario| scenario.has_rate == has_rate)
    };
    let good = settings.contains_key(name::GOOD_RATE);
    let of = &experiment.name;
    let Some(open) = find(false) else {
        if good {
            let what = "without a scenario whose rate is searched, `good_rate` does nothing: leave it out";
            return Err(study.wrong_key(name::GOOD_RATE, format!("experiment `{of}`: {what}")));
        }
        return Ok(());
    };
    let what = if load.search.is_none() {
        format!("`{0}` has no rate: write {0}=RATE, or search it", open.word)
    } else if !good {
        format!("a search varies the rate of `{}`: add `good_rate`, the rate of the good clients", open.word)
    } else if let Some(named) = find(true) {
        format!("`{}` has a rate and `{}` is searched: give each an experiment", named.word, open.word)
    } else {
        return Ok(());
    };
    Err(study.wrong_value(name::SCENARIO, open.word, format!("experiment `{of}`: {what}")))
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
    fn a_scenario_has_a_rate_or_a_search_that_varies_it() {
        let (search, rates) =
            ("{ search = \"quick\", keep = 0.99 }", "{ rates_qps = [1000], seconds = 0.1 }");
        let searched = study(search, "factors = { scenario = [\"none\", \"one-name\"], good_rate = [500] }");
        assert_eq!(searched.unwrap().loss(), Some(0.01));
        study(rates, "factors = { scenario = [\"none\", \"one-name=5k\"] }").unwrap();
        study("{ search = \"quick\" }", "fixed = { scenario = \"one-name=5k\" }").unwrap();
        for (load, settings, wanted) in [
            (rates, "fixed = { scenario = \"one-name\" }", "`one-name` has no rate: write one-name=RATE"),
            (search, "fixed = { scenario = \"one-name\" }", "add `good_rate`"),
            (search, "fixed = { good_rate = 500 }", "`good_rate` does nothing: leave it out"),
            (search, "fixed = { scenario = \"one-nane\", good_rate = 5 }", "did you mean `one-name`?"),
            (
                search,
                "factors = { scenario = [\"one-name\", \"malformed=5k\"], good_rate = [5] }",
                "give each an experiment",
            ),
            (rates, "fixed = { scenario = \"one-name=fast\" }", "with =RATE behind it"),
            ("{ search = \"quick\", keep = 0 }", "", "keep: expected a share of a search above 0"),
            ("{ closed_s = 1, keep = 0.9 }", "", "keep: expected a share of a search"),
        ] {
            let error = study(load, settings).unwrap_err().to_string();
            assert!(error.contains(wanted), "{settings}: {error}");
        }
    }
}
