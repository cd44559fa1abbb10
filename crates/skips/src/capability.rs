//! Capabilities of a host that a test may need.

/// Something that tests need and a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Name servers and tools in Debian packages, which `cargo xtask test` installs on Debian.
    Programs,
    /// The rights of root.
    Root,
    /// Network namespaces, and links between them.
    Networks,
    /// Devices of VLANs.
    Vlans,
    /// A mount namespace with a small disk.
    Mounts,
    /// Raw sockets.
    RawSockets,
    /// Threads that run before all others (`SCHED_FIFO`).
    RealTime,
    /// `io_uring`.
    Uring,
    /// Datagrams sent and received as one message (`UDP_SEGMENT`, `UDP_GRO`).
    Segmentation,
    /// IPv6 on loopback.
    Ipv6,
    /// Two cores.
    Cores,
    /// Control groups that can be made.
    ControlGroups,
    /// The kernel's reasons for dropping packets.
    DropReasons,
    /// Samples of threads and of the kernel's locks (`perf_event_open`).
    Profiles,
    /// Cores that can be kept out of deep sleep.
    IdleStates,
    /// A route to other hosts.
    Route,
    /// A built program that other users may start.
    OtherUsers,
    /// Something that happens in one run and not in another.
    Chance,
    /// As many open files as tens of thousands of connections need.
    Descriptors,
    /// The program `cargo-deny`.
    CargoDeny,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Programs,
        Self::Root,
        Self::Networks,
        Self::Vlans,
        Self::Mounts,
        Self::RawSockets,
        Self::RealTime,
        Self::Uring,
        Self::Segmentation,
        Self::Ipv6,
        Self::Cores,
        Self::ControlGroups,
        Self::DropReasons,
        Self::Profiles,
        Self::IdleStates,
        Self::Route,
        Self::OtherUsers,
        Self::Chance,
        Self::Descriptors,
        Self::CargoDeny,
    ];

    /// The name in lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Programs => "programs",
            Self::Root => "root",
            Self::Networks => "networks",
            Self::Vlans => "vlans",
            Self::Mounts => "mounts",
            Self::RawSockets => "raw-sockets",
            Self::RealTime => "real-time",
            Self::Uring => "uring",
            Self::Segmentation => "segmentation",
            Self::Ipv6 => "ipv6",
            Self::Cores => "cores",
            Self::ControlGroups => "control-groups",
            Self::DropReasons => "drop-reasons",
            Self::Profiles => "profiles",
            Self::IdleStates => "idle-states",
            Self::Route => "route",
            Self::OtherUsers => "other-users",
            Self::Chance => "chance",
            Self::Descriptors => "descriptors",
            Self::CargoDeny => "cargo-deny",
        }
    }

    /// The capability with this name; `None` if there is none.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.name() == name)
    }

    /// Whether continuous integration must have it: what root has on a Debian host with two cores and a current
    /// kernel, and what the step `packages` installs.
    pub fn is_expected(self) -> bool {
        match self {
            Self::Programs
            | Self::Root
            | Self::Networks
            | Self::Mounts
            | Self::RawSockets
            | Self::RealTime
            | Self::Uring
            | Self::Segmentation
            | Self::Ipv6
            | Self::Cores => true,
            Self::Vlans
            | Self::ControlGroups
            | Self::DropReasons
            | Self::Profiles
            | Self::IdleStates
            | Self::Route
            | Self::OtherUsers
            | Self::Chance
            | Self::Descriptors
            | Self::CargoDeny => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Capability::ALL.map(Capability::name).into();
        assert_eq!(names.len(), Capability::ALL.len());
    }
}
