//! The order of a run: every block is a random permutation of all cells. The same seed gives the same order, so
//! that a resumed run continues as it began.

/// The cells of one block (from 0), as indices in the order in which they are measured.
pub fn of_block(seed: u64, block: u32, cells: usize) -> Vec<usize> {
    // Each block has its own random stream: a run that begins at block 3 needs nothing of blocks 0 to 2.
    let mut random =
        fastrand::Rng::with_seed(seed ^ (u64::from(block) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut order: Vec<usize> = (0..cells).collect();
    random.shuffle(&mut order);
    order
}

/// Decides between cells of a block with the same number of trials: the least value has the next turn.
pub(crate) fn draw(seed: u64, block: u32, trials: usize, cell: usize) -> u64 {
    let round = (u64::from(block) + 1) << 32 | trials as u64;
    let mut random = fastrand::Rng::with_seed(seed ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ cell as u64);
    random.u64(..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_first_as_often_as_any_other() {
        let mut first = [0; 3];
        for round in 0..300 {
            let of_round = (0..3).min_by_key(|&cell| draw(7, 1, round, cell)).unwrap();
            first[of_round] += 1;
        }
        assert!(first.iter().all(|count| (70..=130).contains(count)), "{first:?}");
    }

    #[test]
    fn every_block_has_every_cell_once_in_an_order_of_its_own() {
        let blocks: Vec<_> = (0..6).map(|block| of_block(7, block, 12)).collect();
        for block in &blocks {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        }
        assert!(blocks.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(blocks[3], of_block(7, 3, 12));
    }
}
