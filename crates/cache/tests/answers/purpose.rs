//! Look-ups for clients that waited: they change nothing, and may take what is stale.

use kqps_cache::{Answered, Bailiwick, Failure, Form, Purpose, Question, Settings, Shared, Stale};
use kqps_message::question;

use super::support::{PLAIN, query, reply, wire};

const WWW: &str = "www.example. A";

/// A cache that holds one answer with a TTL of 10 s from second 0 on, and its look-ups.
struct Rig {
    cache: Shared,
    name: Vec<u8>,
}

impl Rig {
    fn new(stale: Option<Stale>) -> Self {
        let settings = Settings { stale, prefetch_share: Some(0.5), ..Settings::default() };
        let rig = Self { cache: Shared::for_one(&settings, [1, 2]), name: wire("www.example.") };
        let reply = reply(WWW, "NOERROR\nan www.example. 10 IN A 192.0.2.1");
        let reply = rig.cache.read(&rig.question(), &reply, &Bailiwick::from_zone(&[0])).expect("an answer");
        rig.cache.keep(&rig.question(), &reply, 0);
        rig
    }

    fn question(&self) -> Question<'_> {
        Question { name: &self.name, rtype: 1, class: 1, dnssec_ok: false, checking_disabled: false }
    }

    fn look(&self, purpose: Purpose, now_s: u64) -> Answered {
        let mut buffer = query(WWW, PLAIN);
        let form = Form { question_end: question::end(&buffer).unwrap(), dnssec_ok: None };
        buffer.resize(512, 0);
        let key = self.cache.key(&self.question()).unwrap();
        self.cache.answer_read(&key, form, &mut buffer, 512, now_s, purpose)
    }
}

#[test]
fn a_waiter_takes_no_prefetch_and_is_not_counted() {
    let rig = Rig::new(None);
    let bytes = query(WWW, PLAIN).len() + 16;
    for _ in 0..3 {
        assert_eq!(rig.look(Purpose::Waiter, 9), Answered::Hit { bytes, prefetch: false });
    }
    assert_eq!(rig.cache.counts().hits, 0);
    assert_eq!(rig.look(Purpose::Client, 9), Answered::Hit { bytes, prefetch: true });
    assert_eq!(rig.look(Purpose::Client, 9), Answered::Hit { bytes, prefetch: false });
    rig.cache.forget_prefetch(&rig.cache.key(&rig.question()).unwrap());
    assert_eq!(rig.look(Purpose::Client, 9), Answered::Hit { bytes, prefetch: true }, "it was not fetched");
    assert_eq!(rig.cache.counts().hits, 3);
}

#[test]
fn a_client_that_waits_too_long_gets_what_is_stale() {
    let stale = Stale { most_s: 100, answer_ttl_s: 30 };
    let rig = Rig::new(Some(stale));
    let bytes = query(WWW, PLAIN).len() + 16;
    assert_eq!(rig.look(Purpose::Client, 10), Answered::Miss);
    assert_eq!(rig.look(Purpose::Waiter, 10), Answered::Miss);
    assert_eq!(rig.look(Purpose::Late, 10), Answered::Stale { bytes });
    assert_eq!(rig.look(Purpose::Late, 110), Answered::Miss, "it is too old");
    assert_eq!(Rig::new(None).look(Purpose::Late, 10), Answered::Miss, "it is not allowed");
    rig.cache.failed(&rig.question(), Failure::Silent, 11);
    assert_eq!(rig.look(Purpose::Client, 12), Answered::Stale { bytes });
}
