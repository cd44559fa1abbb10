//! Replies that come later than the turn of their query.

use super::*;

#[test]
fn replies_that_come_later_go_to_their_streams() {
    let mut rig = Rig::usual();
    rig.echo.later = Some(Vec::new());
    rig.connect(0);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    assert_eq!(rig.hand(0, 0..3), 3);
    rig.run_for(SECOND_NS);
    let mut waiting = rig.echo.later.take().unwrap();
    assert!(waiting.len() == 3 && rig.seen.replies.is_empty());
    // The last one is answered first, and the first one gets no answer.
    waiting.sort_by_key(|(_, query)| std::cmp::Reverse(query[14]));
    for (key, query) in &waiting {
        let message = (query[14] > b'0').then_some(&query[..]);
        assert_eq!(rig.server.reply_later(*key, message), Some(true));
        rig.run_for(SECOND_NS);
    }
    assert_eq!(rig.seen.replies.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(rig.seen.failed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0]);
    rig.close(0);
    assert_eq!((rig.server.reply_later(waiting[0].0, Some(&waiting[0].1)), rig.echo.gone), (None, 0));
}

#[test]
fn queries_whose_client_leaves_before_their_replies_are_counted_at_its_end() {
    let mut rig = Rig::usual();
    rig.echo.later = Some(Vec::new());
    rig.connect(0);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    assert_eq!(rig.hand(0, 0..3), 3);
    rig.run_for(SECOND_NS);
    let waiting = rig.echo.later.take().unwrap();
    assert_eq!(rig.server.reply_later(waiting[0].0, Some(&waiting[0].1)), Some(true));
    rig.run_for(SECOND_NS);
    assert_eq!(rig.echo.gone, 0);
    rig.close(0);
    assert_eq!(rig.echo.gone, 2);
    for (key, query) in &waiting {
        assert_eq!(rig.server.reply_later(*key, Some(query)), None, "the connection is gone");
    }
}
