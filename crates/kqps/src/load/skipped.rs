//! Warnings about a query file: lines that were skipped, and lines that may mean something else than
//! intended, and what a capture has.

use kqps_dataset::{CaptureFacts, Dataset};
use kqps_lab::words::counted;

/// What a capture has, and what of it is no query.
pub(crate) fn captured(dataset: &Dataset, facts: &CaptureFacts) -> String {
    let CaptureFacts { packets, queries, responses, .. } = facts;
    let others = facts.skipped.values().sum::<u64>();
    let why: Vec<String> = facts.skipped.iter().map(|(why, count)| format!("{why}: {count}")).collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(", ")) };
    format!(
        "{} has {queries} queries of {} and {responses} responses in {packets} packets; others: {others}{why}",
        dataset.path().display(),
        counted(facts.clients.into(), "client")
    )
}

/// One sentence for each kind of line.
pub(crate) fn skipped(dataset: &Dataset) -> Vec<String> {
    let file = dataset.path().display();
    let mut said = Vec::new();
    if dataset.skipped() > 0 {
        let causes: Vec<String> =
            dataset.skipped_causes().map(|(cause, count)| format!("{cause}: {count}")).collect();
        let bad = if dataset.skipped() == 1 {
            "1 bad query was".to_owned()
        } else {
            format!("{} bad queries were", dataset.skipped())
        };
        said.push(format!("{bad} skipped in {file} ({})", causes.join(", ")));
    }
    if dataset.hash_queries() > 0 {
        let count = dataset.hash_queries();
        let (begin, are) = if count == 1 { ("begins", "is") } else { ("begin", "are") };
        said.push(format!(
            "{} in {file} {begin} with # and {are} asked, as dnsperf does; a comment begins with ; or with # and a blank",
            counted(count, "name")
        ));
    }
    if dataset.hash_comments() > 0 {
        let count = dataset.hash_comments();
        let what = if count == 1 {
            "begins with #, is no query, and was taken for a comment"
        } else {
            "begin with #, are no queries, and were taken for comments"
        };
        said.push(format!("{} of {file} {what}", counted(count, "line")));
    }
    said
}
