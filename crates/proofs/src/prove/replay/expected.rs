//! Queries that a replay must send, computed from the known traffic by the rules of `docs/method/captures.md`: which
//! ones, when, and for which client.

use super::traffic::Traffic;

/// How the traffic is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Played {
    /// The window, microseconds after the first query. A query at its end is not in it.
    pub(super) from_us: u64,
    pub(super) to_us: Option<u64>,
    pub(super) speed: f64,
    pub(super) pile: u32,
    pub(super) repeat: u64,
    pub(super) gap_ns: u64,
}

/// A query that must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) number: u32,
    /// Nanoseconds after the trial's start.
    pub(super) due_ns: u64,
    /// The slice, and the client's number in the traffic: each slice has clients of its own.
    pub(super) client: (u32, usize),
    /// Whether it begins a connection, which takes a handshake first.
    pub(super) begins: bool,
}

impl Default for Played {
    fn default() -> Self {
        Self { from_us: 0, to_us: None, speed: 1.0, pile: 1, repeat: 1, gap_ns: 0 }
    }
}

impl Played {
    /// The player's flags.
    pub(super) fn flags(&self) -> Vec<String> {
        let Self { from_us, to_us, speed, pile, repeat, gap_ns } = *self;
        let mut flags =
            vec!["--speed".to_owned(), format!("{speed}x"), "--pile".to_owned(), pile.to_string()];
        if from_us > 0 || to_us.is_some() {
            let to = to_us.map_or_else(String::new, |to_us| format!("{to_us}us"));
            flags.extend(["--window".to_owned(), format!("{from_us}us..{to}")]);
        }
        if repeat > 1 {
            flags.extend(["-n".to_owned(), format!("{repeat}:{}us", gap_ns / 1000)]);
        }
        flags
    }

    /// Every query that must be sent, in the order of its time.
    pub(super) fn dues(&self, traffic: &Traffic) -> Vec<Due> {
        let (from_ns, capture_ns) = (self.from_us * 1000, traffic.duration_ns());
        let end_ns = self.to_us.map_or(capture_ns, |to_us| to_us * 1000);
        let slice_ns = (end_ns - from_ns).div_ceil(u64::from(self.pile));
        let scaled = |ns: u64| (ns as f64 / self.speed) as u64;
        let mut seen = Vec::new();
        let mut dues = Vec::new();
        for one in &traffic.asked {
            let begins = one.connection.is_some_and(|connection| !seen.contains(&connection));
            seen.extend(one.connection);
            // The window of a whole capture has the last query, too.
            let is_before_end = one.due_ns < end_ns || self.to_us.is_none();
            if one.due_ns < from_ns || !is_before_end {
                continue;
            }
            let since_ns = one.due_ns - from_ns;
            let slice = (since_ns / slice_ns.max(1)).min(u64::from(self.pile) - 1);
            let of_slice_ns = since_ns - slice * slice_ns;
            let slice = u32::try_from(slice).expect("one of the pile");
            for pass in 0..self.repeat {
                let begin_ns = pass * (scaled(slice_ns) + self.gap_ns);
                let due_ns = begin_ns + scaled(of_slice_ns);
                dues.push(Due { number: one.number, due_ns, client: (slice, one.client), begins });
            }
        }
        dues.sort_by_key(|due| due.due_ns);
        dues
    }
}

#[cfg(test)]
mod tests {
    use super::super::MS_NS;
    use super::super::traffic::{Fate, Query};
    use super::*;

    /// Queries of two clients at these milliseconds.
    fn traffic(dues_ms: &[u64]) -> Traffic {
        let asked = dues_ms.iter().zip(0_u32..).map(|(due_ms, number)| Query {
            number,
            due_ns: due_ms * MS_NS,
            client: number as usize % 2,
            connection: None,
            fate: Fate::None,
        });
        Traffic { asked: asked.collect(), connections: Vec::new() }
    }

    fn dues(played: Played) -> Vec<(u32, u64, (u32, usize))> {
        let dues = played.dues(&traffic(&[0, 10, 20, 40]));
        dues.iter().map(|due| (due.number, due.due_ns / MS_NS, due.client)).collect()
    }

    #[test]
    fn slices_windows_and_passes_are_those_of_the_method() {
        let usual = Played::default();
        assert_eq!(dues(usual), [(0, 0, (0, 0)), (1, 10, (0, 1)), (2, 20, (0, 0)), (3, 40, (0, 1))]);
        let window = Played { from_us: 10_000, to_us: Some(40_000), speed: 2.0, ..usual };
        assert_eq!(dues(window), [(1, 0, (0, 1)), (2, 5, (0, 0))]);
        let pile = Played { pile: 2, ..usual };
        assert_eq!(dues(pile), [(0, 0, (0, 0)), (2, 0, (1, 0)), (1, 10, (0, 1)), (3, 20, (1, 1))]);
        let twice = Played { repeat: 2, gap_ns: 5 * MS_NS, pile: 2, ..usual };
        assert_eq!(dues(twice)[4..], [(0, 25, (0, 0)), (2, 25, (1, 0)), (1, 35, (0, 1)), (3, 45, (1, 1))]);
    }

    #[test]
    fn the_flags_say_how_it_is_played() {
        assert_eq!(Played::default().flags(), ["--speed", "1x", "--pile", "1"]);
        let played =
            Played { from_us: 7, to_us: Some(9), repeat: 3, gap_ns: 50 * MS_NS, ..Played::default() };
        assert_eq!(played.flags()[4..], ["--window", "7us..9us", "-n", "3:50000us"]);
    }
}
