//! The page as a reader sees it in a browser: on a desktop and on a phone, in light and dark mode, and on
//! paper. Screenshots are stored under `target/report-screenshots`.

mod history;
mod links;
mod live;
mod orders;
mod other_run;
mod sheets;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

use kqps_observation::Run;
use kqps_observation::run::{Outcome, Purpose};
use kqps_verdict::figure::State;
use kqps_verdict::judge::{LoadPoint, RunVerdict, judge};
use serde_json::{Value, json};

use crate::support::browser::{Browser, Screen};
use crate::support::starts::{expect_bounds, lines_of};
use crate::support::{comparison, hosts, sample, study};

/// Checks the page and returns `{wrong: [fault], charts: {id: {kind of mark: count}}}`.
const CHECKS: &str = include_str!("support/checks.js");

/// The narrowest phone, in pixels. It looks like the others, so no screenshot of it is stored.
const NARROWEST: u32 = 360;

const SCREENS: [(&str, Screen); 5] = [
    ("desk-light", Screen { width: 1280, height: 900, phone: false, dark: false }),
    ("desk-dark", Screen { width: 1280, height: 900, phone: false, dark: true }),
    ("phone-light", Screen { width: 390, height: 844, phone: true, dark: false }),
    ("phone-dark", Screen { width: 390, height: 844, phone: true, dark: true }),
    ("narrow-light", Screen { width: NARROWEST, height: 740, phone: true, dark: false }),
];

/// A sheet of A4 between its margins, 182 mm wide.
const PAPER: Screen = Screen { width: 688, height: 1000, phone: false, dark: false };

/// Writes the page of a run to the folder of its screenshots.
fn written(name: &str, run: &Run) -> PathBuf {
    stored(name, &kqps_report::page(run, &judge(run)))
}

/// Writes a page to the folder of its screenshots.
fn stored(name: &str, page: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let directory = target.join("report-screenshots");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join(name).with_extension("html");
    fs::write(&file, page).unwrap();
    file
}

#[test]
fn it_is_readable_on_every_screen_and_fetches_nothing() {
    let run = sample::run();
    let file = written("sample", &run);
    let mut browser = Browser::start();
    for (name, screen) in SCREENS {
        browser.open(&file, screen);
        let found = browser.evaluate(CHECKS);
        assert_eq!(found["wrong"], json!([]), "on {name}");
        expect_marks(&found["charts"], &judge(&run));
        if screen.width != NARROWEST {
            fs::write(file.with_file_name(name).with_extension("png"), browser.screenshot()).unwrap();
        }
    }
    expect_reasons(&mut browser);
    expect_bounds(&mut browser, &judge(&run));
    let page = format!("file://{}", file.display());
    assert!(browser.requested.iter().all(|address| *address == page), "{:?}", browser.requested);
}

#[test]
fn a_run_over_several_hosts_shows_them_and_each_players_part() {
    let file = written("hosts", &hosts::run());
    let mut browser = Browser::start();
    for (name, screen) in SCREENS {
        browser.open(&file, screen);
        assert_eq!(browser.evaluate(CHECKS)["wrong"], json!([]), "on {name}");
    }
    let said = browser.evaluate("document.body.textContent");
    let said = said.as_str().unwrap().replace('\u{a0}', " ");
    for words in [
        "The hosts",
        "The server's host",
        "192.0.2.3",
        "each player on a host of its own",
        "In no trial did players begin more than 85 µs apart",
        "began late",
        "name servers on ns1",
        "Time in the server's host",
        "17 µs",
        "one in 2)",
        "not known: a packet socket: Operation not permitted",
    ] {
        assert!(said.contains(words), "{words}");
    }
    assert!(!said.contains("on this host"), "nothing ran there");
}

