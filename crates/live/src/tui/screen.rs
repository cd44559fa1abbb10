//! The drawn screen, as a function of a snapshot and of the size of the terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::chart;
use crate::figures;
use crate::hub::Snapshot;

/// How the user wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether colours may be used.
    pub is_colored: bool,
    /// Whether the drawing is paused. The command goes on.
    pub is_paused: bool,
    /// Whether the keys are explained.
    pub shows_help: bool,
}

/// The keys, with what they do.
const KEYS: [(&str, &str); 4] = [
    ("q, Ctrl-C", "end early: the trial ends, and what was counted is printed"),
    ("", "(again: end at once)"),
    ("p, space", "pause the drawing; the measurement goes on"),
    ("?, h", "show or hide this help"),
];

/// A terminal needs this much room for charts, columns and rows.
const CHARTS_FROM: (u16, u16) = (40, 18);

/// The least rows for lines of output, with the rule above them.
const LINES_LEAST: u16 = 2;

/// Draws a snapshot. On a small terminal, less is shown.
pub fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot, look: Look) {
    let area = frame.area();
    let facts = figures::facts(snapshot);
    let has_lines = !snapshot.lines.is_empty();
    // The keys have the last row of a low terminal, and the figures have the rest.
    let rows = |wanted: u16, left: &mut u16| {
        let given = wanted.min(*left);
        *left -= given;
        given
    };
    let mut left = area.height;
    let foot_rows = rows(1, &mut left);
    let head_rows = rows(1 + standing_rows(snapshot, area.width), &mut left);
    let bar_rows = rows(u16::from(figures::done(snapshot).is_some()), &mut left);
    let facts_rows = rows(u16::try_from(facts.len()).unwrap_or(u16::MAX), &mut left);
    let served = served(snapshot, area.width);
    let address_rows = rows(u16::try_from(served.len()).unwrap_or(u16::MAX), &mut left);
    let [head, bar, facts_area, charts_area, lines_area, addresses, foot] = Layout::vertical([
        Constraint::Length(head_rows),
        Constraint::Length(bar_rows),
        Constraint::Length(facts_rows),
        Constraint::Fill(if has_charts(area) { 3 } else { 0 }),
        Constraint::Fill(u16::from(has_lines || !has_charts(area))),
        Constraint::Length(address_rows),
        Constraint::Length(foot_rows),
    ])
    .areas(area);
    draw_head(frame, head, snapshot, look);
    if let Some(done) = figures::done(snapshot) {
        draw_bar(frame, bar, done, look);
    }
    draw_facts(frame, facts_area, &facts, snapshot.now.bad() > 0, look);
    if has_charts(area) {
        draw_charts(frame, charts_area, snapshot, look);
    }
    if has_lines && lines_area.height >= LINES_LEAST {
        draw_lines(frame, lines_area, snapshot);
    }
    frame.render_widget(Paragraph::new(served).style(style(look, Color::DarkGray)), addresses);
    let paused = if look.is_paused { "PAUSED  " } else { "" };
    let keys = format!("{paused}q end early  p pause  ? help");
    frame.render_widget(Paragraph::new(keys).style(style(look, Color::DarkGray)), foot);
    if look.shows_help {
        draw_help(frame, area, look);
    }
}

/// The rows of the line that says where the command stands: two if it is long.
fn standing_rows(snapshot: &Snapshot, width: u16) -> u16 {
    1 + u16::from(figures::standing_words(snapshot).chars().count() > usize::from(width))
}

/// Where else the command is shown: in one row if there is room, or else each address in a row of its own.
fn served(snapshot: &Snapshot, width: u16) -> Vec<Line<'static>> {
    let together = snapshot.addresses.join("  ");
    let is_short = together.chars().count() <= usize::from(width);
    let line = |words: &String| Line::from(shown(words));
    match &*together {
        "" => Vec::new(),
        _ if is_short => vec![line(&together)],
        _ => snapshot.addresses.iter().map(line).collect(),
    }
}

fn has_charts(area: Rect) -> bool {
    area.width >= CHARTS_FROM.0 && area.height >= CHARTS_FROM.1
}

fn style(look: Look, color: Color) -> Style {
    if look.is_colored { Style::new().fg(color) } else { Style::new() }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, look: Look) {
    let command =
        Span::styled(shown(&snapshot.command), style(look, Color::Cyan).add_modifier(Modifier::BOLD));
    let standing = Line::from(shown(&figures::standing_words(snapshot)));
    frame.render_widget(Paragraph::new(vec![Line::from(command), standing]).wrap(Wrap { trim: true }), area);
}

