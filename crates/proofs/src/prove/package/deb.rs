//! The Debian package in a bare Debian tree, which has name servers and shells, and no compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::super::Bench;
use super::files::Files;
use super::results;
use super::tree::Tree;
use crate::scratch::Scratch;
use crate::shell;

/// What is in the tree beside the packages that every Debian has: a name server, a reader of manual pages, and shells with
/// completions.
const INCLUDED: &str = "nsd,man-db,bash-completion,zsh,fish,libcap2-bin";

/// What apt, dpkg and man-db write whatever is installed: logs, caches, and the state before the last change.
const IGNORED: [&str; 5] =
    ["var/log", "var/cache", "var/lib/apt", "var/lib/dpkg/status-old", "var/lib/dpkg/available-old"];

/// Where the user's runs are.
const HOME: &str = "root";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let deb = super::package(bench, ".deb")?;
    let scratch = Scratch::new()?;
    let root = scratch.path().join("tree");
    unpack(bench, &root)?;
    let variables = [("HOME", "/root"), ("LC_ALL", "C.UTF-8"), ("DEBIAN_FRONTEND", "noninteractive")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let tree = Tree::at(&root, "/root", variables, false)?;
    for compiler in ["cc", "gcc", "clang", "rustc", "cargo"] {
        ensure!(!root.join("usr/bin").join(compiler).exists(), "the bare tree has {compiler}");
    }
    let before = Files::read(&root, &IGNORED)?;
    install(&tree, &deb)?;
    let installed = Files::read(&root, &IGNORED)?;
    eprintln!("the bare tree has {} files, and {} with kqps", before.len(), installed.len());
    main_job(&tree)?;
    pages(&tree)?;
    completions(&tree)?;
    tree.read(&["apt-get", "purge", "--yes", "kqps"])?;
    let after = Files::read(&root, &IGNORED)?;
    let (ours, others): (Vec<String>, Vec<String>) =
        after.since(&before).into_iter().partition(|change| change[1..].starts_with(&format!("{HOME}/")));
    ensure!(others.is_empty(), "after the purge these differ from before: {}", others.join(" "));
    let runs = ours.iter().filter(|change| change.ends_with("/run.sqlite")).count();
    ensure!(
        runs == 1 && ours.iter().all(|change| change.starts_with('+')),
        "the user's files: {}",
        ours.join(" ")
    );
    eprintln!("after the purge all files are as before, byte for byte, and {} of the user stay", ours.len());
    Ok(())
}

/// Unpacks a bare tree of this host's Debian. It is made once, and kept for later proofs.
fn unpack(bench: &Bench, root: &Path) -> Result<()> {
    let name = release()?;
    let kept = kept(bench.kept.as_deref().context("the tree has no folder to be kept in")?, &name);
    if !kept.is_file() {
        let partly = kept.with_extension("partly.tar");
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--variant=minbase", &format!("--include={INCLUDED}"), &name]).arg(&partly);
        shell::run(&mut make).context("no bare Debian tree could be made")?;
        fs::rename(&partly, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
    }
    fs::create_dir_all(root)?;
    // Files of devices stay out: /dev is that of this host while a program is in the tree.
    shell::run(
        Command::new("tar").args(["--extract", "--exclude=./dev/*", "--file"]).arg(&kept).arg("-C").arg(root),
    )
}

/// Where the tree of a release is kept. Other packages in it are another tree.
fn kept(folder: &Path, release: &str) -> PathBuf {
    let included = blake3::hash(INCLUDED.as_bytes()).to_hex();
    folder.join(format!("package-tree-{release}-{:.8}.tar", included.as_str()))
}

/// The code name of this host's Debian.
fn release() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("this host has no name")?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"').to_owned())
}

fn install(tree: &Tree, deb: &Path) -> Result<()> {
    let inside = tree.root().join("kqps.deb");
    fs::copy(deb, &inside).with_context(|| format!("cannot copy {}", deb.display()))?;
    let said = tree.read(&["apt-get", "install", "--yes", "/kqps.deb"]);
    fs::remove_file(&inside)?;
    said?;
    let version = tree.read(&["kqps", "--version"])?;
    eprintln!("apt-get install ./kqps.deb, without a network: {}", version.trim());
    Ok(())
}

/// The main job, as short as its flags allow: the echo and a name server.
fn main_job(tree: &Tree) -> Result<()> {
    let words =
        ["kqps", "run", "--subject", "nsd", "--echo", "mmsg", "--budget", "25s", "--seed", "1", "--json"];
    let output = tree.run(&words)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    // A busy host may refuse the figure, which is a result as well.
    let verdict = results::of_run(&text, "nsd")
        .with_context(|| format!("{}: {}\n{text}{said}", words.join(" "), output.status))?;
    eprintln!("{}: {verdict}", words.join(" "));
    let report = tree.read(&["kqps", "report", "--why", &newest_run(tree)?])?;
    ensure!(report.contains("nsd"), "kqps report does not name nsd: {report}");
    Ok(())
}

/// The folder of the only run, as the tree names it.
fn newest_run(tree: &Tree) -> Result<String> {
    let runs = "root/.local/share/kqps/runs";
    let mut entries = fs::read_dir(tree.root().join(runs)).with_context(|| format!("there is no /{runs}"))?;
    let run = entries.next().context("the run has no folder")??;
    Ok(format!("/{runs}/{}", run.file_name().to_string_lossy()))
}

/// man renders the page of every command, and has no complaint about it.
fn pages(tree: &Tree) -> Result<()> {
    let folder = tree.root().join("usr/share/man/man1");
    let mut names: Vec<String> = fs::read_dir(folder)?
        .filter_map(|entry| {
            Some(entry.ok()?.file_name().into_string().ok()?.strip_suffix(".1.gz")?.to_owned())
        })
        .filter(|name| name == "kqps" || name.starts_with("kqps-"))
        .collect();
    names.sort();
    ensure!(names.contains(&"kqps-load".to_owned()), "there is no page of kqps load");
    for name in &names {
        let output = tree.run(&["man", "--warnings", "--pager=cat", name])?;
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let is_whole = output.status.success() && text.contains("SYNOPSIS") && text.contains("EXIT STATUS");
        ensure!(is_whole && said.trim().is_empty(), "man {name}: {}: {said}{text:.300}", output.status);
    }
    eprintln!("man renders {} pages without a warning", names.len());
    Ok(())
}

/// Each shell finds the completions by itself, and completes a command.
fn completions(tree: &Tree) -> Result<()> {
    let asked = [
        (
            "bash",
            ". /usr/share/bash-completion/bash_completion; _completion_loader kqps; complete -p kqps; \
             COMP_WORDS=(kqps lo); COMP_CWORD=1; _kqps kqps lo kqps; echo \"${COMPREPLY[@]}\"",
            "load",
        ),
        ("zsh", "autoload -Uz compinit; compinit -D; echo $_comps[kqps]", "_kqps"),
        ("fish", "complete --do-complete 'kqps lo'", "load"),
    ];
    for (shell, script, wanted) in asked {
        let text = tree.read(&[shell, "-c", script])?;
        ensure!(text.contains(wanted), "{shell} does not complete kqps: {text}");
    }
    eprintln!("bash, zsh and fish find the completions of kqps");
    Ok(())
}
