//! Settings of this host that cells ask for by `host.` factors: set before the subject of a cell starts, and undone
//! after its trials. The host has those of one cell at a time. If cells run side by side, as both sides of a comparison
//! do, the settings change with their trials. A guard undoes them if this process ends.

mod leftovers;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use kqps_host::Topology;
use kqps_observation::factors::ReceiveCore;
use kqps_observation::{Cell, Factors};
use kqps_tuning::apply::check;
use kqps_tuning::receive_core::receive_core;
use kqps_tuning::setting::in_order;
use kqps_tuning::{Change, Guard, Held, Journal, Real, link};

use crate::path::LaidPath;
use leftovers::Leftovers;

/// The device of the loopback path.
const LOOPBACK: &str = "lo";

/// Replaces the word `last` for the receive core by the number of the last core.
pub fn number_core(factors: &mut Factors, topology: &Topology) {
    let last = topology.cores.iter().map(|core| core.cpu).max();
    if let (Some(ReceiveCore::Last), Some(last)) = (factors.receive_core(), last) {
        factors.set_receive_core(last);
    }
}

/// Why this host does not have the settings of a cell; `None` if it has, or if only the path of the cell will show it.
pub fn why_not(cell: &Cell) -> Option<String> {
    if cell.factors.host_settings().is_empty() || !is_on_host(cell) {
        return None;
    }
    let of_factors = changes_of(&cell.factors);
    let system = Real::host();
    let checked = of_factors.and_then(|changes| {
        link::check(&changes).map_err(|error| error.to_string())?;
        check(&system, &changes).map_err(|error| error.to_string())
    });
    checked.err()
}

/// Whether the settings of a cell are those of the host, and not of namespaces of its own.
fn is_on_host(cell: &Cell) -> bool {
    cell.factors.path().kind != Some(kqps_observation::question::Path::Veth)
}

/// The settings that a cell names, those that reset others first.
fn changes_of(factors: &Factors) -> Result<Vec<Change>, String> {
    let read =
        |(name, value): (&String, &String)| Change::read(name, value).map_err(|error| error.to_string());
    let mut changes = factors.host_settings().iter().map(read).collect::<Result<Vec<_>, _>>()?;
    in_order(&mut changes);
    Ok(changes)
}

/// The changes that a cell asks for.
#[derive(Debug, Default)]
pub struct CellChanges {
    /// Changes to the host.
    pub of_host: Vec<Change>,
    /// Changes to the network namespace of the subject.
    of_subject: Vec<Change>,
    /// Changes to the network namespace of the player.
    of_player: Vec<Change>,
}

impl CellChanges {
    /// The changes that a cell asks for on its path. Settings that the subject's namespace has itself are set there,
    /// and all receive work is that of both ends of the path, since both are on this host.
    pub fn from_cell(cell: &Cell, path: &LaidPath) -> Result<Self, String> {
        let core = match cell.factors.receive_core() {
            Some(ReceiveCore::Core(core)) => Some(core),
            Some(ReceiveCore::Last) => Topology::read().cores.iter().map(|core| core.cpu).max(),
            None => None,
        };
        let changes = changes_of(&cell.factors)?;
        let received = |system: &Real, device: &str| match core {
            Some(core) => receive_core(system, device, core).map_err(|error| error.to_string()),
            None => Ok(Vec::new()),
        };
        let LaidPath::Veth(veth) = path else {
            let received = received(&Real::host(), LOOPBACK)?;
            return Ok(Self { of_host: [changes, received].concat(), ..Self::default() });
        };
        if changes.is_empty() && core.is_none() {
            return Ok(Self::default());
        }
        let within = |namespace: &kqps_kernel::namespace::NetNs| {
            let system = namespace.try_clone().and_then(Real::within);
            system.map_err(|error| format!("the settings of the path: {error}"))
        };
        let (subject, player) = (within(veth.subject())?, within(veth.player())?);
        let (of_subject, of_host): (Vec<Change>, Vec<Change>) =
            changes.into_iter().partition(|change| subject.has(&change.setting));
        let device = kqps_kernel::namespace::veth::DEVICE;
        Ok(Self {
            of_host,
            of_subject: [of_subject, received(&subject, device)?].concat(),
            of_player: received(&player, device)?,
        })
    }
}

