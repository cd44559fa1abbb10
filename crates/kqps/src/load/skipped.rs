//! What of a query file was left out, or may not be what it was meant to be.

use kqps_dataset::Dataset;

/// A sentence for each.
pub(super) fn skipped(dataset: &Dataset) -> Vec<String> {
    let file = dataset.path().display();
    let mut told = Vec::new();
    if dataset.skipped() > 0 {
        let causes: Vec<String> =
            dataset.skipped_causes().map(|(cause, count)| format!("{cause}: {count}")).collect();
        told.push(format!(
            "{} bad queries of {file} were skipped ({})",
            dataset.skipped(),
            causes.join(", ")
        ));
    }
    if dataset.hash_queries() > 0 {
        let count = dataset.hash_queries();
        told.push(format!(
            "{count} names in {file} begin with # and are asked, as dnsperf does; a comment begins with ; or with # and \
             a blank"
        ));
    }
    if dataset.hash_comments() > 0 {
        let count = dataset.hash_comments();
        told.push(format!(
            "{count} lines of {file} begin with #, are no queries, and were taken for comments"
        ));
    }
    told
}
