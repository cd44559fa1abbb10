//! The tree: what there is of top-level domains and companies, in tables, and of zones, by their numbers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kqps_recipe::{Labels, Stream, append_letters};

use crate::keys::Keys;
use crate::place::{Node, ZoneId};
use crate::recipe::{InternetRecipe, RecipeError};
use crate::server::{Addresses, Server};
use crate::site::{Choice, Site, Sites};

/// Parts of the seeds of top-level domains, companies and labels. No two kinds of draws have the same part.
const TLDS: u64 = 0x746c_6400_0000_0003;
const COMPANIES: u64 = 0x636f_6d70_0000_0004;
pub(crate) const LABELS: u64 = 0x6c61_6265_0000_0005;

/// Labels that resolvers treat in a way of their own (RFC 6761, RFC 6762, RFC 7686, RFC 8375).
const SPECIAL: [&[u8]; 8] =
    [b"test", b"local", b"onion", b"home", b"corp", b"mail", b"invalid", b"localhost"];

/// The place among five top-level domains of that of a country, which has two letters.
const COUNTRY: u32 = 1;

#[derive(Clone, Debug)]
pub(crate) struct Tld {
    pub(crate) label: Box<[u8]>,
    pub(crate) servers: u8,
    /// The algorithm of its key; 0 if it is not signed.
    pub(crate) algorithm: u8,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Company {
    /// The top-level domain of its zone.
    pub(crate) tld: u32,
    pub(crate) servers: u8,
    pub(crate) ipv6: bool,
    /// Whether referrals to zones of others in its top-level domain have its servers' addresses.
    pub(crate) glue: bool,
}

/// A zone, with the facts about it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Zone {
    Root,
    Tld(u32),
    Company(u32),
    Site(Site),
}

impl Zone {
    pub(crate) fn id(&self) -> ZoneId {
        match self {
            Self::Root => ZoneId::Root,
            Self::Tld(tld) => ZoneId::Tld(*tld),
            Self::Company(company) => ZoneId::Company(*company),
            Self::Site(site) => ZoneId::Site(site.number),
        }
    }

    /// The company of its servers; 0 for zones of no company.
    pub(crate) fn company(&self) -> u32 {
        match self {
            Self::Company(company) => *company,
            Self::Site(site) => site.company,
            Self::Root | Self::Tld(_) => 0,
        }
    }

    /// A server of it, the zone that has the server's name, and the name's node there.
    pub(crate) fn server_name(&self, own: u8) -> (Server, Self, Node) {
        match self {
            Self::Root => (Server::Root(own), *self, Node::RootServer(own)),
            Self::Tld(tld) => (Server::Tld(*tld, own), *self, Node::NicServer(own)),
            Self::Site(site) if !site.in_bailiwick => {
                (Server::Company(site.company, own), Self::Company(site.company), Node::Server(own))
            }
            Self::Company(_) | Self::Site(_) => {
                (Server::Company(self.company(), own), *self, Node::Server(own))
            }
        }
    }

    /// Whether it denies by NSEC3, if it is signed.
    pub(crate) fn has_nsec3(&self) -> bool {
        match self {
            Self::Root => false,
            Self::Tld(_) | Self::Company(_) => true,
            Self::Site(site) => site.has_nsec3,
        }
    }

    /// The number of labels of its name.
    pub(crate) fn labels(&self) -> usize {
        match self {
            Self::Root => 0,
            Self::Tld(_) => 1,
            Self::Company(_) | Self::Site(_) => 2,
        }
    }
}

/// Everything that the answers of an Internet follow from.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) recipe: Arc<InternetRecipe>,
    pub(crate) addresses: Addresses,
    pub(crate) tlds: Vec<Tld>,
    by_label: HashMap<Box<[u8]>, u32>,
    pub(crate) companies: Vec<Company>,
    pub(crate) sites: Sites,
    pub(crate) labels: Labels,
    pub(crate) keys: Keys,
}

impl Tree {
    pub(crate) fn new(recipe: &Arc<InternetRecipe>) -> Result<Self, RecipeError> {
        recipe.check()?;
        let addresses = Addresses::new(recipe)?;
        let labels = Labels::default();
        let weights = tld_weights(recipe);
        let companies: Vec<f64> =
            (1..=recipe.company.count).map(|rank| f64::from(rank).powf(-recipe.company.exponent)).collect();
        let sites = Sites::new(recipe, &weights, &companies);
        let tlds = tlds(recipe, &labels);
        let by_label = (0..).zip(&tlds).map(|(number, tld)| (tld.label.clone(), number)).collect();
        let companies = self::companies(recipe, &weights);
        let keys = Keys::new(recipe.seed, recipe.signing.kept);
        Ok(Self { recipe: recipe.clone(), addresses, tlds, by_label, companies, sites, labels, keys })
    }