/// The settings of this host during a run.
pub struct HostSettings<'a> {
    kqps: &'a Path,
    guard: RefCell<Option<Arc<Guard>>>,
    /// The changes that the host has, and what undoes them.
    held: RefCell<Option<(Vec<Change>, Held)>>,
    /// Settings that could not be undone after a cell.
    left: RefCell<Leftovers<Held>>,
    /// Remarks on what may keep settings from having their effect.
    remarks: RefCell<BTreeSet<String>>,
}

/// The lack that a run notes if settings of cells could not be undone after the last of them.
pub const AS_BEFORE: &str = "the host's settings from before the run";

/// The lack that a run notes if something may keep settings from having their effect.
pub const CERTAIN: &str = "certainty that the host's settings held";

impl<'a> HostSettings<'a> {
    /// The settings of a run that sets none yet. `kqps` is the path of this program, which is the guard.
    pub fn new(kqps: &'a Path) -> Self {
        Self {
            kqps,
            guard: RefCell::default(),
            held: RefCell::default(),
            left: RefCell::default(),
            remarks: RefCell::default(),
        }
    }

    /// Gives the host these changes, and no others. Fails as long as those before cannot be undone, since the host is
    /// then not as the cell has it. What somebody else has changed since will never be undone, and fails one start.
    pub fn have(&self, changes: &[Change]) -> Result<(), String> {
        self.refuse_if_left()?;
        let mut held = self.held.borrow_mut();
        if held.as_ref().map_or(changes.is_empty(), |(has, _)| has == changes) {
            return Ok(());
        }
        self.take_back(held.take());
        self.refuse_if_left()?;
        if !changes.is_empty() {
            link::check(changes).map_err(|error| error.to_string())?;
            *held = Some((changes.to_vec(), self.hold(Real::host(), changes)?));
        }
        Ok(())
    }

    /// Undoes these changes, if the host has them.
    pub fn release(&self, changes: &[Change]) {
        let mut held = self.held.borrow_mut();
        if held.as_ref().is_some_and(|(has, _)| has == changes) {
            self.take_back(held.take());
        }
    }

    /// Notes on what the run lacks because of its settings, and why.
    pub fn notes(&self) -> BTreeMap<String, String> {
        self.take_back(self.held.borrow_mut().take());
        let remarks: Vec<String> = self.remarks.borrow().iter().cloned().collect();
        let left = self.left.borrow_mut().all();
        let all = [(AS_BEFORE, left.join("; ")), (CERTAIN, remarks.join("; "))];
        let there = all.into_iter().filter(|(_, why)| !why.is_empty());
        there.map(|(what, why)| (what.to_owned(), why)).collect()
    }

    fn refuse_if_left(&self) -> Result<(), String> {
        self.left.borrow_mut().refusal().map_or(Ok(()), Err)
    }

    fn take_back(&self, held: Option<(Vec<Change>, Held)>) {
        if let Some((_, held)) = held {
            self.left.borrow_mut().put_back(held);
        }
    }

    /// Sets what a cell wants in the namespaces of its path. It is undone with the values that are returned.
    pub fn set_on_path(&self, wanted: &CellChanges, path: &LaidPath) -> Result<Vec<Held>, String> {
        let LaidPath::Veth(veth) = path else { return Ok(Vec::new()) };
        let mut held = Vec::new();
        for (namespace, changes) in [(veth.subject(), &wanted.of_subject), (veth.player(), &wanted.of_player)]
        {
            if !changes.is_empty() {
                let system =
                    namespace.try_clone().and_then(Real::within).map_err(|error| error.to_string())?;
                held.push(self.hold(system, changes)?);
            }
        }
        Ok(held)
    }

