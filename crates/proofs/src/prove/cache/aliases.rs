//! The answer to a question does not depend on what was asked before: in random forests of aliases over several zones,
//! every answer is the right one, which is also that of an empty cache, in whatever order and after whatever time the
//! questions come.

mod forest;

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use kqps_cache::{Answered, Failure, Form, Purpose, Question, Settings, Shared};
use kqps_message::name::NameText;
use kqps_message::{query::CLASS_IN, rtype};
use kqps_resolve::chase::{Chase, Step};
use kqps_resolve::upstreams::Zones;
use kqps_resolve::{Stub, Upstreams};

use super::super::Bench;
use super::message::{Reply, asked, id, query, said, wire};
use super::server::{Cache, PATIENCE};
use super::upstream::Upstream;
use forest::{Forest, SERVFAIL};

/// Forests whose questions are followed without sockets, and with the program and servers.
const SMALL_FORESTS: u64 = 1_000;
const WHOLE_FORESTS: u64 = 100_000;
const SMALL_SERVED: u64 = 4;
const WHOLE_SERVED: u64 = 200;

/// How often each name is asked for, on average.
const ROUNDS: usize = 3;

/// Seconds that pass before a question.
const WAITS_S: [u64; 8] = [0, 0, 0, 0, 1, 4, 30, 400];

/// The longest reply.
const REPLY_BYTES: usize = 65_535;

/// A cache before the servers of a forest, without sockets.
struct World<'f> {
    forest: &'f Forest,
    zones: &'f Zones,
    cache: Shared,
}

impl<'f> World<'f> {
    fn new(forest: &'f Forest, zones: &'f Zones) -> Self {
        let settings = Settings { memory_bytes: 0, ..Settings::default() };
        Self { forest, zones, cache: Shared::for_one(&settings, [1, 2]) }
    }

    /// The answer to a query, as a worker and a resolver find it.
    fn ask(&self, query: &[u8], now_s: u64, rng: &mut Rng) -> Result<Vec<u8>> {
        let end = query.len() - 4;
        let name = asked(query);
        let rtype = u16::from_be_bytes([query[end], query[end + 1]]);
        let question =
            Question { name: &name, rtype, class: CLASS_IN, dnssec_ok: false, checking_disabled: false };
        let form = Form { question_end: query.len(), dnssec_ok: None };
        let mut buffer = [query, &vec![0; REPLY_BYTES - query.len()]].concat();
        let key = self.cache.key(&question).context("a key")?;
        // Sometimes the answer is fetched anew although it is there.
        let renews = rng.u8(0..8) == 0;
        let found = self.cache.answer_read(&key, form, &mut buffer, REPLY_BYTES, now_s, Purpose::Client);
        let bytes = match found {
            Answered::Hit { bytes, .. } if !renews => bytes,
            Answered::Failed { bytes } => bytes,
            _ => {
                buffer[..query.len()].copy_from_slice(query);
                self.fetch(&question, form, &mut buffer, renews, now_s, rng)?
            }
        };
        buffer.truncate(bytes);
        Ok(buffer)
    }

    /// Asks servers until the chain ends. Returns the length of the reply in the buffer.
    fn fetch(
        &self,
        question: &Question<'_>,
        form: Form,
        buffer: &mut [u8],
        renews: bool,
        now_s: u64,
        rng: &mut Rng,
    ) -> Result<usize> {
        let Self { forest, zones, cache } = self;
        let mut chase = Chase::new(question, zones, renews).context("no server")?;
        let mut step = chase.look(question, zones, cache, now_s);
        // A chain of 16 aliases takes 17 questions at most.
        for _ in 0..=17 {
            match step {
                Step::Ask => {
                    let target = chase.target(question);
                    let text = text_of(target.name);
                    let zone = forest.zone_of(&text).with_context(|| format!("no server for {text}"))?;
                    let reply = forest.say(zone, &query_of(&target), &text, rng);
                    step = chase.take(question, &reply, zones, cache, now_s);
                }
                Step::Whole(reply) => {
                    cache.keep(question, &reply, now_s);
                    return Ok(reply.answer(form, buffer, REPLY_BYTES));
                }
                Step::Broken => {
                    cache.failed(question, Failure::Unusable, now_s);
                    buffer[3] = SERVFAIL;
                    return Ok(form.question_end);
                }
            }
        }
        anyhow::bail!("more than 17 questions to servers")
    }
}

fn text_of(name: &[u8]) -> String {
    NameText(name).to_string().trim_end_matches('.').to_owned()
}

/// A query for a question, without EDNS.
fn query_of(question: &Question<'_>) -> Vec<u8> {
    let head = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&head, question.name, &question.rtype.to_be_bytes(), &[0, 1]].concat()
}

