//! The rights of the program, given to the users of one group by the commands of docs/INSTALL.md, `setcap` as `kqps probe`
//! prints it.

use anyhow::{Context as _, Result, ensure};

use super::tree::Tree;

/// An ordinary user, who may use the program with its rights.
pub(super) const USER: &str = "user";

/// The group of these users.
const GROUP: &str = "kqps";

/// How a user who is not in the group starts the program.
const BY_OTHER: [&str; 9] =
    ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "env", "kqps", "--version"];

/// The status of env(1) if the program is there and may not be started.
const NOT_STARTED: i32 = 126;

/// The programs of a tree as an ordinary user starts them.
pub(super) fn as_user(tree: &Tree) -> Tree {
    let words = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups", "env", "--chdir=/home/user"];
    tree.by(&words).with("HOME", "/home/user")
}

/// Gives the program its rights: the user then has them, and another one may not start it.
pub(super) fn given(tree: &Tree) -> Result<()> {
    let command = printed(&as_user(tree))?.context("probe prints no setcap command for an ordinary user")?;
    tree.read(&BY_OTHER)?;
    tree.read(&["addgroup", "--quiet", "--system", GROUP])?;
    tree.read(&["dpkg-statoverride", "--update", "--add", "root", GROUP, "0750", "/usr/bin/kqps"])?;
    tree.read(&["sh", "-ec", &command])?;
    let status = tree.run(&BY_OTHER)?.status;
    ensure!(
        status.code() == Some(NOT_STARTED),
        "a user who is not in the group starts the program: {status}"
    );
    tree.read(&["adduser", "--quiet", USER, GROUP])?;
    has_rights(tree)?;
    eprintln!("as probe prints it: {command}; then the user of the group has all of these rights");
    Ok(())
}

/// An upgrade keeps group and mode, and takes the rights.
pub(super) fn after_upgrade(tree: &Tree) -> Result<()> {
    let facts = tree.read(&["stat", "--format", "%U %G %a", "/usr/bin/kqps"])?;
    ensure!(facts.trim() == format!("root {GROUP} 750"), "after the upgrade the program is of {facts}");
    ensure!(tree.read(&["getcap", "/usr/bin/kqps"])?.trim().is_empty(), "the upgrade leaves the rights");
    let command = printed(&as_user(tree))?.context("probe prints no setcap command after an upgrade")?;
    tree.read(&["sh", "-ec", &command])?;
    has_rights(tree)
}

/// Takes back what a purge leaves.
pub(super) fn taken(tree: &Tree) -> Result<()> {
    tree.read(&["dpkg-statoverride", "--remove", "/usr/bin/kqps"])?;
    tree.read(&["deluser", "--quiet", USER, GROUP])?;
    tree.read(&["delgroup", "--quiet", GROUP]).map(drop)
}

/// The user has the rights: probe prints no command, and the file has them.
fn has_rights(tree: &Tree) -> Result<()> {
    let user = as_user(tree);
    let left = printed(&user)?;
    ensure!(left.is_none(), "with its rights the program still asks for {left:?}");
    let had = tree.read(&["getcap", "/usr/bin/kqps"])?;
    ensure!(had.contains("cap_net_raw") && had.trim().ends_with("=ep"), "the program has {had}");
    Ok(())
}

/// The `setcap` command that `kqps probe` prints.
fn printed(tree: &Tree) -> Result<Option<String>> {
    let probe = tree.read(&["kqps", "probe"])?;
    Ok(probe.lines().find(|line| line.starts_with("  setcap ")).map(|line| line.trim().to_owned()))
}