/// Drop reasons stand beside the losses, with the trial that counted them, or with why there are none.
fn expect_reasons(browser: &mut Browser) {
    let rows = "[...document.querySelectorAll('table.reasons tbody tr')]\
        .map(row => [...row.children].map(cell => cell.textContent.replace(/\\s/g, '')))";
    let expected = [["SOCKET_RCVBUFF", "81234"], ["NETFILTER_DROP", "1007"], ["noreasongiven", "12"]];
    assert_eq!(browser.evaluate(rows), json!(expected));
    let said = browser.evaluate("document.body.textContent");
    let said = said.as_str().unwrap();
    for words in [
        "Counting disturbed the trial",
        "which failed: Permission denied",
        "disturbed; in no figure",
        "steady state was not looked for",
        "No canary was played",
        "No minimum detectable effect is known",
    ] {
        assert!(said.contains(words), "{words}");
    }
}

/// Every chart holds as many marks as there are figures.
fn expect_marks(charts: &Value, verdict: &RunVerdict) {
    let subjects = &verdict.subjects;
    let figures = subjects.iter().filter(|subject| subject.figure_qps.is_some()).count();
    let ceilings = subjects.iter().filter(|subject| subject.ceiling.is_some()).count();
    assert_eq!((figures, ceilings), (2, 4), "the sample has two figures and two refusals");
    assert_eq!(charts["rates"]["bars"], figures);
    assert_eq!(charts["rates"]["whiskers"], figures);
    let is_refused = |cell| verdict.figures.iter().any(|one| one.cell == cell && one.state == State::Refused);
    let refused = subjects.iter().filter(|subject| is_refused(subject.cell)).count();
    assert_eq!(refused, 1, "one subject crashed, and one is refused");
    assert_eq!(charts["rates"]["refused"], refused, "a refused figure has a mark of its own");
    assert_eq!(charts["rates"]["ceilings"], ceilings);
    let starts: usize =
        subjects.iter().filter(|one| one.figure_qps.is_some()).map(|one| one.starts.len()).sum();
    assert_eq!(charts["rates"]["dots"], starts, "a dot for each start");
    assert_eq!(charts["ceilings"]["bars"], verdict.ceilings.echoes.len() + 1);
    // Two starts of every echo except the cheapest, whose bar is cut like the player's.
    assert_eq!(charts["ceilings"]["dots"], (verdict.ceilings.echoes.len() - 1) * 2);
    assert_eq!(charts["speeds"]["lines"], 2, "a row for each core");
    for subject in subjects {
        let latency = &charts[format!("latency-{}", subject.cell)];
        let losses = &charts[format!("loss-{}", subject.cell)];
        if subject.figure_qps.is_none() {
            assert!(latency.is_null(), "the figure of {} is refused", subject.name);
            continue;
        }
        let quantiles = |point: &LoadPoint| {
            let times = [point.latency_us.p50, point.latency_us.p99, point.latency_us.p999];
            times.iter().flatten().count()
        };
        assert_eq!(latency["dots"], subject.latency.iter().map(quantiles).sum::<usize>());
        assert_eq!(latency["lines"], lines_of(subject), "no line joins different starts: {latency}");
        assert_eq!(losses["bars"], subject.losses.places.len() + 1, "places, and what is unexplained");
    }
}

#[test]
fn a_refused_figure_shows_what_was_seen_and_no_bar() {
    let mut run = sample::run();
    // A wrong answer at half of the rate, in a search that found its bounds.
    let of_nsd = run.trials.iter_mut().find(|one| one.purpose == Purpose::Latency).unwrap();
    let Outcome::Measured(trial) = &mut of_nsd.outcome else { panic!() };
    trial.accounts.correct -= 1;
    trial.accounts.wrong += 1;
    let verdict = judge(&run);
    let nsd = &verdict.subjects[0];
    assert!(nsd.figure_qps.is_none() && nsd.starts.iter().all(|start| start.bounds.is_some()));
    let file = written("refused", &run);
    let mut browser = Browser::start();
    for (name, screen) in SCREENS {
        browser.open(&file, screen);
        let found = browser.evaluate(CHECKS);
        assert_eq!(found["wrong"], json!([]), "on {name}");
        assert_eq!(found["charts"]["rates"]["bars"], 1, "of knot alone");
    }
    let seen = "document.querySelectorAll('circle.start.seen').length";
    assert_eq!(browser.evaluate(seen), 4, "a load that met the goal and one that did not, of each start");
    let text = browser.evaluate("document.querySelector('ul.starts').textContent");
    let text = text.as_str().unwrap();
    assert!(
        text.contains("met the goal") && text.contains("missed the goal") && !text.contains("held"),
        "{text}"
    );
}

