//! The traces of a running run in the kernel, which must vanish with it: its processes, their network
//! namespaces, and the devices in those.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use kqps_kernel::namespace::NetNs;
use kqps_kernel::namespace::veth::DEVICE;

use crate::child::{pids, working_in};
use crate::wait;

/// How long traces may stay: the kernel ends killed processes and removes namespaces a moment later.
const VANISH_WITHIN: Duration = Duration::from_secs(20);

const LOOK: Duration = Duration::from_millis(5);

pub(super) struct Remains<'a> {
    home: &'a Path,
    /// Namespaces other than our own that the run's processes are in, by number.
    namespaces: BTreeMap<u64, NetNs>,
}

impl<'a> Remains<'a> {
    /// The traces of the run in this folder at this moment.
    pub(super) fn read(home: &'a Path) -> Result<Self> {
        let own = NetNs::of_process(std::process::id())?.number()?;
        let mut namespaces = BTreeMap::new();
        for pid in working_in(home) {
            // A process may end meanwhile.
            let Ok(namespace) = NetNs::of_process(pid) else { continue };
            let number = namespace.number()?;
            if number != own {
                namespaces.insert(number, namespace);
            }
        }
        Ok(Self { home, namespaces })
    }

    pub(super) fn namespaces(&self) -> usize {
        self.namespaces.len()
    }

    /// Waits until all traces are gone. It releases all namespaces but one. That one shows that the others
    /// have ended: a device vanishes together with its peer.
    pub(super) fn vanish(mut self) -> Result<()> {
        let kept = self.namespaces.pop_first().map(|(_, namespace)| namespace);
        let numbers: Vec<u64> = self.namespaces.keys().copied().collect();
        drop(std::mem::take(&mut self.namespaces));
        until("processes of a killed run live on", || Ok(working_in(self.home).next().is_none()))?;
        until("processes are left in a namespace", || {
            Ok(!numbers.iter().any(|number| is_inhabited(*number)))
        })?;
        if let Some(kept) = kept {
            until("a device outlived its peer's namespace", || {
                Ok(!kept.within(|| fs::read_to_string("/proc/thread-self/net/dev"))?.contains(DEVICE))
            })?;
        }
        ensure!(!fs::read_to_string("/proc/net/dev")?.contains(DEVICE), "{DEVICE} is on the host");
        Ok(())
    }
}

fn until(what: &str, mut happened: impl FnMut() -> io::Result<bool>) -> Result<()> {
    let late = || format!("{what}, {} s after it was killed", VANISH_WITHIN.as_secs());
    wait::until((VANISH_WITHIN, LOOK), || Ok(happened()?.then_some(())), late)
}

fn is_inhabited(namespace: u64) -> bool {
    let is_in = |pid: u32| {
        fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|metadata| metadata.ino() == namespace)
    };
    pids().any(is_in)
}
