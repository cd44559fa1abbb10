//! kubectl, with the account of one user.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::namespace::{self, NetNs};
use kqps_programs::shell;
use serde_json::{Value, json};

/// How long the cluster may take for a change that it makes by itself.
const WITHIN: Duration = Duration::from_mins(2);
const LOOK: Duration = Duration::from_millis(200);

/// kubectl as a user has it: one program, which knows its cluster and its account.
pub(super) struct Kubectl {
    /// The program.
    pub(super) program: PathBuf,
    /// A folder for its files.
    pub(super) folder: PathBuf,
    network: NetNs,
}

impl Kubectl {
    /// Makes kubectl for an account, which a token shows. `programs` is that of the
    /// cluster; the server is the URL of the API server and the file of its issuer's certificate.
    pub(super) fn new(
        folder: &Path,
        network: &NetNs,
        programs: &Path,
        server: (&str, &Path),
        user: (&str, &str),
    ) -> Result<Self> {
        let ((url, ca), (name, token)) = (server, user);
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proof",
            "clusters": [{"name": "proof", "cluster": {"server": url, "certificate-authority": ca}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "proof", "context": {"cluster": "proof", "user": name}}],
        });
        let file = folder.join("config");
        fs::write(&file, config.to_string())?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        let program = folder.join("kubectl");
        let script = format!(
            "#!/bin/sh\nexec {} kubectl --kubeconfig={} \"$@\"\n",
            programs.display(),
            file.display()
        );
        fs::write(&program, script)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(Self { program, folder, network: network.try_clone()? })
    }

    /// A command with these words.
    pub(super) fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(words).env("HOME", &self.folder).current_dir(&self.folder);
        namespace::enter(&mut command, &self.network)?;
        Ok(command)
    }

    /// Returns what it prints. An error if it fails.
    pub(super) fn read(&self, words: &[&str]) -> Result<String> {
        shell::read(&mut self.command(words)?)
    }

    /// Returns the JSON that it prints for `-o json`, which is added.
    pub(super) fn json(&self, words: &[&str]) -> Result<Value> {
        let words: Vec<&str> = words.iter().copied().chain(["-o", "json"]).collect();
        Ok(serde_json::from_str(&self.read(&words)?)?)
    }

    /// Creates an object of JSON, or those of a list. Returns what the API server makes of each.
    pub(super) fn create(&self, object: &Value) -> Result<Vec<Value>> {
        let file = self.folder.join("object.json");
        fs::write(&file, object.to_string())?;
        // To check objects by itself, kubectl would need the right to list kinds of objects.
        let words = ["create", "--validate=ignore", "-f", &file.display().to_string(), "-o", "json"];
        let printed = self.read(&words)?;
        Ok(serde_json::Deserializer::from_str(&printed).into_iter().collect::<Result<_, _>>()?)
    }

    /// Writes a part of an object's status, as a kubelet does.
    pub(super) fn report(&self, kind: &str, name: &str, status: &Value) -> Result<()> {
        let patch = json!({ "status": status }).to_string();
        self.read(&["patch", kind, name, "--subresource=status", "--type=merge", "-p", &patch]).map(drop)
    }

    /// Runs it to its end, whatever that is.
    pub(super) fn output(&self, words: &[&str]) -> Result<Output> {
        let mut command = self.command(words)?;
        command.stdin(Stdio::null()).output().with_context(|| shell::words(&command))
    }

    /// Returns the reason for which it fails. An error if it does not, or for another reason.
    pub(super) fn refused(&self, words: &[&str], reason: &str) -> Result<String> {
        let output = self.output(words)?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(!output.status.success(), "kubectl {} succeeded", words.join(" "));
        ensure!(said.contains(reason), "kubectl {} failed for another reason: {said}", words.join(" "));
        Ok(said)
    }
}

/// Asks again and again until there is an answer. An error with the last reason, which stands in place of an answer, if
/// there is none in two minutes.
pub(super) fn until<T>(mut ask: impl FnMut() -> Result<Result<T, String>>) -> Result<T> {
    let end = Instant::now() + WITHIN;
    loop {
        match ask()? {
            Ok(answer) => return Ok(answer),
            Err(reason) if Instant::now() > end => bail!("{reason}"),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// The text at a JSON pointer (RFC 6901); empty if there is none.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of a list that kubectl printed.
pub(super) fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}
