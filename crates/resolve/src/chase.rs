//! Chains of aliases that lead from one zone to another. A server answers for its own zone alone, so the last name of
//! an open chain is asked of the servers of its zone, and clients get the whole (RFC 1034, sections 3.6.2 and 5.2.2).
//!
//! A reply on the way is kept as a part of a chain. So the answer to a question does not depend on what was
//! asked before: a part answers no query, and whatever has a part follows it to its end. Nothing here has a socket or a
//! clock.

use kqps_cache::{ALIASES_MOST, Question, Reply, Shared};

use crate::upstreams::Zones;

/// The way from a question to the end of its chain of aliases.
#[derive(Debug)]
pub struct Chase {
    /// The number of the zone whose servers are asked.
    zone: usize,
    /// The names of the chain behind that of the question, in wire form and in lower case.
    names: Vec<Vec<u8>>,
    /// The replies so far, each of which is open.
    parts: Vec<Reply>,
    /// Whether everything is asked anew, since the answer in the cache ends soon.
    renews: bool,
}

/// The next step of a chase.
#[derive(Debug)]
pub enum Step {
    /// The servers of a zone are asked about a name ([`Chase::target`]).
    Ask,
    /// This answers the question.
    Whole(Reply),
    /// A reply is of no use, or the chain is a circle or too long.
    Broken,
}

/// The place to which a reply leads.
enum Next {
    /// It is the end.
    End,
    /// The chain goes on in the zone with this number.
    Zone(usize),
}

impl Chase {
    /// Begins at a question whose name is in lower case. If it `renews`, it asks for what the cache has, too. `None` if
    /// no server answers for the name.
    pub fn new(question: &Question<'_>, zones: &Zones, renews: bool) -> Option<Self> {
        let zone = zones.find(question.name, question.rtype)?;
        Some(Self { zone, names: Vec::new(), parts: Vec::new(), renews })
    }

    /// The question that is asked, which is that of the chase with the last name of its chain.
    pub fn target<'a>(&'a self, question: &Question<'a>) -> Question<'a> {
        Question { name: self.names.last().map_or(question.name, Vec::as_slice), ..*question }
    }

    /// The number of the zone whose servers are asked.
    pub fn zone(&self) -> usize {
        self.zone
    }

    /// Follows the chain as far as the cache knows it.
    pub fn look(&mut self, question: &Question<'_>, zones: &Zones, cache: &Shared, now_s: u64) -> Step {
        // Forwarders find the ends of all chains, so there are no parts.
        while !self.renews && !zones.are_forwarders() {
            let Some((reply, is_whole)) = cache.known(&self.target(question), now_s) else { break };
            if !self.extend(question, &reply) {
                return Step::Broken;
            }
            if is_whole {
                return self.finish(question, reply);
            }
            match self.next(question, &reply, zones) {
                Next::End => return self.finish(question, reply),
                Next::Zone(zone) => {
                    self.zone = zone;
                    self.parts.push(reply);
                }
            }
        }
        Step::Ask
    }

    /// Takes the reply of a server to the question that was asked.
    pub fn take(
        &mut self,
        question: &Question<'_>,
        message: &[u8],
        zones: &Zones,
        cache: &Shared,
        now_s: u64,
    ) -> Step {
        let asked = self.target(question);
        let Ok(reply) = cache.read(&asked, message, zones.names(self.zone)) else { return Step::Broken };
        let next = self.next(question, &reply, zones);
        match next {
            Next::Zone(_) => _ = cache.keep_part(&asked, &reply, now_s),
            // The caller keeps the answer to the question itself.
            Next::End if !self.names.is_empty() => _ = cache.keep(&asked, &reply, now_s),
            Next::End => {}
        }
        if !self.extend(question, &reply) {
            return Step::Broken;
        }
        match next {
            Next::End => self.finish(question, reply),
            Next::Zone(zone) => {
                self.zone = zone;
                self.parts.push(reply);
                self.look(question, zones, cache, now_s)
            }
        }
    }

    /// Adds the names of a reply to the chain. Returns false if it has become a circle or too long.
    fn extend(&mut self, question: &Question<'_>, reply: &Reply) -> bool {
        for name in reply.aliases() {
            let name = name.to_ascii_lowercase();
            if *name == *question.name || self.names.contains(&name) || self.names.len() == ALIASES_MOST {
                return false;
            }
            self.names.push(name);
        }
        true
    }

    /// The place to which a reply of the zone's servers leads. If no server is known for the last name, the answer ends there, as that
    /// of a server which answers for one zone. A server that finds answers has followed the chain as far as it goes.
    fn next(&self, question: &Question<'_>, reply: &Reply, zones: &Zones) -> Next {
        let Some(last) = reply.aliases().last().filter(|_| reply.is_open()) else { return Next::End };
        let next = zones.find(&last.to_ascii_lowercase(), question.rtype);
        let is_known = |zone: usize| zone != self.zone || !zones.get(zone).is_forwarded;
        next.filter(|&zone| is_known(zone)).map_or(Next::End, Next::Zone)
    }

    fn finish(&self, question: &Question<'_>, last: Reply) -> Step {
        if self.parts.is_empty() {
            return Step::Whole(last);
        }
        Reply::join(question, &self.parts, &last).map_or(Step::Broken, Step::Whole)
    }
}