    /// The facts of the zone with this number.
    #[inline]
    pub(crate) fn site(&self, number: u64) -> Site {
        self.sites.site(number, |tld| self.tlds[tld as usize].algorithm != 0)
    }

    /// The zone with this name.
    pub(crate) fn zone(&self, id: ZoneId) -> Zone {
        match id {
            ZoneId::Root => Zone::Root,
            ZoneId::Tld(tld) => Zone::Tld(tld),
            ZoneId::Company(company) => Zone::Company(company),
            ZoneId::Site(number) => Zone::Site(self.site(number)),
        }
    }

    /// The top-level domain with this label, in any case.
    #[inline]
    pub(crate) fn tld(&self, label: &[u8]) -> Option<u32> {
        let mut small = [0; 63];
        let small = small.get_mut(..label.len())?;
        small.copy_from_slice(label);
        small.make_ascii_lowercase();
        self.by_label.get(&*small).copied()
    }

    /// The server at a place, if there is one.
    #[inline]
    pub(crate) fn server(&self, number: u32) -> Option<Server> {
        let server = self.addresses.place(number)?;
        let is_there = match server {
            Server::Root(own) => own < self.recipe.root.servers,
            Server::Tld(tld, own) => own < self.tlds[tld as usize].servers,
            Server::Company(company, own) => own < self.companies[company as usize].servers,
        };
        is_there.then_some(server)
    }

    /// Whether a server has an IPv6 address.
    pub(crate) fn has_ipv6(&self, server: Server) -> bool {
        !self.recipe.addresses.ipv6.is_empty()
            && match server {
                Server::Root(_) | Server::Tld(..) => true,
                Server::Company(company, _) => self.companies[company as usize].ipv6,
            }
    }

    /// The algorithm of a zone's key; 0 if it is not signed. Zones of companies are not signed, as those of most large ones
    /// are not.
    pub(crate) fn algorithm(&self, zone: &Zone) -> u8 {
        match zone {
            Zone::Root => self.recipe.root.algorithm,
            Zone::Tld(tld) => self.tlds[*tld as usize].algorithm,
            Zone::Company(_) => 0,
            Zone::Site(site) => site.algorithm,
        }
    }
}

/// The weights of top-level domains.
fn tld_weights(recipe: &InternetRecipe) -> Vec<f64> {
    let rest = recipe.tld.count as usize - recipe.tld.largest.len();
    let harmonic: f64 = (1..=rest).map(|rank| 1.0 / rank as f64).sum();
    let others = (1..=rest).map(|rank| recipe.tld.others / rank as f64 / harmonic);
    let weights: Vec<f64> = recipe.tld.largest.iter().copied().chain(others).collect();
    // If there is no room for others, the weights of the largest may all be 0.
    if weights.iter().all(|weight| *weight == 0.0) { vec![1.0; weights.len()] } else { weights }
}

fn between(stream: &mut Stream, [least, most]: [u8; 2]) -> u8 {
    let more = stream.below(u64::from(most - least) + 1);
    least + u8::try_from(more).expect("it is below 256")
}

fn tlds(recipe: &InternetRecipe, labels: &Labels) -> Vec<Tld> {
    let algorithms = Choice::new(&recipe.tld.algorithms);
    let mut known: HashSet<Vec<u8>> = SPECIAL.iter().map(|label| label.to_vec()).collect();
    let tld = |number: u32| {
        let mut stream = Stream::with_number(recipe.seed ^ TLDS, number.into());
        let mut label = Vec::new();
        while label.len() < 2 || !known.insert(label.clone()) {
            label.clear();
            if number % 5 == COUNTRY && number < 2000 {
                append_letters(&mut stream, 2, &mut label);
            } else {
                labels.append(stream.next(), u64::from(number), &mut label);
                label.retain(u8::is_ascii_alphabetic);
                if label.len() == 2 {
                    append_letters(&mut stream, 1, &mut label);
                }
            }
        }
        let is_signed = recipe.root.algorithm != 0 && stream.unit() < recipe.tld.signed;
        let algorithm = u8::try_from(algorithms.draw(&mut stream)).unwrap_or(0);
        Tld {
            label: label.into(),
            servers: between(&mut stream, recipe.tld.servers),
            algorithm: if is_signed { algorithm } else { 0 },
        }
    };
    (0..recipe.tld.count).map(tld).collect()
}

fn companies(recipe: &InternetRecipe, weights: &[f64]) -> Vec<Company> {
    let tlds = kqps_recipe::Draws::weighted(weights);
    let company = |number: u32| {
        let mut stream = Stream::with_number(recipe.seed ^ COMPANIES, number.into());
        Company {
            tld: u32::try_from(tlds.draw(&mut stream)).unwrap_or(0),
            servers: between(&mut stream, recipe.company.servers),
            ipv6: stream.unit() < recipe.company.ipv6,
            glue: stream.unit() < recipe.company.glue,
        }
    };
    (0..recipe.company.count).map(company).collect()
}