#[test]
fn an_unfinished_run_shows_what_was_measured_until_then() {
    let mut run = sample::run();
    run.finished_unix_ms = None;
    // During the first search of nsd: the overload, and three trials.
    let first = run.trials.iter().position(|one| run.cells[one.cell as usize].name == "nsd").unwrap();
    run.trials.truncate(first + 4);
    let page = kqps_report::page(&run, &judge(&run));
    assert!(page.contains("did not finish") && page.contains("<code>--resume</code>"));
    let text = page.split("start 1: ").nth(1).unwrap();
    assert!(text.starts_with("no load is known to hold: "), "{text:.200}");
    run.study = "kqps find".into();
    let page = kqps_report::page(&run, &judge(&run));
    assert!(page.contains("This search did not finish") && !page.contains("--resume"));
}

#[test]
fn one_ceiling_of_the_player_is_shown_everywhere() {
    let run = sample::run();
    let verdict = judge(&run);
    let reached = verdict.ceilings.players[0].median_qps().unwrap();
    assert_eq!(verdict.subjects[0].player_ceiling_qps, Some(reached));
    let page = kqps_report::page(&run, &verdict);
    let mark = "The echo answered the player at ";
    let sentence = page.split(mark).nth(1).unwrap();
    let rate = sentence.split(" here").next().unwrap();
    let in_chart = page.split("player ceiling: ").nth(1).unwrap();
    assert!(in_chart.starts_with(rate), "{rate} and {in_chart:.40}");
}

#[test]
fn a_comparison_shows_the_ratio_of_every_block() {
    let run = comparison::run();
    let verdict = judge(&run);
    assert_eq!(verdict.comparisons[0].outcome.to_string(), "slower");
    let file = written("comparison", &run);
    let mut browser = Browser::start();
    for (name, screen) in SCREENS {
        browser.open(&file, screen);
        let found = browser.evaluate(CHECKS);
        assert_eq!(found["wrong"], json!([]), "on {name}");
        let chart = &found["charts"]["comparison-0"];
        // The ratio of each of ten blocks, and that of all; the interval is one line with two ends.
        assert_eq!(
            (&chart["dots"], &chart["medians"], &chart["whiskers"]),
            (&json!(11), &json!(1), &json!(1))
        );
        assert_eq!(chart["bands"], 1);
        let file = file.with_file_name(format!("comparison-{name}.png"));
        if screen.width != NARROWEST {
            fs::write(file, browser.screenshot()).unwrap();
        }
    }
    let said = browser.evaluate("document.body.textContent");
    assert!(said.as_str().unwrap().contains("slower: new has 4.9 %"), "{said}");
    assert!(said.as_str().unwrap().contains("fastest of 2 cells"), "A once more is none of them: {said}");
    assert!(!said.as_str().unwrap().contains("echo ceiling"), "nothing was measured of the echo");
    assert!(!said.as_str().unwrap().contains("No minimum detectable effect"), "a comparison has one");
    let heads = "[...document.querySelectorAll('table.summary thead th')].map(head => head.textContent)";
    let expected = ["subject", "rate", "CPU per million", "memory"];
    assert_eq!(browser.evaluate(heads), json!(expected), "a comparison has neither ceilings nor half loads");
}

#[test]
fn what_a_run_says_stays_text_and_on_paper_all_is_open_and_light() {
    let file = written("paper", &sample::run());
    let mut browser = Browser::start();
    browser.open(&file, Screen { dark: true, ..SCREENS[0].1 });
    let title = browser.evaluate("document.title");
    assert!(title.as_str().unwrap().starts_with("kqps: default"), "{title}");
    let made = browser.evaluate("document.querySelectorAll('script, img, [onerror]').length");
    assert_eq!(made, 0);
    let said = browser.evaluate("document.body.textContent");
    assert!(said.as_str().unwrap().matches(sample::HOSTILE).count() > 5, "it is shown, not swallowed");

    let numbered = "[...document.querySelectorAll('.answers li, table.stack tr:not(.reasons, .starts)')]
        .filter(row => row.querySelector('.grade.f') && row.textContent.includes('qps')).length";
    assert_eq!(browser.evaluate(numbered), 0, "a refused figure is not shown");
    assert_eq!(browser.evaluate("document.querySelectorAll('.grade.f').length"), 4);

    browser.on_paper();
    let closed =
        "[...document.querySelectorAll('details > *')].filter(part => !part.checkVisibility()).length";
    assert_eq!(browser.evaluate(closed), 0);
    let paper = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(paper, "rgb(255, 255, 255)");
    fs::write(file.with_extension("pdf"), browser.print()).unwrap();
}

