//! How the replies to a capture's queries differ from the captured ones: counts by kind, and some examples of each. A
//! query without a difference costs nothing here.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kqps_dataset::{Check, Dataset, Digest, Expected, Position};
use kqps_message::header::{AA, HEADER_BYTES, Header};
use kqps_message::name::NameText;
use kqps_message::presentation::answer_text;
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::rcode::RcodeName;
use kqps_message::rtype::RtypeName;
use kqps_observation::visible::visible_line;
use kqps_observation::{Difference, Example};

use crate::reply::{Cause, Checked, Extent};

/// Examples of each kind, each different from the others.
const EXAMPLES_MOST: usize = 20;

/// Queries of each kind that are kept for examples. Several of them may be of one question.
const KEPT_MOST: usize = 10 * EXAMPLES_MOST;

/// The differences that one thread saw.
#[derive(Debug, Default)]
pub struct Differences {
    /// Whether replies are compared: the queries are a capture, and answers are checked.
    is_on: bool,
    kinds: BTreeMap<Kind, Occurrences>,
}

/// A kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Another rcode than the expected one.
    Rcode { expected: u16, got: u16 },
    /// Other records under the right rcode.
    Answer,
    /// A truncated reply, where a whole one was expected.
    Truncated,
    /// No reply, where one was expected.
    Lost,
    /// Wrong by another cause, by [`Cause::number`].
    Wrong(usize),
}

#[derive(Debug, Default)]
struct Occurrences {
    count: u64,
    examples: Vec<KeptExample>,
}

/// An example.
#[derive(Clone, Debug)]
struct KeptExample {
    query: Position,
    got: Got,
}

/// The reply that came, if any.
#[derive(Clone, Debug)]
enum Got {
    Nothing,
    /// An rcode, with this many records in the answer section.
    Reply {
        rcode: u16,
        answers: u16,
    },
    /// Another answer under the right rcode: its records, if they can be read, and whether only AA is another one.
    Answer {
        rcode: u16,
        records: Option<String>,
        is_only_aa: bool,
    },
    /// A reply that was not read further.
    Other,
}

impl Differences {
    /// No differences yet. They are looked for in captures whose answers are checked.
    pub fn new(dataset: &Dataset) -> Self {
        let is_on = dataset.capture().is_some() && dataset.check() != Check::Off;
        Self { is_on, kinds: BTreeMap::new() }
    }

    /// Whether replies are compared.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Notes a reply in time to the query at `position`. `expected` is the digest of the whole answer that the capture
    /// has to it; `None` if it has none.
    #[cold]
    pub fn replied(&mut self, position: Position, expected: Option<Digest>, checked: Checked, reply: &[u8]) {
        let answers = Header::from_bytes(reply).map_or(0, Header::answers);
        match checked {
            Checked::Correct { extent: Extent::Whole, .. } => {}
            Checked::Correct { rcode, extent: Extent::Partial | Extent::Bare } => {
                if expected.is_some() {
                    self.note(Kind::Truncated, position, || Got::Reply { rcode, answers });
                }
            }
            Checked::Wrong(Cause::Rcode { expected, got }) => {
                self.note(Kind::Rcode { expected, got }, position, || Got::Reply { rcode: got, answers });
            }
            Checked::Wrong(Cause::Answer { rcode }) => {
                self.note(Kind::Answer, position, || Got::answer(rcode, expected, reply));
            }
            Checked::Wrong(cause) => self.note(Kind::Wrong(cause.number()), position, || Got::Other),
        }
    }

    /// Notes that the query at `position` is lost, to which this was expected.
    #[cold]
    pub fn lost(&mut self, position: Position, expected: Expected) {
        if expected != Expected::Unknown {
            self.note(Kind::Lost, position, || Got::Nothing);
        }
    }

    /// Counts a difference. `got` is called for an example. A query has one example of each kind.
    fn note(&mut self, kind: Kind, query: Position, got: impl FnOnce() -> Got) {
        let found = self.kinds.entry(kind).or_default();
        found.count += 1;
        let is_known = || found.examples.iter().any(|seen| seen.query == query);
        if found.examples.len() < KEPT_MOST && !is_known() {
            found.examples.push(KeptExample { query, got: got() });
        }
    }

    /// Adds those of another thread.
    pub fn add(&mut self, other: &Self) {
        self.is_on |= other.is_on;
        for (kind, found) in &other.kinds {
            let ours = self.kinds.entry(*kind).or_default();
            ours.count += found.count;
            let room = KEPT_MOST - ours.examples.len();
            ours.examples.extend(found.examples.iter().take(room).cloned());
        }
    }

    /// The differences as records have them, the most frequent kind first.
    pub fn facts(&self, dataset: &Dataset) -> Vec<Difference> {
        let one = |(kind, found): (&Kind, &Occurrences)| {
            let mut examples: Vec<Example> = Vec::new();
            for seen in &found.examples {
                let example = seen.words(*kind, dataset);
                if examples.len() < EXAMPLES_MOST && !examples.contains(&example) {
                    examples.push(example);
                }
            }
            Difference { kind: kind.words(), count: found.count, examples }
        };
        let mut all: Vec<Difference> = self.kinds.iter().map(one).collect();
        all.sort_by_key(|difference| Reverse(difference.count));
        all
    }
}

