//! Scaling efficiency: the rate of n workers as a share of n times the rate of one. It carries over between
//! machines; rates do not.

use std::collections::BTreeMap;

use kqps_observation::Run;
use kqps_observation::factors::name::{CORES, PROCESSES, THREADS, WORKERS};

use super::Figures;
use super::factor::varies;

/// Identifies cells that differ only in the number of workers.
type Family = (String, String, BTreeMap<String, String>);

/// Adds the efficiencies. The rate of one worker is the base; without it there is no efficiency.
pub(super) fn add(run: &Run, figures: &mut [Figures]) {
    let places: Vec<Option<(Family, u32)>> = figures.iter().map(|one| place(run, one)).collect();
    let efficiencies = |rate: fn(&Figures) -> Option<f64>| -> Vec<Option<f64>> {
        let known = || places.iter().zip(&*figures).filter_map(|(at, one)| Some((at.as_ref()?, rate(one)?)));
        let base = |family: &Family| {
            known().find(|((other, workers), _)| other == family && *workers == 1).map(|(_, rate)| rate)
        };
        let efficiency = |(at, one): (&Option<(Family, u32)>, &Figures)| {
            let ((family, workers), rate_qps) = (at.as_ref()?, rate(one)?);
            let base_qps = base(family)?;
            (base_qps > 0.0).then(|| rate_qps / f64::from(*workers) / base_qps)
        };
        places.iter().zip(&*figures).map(efficiency).collect()
    };
    let measured = efficiencies(|one| Some(one.median_qps?.median));
    let published = efficiencies(|one| Some(one.published.as_ref()?.rate_qps));
    for ((one, measured), published) in figures.iter_mut().zip(measured).zip(published) {
        (one.efficiency, one.published_efficiency) = (measured, published);
    }
}

/// The family of a cell and its number of workers: `workers`, or else `processes` times `threads`. `None` if
/// neither is a factor.
fn place(run: &Run, figures: &Figures) -> Option<(Family, u32)> {
    let cell = &run.cells[figures.cell as usize];
    let number = |name: &str| cell.factors.word(name).and_then(|value| value.parse::<u32>().ok());
    let (counted, workers): (&[&str], u32) = match (number(WORKERS), number(PROCESSES), number(THREADS)) {
        (Some(workers), ..) => (&[WORKERS], workers),
        (None, None, None) => return None,
        (None, processes, threads) => (&[PROCESSES, THREADS], processes.unwrap_or(1) * threads.unwrap_or(1)),
    };
    // More workers have more cores, unless the study chose them.
    let cores = if varies(run, &cell.experiment, CORES) { None } else { Some(CORES) };
    let others = cell.factors.words().iter();
    let others = others.filter(|(name, _)| !counted.contains(&name.as_str()) && Some(name.as_str()) != cores);
    let others = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    let family = (cell.experiment.clone(), cell.subject.clone(), others);
    (workers >= 1).then_some((family, workers))
}