#[test]
fn a_study_shows_every_cell_and_what_was_published() {
    let run = study::run();
    let verdict = judge(&run);
    let file = written("study", &run);
    let mut browser = Browser::start();
    for (name, screen) in SCREENS {
        browser.open(&file, screen);
        let found = browser.evaluate(CHECKS);
        assert_eq!(found["wrong"], json!([]), "on {name}");
        expect_marks_of_study(&found["charts"], &verdict);
        let file = file.with_file_name(format!("study-{name}.png"));
        if screen.width != NARROWEST {
            fs::write(file, browser.screenshot()).unwrap();
        }
    }
    expect_tables(&mut browser);
    browser.open(&file, PAPER);
    browser.on_paper();
    assert_eq!(browser.evaluate(CHECKS)["wrong"], json!([]), "on paper");
    fs::write(file.with_extension("pdf"), browser.print()).unwrap();
}

#[test]
fn a_rate_that_was_chosen_is_no_finding() {
    let run = study::run();
    let mut verdict = judge(&run);
    let page = kqps_report::page(&run, &verdict);
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what} is not on the page"));
    // A closed loop finds a rate. If the study chose the rate, the page compares what its tables show.
    let found = [
        "Fastest, with io",
        "Slowest, with io",
        "Least memory per record, with unbound: ",
        "Most, with nsd: ",
    ];
    assert!(found.map(at).is_sorted());
    assert_eq!(page.matches("Fastest, with").count(), 1);
    // Memory that scatter hides is not the least.
    for one in verdict.figures.iter_mut().filter(|one| run.cells[one.cell as usize].subject == "unbound") {
        one.memory_bytes_per_record = Some(0.0);
    }
    assert!(kqps_report::page(&run, &verdict).contains("Least memory per record, with pdns: "));
}

/// Charts along a factor have a mark for each figure, and charts of words a bar.
fn expect_marks_of_study(charts: &Value, verdict: &RunVerdict) {
    let measured = |io: &str| {
        let of_model = |name: &str| name.starts_with(&format!("echo {io} "));
        verdict.figures.iter().filter(|one| of_model(&one.name) && one.median_qps.is_some()).count()
    };
    for (series, (io, published)) in [("blocking", 3), ("poll", 1), ("event", 0)].into_iter().enumerate() {
        let chart = &charts[format!("plot-0-0-{series}")];
        let figures = if io == "blocking" { 4 } else { 3 };
        assert_eq!(measured(io), figures);
        for (kind, expected) in [
            ("medians", figures),
            ("intervals", figures),
            ("ranges", figures),
            ("means", figures),
            ("published", published),
            ("missing", 4 - figures),
        ] {
            assert_eq!(chart[kind], expected, "{kind} of {io}: {chart}");
        }
    }
    let forbidden = &charts["plot-0-0-3"];
    assert_eq!(
        (&forbidden["medians"], &forbidden["published"], &forbidden["missing"]),
        (&json!(0), &json!(1), &json!(4))
    );
    assert_eq!(charts["plot-0-0-efficiency-0"]["medians"], 4);
    assert_eq!(charts["plot-0-0-efficiency-0"]["published"], 3);
    let one_process = &charts["plot-0-1-0"];
    assert_eq!((&one_process["bars"], &one_process["published"]), (&json!(3), &json!(3)));
    assert_eq!(charts["plot-1-0-0"]["bars"], 5);
    assert_eq!(charts["links-1-0"]["medians"], 5, "a dot for each server");
    assert_eq!(charts["topology"]["places"], 19, "two caches of four cores, and three boxes of equal ones");
}

