//! The image as buildah runs it: its files, its settings, and the limits of a container around the program.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_programs::shell;
use kqps_skips::{Capability, skip};
use serde_json::Value;

use super::super::Bench;
use super::super::quota::Quota;
use super::bare_tree;
use super::tree::Tree;
use crate::scratch::Scratch;

/// The time of cores that the container's processes get, and their memory.
const CORES: f64 = 1.5;
const MEMORY_MIB: u64 = 512;

/// Where the program keeps runs, in the image.
const RUNS: &str = "work/kqps-runs";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let image = super::package(bench, ".oci.tar")?;
    let scratch = Scratch::new()?;
    let container = Container::from_image(&image, scratch.path())?;
    let config = container.config()?;
    let entrypoint = config["Entrypoint"][0].as_str().context("the image starts nothing")?;
    let is_alone = config["Entrypoint"].as_array().is_some_and(|words| words.len() == 1);
    ensure!(is_alone && config["Cmd"].is_null(), "the image starts with more than the program: {config}");
    let version = super::version(bench)?;
    let label = &config["Labels"]["org.opencontainers.image.version"];
    ensure!(*label == *version, "the image has the version {label}, and the other packages {version}");
    let aside = scratch.path().join("aside");
    std::fs::create_dir(&aside)?;
    let tree = container.tree(&aside)?;
    bare_tree::main_job(&tree, entrypoint, &version)?;
    let runs = std::fs::read_dir(tree.root().join(RUNS)).with_context(|| format!("no run is in /{RUNS}"))?;
    ensure!(runs.count() > 0, "no run is in /{RUNS}");
    let limited = Quota::new(CORES).and_then(|quota| quota.with_memory(MEMORY_MIB << 20));
    match &limited {
        Ok(quota) => probe(&tree.in_groups(quota.entries()), entrypoint, true),
        Err(error) => {
            skip(Capability::ControlGroups, format_args!("limits of a container: {error:#}"));
            probe(&tree, entrypoint, false)
        }
    }
}

/// `kqps probe` names all that the container takes away.
fn probe(tree: &Tree, kqps: &str, has_limits: bool) -> Result<()> {
    let probe = tree.read(&[kqps, "probe"])?;
    let lines = probe.lines().skip_while(|line| !line.contains("a container: "));
    let container = lines.collect::<Vec<_>>().join("\n");
    let memory = format!("memory: its cgroup may use {MEMORY_MIB} MiB");
    let always =
        ["process numbers are its own", "CAP_SYS_ADMIN", "--cap-add BPF", "seccomp=unconfined", "no network"];
    let of_limits = ["cpu: its cgroup may use the time of 1.50 cores", &memory];
    let wanted = always.iter().chain(of_limits.iter().filter(|_| has_limits));
    let missing: Vec<_> = wanted.filter(|wanted| !container.contains(**wanted)).collect();
    ensure!(missing.is_empty(), "probe does not name {missing:?}: {probe}");
    eprintln!("{container}");
    Ok(())
}

/// A container of buildah, whose storage lies in a folder of its own.
struct Container {
    buildah: Vec<String>,
    name: String,
}

impl Container {
    /// A container of this image.
    fn from_image(image: &Path, folder: &Path) -> Result<Self> {
        let path = |name: &str| folder.join(name).display().to_string();
        let buildah =
            ["buildah", "--storage-driver", "vfs", "--root", &path("store"), "--runroot", &path("run")];
        let buildah: Vec<String> = buildah.map(str::to_owned).to_vec();
        // A host without an engine has no rules about whose images it trusts.
        let policy = folder.join("policy.json");
        std::fs::write(&policy, r#"{ "default": [{ "type": "insecureAcceptAnything" }] }"#)?;
        let mut container = Self { buildah, name: String::new() };
        let image = format!("oci-archive:{}", image.display());
        let policy = policy.display().to_string();
        container.name = container.read(&["from", "--quiet", "--signature-policy", &policy, &image])?;
        Ok(container)
    }

    fn read(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.buildah[0]);
        let text = shell::read(command.args(&self.buildah[1..]).args(words))?;
        Ok(text.trim().to_owned())
    }

    /// The configuration of the image (OCI image specification, "config").
    fn config(&self) -> Result<Value> {
        let text = self.read(&["inspect", &self.name])?;
        let whole: Value = serde_json::from_str(&text).context("cannot read what buildah printed")?;
        Ok(whole["OCIv1"]["config"].clone())
    }

    /// Its files as a tree, for which `aside` is an empty folder.
    fn tree(&self, aside: &Path) -> Result<Tree> {
        let root = self.read(&["mount", &self.name])?;
        let run = ["run", "--isolation", "chroot", &self.name, "--"].map(str::to_owned);
        Ok(Tree::container(Path::new(&root), aside, self.buildah.iter().cloned().chain(run).collect()))
    }
}
