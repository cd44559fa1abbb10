//! A tree of files that programs enter, with namespaces of their own for mounts, processes and the network, in which only
//! loopback exists: a folder by `chroot(2)`, or a container of buildah.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};

/// Runs a program of the tree.
const RUN: &str = r#"
enter "$@"
"#;

/// Starts an echo in the tree, waits for the line that says it is ready, and plays at it. `$1` is a path for a pipe, and `$2`
/// is kqps.
const LOAD: &str = r#"
ready=$1 kqps=$2
shift 2
mkfifo "$ready"
enter "$kqps" serve echo --listen 127.0.0.1:5300 --for 60s --json >"$ready" &
read -r line <"$ready"
rm "$ready"
echo "$line"
enter "$kqps" load 127.0.0.1:5300 "$@"
"#;

/// Mounts that buildah hands on to its containers: processes by their numbers in the new namespace, the devices of the
/// new network, and control groups, which lie below them. `$aside` is an empty folder.
const OF_ENGINE: &str = r#"
mount -t proc proc /proc
mount --rbind /sys/fs/cgroup "$aside"
mount -t sysfs sysfs /sys
mount --rbind "$aside" /sys/fs/cgroup"#;

/// A tree that programs can enter.
#[derive(Clone)]
pub(super) struct Tree {
    root: PathBuf,
    /// Commands that a shell of this host runs in the new namespaces before it enters.
    before: String,
    /// The words with which that shell starts a program of the tree.
    enter: Vec<String>,
    /// The variables that programs have.
    variables: Vec<(String, String)>,
}

impl Tree {
    /// The tree below `root`, whose programs begin in `folder`. Folders to mount at are made, and one for files that no
    /// program keeps.
    pub(super) fn at(root: &Path, folder: &str, variables: Vec<(String, String)>) -> Result<Self> {
        for place in ["proc", "sys", "dev", "tmp"] {
            fs::create_dir_all(root.join(place)).with_context(|| format!("cannot make /{place}"))?;
        }
        let path = root.display().to_string();
        let before = format!(
            "root={}\nmount -t proc proc \"$root/proc\"\nmount -t sysfs -o ro sysfs \"$root/sys\"\n\
             mount --rbind /dev \"$root/dev\"",
            quoted(&[&path])
        );
        let enter = ["unshare", "--root", &path, "--wd", folder, "--"].map(str::to_owned).to_vec();
        Ok(Self { root: root.to_owned(), before, enter, variables })
    }

    /// A container of buildah. `root` is where its files are, `aside` an empty folder to mount at, and `enter` the words
    /// before a program in it.
    pub(super) fn container(root: &Path, aside: &Path, enter: Vec<String>) -> Self {
        let before = format!("aside={}{OF_ENGINE}", quoted(&[&aside.display().to_string()]));
        let variables = vec![("HOME".to_owned(), "/root".to_owned())];
        Self { root: root.to_owned(), before, enter, variables }
    }

    /// The tree with more words before each program.
    pub(super) fn by(&self, words: &[&str]) -> Self {
        let mut tree = self.clone();
        tree.enter.extend(words.iter().map(|word| (*word).to_owned()));
        tree
    }

    /// The tree with another value of a variable.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut tree = self.clone();
        tree.variables.push((name.to_owned(), value.to_owned()));
        tree
    }

    /// The tree in control groups, whose files for processes these are.
    pub(super) fn in_groups(&self, entries: impl Iterator<Item = PathBuf>) -> Self {
        let mut tree = self.clone();
        // 0 means the process that writes. Its number in the new namespace would name another process outside.
        let write = |entry: PathBuf| format!("\necho 0 >{}", quoted(&[&entry.display().to_string()]));
        tree.before.extend(entries.map(write));
        tree
    }

    /// The root.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs a program of the tree. Returns its output, whatever its status.
    pub(super) fn run(&self, words: &[&str]) -> Result<Output> {
        self.shell(RUN).args(words).output().with_context(|| format!("cannot run {}", words.join(" ")))
    }

    /// Runs a program of the tree, and returns what it printed. A status other than 0 is an error.
    pub(super) fn read(&self, words: &[&str]) -> Result<String> {
        let output = self.run(words)?;
        read(&output, &words.join(" "))
    }

    /// Plays at an echo of the same program, and returns what both printed.
    pub(super) fn load(&self, kqps: &str, flags: &[&str]) -> Result<String> {
        let ready = self.root.with_extension("ready");
        let output = self.shell(LOAD).arg(ready).arg(kqps).args(flags).output();
        read(&output.context("cannot run serve and load")?, "serve and load")
    }

    /// A shell of this host in new namespaces, which has the function `enter`.
    fn shell(&self, script: &str) -> Command {
        let enter: Vec<&str> = self.enter.iter().map(String::as_str).collect();
        let enter = quoted(&enter);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts"]);
        command.args(["sh", "-ec"]);
        command.arg(format!("ip link set lo up\n{}\nenter() {{ {enter} \"$@\"; }}\n{script}", self.before));
        command.arg("sh").stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Why this process can enter no tree; `None` if it can. It tries all steps, with this host's root as the tree, since some
/// containers permit new namespaces and no mounts in them.
pub(super) fn forbidden() -> Option<String> {
    let host = Tree::at(Path::new("/"), "/", Vec::new());
    host.and_then(|tree| tree.read(&["true"])).err().map(|error| format!("{error:#}"))
}

/// Words as a shell reads them.
fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    words.join(" ")
}

/// The standard output of what ended well.
fn read(output: &Output, words: &str) -> Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{words}: {}\n{text}{}", output.status, said.trim());
    }
    Ok(text)
}
