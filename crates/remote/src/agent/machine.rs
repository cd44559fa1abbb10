//! The machine of an agent, in the name of the agent's folder. A home may be shared by many machines, and a lock on a
//! file there may be known to one of them alone.

use std::ffi::OsStr;
use std::fs;

/// The hexadecimal digits that stand for a machine.
const DIGITS: usize = 12;

/// The beginning of the names of folders of this machine's agents. It stays the same over boots, so that what a machine
/// left before it lost power is removed later.
#[derive(Clone, Debug)]
pub(super) struct Machine(String);

impl Machine {
    /// This machine, by its name in the network and its ID (machine-id(5)).
    pub(super) fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Self::new(&text("/proc/sys/kernel/hostname"), &text("/etc/machine-id"))
    }

    fn new(hostname: &str, id: &str) -> Self {
        let hash = blake3::hash(format!("{}\n{}", hostname.trim(), id.trim()).as_bytes()).to_hex();
        Self(format!("{}-", &hash[..DIGITS]))
    }

    /// The beginning of the names.
    pub(super) fn prefix(&self) -> &str {
        &self.0
    }

    /// Whether the folder of this name is one of this machine's.
    pub(super) fn has(&self, name: &OsStr) -> bool {
        name.as_encoded_bytes().starts_with(self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_differ_by_name_and_by_id() {
        let one = Machine::new("node1\n", "6a2f\n");
        let folder = format!("{}7-x", one.prefix());
        assert!(Machine::new("node1", "6a2f").has(folder.as_ref()));
        assert!(!Machine::new("node2", "6a2f").has(folder.as_ref()));
        assert!(!Machine::new("node1", "6a30").has(folder.as_ref()));
        assert!(!one.has("lock".as_ref()));
    }
}
