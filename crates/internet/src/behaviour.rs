//! The conduct of a server at a query: how long it takes, and which fault it makes. Everything follows from the seed, the server
//! and the query's turn.

use std::sync::Arc;

use kqps_recipe::Stream;

use crate::answered::TcpConduct;
use crate::recipe::{Among, Behaviour, Fault, InternetRecipe};
use crate::server::Server;

/// Parts of the seeds of servers' times, faults and jitter. No two kinds of draws have the same part.
const TIMES: u64 = 0x7469_6d65_0000_0006;
const FAULTS: u64 = 0x6661_756c_0000_0007;
const JITTER: u64 = 0x6a69_7474_0000_0008;

/// Shares of queries are counted in millionths.
const MILLION: u64 = 1_000_000;

/// The conduct of a server at a query beside answering it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conduct {
    pub(crate) delay_ns: u64,
    /// The first fault of the recipe that is made, other than a delay.
    pub(crate) fault: Option<Fault>,
    /// Whether the delay is longer than the server's own.
    pub(crate) delay: Option<Fault>,
    /// The longest reply over UDP, if the fault is a small MTU.
    pub(crate) bytes: u16,
    /// The number of servers of a name, if the fault is that it has many.
    pub(crate) names: u8,
}

/// The conduct of all servers.
#[derive(Clone, Debug)]
pub(crate) struct Conducts {
    recipe: Arc<InternetRecipe>,
}

impl Conducts {
    pub(crate) fn new(recipe: &Arc<InternetRecipe>) -> Self {
        Self { recipe: recipe.clone() }
    }

    /// The conduct of a server, whose number is `number`, at a query. `turn` is the number of queries of the same transport that
    /// came to the server before.
    #[inline]
    pub(crate) fn conduct(&self, server: Server, number: u32, is_tcp: bool, turn: u64) -> Conduct {
        let mut conduct = Conduct { delay_ns: self.own_delay_ns(server, number, turn), ..Conduct::default() };
        for (index, behaviour) in (0..).zip(&self.recipe.behaviour) {
            if !concerns(behaviour.fault, is_tcp) {
                continue;
            }
            let Some(mut draws) = self.draws((index, behaviour), server, number) else { continue };
            if !is_made(millionths(behaviour.queries), draws.below(MILLION), turn) {
                continue;
            }
            if matches!(behaviour.fault, Fault::Delay | Fault::SlowTcp) {
                let mut times = Stream::with_number(draws.next(), turn);
                conduct.delay_ns += 1000 * quantile(&behaviour.delay_us, &mut times);
                conduct.delay = Some(behaviour.fault);
            } else if conduct.fault.is_none() {
                conduct.fault = Some(behaviour.fault);
                (conduct.bytes, conduct.names) = (behaviour.bytes, behaviour.names);
            }
        }
        conduct
    }

    /// Whether any server takes some time to answer.
    pub(crate) fn have_delays(&self) -> bool {
        let delay = &self.recipe.delay;
        let mut of_servers = [&delay.root_us, &delay.tld_us, &delay.company_us].into_iter().flatten();
        let is_delay = |behaviour: &Behaviour| matches!(behaviour.fault, Fault::Delay | Fault::SlowTcp);
        of_servers.any(|us| *us > 0) || self.recipe.behaviour.iter().any(is_delay)
    }

    /// Whether the conduct of a server at a query depends on its turn.
    pub(crate) fn depend_on_turns(&self) -> bool {
        !self.recipe.behaviour.is_empty() || (self.recipe.delay.jitter > 0.0 && self.have_delays())
    }

    /// The conduct of a server toward connections.
    pub(crate) fn of_connections(&self, server: Server, number: u32) -> TcpConduct {
        let mut conduct = TcpConduct::Usual;
        for (index, behaviour) in (0..).zip(&self.recipe.behaviour) {
            let is_slow = behaviour.fault == Fault::SlowTcp && behaviour.piece_bytes > 0;
            let is_refused = behaviour.fault == Fault::TcpRefused;
            if !(is_slow || is_refused) || self.draws((index, behaviour), server, number).is_none() {
                continue;
            }
            if is_refused {
                return TcpConduct::Refuse(Some(behaviour.fault));
            }
            if conduct == TcpConduct::Usual {
                let Behaviour { piece_bytes, piece_gap_us: gap_us, .. } = *behaviour;
                conduct = TcpConduct::Slow { piece_bytes, gap_us };
            }
        }
        conduct
    }

