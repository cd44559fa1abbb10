//! Questions of clients with a share of hits that is asked for.

use std::collections::HashSet;

use kqps_message::rcode;

use crate::book::small;

#[test]
fn the_share_of_hits_is_exact_and_each_miss_is_new() {
    let internet = small(&[]);
    let questions = internet.steady_questions(80);
    let kept: HashSet<_> = (0..1000).map(|number| questions.question(number)).collect();
    assert_eq!(kept.len(), 1000, "the first thousand are all of them");
    let later: Vec<_> = (1000..11_000).map(|number| questions.question(number)).collect();
    let (hits, misses): (Vec<_>, Vec<_>) = later.iter().partition(|question| kept.contains(*question));
    assert_eq!((hits.len(), misses.len()), (8000, 2000));
    let is_hit: Vec<bool> = later.iter().map(|question| kept.contains(question)).collect();
    assert!(is_hit.chunks(100).all(|hundred| hundred.iter().filter(|hit| **hit).count() == 80));
    assert_ne!(is_hit[..100], is_hit[100..200], "no socket of a player gets hits alone");
    assert_eq!(misses.iter().collect::<HashSet<_>>().len(), 2000);
    for (name, qtype) in later {
        let expected = internet.expected(&name, qtype).unwrap();
        assert!(expected.rcode == rcode::NOERROR && !expected.answers.is_empty());
    }
}

#[test]
fn without_hits_every_name_behind_the_kept_ones_is_new() {
    let internet = small(&[]);
    let questions = internet.steady_questions(0);
    let all: HashSet<_> = (1000..3000).map(|number| questions.question(number).0).collect();
    assert_eq!(all.len(), 2000);
}
