//! Changes that take the link down are refused on the device that carries the way to the guest, unless they are
//! confirmed.

use anyhow::{Result, ensure};

use super::super::super::Bench;
use super::console::Guest;
use super::values::Values;

const DEVICE: &str = "eth0";

/// Changes for which a driver takes the link down.
const TAKING: [&str; 3] = ["channels.eth0=1", "rings.eth0=rx=128", "feature.eth0.lro=off"];

/// A connection to the guest, as sshd(8) names it.
const CONNECTION: &str = "SSH_CONNECTION='203.0.113.9 50000 192.0.2.1 22'";

pub(super) fn prove(_: &Bench, guest: &mut Guest) -> Result<()> {
    let before = Values::read(guest, DEVICE)?;
    guest.read("ip address add 192.0.2.1/24 dev eth0")?;
    let ways = [("default", "", "the default route"), ("203.0.113.0/24", CONNECTION, "your SSH connection")];
    for (network, environment, way) in ways {
        guest.read(&format!("ip route add {network} via 192.0.2.2"))?;
        for change in TAKING {
            let reply = guest.run(&format!("{environment} kqps host apply {change}"))?;
            let sentence =
                format!("takes down the link of {DEVICE}, which carries {way}: it needs --confirm-within");
            ensure!(reply.status != 0, "{change} is not refused: {}", reply.text);
            ensure!(
                reply.text.contains(&sentence),
                "{change}: expected {sentence:?}, found {:?}",
                reply.text
            );
        }
        before.are_back(guest)?;
        // Changes that leave the link alone are not refused, and neither are those of another device.
        guest.read(&format!("{environment} kqps host apply rps.eth0=0 rings.eth1=rx=512"))?;
        guest.read("kqps host undo")?;
        before.are_back(guest)?;
        confirmed(guest, environment, &before)?;
        guest.read(&format!("ip route del {network}"))?;
    }
    guest.read("ip address del 192.0.2.1/24 dev eth0")?;
    eprintln!("{} changes were refused on the way here, twice, and made if confirmed", TAKING.len());
    Ok(())
}

/// With a time limit the change is made. Without an answer it is undone, and with one it stays.
fn confirmed(guest: &mut Guest, environment: &str, before: &Values) -> Result<()> {
    let applying =
        |within: &str| format!("{environment} kqps host apply {} --confirm-within {within}", TAKING[1]);
    let reply = guest.run(&format!("sleep 12 | {}", applying("2s")))?;
    let is_undone = reply.status != 0 && reply.text.contains("It was not confirmed, and is undone.");
    ensure!(is_undone, "without an answer: status {}: {}", reply.status, reply.text);
    before.are_back(guest)?;
    let said = guest.read(&format!("echo yes | {}", applying("60s")))?;
    ensure!(said.contains("Kept."), "with an answer: {said}");
    guest.shows("now -g eth0 | grep ^RX:", "RX: 128")?;
    guest.read("kqps host undo")?;
    before.are_back(guest)
}
