//! `--live` in headless Chromium: figures move while kqps measures, and what is left is the report, or what a load printed.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use kqps_kernel::process::{Signal, signal};
use kqps_observation::{Accounts, Store, Trial};
use serde_json::Value;

use super::browser::{Browser, Screen};
use super::openmetrics::expect_valid;
use super::scraped::{TYPES, expect_accounts, scrape, text_at_end};
use super::terminal::STUDY;
use super::{Killed, PATIENCE, answer, shown_at, values_of};
use crate::load::bench::{Bench, kqps};

const SCREEN: Screen = Screen { width: 1200, height: 800, phone: false, dark: false };

/// A command that shows a page, and the browser that follows it.
struct Followed {
    child: Killed,
    address: SocketAddr,
    browser: Browser,
    /// Texts that the command prints on its two outputs.
    printed: JoinHandle<String>,
    said: JoinHandle<String>,
    /// Texts that the page showed of the standing and of the figures.
    standings: BTreeSet<String>,
    facts: BTreeSet<String>,
}

/// The page's state: whether all is measured, its figures, its standing, and the trials in the tables of its report so
/// far.
const SHOWN: &str = r##"[document.body.dataset.over === "1", document.getElementById("live-facts")?.innerText ?? "",
    document.getElementById("live-standing")?.innerText ?? "", document.querySelectorAll("#page tr[id^=trial-]").length]"##;

/// The links that lead nowhere: to a part that the page does not have, or to another file, which kqps does not serve.
const DEAD: &str = r##"[...document.querySelectorAll("a")].map((link) => link.getAttribute("href"))
    .filter((at) => !at.startsWith("#") || !document.getElementById(at.slice(1)))"##;

impl Followed {
    /// Starts a command with `--live`, and opens its page.
    fn start(command: &mut Command, mut browser: Browser) -> Self {
        command.args(["--live", "0", "--linger", "1h"]);
        let mut child = Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
        let (address, _) = shown_at(&mut stderr, "/");
        let stdout = child.0.stdout.take().unwrap();
        let printed = std::thread::spawn(|| std::io::read_to_string(stdout).unwrap());
        let said = std::thread::spawn(|| std::io::read_to_string(stderr).unwrap());
        browser.requested.clear();
        browser.go(&format!("http://{address}/"), SCREEN);
        let (standings, facts) = (BTreeSet::new(), BTreeSet::new());
        Self { child, address, browser, printed, said, standings, facts }
    }

    /// Looks at the page until it is as wanted. `is_so` gets whether all is measured, and the number of trials in the
    /// report so far.
    fn look_until(&mut self, is_so: impl Fn(&Self, bool, u64) -> bool) {
        let began = Instant::now();
        loop {
            let now = self.browser.evaluate(SHOWN);
            let text = |at: usize| now[at].as_str().unwrap().to_owned();
            self.facts.insert(text(1));
            self.standings.insert(text(2));
            if is_so(self, now[0] == Value::Bool(true), now[3].as_u64().unwrap()) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{:?} {now}", self.standings);
        }
    }

    /// Whether the page showed three states of the figures.
    fn has_moved(&self) -> bool {
        self.facts.iter().filter(|text| text.contains("NOERROR")).count() >= 3
    }

    fn has_stood(&self, wanted: &str) -> bool {
        self.standings.iter().any(|text| text.contains(wanted))
    }

    /// Checks that the page is that of a report, and that it asked nobody but kqps.
    fn expect_report(&mut self, file: &Path) -> String {
        let body = "document.body.innerHTML.trim()";
        let live = self.browser.evaluate(body);
        let own = format!("http://{}/", self.address);
        let asked: Vec<&String> =
            self.browser.requested.iter().filter(|url| url.starts_with("http")).collect();
        assert!(asked.iter().all(|url| url.starts_with(&own)), "{asked:?}");
        self.browser.open(file, SCREEN);
        let report = self.browser.evaluate(body);
        assert_eq!(live, report);
        assert_eq!(self.browser.evaluate("document.scripts.length"), 0, "a finished page has no script");
        report.as_str().unwrap().to_owned()
    }

    /// Asks the command to end its measurement, or its lingering.
    fn interrupt(&self) {
        signal(self.child.0.id(), Signal::Interrupt).unwrap();
    }

    /// Ends the lingering. Returns the command's status, what it printed on its two outputs, and the browser.
    fn end(mut self) -> (Option<i32>, String, String, Browser) {
        self.interrupt();
        let status = self.child.0.wait().unwrap().code();
        let (printed, said) = (self.printed.join().unwrap(), self.said.join().unwrap());
        assert!(said.contains("Serving until "), "{said}");
        (status, printed, said, self.browser)
    }
}

fn sum<'a>(accounts: impl Iterator<Item = &'a Accounts>) -> Accounts {
    accounts.fold(Accounts::default(), |mut sum, one| {
        sum.add(one);
        sum
    })
}

