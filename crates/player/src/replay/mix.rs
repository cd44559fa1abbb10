//! A mix gives each client of a capture one of several transports, whatever its queries came by. The shares are of the
//! clients, since a client asks by one transport.

use kqps_dataset::Carried;

use crate::plan::Wire;

/// Keeps the draw of transports apart from that of addresses, which has the seed itself.
const SALT: u64 = 0x5bd1_e995_7b7d_159c;

/// The transports with their shares, which add up to 1.
#[derive(Debug)]
pub(crate) struct Mix(Vec<(Carried, f64)>);

impl Mix {
    /// The mix of a wire; `None` unless its lanes have shares.
    pub(crate) fn from_wire(wire: &Wire) -> Option<Self> {
        let Wire::Captured(lanes) = wire else { return None };
        lanes.iter().map(|lane| Some((lane.carried, lane.share?))).collect::<Option<_>>().map(Self)
    }

    /// Gives each client that asks its transport: the bit of its number. Each transport gets its share of the clients,
    /// to half a client.
    pub(crate) fn give(&self, asks: &mut [u8], seed: u64) {
        let mut asking: Vec<usize> =
            asks.iter().enumerate().filter(|(_, carried)| **carried != 0).map(|(client, _)| client).collect();
        fastrand::Rng::with_seed(seed ^ SALT).shuffle(&mut asking);
        let (mut first, mut shares) = (0, 0.0);
        for (carried, share) in &self.0 {
            shares += share;
            let end = ((shares * asking.len() as f64).round() as usize).min(asking.len());
            for client in &asking[first..end] {
                asks[*client] = 1 << carried.number();
            }
            first = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_gets_its_share_of_the_clients_that_ask() {
        let mix = Mix(vec![(Carried::Udp, 0.6), (Carried::Tls, 0.3), (Carried::Https, 0.1)]);
        let given = |seed| {
            let mut asks: Vec<u8> = (0..1500).map(|client| if client % 3 == 0 { 0 } else { 3 }).collect();
            mix.give(&mut asks, seed);
            asks
        };
        let asks = given(7);
        let count = |carried: Carried| {
            let one = |asks: &&u8| asks.trailing_zeros() as usize == carried.number();
            asks.iter().filter(one).count()
        };
        assert_eq!([Carried::Udp, Carried::Tls, Carried::Https].map(count), [600, 300, 100]);
        assert!(asks.iter().step_by(3).all(|asks| *asks == 0));
        assert_eq!(asks, given(7));
        assert_ne!(asks, given(8));
        let mut few = [1, 1, 1];
        mix.give(&mut few, 1);
        few.sort_unstable();
        assert_eq!(few, [1, 1, 1 << Carried::Tls.number()], "of three clients 1.8, 0.9 and 0.3");
    }
}
