//! The Debian package in a bare Debian tree, which has name servers and shells, and no compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_programs::shell;

use super::super::Bench;
use super::files::Files;
use super::rights::{self, USER, as_user};
use super::tree::Tree;
use super::{bare_tree, results};
use crate::scratch::Scratch;

/// Packages in the tree beside those that every Debian has: a name server, a reader of manual pages, shells with
/// completions, and what the rights of the program need.
const INCLUDED: &str = "nsd,man-db,bash-completion,zsh,fish,libcap2-bin,adduser";

/// Files that apt, dpkg, man-db and adduser write whatever is installed: logs, caches, and the state before the last
/// change.
const IGNORED: [&str; 10] = [
    "var/log",
    "var/cache",
    "var/lib/apt",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/available-old",
    "var/lib/dpkg/statoverride-old",
    "etc/group-",
    "etc/gshadow-",
    "etc/passwd-",
    "etc/shadow-",
];

/// The homes of root and of an ordinary user.
const HOMES: [&str; 2] = ["root", "home/user"];

/// Folders that kqps makes in a home.
const OURS: [&str; 2] = [".local/share/kqps", ".cache/kqps"];

/// Folders that the tested shells make in a home.
const OF_SHELLS: [&str; 3] = [".config/fish", ".local/share/fish", ".cache/fish"];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let deb = super::package(bench, ".deb")?;
    let scratch = Scratch::new()?;
    let root = scratch.path().join("tree");
    unpack(bench, &root)?;
    let variables = [("HOME", "/root"), ("LC_ALL", "C.UTF-8"), ("DEBIAN_FRONTEND", "noninteractive")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let tree = Tree::at(&root, "/root", variables)?;
    for compiler in ["cc", "gcc", "clang", "rustc", "cargo"] {
        ensure!(!root.join("usr/bin").join(compiler).exists(), "the bare tree has {compiler}");
    }
    tree.read(&["adduser", "--quiet", "--disabled-password", "--gecos", "", USER])?;
    let before = Files::read(&root, &IGNORED)?;
    let older = older(&deb, scratch.path())?;
    install(&tree, &older)?;
    ensure!(root.join(DROPPED).exists(), "the older package lacks /{DROPPED}");
    ordinary_user(&tree)?;
    rights::given(&tree)?;
    install(&tree, &deb)?;
    ensure!(!root.join(DROPPED).exists(), "the upgrade leaves /{DROPPED}");
    let (said, version) = (tree.read(&["kqps", "--version"])?, super::version(bench)?);
    ensure!(
        said.trim() == format!("kqps {version}"),
        "the program of version {version} says that it is {said}"
    );
    rights::after_upgrade(&tree)?;
    let installed = Files::read(&root, &IGNORED)?;
    eprintln!("the bare tree has {} files, and {} with kqps", before.len(), installed.len());
    let copyright = fs::read_to_string(root.join("usr/share/doc/kqps/copyright"))?;
    ensure!(copyright.contains("\nFiles: vendor/rust-std-"), "the copyright file lacks the libraries");
    main_job(&tree)?;
    pages(&tree)?;
    completions(&tree)?;
    tree.read(&["apt-get", "remove", "--yes", "kqps"])?;
    ensure!(!root.join("usr/bin/kqps").exists(), "the removal leaves the program");
    install(&tree, &deb)?;
    tree.read(&["apt-get", "purge", "--yes", "kqps"])?;
    rights::taken(&tree)?;
    let after = Files::read(&root, &IGNORED)?;
    let changes = after.since(&before);
    let others: Vec<&String> = changes.iter().filter(|change| !is_of_a_user(change)).collect();
    ensure!(others.is_empty(), "after the purge these differ from before: {others:?}");
    let runs = changes.iter().filter(|change| change.ends_with("/run.sqlite")).count();
    ensure!(runs == 1, "{runs} runs are left of 1: {changes:?}");
    eprintln!("after the purge all files are as before, byte for byte, and {} of users stay", changes.len());
    Ok(())
}

/// Whether a change since an earlier moment is a new file of kqps or of a shell in a home, or a folder above it.
fn is_of_a_user(change: &str) -> bool {
    let Some(path) = change.strip_prefix('+') else { return false };
    HOMES.iter().any(|home| {
        let Ok(path) = Path::new(path).strip_prefix(home) else { return false };
        OURS.iter().chain(&OF_SHELLS).any(|ours| path.starts_with(ours) || Path::new(ours).starts_with(path))
    })
}

/// A file of the older package that the proved one does not have.
const DROPPED: &str = "usr/share/doc/kqps/dropped";

