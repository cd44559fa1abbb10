//! The warning about a wall clock that was set while a trial was played.

use kqps_observation::Trial;

use super::{Code, Effect, Warning};

/// The wall clock of a player's host was set, by which its kernel dates replies.
pub fn clock_step(trial: &Trial) -> Option<Warning> {
    let (player, clock) =
        trial.players.iter().enumerate().find_map(|(player, facts)| Some((player, facts.wall_clock?)))?;
    let host = trial.parts.get(player).map_or_else(String::new, |part| format!(" of {}", part.host));
    let seen = if clock.steps == 0 {
        format!("The wall clock{host} changed meanwhile, since {} replies were dated", clock.misdated)
    } else {
        let way = if clock.largest_s < 0.0 { "back" } else { "forward" };
        let times =
            if clock.steps == 1 { "was set".into() } else { format!("was set {} times", clock.steps) };
        format!(
            "The wall clock{host} {times} while the load was played, by up to {:.3} s {way}, and {} replies were dated",
            clock.largest_s.abs(),
            clock.misdated
        )
    };
    let advice = format!(
        "{seen} before their queries or later than they were read. The kernel dates replies by that clock, so others may count \
         with wrong latencies, or as late. Let no program set the clock while kqps measures (date, ntpdate, chronyd, a \
         hypervisor's agent)."
    );
    Some(Warning::new(Code::ClockStep, Effect::RedoThenRefuse, clock.largest_s.abs() * 1e6, advice))
}

#[cfg(test)]
mod tests {
    use kqps_observation::trial::WallClockFacts;

    use super::*;
    use crate::evidence::is_spoiled;

    #[test]
    fn a_trial_in_which_the_clock_was_set_is_spoiled() {
        let mut trial = Trial::default();
        assert!(clock_step(&trial).is_none() && !is_spoiled(&trial));
        let mut set = |steps, largest_s, misdated| {
            trial.players.first.wall_clock = Some(WallClockFacts { steps, largest_s, misdated });
            assert!(is_spoiled(&trial));
            clock_step(&trial).unwrap().advice
        };
        let back = set(1, -3_600.0, 12);
        assert!(
            back.starts_with(
                "The wall clock was set while the load was played, by up to 3600.000 s back, and 12 replies were dated before"
            ),
            "{back}"
        );
        assert!(
            set(2, 0.25, 0)
                .contains("clock was set 2 times while the load was played, by up to 0.250 s forward")
        );
        assert!(set(0, 0.0, 7).starts_with("The wall clock changed meanwhile, since 7 replies were dated"));
    }
}
