//! The shipped studies show measured and published figures side by side, on the page and in the terminal. The
//! runs are made up, on a topology of four cores.

use kqps_host::Topology;
use kqps_lab::study_file::cells::lay_out;
use kqps_lab::study_file::offer::HostOffer;
use kqps_lab::study_file::{self, StudyFile};
use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::run::{CellLoad, Outcome, Purpose, Role};
use kqps_observation::trial::{LoadFacts, LoadMode};
use kqps_observation::{Run, RunTrial, Trial};
use kqps_verdict::judge::judge;

/// The answered rate of every cell.
const ANSWERED_QPS: f64 = 123_000.0;

/// A run of a study in which every cell of a closed loop answered once.
fn run(study: &StudyFile) -> Run {
    let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
    let given = HostOffer {
        topology: Topology { cores: (0..4).map(core).collect(), ..Topology::default() },
        definitions: study.subjects().unwrap().into_iter().collect(),
        ..HostOffer::default()
    };
    let layout = lay_out(study, &given).unwrap();
    let load = LoadFacts {
        mode: LoadMode::Closed,
        answered_qps: ANSWERED_QPS,
        duration_s: 1.0,
        ..LoadFacts::default()
    };
    let trial = Trial { load, ..Trial::default() };
    let is_played = |cell: &kqps_observation::Cell| {
        cell.role == Role::Subject && matches!(cell.load, CellLoad::Closed(_))
    };
    let played = layout.cells.iter().enumerate().filter(|(_, cell)| is_played(cell));
    let trials = played.map(|(cell, _)| RunTrial {
        number: cell as u64 + 1,
        cell: cell as u32,
        block: 0,
        start: cell as u64 + 1,
        purpose: Purpose::Closed,
        outcome: Outcome::Measured(Box::new(trial.clone())),
    });
    Run {
        goal: "quick".into(),
        trials: trials.collect(),
        cells: layout.cells,
        question: Some(layout.question),
        ..Run::default()
    }
}

/// Rows of the tables of one experiment on the page, as HTML.
fn rows<'a>(page: &'a str, title: &str) -> Vec<&'a str> {
    let head = title.replace('&', "&amp;");
    let sections = page.split("<section class=\"experiment\">");
    let of_it = sections.skip(1).find(|section| section.contains(&format!("<h2>{head}</h2>"))).unwrap();
    of_it.split("<tr>").filter(|row| row.contains("<td")).collect()
}

/// A rate as the page writes it: `239 kqps`, `18.8 kqps`.
fn on_page(rate_qps: f64) -> String {
    let digits = match rate_qps / 1000.0 {
        small if small < 10.0 => format!("{small:.2}"),
        middle if middle < 100.0 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    };
    format!(">{digits}k\u{a0}q/s<")
}

fn expect_side_by_side(page: &str, title: &str, published_qps: f64) {
    let rows = rows(page, title);
    let measured = on_page(ANSWERED_QPS);
    let both = |row: &&&str| row.contains(&on_page(published_qps)) && row.contains(&measured);
    assert!(rows.iter().any(|row| both(&row)), "{title}: {published_qps} beside {measured}: {rows:#?}");
}

#[test]
fn isc_echo_shows_the_best_that_was_measured_and_published() {
    let run = run(&study_file::builtin("isc-echo").unwrap());
    let page = kqps_report::page(&run, &judge(&run));
    for (title, published_qps) in [
        ("(a) Processes and I/O models, untuned client", 239_000.0),
        ("(b) Processes and I/O models, tuned client", 348_000.0),
        ("(e) Two processes, every pair of cores", 390_000.0),
    ] {
        expect_side_by_side(&page, title, published_qps);
    }
    assert!(!page.contains("<b>published</b>"), "what is to be known of a figure stands beside it");
    assert!(page.contains("A steady state was not looked for"));
}

#[test]
fn unbound_scaling_shows_every_published_figure_that_can_be_measured() {
    let study = study_file::builtin("unbound-scaling").unwrap();
    let run = run(&study);
    let page = kqps_report::page(&run, &judge(&run));
    let table = &study.experiments[0];
    let mut seen = 0;
    for published in &table.published {
        let can_be_measured = published.factors.values().all(|word| !word.0.contains("solaris"));
        for rate_qps in &published.rates_qps {
            let rows = rows(&page, &table.title);
            assert!(rows.iter().any(|row| row.contains(&on_page(*rate_qps))), "{rate_qps} is there");
            if can_be_measured {
                expect_side_by_side(&page, &table.title, *rate_qps);
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 7 * 4, "seven configurations with up to four workers");
}
