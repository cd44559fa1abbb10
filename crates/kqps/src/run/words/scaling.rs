//! How far the servers of a study scale: the fitted law of every series, and why a series has none.

use kqps_observation::Run;
use kqps_observation::trial::rate_unit;
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::rate::rate;
use kqps_verdict::scaling::{ScalingSeries, player_limited, refusals, sentence};

use super::wrapped;

/// The series of a whole run; empty if nothing was measured at several numbers of workers.
pub(crate) fn of_run(run: &Run, verdict: &RunVerdict) -> String {
    let text = series_text(run, &verdict.scaling.iter().collect::<Vec<_>>());
    if text.is_empty() { text } else { text + "\n" }
}

/// The series of one experiment.
pub(super) fn of_experiment(run: &Run, verdict: &RunVerdict, experiment: &str) -> String {
    series_text(run, &verdict.scaling.iter().filter(|one| one.experiment == experiment).collect::<Vec<_>>())
}

fn series_text(run: &Run, series: &[&ScalingSeries]) -> String {
    let mut text = String::new();
    for one in series {
        let Some(fit) = &one.fit else { continue };
        let is_alone = |cell: &u32| run.cells[*cell as usize].has_connections_alone();
        let unit = rate_unit(one.cells.iter().any(is_alone));
        let with_unit = |qps: f64| format!("{} {unit}", rate(qps));
        if text.is_empty() {
            text += &wrapped(
                "",
                "How far it scales, by the Universal Scalability Law; each range holds the truth with 95 %:",
            );
        }
        text += &wrapped("- ", &format!("{}: {}.", whose(one), sentence(fit, &with_unit)));
    }
    let notes = refusals(series).into_iter().chain(player_limited(series));
    text.extend(notes.map(|sentence| wrapped("", &sentence)));
    text
}

fn whose(series: &ScalingSeries) -> String {
    let parts =
        [series.experiment.as_str(), series.name.as_str()].into_iter().filter(|part| !part.is_empty());
    let published = if series.is_published { ", published" } else { "" };
    format!("{}, by {}{published}", parts.collect::<Vec<_>>().join(", "), series.factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_verdict::scaling::{Law, RatesAt, fit};

    fn series(sizes: &[u32], refused: Option<&str>) -> ScalingSeries {
        let law = Law { alone_qps: 10_000.0, contention: 0.1, coherency: 0.01 };
        let at = |workers: &u32| RatesAt {
            workers: *workers,
            starts_qps: [0.99, 1.0, 1.01].map(|factor| factor * law.rate_qps(f64::from(*workers))).into(),
        };
        ScalingSeries {
            experiment: "table".into(),
            name: "io mmsg".into(),
            factor: "workers".into(),
            is_published: false,
            cells: Vec::new(),
            sizes: Vec::new(),
            left_out: Vec::new(),
            player_limited: Vec::new(),
            fit: fit(&sizes.iter().map(at).collect::<Vec<_>>(), 0.0, 1),
            refused: refused.map(str::to_owned),
        }
    }

    #[test]
    fn a_fit_has_a_paragraph_and_a_refusal_its_reason() {
        let (fitted, refused) = (series(&[1, 2, 4, 8], None), series(&[1, 2], Some("it has 2 cores")));
        let run = Run::default();
        let text = series_text(&run, &[&fitted, &refused]);
        for wanted in ["- table, io mmsg, by workers: contention 0.", "q/s", "extrapolated"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(text.contains("How far it scales is not known for io mmsg: it has 2 cores.\n"), "{text}");
        let alone = series_text(&run, &[&refused]);
        assert_eq!(alone, "How far it scales is not known: it has 2 cores.\n");
        assert_eq!(series_text(&run, &[]), "");
    }
}