impl Got {
    /// An answer other than the expected one, under the same rcode.
    fn answer(rcode: u16, expected: Option<Digest>, reply: &[u8]) -> Self {
        let mut with_other_aa = reply.to_vec();
        if let Some(flags) = with_other_aa.get_mut(2) {
            *flags ^= AA;
        }
        let is_only_aa =
            expected.is_some() && Digest::of_reply(&with_other_aa, rcode, &mut Vec::new()) == expected;
        Self::Answer { rcode, records: answer_text(reply), is_only_aa }
    }
}

impl Kind {
    fn words(self) -> String {
        match self {
            Self::Rcode { expected, got } => format!("rcode {}→{}", RcodeName(expected), RcodeName(got)),
            Self::Answer => "answer".into(),
            Self::Truncated => "truncated".into(),
            Self::Lost => "lost".into(),
            Self::Wrong(number) => Cause::NAMES[number].into(),
        }
    }
}

impl KeptExample {
    fn words(&self, kind: Kind, dataset: &Dataset) -> Example {
        let query = dataset.query(self.query);
        let question = &query.message[HEADER_BYTES..HEADER_BYTES + query.question_bytes];
        let (name, tail) = question.split_at(question.len().saturating_sub(QUESTION_TAIL_BYTES));
        let rtype = tail.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes));
        let expected = dataset.expected(self.query).to_string();
        // The rcode is the same, so that the answers themselves must differ.
        let digest = query.expected_answer.filter(|_| kind == Kind::Answer);
        let records = |rcode: u16, answers: u16| {
            format!("{}, {answers} record{}", RcodeName(rcode), if answers == 1 { "" } else { "s" })
        };
        let got = match &self.got {
            Got::Nothing => "no reply".to_owned(),
            Got::Reply { rcode, answers } => records(*rcode, *answers),
            Got::Answer { rcode, records, is_only_aa } => {
                let records = records.as_deref().unwrap_or("records that cannot be read");
                let aa = if *is_only_aa { ", AA alone differs" } else { "" };
                format!("{}, {records}{aa}", RcodeName(*rcode))
            }
            Got::Other => "a reply that is no answer".to_owned(),
        };
        Example {
            name: visible_line(&NameText(name).to_string()).into_owned(),
            rtype: RtypeName(rtype).to_string(),
            expected,
            digest: digest.map(|digest| format!("{:016x}", digest.number())),
            got,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kqps_dataset::Options;

    use super::*;

    #[test]
    fn each_kind_is_counted_and_has_different_examples() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queries");
        // The first question stands in the file twice more, and beside it are thirty others.
        let first = "a\\027[31m.test AAAA NOERROR\n";
        let others: Vec<String> = (0..30).map(|number| format!("n{number}.test A NOERROR\n")).collect();
        let others = others.concat();
        let text = format!("{first}b.test A NXDOMAIN\n{first}{first}{others}");
        std::fs::write(&file, text).unwrap();
        let options = Options { cache_dir: Some(folder.path().join("cache")), ..Options::default() };
        let dataset = Dataset::open(&file, &options).unwrap();
        let (first, second) = (dataset.position(0), dataset.position(1));
        let whole = Some(Digest::of_none(0, true));
        let mut all = Differences::default();
        for _ in 0..2 {
            let mut one = Differences::default();
            let wrong = Checked::Wrong(Cause::Rcode { expected: 0, got: 2 });
            for query in (2..34).map(|index| dataset.position(index)).chain([first]) {
                one.replied(query, whole, wrong, &[0, 0, 0x80, 2, 0, 1, 0, 0, 0, 0, 0, 0]);
            }
            one.lost(second, dataset.expected(second));
            one.lost(second, Expected::Unknown);
            one.replied(first, None, Checked::Correct { rcode: 0, extent: Extent::Bare }, &[]);
            one.replied(first, whole, Checked::Correct { rcode: 0, extent: Extent::Whole }, &[]);
            all.add(&one);
        }
        let facts = all.facts(&dataset);
        let counts: Vec<(&str, u64, usize)> =
            facts.iter().map(|one| (&*one.kind, one.count, one.examples.len())).collect();
        assert_eq!(counts, [("rcode NOERROR→SERVFAIL", 66, 20), ("lost", 2, 1)]);
        let names: BTreeSet<&str> = facts[0].examples.iter().map(|example| &*example.name).collect();
        assert_eq!(names.len(), 20);
        let Example { name, rtype, expected, got, .. } = &facts[0].examples[0];
        assert_eq!((&**name, &**rtype, &**expected), (r"a\027[31m.test.", "AAAA", "NOERROR"));
        assert_eq!(&**got, "SERVFAIL, 0 records");
        assert_eq!(facts[1].examples[0].expected, "NXDOMAIN");
        assert_eq!(facts[1].examples[0].got, "no reply");
        assert!(!all.is_on(), "the queries are no capture");
    }

    #[test]
    fn another_answer_is_shown_with_its_records_and_whether_aa_alone_differs() {
        let expected = Some(Digest::of_none(0, true));
        // A question for the root, and no record.
        let reply = |flags: u8| [0, 0, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
        let answer = |reply: &[u8]| match Got::answer(0, expected, reply) {
            Got::Answer { records, is_only_aa, .. } => (records, is_only_aa),
            other => panic!("{other:?}"),
        };
        let none = || Some("no record".to_owned());
        assert_eq!(answer(&reply(0x80)), (none(), true));
        assert_eq!(answer(&reply(0x84)), (none(), false));
        assert_eq!(answer(&reply(0x80)[..9]), (None, false), "it cannot be read");
    }
}
