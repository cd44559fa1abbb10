//! The tree of a recipe, as the server asks it: each server counts its queries, so faults come in exact numbers.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;

use kqps_internet::{Fault, Internet};
use kqps_server::services::internet::{Kind, Level, TcpConduct, Tree, TreeAnswer};

/// The names of all faults, by their index.
static FAULTS: [&str; Fault::ALL.len()] = {
    let mut names = [""; Fault::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Fault::ALL[index].name();
        index += 1;
    }
    names
};

/// A generated tree.
pub(super) struct Generated {
    internet: Internet,
    /// The queries that came to each place, by UDP and by TCP; empty if no answer depends on them. Threads share these counts,
    /// so a query costs an addition that is atomic.
    turns: Box<[[AtomicU64; 2]]>,
}

impl Generated {
    /// A tree whose root and top-level domains are signed already.
    pub(super) fn new(internet: Internet) -> Self {
        let threads = available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for part in 0..threads {
                let internet = &internet;
                scope.spawn(move || internet.prepare(part, threads));
            }
        });
        let places = if internet.answers_by_turn() { internet.places() } else { 0 };
        let turns = (0..places).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        Self { internet, turns }
    }
}

impl Tree for Generated {
    fn prefixes(&self) -> Vec<(IpAddr, u8)> {
        self.internet.prefixes()
    }

    fn has_delays(&self) -> bool {
        self.internet.has_delays()
    }

    fn answer(&self, server: IpAddr, query: &[u8], is_tcp: bool, reply: &mut Vec<u8>) -> TreeAnswer {
        let turns = self.internet.place_at(server).and_then(|place| self.turns.get(place as usize));
        let turn = turns.map_or(0, |turns| turns[usize::from(is_tcp)].fetch_add(1, Ordering::Relaxed));
        let answered = self.internet.answer(server, query, is_tcp, turn, reply);
        TreeAnswer {
            level: level(answered.level),
            kind: kind(answered.kind),
            delay_ns: answered.delay_ns,
            fault: answered.fault.and_then(index),
        }
    }

    fn faults(&self) -> &[&'static str] {
        &FAULTS
    }

    fn conduct(&self, server: IpAddr) -> TcpConduct {
        match self.internet.tcp_conduct(server) {
            kqps_internet::TcpConduct::Usual => TcpConduct::Usual,
            kqps_internet::TcpConduct::Refuse(fault) => TcpConduct::Refuse { fault: fault.and_then(index) },
            kqps_internet::TcpConduct::Slow { piece_bytes, gap_us } => {
                TcpConduct::Slow { piece_bytes, gap_ns: u64::from(gap_us) * 1000 }
            }
        }
    }

    fn root_hints(&self) -> String {
        self.internet.root_hints()
    }

    fn trust_anchor(&self) -> String {
        self.internet.trust_anchor()
    }
}

fn index(fault: Fault) -> Option<u8> {
    let index = Fault::ALL.iter().position(|one| *one == fault)?;
    u8::try_from(index).ok()
}

fn level(level: kqps_internet::Level) -> Level {
    match level {
        kqps_internet::Level::Root => Level::Root,
        kqps_internet::Level::Tld => Level::Tld,
        kqps_internet::Level::Hosting => Level::Hosting,
        kqps_internet::Level::Nothing => Level::Nothing,
    }
}

fn kind(kind: kqps_internet::Kind) -> Kind {
    match kind {
        kqps_internet::Kind::Answer => Kind::Answer,
        kqps_internet::Kind::Referral => Kind::Referral,
        kqps_internet::Kind::NxDomain => Kind::Nxdomain,
        kqps_internet::Kind::NoData => Kind::Nodata,
        kqps_internet::Kind::Refused => Kind::Refused,
        kqps_internet::Kind::ServFail => Kind::Servfail,
        kqps_internet::Kind::FormErr => Kind::Formerr,
        kqps_internet::Kind::NotImp => Kind::Notimp,
        kqps_internet::Kind::Truncated => Kind::Truncated,
        kqps_internet::Kind::Silent => Kind::Silent,
    }
}
