//! A socket of the player, as the relay sees it: its IDs, and the decision for each.

use kqps_kernel::Address;

use super::fault::Fault;
use super::outbox::Outbox;

const IDS: usize = 1 << 16;

/// How many IDs are made up in turn.
const MADE_UP: u16 = 1 << 10;

/// The state of one ID on one flow.
#[derive(Clone, Copy, Default)]
struct Id {
    used_by: UsedBy,
    /// Whether a query with it was passed on and the subject has not answered yet.
    passed_on: bool,
    /// The number of the last query with it, counted over all flows.
    query: u32,
    /// The fault of its reply.
    fault: Option<Fault>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum UsedBy {
    #[default]
    Neither,
    Player,
    Relay,
}

/// A reply of the subject that answers no open query.
pub(super) struct Stray;

/// A reply that waits for the next one on its flow.
pub(super) struct Held {
    /// The number of its query.
    pub(super) query: u32,
    pub(super) bytes: Box<[u8]>,
    /// When it leaves even without a next one.
    pub(super) until_ns: u64,
}

pub(super) struct Flow {
    pub(super) client: Address,
    /// The socket that passes its queries on; `None` if the relay answers by itself.
    pub(super) back: Option<Outbox>,
    pub(super) held: Option<Held>,
    ids: Box<[Id]>,
    first_id: Option<u16>,
    made_up: u16,
    /// IDs that both the player used and the relay made up.
    pub(super) clashes: u64,
    /// Queries whose ID the player had used before.
    pub(super) repeated: u64,
}

impl Flow {
    pub(super) fn new(client: Address, back: Option<Outbox>) -> Self {
        let ids = vec![Id::default(); IDS].into_boxed_slice();
        Self { client, back, held: None, ids, first_id: None, made_up: 0, clashes: 0, repeated: 0 }
    }

    /// Notes a query with its number over all flows and its fault.
    #[inline]
    pub(super) fn asked(&mut self, id: u16, query: u32, fault: Option<Fault>) {
        self.first_id.get_or_insert(id);
        let entry = &mut self.ids[usize::from(id)];
        self.clashes += u64::from(entry.used_by == UsedBy::Relay);
        self.repeated += u64::from(entry.used_by == UsedBy::Player);
        let passed_on = self.back.is_some() && fault != Some(Fault::DropQuery);
        *entry = Id { used_by: UsedBy::Player, passed_on, query, fault };
    }

    /// The number of the query that this reply of the subject answers, and its fault.
    #[inline]
    pub(super) fn answered(&mut self, id: u16) -> Result<(u32, Option<Fault>), Stray> {
        let entry = &mut self.ids[usize::from(id)];
        if std::mem::take(&mut entry.passed_on) { Ok((entry.query, entry.fault)) } else { Err(Stray) }
    }

    /// Queries that were passed on and never answered.
    pub(super) fn unanswered(&self) -> u64 {
        self.ids.iter().filter(|entry| entry.passed_on).count() as u64
    }

    /// An ID that the player has never used on this flow: one just before its first, which a player that
    /// counts upwards uses last. If the player has used it all the same, that counts as a clash.
    pub(super) fn make_up_id(&mut self) -> u16 {
        let first_id = self.first_id.unwrap_or_default();
        let id = first_id.wrapping_sub(1 + self.made_up % MADE_UP);
        self.made_up = self.made_up.wrapping_add(1);
        let entry = &mut self.ids[usize::from(id)];
        if entry.used_by == UsedBy::Player {
            self.clashes += 1;
        } else {
            entry.used_by = UsedBy::Relay;
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_id_is_one_that_the_player_comes_to_last() {
        let mut flow = Flow::new(Address::default(), None);
        for id in 7..=60_000 {
            flow.asked(id, 0, None);
        }
        let made_up: Vec<u16> = (0..9).map(|_| flow.make_up_id()).collect();
        assert_eq!(made_up, [6, 5, 4, 3, 2, 1, 0, 65_535, 65_534]);
        assert_eq!(flow.clashes, 0);
    }

    #[test]
    fn an_id_that_both_use_is_a_clash() {
        let mut flow = Flow::new(Address::default(), None);
        flow.asked(7, 0, None);
        assert_eq!(flow.make_up_id(), 6);
        flow.asked(6, 0, None);
        assert_eq!(flow.clashes, 1, "the player used it after the relay");
        flow.asked(5, 0, None);
        flow.make_up_id();
        assert_eq!(flow.clashes, 2, "the relay used it after the player");
    }
}
