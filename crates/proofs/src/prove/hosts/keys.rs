//! The keys of the lab, made by ssh-keygen: one of each host, and one of the user who may log in to all of them.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use kqps_programs::shell;

/// The names of the hosts with their addresses, and the files by which OpenSSH's client reaches them.
pub(super) struct Keys {
    folder: PathBuf,
}

impl Keys {
    /// Makes the user's key.
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let keys = Self { folder: folder.to_owned() };
        generate(&keys.user())?;
        fs::copy(public(&keys.user()), keys.authorized())?;
        Ok(keys)
    }

    /// The user's private key.
    pub(super) fn user(&self) -> PathBuf {
        self.folder.join("user_key")
    }

    /// The public key, as the hosts read it.
    pub(super) fn authorized(&self) -> PathBuf {
        self.folder.join("authorized_keys")
    }

    /// The private key of a host, made if there is none.
    pub(super) fn of_host(&self, name: &str) -> Result<PathBuf> {
        let key = self.folder.join(format!("{name}_key"));
        if !key.exists() {
            generate(&key)?;
        }
        Ok(key)
    }

    /// Writes the client's configuration and its known hosts, by their names and addresses. Returns the path of the
    /// configuration.
    pub(super) fn client<'h>(&self, hosts: impl Iterator<Item = (&'h str, Ipv4Addr)>) -> Result<PathBuf> {
        let config = self.folder.join("ssh_config");
        let known_hosts = config.with_extension("known");
        let (mut known, mut text) = (String::new(), String::new());
        for (name, address) in hosts {
            let key = fs::read_to_string(public(&self.of_host(name)?))?;
            let words: Vec<&str> = key.split_whitespace().take(2).collect();
            let _ = writeln!(known, "{address} {}", words.join(" "));
            let _ = write!(text, "Host {name}\n    HostName {address}\n");
        }
        fs::write(&known_hosts, known)?;
        let _ = write!(
            text,
            "Host *\n    User root\n    IdentityFile {}\n    IdentitiesOnly yes\n    UserKnownHostsFile {}\n    \
             GlobalKnownHostsFile /dev/null\n    ConnectTimeout 5\n    LogLevel ERROR\n",
            self.user().display(),
            known_hosts.display()
        );
        fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        Ok(config)
    }
}

fn public(key: &Path) -> PathBuf {
    key.with_extension("pub")
}

fn generate(key: &Path) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "kqps-proof", "-f"]).arg(key);
    shell::run(&mut command)
}
