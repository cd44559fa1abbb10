//! How busy the threads of player and subject were in one trial.

use kqps_observation::subject::ThreadFacts;
use kqps_observation::{Run, Trial};
use kqps_verdict::judge::{CellVerdict, RunVerdict};

use super::Panel;
use crate::chart::{Bar, Bars, Fill, bars};
use crate::format;

/// Threads beyond this number are only counted.
const MOST_THREADS: usize = 6;

/// A panel per subject, of the last of the heaviest trials behind its figure.
pub(crate) fn panels(run: &Run, verdict: &RunVerdict) -> Vec<Panel> {
    let panel = |subject: &CellVerdict| {
        let (number, trial) = heaviest(run, subject)?;
        panel(subject.cell, &subject.name, number, trial)
    };
    verdict.subjects.iter().filter_map(panel).collect()
}

/// The last of the heaviest trials behind the figure of a subject, with its number.
pub(crate) fn heaviest<'a>(run: &'a Run, subject: &CellVerdict) -> Option<(u64, &'a Trial)> {
    let behind = run.trials.iter().filter(|trial| subject.trials.contains(&trial.number));
    let measured = behind.filter_map(|trial| Some((trial.number, trial.measured()?)));
    measured.max_by(|(_, a), (_, b)| a.load.offered_qps.total_cmp(&b.load.offered_qps))
}

fn panel(cell: u32, name: &str, number: u64, trial: &Trial) -> Option<Panel> {
    let mut rows = Vec::new();
    let mut left_out = add(&mut rows, &of_players(trial), Fill::Player);
    if let Some(subject) = &trial.subject {
        let threads: Vec<Named<'_>> = subject.threads.iter().map(|thread| (None, thread)).collect();
        left_out += add(&mut rows, &threads, Fill::Subject);
    }
    if rows.is_empty() {
        return None;
    }
    let mut sentences = vec![format!("Trial {number}, at {}.", format::rate(trial.load.offered_qps))];
    if left_out > 0 {
        sentences.push(format!("{left_out} threads that were less busy are not drawn."));
    }
    if let Some(subject) = &trial.subject {
        let memory = format::bytes(subject.pss_bytes.unwrap_or(subject.rss_bytes));
        sentences.push(format!("Memory of the subject: {memory}."));
    }
    let said = |row: &Bar| format!("{}: {}, {}.", whose(row.fill), row.label, row.note);
    let description = rows.iter().map(said).collect::<Vec<_>>().join(" ");
    let drawing = bars(&Bars {
        id: &format!("cpu-{cell}"),
        title: &format!("CPU time of the threads while {name} was measured"),
        description: &description,
        rows: &rows,
        at_least: 1.0,
        cut: false,
        tick: format::busy,
    });
    Some(Panel {
        name: name.to_owned(),
        caption: sentences.join(" "),
        drawing,
        link: Some(format!("trial-{number}")),
        cells: Vec::new(),
    })
}

/// A thread, and the name of its host if several players took part.
type Named<'a> = (Option<&'a str>, &'a ThreadFacts);

/// The threads of all players.
fn of_players(trial: &Trial) -> Vec<Named<'_>> {
    let hosts = trial.parts.iter().map(|part| Some(part.host.as_str())).chain(std::iter::repeat(None));
    let players = trial.players.iter().zip(hosts);
    players.flat_map(|(player, host)| player.per_thread.iter().map(move |thread| (host, thread))).collect()
}

/// Adds the busiest threads that used CPU time. Returns how many further threads used some.
fn add(rows: &mut Vec<Bar>, threads: &[Named<'_>], fill: Fill) -> usize {
    let mut busy: Vec<&Named<'_>> = threads.iter().filter(|(_, thread)| thread.busy > 0.0).collect();
    busy.sort_by(|(_, a), (_, b)| b.busy.total_cmp(&a.busy));
    rows.extend(busy.iter().take(MOST_THREADS).map(|(host, thread)| {
        let note = format!("core {}: {}{}", thread.cpu, format::busy(thread.busy), user_part(thread));
        let name = host.map_or_else(|| thread.name.clone(), |host| format!("{host} {}", thread.name));
        Bar::plain(name, note, Some(thread.busy), fill)
    }));
    busy.len().saturating_sub(MOST_THREADS)
}

/// The legend's name for threads of this colour.
fn whose(fill: Fill) -> &'static str {
    if fill == Fill::Player { "player" } else { "subject" }
}

/// How much of a thread's busy time was spent in its own program and not in the kernel, if known. Spinning
/// without work is spent in the program.
fn user_part(thread: &ThreadFacts) -> String {
    let busy_s = thread.cpu_s - thread.awake_s;
    let user_s = thread.cpu_user_s.map(|user_s| (user_s - thread.awake_s).max(0.0));
    let share = user_s.filter(|_| busy_s > 0.0).map(|user_s| (user_s / busy_s).min(1.0));
    share.map_or(String::new(), |share| format!(" ({} user)", format::busy(share)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::NonEmpty;
    use kqps_observation::trial::PlayerFacts;

    fn threads(count: u32) -> Vec<ThreadFacts> {
        (0..count)
            .map(|cpu| ThreadFacts { busy: f64::from(cpu) / 10.0, cpu, ..ThreadFacts::default() })
            .collect()
    }

    #[test]
    fn idle_threads_are_not_drawn_and_many_are_counted() {
        let trial = Trial {
            players: NonEmpty::one(PlayerFacts { per_thread: threads(9), ..PlayerFacts::default() }),
            ..Trial::default()
        };
        let drawn = panel(0, "nsd", 7, &trial).unwrap();
        assert_eq!(drawn.drawing.matches("bar player").count(), 6);
        assert!(drawn.caption.contains("2 threads"), "{}", drawn.caption);
        assert!(panel(0, "nsd", 7, &Trial::default()).is_none());
    }

    #[test]
    fn user_time_is_shown_if_it_is_known() {
        let known = ThreadFacts { cpu_s: 2.0, cpu_user_s: Some(0.5), ..ThreadFacts::default() };
        assert_eq!(user_part(&known), " (25\u{a0}% user)");
        assert_eq!(user_part(&ThreadFacts { cpu_s: 2.0, ..ThreadFacts::default() }), "");
    }
}
