//! The addresses that queries come from: one address, or the addresses of a prefix in turn. A receiver that spreads
//! packets by their source address then uses all its queues.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU128;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Local addresses to send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    first: IpAddr,
    /// The number of addresses from the first on.
    count: NonZeroU128,
}

/// The unspecified address of this target's family. With it the kernel chooses an address that reaches the target.
pub(crate) fn unspecified(target: SocketAddr) -> IpAddr {
    if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// The text is neither an address nor a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an address of this host, or a prefix of such addresses as 127.1.0.0/16")]
pub struct NoSources;

impl Sources {
    /// The address of socket `number`. After the last address comes the first again.
    pub fn of_socket(&self, number: usize) -> IpAddr {
        let step = number as u128 % self.count;
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first) + step as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first) + step).into(),
        }
    }

    /// The address with this number, which is below [`Self::count`].
    #[inline]
    pub(crate) fn of_number(&self, number: u32) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(number)).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(number.into())).into(),
        }
    }

    /// The number of an address among these, as in [`Self::of_number`]; `None` if it is not one of the first
    /// 2<sup>32</sup> of them.
    #[inline]
    pub(crate) fn number_of(&self, address: IpAddr) -> Option<u32> {
        let step = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                u128::from(u32::from(address).checked_sub(u32::from(first))?)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => u128::from(address).checked_sub(u128::from(first))?,
            _ => return None,
        };
        u32::try_from(step).ok().filter(|_| step < self.count.get())
    }

    /// How many addresses come before the first one that is a multiple of `block`, as a number.
    pub(crate) fn until_multiple_of(&self, block: u64) -> u64 {
        let first = match self.first {
            IpAddr::V4(first) => u128::from(u32::from(first)),
            IpAddr::V6(first) => u128::from(first),
        };
        let block = u128::from(block);
        ((block - first % block) % block) as u64
    }

    /// The first `count` of these addresses; all of them if there are not as many, and at least one.
    #[must_use]
    pub fn first(self, count: u32) -> Self {
        let count = NonZeroU128::new(count.into()).unwrap_or(NonZeroU128::MIN);
        Self { count: self.count.min(count), ..self }
    }

    /// The number of addresses.
    pub fn count(&self) -> u128 {
        self.count.get()
    }

    /// The prefix of which these are the addresses, as [`FromStr`] reads it: its first address, and its length in bits.
    /// `None` if they are only a part of one, or all addresses of IPv6.
    pub fn prefix(&self) -> Option<(IpAddr, u8)> {
        let (bits, first) = match self.first {
            IpAddr::V4(first) => (32, u128::from(u32::from(first))),
            IpAddr::V6(first) => (128, u128::from(first)),
        };
        // The first and the last address of more than two are left out, so the first that stays is odd.
        let (first, whole) = match self.count() {
            1 => (first, 1),
            2 if first.is_multiple_of(2) => (first, 2),
            count => (first.checked_sub(1)?, count.checked_add(2)?),
        };
        let address = match self.first {
            IpAddr::V4(_) => Ipv4Addr::from(first as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from(first).into(),
        };
        let is_prefix = whole.is_power_of_two() && first.is_multiple_of(whole);
        is_prefix.then(|| (address, (bits - whole.ilog2()) as u8))
    }

    /// Whether the addresses are IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }
}

/// The flag with which the player sends from several addresses that reach these targets.
pub(crate) fn several_reaching(targets: &[SocketAddr]) -> &'static str {
    if targets.iter().all(|target| target.is_ipv4() && target.ip().is_loopback()) {
        "-a 127.1.0.0/16"
    } else {
        "-a ADDR/PREFIX, once this host has such addresses"
    }
}

impl From<IpAddr> for Sources {
    fn from(first: IpAddr) -> Self {
        Self { first, count: NonZeroU128::MIN }
    }
}

impl FromStr for Sources {
    type Err = NoSources;

