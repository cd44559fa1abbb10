//! The shipped manifests at a real Kubernetes: etcd, API server, scheduler, Job controller and kubectl are built from
//! their Go modules, and the nodes are hosts of the lab. They are refused with planted faults and taken as they are, the
//! pods lie where the docs say, the shipped Role gives no more than it must, and the study is played by `kubectl exec`.
//! No kubelet and no container runtime is part of it: a stand-in starts the commands, and the proof writes the status of
//! nodes and pods.

mod account;
mod build;
mod cluster;
mod ends;
mod kubectl;
mod manifest;
mod placed;
mod played;

use std::time::Instant;

use anyhow::Result;

use super::super::Bench;
use super::lab::Lab;
use cluster::Cluster;

/// The name of this part.
pub(super) const NAME: &str = "kubernetes";

const DISK: &str = "64m";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let programs = build::programs()?;
    let lab = Lab::new(bench, DISK)?;
    let began = Instant::now();
    let mut cluster = Cluster::start(&lab, &programs)?;
    eprintln!(
        "a cluster of Kubernetes {} is ready after {:.1} s",
        build::VERSION,
        began.elapsed().as_secs_f64()
    );
    manifest::prove(&cluster.admin)?;
    let placed = placed::prove(&lab, &cluster.admin)?;
    let account = account::prove(&lab, &cluster)?;
    played::prove(bench, &lab, &mut cluster, &placed, &account)?;
    ends::prove(&cluster.admin)
}
