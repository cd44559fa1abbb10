//! irqbalance, asked by its socket to leave interrupts alone (irqbalance-ui, `setup` and `settings ban irqs`). It is
//! never ended.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use crate::setting::value::numbers_word;

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The bytes of a request that versions up to 1.9.4 read (`sock_handle`, irqbalance.c). They ignore the rest, and a
/// number that is cut is another number.
const REQUEST_MOST: usize = 499;

/// Why more interrupts cannot be banned.
pub(super) const NO_ROOM: &str = "it reads 499 bytes of a request, and these interrupts are more";

/// The number of its process; `None` if it does not run.
pub(super) fn process() -> Option<u32> {
    kqps_host::processes().find(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "irqbalance")
    })
}

/// The interrupts that it leaves alone, as a value; the reason if it cannot be asked.
pub(super) fn banned() -> Result<String, String> {
    let pid = process().ok_or("irqbalance does not run")?;
    let answer = ask(pid, "setup").map_err(|error| format!("its socket: {error}"))?;
    banned_in(&answer)
        .map(|irqs| numbers_word(&irqs))
        .ok_or_else(|| "it refuses to answer this process".into())
}

/// Makes it leave these interrupts alone, and no others.
pub(super) fn ban(irqs: &BTreeSet<u32>) -> io::Result<()> {
    let pid = process().ok_or_else(|| io::Error::other("irqbalance does not run"))?;
    if !has_room(irqs) {
        return Err(io::Error::other(NO_ROOM));
    }
    ask(pid, &request(irqs)).map(drop)
}

/// Whether one request holds so many interrupts. Each request replaces the one before, so there is no second one for
/// the rest.
pub(super) fn has_room(irqs: &BTreeSet<u32>) -> bool {
    request(irqs).len() <= REQUEST_MOST
}

fn request(irqs: &BTreeSet<u32>) -> String {
    let words: Vec<String> = irqs.iter().map(u32::to_string).collect();
    let words = if words.is_empty() { "NONE".to_owned() } else { words.join(" ") };
    format!("settings ban irqs {words}")
}

/// Sends a command, and returns the answer, which is empty for settings.
fn ask(pid: u32, command: &str) -> io::Result<String> {
    let mut stream = connect(pid)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(command.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Newer versions have a socket in `/run`, older ones an abstract one.
fn connect(pid: u32) -> io::Result<UnixStream> {
    let name = format!("irqbalance{pid}.sock");
    UnixStream::connect(format!("/run/irqbalance/{name}"))
        .or_else(|_| UnixStream::connect_addr(&SocketAddr::from_abstract_name(&name)?))
}

/// The interrupts in the answer to `setup`: `SLEEP 10 IRQ 45 LOAD 0 DIFF 0 CLASS 3 BANNED 00000000`. `None` for another
/// answer: irqbalance sends nothing to a process that it does not trust.
fn banned_in(answer: &str) -> Option<BTreeSet<u32>> {
    let words: Vec<&str> = answer.split_whitespace().collect();
    if !words.contains(&"SLEEP") || !words.contains(&"BANNED") {
        return None;
    }
    let irqs = words.windows(2).filter(|pair| pair[0] == "IRQ").filter_map(|pair| pair[1].parse().ok());
    Some(irqs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_banned_interrupts_are_those_of_the_setup() {
        let answer =
            "SLEEP 10 IRQ 45 LOAD 12 DIFF 3 CLASS 5 IRQ 46 LOAD 0 DIFF 0 CLASS 5 BANNED 00000000,00000003";
        assert_eq!(banned_in(answer), Some([45, 46].into()));
        assert_eq!(banned_in("SLEEP 10 BANNED 00000000"), Some(BTreeSet::new()));
        for refusal in ["", "\n", "SLEEP 10 IRQ 45 LOAD", "permission denied"] {
            assert_eq!(banned_in(refusal), None, "{refusal:?}");
        }
    }

    #[test]
    fn a_request_that_would_be_cut_is_not_made() {
        let many = |count: u32| (100..100 + count).collect::<BTreeSet<u32>>();
        assert_eq!(request(&many(2)), "settings ban irqs 100 101");
        assert_eq!(request(&many(0)), "settings ban irqs NONE");
        assert!(has_room(&many(120)) && !has_room(&many(121)));
    }
}
