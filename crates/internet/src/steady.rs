//! Questions of clients of which a known share is for names that stay in a resolver's cache, and every other one for a name
//! that nobody has asked for.

use std::collections::HashSet;

use kqps_message::{rcode, rtype};
use kqps_recipe::Stream;

use crate::internet::Internet;
use crate::question::{ClientQuestion, letters};
use crate::tree::Zone;

/// A part of the seed of questions for new names.
const NEW: u64 = 0x6e65_776e_616d_6573;

/// A part of the seed of the order of hits and misses.
const ORDER: u64 = 0x6f72_6465_7200_0001;

/// The number of questions that stay in a cache, at most.
pub const KEPT: usize = 1000;

/// The number of successive questions among which the share of hits is exact.
const HUNDRED: u64 = 100;

/// The least TTL of their answers, seconds: longer than a load.
const TTL_LEAST_S: u32 = 3600;

/// The most questions among which these are searched.
const SEARCHED_MOST: u64 = 1_000_000;

/// The most zones that are drawn until one has a wildcard.
const DRAWS_MOST: usize = 1000;

/// Questions with a share of hits. Each is a function of its number.
#[derive(Debug)]
pub struct SteadyQuestions<'i> {
    internet: &'i Internet,
    hits_percent: u32,
    kept: Vec<ClientQuestion>,
}

impl Internet {
    /// Questions that begin with each of the kept ones, [`KEPT`] in all. Of each hundred behind them `hits_percent` are kept ones
    /// as well, at places that differ. Names of the others are below wildcards, so they exist, and each is asked for once.
    pub fn steady_questions(&self, hits_percent: u32) -> SteadyQuestions<'_> {
        let mut seen = HashSet::new();
        let questions = (0..SEARCHED_MOST).map(|number| self.question(number));
        let kept = questions.filter(|question| self.stays(question) && seen.insert(question.clone()));
        SteadyQuestions { internet: self, hits_percent, kept: kept.take(KEPT).collect() }
    }

    /// Whether a question has an answer that stays in a cache.
    fn stays(&self, (name, qtype): &ClientQuestion) -> bool {
        self.expected(name, *qtype).is_some_and(|expected| {
            expected.rcode == rcode::NOERROR
                && !expected.answers.is_empty()
                && expected.answers.iter().all(|record| record.ttl_s >= TTL_LEAST_S)
        })
    }

    /// A question for a name below a wildcard, which no other number has.
    fn new_name(&self, number: u64) -> ClientQuestion {
        let queries = &self.tree.recipe.queries;
        let mut stream = Stream::with_number(queries.seed ^ NEW, number);
        let mut site = self.tree.site(self.popular.draw(&mut stream));
        for _ in 0..DRAWS_MOST {
            if site.wildcard {
                break;
            }
            site = self.tree.site(self.popular.draw(&mut stream));
        }
        let mut name = Vec::new();
        letters(&mut stream, &mut name);
        self.tree.append_apex(&Zone::Site(site), &mut name);
        (name, rtype::A)
    }
}

impl SteadyQuestions<'_> {
    /// The question with this number.
    pub fn question(&self, number: u64) -> ClientQuestion {
        let kept = self.kept.len() as u64;
        if let Some(first) = usize::try_from(number).ok().and_then(|number| self.kept.get(number)) {
            return first.clone();
        }
        if kept == 0 || !self.is_hit(number - kept) {
            return self.internet.new_name(number);
        }
        let mut stream = Stream::with_number(self.internet.tree.recipe.queries.seed, number);
        self.kept[stream.below(kept) as usize].clone()
    }

    /// Whether the question at this place behind the kept ones is one of them. Each hundred has an order of its own, so hits
    /// and misses fall on all sockets of a player alike.
    fn is_hit(&self, place: u64) -> bool {
        let mut stream = Stream::with_number(self.internet.tree.recipe.queries.seed ^ ORDER, place / HUNDRED);
        let mut order: [u64; HUNDRED as usize] = std::array::from_fn(|index| index as u64);
        for last in (1..HUNDRED).rev() {
            order.swap(last as usize, stream.below(last + 1) as usize);
        }
        order[(place % HUNDRED) as usize] < u64::from(self.hits_percent)
    }
}
