//! Scaling efficiency: what n workers give, as a share of n times what one gives. It travels between machines
//! whose rates do not.

use std::collections::BTreeMap;

use kqps_observation::Run;

use super::Figures;

/// Cells that differ in nothing but the number of workers.
type Family = (String, String, BTreeMap<String, String>);

/// Adds the efficiencies. The smallest number of workers measured is what the others are held against.
pub(super) fn add(run: &Run, figures: &mut [Figures]) {
    let places: Vec<Option<(Family, f64)>> = figures.iter().map(|one| place(run, one)).collect();
    let efficiencies = |rate: fn(&Figures) -> Option<f64>| -> Vec<Option<f64>> {
        let known = || places.iter().zip(&*figures).filter_map(|(at, one)| Some((at.as_ref()?, rate(one)?)));
        let base = |family: &Family| {
            let members = known().filter(|((other, _), _)| other == family);
            members.map(|((_, workers), rate)| (*workers, rate)).min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let efficiency = |(at, one): (&Option<(Family, f64)>, &Figures)| {
            let ((family, workers), rate_qps) = (at.as_ref()?, rate(one)?);
            let (fewest, base_qps) = base(family)?;
            (base_qps > 0.0).then(|| rate_qps / workers / (base_qps / fewest))
        };
        places.iter().zip(&*figures).map(efficiency).collect()
    };
    let measured = efficiencies(|one| Some(one.median_qps?.median));
    let published = efficiencies(|one| Some(one.published.as_ref()?.rate_qps));
    for ((one, measured), published) in figures.iter_mut().zip(measured).zip(published) {
        (one.efficiency, one.published_efficiency) = (measured, published);
    }
}

/// The family of a cell and its number of workers: `workers`, or else `processes` times `threads`. None where
/// neither is a factor.
fn place(run: &Run, figures: &Figures) -> Option<(Family, f64)> {
    let cell = &run.cells[figures.cell as usize];
    let number = |name: &str| cell.factors.get(name).and_then(|value| value.parse::<f64>().ok());
    let (counted, workers): (&[&str], f64) = match (number("workers"), number("processes"), number("threads"))
    {
        (Some(workers), ..) => (&["workers"], workers),
        (None, None, None) => return None,
        (None, processes, threads) => {
            (&["processes", "threads"], processes.unwrap_or(1.0) * threads.unwrap_or(1.0))
        }
    };
    let others = cell.factors.iter().filter(|(name, _)| !counted.contains(&name.as_str()));
    let others = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    let family = (cell.experiment.clone(), cell.subject.clone(), others);
    (workers >= 1.0).then_some((family, workers))
}
