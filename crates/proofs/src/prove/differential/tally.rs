//! The results of all queries: counts, and kinds of differences, each with an example.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use strum::VariantArray as _;

use super::compare::{Finding, Replies};
use super::part::ReplyPart;
use super::query::Query;

/// Records of a section that an example shows for each server.
const SHOWN_RECORDS: usize = 6;

/// A kind of difference, its count, and its first case.
struct Kind {
    count: u64,
    example: String,
    /// The records that not all servers sent.
    records: String,
}

pub(super) struct Tally {
    /// The peers' names, and then ours if it takes part.
    names: Vec<String>,
    seed: u64,
    pub(super) queries: u64,
    /// Queries to which all peers agree in every part.
    pub(super) agreed: u64,
    /// Queries to which one and the same peer agrees with us in every part.
    pub(super) like_one: u64,
    /// Parts in which the peers differ, and ours is that of one of them.
    differences: BTreeMap<String, Kind>,
    /// Parts in which ours is that of no peer.
    failures: BTreeMap<String, Kind>,
    free: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub(super) fn new(names: Vec<String>, seed: u64) -> Self {
        Self {
            names,
            seed,
            queries: 0,
            agreed: 0,
            like_one: 0,
            differences: BTreeMap::new(),
            failures: BTreeMap::new(),
            free: BTreeMap::new(),
        }
    }

    /// Adds the replies to a query.
    pub(super) fn add(&mut self, query: &Query, replies: &Replies) {
        self.queries += 1;
        self.agreed += u64::from(ReplyPart::VARIANTS.iter().all(|part| replies.peers_agree(*part)));
        self.like_one += u64::from(replies.is_like_one());
        for &part in ReplyPart::VARIANTS {
            let kinds = match replies.finding(part, query) {
                Finding::Same => continue,
                Finding::OneOf => &mut self.differences,
                Finding::Wrong => &mut self.failures,
                Finding::Free(row) => {
                    *self.free.entry(row).or_default() += 1;
                    continue;
                }
            };
            let words = words(part, replies, &self.names);
            let kind = kinds.entry(words).or_insert_with(|| Kind {
                count: 0,
                example: format!("{}: {}", query.index, query.words),
                records: records(part, replies, &self.names),
            });
            kind.count += 1;
        }
    }

    /// Whether there is no failure.
    pub(super) fn is_right(&self) -> bool {
        self.failures.is_empty()
    }

    /// All differences, the most frequent first.
    pub(super) fn report(&self) -> String {
        let Self { queries, seed, agreed, like_one, .. } = self;
        let mut text = format!("{queries} queries of seed {seed} to {}\n", self.names.join(", "));
        let _ = writeln!(text, "{agreed:>7}  to which the peers say the same in every part");
        let _ =
            writeln!(text, "{like_one:>7}  to which we say in every part what one and the same peer says");
        let _ = writeln!(text, "\nWhere the peers differ, and we say what one of them says:");
        for (words, kind) in sorted(&self.differences) {
            let _ = writeln!(text, "{:>7}  {words}\n         e.g. {}", kind.count, kind.example);
        }
        let _ = writeln!(text, "\nWhere we say what no peer says, and an RFC leaves it open:");
        for (row, count) in &self.free {
            let _ = writeln!(text, "{count:>7}  {row}");
        }
        let _ = writeln!(
            text,
            "\nWhere we say what no peer says (--seed {seed} --index N asks one query alone):"
        );
        for (words, kind) in sorted(&self.failures) {
            let _ =
                writeln!(text, "{:>7}  {words}\n         e.g. {}{}", kind.count, kind.example, kind.records);
        }
        text
    }
}

/// Kinds, the most frequent first.
fn sorted(kinds: &BTreeMap<String, Kind>) -> Vec<(&String, &Kind)> {
    let mut sorted: Vec<_> = kinds.iter().collect();
    sorted.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.count));
    sorted
}

/// The servers by their contents of a part: `rcode: NSD, BIND: REFUSED; Knot DNS: NOTAUTH`.
fn words(part: ReplyPart, replies: &Replies, names: &[String]) -> String {
    let all = replies.all();
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for (reply, name) in all.iter().zip(names) {
        let words = part.words(reply, &all);
        match said.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) => names.push(name),
            None => said.push((words, vec![name])),
        }
    }
    let said: Vec<String> =
        said.iter().map(|(words, names)| format!("{}: {words}", names.join(", "))).collect();
    format!("{}: {}", part.name(), said.join("; "))
}

/// The records of a section that not all servers sent, each on a line.
fn records(part: ReplyPart, replies: &Replies, names: &[String]) -> String {
    let mut text = String::new();
    let all = replies.all();
    for (reply, name) in all.iter().zip(names) {
        let Some(section) = reply.message().and_then(|message| part.section(message)) else { continue };
        let own = part.own(section, &all);
        for record in own.iter().take(SHOWN_RECORDS) {
            let _ = write!(text, "\n              {name}: {}", shortened(&record.to_string()));
        }
        if own.len() > SHOWN_RECORDS {
            let _ = write!(text, "\n              {name}: and {} more", own.len() - SHOWN_RECORDS);
        }
    }
    text
}

/// The beginning of a long text, since signatures and hashes mean little to a reader.
fn shortened(text: &str) -> String {
    const LONG: usize = 110;
    if text.chars().count() <= LONG { text.into() } else { text.chars().take(LONG).chain(['…']).collect() }
}
