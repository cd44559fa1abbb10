//! Capabilities of a host that a test may need.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// Something that tests need and a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Capability {
    /// Name servers and tools in Debian packages, which `cargo xtask test` installs on Debian.
    Programs,
    /// The rights of root.
    Root,
    /// Network namespaces, and links between them.
    Networks,
    /// Devices of VLANs.
    Vlans,
    /// A queue that loses and delays packets (`sch_netem`).
    Netem,
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
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name in lines.
    pub fn name(self) -> &'static str {
        self.into()
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
            | Self::Netem
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
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let expected = "programs root networks vlans netem mounts raw-sockets real-time uring segmentation ipv6 \
             cores control-groups drop-reasons profiles idle-states route other-users chance \
             descriptors cargo-deny";
        let names: Vec<&str> = Capability::ALL.iter().map(|capability| capability.name()).collect();
        assert_eq!(names.join(" "), expected);
    }
}
