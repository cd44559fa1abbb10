//! The fates of the frames that the program selected. Each was read or dropped; otherwise no count of the trial can be
//! trusted.

use kqps_kernel::xdp::XdpStatistics;
use kqps_stack::tcp::Retransmitted;

use crate::error::PlayError;

/// Frames of all threads that the program selected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selected {
    /// Frames that went to sockets.
    pub(crate) matched: u64,
    /// Frames that came by queues without a socket, and went to the kernel.
    pub(crate) unclaimed: u64,
}

/// The frames of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PastCounts {
    /// `None` without a program.
    pub(crate) selected: Option<Selected>,
    pub(crate) read: u64,
    /// Frames that were read without a time of the program.
    pub(crate) unstamped: u64,
    /// Dropped because no empty frame was there, or because they were too long.
    pub(crate) no_frame: u64,
    /// Dropped because too many waited to be read.
    pub(crate) ring_full: u64,
    /// Read, and thrown away for a wrong checksum.
    pub(crate) bad_checksums: u64,
    /// Segments of TCP that were sent again.
    pub(crate) retransmitted: Retransmitted,
    /// Closed connections that were given up before the server closed them.
    pub(crate) given_up: u64,
    /// Segments of TCP that the device refused.
    pub(crate) refused_segments: u64,
    /// How often a queue's device was found down that was not before.
    pub(crate) downs: u64,
    /// Queries that count as not sent, and that the device took after the drain.
    pub(crate) taken_late: u64,
}

impl PastCounts {
    /// Adds what a socket dropped.
    pub(super) fn dropped(&mut self, socket: &XdpStatistics) {
        self.no_frame += socket.rx_dropped;
        self.ring_full += socket.rx_ring_full;
    }

    /// Frames that were read, or dropped before that.
    pub(super) fn accounted(&self) -> u64 {
        self.read + self.no_frame + self.ring_full
    }

    /// Frames that were lost on this side.
    pub(crate) fn lost(&self) -> u64 {
        self.no_frame + self.ring_full + self.bad_checksums
    }

    fn add(self, other: &Self) -> Self {
        Self {
            selected: self.selected.or(other.selected),
            read: self.read + other.read,
            unstamped: self.unstamped + other.unstamped,
            no_frame: self.no_frame + other.no_frame,
            ring_full: self.ring_full + other.ring_full,
            bad_checksums: self.bad_checksums + other.bad_checksums,
            retransmitted: Retransmitted {
                syn: self.retransmitted.syn + other.retransmitted.syn,
                data: self.retransmitted.data + other.retransmitted.data,
                fin: self.retransmitted.fin + other.retransmitted.fin,
            },
            given_up: self.given_up + other.given_up,
            refused_segments: self.refused_segments + other.refused_segments,
            downs: self.downs + other.downs,
            taken_late: self.taken_late + other.taken_late,
        }
    }
}

fn sum<'a>(threads: impl Iterator<Item = &'a PastCounts>) -> PastCounts {
    threads.fold(PastCounts::default(), PastCounts::add)
}

/// Checks that all frames which the program selected were read or dropped.
pub(crate) fn check<'a>(threads: impl Iterator<Item = &'a PastCounts>) -> Result<(), PlayError> {
    let all = sum(threads);
    match all.selected {
        Some(Selected { matched, .. }) if matched != all.accounted() => {
            Err(PlayError::Frames { matched, read: all.read, dropped: all.no_frame + all.ring_full })
        }
        _ => Ok(()),
    }
}

/// Notes for the record on frames and segments that were lost on this side, or were sent again.
pub(crate) fn notes<'a>(threads: impl Iterator<Item = &'a PastCounts>) -> Vec<String> {
    let all = sum(threads);
    let Retransmitted { syn, data, fin } = all.retransmitted;
    let mut notes = Vec::new();
    let mut note = |count: u64, words: &str| {
        if count > 0 {
            notes.push(format!("{count} {words}"));
        }
    };
    note(
        all.selected.map_or(0, |selected| selected.unclaimed),
        "replies came by a queue of the device without a socket and went to the kernel, so they count as lost; give \
         the device no more queues than the player uses (ethtool -L)",
    );
    note(
        all.unstamped,
        "frames have no time of arrival, since the driver has no room for it; they count from when they were read",
    );
    note(
        all.no_frame,
        "frames were dropped because the socket had no empty frame for them, or they were too long for one (no-frame)",
    );
    note(all.ring_full, "frames were dropped because too many waited to be read (ring-full)");
    note(all.bad_checksums, "frames were thrown away for a wrong checksum (checksum)");
    note(
        all.given_up,
        "connections that the player had closed were given up before the server closed them, since new ones needed \
         their places",
    );
    note(all.refused_segments, "segments were refused by the device, and sent again later");
    note(
        all.downs,
        "times a queue found the device down, which then took nothing until it was up again (ENETDOWN)",
    );
    note(
        all.taken_late,
        "queries that count as not sent (EAGAIN, ENETDOWN) were taken by the device after the drain",
    );
    if all.retransmitted.total() > 0 {
        let kinds = format!("{syn} were SYNs, {data} had data and {fin} were FINs");
        notes.push(format!("of the segments that were sent again, {kinds}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_or_dropped_or_the_trial_is_an_error() {
        let selected = Some(Selected { matched: 30, unclaimed: 0 });
        let one = PastCounts { selected, read: 10, ring_full: 3, ..PastCounts::default() };
        let other = PastCounts { selected, read: 15, no_frame: 2, ..PastCounts::default() };
        assert!(check([one, other].iter()).is_ok());
        let error = check([one].iter()).unwrap_err().to_string();
        for part in ["30 frames", "10 were read", "3 dropped"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(check([PastCounts { selected: None, ..one }].iter()).is_ok());
        assert!(check([].iter()).is_ok());
        let said = notes([one, other].iter());
        assert!(said.len() == 2 && said[0].contains("2 frames") && said[1].contains("3 frames"), "{said:?}");
        let selected = Some(Selected { matched: 15, unclaimed: 4 });
        let said = notes([PastCounts { selected, read: 15, unstamped: 6, ..PastCounts::default() }].iter());
        assert!(said.len() == 2 && said[0].contains("4 replies") && said[1].contains("6 frames"), "{said:?}");
        let (down, late) = (PastCounts { downs: 3, ..one }, PastCounts { taken_late: 5, ..other });
        let said = notes([down, late].iter());
        let has = |start: &str| said.iter().any(|note| note.starts_with(start));
        assert!(has("3 times a queue found the device down"), "{said:?}");
        assert!(has("5 queries that count as not sent"), "{said:?}");
    }
}
