//! How long queries stayed in the server's host, beside the latency that the players saw in the same trial: a table.

use kqps_observation::Quantiles;
use kqps_verdict::judge::{CellResidence, RunVerdict};

use crate::format;

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) trial: u64,
    /// The trial, what was stamped of it, and what is doubtful; or why there is no residence.
    pub(crate) note: String,
    pub(crate) load: String,
    /// The quantiles that are shown, each with residence and latency.
    pub(crate) times: Vec<(String, String)>,
}

/// A row for each subject whose packets were to be stamped, in the order of the verdict.
pub(crate) fn rows(verdict: &RunVerdict) -> Vec<Row> {
    let row = |name: &str, residence: &CellResidence| Row {
        name: name.to_owned(),
        trial: residence.trial,
        note: note(residence),
        load: format::rate(residence.load_qps),
        times: times(residence),
    };
    let with = verdict.subjects.iter().filter_map(|one| Some(row(&one.name, one.residence.as_ref()?)));
    with.collect()
}

fn note(residence: &CellResidence) -> String {
    let trial = residence.trial;
    if let Some(why) = &residence.failure {
        return format!("trial {trial}, not known: {why}");
    }
    let (pairs, share) = (format::count(residence.pairs), format::percent(residence.stamped_share));
    let sample = if residence.one_in > 1 { format!(", one in {}", residence.one_in) } else { String::new() };
    let doubt = residence.doubt.as_ref().map_or_else(String::new, |doubt| format!("; {doubt}"));
    format!("trial {trial}, {pairs} queries stamped ({share}{sample}){doubt}")
}

fn times(residence: &CellResidence) -> Vec<(String, String)> {
    let quantiles: [fn(&Quantiles) -> Option<u64>; 3] = [|of| of.p50, |of| of.p90, |of| of.p99];
    let both = |of: fn(&Quantiles) -> Option<u64>| {
        (format::known_us(of(&residence.residence_us)), format::known_us(of(&residence.latency_us)))
    };
    quantiles.into_iter().map(both).collect()
}
