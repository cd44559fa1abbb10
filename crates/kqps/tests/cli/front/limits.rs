//! Too many outstanding queries: the front gives up the newest or the oldest, as its option says, and counts
//! them.

use super::peer::{Datagrams, answer};
use super::{PATIENT, assert_sums, front, models, stop};
use crate::auth::dns::{A, query};
use crate::serve::sent::{flow, wait_until_read};
use crate::serve::{own_network, stopped_in_a_flood};

/// Sends ten queries where four have room. Returns the IDs of those that came through, the causes of the
/// others, and how many of them were displaced.
fn crowd(limit: &str, overload: &str) -> (Vec<u16>, Vec<(String, u64)>, u64) {
    let back_end = Datagrams::new();
    let server = front(&[&back_end.url()], &[&PATIENT[..], &[limit, "4", "--overload", overload]].concat());
    back_end.pass();
    let flow = flow(server.addresses[0]);
    for id in 0..10 {
        flow.send(&query(id, &format!("n{id}.test"), A)).unwrap();
        // Queries go one by one, so that each is outstanding before the next comes.
        wait_until_read(server.addresses[0].port());
    }
    let reaches_all = overload == "oldest";
    let heard: Vec<_> = (0..if reaches_all { 10 } else { 4 }).map(|_| back_end.query()).collect();
    for (query, from) in &heard {
        back_end.say(&answer(query), *from);
    }
    let mut answered: Vec<u16> = (0..4)
        .map(|_| {
            let mut buffer = [0; 512];
            flow.recv(&mut buffer).unwrap();
            u16::from_be_bytes([buffer[0], buffer[1]])
        })
        .collect();
    answered.sort_unstable();
    let report = stop(server);
    assert_eq!((report.received, report.answered), (10, 4));
    (answered, report.dropped.into_iter().collect(), report.back_ends[&back_end.url()].displaced)
}

#[test]
fn all_that_was_taken_before_the_end_is_counted() {
    let private = own_network();
    let silent = Datagrams::new();
    for model in models() {
        let server = front(&[&silent.url()], &[&PATIENT[..], &["--io", model]].concat());
        assert_sums(&stopped_in_a_flood(server, private));
    }
}

#[test]
fn above_a_limit_the_newest_or_the_oldest_goes() {
    for limit in ["--outstanding", "--backend-outstanding"] {
        let newest = vec![("overload-newest".to_owned(), 6)];
        assert_eq!(crowd(limit, "newest"), (vec![0, 1, 2, 3], newest, 0), "{limit}");
        let oldest = vec![("overload-oldest".to_owned(), 6)];
        assert_eq!(crowd(limit, "oldest"), (vec![6, 7, 8, 9], oldest, 6), "{limit}");
    }
}

#[test]
fn a_back_end_without_room_is_not_chosen_while_others_have_some() {
    for policy in ["random", "round-robin", "least-outstanding", "hash"] {
        let back_ends = [Datagrams::new(), Datagrams::new(), Datagrams::new()];
        let urls = back_ends.each_ref().map(Datagrams::url);
        let limits = ["--backend-outstanding", "5", "--policy", policy];
        let server = front(&urls.each_ref().map(|url| &**url), &[&PATIENT[..], &limits].concat());
        back_ends.iter().for_each(Datagrams::pass);
        let flow = flow(server.addresses[0]);
        // Equal names, which the hash policy sends to one back end while it takes them.
        for id in 0..15 {
            flow.send(&query(id, "a.test", A)).unwrap();
        }
        for back_end in &back_ends {
            (0..5).for_each(|_| drop(back_end.query()));
        }
        let report = stop(server);
        assert_eq!(report.dropped, [("stopped".to_owned(), 15)].into(), "{policy}");
    }
}

#[test]
fn what_is_under_way_at_the_end_is_counted() {
    let back_end = Datagrams::new();
    let server = front(&[&back_end.url()], &PATIENT);
    back_end.pass();
    let flow = flow(server.addresses[0]);
    for id in 0..7 {
        flow.send(&query(id, "a.test", A)).unwrap();
    }
    (0..7).for_each(|_| drop(back_end.query()));
    let report = stop(server);
    assert_eq!(report.dropped, [("stopped".to_owned(), 7)].into());
    assert_eq!(report.back_ends[&back_end.url()].unsettled, 7);
}
