//! kqps is killed between the steps of `apply` and of `undo`, and `undo` brings every value back. If the owner of
//! settings is killed, its guard does.

use anyhow::{Context as _, Result, ensure};

use super::super::super::Bench;
use super::cards::{CARDS, Card};
use super::console::Guest;
use super::is_small;
use super::values::Values;

/// The command for as long as which settings are in force. It leaves its process ID.
const HOLD: &str = "sh -c 'echo $$ >/tmp/held; exec sleep 3000'";

/// How many times the guest looks whether something has happened, every 50 ms.
const LOOKS: u32 = 2400;

/// Kills fall at one record of so many: each takes half a minute in an emulated guest.
const STRIDE: usize = 3;
const SMALL_STRIDE: usize = 8;

pub(super) fn prove(bench: &Bench, guest: &mut Guest) -> Result<()> {
    let stride = if is_small(bench) { SMALL_STRIDE } else { STRIDE };
    for card in &CARDS {
        let mut kills = Kills { card, before: Values::read(guest, card.device)?, seen: Vec::new() };
        for step in (1..=card.changes.len()).step_by(stride) {
            let name = |what: &str| format!("{}: {what} was killed at record {step}", card.device);
            kills.apply(guest, step).with_context(|| name("apply"))?;
            kills.undo(guest, step - 1).with_context(|| name("undo"))?;
        }
        for step in (1..=card.changes.len()).step_by(2 * stride) {
            kills.owner(guest, step).with_context(|| format!("{}: an owner at {step}", card.device))?;
        }
        kills.holder(guest).with_context(|| format!("{}: the owner of all settings", card.device))?;
        kills.print();
    }
    Ok(())
}

struct Kills<'a> {
    card: &'a Card,
    before: Values,
    /// How many lines were changed after each kill of `apply` and of `undo`.
    seen: Vec<usize>,
}

impl Kills<'_> {
    /// `kqps host apply` with all changes of the card.
    fn applying(&self) -> String {
        format!("kqps host apply {}", self.card.changes.join(" "))
    }

    /// Kills `apply` when a number of records are in the journal. The last of them is of a change that was made, or
    /// is about to be.
    fn apply(&mut self, guest: &mut Guest, records: usize) -> Result<()> {
        guest.read(&format!("killed-at -ge {records} {}", self.applying()))?;
        self.seen.push(self.before.changed(guest)?);
        guest.read("kqps host undo")?;
        self.before.are_back(guest)
    }

    /// Kills `undo` when a number of records are left.
    fn undo(&mut self, guest: &mut Guest, records: usize) -> Result<()> {
        guest.read(&self.applying())?;
        guest.read(&format!("killed-at -le {records} kqps host undo"))?;
        self.seen.push(self.before.changed(guest)?);
        guest.read("kqps host undo")?;
        self.before.are_back(guest)
    }

    /// Kills an owner before all its settings are in force. Nobody undoes by hand.
    fn owner(&self, guest: &mut Guest, records: usize) -> Result<()> {
        guest.read(&format!("killed-at -ge {records} {} --for {HOLD}", self.applying()))?;
        self.guarded(guest)
    }

    /// Kills an owner while its command runs.
    fn holder(&self, guest: &mut Guest) -> Result<()> {
        let start = format!("{} --for {HOLD} >/tmp/said 2>&1 & echo $! >/tmp/owner", self.applying());
        guest.read(&start)?;
        wait(guest, "[ -s /tmp/held ]").context("the settings are not in force")?;
        let changed = self.before.changed(guest)?;
        ensure!(changed >= self.card.changes.len() / 2, "only {changed} lines are changed");
        guest.read("kill -9 $(cat /tmp/owner)")?;
        self.guarded(guest)
    }

    /// Waits for the guard's end. All values must then be back, and nothing must be left in the journal.
    fn guarded(&self, guest: &mut Guest) -> Result<()> {
        wait(guest, "! ps | grep -q '[h]ost guard'").context("the guard does not end")?;
        guest.run("kill -9 $(cat /tmp/held); rm -f /tmp/held")?;
        self.before.are_back(guest)?;
        let left = guest.read("ls /var/lib/kqps/tuning/*/* | grep -c json || true")?;
        ensure!(left.trim() == "0", "{} records are left", left.trim());
        Ok(())
    }

    fn print(&self) {
        let (least, most) = (self.seen.iter().min().unwrap_or(&0), self.seen.iter().max().unwrap_or(&0));
        eprintln!(
            "{}: {} kills of apply and undo left {least} to {most} lines changed, and undo brought all back; guards \
             undid the rest",
            self.card.device,
            self.seen.len()
        );
    }
}

/// Waits in the guest until a condition holds.
fn wait(guest: &mut Guest, condition: &str) -> Result<()> {
    let looks = format!("looks=0; until {condition} || [ $looks -ge {LOOKS} ]; do usleep 50000; ");
    guest.read(&format!("{looks}looks=$((looks + 1)); done; {condition}")).map(drop)
}
