//! Forged answers, in every way that an answer can be wrong: from other addresses and ports, to other ports, with the
//! wrong ID, question, type, case or cookie, and with records of other zones. None is believed, and none is kept.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Result, ensure};

use super::super::Bench;
use super::message::{address, cookie, id, question_end, with_cookie, with_foreign};
use super::server::{Cache, ask, count};
use super::upstream::Upstream;

const RIGHT: [u8; 4] = [192, 0, 2, 7];
const FORGED: [u8; 4] = [203, 0, 113, 66];

/// Forged answers of each kind to one question. All fit into a socket buffer.
const EACH: u16 = 12;

/// Tries in all.
const SMALL_TRIES: u64 = 10_000;
const WHOLE_TRIES: u64 = 1_000_000;

/// The sockets of an attacker.
struct Attacker {
    other_port: UdpSocket,
    other_address: UdpSocket,
    tries: AtomicU64,
}

impl Attacker {
    fn new() -> Result<Self> {
        Ok(Self {
            other_port: UdpSocket::bind("127.0.0.1:0")?,
            other_address: UdpSocket::bind("127.0.0.2:0")?,
            tries: AtomicU64::new(0),
        })
    }

    /// Sends forged answers to a query that came from `to` at `own`, the socket of the server itself.
    fn attack(&self, own: &UdpSocket, to: SocketAddr, query: &[u8]) {
        let send = |socket: &UdpSocket, message: &[u8], to: SocketAddr| {
            // A port at which nothing listens refuses some later datagram.
            let _ = socket.send_to(message, to);
            self.tries.fetch_add(1, Relaxed);
        };
        let plain = address(query, 300, FORGED);
        let client = cookie(query).unwrap_or(&[0; 8]);
        let forged = with_cookie(plain.clone(), client, *b"cookie.8");
        for number in 1..=EACH {
            send(&self.other_port, &forged, to);
            send(&self.other_address, &forged, to);
            let elsewhere = SocketAddr::new(to.ip(), (to.port() ^ number).max(1));
            if elsewhere != own.local_addr().unwrap_or(to) {
                send(own, &forged, elsewhere);
            }
            let change = |at: usize, mask: u8| {
                let mut changed = forged.clone();
                changed[at] ^= mask;
                changed
            };
            let [_, low] = number.to_be_bytes();
            send(own, &change(1, low), to);
            send(own, &change(0, low), to);
            // Another letter of the name, the type, the class, and QR.
            send(own, &change(13, low & 7 | 1), to);
            send(own, &change(question_end(query) - 3, low), to);
            send(own, &change(question_end(query) - 1, low & 3 | 2), to);
            send(own, &change(2, 0x80), to);
            // A cookie of another client.
            let mut other = [0; 8];
            other.copy_from_slice(client);
            other[usize::from(number) % 8] ^= 0x55;
            send(own, &with_cookie(plain.clone(), &other, *b"cookie.8"), to);
        }
        // Every letter in the other case: the question is asked again by TCP, and this answer is not believed.
        let mut other_case = forged;
        let end = question_end(query);
        let letters = other_case[12..end - 4].iter_mut().filter(|byte| byte.is_ascii_alphabetic());
        letters.for_each(|byte| *byte ^= 0x20);
        send(own, &other_case, to);
    }
}

/// The right answer, with records of another zone that are not the server's.
fn right(query: &[u8]) -> Vec<u8> {
    let reply = address(query, 300, RIGHT);
    let reply = with_foreign(reply, 0, "victim.test", FORGED);
    let reply = with_foreign(reply, 2, "victim.test", FORGED);
    match cookie(query) {
        Some(client) => with_cookie(reply, client, *b"cookie.8"),
        None => reply,
    }
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let attacker = Arc::new(Attacker::new()?);
    let of_zone = attacker.clone();
    let zone = Upstream::start(move |one| {
        if let Some(own) = one.socket {
            of_zone.attack(own, one.from, one.query);
        }
        vec![right(one.query)]
    })?;
    let others = Upstream::start(|one| vec![address(one.query, 300, RIGHT)])?;
    let servers = [format!("zone.test={}", zone.address), others.address.to_string()];
    let cache = Cache::start(bench, &servers, &["--timeout", "10s"])?;
    let mut client = cache.client()?;
    let (tries, mut names) = (bench.choose(SMALL_TRIES, WHOLE_TRIES), 0_u32);
    while attacker.tries.load(Relaxed) < tries {
        let name = format!("name-{names}.zone.test");
        // From the server, and then from the cache.
        for round in 0..2 {
            let (rcode, addresses) = ask(&mut client, id(names.into()), &name)?;
            ensure!(
                rcode == 0 && addresses == [RIGHT],
                "{name} has {addresses:?} (rcode {rcode}) in round {round}"
            );
        }
        names += 1;
    }
    let (_, victim) = ask(&mut client, 1, "victim.test")?;
    ensure!(victim == [RIGHT] && others.asked() == 1, "a record of another zone was kept: {victim:?}");
    let counts = cache.stop()?;
    let kept = count(&counts, "/cache/kept");
    ensure!(kept == u64::from(names) + 1, "{kept} answers were kept for {names} names: {counts}");
    eprintln!("poisoning: {} tries at {names} names", attacker.tries.load(Relaxed));
    Ok(())
}
