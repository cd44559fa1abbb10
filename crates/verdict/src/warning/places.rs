//! The warning about a player that had no place for more queries.

use kqps_observation::Trial;
use kqps_observation::trial::{UNSENT_CONNECTIONS, UNSENT_WINDOW};

use super::limit::had_time;
use super::player::OFFERED_SHORT;
use super::{Code, Effect, Warning};
use crate::grade::Grade;

/// More than 0.25 % of the queries of an open loop were not sent because its window, or every connection, was full, and
/// the subject had CPU time left: what was offered was then the player's places, divided by the latency. Nothing is said
/// of a subject that was not watched, since one that is too slow fills all places, too.
pub fn few_places(trial: &Trial) -> Option<Warning> {
    let held_back = |cause: &str| trial.unsent_causes.get(cause).copied().unwrap_or(0);
    let (for_window, for_connections) = (held_back(UNSENT_WINDOW), held_back(UNSENT_CONNECTIONS));
    let share = trial.held_back() as f64 / trial.accounts.intended.max(1) as f64;
    if share <= OFFERED_SHORT || !had_time(trial) {
        return None;
    }
    let (what, more) = if for_connections >= for_window {
        let connections = trial.players.first.sockets;
        (format!("all {connections} connections had as many as they take"), "connections")
    } else {
        ("the window was full".to_owned(), "outstanding queries")
    };
    let advice = format!(
        "{:.2} % of the queries were not sent because {what}, while the subject was not busy: the subject may be faster \
         than this. Allow more {more}.",
        share * 100.0
    );
    Some(Warning::new(Code::FewPlaces, Effect::Cap(Grade::C), share, advice))
}