    /// Parses an address, or a prefix. If a prefix has more than two addresses, the first and the last are left
    /// out, since they may mean the network itself and all its hosts (RFC 1122, section 3.2.1.3).
    fn from_str(text: &str) -> Result<Self, NoSources> {
        let Some((address, prefix)) = text.split_once('/') else {
            return Ok(Self::from(text.parse::<IpAddr>().map_err(|_| NoSources)?));
        };
        let address: IpAddr = address.parse().map_err(|_| NoSources)?;
        let bits: u32 = if address.is_ipv4() { 32 } else { 128 };
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u32 =
            prefix.parse().ok().filter(|prefix| is_number && *prefix <= bits).ok_or(NoSources)?;
        let count = 1_u128.checked_shl(bits - prefix).unwrap_or(u128::MAX);
        let mask = u128::MAX.checked_shl(bits - prefix).unwrap_or(0);
        let (skipped, count) = if count > 2 { (1, count - 2) } else { (0, count) };
        let first = match address {
            IpAddr::V4(address) => Ipv4Addr::from((u32::from(address) & mask as u32) + skipped as u32).into(),
            IpAddr::V6(address) => Ipv6Addr::from((u128::from(address) & mask) + skipped).into(),
        };
        Ok(Self { first, count: NonZeroU128::new(count).ok_or(NoSources)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str, sockets: usize) -> Vec<String> {
        let sources: Sources = text.parse().unwrap();
        (0..sockets).map(|number| sources.of_socket(number).to_string()).collect()
    }

    #[test]
    fn sockets_take_turns_over_the_addresses_of_a_prefix() {
        assert_eq!(sources("127.0.0.9", 2), ["127.0.0.9", "127.0.0.9"]);
        assert_eq!(sources("127.1.2.3/30", 3), ["127.1.2.1", "127.1.2.2", "127.1.2.1"]);
        assert_eq!(sources("127.1.2.3/31", 3), ["127.1.2.2", "127.1.2.3", "127.1.2.2"]);
        assert_eq!(sources("127.1.2.3/32", 2), ["127.1.2.3", "127.1.2.3"]);
        assert_eq!(sources("::1/128", 2), ["::1", "::1"]);
        assert_eq!(sources("2001:db8::/64", 2), ["2001:db8::1", "2001:db8::2"]);
        assert_eq!(sources("0.0.0.0/0", 1), ["0.0.0.1"]);
        assert_eq!(sources("::/0", 1), ["::1"]);
    }

    #[test]
    fn addresses_know_the_prefix_that_they_were_read_from() {
        for (text, prefix) in [
            ("127.0.0.9", Some("127.0.0.9/32")),
            ("127.1.2.3/31", Some("127.1.2.2/31")),
            ("127.1.2.3/30", Some("127.1.2.0/30")),
            ("127.1.2.3/16", Some("127.1.0.0/16")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("2001:db8::5/64", Some("2001:db8::/64")),
            ("::1", Some("::1/128")),
        ] {
            let sources: Sources = text.parse().unwrap();
            let found = sources.prefix().map(|(first, bits)| format!("{first}/{bits}"));
            assert_eq!(found.as_deref(), prefix, "{text}");
        }
        assert_eq!("127.1.0.0/16".parse::<Sources>().unwrap().first(7).prefix(), None);
    }

    #[test]
    fn an_address_has_the_number_that_it_was_given_for() {
        for text in ["127.1.2.3/28", "2001:db8::/64", "127.0.0.9"] {
            let sources: Sources = text.parse().unwrap();
            for number in [0, 5, 13] {
                let address = sources.of_socket(number);
                let expected = if sources.count() == 1 { 0 } else { number as u32 };
                assert_eq!(sources.number_of(address), Some(expected), "{text}");
                assert_eq!(sources.of_number(expected), address, "{text}");
            }
        }
        let sources: Sources = "127.1.2.0/30".parse().unwrap();
        for other in ["127.1.2.0", "127.1.2.3", "::1"] {
            assert_eq!(sources.number_of(other.parse().unwrap()), None, "{other}");
        }
        assert_eq!([1, 2, 4, 256].map(|block| sources.until_multiple_of(block)), [0, 1, 3, 255]);
    }

    #[test]
    fn the_first_of_a_prefix_are_as_many_as_were_asked_for() {
        let sources: Sources = "192.0.2.0/29".parse().unwrap();
        assert_eq!([0, 1, 4, 6, 7].map(|count| sources.first(count).count()), [1, 1, 4, 6, 6]);
        let two = sources.first(2);
        let taken: Vec<String> = (0..3).map(|socket| two.of_socket(socket).to_string()).collect();
        assert_eq!(taken, ["192.0.2.1", "192.0.2.2", "192.0.2.1"]);
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in
            ["", "/8", "127.0.0.1/", "127.0.0.1/33", "127.0.0.1/+8", "::/129", "localhost", "127.0.0/8"]
        {
            assert_eq!(text.parse::<Sources>(), Err(NoSources), "{text}");
        }
    }
}
