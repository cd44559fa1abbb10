//! Warnings about a query file: lines that were skipped, and lines that may mean something else than
//! intended, and what a capture has.

use kqps_capture::{Why, ports_in_words};
use kqps_dataset::{CaptureFacts, Dataset, DatasetError};
use kqps_observation::visible::visible_line;
use kqps_testbed::words::counted;

use crate::exit::Lines;

/// The doubt about a packet whose time was mistaken.
pub(crate) const STRAY: &str = "had a time far from those around it, and got the time before it";

/// The number of servers that stands for as many or more.
const SERVERS_MOST: u32 = 64;

/// Counts of a capture: its queries, responses and packets, and the other packets by cause.
pub(crate) fn captured(dataset: &Dataset, facts: &CaptureFacts) -> String {
    let CaptureFacts { packets, queries, responses, .. } = facts;
    let others = facts.skipped.values().sum::<u64>();
    let of_cause = |(why, count): (&String, &u64)| {
        if why == Why::OtherPort.name() && !facts.other_ports.is_empty() {
            return format!("{why}: {count}, at {}", ports_in_words(&facts.other_ports));
        }
        format!("{why}: {count}")
    };
    let why: Vec<String> = facts.skipped.iter().map(of_cause).collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(", ")) };
    format!(
        "{} has {queries} queries of {} and {responses} responses in {packets} packets; others: {others}{why}",
        dataset.path().display(),
        counted(facts.clients.into(), "client")
    )
}

/// A sentence for each doubt about a capture: whose queries it has, and its clock.
fn doubts(dataset: &Dataset, facts: &CaptureFacts) -> Vec<String> {
    let file = dataset.path().display();
    let mut said = Vec::new();
    if facts.servers > 1 {
        let more = if facts.servers == SERVERS_MOST { " or more" } else { "" };
        let asking = match facts.servers_asking {
            0 => String::new(),
            1 => ", one of which asks others, as a resolver does".to_owned(),
            asking => format!(", {asking} of which ask others, as resolvers do"),
        };
        said.push(format!(
            "{file} has queries to {}{more} servers{asking}; --captured-server ADDR takes those to one",
            facts.servers
        ));
    }
    if facts.steps > 0 {
        said.push(format!(
            "the clock of {file} goes back by more than 5 s {}; from there on its gaps are kept",
            counted(facts.steps, "time")
        ));
    }
    if facts.strays > 0 {
        said.push(format!("{} of {file} {STRAY}", counted(facts.strays, "packet")));
    }
    said
}

/// The error of a query file that cannot be read, with its first bad lines. `more` is what follows the first line.
pub(crate) fn unreadable(error: &DatasetError, more: &str) -> anyhow::Error {
    let mut lines: Vec<String> = error.lines().iter().map(|line| visible_line(line).into_owned()).collect();
    if let Some(first) = lines.first_mut() {
        *first += more;
    }
    anyhow::Error::new(Lines { text: lines.join("\nkqps: "), is_about_input: true })
}

/// A sentence for each kind of line, with the first bad lines, and for each doubt about a capture.
pub(crate) fn skipped(dataset: &Dataset) -> Vec<String> {
    let file = dataset.path().display();
    let mut said = dataset.capture().map_or_else(Vec::new, |facts| doubts(dataset, facts));
    if dataset.skipped() > 0 {
        let causes: Vec<String> =
            dataset.skipped_causes().map(|(cause, count)| format!("{cause}: {count}")).collect();
        let bad = if dataset.skipped() == 1 {
            "1 bad query was".to_owned()
        } else {
            format!("{} bad queries were", dataset.skipped())
        };
        said.push(format!("{bad} skipped in {file} ({})", causes.join(", ")));
        said.extend(dataset.bad().lines(dataset.path()));
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
