//! A control plane of Kubernetes in the controller's network, on loopback alone, with a certificate and tokens of its
//! own. All of it ends with this value.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_tls::Identity;
use kqps_tls::certificate::{Authority, KeyType};

use super::super::lab::{CONTROLLER, Lab};
use super::kubectl::{Kubectl, until};
use crate::child::Running;

const LOOPBACK: &str = "127.0.0.1";
const ETCD: &str = "http://127.0.0.1:2379";
const ETCD_PEERS: &str = "http://127.0.0.1:2380";
const API: &str = "https://127.0.0.1:6443";

/// Controllers that run: that of Jobs, and those that its pods need.
const CONTROLLERS: &str =
    "--controllers=job-controller,serviceaccount-controller,garbage-collector-controller";

/// Lines of a program's log that an error shows.
const LAST_LINES: usize = 5;

/// A cluster without nodes.
pub(super) struct Cluster {
    /// kubectl with all rights.
    pub(super) admin: Kubectl,
    /// The program of all programs.
    programs: PathBuf,
    folder: PathBuf,
    running: Vec<(&'static str, Running)>,
}

impl Cluster {
    /// Starts the programs, and waits until the API server is ready and has the default account.
    pub(super) fn start(lab: &Lab, programs: &Path) -> Result<Self> {
        let folder = lab.home.join("cluster");
        fs::create_dir_all(&folder)?;
        let token = random();
        fs::write(folder.join("tokens.csv"), format!("{token},admin,admin,system:masters\n"))?;
        let authority = Authority::new(KeyType::Ecdsa)?;
        fs::write(folder.join("ca.pem"), authority.certificate())?;
        write(&folder, "server", &authority.issue(KeyType::Ecdsa, &[LOOPBACK.to_owned()])?)?;
        // It signs tokens; its certificate is not used.
        write(&folder, "accounts", &authority.issue(KeyType::Rsa, &[])?)?;
        let admin = kubectl(&folder, lab, programs, "admin", &token)?;
        let mut cluster = Self { admin, programs: programs.to_owned(), folder, running: Vec::new() };
        cluster.run(lab, "etcd", &of_etcd(&cluster.folder))?;
        cluster.run(lab, "kube-apiserver", &of_api_server(&cluster.folder))?;
        cluster.answers(&["get", "--raw", "/readyz"])?;
        let config = format!("--kubeconfig={}", cluster.folder.join("admin/config").display());
        let bind = format!("--bind-address={LOOPBACK}");
        let common = [config, bind, "--leader-elect=false".to_owned()];
        let of_manager: Vec<String> = common.iter().cloned().chain([CONTROLLERS.to_owned()]).collect();
        cluster.run(lab, "kube-controller-manager", &of_manager)?;
        cluster.run(lab, "kube-scheduler", &common)?;
        cluster.answers(&["get", "serviceaccount", "default"])?;
        Ok(cluster)
    }

    /// Serves the exec of pods on a node, by a program that gets their commands. The port is on loopback.
    pub(super) fn serve_exec(&mut self, lab: &Lab, port: u16, program: &Path) -> Result<()> {
        let words = [
            format!("{LOOPBACK}:{port}"),
            self.folder.join("server.pem").display().to_string(),
            self.folder.join("server.key").display().to_string(),
            program.display().to_string(),
        ];
        self.run(lab, "kubelet", &words)
    }

    /// kubectl with the account that this token shows.
    pub(super) fn kubectl(&self, lab: &Lab, name: &str, token: &str) -> Result<Kubectl> {
        kubectl(&self.folder, lab, &self.programs, name, token)
    }

    /// Starts one of the programs. Its log is a file of its name.
    fn run(&mut self, lab: &Lab, name: &'static str, words: &[String]) -> Result<()> {
        let log = fs::File::options().create(true).append(true).open(self.log(name))?;
        let mut command: Command = lab.command(&self.programs)?;
        // It is no process of the controller, and its files are no files of the controller's.
        command.current_dir("/").env("HOME", &self.folder).env("TMPDIR", &self.folder);
        command.arg(name).args(words).stderr(log);
        self.running.push((name, Running::start(&mut command)?));
        Ok(())
    }

    /// Waits until kubectl succeeds, and all programs still run.
    fn answers(&self, words: &[&str]) -> Result<()> {
        until(|| {
            for (name, running) in &self.running {
                ensure!(!running.has_ended()?, "{name} has ended: {}", self.last_lines(name));
            }
            Ok(self.admin.read(words).map_err(|error| format!("{error:#}")))
        })
        .map(drop)
        .with_context(|| format!("kube-apiserver says: {}", self.last_lines("kube-apiserver")))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn last_lines(&self, name: &str) -> String {
        let text = fs::read_to_string(self.log(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Programs that need others end first.
        while let Some((_, running)) = self.running.pop() {
            drop(running);
        }
    }
}

fn kubectl(folder: &Path, lab: &Lab, programs: &Path, name: &str, token: &str) -> Result<Kubectl> {
    let server = (API, &*folder.join("ca.pem"));
    Kubectl::new(folder, &lab.controller, programs, server, (name, token))
}

fn of_etcd(folder: &Path) -> [String; 9] {
    [
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={ETCD}"),
        format!("--advertise-client-urls={ETCD}"),
        format!("--listen-peer-urls={ETCD_PEERS}"),
        format!("--initial-advertise-peer-urls={ETCD_PEERS}"),
        format!("--initial-cluster=default={ETCD_PEERS}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
        "--log-outputs=stderr".to_owned(),
    ]
}

/// It checks the certificates of kubelets by the same issuer.
fn of_api_server(folder: &Path) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--etcd-servers={ETCD}"),
        format!("--bind-address={LOOPBACK}"),
        format!("--advertise-address={CONTROLLER}"),
        "--endpoint-reconciler-type=none".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!("--cert-dir={}", folder.display()),
        format!("--kubelet-certificate-authority={}", file("ca.pem")),
        format!("--tls-cert-file={}", file("server.pem")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        format!("--service-account-key-file={}", file("accounts.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
    ]
}

fn write(folder: &Path, name: &str, identity: &Identity) -> Result<()> {
    fs::write(folder.join(format!("{name}.pem")), &identity.chain)?;
    fs::write(folder.join(format!("{name}.key")), &identity.key)?;
    Ok(())
}

/// A token for one run.
fn random() -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(32).collect()
}
