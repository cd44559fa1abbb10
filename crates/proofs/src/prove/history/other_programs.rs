//! Judgements of the same series by Apache Otava and `ruptures`, programs by others. How far they agree is reported.
//! They judge by other rules, so the proof asks of kqps alone that it is right.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use comfy_table::{Table, presets};
use kqps_programs::python;
use serde_json::Value;

use super::simulate::{Host, changes, series};
use crate::prove::{Bench, Size};

const PACKAGES: [&str; 2] = ["apache-otava==0.8.0", "ruptures==1.1.10"];

/// As many as a history of few series takes.
const PERMUTATIONS: u32 = 9_999;

const SCRIPT: &str = include_str!("other_programs.py");

/// A kind of series, with the places of its changes.
struct Kind {
    name: &'static str,
    host: Host,
    length: usize,
    /// The place of each change, and the level from there on.
    steps: &'static [(usize, f64)],
}

const KINDS: [Kind; 6] = [
    Kind { name: "no change", host: Host::CALM, length: 100, steps: &[] },
    Kind { name: "no change, disturbed", host: Host::DISTURBED, length: 100, steps: &[] },
    Kind { name: "5 % less", host: Host::CALM, length: 60, steps: &[(30, 0.95)] },
    Kind { name: "10 % less, disturbed", host: Host::DISTURBED, length: 60, steps: &[(30, 0.90)] },
    Kind { name: "10 % less and back", host: Host::CALM, length: 90, steps: &[(30, 0.90), (60, 1.0)] },
    Kind { name: "8 % less, 3 runs ago", host: Host::CALM, length: 33, steps: &[(30, 0.92)] },
];

/// How many series one program judged rightly, and what it claimed beside.
#[derive(Default)]
struct Tally {
    /// Series whose changes it found, all of them to one run, and no other.
    exact: u32,
    /// Changes that are not there.
    false_ones: u32,
    missed: u32,
    failed: u32,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    if bench.size == Size::Small && bench.only.is_none() {
        eprintln!("programs by others are for the whole form: they are installed from PyPI");
        return Ok(());
    }
    let count = bench.choose(5, 100);
    let samples: Vec<(usize, Vec<_>)> = (0..KINDS.len())
        .flat_map(|kind| (0..count).map(move |seed| (kind, simulated(&KINDS[kind], seed))))
        .collect();
    let logs: Vec<Vec<f64>> =
        samples.iter().map(|(_, samples)| samples.iter().map(|sample| sample.log).collect()).collect();
    let mut found = by_others(bench, &logs)?;
    let ours: Vec<Value> = samples
        .iter()
        .map(|(_, samples)| {
            Value::from(changes(samples, PERMUTATIONS).iter().map(|one| one.at).collect::<Vec<_>>())
        })
        .collect();
    found.insert("kqps".into(), ours);
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["series", "program", "right", "missed", "false", "failed"]);
    for (kind, facts) in KINDS.iter().enumerate() {
        for (program, answers) in &found {
            let of_kind = samples.iter().zip(answers).filter(|((other, _), _)| *other == kind);
            let tally = of_kind.fold(Tally::default(), |tally, (_, answer)| tally.with(facts.steps, answer));
            let Tally { exact, missed, false_ones, failed } = tally;
            table.add_row([
                facts.name.to_owned(),
                program.clone(),
                format!("{exact} of {count}"),
                missed.to_string(),
                false_ones.to_string(),
                failed.to_string(),
            ]);
            if program == "kqps" {
                let is_right = f64::from(exact) >= 0.85 * count as f64;
                ensure!(is_right, "{}: kqps is right in {exact} of {count} series", facts.name);
            }
        }
    }
    eprintln!("{table}");
    Ok(())
}

fn simulated(kind: &Kind, seed: u64) -> Vec<kqps_history::Sample> {
    let mut samples = series(kind.host, kind.length, usize::MAX, 1.0, 5_000 + seed);
    for &(at, level) in kind.steps {
        let before = kind.steps.iter().take_while(|step| step.0 < at).last().map_or(1.0, |step| step.1);
        for sample in &mut samples[at..] {
            sample.log += f64::ln(level / before);
        }
    }
    samples
}

impl Tally {
    fn with(mut self, steps: &[(usize, f64)], answer: &Value) -> Self {
        let Some(places) = answer.as_array() else {
            self.failed += 1;
            return self;
        };
        let places: Vec<usize> = places.iter().filter_map(|place| Some(place.as_u64()? as usize)).collect();
        let is_near = |place: usize, step: usize| place.abs_diff(step) <= 1;
        let missed = steps.iter().filter(|step| !places.iter().any(|place| is_near(*place, step.0))).count();
        let others = places.iter().filter(|place| !steps.iter().any(|step| is_near(**place, step.0))).count();
        self.exact += u32::from(missed == 0 && others == 0);
        (self.missed, self.false_ones) = (self.missed + missed as u32, self.false_ones + others as u32);
        self
    }
}

/// The places that the programs by others find, in the order of the series; an error in words where one fails.
fn by_others(bench: &Bench, logs: &[Vec<f64>]) -> Result<BTreeMap<String, Vec<Value>>> {
    let python = python::environment(&bench.folder.path().join("venv"), PACKAGES)?.join("python");
    let script = bench.folder.path().join("other_programs.py");
    std::fs::write(&script, SCRIPT)?;
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("no python")?;
    let mut input = child.stdin.take().context("a pipe")?;
    input.write_all(&serde_json::to_vec(logs)?)?;
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "the script of the programs by others failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
