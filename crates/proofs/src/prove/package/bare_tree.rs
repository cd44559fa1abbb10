//! The archive, and the tested program with its libraries, each in a tree that has nothing else: no shell, no name server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_programs::shell;
use kqps_skips::{Capability, skip};

use super::super::Bench;
use super::results;
use super::tree::{self, Tree};
use crate::scratch::Scratch;

/// Files that a system usually has, and these trees must not have.
const FOREIGN: [&str; 3] = ["bin/sh", "usr/bin/env", "etc/passwd"];

/// Files of the archive, one of each kind.
const IN_ARCHIVE: [&str; 9] = [
    "README.md",
    "LICENSE-MIT",
    "third-party.txt",
    "docs/METHOD.md",
    "studies/cache.toml",
    "share/man/man1/kqps-load.1",
    "share/bash-completion/completions/kqps",
    "share/zsh/site-functions/_kqps",
    "share/fish/vendor_completions.d/kqps.fish",
];

/// Where libraries lie, which a static program needs none of.
const LIBRARIES: [&str; 3] = ["lib", "lib64", "usr/lib"];

/// The tested program in a tree with its libraries. This is the small form of the other parts.
pub(super) fn program(bench: &Bench) -> Result<()> {
    let what = "kqps alone in a tree of files, which it enters by namespaces and chroot";
    if kqps_kernel::process::effective_user() != 0 {
        skip(Capability::Root, what);
        return Ok(());
    }
    if let Some(reason) = tree::forbidden() {
        skip(Capability::Networks, format_args!("{what}: {reason}"));
        return Ok(());
    }
    let scratch = Scratch::new()?;
    let root = scratch.path().join("tree");
    let program = bench.kqps.program.canonicalize()?;
    let inside = made(root.join("bin/kqps"))?;
    // The program is large. The libraries are those of this host, which no tree may change.
    if fs::hard_link(&program, &inside).is_err() {
        copy(&program, &inside)?;
    }
    for library in libraries(&program)? {
        copy(&library, &made(root.join(library.strip_prefix("/")?))?)?;
    }
    let tree = Tree::at(&root, "/", vec![("HOME".into(), "/".into())])?;
    works(&tree, "/bin/kqps").map(drop)
}

/// The path, whose folder is made.
fn made(path: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
    Ok(path)
}

fn copy(file: &Path, to: &Path) -> Result<()> {
    fs::copy(file, to).with_context(|| format!("cannot copy {}", file.display())).map(drop)
}

/// The libraries that a program is linked to, and their loader (ldd(1)).
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let listed = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

pub(super) fn archive(bench: &Bench) -> Result<()> {
    let archive = super::package(bench, ".tar.gz")?;
    checksums(&archive)?;
    let scratch = Scratch::new()?;
    let root = scratch.path().join("tree");
    fs::create_dir(&root)?;
    shell::run(
        Command::new("tar").args(["--extract", "--gzip", "--file"]).arg(&archive).arg("-C").arg(&root),
    )?;
    let name = archive.file_name().context("an archive has a name")?.to_string_lossy().replace(".tar.gz", "");
    let folder = root.join(&name);
    for file in IN_ARCHIVE {
        let length = folder.join(file).metadata().map_or(0, |facts| facts.len());
        ensure!(length > 0, "the archive lacks {file}");
    }
    let texts = fs::read_to_string(folder.join("third-party.txt"))?;
    for library in ["rust-std ", "musl ", "libunwind "] {
        let is_there = texts.lines().any(|line| line.starts_with(library));
        ensure!(is_there, "third-party.txt of the archive lacks {library}");
    }
    let version = super::version(bench)?;
    let tree = Tree::at(&root, &format!("/{name}"), vec![("HOME".into(), format!("/{name}"))])?;
    main_job(&tree, &format!("/{name}/bin/kqps"), &version)
}

/// The program has this version and works, and does the main job with its own servers.
pub(super) fn main_job(tree: &Tree, kqps: &str, version: &str) -> Result<()> {
    for path in LIBRARIES {
        ensure!(!tree.root().join(path).exists(), "the tree has /{path}");
    }
    let said = works(tree, kqps)?;
    ensure!(said == format!("kqps {version}"), "the program of version {version} says that it is {said}");
    let flags = "run --subject kqps-auth --echo mmsg --budget 60s --records 1k --json";
    let words: Vec<&str> = [kqps].into_iter().chain(flags.split(' ')).collect();
    results::run(tree, &words, "kqps-auth")
}

/// The program prints its version, probes, and plays at its own echo. Returns the version.
fn works(tree: &Tree, kqps: &str) -> Result<String> {
    for path in FOREIGN {
        ensure!(!tree.root().join(path).exists(), "the tree has /{path}");
    }
    let version = tree.read(&[kqps, "--version"])?;
    let probe = tree.read(&[kqps, "probe"])?;
    ensure!(probe.contains("recvmmsg"), "probe: {probe}");
    let played = load(tree, kqps, "/tmp/queries")?;
    eprintln!("{} alone in a tree: load at its echo: {played}", version.trim());
    Ok(version.trim().to_owned())
}

/// Generates queries, a file of the tree, plays them at an echo, and returns the accounts in a line.
pub(super) fn load(tree: &Tree, kqps: &str, queries: &str) -> Result<String> {
    let make = ["gen", "queries", "--origin", "bench.test", "--records", "100", "-n", "1k", "-o", queries];
    tree.read(&[&[kqps], &make[..]].concat())?;
    let flags =
        ["-d", queries, "--check", "off", "-Q", "2k", "-l", "1s", "--allow-target", "127.0.0.1", "--json"];
    let load = tree.load(kqps, &flags)?;
    // The line before it is the echo's.
    results::of_load(load.split_once('\n').map_or("", |(_, load)| load))
}

/// `SHA256SUMS` beside the archive is right.
fn checksums(archive: &Path) -> Result<()> {
    let folder = archive.parent().context("the archive lies in a folder")?;
    shell::read(Command::new("sha256sum").current_dir(folder).args(["--check", "--quiet", "SHA256SUMS"]))
        .map(drop)
}
