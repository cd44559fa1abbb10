//! Where queries were lost: a cell's flow from intended to answered, from which its losses branch off.

use kqps_verdict::judge::{CellVerdict, DropReasons, Losses, RunVerdict};

use crate::chart::{Branch, Flow, flow};
use crate::format;

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) name: String,
    /// The cell whose trials are behind it.
    pub(crate) cell: u32,
    /// The fates of its queries, in a sentence; empty if there is no drawing.
    pub(crate) caption: String,
    /// SVG; empty if there was no trial in open loop.
    pub(crate) drawing: String,
    pub(crate) reasons: Option<Reasons>,
}

#[derive(Debug)]
pub(crate) struct Reasons {
    /// The trial that counted them.
    pub(crate) trial: u64,
    /// The trial that counted the reasons, and how far they can be trusted.
    pub(crate) explanation: String,
    /// The reason, and the number of packets.
    pub(crate) rows: Vec<(String, String)>,
}

/// A panel per subject that was sent any query, in the order of the verdict.
pub(crate) fn panels(verdict: &RunVerdict) -> Vec<Panel> {
    verdict.subjects.iter().filter_map(panel).collect()
}

fn panel(subject: &CellVerdict) -> Option<Panel> {
    let is_drawn = subject.losses.accounts.intended > 0;
    let reasons = subject.drop_reasons.as_ref().map(reasons);
    (is_drawn || reasons.is_some()).then(|| Panel {
        name: subject.name.clone(),
        cell: subject.cell,
        caption: if is_drawn { fates(&subject.losses) } else { String::new() },
        drawing: if is_drawn { drawing(subject) } else { String::new() },
        reasons,
    })
}

fn reasons(reasons: &DropReasons) -> Reasons {
    let DropReasons { trial, repeats, lost, counts, failure } = reasons;
    let which = format!("Trial {trial} repeats trial {repeats}");
    let explanation = match failure {
        Some(why) => format!("{which} to count the kernel's reasons, which failed: {why}."),
        None => format!(
            "{which} and lost {} queries. These are the reasons for which the kernel dropped IP packets \
             meanwhile, on the whole host. Counting disturbed the trial, so it is in no figure.",
            format::count(*lost)
        ),
    };
    let rows = counts.iter().map(|(reason, count)| (reason_words(reason), format::count(*count))).collect();
    Reasons { trial: *trial, explanation, rows }
}

/// The kernel's name of a reason, or words for a reason that it did not specify.
fn reason_words(reason: &str) -> String {
    match reason {
        "NOT_SPECIFIED" => "no reason given".to_owned(),
        "UNLISTED" => "a reason that the kernel does not list".to_owned(),
        named => named.to_owned(),
    }
}

fn drawing(subject: &CellVerdict) -> String {
    let (name, losses) = (&subject.name, &subject.losses);
    let branches = branches(losses);
    let description: Vec<String> =
        branches.iter().map(|branch| format!("{}: {}.", branch.label, branch.note)).collect();
    let intended = losses.accounts.intended;
    let answered = intended.saturating_sub(unanswered(losses));
    let share = format::percent(answered as f64 / intended.max(1) as f64);
    flow(&Flow {
        id: &format!("loss-{}", subject.cell),
        title: &format!("Where queries to {name} were lost"),
        description: &description.join(" "),
        source: (intended, "intended", format::count(intended)),
        branches: &branches,
        mouth: ("answered", format!("{} ({share})", format::count(answered))),
    })
}

/// The fates of the queries without a correct answer, in a sentence.
fn fates(losses: &Losses) -> String {
    let accounts = &losses.accounts;
    let all = format::count(accounts.intended);
    let counts = [
        (unanswered(losses), "had no answer"),
        (accounts.late, "were answered late"),
        (accounts.wrong, "were answered wrongly"),
    ];
    let found = counts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = found.map(|(count, fate)| format!("{} {fate}", format::count(*count))).collect();
    if parts.is_empty() {
        return format!("All {all} queries were answered correctly.");
    }
    format!("Of {all} queries {}.", parts.join(", "))
}

fn unanswered(losses: &Losses) -> u64 {
    losses.accounts.unsent + losses.accounts.send_failed + losses.accounts.lost
}

/// The places in the order in which a packet passes them, and last the losses that no counter explains.
fn branches(losses: &Losses) -> Vec<Branch> {
    let whole = unanswered(losses) as f64;
    let mut branches: Vec<Branch> = losses
        .places
        .iter()
        .filter(|placed| placed.count > 0)
        .map(|placed| {
            let label = format!("{}{}", placed.place.words(), if placed.shared { " *" } else { "" });
            branch(&label, placed.count, whole)
        })
        .collect();
    if let Ok(unexplained @ 1..) = u64::try_from(losses.unexplained) {
        branches.push(branch("unexplained", unexplained, whole));
    }
    if losses.surplus > 0 {
        let note = format!("{} more than were lost", format::count(losses.surplus));
        branches.push(Branch { label: "counters".to_owned(), note, count: 0 });
    }
    branches
}

fn branch(label: &str, count: u64, whole: f64) -> Branch {
    let counted = format::count(count);
    let note =
        if whole > 0.0 { format!("{counted} ({})", format::percent(count as f64 / whole)) } else { counted };
    Branch { label: label.to_owned(), note, count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::{Accounts, Place};
    use kqps_verdict::judge::PlaceLoss;

    fn losses(places: &[(Place, u64, bool)], unexplained: i64, accounts: Accounts) -> Losses {
        let places =
            places.iter().map(|&(place, count, shared)| PlaceLoss { place, count, shared }).collect();
        Losses { accounts, places, unexplained, surplus: 0 }
    }

    fn shown(losses: &Losses) -> Vec<String> {
        let text = |row: &Branch| format!("{}: {}", row.label, row.note.replace('\u{a0}', " "));
        branches(losses).iter().map(text).collect()
    }

    #[test]
    fn places_have_their_share_of_what_had_no_answer() {
        let accounts = Accounts { intended: 100, unsent: 2, lost: 18, late: 1, ..Accounts::default() };
        let losses = losses(&[(Place::PlayerUnsent, 2, false), (Place::Softnet, 17, true)], 1, accounts);
        let expected =
            ["player, never sent: 2 (10 %)", "kernel backlog *: 17 (85 %)", "unexplained: 1 (5.0 %)"];
        assert_eq!(shown(&losses), expected);
        assert_eq!(fates(&losses), "Of 100 queries 20 had no answer, 1 were answered late.");
    }

    #[test]
    fn counters_that_explain_too_much_draw_no_branch() {
        let accounts = Accounts { intended: 10, lost: 2, ..Accounts::default() };
        let losses = Losses { surplus: 3, ..losses(&[(Place::Softnet, 5, false)], 0, accounts) };
        assert_eq!(shown(&losses)[1..], ["counters: 3 more than were lost"]);
        assert_eq!(branches(&losses)[1].count, 0);
    }
}
