//! A tree of files that programs enter: with namespaces of their own for mounts, processes and the network, in which only
//! loopback exists, and with `chroot(2)`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};

/// What a shell of this host does in the new namespaces: bring loopback up, and mount what every system has. `$1` is the
/// root.
const MOUNTS: &str = r#"
ip link set lo up
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sysfs "$1/sys"
mount --rbind /dev "$1/dev"
"#;

/// Enters the tree. `$2` is the folder of the tree to begin in; then come the words.
const ENTER: &str = r#"
root=$1 folder=$2
shift 2
exec $LIMITS unshare --root "$root" --wd "$folder" -- "$@"
"#;

/// Starts an echo in the tree, waits for the line that says it is ready, and plays at it. `$3` is kqps.
const LOAD: &str = r#"
root=$1 folder=$2 kqps=$3
shift 3
enter() { $LIMITS unshare --root "$root" --wd "$folder" -- "$kqps" "$@"; }
mkfifo "$root/ready"
enter serve echo --listen 127.0.0.1:5300 --for 60s --json >"$root/ready" &
server=$!
read -r line <"$root/ready"
echo "$line"
enter load 127.0.0.1:5300 "$@"
kill $server
"#;

/// The capabilities that container engines leave to root.
const ENGINES_DEFAULT: &str = "setpriv --inh-caps=-all --bounding-set=-all,+chown,+dac_override,+fowner,+fsetid,+kill,\
                               +setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";

/// A tree that programs can enter.
pub(super) struct Tree {
    root: PathBuf,
    /// The folder that programs begin in.
    folder: String,
    /// The variables that programs have.
    variables: Vec<(String, String)>,
    /// Whether programs have no more rights than container engines leave.
    is_limited: bool,
}

impl Tree {
    /// The tree below `root`. Folders to mount at are made, and one for files that no program keeps.
    pub(super) fn at(
        root: &Path,
        folder: &str,
        variables: Vec<(String, String)>,
        is_limited: bool,
    ) -> Result<Self> {
        for place in ["proc", "sys", "dev", "tmp"] {
            fs::create_dir_all(root.join(place)).with_context(|| format!("cannot make /{place}"))?;
        }
        Ok(Self { root: root.to_owned(), folder: folder.to_owned(), variables, is_limited })
    }

    /// The root.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs a program of the tree. Returns its output, whatever its status.
    pub(super) fn run(&self, words: &[&str]) -> Result<Output> {
        let mut shell = self.shell(ENTER);
        shell.arg(&self.root).arg(&self.folder).args(words);
        shell.output().with_context(|| format!("cannot run {}", words.join(" ")))
    }

    /// Runs a program of the tree, and returns what it printed. A status other than 0 is an error.
    pub(super) fn read(&self, words: &[&str]) -> Result<String> {
        let output = self.run(words)?;
        read(&output, &words.join(" "))
    }

    /// Plays at an echo of the same program, and returns what both printed.
    pub(super) fn load(&self, kqps: &str, flags: &[&str]) -> Result<String> {
        let mut shell = self.shell(LOAD);
        let output = shell.arg(&self.root).args([&self.folder, kqps]).args(flags).output();
        read(&output.context("cannot run serve and load")?, "serve and load")
    }

    /// A shell of this host in new namespaces.
    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts", "sh", "-ec"]);
        command.arg(format!("{MOUNTS}{script}")).arg("sh").stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LIMITS", if self.is_limited { ENGINES_DEFAULT } else { "" });
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
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
