//! Compares the page with the verdict: its words about each start, the words that it links, and the lines that
//! it draws.

use kqps_verdict::judge::{CellVerdict, LoadPoint, RunVerdict};

use super::browser::Browser;

/// Beside every figure stands the coverage of its interval, and folded below it the bounds of each start. For a
/// refused figure, they are worded as observations and not as claims.
pub(crate) fn expect_bounds(browser: &mut Browser, verdict: &RunVerdict) {
    let table = "document.querySelector('[aria-label=\"Table of the answers\"]')";
    let cells = format!("[...{table}.querySelectorAll('td[data-label=rate]')].map(cell => cell.textContent)");
    let texts = browser.evaluate(&cells);
    let texts: Vec<&str> = texts.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect();
    assert_eq!(texts.len(), verdict.subjects.len());
    assert!(verdict.subjects.iter().any(|subject| subject.figure_qps.is_some()));
    for (subject, text) in verdict.subjects.iter().zip(texts) {
        let has_figure = subject.figure_qps.is_some();
        assert!(!text.contains("hold"), "a median is no load that holds: {text}");
        assert_eq!(text.contains(" % coverage"), has_figure, "{text}");
    }
    let starts = "[...document.querySelectorAll('ul.starts')]\
        .map(list => [list.closest('details').open, [...list.querySelectorAll('li')].map(start => start.textContent)])";
    let rows = browser.evaluate(starts);
    let rows = rows.as_array().unwrap();
    // A fourth subject never started.
    assert_eq!(rows.len(), 3);
    for (subject, row) in verdict.subjects.iter().zip(rows) {
        assert_eq!(row[0], false, "it is folded");
        let starts = row[1].as_array().unwrap();
        assert_eq!(starts.len(), subject.starts.len());
        for start in starts.iter().map(|start| start.as_str().unwrap()) {
            let held = start.contains(" held, and again at the end; ") && start.contains(" did not hold");
            assert_eq!(held, subject.figure_qps.is_some(), "{start}");
            assert_eq!(start.contains(", seen: "), subject.figure_qps.is_none(), "{start}");
        }
    }
    assert!(rows[2][1][0].as_str().unwrap().contains("answered wrongly"), "{rows:?}");
    expect_words(browser);
}

/// Every word of METHOD that the page uses in a head links to its meaning, and so does every warning.
fn expect_words(browser: &mut Browser) {
    let links = "[...document.querySelectorAll('a')].map(link => link.getAttribute('href'))";
    let links = browser.evaluate(links);
    let links: Vec<&str> = links.as_array().unwrap().iter().map(|link| link.as_str().unwrap()).collect();
    for word in
        ["figure", "bounds", "ceiling", "bottleneck", "grade", "start", "block", "lost", "wrong-answers"]
    {
        assert!(links.contains(&format!("#term-{word}").as_str()), "{word}: {links:?}");
    }
    let astray = "[...document.querySelectorAll('a[href^=\"#term-\"]')].filter(link => {\
        const meant = document.getElementById(link.getAttribute('href').slice(1));\
        return meant?.tagName !== 'DT' || !meant.nextElementSibling.textContent.trim();\
    }).length";
    assert_eq!(browser.evaluate(astray), 0, "a link that leads nowhere");
    let said = browser.evaluate("document.querySelector('.glossary').textContent");
    let said = said.as_str().unwrap();
    for word in ["kqps", "lag", "late", "figure", "bounds", "ceiling", "noisy-host", "client-drops", "canary"]
    {
        assert!(said.contains(word), "{word}");
    }
}

/// The number of latency lines of a subject: one for each quantile in each start with two loads that met the
/// goal.
pub(crate) fn lines_of(subject: &CellVerdict) -> usize {
    let quantiles: [fn(&LoadPoint) -> Option<u64>; 3] =
        [|point| point.latency_us.p50, |point| point.latency_us.p99, |point| point.latency_us.p999];
    let has_line = |block: u32, quantile: &fn(&LoadPoint) -> Option<u64>| {
        let met = subject
            .latency
            .iter()
            .filter(|point| point.block == block && point.bad_ratio <= subject.goal.loss);
        met.filter_map(quantile).count() > 1
    };
    let of_start = |block| quantiles.iter().filter(|quantile| has_line(block, quantile)).count();
    subject.starts.iter().map(|start| of_start(start.block)).sum()
}
