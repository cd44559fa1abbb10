//! Facts of known surroundings, written as files, and what follows from them.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// The capabilities that Docker and podman leave to a container's root.
const ENGINES_DEFAULT: u64 = 0x0000_0000_a80c_25fb;

const ALL: u64 = 0x0000_01ff_ffff_ffff;

/// Files below a root, and facts read there.
fn facts(files: &[(&str, &str)], pid_namespace: &str) -> Facts {
    let folder = TempDir::new().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::create_dir_all(folder.path().join("proc/self/ns")).unwrap();
    symlink(pid_namespace, folder.path().join("proc/self/ns/pid")).unwrap();
    Facts::of(&Root::at(folder.path()), std::iter::empty())
}

fn words(taken: &[Taken]) -> Vec<&'static str> {
    taken.iter().map(|one| one.what).collect()
}

#[test]
fn a_container_with_the_usual_rights_lacks_most() {
    let found = facts(
        &[
            (".dockerenv", ""),
            (
                "proc/self/status",
                "Name:\tkqps\nCapEff:\t00000000a80425fb\nCapBnd:\t00000000a80c25fb\nSeccomp:\t2\n",
            ),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/memory.max", "536870912\n"),
            (
                "proc/self/mountinfo",
                "1 0 0:1 / / rw - overlay o rw\n2 1 0:2 / /proc rw,nosuid - proc p rw\n3 1 0:3 / /sys ro,nosuid - sysfs s ro\n\
                 4 2 0:2 /sys /proc/sys ro,nosuid - proc p rw\n",
            ),
            ("sys/class/net/lo/ifindex", "1"),
            ("sys/class/net/lo/iflink", "1"),
            ("sys/class/net/eth0/ifindex", "2"),
            ("sys/class/net/eth0/iflink", "9"),
        ],
        "pid:[4026532301]",
    );
    assert_eq!(found.signs, ["/.dockerenv exists", "its process numbers are its own"]);
    assert_eq!(found.bounding, Some(ENGINES_DEFAULT));
    assert_eq!((found.cpu_limit_cores, found.memory_limit_bytes), (Some(1.5), Some(512 << 20)));
    assert_eq!(found.read_only, ["/sys", "/proc/sys"]);
    let taken = found.taken(|capability| capability == "uring");
    assert_eq!(words(&taken), ["capabilities", "system calls", "cpu", "memory", "settings", "network"]);
    let wanted = "--cap-add NET_ADMIN --cap-add IPC_LOCK --cap-add SYS_ADMIN --cap-add SYS_NICE --cap-add SYSLOG \
                  --cap-add PERFMON --cap-add BPF";
    assert_eq!(taken[0].remedy, wanted);
    assert!(taken[1].reason.ends_with("may be why these fail: io_uring_setup"), "{}", taken[1].reason);
    assert!(taken[2].reason.contains("the time of 1.5 cores"), "{}", taken[2].reason);
    assert!(taken[3].reason.contains("512 MiB"), "{}", taken[3].reason);
}

#[test]
fn a_container_that_takes_nothing_lacks_nothing() {
    let found = Facts {
        signs: vec!["/run/.containerenv exists".into()],
        bounding: Some(ALL),
        effective: Some(ALL),
        is_filtered: Some(false),
        is_network_private: Some(false),
        ..Facts::default()
    };
    assert_eq!(found.taken(|_| true), []);
    assert!(found.for_setcap().is_empty());
    // What is not known is not said to be missing.
    assert_eq!(Facts { signs: found.signs, ..Facts::default() }.taken(|_| true), []);
}

#[test]
fn a_host_is_no_container_whatever_it_lacks() {
    let found = facts(
        &[
            ("proc/self/status", "CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\nSeccomp:\t2\n"),
            ("proc/self/cgroup", "9:name=systemd:/\n4:cpu:/user.slice/a\n0::/user.slice\n"),
            ("sys/fs/cgroup/cpu/user.slice/a/cpu.cfs_quota_us", "-1"),
            ("sys/fs/cgroup/cpu/user.slice/a/cpu.cfs_period_us", "100000"),
            ("sys/fs/cgroup/cpu/user.slice/cpu.cfs_quota_us", "50000"),
            ("sys/fs/cgroup/cpu/user.slice/cpu.cfs_period_us", "100000"),
            ("sys/class/net/eth0/ifindex", "2"),
            ("sys/class/net/eth0/iflink", "2"),
        ],
        FIRST_PID_NAMESPACE,
    );
    assert_eq!(found.signs, [""; 0]);
    // The limit of a folder above holds as well.
    assert_eq!(found.cpu_limit_cores, Some(0.5));
    assert_eq!(found.is_network_private, Some(false));
    assert_eq!(found.taken(|_| true), []);
    let setcap = "cap_net_admin cap_net_raw cap_ipc_lock cap_sys_nice cap_syslog cap_perfmon cap_bpf";
    assert_eq!(found.for_setcap().join(" "), setcap);
}

#[test]
fn each_sign_of_a_container_is_reported() {
    let kubernetes = "0::/kubepods.slice/pod1";
    let found = facts(&[("proc/self/cgroup", kubernetes), ("run/.containerenv", "")], FIRST_PID_NAMESPACE);
    assert_eq!(found.signs, ["/run/.containerenv exists", "its cgroup is /kubepods.slice/pod1"]);
    let folder = TempDir::new().unwrap();
    let named = Facts::of(&Root::at(folder.path()), ["container"].into_iter());
    assert_eq!(named.signs, ["the variable container is set"]);
}
