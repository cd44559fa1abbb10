//! Messages that a server received, without their IDs, which must differ. And where they came from.

use std::collections::BTreeSet;

use super::peer::Query;

/// The messages without their IDs, in an order of their own.
pub(super) fn sorted(heard: &[Query]) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = heard.iter().map(|query| without_id(&query.message)).collect();
    messages.sort_unstable();
    messages
}

fn without_id(message: &[u8]) -> Vec<u8> {
    message.get(2..).unwrap_or_default().to_vec()
}

/// The addresses and ports that they came from.
pub(super) fn sources(heard: &[Query]) -> Vec<String> {
    let sources: BTreeSet<String> = heard.iter().map(|query| query.from.to_string()).collect();
    sources.into_iter().collect()
}
