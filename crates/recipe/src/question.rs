//! Makes queries: an outcome, a type, and a name with which the query has that outcome by construction. Outcomes have
//! their exact shares, and so have types within an outcome.

use std::rc::Rc;

use kqps_message::{rcode, rtype};

use super::GenerateError;
use super::deck::Deck;
use super::draw::{Draws, Stream};
use super::expected::Answers;
use super::layout::Kind;
use super::name::Name;
use super::plan::{Plan, Zone};
use super::popularity::Popularities;
use super::recipe::Expect;
use super::source::{Source, Sources};
use kqps_dataset::Digest;

/// Tries to find an empty non-terminal before the query asks for something else.
const TRIES: u32 = 64;

/// Letters of a label in place of a wildcard's asterisk.
const WILDCARD_LETTERS: usize = 8;

/// The outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Positive,
    Absent,
    NoData,
    Referral,
    Broken,
    Unknown,
}

/// In the order of a recipe's weights.
const OUTCOMES: [Outcome; 6] = [
    Outcome::Positive,
    Outcome::Absent,
    Outcome::NoData,
    Outcome::Referral,
    Outcome::Broken,
    Outcome::Unknown,
];

#[derive(Default)]
pub(super) struct Question {
    pub(super) name: Name,
    /// The index of its type in [`Questions::types`].
    pub(super) qtype: usize,
    /// The rcode of a right answer.
    pub(super) rcode: u16,
    /// The digest of a right answer, if the recipe asks for it and it is known.
    pub(super) answer: Option<Digest>,
}

/// The queries of a plan.
pub(super) struct Questions<'a> {
    plan: &'a Plan<'a>,
    /// The types of queries, then the types of queries with an answer, and last A, for an attack.
    pub(super) types: Vec<u16>,
    positive_from: usize,
    /// How many queries of each outcome are left, and of an attack after those.
    fates: Deck,
    /// How many queries of each type are left, by outcome.
    asked: [Deck; OUTCOMES.len()],
    sources: Sources,
    zones: Rc<Draws>,
    answers: Answers<'a>,
    zone: Zone,
}