/// The package under an older version, with one more file.
fn older(deb: &Path, folder: &Path) -> Result<PathBuf> {
    let unpacked = folder.join("older");
    shell::run(Command::new("dpkg-deb").arg("--raw-extract").arg(deb).arg(&unpacked))?;
    let control = unpacked.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let line =
        text.lines().find(|line| line.starts_with("Version: ")).context("the package has no version")?;
    fs::write(&control, text.replace(line, &format!("Version: {OLDER}")))?;
    fs::write(unpacked.join(DROPPED), "")?;
    let older = folder.join("older.deb");
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zgzip", "-z1", "--build"]).arg(&unpacked).arg(&older);
    shell::read(&mut build)?;
    fs::remove_dir_all(unpacked)?;
    Ok(older)
}

/// A version before every one.
const OLDER: &str = "0~older-1";

/// An ordinary user gets a version, and every query of a load answered.
fn ordinary_user(tree: &Tree) -> Result<()> {
    let user = as_user(tree);
    let version = user.read(&["kqps", "--version"])?;
    user.read(&["mkdir", "-p", ".cache/kqps"])?;
    let played = bare_tree::load(&user, "kqps", ".cache/kqps/queries")?;
    eprintln!("an ordinary user has {}: load at the echo: {played}", version.trim());
    Ok(())
}

/// Unpacks a bare tree of this host's Debian. It is made once, and kept for later proofs.
fn unpack(bench: &Bench, root: &Path) -> Result<()> {
    let name = release()?;
    let kept = kept(bench.kept.as_deref().context("the tree has no folder to be kept in")?, &name);
    if !kept.is_file() {
        remove_older(&kept)?;
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

/// Removes the trees that were kept before this one, which are large.
fn remove_older(kept: &Path) -> Result<()> {
    let folder = kept.parent().context("the tree lies in a folder")?;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(TREE) && name.ends_with(".tar") {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// The beginning of a kept tree's name.
const TREE: &str = "package-tree-";

/// Where the tree of a release is kept. Other packages in it are another tree.
fn kept(folder: &Path, release: &str) -> PathBuf {
    let included = blake3::hash(INCLUDED.as_bytes()).to_hex();
    folder.join(format!("{TREE}{release}-{:.8}.tar", included.as_str()))
}

/// The code name of this host's Debian.
fn release() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("this host has no name")?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"').to_owned())
}

/// Installs a package without a network, and checks its version.
fn install(tree: &Tree, deb: &Path) -> Result<()> {
    let inside = tree.root().join("kqps.deb");
    fs::copy(deb, &inside).with_context(|| format!("cannot copy {}", deb.display()))?;
    let said = tree.read(&["apt-get", "install", "--yes", "/kqps.deb"]);
    fs::remove_file(&inside)?;
    said?;
    let installed = tree.read(&["dpkg-query", "--show", "--showformat", "${Version}", "kqps"])?;
    let wanted = shell::read(Command::new("dpkg-deb").arg("--field").arg(deb).arg("Version"))?;
    ensure!(installed == wanted.trim(), "installed is {installed}, and not {}", wanted.trim());
    tree.read(&["kqps", "--version"])?;
    eprintln!("apt-get install ./kqps.deb, without a network: {installed}");
    Ok(())
}

/// The main job, as short as its flags allow: the echo and a name server.
fn main_job(tree: &Tree) -> Result<()> {
    let words =
        ["kqps", "run", "--subject", "nsd", "--echo", "mmsg", "--budget", "60s", "--seed", "1", "--json"];
    results::run(tree, &words, "nsd")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_tree_takes_the_place_of_those_before() {
        let folder = tempfile::tempdir().unwrap();
        let others = ["kqps.tar", "package-tools"].map(|name| folder.path().join(name));
        let before = kept(folder.path(), "bookworm");
        for path in others.iter().chain([&before]) {
            fs::write(path, "").unwrap();
        }
        remove_older(&kept(folder.path(), "trixie")).unwrap();
        assert!(!before.exists() && others.iter().all(|other| other.exists()));
    }

    #[test]
    fn only_files_of_kqps_and_of_the_shells_are_a_users() {
        for change in [
            "+root/.local",
            "+root/.local/share/kqps/runs/a/run.sqlite",
            "+home/user/.cache/kqps/queries",
            "+root/.config/fish/config.fish",
        ] {
            assert!(is_of_a_user(change), "{change}");
        }
        for change in
            ["+root/kqps-runs", "*root/.cache/kqps", "-root/.bashrc", "+etc/kqps", "+root/.local/bin"]
        {
            assert!(!is_of_a_user(change), "{change}");
        }
    }
}
