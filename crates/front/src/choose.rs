//! Choosing among the usable back ends.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::ids::RandomIds;
use super::policy::Choice;

/// A back end that can be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The number of the back end in the worker.
    pub(super) back_end: u16,
    pub(super) weight: u32,
    /// The number of queries outstanding at it.
    pub(super) outstanding: usize,
    /// A hash of the name of the back end.
    pub(super) name_hash: u64,
}

/// Chooses one of the candidates, of which there must be at least one. `turn` counts the choices of one rule, and
/// `name` is the qname.
pub(super) fn choose(
    choice: Choice,
    candidates: &[Candidate],
    turn: &mut u64,
    name: &[u8],
    random: &mut RandomIds,
) -> u16 {
    if let [only] = candidates {
        return only.back_end;
    }
    let weights = || candidates.iter().map(|candidate| u64::from(candidate.weight)).sum::<u64>();
    match choice {
        Choice::Random => {
            let all = u32::try_from(weights()).unwrap_or(u32::MAX);
            by_weight(candidates, u64::from(random.below(all)))
        }
        Choice::RoundRobin => {
            let at = *turn % weights();
            *turn = turn.wrapping_add(1);
            by_weight(candidates, at)
        }
        Choice::LeastOutstanding => {
            let first = *turn;
            *turn = turn.wrapping_add(1);
            least(candidates, first)
        }
        Choice::Hash => highest(candidates, name_hash(name)),
    }
}

/// The candidate at position `at`, if each occupies as many positions as its weight.
fn by_weight(candidates: &[Candidate], mut at: u64) -> u16 {
    for candidate in candidates {
        match at.checked_sub(u64::from(candidate.weight)) {
            None => return candidate.back_end,
            Some(rest) => at = rest,
        }
    }
    candidates[0].back_end
}

/// The candidate with the fewest outstanding queries for its weight. Equal candidates take turns.
fn least(candidates: &[Candidate], turn: u64) -> u16 {
    // Compares a / v with b / w without a division.
    let load = |one: &Candidate, other: &Candidate| one.outstanding as u64 * u64::from(other.weight);
    let (late, first) = candidates.split_at((turn % candidates.len() as u64) as usize);
    let in_turn = first.iter().chain(late);
    let least = in_turn.min_by(|one, other| load(one, other).cmp(&load(other, one)));
    least.map_or(candidates[0].back_end, |candidate| candidate.back_end)
}

/// Rendezvous hashing: each candidate draws a number for the name, and the highest number wins. Weights are applied
/// as in Schindelhauer and Schomaker, "Weighted Distributed Hash Tables" (2005).
fn highest(candidates: &[Candidate], name: u64) -> u16 {
    let score = |candidate: &Candidate| {
        let drawn = mix(candidate.name_hash ^ name);
        // A number in (0, 1): the upper 53 bits, plus a half.
        let uniform = ((drawn >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -f64::from(candidate.weight) / uniform.ln()
    };
    let highest = candidates.iter().max_by(|one, other| score(one).total_cmp(&score(other)));
    highest.map_or(candidates[0].back_end, |candidate| candidate.back_end)
}

/// The finalizer of `MurmurHash3` (public domain), after which every bit depends on all input bits.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

/// A hash that ignores the case of the name. It is the same in every run, so that caches behind the front stay
/// warm.
pub(super) fn name_hash(name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    let mut lower = [0; 256];
    let lower = &mut lower[..name.len().min(256)];
    lower.copy_from_slice(&name[..lower.len()]);
    lower.make_ascii_lowercase();
    hasher.write(lower);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(weights: &[u32], outstanding: &[usize]) -> Vec<Candidate> {
        let each = weights.iter().zip(outstanding).zip(0..);
        each.map(|((&weight, &outstanding), back_end)| Candidate {
            back_end,
            weight,
            outstanding,
            name_hash: name_hash(&[back_end as u8]),
        })
        .collect()
    }

    fn chosen(choice: Choice, candidates: &[Candidate], names: usize) -> Vec<u16> {
        let (mut turn, mut random) = (0, RandomIds::new().unwrap());
        let each = 0..names as u64;
        each.map(|name| choose(choice, candidates, &mut turn, &name.to_be_bytes(), &mut random)).collect()
    }

    fn shares(chosen: &[u16]) -> [f64; 3] {
        [0, 1, 2].map(|one| chosen.iter().filter(|&&other| other == one).count() as f64 / chosen.len() as f64)
    }

    #[test]
    fn rounds_are_by_weight() {
        assert_eq!(chosen(Choice::RoundRobin, &candidates(&[1, 2, 1], &[0; 3]), 8), [0, 1, 1, 2, 0, 1, 1, 2]);
    }

    #[test]
    fn chance_and_hash_keep_to_the_weights() {
        let weighted = candidates(&[1, 2, 5], &[0; 3]);
        for choice in [Choice::Random, Choice::Hash] {
            let seen = shares(&chosen(choice, &weighted, 40_000));
            for (seen, expected) in seen.into_iter().zip([0.125, 0.25, 0.625]) {
                // The standard deviation is at most 0.0025.
                assert!((seen - expected).abs() < 0.025, "{choice:?}: {seen} for {expected}");
            }
        }
    }

    #[test]
    fn the_least_loaded_for_its_weight_is_chosen() {
        assert_eq!(chosen(Choice::LeastOutstanding, &candidates(&[1, 1, 1], &[3, 2, 9]), 1), [1]);
        assert_eq!(chosen(Choice::LeastOutstanding, &candidates(&[1, 1, 5], &[3, 2, 9]), 1), [2]);
        assert_eq!(chosen(Choice::LeastOutstanding, &candidates(&[2, 1, 1], &[0, 0, 0]), 4), [0, 1, 2, 0]);
    }

    #[test]
    fn when_one_goes_only_its_names_move() {
        let all = candidates(&[1, 1, 1], &[0; 3]);
        let (before, after) = (chosen(Choice::Hash, &all, 1000), chosen(Choice::Hash, &all[..2], 1000));
        assert!(before.contains(&2));
        for (before, after) in before.into_iter().zip(after) {
            assert!(before == after || before == 2);
        }
        assert_eq!(name_hash(b"\x03WWW\0"), name_hash(b"\x03www\0"));
    }
}
