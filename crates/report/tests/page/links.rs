//! Links within a page: to the trials behind a figure, and from terms to their definitions. Every page that the tests
//! open is searched for links that lead nowhere (`support/checks.js`).

use serde_json::{Value, json};

use super::{CHECKS, SCREENS, written};
use crate::support::browser::Browser;
use crate::support::{comparison, hosts, profiled, sample, scaling, study};

#[test]
fn figures_and_charts_lead_to_their_trials_of_which_those_that_count_come_first() {
    let file = written("links", &study::run());
    let mut browser = Browser::start();
    browser.open(&file, SCREENS[0].1);
    let count = |browser: &mut Browser, what: &str| {
        browser.evaluate(&format!("document.querySelectorAll('{what}').length")).as_u64().unwrap()
    };
    assert!(count(&mut browser, "td a.behind") > 20);
    // Marks of charts along a factor, bars, and dots of servers below links.
    assert!(count(&mut browser, "svg a circle.median") >= 10 + 5 + 4);
    assert!(count(&mut browser, "svg a text.label") >= 5);
    // A link opens what it leads to.
    for link in ["td a.behind", "svg a"] {
        browser.open(&file, SCREENS[0].1);
        browser.evaluate(&format!(
            "document.querySelector('{link}').dispatchEvent(new MouseEvent('click', {{bubbles: true, cancelable: true}}))"
        ));
        let shown =
            "document.getElementById(location.hash.slice(1)).querySelector('table').checkVisibility()";
        assert_eq!(browser.evaluate(shown), true, "{link}");
        assert!(browser.evaluate("location.hash").as_str().unwrap().starts_with("#trials-"));
    }
}

#[test]
fn trials_behind_a_figure_stand_apart_from_the_others() {
    let run = sample::run();
    let verdict = kqps_verdict::judge::judge(&run);
    let file = written("counting", &run);
    let mut browser = Browser::start();
    browser.open(&file, SCREENS[0].1);
    let nsd = &verdict.subjects[0];
    let parts = format!(
        "[...document.getElementById('trials-{}').querySelectorAll('tbody')].map(body =>
            [...body.querySelectorAll('tr[id]')].map(row => Number(row.id.replace('trial-', ''))))",
        nsd.cell
    );
    let mut counting = nsd.trials.clone();
    counting.sort_unstable();
    let all: Vec<u64> = run.trials.iter().filter(|one| one.cell == nsd.cell).map(|one| one.number).collect();
    let others: Vec<u64> = all.iter().copied().filter(|number| !counting.contains(number)).collect();
    assert!(!counting.is_empty() && !others.is_empty());
    assert_eq!(browser.evaluate(&parts), json!([counting, others]));
}

#[test]
fn the_heads_of_tables_lead_to_their_definitions_and_no_link_leads_nowhere() {
    let mut browser = Browser::start();
    let pages = [
        (
            "links-sample",
            sample::run(),
            &["figure", "ceiling", "bottleneck", "grade", "p99", "CPU-per-million"][..],
        ),
        ("links-study", study::run(), &["figure", "efficiency", "ceiling", "CPU-per-million", "finding"]),
        ("links-scaling", scaling::run(16), &["contention", "coherency", "peak", "extrapolated"]),
        ("links-comparison", comparison::run(), &["figure", "CPU-per-million"]),
        ("links-hosts", hosts::run(), &["player", "part", "skew", "figure"]),
        ("links-profiled", profiled::run(), &["figure"]),
    ];
    for (name, run, terms) in pages {
        let file = written(name, &run);
        browser.open(&file, SCREENS[0].1);
        assert_eq!(browser.evaluate(CHECKS)["wrong"], json!([]), "{name}");
        let links = "[...document.querySelectorAll('a.term')].map(link => link.getAttribute('href'))";
        let links: Value = browser.evaluate(links);
        for term in terms {
            let wanted = json!(format!("#term-{term}"));
            assert!(links.as_array().unwrap().contains(&wanted), "{name} does not explain {term}: {links}");
        }
    }
    // The words of a comparison lead to the trials of both sides.
    let file = written("links-comparison", &comparison::run());
    browser.open(&file, SCREENS[0].1);
    let sides =
        "[...document.querySelectorAll('[data-sheet=comparisons] p a')].map(link => link.textContent)";
    assert_eq!(browser.evaluate(sides), json!(["old", "old again", "new"]));
}
