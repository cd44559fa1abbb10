//! The conduct of a server at a query: how long it takes, and which fault it makes. Everything follows from the seed, the server
//! and the query's turn.

use kqps_recipe::Stream;

use crate::recipe::{Among, Behaviour, Fault, InternetRecipe};
use crate::server::Server;

/// These differ from the seeds of other things.
const TIMES: u64 = 0x7469_6d65_0000_0006;
const FAULTS: u64 = 0x6661_756c_0000_0007;
const JITTER: u64 = 0x6a69_7474_0000_0008;

/// Shares of queries are counted in millionths.
const MILLION: u64 = 1_000_000;

/// The place of a query among others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// It is the query with this number to its server, from 0. Faults are made in exact numbers.
    Number(u64),
    /// Its bytes have this hash. Faults are made at random.
    Hash(u64),
}

/// The conduct of a server at a query beside answering it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conduct {
    pub(crate) delay_ns: u64,
    /// The first fault of the recipe that shows, other than a delay.
    pub(crate) fault: Option<Fault>,
    /// Whether the delay is longer than the server's own.
    pub(crate) delay: Option<Fault>,
    /// The longest reply over UDP, if the fault is a small MTU.
    pub(crate) bytes: u16,
}

/// The conduct of all servers.
#[derive(Clone, Debug)]
pub(crate) struct Conducts {
    recipe: InternetRecipe,
}

impl Conducts {
    pub(crate) fn new(recipe: &InternetRecipe) -> Self {
        Self { recipe: recipe.clone() }
    }

    /// The conduct of a server, whose number is `number`, at a query.
    #[inline]
    pub(crate) fn conduct(&self, server: Server, number: u32, is_tcp: bool, turn: Turn) -> Conduct {
        let mut conduct = Conduct { delay_ns: self.own_delay_ns(server, number, turn), ..Conduct::default() };
        for (index, behaviour) in (0..).zip(&self.recipe.behaviour) {
            if !concerns(behaviour.fault, is_tcp) || !self.has(index, server, number) {
                continue;
            }
            if !shows(behaviour, self.seed(index, number), turn) {
                continue;
            }
            if matches!(behaviour.fault, Fault::Delay | Fault::SlowTcp) {
                let mut stream = Stream::with_number(self.seed(index, number), turn.number());
                conduct.delay_ns += 1000 * quantile(&behaviour.delay_us, &mut stream);
                conduct.delay = Some(behaviour.fault);
            } else if conduct.fault.is_none() {
                (conduct.fault, conduct.bytes) = (Some(behaviour.fault), behaviour.bytes);
            }
        }
        conduct
    }

    fn seed(&self, index: u64, number: u32) -> u64 {
        self.recipe.seed ^ FAULTS ^ index << 40 ^ u64::from(number)
    }

    /// Whether a server has the behaviour with this number.
    pub(crate) fn has(&self, index: u64, server: Server, number: u32) -> bool {
        let Some(behaviour) = self.recipe.behaviour.get(index as usize) else { return false };
        let is_among = match behaviour.among {
            Among::All => true,
            Among::Root => matches!(server, Server::Root(_)),
            Among::Tld => matches!(server, Server::Tld(..)),
            Among::Company => matches!(server, Server::Company(..)),
        };
        is_among && Stream::new(self.seed(index, number)).unit() < behaviour.servers
    }

    /// How many of the first `turns` queries of a transport that it concerns a behaviour shows at.
    pub(crate) fn shown(&self, index: u64, number: u32, turns: u64) -> u64 {
        let Some(behaviour) = self.recipe.behaviour.get(index as usize) else { return 0 };
        count(millionths(behaviour.queries), phase(self.seed(index, number)), turns)
    }