    /// Draws of a server for a behaviour and its number in the recipe; `None` if the server does not have the behaviour.
    fn draws(&self, (index, behaviour): (u64, &Behaviour), server: Server, number: u32) -> Option<Stream> {
        let is_among = match behaviour.among {
            Among::All => true,
            Among::Root => matches!(server, Server::Root(_)),
            Among::Tld => matches!(server, Server::Tld(..)),
            Among::Company => matches!(server, Server::Company(..)),
        };
        let mut stream = Stream::with_number(self.recipe.seed ^ FAULTS ^ index << 40, number.into());
        (is_among && stream.unit() < behaviour.servers).then_some(stream)
    }

    fn own_delay_ns(&self, server: Server, number: u32, turn: u64) -> u64 {
        let delay = &self.recipe.delay;
        let quantiles = match server {
            Server::Root(_) => &delay.root_us,
            Server::Tld(..) => &delay.tld_us,
            Server::Company(..) => &delay.company_us,
        };
        if quantiles.iter().all(|us| *us == 0) {
            return 0;
        }
        let own = quantile(quantiles, &mut Stream::with_number(self.recipe.seed ^ TIMES, number.into()));
        let own_ns = own * 1000;
        if delay.jitter == 0.0 {
            return own_ns;
        }
        let of_server = Stream::with_number(self.recipe.seed ^ JITTER, number.into()).next();
        let unit = Stream::with_number(of_server, turn).unit();
        own_ns + (own_ns as f64 * delay.jitter * unit) as u64
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

/// How many of the first `turns` turns a share in millionths falls on. The phase, a number below a million, differs among
/// servers, so not all of them make their faults at the same turns.
fn count(share: u64, phase: u64, turns: u64) -> u64 {
    let parts = (u128::from(turns) * u128::from(share) + u128::from(phase)) / u128::from(MILLION);
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// Whether a share falls on a turn.
fn is_made(share: u64, phase: u64, turn: u64) -> bool {
    count(share, phase, turn.saturating_add(1)) > count(share, phase, turn)
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

    #[test]
    fn a_share_of_the_queries_is_exact_at_every_server() {
        let seen = |share, phase, turns| (0..turns).filter(|&turn| is_made(share, phase, turn)).count();
        for (queries, turns, expected) in
            [(0.01, 1000, 10), (0.5, 1000, 500), (1.0, 77, 77), (0.0, 1000, 0), (0.000_001, 2_000_000, 2)]
        {
            for phase in [0, 1, 777_777, MILLION - 1] {
                assert_eq!(seen(millionths(queries), phase, turns), expected, "{queries} of {turns}");
            }
        }
        // A share that is no whole number of queries is off by less than one query.
        for phase in [0, 400_000, MILLION - 1] {
            let third = seen(millionths(0.333), phase, 100);
            assert!((33..=34).contains(&third), "{third} of 100");
        }
    }

    #[test]
    fn turns_matter_to_faults_and_jitter_alone() {
        let of = |text: &str| {
            let recipe: InternetRecipe = toml::from_str(text).unwrap();
            let conducts = Conducts::new(&Arc::new(recipe));
            (conducts.have_delays(), conducts.depend_on_turns())
        };
        assert_eq!(of(""), (false, false));
        assert_eq!(of("delay = { root_us = [0], jitter = 0.1 }"), (false, false));
        assert_eq!(of("delay = { root_us = [20_000] }"), (true, false));
        assert_eq!(of("delay = { root_us = [20_000], jitter = 0.1 }"), (true, true));
        assert_eq!(of("[[behaviour]]\nfault = 'loss'"), (false, true));
        assert_eq!(of("[[behaviour]]\nfault = 'delay'\ndelay_us = [5]"), (true, true));
    }

    #[test]
    fn servers_with_a_fault_are_drawn_independently() {
        let with_fault = |seed: u64| {
            let text = format!("seed = {seed}\n[[behaviour]]\nfault = 'loss'\nservers = 0.1");
            let recipe: InternetRecipe = toml::from_str(&text).unwrap();
            let (conducts, behaviour) = (Conducts::new(&Arc::new(recipe.clone())), &recipe.behaviour[0]);
            let has = |number: &u32| conducts.draws((0, behaviour), Server::Root(0), *number).is_some();
            (0..512).filter(has).count()
        };
        let counts: Vec<usize> = (0..200).map(with_fault).collect();
        let (sum, most) = (counts.iter().sum::<usize>(), 200.0 * 512.0);
        // The number of servers is binomial: its sum and its variance are within five standard deviations.
        assert!((sum as f64 - most * 0.1).abs() < 5.0 * (most * 0.09).sqrt(), "{sum}");
        let mean = sum as f64 / 200.0;
        let variance = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>() / 199.0;
        assert!((variance / (512.0 * 0.09) - 1.0).abs() < 0.5, "{variance}");
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
