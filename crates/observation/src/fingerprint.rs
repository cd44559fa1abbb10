//! The host of a run, as far as it can be read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine. What cannot be read is in `unreadable`, with the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the names say it
pub struct Fingerprint {
    pub cpu_model: String,
    pub microcode: Option<String>,
    pub hypervisor: Option<String>,
    pub cores: Vec<CoreFacts>,
    pub memory_bytes: u64,
    pub kernel: String,
    pub os: Option<String>,
    pub clock_source: Option<String>,
    pub governor: Option<String>,
    pub turbo: Option<bool>,
    /// Name of the vulnerability → the kernel's text about it.
    pub mitigations: BTreeMap<String, String>,
    /// Name of the setting (`net.core.rmem_max`) → value.
    pub sysctls: BTreeMap<String, String>,
    /// Limit of the process (`Max open files`) → its soft and its hard limit.
    #[serde(default)]
    pub limits: BTreeMap<String, String>,
    /// Interrupt of a network device → the cores that it may run on.
    pub interrupts: BTreeMap<String, String>,
    /// Queue of a network device (`eth0/rx-0`) → the cores to which its packets are steered.
    #[serde(default)]
    pub queues: BTreeMap<String, String>,
    /// Name of the program → its version and the hash of its binary.
    pub binaries: BTreeMap<String, BinaryFacts>,
    pub unreadable: BTreeMap<String, String>,
}

/// A logical CPU, and the CPUs with which it shares parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)]
pub struct CoreFacts {
    pub cpu: u32,
    pub package: u32,
    pub core: u32,
    pub numa_node: u32,
    /// Logical CPUs of the same core, including this one.
    pub smt: Vec<u32>,
    /// "L2" → logical CPUs that share it, including this one.
    pub caches: BTreeMap<String, Vec<u32>>,
}

/// A program of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)]
pub struct BinaryFacts {
    pub path: String,
    pub version: Option<String>,
    pub blake3: Option<String>,
}