/// Every combination of factors has its figures or says why it has none.
fn expect_tables(browser: &mut Browser) {
    let text =
        "[...document.querySelectorAll('table.grid')].map(table => [...table.querySelectorAll('tbody:first-of-type tr')]
        .map(row => [...row.children].map(cell => cell.firstChild.textContent)))";
    let tables = browser.evaluate(text);
    let rates = tables[0].as_array().unwrap();
    assert_eq!(rates.len(), 4, "one row for each I/O model");
    assert!(rates.iter().all(|row| row.as_array().unwrap().len() == 1 + 4 * 3), "{rates:?}");
    let (blocking, poll, event, forbidden) = (&rates[0], &rates[1], &rates[2], &rates[3]);
    assert_eq!(blocking[0], "blocking");
    assert!(
        blocking[1].as_str().unwrap().ends_with("k\u{a0}q/s") && blocking[2] == "120k\u{a0}q/s",
        "{blocking}"
    );
    assert_eq!(blocking[3], "100\u{a0}%", "of itself");
    assert_eq!((&poll[10], &event[10]), (&json!("crashed"), &json!("not measured")));
    assert_eq!(
        (&forbidden[1], &forbidden[2], &forbidden[4]),
        (&json!("skipped"), &json!("90.0k\u{a0}q/s"), &json!("skipped"))
    );
    assert_eq!(tables[1].as_array().unwrap().len(), 4 * 4, "every combination has a row");
    let servers = tables[2].as_array().unwrap();
    assert_eq!(servers.len(), 5);
    // 561 MiB for 2 million records, in 3.4 to 3.9 seconds.
    assert_eq!((&servers[0][2], &servers[0][3]), (&json!("294\u{a0}B"), &json!("3.65\u{a0}s")));
    assert_eq!(servers[0][4], "200\u{a0}B");

    let said = browser.evaluate("document.querySelector('section.experiment').textContent");
    let said = said.as_str().unwrap();
    assert!(
        said.contains("out of file descriptors") && said.contains("the kernel forbids io_uring"),
        "{said}"
    );
    let hostile = browser.evaluate("document.querySelectorAll('script, img, [onerror]').length");
    assert_eq!(hostile, 0);

    let summary = "[...document.querySelectorAll('table.summary tbody.o0 tr')]
        .map(row => [...row.children].map(cell => cell.firstChild.textContent))";
    let summary = browser.evaluate(summary);
    let servers = summary.as_array().unwrap();
    assert_eq!(servers.len(), 5);
    for server in servers {
        let figures: Vec<&str> = server.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(figures.len(), 6);
        assert!(figures[1].ends_with('%') && figures[2].ends_with("q/s"), "{figures:?}");
        assert!(figures[3].ends_with('s') && figures[4].ends_with("MiB"), "{figures:?}");
        assert!(figures[5].ends_with("µs"), "{figures:?}");
    }

    let first = "document.querySelector('table.grid').closest('.scroll')";
    let wide = browser.evaluate(&format!("{first}.scrollWidth > {first}.clientWidth"));
    assert_eq!(wide, true, "a wide table scrolls within itself on a phone");
    let head = "document.querySelector('table.grid tbody .head').getBoundingClientRect().left";
    let before = browser.evaluate(head);
    let after = browser.evaluate(&format!("{first}.scrollLeft = 120; {head}"));
    assert_eq!(before, after, "the row's head stays in sight");
    browser.evaluate(&format!("{first}.scrollLeft = 0"));
}

#[test]
fn a_run_that_was_killed_at_once_has_a_page_too() {
    let run = Run { finished_unix_ms: None, trials: Vec::new(), ..sample::run() };
    let mut browser = Browser::start();
    for (name, run) in [("killed", run), ("nothing", Run::default())] {
        let file = written(name, &run);
        browser.open(&file, SCREENS[4].1);
        assert_eq!(browser.evaluate(CHECKS)["wrong"], json!([]), "{name}");
        let said = browser.evaluate("document.body.textContent");
        let said = said.as_str().unwrap();
        assert!(said.contains("did not finish") && !said.contains("NaN"), "{said}");
    }
}
