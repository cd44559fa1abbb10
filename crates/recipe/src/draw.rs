//! Random draws that stay the same in later versions: a stream of numbers, and choices by weight.

/// `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). It is implemented
/// here because the numbers of a seed must never change, and libraries do not promise that.
#[derive(Clone, Debug)]
pub struct Stream(u64);

impl Stream {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of one number under a seed.
    pub fn with_number(seed: u64, number: u64) -> Self {
        Self(Self(seed).next() ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)] // a stream has no end
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`. All are equally likely, except for a bias below `end` / 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws of an index.
#[derive(Clone, Debug)]
pub enum Draws {
    /// Every index below this is equally likely.
    Uniform(u64),
    /// By weight, in constant time: the alias method (Walker 1977, built as by Vose 1991). A slot holds the
    /// chance that its own index is drawn, and the index that is drawn otherwise.
    Alias(Vec<(f64, u32)>),
}

impl Draws {
    /// Draws by weight. There must be 1 to 2^32 - 1 weights, all finite and not negative, and not all 0.
    pub fn weighted(weights: &[f64]) -> Self {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut slots: Vec<(f64, u32)> =
            weights.iter().zip(0..).map(|(weight, index)| (weight / mean, index)).collect();
        let (mut poor, mut rich): (Vec<u32>, Vec<u32>) =
            (0_u32..).take(slots.len()).partition(|&index| slots[index as usize].0 < 1.0);
        while let (Some(&giver), Some(taker)) = (rich.last(), poor.pop()) {
            slots[taker as usize].1 = giver;
            let given = 1.0 - slots[taker as usize].0;
            slots[giver as usize].0 -= given;
            if slots[giver as usize].0 < 1.0 {
                rich.pop();
                poor.push(giver);
            }
        }
        // The remaining chances are 1 except for rounding, and each such slot is its own alias.
        Self::Alias(slots)
    }

    /// Draws an index.
    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        match self {
            Self::Uniform(end) => stream.below(*end),
            Self::Alias(slots) => {
                let index = stream.below(slots.len() as u64);
                let (chance, alias) = slots[index as usize];
                if stream.unit() < chance { index } else { u64::from(alias) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares how often each index comes in a million draws with how often it should.
    fn compare(draws: &Draws, weights: &[f64]) {
        const COUNT: u64 = 1_000_000;
        let mut stream = Stream::new(7);
        let mut seen = vec![0u64; weights.len()];
        for _ in 0..COUNT {
            seen[draws.draw(&mut stream) as usize] += 1;
        }
        let total: f64 = weights.iter().sum();
        for (index, (&seen, weight)) in seen.iter().zip(weights).enumerate() {
            let expected = COUNT as f64 * weight / total;
            let off = (seen as f64 - expected).abs();
            assert!(off <= 5.0 * expected.sqrt(), "index {index}: {seen} draws for {expected}");
        }
    }

    #[test]
    fn the_stream_has_the_published_numbers() {
        let mut stream = Stream::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| stream.next()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_follow_their_weights() {
        for weights in [&[1.0][..], &[1.0, 0.0, 3.0], &[60.0, 20.0, 10.0, 4.0, 3.0, 3.0]] {
            compare(&Draws::weighted(weights), weights);
        }
        compare(&Draws::Uniform(10), &[1.0; 10]);
        let zipf: Vec<f64> = (1..=1000).map(|rank| 1.0 / f64::from(rank)).collect();
        compare(&Draws::weighted(&zipf), &zipf);
    }
}
