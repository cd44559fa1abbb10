//! How long queries stayed in the subject's host: from the moment at which the kernel got a query from the interface until
//! it handed the reply to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Quantiles;

/// The name of residence among what could not be read of a host.
pub const NAME: &str = "residence";

/// The residence of queries over UDP in the subject's host, over one trial. Only queries of the sample are counted:
/// `queries = pairs + unanswered + repeated`, and `replies = pairs + unasked + of_repeated`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResidenceFacts {
    /// The interface at which packets were stamped.
    pub device: String,
    /// Sampling: one query in so many was stamped, with its reply. Its ID decides whether it was. 1 for all queries.
    pub one_in: u32,
    /// Queries that came in.
    pub queries: u64,
    /// Replies that went out.
    pub replies: u64,
    /// Queries with their reply: the same client, server, ID and question.
    pub pairs: u64,
    /// Queries whose reply was not seen.
    pub unanswered: u64,
    /// Queries that were the same as another one which waited, and that one. None of them is in a pair, since their
    /// replies cannot be told apart.
    pub repeated: u64,
    /// Replies whose query was not seen, or had its reply.
    pub unasked: u64,
    /// Replies to `repeated` queries.
    pub of_repeated: u64,
    /// Datagrams to or from the subject that are no DNS messages with a question. They are in no other count.
    pub unreadable: u64,
    /// Packets for which there was no room. They are in no other count.
    pub dropped: u64,
    /// The residence of the pairs.
    pub residence_us: Quantiles,
    /// The histogram behind it, as [`crate::Histogram::encode`] writes it.
    pub histogram: String,
}

impl ResidenceFacts {
    /// Why the counts are impossible; `None` if they add up.
    pub fn contradiction(&self) -> Option<String> {
        let Self { queries, replies, pairs, unanswered, repeated, unasked, of_repeated, .. } = *self;
        if queries != pairs + unanswered + repeated {
            return Some(format!(
                "{queries} queries are not {pairs} in pairs, {unanswered} unanswered and {repeated} repeated"
            ));
        }
        (replies != pairs + unasked + of_repeated).then(|| {
            format!("{replies} replies are not {pairs} in pairs, {unasked} unasked and {of_repeated} of repeated queries")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_or_say_what_does_not() {
        let facts = ResidenceFacts {
            queries: 10,
            replies: 9,
            pairs: 6,
            unanswered: 2,
            repeated: 2,
            unasked: 1,
            of_repeated: 2,
            ..ResidenceFacts::default()
        };
        assert_eq!(facts.contradiction(), None);
        let more = ResidenceFacts { queries: 11, ..facts.clone() };
        assert!(more.contradiction().unwrap().starts_with("11 queries are not 6 in pairs"));
        let more = ResidenceFacts { replies: 8, ..facts };
        assert!(more.contradiction().unwrap().starts_with("8 replies are not 6 in pairs"));
    }
}