    fn hold(&self, system: Real, changes: &[Change]) -> Result<Held, String> {
        let guard = self.guard()?;
        let held = Held::set(Box::new(system), &guard, changes).map_err(|error| error.to_string())?;
        self.remarks.borrow_mut().extend(held.applied().remarks.iter().cloned());
        Ok(held)
    }

    fn guard(&self) -> Result<Arc<Guard>, String> {
        let mut guard = self.guard.borrow_mut();
        if let Some(guard) = &*guard {
            return Ok(Arc::clone(guard));
        }
        let journal = Journal::of_this_boot().map_err(|error| error.to_string())?;
        let started = Guard::start(self.kqps, journal);
        let started = Arc::new(started.map_err(|error| format!("the guard of host settings: {error}"))?);
        *guard = Some(Arc::clone(&started));
        Ok(started)
    }
}

/// Releases the changes of a cell when it is dropped.
pub struct Release<'a> {
    /// The settings that the changes are of.
    pub settings: &'a HostSettings<'a>,
    /// The changes to release.
    pub changes: Vec<Change>,
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.settings.release(&self.changes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(words: &[(&str, &str)]) -> Cell {
        let mut cell = Cell::default();
        for (name, word) in words {
            cell.factors.set(name, *word).unwrap();
        }
        cell
    }

    #[test]
    fn a_setting_that_this_host_lacks_is_one_sentence() {
        assert_eq!(why_not(&cell(&[("host.nice", "3")])), None);
        assert_eq!(why_not(&cell(&[("host.rps.lo", "0")])), None);
        let reason = why_not(&cell(&[("host.rps.none0", "0")])).unwrap();
        assert_eq!(reason, "rps.none0: this host has no such setting");
        // The device of a veth path exists once the path is laid.
        assert_eq!(why_not(&cell(&[("path", "veth"), ("host.rps.kqps0", "0")])), None);
    }

    #[test]
    fn numbers_of_queues_come_first_and_loopback_is_steered() {
        let cell =
            cell(&[("host.coalesce.eth0", "9"), ("host.channels.eth0", "2"), ("host.receive-core", "0")]);
        let wanted = CellChanges::from_cell(&cell, &LaidPath::Loopback).unwrap();
        let words: Vec<String> = wanted.of_host.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["channels.eth0=2", "coalesce.eth0=rx-usecs=9", "rps.lo=0"]);
        assert!(wanted.of_subject.is_empty() && wanted.of_player.is_empty());
    }

    #[test]
    fn what_stays_for_good_fails_the_next_start_and_no_other_and_is_noted() {
        let settings = HostSettings::new(Path::new("kqps"));
        let left = "irq.eth0-TxRx-0 stays 3, and was 0-7: somebody else has changed it since";
        settings.left.borrow_mut().note(left.to_owned());
        assert_eq!(
            settings.have(&[]),
            Err(format!("the settings of the cell before could not be undone: {left}"))
        );
        assert_eq!(settings.have(&[]), Ok(()));
        assert_eq!(settings.notes(), BTreeMap::from([(AS_BEFORE.to_owned(), left.to_owned())]));
        settings.remarks.borrow_mut().insert("it may move them".to_owned());
        let notes = settings.notes();
        assert_eq!((notes[AS_BEFORE].as_str(), notes[CERTAIN].as_str()), (left, "it may move them"));
    }

    #[test]
    fn the_last_core_gets_its_number() {
        let mut factors = cell(&[("host.receive-core", "last")]).factors;
        number_core(&mut factors, &Topology::read());
        assert!(matches!(factors.receive_core(), Some(ReceiveCore::Core(_))));
        assert_ne!(factors.word("host.receive-core"), Some("last"));
    }
}
