//! The archive and the image, each in a tree that has nothing else: no shell, no library, no name server.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::super::Bench;
use super::results;
use super::tree::Tree;
use crate::scratch::Scratch;
use crate::shell;

/// Programs and libraries that a system usually has, and that these trees must not have.
const FOREIGN: [&str; 4] = ["bin/sh", "usr/bin/env", "lib64/ld-linux-x86-64.so.2", "etc/passwd"];

pub(super) fn archive(bench: &Bench) -> Result<()> {
    let archive = super::package(bench, ".tar.gz")?;
    checksums(&archive)?;
    let scratch = Scratch::new()?;
    let root = scratch.path();
    shell::run(
        Command::new("tar").args(["--extract", "--gzip", "--file"]).arg(&archive).arg("-C").arg(root),
    )?;
    let name = archive.file_name().context("an archive has a name")?.to_string_lossy().replace(".tar.gz", "");
    let folder = root.join(&name);
    for file in
        ["README.md", "LICENSE-MIT", "docs/METHOD.md", "share/man/man1/kqps-load.1", "studies/cache.toml"]
    {
        ensure!(folder.join(file).is_file(), "the archive lacks {file}");
    }
    let tree = Tree::at(root, &format!("/{name}"), vec![("HOME".into(), format!("/{name}"))], false)?;
    works(&tree, &format!("/{name}/bin/kqps"))
}

pub(super) fn image(bench: &Bench) -> Result<()> {
    let image = super::package(bench, ".oci.tar")?;
    let scratch = Scratch::new()?;
    let (blobs, root) = (scratch.path().join("blobs"), scratch.path().join("root"));
    let config = unpack(&image, &blobs, &root)?;
    let words = |name: &str| -> Vec<String> {
        let list = config[name].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let entrypoint = words("Entrypoint");
    ensure!(entrypoint == ["/usr/bin/kqps"], "the image starts {entrypoint:?}");
    let variables = words("Env").iter().filter_map(|pair| pair.split_once('=')).map(own).collect();
    let folder = config["WorkingDir"].as_str().unwrap_or("/");
    // podman leaves this file in every container.
    fs::create_dir_all(root.join("run"))?;
    fs::write(root.join("run/.containerenv"), "")?;
    let tree = Tree::at(&root, folder, variables, true)?;
    works(&tree, &entrypoint[0])?;
    let probe = tree.read(&[&entrypoint[0], "probe"])?;
    let signs = "a container: /run/.containerenv exists";
    for wanted in [signs, "CAP_SYS_ADMIN", "--cap-add BPF", "/sys cannot be written", "--network host"] {
        ensure!(probe.contains(wanted), "probe does not name {wanted:?}: {probe}");
    }
    let lines = probe.lines().skip_while(|line| !line.contains("a container: "));
    eprintln!("{}", lines.collect::<Vec<_>>().join("\n"));
    Ok(())
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Unpacks the layers of an OCI archive, and returns its configuration.
fn unpack(image: &Path, blobs: &Path, root: &Path) -> Result<Value> {
    for folder in [blobs, root] {
        fs::create_dir_all(folder)?;
    }
    shell::run(Command::new("tar").args(["--extract", "--file"]).arg(image).arg("-C").arg(blobs))?;
    let read = |path: &Path| -> Result<Value> {
        let text = fs::read_to_string(path).with_context(|| format!("the image lacks {}", path.display()))?;
        Ok(serde_json::from_str(&text)?)
    };
    let blob = |digest: &Value| -> Result<std::path::PathBuf> {
        let digest = digest.as_str().context("a part of the image has no digest")?;
        Ok(blobs.join("blobs").join(digest.replace(':', "/")))
    };
    let manifest = read(&blob(&read(&blobs.join("index.json"))?["manifests"][0]["digest"])?)?;
    let layers = manifest["layers"].as_array().context("the image has no layers")?;
    for layer in layers {
        let layer = blob(&layer["digest"])?;
        shell::run(Command::new("tar").args(["--extract", "--file"]).arg(layer).arg("-C").arg(root))?;
    }
    let config = read(&blob(&manifest["config"]["digest"])?)?;
    Ok(config["config"].clone())
}

/// The program prints its version, probes, plays at its own echo, and does the main job with its own servers.
fn works(tree: &Tree, kqps: &str) -> Result<()> {
    for path in FOREIGN {
        ensure!(!tree.root().join(path).exists(), "the tree has /{path}");
    }
    let version = tree.read(&[kqps, "--version"])?;
    let probe = tree.read(&[kqps, "probe"])?;
    ensure!(probe.contains("recvmmsg"), "probe: {probe}");
    tree.read(&[
        kqps,
        "gen",
        "queries",
        "--origin",
        "bench.test",
        "--records",
        "100",
        "-n",
        "1k",
        "-o",
        "queries",
    ])?;
    let flags =
        ["-d", "queries", "--check", "off", "-Q", "2k", "-l", "1s", "--allow-target", "127.0.0.1", "--json"];
    let load = tree.load(kqps, &flags)?;
    // The line before it is the echo's.
    let played = results::of_load(load.split_once('\n').map_or("", |(_, load)| load))?;
    let run = [
        "run",
        "--subject",
        "kqps-auth",
        "--echo",
        "mmsg",
        "--budget",
        "25s",
        "--records",
        "1k",
        "--out",
        "run",
        "--json",
    ];
    let words: Vec<&str> = [&[kqps][..], &run].concat();
    let output = tree.run(&words)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let verdict = results::of_run(&text, "kqps-auth")
        .with_context(|| format!("{}: {}\n{text}{said}", words.join(" "), output.status))?;
    eprintln!(
        "{} alone in a tree: load at its echo: {played}; kqps {}: {verdict}",
        version.trim(),
        run.join(" ")
    );
    Ok(())
}

/// `SHA256SUMS` beside the archive is right.
fn checksums(archive: &Path) -> Result<()> {
    let folder = archive.parent().context("the archive lies in a folder")?;
    shell::read(Command::new("sha256sum").current_dir(folder).args(["--check", "--quiet", "SHA256SUMS"]))
        .map(drop)
}
