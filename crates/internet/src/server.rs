//! Servers and their addresses. A server's address is the prefix and its number, so an address is turned into its server by
//! arithmetic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::recipe::{InternetRecipe, RecipeError};

/// A name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// A server of the root, by number.
    Root(u8),
    /// A server of a top-level domain: the number of the domain, and its own there.
    Tld(u32, u8),
    /// A server of a hosting company: the number of the company, and its own there.
    Company(u32, u8),
}

/// The first addresses of hosts, and the number of bits in which IPv4 addresses of hosts differ; in IPv6 they are 64. A recipe
/// whose servers would have such addresses is refused.
pub(crate) const HOSTS: u32 = u32::from_be_bytes([10, 0, 0, 0]);
pub(crate) const HOST_BITS: u32 = 24;
pub(crate) const HOSTS_6: u128 = 0x2001_0002_0000_ffff << 64;

/// The number of the first server of the root. The first addresses of a prefix stay free for the host itself.
const FIRST: u32 = 16;

/// The numbers of servers, and the prefixes of their addresses. Every top-level domain and company has places for as many
/// servers as any of them may have.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    ipv4: (Ipv4Addr, u8),
    ipv6: Option<(Ipv6Addr, u8)>,
    roots: u32,
    tlds: u32,
    tld_places: u32,
    companies: u32,
    company_places: u32,
}

impl Addresses {
    pub(crate) fn new(recipe: &InternetRecipe) -> Result<Self, RecipeError> {
        let plan = Self {
            ipv4: ipv4(&recipe.addresses.ipv4)?,
            ipv6: ipv6(&recipe.addresses.ipv6)?,
            roots: recipe.root.servers.into(),
            tlds: recipe.tld.count,
            tld_places: recipe.tld.servers[1].into(),
            companies: recipe.company.count,
            company_places: recipe.company.servers[1].into(),
        };
        let needed = plan.company_start() + u64::from(plan.companies * plan.company_places);
        let room = 1_u64 << (32 - plan.ipv4.1);
        if needed > room {
            let what =
                format!("{} has {room} addresses, and the servers need {needed}", recipe.addresses.ipv4);
            return Err(RecipeError::fault("addresses.ipv4", what));
        }
        Ok(plan)
    }

    fn tld_start(&self) -> u64 {
        u64::from(FIRST + self.roots)
    }

    fn company_start(&self) -> u64 {
        self.tld_start() + u64::from(self.tlds) * u64::from(self.tld_places)
    }

    /// The prefixes that hold all addresses.
    pub(crate) fn prefixes(&self) -> Vec<(IpAddr, u8)> {
        let ipv4 = (IpAddr::V4(self.ipv4.0), self.ipv4.1);
        std::iter::once(ipv4).chain(self.ipv6.map(|(prefix, bits)| (IpAddr::V6(prefix), bits))).collect()
    }

    /// The number of a server, which its addresses end with.
    pub(crate) fn number(&self, server: Server) -> u32 {
        let number = match server {
            Server::Root(own) => u64::from(FIRST) + u64::from(own),
            Server::Tld(tld, own) => {
                self.tld_start() + u64::from(tld) * u64::from(self.tld_places) + u64::from(own)
            }
            Server::Company(company, own) => {
                self.company_start() + u64::from(company) * u64::from(self.company_places) + u64::from(own)
            }
        };
        u32::try_from(number).expect("the prefix has 32 bits at most")
    }

    /// The number at the end of an address in one of the prefixes.
    #[inline]
    pub(crate) fn number_at(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => {
                let number = u32::from(address).checked_sub(u32::from(self.ipv4.0))?;
                (u64::from(number) < 1_u64 << (32 - self.ipv4.1)).then_some(number)
            }
            IpAddr::V6(address) => {
                let number = u128::from(address).checked_sub(u128::from(self.ipv6?.0))?;
                u32::try_from(number).ok()
            }
        }
    }

    /// The place for a server with this number. Not every place has a server.
    #[inline]
    pub(crate) fn place(&self, number: u32) -> Option<Server> {
        let small = |own: u32| u8::try_from(own).ok();
        let own = number.checked_sub(FIRST)?;
        if own < self.roots {
            return Some(Server::Root(small(own)?));
        }
        let own = own - self.roots;
        if own < self.tlds * self.tld_places {
            return Some(Server::Tld(own / self.tld_places, small(own % self.tld_places)?));
        }
        let own = own - self.tlds * self.tld_places;
        (own < self.companies * self.company_places)
            .then_some(Server::Company(own / self.company_places, small(own % self.company_places)?))
    }

    /// The number after that of the last place.
    pub(crate) fn end(&self) -> u32 {
        FIRST + self.roots + self.tlds * self.tld_places + self.companies * self.company_places
    }

    /// The IPv4 address of a server.
    pub(crate) fn ipv4(&self, server: Server) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.ipv4.0) + self.number(server))
    }

    /// The IPv6 address of a server, if there is a prefix.
    pub(crate) fn ipv6(&self, server: Server) -> Option<Ipv6Addr> {
        self.ipv6.map(|(prefix, _)| Ipv6Addr::from(u128::from(prefix) + u128::from(self.number(server))))
    }
}

fn parts(text: &str) -> Option<(&str, u8)> {
    let (address, bits) = text.split_once('/')?;
    Some((address, bits.parse().ok()?))
}

fn ipv4(text: &str) -> Result<(Ipv4Addr, u8), RecipeError> {
    let parsed = parts(text).and_then(|(address, bits)| Some((address.parse::<Ipv4Addr>().ok()?, bits)));
    let (address, bits) = parsed.filter(|(_, bits)| (1..=24).contains(bits)).ok_or_else(|| {
        RecipeError::fault("addresses.ipv4", format!("\"{text}\"; expected a prefix such as 198.18.0.0/15"))
    })?;
    let host = u32::MAX >> bits;
    // Two prefixes overlap if they agree in the bits that both have.
    let differing = u32::from(address) ^ HOSTS;
    if differing >> HOST_BITS.max(32 - u32::from(bits)) == 0 {
        let what = format!("\"{text}\"; 10.0.0.0/8 has the addresses of hosts, so servers need others");
        return Err(RecipeError::fault("addresses.ipv4", what));
    }
    Ok((Ipv4Addr::from(u32::from(address) & !host), bits))
}

fn ipv6(text: &str) -> Result<Option<(Ipv6Addr, u8)>, RecipeError> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = parts(text).and_then(|(address, bits)| Some((address.parse::<Ipv6Addr>().ok()?, bits)));
    let (address, bits) = parsed.filter(|(_, bits)| (1..=96).contains(bits)).ok_or_else(|| {
        RecipeError::fault("addresses.ipv6", format!("\"{text}\"; expected a prefix such as 2001:2::/64"))
    })?;
    let host = u128::MAX >> bits;
    let first = u128::from(address) & !host;
    // The numbers of servers have 32 bits, so no other prefix has the address of a host.
    if (first ^ HOSTS_6) >> 64 == 0 {
        let what = format!(
            "\"{text}\"; {}/64 has the addresses of hosts, so servers need others",
            Ipv6Addr::from(HOSTS_6)
        );
        return Err(RecipeError::fault("addresses.ipv6", what));
    }
    Ok(Some((Ipv6Addr::from(first), bits)))
}