/// Compares an answer with the right one, by rcode and records. A TTL may be shorter.
fn compare(said: &Reply, right: &Reply) -> Result<()> {
    let is_same = said.rcode == right.rcode && said.answers.keys().eq(right.answers.keys());
    ensure!(is_same, "it is {said:?}, and {right:?} is right");
    for (record, ttl_s) in &said.answers {
        ensure!(*ttl_s <= right.answers[record], "the TTL of {record:?} is {ttl_s}: {right:?}");
    }
    Ok(())
}

/// The questions of a forest in a random order, each some times.
fn questions(forest: &Forest, rng: &mut Rng) -> Vec<(String, u16)> {
    let names = forest.names(rng);
    let one = |rng: &mut Rng| {
        let rtype =
            *rng.choice(&[rtype::A, rtype::A, rtype::A, rtype::AAAA, rtype::CNAME]).unwrap_or(&rtype::A);
        (names[rng.usize(..names.len())].clone(), rtype)
    };
    (0..ROUNDS * names.len()).map(|_| one(rng)).collect()
}

/// The zones of a forest, with the addresses of their servers.
fn upstreams(forest: &Forest, addresses: &[std::net::SocketAddr]) -> Upstreams {
    let stub = |(zone, address): (&String, &std::net::SocketAddr)| Stub {
        zone: wire(zone),
        servers: vec![*address],
    };
    let stubs: Vec<Stub> = forest.stubs.iter().zip(addresses).map(stub).collect();
    let forwarders = if forest.has_forwarder { &addresses[forest.stubs.len()..] } else { &[] };
    Upstreams::new(forwarders, &stubs)
}

/// Asks the questions of a forest without sockets. Returns how many there were.
fn without_sockets(forest: &Forest, rng: &mut Rng) -> Result<u64> {
    let nowhere = [([192, 0, 2, 1], 53).into(); 6];
    let zones = upstreams(forest, &nowhere[..=forest.stubs.len()]).zones;
    let world = World::new(forest, &zones);
    let (mut now_s, mut count) = (1000, 0);
    for (name, rtype) in questions(forest, rng) {
        now_s += WAITS_S[rng.usize(..WAITS_S.len())];
        let mut query = query(id(count), &name);
        let at = query.len() - 4;
        query[at..at + 2].copy_from_slice(&rtype.to_be_bytes());
        let right = forest.right(&name, rtype);
        for (what, world) in [("the cache", &world), ("an empty cache", &World::new(forest, &zones))] {
            let said = said(&world.ask(&query, now_s, rng)?);
            let compared = said.and_then(|said| compare(&said, &right));
            compared.with_context(|| format!("{what} at {now_s} s: {name} type {rtype}"))?;
        }
        count += 1;
    }
    Ok(count)
}

/// Asks the questions of a forest of the program, before servers that answer for the zones.
fn served(bench: &Bench, forest: &Arc<Forest>, rng: &mut Rng) -> Result<u64> {
    let zones = forest.stubs.len() + usize::from(forest.has_forwarder);
    let server = |zone: usize, rng: &mut Rng| {
        let (forest, rng) = (forest.clone(), Mutex::new(rng.fork()));
        Upstream::start(move |one| {
            let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
            vec![forest.say(zone, one.query, &text_of(&asked(one.query)), &mut rng)]
        })
    };
    let servers: Vec<Upstream> = (0..zones).map(|zone| server(zone, rng)).collect::<Result<_>>()?;
    let flag = |(zone, server): (usize, &Upstream)| match forest.stubs.get(zone) {
        Some(stub) => format!("{stub}={}", server.address),
        None => server.address.to_string(),
    };
    let flags: Vec<String> = servers.iter().enumerate().map(flag).collect();
    let cache = Cache::start(bench, &flags, &["--failure-ttl", "1s"])?;
    let mut client = cache.client()?;
    let mut count = 0;
    for (name, rtype) in questions(forest, rng) {
        let mut query = query(id(count), &name);
        let at = query.len() - 4;
        query[at..at + 2].copy_from_slice(&rtype.to_be_bytes());
        let reply = client.ask(&query, PATIENCE).with_context(|| format!("no reply for {name}"))?;
        let compared = said(&reply).and_then(|said| compare(&said, &forest.right(&name, rtype)));
        compared.with_context(|| format!("{name} type {rtype}"))?;
        count += 1;
    }
    cache.stop()?;
    Ok(count)
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (mut asked, mut served_questions) = (0, 0);
    let (forests, with_servers) =
        (bench.choose(SMALL_FORESTS, WHOLE_FORESTS), bench.choose(SMALL_SERVED, WHOLE_SERVED));
    for number in 0..forests {
        let mut rng = Rng::with_seed(bench.seed.wrapping_add(number));
        let forest = Arc::new(Forest::new(&mut rng));
        let describe = || format!("forest {number}: {forest:?}");
        asked += without_sockets(&forest, &mut rng).with_context(describe)?;
        if number < with_servers {
            served_questions += served(bench, &forest, &mut rng).with_context(describe)?;
        }
    }
    eprintln!(
        "aliases: {forests} forests, {asked} questions without sockets, {served_questions} of {with_servers} forests to the program"
    );
    Ok(())
}
