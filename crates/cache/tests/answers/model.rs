//! Any sequence of replies, failures, questions and waits has the answers of a naive model with a map for each kind of
//! entry.

use std::collections::BTreeMap;

use kqps_cache::{Put, Settings};
use proptest::prelude::*;

use super::support::{Ask, DO, PLAIN, Server};

const NAMES: u8 = 4;
const FAILURE_S: u64 = 5;

/// A question: a name, whether it is for AAAA, and DO.
type Question = (u8, bool, bool);

#[derive(Clone, Copy, Debug)]
enum Content {
    Address(u8),
    NoData,
    NameError,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(Question, Content, u64),
    Fail(Question),
    Ask(Question),
    Wait(u64),
}

fn asked() -> impl Strategy<Value = Question> {
    (0..NAMES, any::<bool>(), any::<bool>())
}

fn step() -> impl Strategy<Value = Step> {
    let content = prop_oneof![
        3 => (1..100_u8).prop_map(Content::Address),
        1 => Just(Content::NoData),
        1 => Just(Content::NameError),
    ];
    prop_oneof![
        3 => (asked(), content, 0..12_u64).prop_map(|(asked, content, ttl_s)| Step::Put(asked, content, ttl_s)),
        1 => asked().prop_map(Step::Fail),
        6 => asked().prop_map(Step::Ask),
        2 => (1..8_u64).prop_map(Step::Wait),
    ]
}

/// The kept entries: since when, for how long, and their text.
#[derive(Default)]
struct Model {
    data: BTreeMap<Question, (u64, u64, String)>,
    name_errors: BTreeMap<(u8, bool), (u64, u64)>,
    failures: BTreeMap<Question, (u64, u64)>,
}

impl Model {
    fn put(&mut self, asked: Question, content: Content, ttl_s: u64, now_s: u64) {
        let (name, _, dnssec_ok) = asked;
        self.failures.remove(&asked);
        if let Content::NameError = content {
            self.data.remove(&asked);
            self.name_errors.insert((name, dnssec_ok), (now_s, ttl_s));
            return;
        }
        self.name_errors.remove(&(name, dnssec_ok));
        let records = records(asked, content, "TTL", "");
        self.data.insert(asked, (now_s, ttl_s, format!("NOERROR\n{records}\n")));
    }

    fn fail(&mut self, asked: Question, now_s: u64) {
        let lasts_s = match self.failures.get(&asked) {
            Some((since_s, lasts_s)) if now_s < since_s + lasts_s => return,
            Some((since_s, lasts_s)) if now_s < since_s + 2 * lasts_s => (2 * lasts_s).min(300),
            _ => FAILURE_S,
        };
        self.failures.insert(asked, (now_s, lasts_s));
    }

    fn answer(&self, asked: Question, now_s: u64) -> String {
        let (name, _, dnssec_ok) = asked;
        if let Some((since_s, ttl_s, text)) = self.data.get(&asked)
            && now_s < since_s + ttl_s
        {
            return text.replace("TTL", &(since_s + ttl_s - now_s).to_string());
        }
        if let Some((since_s, ttl_s)) = self.name_errors.get(&(name, dnssec_ok))
            && now_s < since_s + ttl_s
        {
            let records = records(asked, Content::NameError, "TTL", "");
            return format!("NXDOMAIN\n{records}\n").replace("TTL", &(since_s + ttl_s - now_s).to_string());
        }
        let failure = self.failures.get(&asked);
        if failure.is_some_and(|(since_s, lasts_s)| now_s < since_s + lasts_s) {
            return "failed SERVFAIL\n".to_owned();
        }
        "miss\n".to_owned()
    }
}

fn question((name, is_aaaa, _): Question) -> String {
    format!("n{name}.example. {}", if is_aaaa { "AAAA" } else { "A" })
}

fn ask((_, _, dnssec_ok): Question) -> Ask {
    if dnssec_ok { DO } else { PLAIN }
}

/// The records of a reply with this TTL and class.
fn records((name, is_aaaa, _): Question, content: Content, ttl: &str, class: &str) -> String {
    match content {
        Content::Address(host) if is_aaaa => {
            format!("an n{name}.example. {ttl}{class} AAAA 2001:db8::{host}")
        }
        Content::Address(host) => format!("an n{name}.example. {ttl}{class} A 192.0.2.{host}"),
        Content::NoData | Content::NameError => {
            format!("ns example. {ttl}{class} SOA ns.example. host.example. 1 2 3 4 3600")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn answers_are_those_of_a_naive_model(steps in prop::collection::vec(step(), 1..200)) {
        let mut server = Server::new(&Settings { failure_s: FAILURE_S as u32, ..Settings::default() });
        let mut model = Model::default();
        for step in steps {
            let now_s = server.now_s;
            match step {
                Step::Put(asked, content, ttl_s) => {
                    let rcode = if let Content::NameError = content { "NXDOMAIN" } else { "NOERROR" };
                    let records = records(asked, content, &ttl_s.to_string(), " IN");
                    let put = server.put(&question(asked), ask(asked), &format!("{rcode}\n{records}"));
                    prop_assert_eq!(matches!(put, Put::Kept { .. }), ttl_s > 0);
                    if ttl_s > 0 {
                        model.put(asked, content, ttl_s, now_s);
                    }
                }
                Step::Fail(asked) => {
                    server.failed(&question(asked), ask(asked));
                    model.fail(asked, now_s);
                }
                Step::Ask(asked) => {
                    let answer = server.ask(&question(asked), ask(asked));
                    prop_assert_eq!(answer, model.answer(asked, now_s));
                }
                Step::Wait(seconds) => server.now_s += seconds,
            }
        }
    }
}