    fn own_delay_ns(&self, server: Server, number: u32, turn: Turn) -> u64 {
        let delay = &self.recipe.delay;
        let quantiles = match server {
            Server::Root(_) => &delay.root_us,
            Server::Tld(..) => &delay.tld_us,
            Server::Company(..) => &delay.company_us,
        };
        if quantiles.is_empty() {
            return 0;
        }
        let own = quantile(quantiles, &mut Stream::with_number(self.recipe.seed ^ TIMES, number.into()));
        let own_ns = own * 1000;
        if delay.jitter == 0.0 {
            return own_ns;
        }
        let mut stream = Stream::with_number(self.recipe.seed ^ JITTER ^ u64::from(number), turn.number());
        own_ns + (own_ns as f64 * delay.jitter * stream.unit()) as u64
    }
}

impl Turn {
    fn number(self) -> u64 {
        match self {
            Self::Number(number) | Self::Hash(number) => number,
        }
    }
}

/// Whether a fault can be made over a transport.
fn concerns(fault: Fault, is_tcp: bool) -> bool {
    match fault {
        Fault::TcpRefused | Fault::SlowTcp => is_tcp,
        Fault::Loss | Fault::Truncation | Fault::PathMtu => !is_tcp,
        _ => true,
    }
}

fn millionths(share: f64) -> u64 {
    (share * MILLION as f64).round() as u64
}

/// A number below a million, so that not all servers make their faults at the same turns.
fn phase(seed: u64) -> u64 {
    Stream::new(!seed).below(MILLION)
}

/// How many of the first `turns` turns a share falls on.
fn count(share: u64, phase: u64, turns: u64) -> u64 {
    let parts = (u128::from(turns) * u128::from(share) + u128::from(phase)) / u128::from(MILLION);
    u64::try_from(parts).unwrap_or(u64::MAX)
}

fn shows(behaviour: &Behaviour, seed: u64, turn: Turn) -> bool {
    let share = millionths(behaviour.queries);
    match turn {
        Turn::Number(number) => {
            let phase = phase(seed);
            count(share, phase, number + 1) > count(share, phase, number)
        }
        Turn::Hash(hash) => Stream::with_number(seed, hash).below(MILLION) < share,
    }
}

/// A time between quantiles.
fn quantile(quantiles: &[u64], stream: &mut Stream) -> u64 {
    let steps = quantiles.len().saturating_sub(1) as u64;
    // The place among the steps, with 32 bits after its point.
    let place = stream.below(steps << 32);
    let (step, part) = ((place >> 32) as usize, place & 0xffff_ffff);
    let (Some(&low), high) = (quantiles.get(step), quantiles.get(step + 1)) else { return 0 };
    let high = high.copied().unwrap_or(low).max(low);
    let more = (u128::from(high - low) * u128::from(part)) >> 32;
    low + u64::try_from(more).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behaviour(queries: f64) -> Behaviour {
        let text = format!("fault = 'loss'\nqueries = {queries}");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_share_of_the_queries_is_exact_at_every_server() {
        for (queries, among, expected) in
            [(0.01, 1000, 10), (0.5, 1000, 500), (1.0, 77, 77), (0.0, 1000, 0), (0.000_001, 2_000_000, 2)]
        {
            for seed in [0, 1, 77] {
                let behaviour = behaviour(queries);
                let seen = (0..among).filter(|&turn| shows(&behaviour, seed, Turn::Number(turn))).count();
                assert_eq!(seen as u64, expected, "{queries} of {among}");
                assert_eq!(count(millionths(queries), phase(seed), among), expected);
            }
        }
        // Half a query more or less is all that a share can be off.
        let third = (0..1000).filter(|&turn| shows(&behaviour(0.333), 5, Turn::Number(turn))).count();
        assert_eq!(third, 333);
    }

    #[test]
    fn times_lie_between_their_quantiles() {
        let mut stream = Stream::new(1);
        assert_eq!(quantile(&[7], &mut stream), 7);
        assert_eq!(quantile(&[7, 7], &mut stream), 7);
        let mut times: Vec<u64> = (0..10_000).map(|_| quantile(&[0, 100, 1000], &mut stream)).collect();
        times.sort_unstable();
        assert!(times[0] < 2 && times[9999] > 990, "{} {}", times[0], times[9999]);
        // The middle quantile has half of the times on either side, within five standard deviations.
        let below = times.iter().filter(|time| **time < 100).count();
        assert!(below.abs_diff(5000) < 250, "{below}");
    }
}