/// A bar of the trial's time, of characters that every terminal has.
fn draw_bar(frame: &mut Frame<'_>, area: Rect, done: f64, look: Look) {
    let width = usize::from(area.width).saturating_sub(2);
    let full = (done * width as f64).round() as usize;
    let bar = format!("[{}{}]", "=".repeat(full.min(width)), " ".repeat(width.saturating_sub(full)));
    frame.render_widget(Paragraph::new(bar).style(style(look, Color::Blue)), area);
}

fn draw_facts(
    frame: &mut Frame<'_>,
    area: Rect,
    facts: &[(&'static str, String)],
    is_any_bad: bool,
    look: Look,
) {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let line = |(name, words): &(&'static str, String)| {
        let value = if is_any_bad && *name == "bad" { style(look, Color::LightRed) } else { Style::new() };
        Line::from(vec![
            Span::styled(format!("{name:width$}"), style(look, Color::DarkGray)),
            Span::styled(shown(words), value),
        ])
    };
    frame.render_widget(Paragraph::new(facts.iter().map(line).collect::<Vec<Line<'_>>>()), area);
}

/// Rates, or the answered share of each class of clients, and latency: side by side, or one above the other on a narrow
/// terminal.
fn draw_charts(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, look: Look) {
    let intervals = snapshot.history.intervals();
    let rates = if snapshot.now.classes.is_empty() {
        chart::rates(intervals, snapshot.standing.has_connections_alone, look.is_colored)
    } else {
        chart::classes(&snapshot.now.classes, intervals, look.is_colored)
    };
    let latency = chart::latency(&snapshot.history, look.is_colored);
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    let [one, other] =
        if area.width >= 70 { Layout::horizontal(halves) } else { Layout::vertical(halves) }.areas(area);
    frame.render_widget(rates.widget(), one);
    frame.render_widget(latency.widget(), other);
}

/// The last lines of output that fit.
fn draw_lines(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let room = usize::from(area.height.saturating_sub(1));
    let hidden = snapshot.lines.len().saturating_sub(room);
    let lines: Vec<Line<'_>> =
        snapshot.lines.iter().skip(hidden).map(|line| Line::from(shown(line))).collect();
    frame.render_widget(
        Paragraph::new(lines).block(Block::new().borders(ratatui::widgets::Borders::TOP)),
        area,
    );
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, look: Look) {
    let rows = u16::try_from(KEYS.len() + 2).expect("few keys");
    let (width, height) = (74.min(area.width), rows.min(area.height));
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let line = |(key, what): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("{key:11}"), style(look, Color::Cyan)), Span::raw(*what)])
    };
    let keys = Paragraph::new(KEYS.iter().map(line).collect::<Vec<Line<'_>>>()).wrap(Wrap { trim: false });
    frame.render_widget(Clear, place);
    frame.render_widget(keys.block(Block::bordered().title(" keys ")), place);
}

/// Text from outside without characters that act on a terminal.
fn shown(text: &str) -> String {
    kqps_observation::visible::visible_line(text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kqps_observation::live::{LIVE_RANGES, live_range_of};
    use kqps_observation::{Accounts, LiveClass, LiveConnections, LiveCounts, LivePhase, LiveTimes};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::hub::Hub;
    use crate::standing::{Load, Place, Standing};

    fn snapshot() -> Snapshot {
        let hub = Hub::new("kqps find 127.0.0.1:5300\u{1b}[2J".into());
        hub.begin_trial(Standing {
            what: "127.0.0.1:5300".into(),
            cell: Some(Place { number: 2, of: 7 }),
            trial: 3,
            purpose: "search".into(),
            load: Load::Open(50_000.0),
            planned_s: Some(2.0),
            lower_qps: Some(40_000.0),
            ..Standing::default()
        });
        for at in 0..=4_u64 {
            let mut latency = [0; LIVE_RANGES];
            latency[live_range_of(90)] = 1990 * at;
            latency[live_range_of(5_000)] = 30 * at;
            hub.count(LiveCounts {
                at_s: at as f64 * 0.25,
                phase: LivePhase::Sending,
                accounts: Accounts { sent: 2_100 * at, correct: 2_020 * at, lost: at, ..Accounts::default() },
                outstanding: 79,
                rcodes: BTreeMap::from([("NOERROR".into(), 2_020 * at)]),
                latency: LiveTimes::of_ranges(latency.into_iter()),
                connections: Some(LiveConnections {
                    established: 9,
                    closed: 2,
                    ..LiveConnections::default()
                }),
                player_cpu_s: Some(0.1 * at as f64),
                subject_cpu_s: Some(0.2 * at as f64),
                ..LiveCounts::default()
            });
        }
        hub.print("trial 1 met the goal");
        hub.served_at("page http://127.0.0.1:45678/".into());
        hub.served_at("metrics http://127.0.0.1:45679/metrics".into());
        hub.read(Clone::clone)
    }

    fn drawn(width: u16, height: u16, look: Look) -> (String, bool) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let snapshot = snapshot();
        terminal.draw(|frame| draw(frame, &snapshot, look)).unwrap();
        let buffer = terminal.backend().buffer();
        let is_colored =
            buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        let rows = buffer.content().chunks(usize::from(width));
        let text: Vec<String> =
            rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect()).collect();
        (text.join("\n"), is_colored)
    }

    #[test]
    fn eighty_columns_and_24_rows_show_every_figure() {
        let (text, is_colored) = drawn(80, 24, Look { is_colored: true, ..Look::default() });
        for wanted in [
            "kqps find 127.0.0.1:5300\\x1b[2J",
            "cell 2 of 7, trial 3 (search)",
            "50,000 q/s",
            "sending, 1.0 of",
            "8,400",
            "8.4k q/s",
            "lost 4",
            "p50 96 µs, p99 5.1 ms",
            "NOERROR 8,080",
            "7 open, 9 made",
            "player 0.40 cores, subject 0.80 cores",
            "40,000 to ? q/s",
            " queries a second: sent, answered ",
            " latency: p50, p99 ",
            "trial 1 met the goal",
            "page http://127.0.0.1:45678/  metrics http://127.0.0.1:45679/metrics ",
            "q end early",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
        assert!(is_colored);
    }

    #[test]
    fn addresses_that_do_not_fit_in_a_row_have_one_each() {
        let (text, _) = drawn(60, 24, Look::default());
        let rows: Vec<&str> = text.lines().map(str::trim_end).filter(|row| row.contains("http://")).collect();
        assert_eq!(
            rows,
            ["page http://127.0.0.1:45678/", "metrics http://127.0.0.1:45679/metrics"],
            "{text}"
        );
    }

    #[test]
    fn classes_have_a_row_each_and_a_chart_of_their_answers() {
        let hub = Hub::new("kqps load 127.0.0.1 --scenario idle-connections".into());
        hub.begin_trial(Standing::default());
        for at in 1..=4_u64 {
            let class = |name: &str, attempts: u64| LiveClass {
                name: name.into(),
                accounts: Accounts { sent: 100 * at, correct: 90 * at, ..Accounts::default() },
                attempts,
                ..LiveClass::default()
            };
            let classes = vec![class("good", 0), class("attack\u{1b}", 50 * at)];
            hub.count(LiveCounts { at_s: at as f64 * 0.25, classes, ..LiveCounts::default() });
        }
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        hub.read(|snapshot| {
            terminal.draw(|frame| draw(frame, snapshot, Look::default())).unwrap();
        });
        let text: String =
            terminal.backend().buffer().content().iter().map(ratatui::buffer::Cell::symbol).collect();
        for wanted in [
            "good: sent 0.4k q/s",
            "attack\\x1b: begun 200, now 200 attempts/s",
            "answered, of each class: good",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }

    #[test]
    fn without_colour_there_is_none() {
        assert!(!drawn(80, 24, Look { shows_help: true, ..Look::default() }).1);
    }

    #[test]
    fn help_and_pause_show() {
        let (text, _) = drawn(80, 24, Look { shows_help: true, is_paused: true, ..Look::default() });
        assert!(text.contains("end early: the trial ends") && text.contains("PAUSED"), "{text}");
    }

    #[test]
    fn a_terminal_of_any_size_is_drawn_on() {
        let sizes = [1, 2, 3, 5, 8, 13, 17, 18, 39, 40, 69, 70, 79, 200];
        for (width, height) in sizes.iter().flat_map(|width| sizes.map(|height| (*width, height))) {
            for shows_help in [false, true] {
                drawn(width, height, Look { shows_help, ..Look::default() });
            }
        }
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &Snapshot::default(), Look::default())).unwrap();
    }
}
