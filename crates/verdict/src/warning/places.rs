//! The warning about a player that had no place for more queries.

use kqps_observation::Trial;
use kqps_observation::trial::{UNSENT_CONNECTIONS, UNSENT_WINDOW};

use super::limit::had_time;
use super::player::OFFERED_SHORT;
use super::{Code, Effect, Warning};
use crate::grade::Grade;

/// More than 0.25 % of the queries of an open loop were not sent because its window, or every connection, was full, and
/// the subject had CPU time left: what was offered was then the player's places, divided by the latency. Nothing is said
/// of a subject that was not watched, since one that is too slow fills all places, too. Of several classes of clients, the
/// warning names the one that was held back most.
pub fn few_places(trial: &Trial) -> Option<Warning> {
    let share = share(trial);
    if share <= OFFERED_SHORT || !had_time(trial) {
        return None;
    }
    let most = trial.classes.iter().max_by_key(|class| class.trial.held_back());
    let class = most.filter(|class| class.trial.held_back() > 0);
    let full = class.map_or(trial, |class| &class.trial);
    let held_back = |cause: &str| full.unsent_causes.get(cause).copied().unwrap_or(0);
    let (what, more) = if held_back(UNSENT_CONNECTIONS) >= held_back(UNSENT_WINDOW) {
        let connections = full.players.first.sockets;
        (format!("all {connections} connections had as many as they take"), "connections")
    } else {
        ("the window was full".to_owned(), "outstanding queries")
    };
    let of_class = class.map_or_else(String::new, |class| format!(" of class {}", class.name));
    let may_be = if class.is_some_and(|class| class.is_sought) {
        "good clients may bear a greater attack"
    } else {
        "the subject may be faster"
    };
    let advice = format!(
        "{:.2} % of the queries{of_class} were not sent because {what}, while the subject was not busy: {may_be} than this. \
         Allow more {more}.",
        self::share(full) * 100.0
    );
    Some(Warning::new(Code::FewPlaces, Effect::Cap(Grade::C), share, advice))
}

/// The share of the intended queries that places held back, 0 to 1.
fn share(trial: &Trial) -> f64 {
    trial.held_back() as f64 / trial.accounts.intended.max(1) as f64
}
