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
    Facts::read_below(&Root::at(folder.path()), std::iter::empty())
}

fn words(taken: &[Restriction]) -> Vec<&'static str> {
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
    assert!(taken[2].reason.contains("the time of 1.50 cores"), "{}", taken[2].reason);
    assert!(taken[3].reason.contains("512 MiB"), "{}", taken[3].reason);
}

#[test]
fn a_container_that_takes_nothing_lacks_nothing() {
    let found = Facts {
        signs: vec!["/run/.containerenv exists".into()],
        bounding: Some(ALL),
        effective: Some(ALL),
        is_filtered: Some(false),
        network: Some(Network::Host),
        ..Facts::default()
    };
    assert_eq!(found.taken(|_| true), []);
    assert!(found.for_setcap().is_empty());
    // Unknown facts are not said to be missing.
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
    assert_eq!(found.network, Some(Network::Host));
    assert_eq!(found.taken(|_| true), []);
    let setcap = "cap_net_admin cap_net_raw cap_ipc_lock cap_sys_nice cap_syslog cap_perfmon cap_bpf";
    assert_eq!(found.for_setcap().join(" "), setcap);
}

#[test]
fn setcap_gives_all_rights_if_one_is_missing() {
    let all = "cap_net_admin cap_net_raw cap_ipc_lock cap_sys_nice cap_syslog cap_perfmon cap_bpf";
    let setcap = |effective, bounding, last| {
        let (effective, last_capability) = (Some(effective), Some(last));
        let known = Facts { effective, bounding: Some(bounding), last_capability, ..Facts::default() };
        known.for_setcap().join(" ")
    };
    // A file that has cap_net_raw already would lose it by a list without it.
    assert_eq!(setcap(1 << 13, ALL, 40), all);
    assert_eq!(setcap(ALL & !(1 << 21), ALL, 40), "");
    // Linux 5.4 has no CAP_PERFMON and no CAP_BPF.
    let old = (1 << 38) - 1;
    assert_eq!(setcap(0, old, 37), all.strip_suffix(" cap_perfmon cap_bpf").unwrap());
    assert_eq!(setcap(old, old, 37), "");
    assert_eq!(setcap(0, ENGINES_DEFAULT, 40), "cap_net_raw");
}

#[test]
fn an_old_kernel_takes_no_rights_away_that_it_does_not_know() {
    let old = Facts {
        signs: vec!["/run/.containerenv exists".into()],
        bounding: Some((1 << 38) - 1),
        last_capability: Some(37),
        ..Facts::default()
    };
    assert_eq!(old.taken(|_| false), []);
}

#[test]
fn each_sign_of_a_container_is_reported() {
    let kubernetes = "0::/kubepods.slice/pod1";
    let found = facts(&[("proc/self/cgroup", kubernetes), ("run/.containerenv", "")], FIRST_PID_NAMESPACE);
    assert_eq!(found.signs, ["/run/.containerenv exists", "its cgroup is /kubepods.slice/pod1"]);
    let folder = TempDir::new().unwrap();
    let named = |variables: &[&'static str]| {
        Facts::read_below(&Root::at(folder.path()), variables.iter().copied()).signs
    };
    assert_eq!(
        named(&VARIABLES).join("; "),
        "the variable container is set; the variable KUBERNETES_SERVICE_HOST is set"
    );
    assert_eq!(named(&VARIABLES[..1]), [""; 0]);
    assert_eq!(facts(&[(".dockerenv", "")], FIRST_PID_NAMESPACE).signs, [""; 0]);
}

#[test]
fn only_whole_names_in_the_path_of_a_cgroup_show_an_engine() {
    let id = "0123456789abcdef0123456789abcdef";
    for path in ["docker/0a", "lxc/web", "lxc.payload.web/init.scope", "kubepods-besteffort.slice"] {
        assert!(path.split('/').any(is_of_an_engine), "{path}");
    }
    for begin in BEFORE_ID {
        assert!(is_of_an_engine(&format!("{begin}{id}.scope")) && is_of_an_engine(&format!("{begin}{id}")));
    }
    for name in [
        "app-docker-desktop.scope",
        "docker.service",
        "docker-desktop.scope",
        "lxcfs.service",
        "crio.service",
    ] {
        assert!(!is_of_an_engine(name), "{name}");
    }
}

/// Reads the reach of made-up devices, each with its `ifindex`, its `iflink`, and whether a program made it.
fn network_of(devices: &[(&str, u32, u32, bool)]) -> Option<Network> {
    let folder = TempDir::new().unwrap();
    let net = folder.path().join("sys/class/net");
    fs::create_dir_all(&net).unwrap();
    fs::write(net.join("bonding_masters"), "").unwrap();
    for (name, own, other, is_tap) in devices {
        fs::create_dir(net.join(name)).unwrap();
        fs::write(net.join(name).join("ifindex"), own.to_string()).unwrap();
        fs::write(net.join(name).join("iflink"), other.to_string()).unwrap();
        if *is_tap {
            fs::write(net.join(name).join("tun_flags"), "0x5002").unwrap();
        }
    }
    network(&Root::at(folder.path()))
}

#[test]
fn devices_show_whether_the_network_is_the_hosts() {
    let lo = ("lo", 1, 1, false);
    assert_eq!(network_of(&[]), None);
    assert_eq!(network_of(&[lo]), Some(Network::Loopback));
    assert_eq!(network_of(&[lo, ("eth0", 2, 9, false)]), Some(Network::Private));
    // Rootless podman, by pasta or slirp4netns.
    assert_eq!(network_of(&[lo, ("tap0", 2, 2, true)]), Some(Network::Private));
    assert_eq!(network_of(&[lo, ("eth0", 2, 2, false), ("tun0", 5, 5, true)]), Some(Network::Host));
    let alone = Facts { signs: vec![String::new()], network: Some(Network::Loopback), ..Facts::default() };
    assert!(alone.taken(|_| false)[0].reason.contains("no network but loopback"));
}
