//! The page as a whole: the data for the template, and the template.

use askama::Template;
use kqps_history::Beside;
use kqps_observation::Run;
use kqps_observation::visible::visible;
use kqps_verdict::breaking::seen_run;
use kqps_verdict::caveats;
use kqps_verdict::judge::{Moment, RunVerdict};

use crate::format;
use crate::prose::Prose;
use crate::section::answer::{self, Answer};
use crate::section::glossary::{self, Term};
use crate::section::host::{self, Fact};
use crate::section::hosts::{self, Hosts};
use crate::section::study::{self, Study};
use crate::section::summary::{self, Summary};
use crate::section::topology::{self, Topology};
use crate::section::{
    Panel, comparison, cpu, latency, loss, other_run, profile, rates, residence, speeds, trials,
};

/// The study name of a run that `kqps find` stored.
const OF_FIND: &str = "kqps find";

/// The page of a run, finished or not: one HTML document without scripts, which fetches nothing. Text from
/// outside is escaped where it appears, and its control characters appear as numbers.
pub fn page(run: &Run, verdict: &RunVerdict) -> String {
    page_beside(run, verdict, None)
}

/// As [`page`], with another run beside it.
pub fn page_beside(run: &Run, verdict: &RunVerdict, other: Option<&Beside>) -> String {
    let started = format::moment(run.started_unix_ms);
    let page = Page { run, started, body: body(run, verdict, other, Moment::AtEnd) };
    visible(&page.render().expect("the template only writes to memory")).into_owned()
}

/// The body of the page: all that is shown.
pub(crate) fn body(run: &Run, verdict: &RunVerdict, other: Option<&Beside>, moment: Moment) -> String {
    let run = &*seen_run(run);
    let goes_on = moment == Moment::SoFar;
    let (answers, mut common_reasons) = answer::of_run(run, verdict);
    common_reasons.extend(caveats::of_run(run, verdict));
    let server = host::of_subjects(run);
    let body = Body {
        run,
        headline: headline(run, verdict),
        host_line: host::line_of_run(run),
        started: format::moment(run.started_unix_ms),
        finished: match run.finished_unix_ms {
            Some(unix_ms) => format::moment(unix_ms),
            None if goes_on => "not yet".to_owned(),
            None => "it did not".to_owned(),
        },
        study: study::of_run(run, verdict),
        summary: summary::of_run(run, verdict),
        comparisons: comparison::panels(run, verdict),
        beside: other.map(other_run::section),
        answers,
        common_reasons: common_reasons.into_iter().map(Prose).collect(),
        unfinished: Prose(unfinished(run, moment).to_owned()),
        goes_on,
        terms: glossary::TERMS,
        warnings: glossary::warnings(),
        player_ceiling: answer::player_ceiling(run, verdict),
        has_ceiling: rates::has_ceiling(verdict),
        // The charts of a study's experiments show the same.
        rates: if run.question.is_some() { String::new() } else { rates::subjects(verdict) },
        ceilings: rates::ceilings(verdict),
        speeds: speeds::panel(run),
        latency: latency::panels(verdict),
        residence: residence::rows(verdict),
        losses: loss::panels(verdict),
        cpu: cpu::panels(run, verdict),
        profiles: profile::panels(run, verdict),
        cells: trials::of_run(run, verdict),
        hosts: hosts::of_run(run),
        topology: topology::of_run(run),
        host_facts: host::facts(server),
        binaries: host::binaries(server),
        host_further: host::further(server),
        command: format::command(&run.command),
        settings: host::settings(run, &verdict.goal),
    };
    let html = body.render().expect("the template only writes to memory");
    visible(&html).into_owned()
}

/// The title of the page: the outcome of a comparison, the title of a study, or the main result.
fn headline(run: &Run, verdict: &RunVerdict) -> String {
    if let Some(comparison) = verdict.comparisons.first() {
        return comparison.to_string();
    }
    let title = run.question.as_ref().map(|question| question.title.clone());
    title.filter(|title| !title.is_empty()).unwrap_or_else(|| answer::headline(run, verdict))
}

/// The sentence about an unfinished run. It names `--resume` only if kqps can resume the run: kqps did not
/// start the server of a search.
fn unfinished(run: &Run, moment: Moment) -> &'static str {
    match (run.finished_unix_ms, run.study.as_str(), moment) {
        (Some(_), ..) => "",
        (None, OF_FIND, Moment::SoFar) => "This search goes on. All that follows rests on the trials so far.",
        (None, _, Moment::SoFar) => "This run goes on. All that follows rests on the trials so far.",
        (None, OF_FIND, Moment::AtEnd) => {
            "This search did not finish. All that follows rests on the trials until then, which remain valid."
        }
        (None, _, Moment::AtEnd) => {
            "This run did not finish. All that follows rests on the trials until then; `--resume` continues it."
        }
    }
}

/// The document around the body.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    run: &'a Run,
    started: String,
    body: String,
}

/// The data for the body.
#[derive(Template)]
#[template(path = "body.html")]
struct Body<'a> {
    run: &'a Run,
    headline: String,
    host_line: String,
    started: String,
    finished: String,
    study: Option<Study>,
    summary: Option<Summary>,
    comparisons: Vec<Panel>,
    beside: Option<other_run::Section>,
    answers: Vec<Answer>,
    common_reasons: Vec<Prose>,
    player_ceiling: Option<String>,
    /// The sentence about an unfinished run; empty for others.
    unfinished: Prose,
    /// Whether the run goes on.
    goes_on: bool,
    terms: &'static [Term],
    warnings: Vec<(&'static str, &'static str)>,
    /// Whether the echo of any subject was measured; a comparison has none.
    has_ceiling: bool,
    rates: String,
    ceilings: String,
    speeds: Option<Panel>,
    latency: Vec<latency::Panel>,
    residence: Vec<residence::Row>,
    losses: Vec<loss::Panel>,
    cpu: Vec<Panel>,
    profiles: Vec<profile::Panel>,
    cells: Vec<trials::OfCell>,
    /// The hosts of the run, if it names them.
    hosts: Option<Hosts>,
    topology: Option<Topology>,
    host_facts: Vec<Fact>,
    binaries: Vec<Fact>,
    host_further: Vec<(&'static str, Vec<Fact>)>,
    command: String,
    settings: Vec<Fact>,
}