impl<'a> Questions<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, count: u64) -> Result<Self, GenerateError> {
        let asked = &plan.recipe.queries;
        let mut popularities = Popularities::new(&asked.popularity)?;
        let positive = if asked.positive_types.is_empty() { &asked.types } else { &asked.positive_types };
        let all = asked.types.keys().chain(positive.keys()).map(|qtype| qtype.0);
        let types: Vec<u16> = all.chain([rtype::A]).collect();
        let mut outcomes = asked.outcomes.weights().map(|(_, weight)| weight);
        if outcomes.iter().all(|weight| *weight == 0.0) {
            outcomes[0] = 1.0;
        }
        let sum: f64 = outcomes.iter().sum();
        let honest = outcomes.map(|weight| (1.0 - asked.attack.share) * weight / sum);
        let fates = Deck::new(count, &[&honest[..], &[asked.attack.share]].concat());
        let [any, positive] =
            [&asked.types, positive].map(|types| types.values().copied().collect::<Vec<_>>());
        let deck = |place: usize| {
            let types = if OUTCOMES[place] == Outcome::Positive { &positive } else { &any };
            Deck::new(fates.left(place), types)
        };
        Ok(Self {
            plan,
            positive_from: asked.types.len(),
            asked: std::array::from_fn(deck),
            fates,
            sources: Sources::new(plan, &types, &mut popularities)?,
            types,
            zones: popularities.among(plan.recipe.zones)?,
            answers: Answers::new(plan, asked.expect == Expect::Answers),
            zone: plan.zone(0),
        })
    }

    /// Makes the next query. Returns whether one was left.
    #[inline]
    pub(super) fn next(&mut self, stream: &mut Stream, question: &mut Question) -> bool {
        question.name.clear();
        let Some(fate) = self.fates.deal(stream) else { return false };
        let Some(&outcome) = OUTCOMES.get(fate) else {
            self.attack(stream, question);
            return true;
        };
        // There are as many types as queries of this outcome.
        let Some(qtype) = self.asked[fate].deal(stream) else { return false };
        self.honest(outcome, qtype, stream, question);
        true
    }

    fn honest(&mut self, outcome: Outcome, qtype: usize, stream: &mut Stream, question: &mut Question) {
        question.qtype = if outcome == Outcome::Positive { self.positive_from + qtype } else { qtype };
        question.rcode = match outcome {
            Outcome::Positive | Outcome::NoData | Outcome::Referral => rcode::NOERROR,
            Outcome::Absent => rcode::NXDOMAIN,
            Outcome::Broken => rcode::SERVFAIL,
            Outcome::Unknown => rcode::REFUSED,
        };
        match outcome {
            Outcome::Positive => return self.positive(stream, question),
            Outcome::NoData => self.no_data(stream, question),
            Outcome::Referral => self.referral(stream, question),
            Outcome::Absent => self.absent(stream, question),
            Outcome::Broken => self.broken(stream, question),
            Outcome::Unknown => self.unknown(stream, question),
        }
        // A referral is not authoritative.
        self.expect_nothing(outcome != Outcome::Referral, question);
    }

    fn attack(&mut self, stream: &mut Stream, question: &mut Question) {
        let attack = &self.plan.recipe.queries.attack;
        self.plan.turn_to(&mut self.zone, stream.below(attack.zones));
        question.name.random(stream, attack.label_bytes.into());
        question.name.append(&self.zone.origin);
        question.qtype = self.types.len() - 1;
        question.rcode = rcode::NXDOMAIN;
        self.expect_nothing(true, question);
    }

    fn positive(&mut self, stream: &mut Stream, question: &mut Question) {
        let asked = &self.plan.recipe.queries;
        let qtype = self.types[question.qtype];
        let mut source = self.sources.source(question.qtype);
        if qtype == rtype::A && asked.alias + asked.wildcard > 0.0 {
            let unit = stream.unit();
            if unit < asked.alias {
                source = &self.sources.aliases;
            } else if unit < asked.alias + asked.wildcard {
                source = &self.sources.wildcards;
            }
        }
        match source {
            Source::At(entries) => {
                let number = entries.draw(self.plan, &mut self.zone, stream);
                let kind = entries.kind;
                if kind == Kind::Wildcard {
                    question.name.random(stream, WILDCARD_LETTERS);
                    self.plan.append_label(&self.zone, number, &mut question.name);
                } else {
                    self.plan.append_owner(&self.zone, kind, number, &mut question.name);
                }
                question.name.append(&self.zone.origin);
                question.answer = self.answers.of_entry(&self.zone, kind, number, qtype, &question.name);
            }
            Source::Apex => {
                let zone = self.zones.draw(stream);
                self.plan.turn_to(&mut self.zone, zone);
                question.name.append(&self.zone.origin);
                question.answer = self.answers.of_apex(&self.zone, qtype);
            }
            // Also if a small zone got no aliases or wildcards.
            Source::Nothing => {
                self.no_data(stream, question);
                self.expect_nothing(true, question);
            }
        }
    }

    /// Makes a name that exists, but does not have the type.
    fn no_data(&mut self, stream: &mut Stream, question: &mut Question) {
        let empty = self.plan.recipe.queries.empty;
        if empty > 0.0 && stream.unit() < empty && self.empty(stream, question) {
            return;
        }
        if let Some(entries) = self.sources.without(question.qtype, stream) {
            let number = entries.draw(self.plan, &mut self.zone, stream);
            self.plan.append_owner(&self.zone, entries.kind, number, &mut question.name);
        } else {
            let zone = self.zones.draw(stream);
            self.plan.turn_to(&mut self.zone, zone);
            // The zone's server has an A record and nothing else, and its apex has none.
            if self.types[question.qtype] != rtype::A {
                question.name.label(b"ns-a");
            }
        }
        question.name.append(&self.zone.origin);
    }

    /// Makes the parent of a name with several labels, if one is found.
    fn empty(&mut self, stream: &mut Stream, question: &mut Question) -> bool {
        for _ in 0..TRIES {
            let Some(entries) = self.sources.any(stream) else { return false };
            let number = entries.draw(self.plan, &mut self.zone, stream);
            if self.plan.depth(&self.zone, number) > 0 {
                self.plan.append_owner(&self.zone, entries.kind, number, &mut question.name);
                question.name.drop_first();
                question.name.append(&self.zone.origin);
                return true;
            }
        }
        false
    }

    fn referral(&mut self, stream: &mut Stream, question: &mut Question) {
        let Source::At(entries) = &self.sources.delegations else { return };
        let number = entries.draw(self.plan, &mut self.zone, stream);
        let qtype = self.types[question.qtype];
        // At a delegation the parent itself answers these types, so the query asks for a name below it.
        if qtype == rtype::DS || is_of_any_name(qtype) || stream.next() & 1 == 0 {
            question.name.label(b"www");
        }
        self.plan.append_label(&self.zone, number, &mut question.name);
        question.name.append(&self.zone.origin);
    }

    fn absent(&mut self, stream: &mut Stream, question: &mut Question) {
        let zone = self.zones.draw(stream);
        // The numbers of absent names begin after those of the entries.
        let number = self.plan.recipe.records + stream.below(self.plan.recipe.records);
        self.host(zone, number, question);
    }

    fn broken(&mut self, stream: &mut Stream, question: &mut Question) {
        let zone = self.plan.recipe.zones + stream.below(self.plan.recipe.broken);
        let number = stream.below(self.plan.recipe.records);
        self.host(zone, number, question);
    }

    fn unknown(&mut self, stream: &mut Stream, question: &mut Question) {
        let number = stream.below(self.plan.recipe.records);
        if let Some(zone) = self.plan.unknown_zone(stream) {
            self.host(zone, number, question);
        } else {
            question.name.counted(b"host", number);
            question.name.append(self.plan.elsewhere());
        }
    }

    /// Makes the name of a host in a zone, which may exist or not.
    fn host(&mut self, zone: u64, number: u64, question: &mut Question) {
        self.plan.turn_to(&mut self.zone, zone);
        self.plan.append_owner(&self.zone, Kind::Data(rtype::A), number, &mut question.name);
        question.name.append(&self.zone.origin);
    }

    /// Expects an answer without records.
    fn expect_nothing(&self, authoritative: bool, question: &mut Question) {
        let known = !is_of_any_name(self.types[question.qtype]) || question.rcode != rcode::NOERROR;
        question.answer = self.answers.none(question.rcode, authoritative).filter(|_| known);
    }
}

/// Whether any name of a zone may have this type, if it is signed or the server chooses so. The answer is then not
/// known.
fn is_of_any_name(qtype: u16) -> bool {
    matches!(qtype, rtype::ANY | rtype::RRSIG | rtype::NSEC)
}
