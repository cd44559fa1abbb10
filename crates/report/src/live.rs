//! The page of a run that goes on: a panel with its figures of this moment, above the page of the run so far. The
//! document has one short script, which puts in what a stream of events brings (`kqps-live`). When the run is over,
//! what the script leaves is the body of the run's page, and nothing else.

use askama::Template;
use kqps_history::Beside;
use kqps_observation::Run;
use kqps_observation::visible::visible;
use kqps_verdict::judge::{Moment, RunVerdict};

use crate::chart::{MomentCourse, MomentKind, Moments, moments};
use crate::page;

/// The figures of this moment.
#[derive(Clone, Debug, Default)]
pub struct LiveInput {
    /// The command that measures, in a line.
    pub headline: String,
    /// Where the measurement stands, in a line.
    pub standing: String,
    /// Figures by name, in words.
    pub facts: Vec<(String, String)>,
    /// The figures of the intervals so far, the oldest first.
    pub moments: Vec<LiveMoment>,
    /// The classes of clients that ask; empty if there is one.
    pub classes: Vec<LiveCourse>,
    /// The last lines that the command printed.
    pub lines: Vec<String>,
    /// The result that the command printed; empty before it.
    pub result: String,
}

/// The course of a class of clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveCourse {
    /// Its name.
    pub name: String,
    /// The end of each interval, seconds since the command began, and correct replies a second in it.
    pub answered_qps: Vec<(f64, Option<f64>)>,
}

/// The classes of the lines of a chart with several classes of clients, in turn.
const OF_CLASSES: [&str; 3] = ["p50", "p99", "p999"];

/// The figures of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveMoment {
    /// The end of the interval, seconds since the command began.
    pub at_s: f64,
    /// Queries sent a second.
    pub sent_qps: Option<f64>,
    /// Correct replies a second.
    pub answered_qps: Option<f64>,
    /// The median of latency, microseconds; `None` with too few replies.
    pub p50_us: Option<f64>,
    /// The 99th percentile, microseconds; `None` with too few replies.
    pub p99_us: Option<f64>,
}

#[derive(Template)]
#[template(path = "live_panel.html")]
struct PanelPage<'a> {
    input: &'a LiveInput,
    rates: String,
    times: String,
}

/// The panel, as a fragment of HTML. Text from outside is escaped.
pub fn live_panel(input: &LiveInput) -> String {
    let until_s = input.moments.last().map_or(0.0, |moment| moment.at_s);
    let course = |name, class, of: fn(&LiveMoment) -> Option<f64>| MomentCourse {
        name,
        class,
        points: input.moments.iter().map(|moment| (moment.at_s, of(moment))).collect(),
    };
    let rates = if input.classes.is_empty() {
        vec![
            course("sent", "p999", |moment| moment.sent_qps),
            course("replies", "p50", |moment| moment.answered_qps),
        ]
    } else {
        let styled = input.classes.iter().zip(OF_CLASSES.into_iter().cycle());
        styled
            .map(|(class, style)| MomentCourse {
                name: &class.name,
                class: style,
                points: class.answered_qps.clone(),
            })
            .collect()
    };
    let rates_title =
        if input.classes.is_empty() { "Queries a second" } else { "Replies a second, by class" };
    let times = [course("p50", "p50", |moment| moment.p50_us), course("p99", "p99", |moment| moment.p99_us)];
    let draw = |id, title, kind, courses: &[MomentCourse<'_>]| {
        let description = "By time, up to now.";
        moments(&Moments { id, title, description, kind, courses, marks: &[], until_s })
    };
    let panel = PanelPage {
        input,
        rates: draw("live-rates", rates_title, MomentKind::Rates, &rates),
        times: draw("live-times", "Latency", MomentKind::Times, &times),
    };
    visible(&panel.render().expect("the template only writes to memory")).into_owned()
}

#[derive(Template)]
#[template(path = "live.html")]
struct LivePage<'a> {
    kqps_version: &'a str,
    title: &'a str,
    panel: String,
    body: &'a str,
    page_name: &'a str,
}

/// The whole document, in which a script puts the events of the stream at `events/NAME` beside it: `live` is a new
/// panel, `page` a new body below it, and `end` the body that replaces all. `body` is [`page_so_far`], [`page_body`] or
/// empty, and `page_name` is NAME, which says to the server what page the reader has.
pub fn live_page(
    title: &str,
    input: &LiveInput,
    (body, page_name): (&str, &str),
    kqps_version: &str,
) -> String {
    let page = LivePage { kqps_version, title, panel: live_panel(input), body, page_name };
    // The body is visible already, which changes nothing in it.
    visible(&page.render().expect("the template only writes to memory")).into_owned()
}

/// The body of a run's page, as [`crate::page`] has it between its tags.
pub fn page_body(run: &Run, verdict: &RunVerdict, other: Option<&Beside>) -> String {
    page::body(run, verdict, other, Moment::AtEnd)
}

/// The body of the page of a run that goes on, judged at [`Moment::SoFar`]. Nothing in it says that the run ended
/// early.
pub fn page_so_far(run: &Run, verdict: &RunVerdict) -> String {
    page::body(run, verdict, None, Moment::SoFar)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> LiveInput {
        LiveInput {
            headline: "kqps load <127.0.0.1>".into(),
            standing: "sending".into(),
            facts: vec![("sent".into(), "1,000".into())],
            moments: vec![
                LiveMoment { at_s: 0.5, sent_qps: Some(9.0), p50_us: Some(40.0), ..LiveMoment::default() },
                LiveMoment { at_s: 1.0, sent_qps: Some(9.0), p50_us: Some(50.0), ..LiveMoment::default() },
            ],
            classes: Vec::new(),
            lines: vec!["a\u{1b}[31m".into()],
            result: String::new(),
        }
    }

    #[test]
    fn several_classes_have_a_line_each() {
        let class = |name: &str| LiveCourse {
            name: name.into(),
            answered_qps: vec![(0.5, Some(9.0)), (1.0, Some(8.0))],
        };
        let panel = live_panel(&LiveInput { classes: vec![class("good"), class("phones")], ..input() });
        assert!(panel.contains("Replies a second, by class") && panel.contains("phones"), "{panel}");
    }

    #[test]
    fn a_panel_has_its_figures_and_escapes_text() {
        let panel = live_panel(&input());
        assert!(panel.contains("&#60;127.0.0.1&#62;") && panel.contains("1,000"), "{panel}");
        assert_eq!(panel.matches("<svg class=\"chart\"").count(), 2, "{panel}");
        assert!(!panel.contains('\u{1b}') && panel.contains("\\x1b"), "{panel}");
        assert!(!live_panel(&LiveInput::default()).contains("<svg"));
        let result = live_panel(&LiveInput { result: "sent <7>".into(), ..LiveInput::default() });
        assert!(result.contains("<pre id=\"live-result\">sent &#60;7&#62;</pre>"), "{result}");
    }

    #[test]
    fn the_document_has_one_script_and_the_body_as_it_is() {
        let page = live_page("kqps", &input(), ("<main>here</main>", "7/3"), "0.1.0");
        assert_eq!(page.matches("<script").count(), 1);
        assert!(page.contains("<div id=\"page\"><main>here</main></div>"), "{page}");
    }
}