#[test]
fn figures_move_while_a_study_is_played_and_the_end_is_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let text = STUDY.replace("A tiny study", "A tiny study <b>of one</b>");
    // Its trials end by themselves in the second run only.
    let command = |name: &str, seconds: &str| {
        let (study, out) = (folder.path().join(name).with_extension("toml"), folder.path().join(name));
        std::fs::write(&study, text.replace("3600", seconds)).unwrap();
        let mut command = kqps(&["run", &study.display().to_string(), "--records", "200", "--seed", "5"]);
        command.args(["--metrics", "0", "--json", "--out"]).arg(&out).env_remove("KQPS_INSTALL_SUBJECTS");
        (command, out)
    };
    let (mut long, out) = command("long", "3600");
    let mut page = Followed::start(&mut long, Browser::start());
    page.look_until(|page, is_over, _| {
        assert!(!is_over, "it was over before its figures moved");
        let has_all = ["1,000 q/s", "fixed rate", "sending"].iter().all(|wanted| page.has_stood(wanted));
        has_all && page.has_moved()
    });
    let trial = scrape(page.address).into_keys().find(|name| name.starts_with("kqps_trial_info")).unwrap();
    let run = Store::read(&out.join("run.sqlite")).unwrap();
    let is_named = |cell: &kqps_observation::Cell| {
        let begin = format!(
            r#"kqps_trial_info{{cell="{}",role="{}",purpose="fixed rate""#,
            cell.name,
            cell.role.word()
        );
        trial.starts_with(&begin)
    };
    assert!(run.cells.iter().any(is_named), "{trial}");
    assert!(answer(page.address, b"nonsense\r\n\r\n").0.starts_with("HTTP/1.1 400 "));
    page.interrupt();
    page.look_until(|_, is_over, _| is_over);
    let report = page.expect_report(&out.join("report.html"));
    assert!(report.contains("A tiny study &lt;b&gt;of one&lt;/b&gt;"), "{report}");
    let (status, _, said, browser) = page.end();
    assert_eq!(status, Some(130), "{said}");

    let (mut short, out) = command("short", "0.5");
    let mut page = Followed::start(&mut short, browser);
    page.look_until(|_, is_over, _| is_over);
    let run = Store::read(&out.join("run.sqlite")).unwrap();
    let trials: Vec<&Trial> = run.trials.iter().filter_map(|one| one.measured()).collect();
    let at_end = text_at_end(page.address);
    expect_accounts(&values_of(&at_end), &sum(trials.iter().map(|trial| &trial.accounts)));
    expect_valid(&[&at_end], &TYPES);
    page.expect_report(&out.join("report.html"));
    // If a busy host leaves the study no figure, its status is 3. What is shown does not depend on that.
    let (status, _, said, _) = page.end();
    assert!(matches!(status, Some(0 | 3)), "{status:?}: {said}");
}

#[test]
fn figures_move_during_a_load_and_the_end_is_what_it_printed() {
    let bench = Bench::new();
    let result = "document.getElementById('live-result').textContent";
    let mut page = Followed::start(&mut bench.load(&["-Q", "2k", "-l", "1h"]), Browser::start());
    page.look_until(|page, is_over, _| {
        assert!(!is_over, "it was over before its figures moved");
        page.has_moved() && page.has_stood("sending") && page.has_stood("2,000 q/s")
    });
    page.interrupt();
    page.look_until(|_, is_over, _| is_over);
    let shown = page.browser.evaluate(result);
    assert_eq!(page.browser.evaluate("document.querySelectorAll('svg.chart').length"), 2);
    assert_eq!(page.browser.evaluate("document.getElementById('live-facts')"), Value::Null);
    let (status, printed, _, browser) = page.end();
    assert_eq!((status, shown.as_str()), (Some(130), Some(&*printed)));

    // With JSON the page has the words, which hold the same counts.
    let mut page = Followed::start(&mut bench.load(&["-Q", "10k", "-l", "200ms", "--json"]), browser);
    page.look_until(|_, is_over, _| is_over);
    let shown = page.browser.evaluate(result).as_str().unwrap().to_owned();
    let (status, printed, _, _) = page.end();
    let trial: Trial = serde_json::from_str(&printed).unwrap();
    let Accounts { sent, correct, wrong, late, lost, .. } = trial.accounts;
    assert_eq!((status, sent), (Some(0), 2000));
    let line = format!("sent {sent} = correct {correct} + wrong {wrong} + late {late} + lost {lost}");
    assert!(shown.contains(&line), "{line} in {shown}");
}

#[test]
fn a_search_shows_its_report_so_far_and_ends_with_it() {
    let bench = Bench::new();
    let (queries, out) = (bench.queries().display().to_string(), bench.folder.path().join("out"));
    let mut find = kqps(&["find", &bench.echo.address, "-d", &queries, "--no-ceiling", "--lag", "10s"]);
    // So narrow a goal takes longer than any look at the page.
    find.args(["--width", "0.01%", "--time-limit", "1h", "--metrics", "0", "--json", "--out"]).arg(&out);
    let mut page = Followed::start(&mut find, Browser::start());
    page.look_until(|page, is_over, trials| {
        assert!(!is_over, "it was over before its page had a trial");
        trials > 0 && page.has_stood("trial ")
    });
    assert_eq!(page.browser.evaluate(DEAD), serde_json::json!([]));
    let text = page.browser.evaluate("document.getElementById('page').textContent");
    let text = text.as_str().unwrap();
    assert!(text.contains("This search goes on.") && !text.contains("interrupted before"), "{text}");
    let trial = format!(r#"kqps_trial_info{{cell="{}",role="subject",purpose="#, bench.echo.address);
    assert!(scrape(page.address).keys().any(|name| name.starts_with(&trial)));
    page.interrupt();
    page.look_until(|_, is_over, _| is_over);
    let values = values_of(&text_at_end(page.address));
    page.expect_report(&out.join("report.html"));
    let (_, printed, said, _) = page.end();
    // The last object is the verdict.
    let trials: Vec<Trial> =
        printed.lines().rev().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!trials.is_empty(), "{said}");
    expect_accounts(&values, &sum(trials.iter().map(|trial| &trial.accounts)));
}
