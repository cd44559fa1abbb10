//! The page as a whole: what the template asks for, and the template.

use askama::Template;
use kqps_observation::Run;
use kqps_verdict::judge::RunVerdict;

use crate::format;
use crate::section::answer::{self, Answer};
use crate::section::host::{self, Fact};
use crate::section::topology::{self, Package};
use crate::section::{Panel, cpu, latency, loss, rates, trials};

/// The page of a run, finished or not: one HTML document without scripts, which fetches nothing.
pub fn page(run: &Run, verdict: &RunVerdict) -> String {
    let (answers, common_reasons) = answer::of_run(run, verdict);
    let page = Page {
        run,
        headline: answer::headline(verdict),
        host_line: host::line(&run.fingerprint),
        started: format::moment(run.started_unix_ms),
        finished: run.finished_unix_ms.map_or("it did not".to_owned(), format::moment),
        answers,
        common_reasons,
        player_ceiling: answer::player_ceiling(verdict),
        rates: rates::subjects(verdict),
        ceilings: rates::ceilings(verdict),
        latency: latency::panels(verdict),
        losses: loss::panels(verdict),
        cpu: cpu::panels(run, verdict),
        cells: trials::of_run(run),
        topology: topology::of_run(run),
        host_facts: host::facts(&run.fingerprint),
        binaries: host::binaries(&run.fingerprint),
        host_further: host::further(&run.fingerprint),
        command: format::command(&run.command),
        settings: host::settings(run, &verdict.goal),
    };
    page.render().expect("the template only writes to memory")
}

/// Everything that the template lays out, ready to be read.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    run: &'a Run,
    headline: String,
    host_line: String,
    started: String,
    finished: String,
    answers: Vec<Answer>,
    common_reasons: Vec<String>,
    player_ceiling: Option<String>,
    rates: String,
    ceilings: String,
    latency: Vec<latency::Panel>,
    losses: Vec<Panel>,
    cpu: Vec<Panel>,
    cells: Vec<trials::OfCell>,
    topology: Vec<Package>,
    host_facts: Vec<Fact>,
    binaries: Vec<Fact>,
    host_further: Vec<(&'static str, Vec<Fact>)>,
    command: String,
    settings: Vec<Fact>,
}
