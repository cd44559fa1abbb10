//! How long the trials of a proof wait for replies. A reply that is late only because the host held up a process proves
//! nothing. The trial is then made again, and waits twice as long, so that it tolerates a pause twice as long.

use std::time::Duration;

use anyhow::{Result, bail};

/// How often a trial is made.
pub(super) const ATTEMPTS: u32 = 5;

/// How long the first attempt waits for a reply.
const FIRST: Duration = Duration::from_millis(500);

/// How long a trial waits for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    timeout: Duration,
}

/// Makes a trial until one proves something: an attempt returns what it proved, or why it proves nothing.
pub(super) fn until_proved<T>(
    attempts: u32,
    mut attempt: impl FnMut(Patience) -> Result<Result<T, String>>,
) -> Result<T> {
    let mut doubts = Vec::new();
    for patience in Patience::of_attempts().take(attempts as usize) {
        match attempt(patience)? {
            Ok(proved) => return Ok(proved),
            Err(doubt) => {
                eprintln!("this trial proves nothing, and is made again: {doubt}");
                doubts.push(doubt);
            }
        }
    }
    bail!("no trial of {attempts} proves anything: {}", doubts.join(" | "));
}

impl Patience {
    /// The patience of each attempt, in order.
    pub(super) fn of_attempts() -> impl Iterator<Item = Self> {
        (0..ATTEMPTS).map(|attempt| Self { timeout: FIRST * 2_u32.pow(attempt) })
    }

    /// The flags of a player that waits so long for a reply, and listens long enough after its last query for late ones. It
    /// sends every query in the end, also after a pause.
    pub(super) fn flags(self) -> [String; 6] {
        let drain = format!("{}ms", (self.timeout * 3).as_millis());
        ["-t", &self.timeout(), "--drain", &drain, "--lag", "1m"].map(str::to_owned)
    }

    /// How long a trial waits for a reply, as a flag's value.
    pub(super) fn timeout(self) -> String {
        format!("{}ms", self.timeout.as_millis())
    }

    /// The delay of replies that must be late, microseconds: far from the timeout and from the end of the drain.
    pub(super) fn late_us(self) -> u64 {
        2 * self.timeout_us()
    }

    /// The longest sum of pauses of server and player that a trial tolerates, microseconds. The rest of the timeout is
    /// for their usual work.
    pub(super) fn away_most_us(self) -> u64 {
        self.timeout_us() * 3 / 5
    }

    fn timeout_us(self) -> u64 {
        self.timeout.as_micros() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_waits_twice_as_long() {
        let all: Vec<Patience> = Patience::of_attempts().collect();
        assert_eq!(all.len(), ATTEMPTS as usize);
        assert_eq!(all[0].flags(), ["-t", "500ms", "--drain", "1500ms", "--lag", "1m"]);
        assert_eq!(all[1].flags(), ["-t", "1000ms", "--drain", "3000ms", "--lag", "1m"]);
        assert_eq!(all[2].late_us(), 4_000_000);
        // A pause that spoils one attempt may be twice as long in the next.
        assert!(all.windows(2).all(|two| two[1].away_most_us() == 2 * two[0].away_most_us()));
        // Late replies come after the timeout, and before the player stops listening.
        assert_eq!((all[0].away_most_us(), all[0].late_us()), (300_000, 1_000_000));
    }
}
