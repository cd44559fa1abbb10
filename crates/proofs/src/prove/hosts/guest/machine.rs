//! The guest's machine: four cores on two memory nodes, a virtio device on the second node, and two older cards on the
//! first. QEMU emulates all of it in software, so it is the same on every host.

use std::path::Path;
use std::process::Command;

/// Memory of each node, MiB. The programs are in it too.
const NODE_MIB: u32 = 768;

/// The command that starts the machine. Its first serial port is the kernel's console, and the second one is standard
/// input and output. The kernel writes its console to `console.log` in the folder in which QEMU is started.
pub(super) fn command(kernel: &Path, image: &Path) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
    command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "Nehalem,+rdrand"]);
    command.args(["-smp", "4,sockets=2,cores=2,threads=1", "-m", &format!("{}M", 2 * NODE_MIB)]);
    for (node, cores) in [(0, "0-1"), (1, "2-3")] {
        let memory = format!("memory-backend-ram,id=memory{node},size={NODE_MIB}M");
        let of_node = format!("node,nodeid={node},cpus={cores},memdev=memory{node}");
        // A bridge of its own tells the kernel the node of the devices behind it.
        let bridge = format!("pxb-pcie,id=node{node},bus=pcie.0,bus_nr={},numa_node={node}", 64 + 64 * node);
        command.args(["-object", &memory, "-numa", &of_node, "-device", &bridge]);
    }
    command.args(["-chardev", "file,id=console,path=console.log", "-serial", "chardev:console"]);
    command.args(["-serial", "stdio"]);
    // Only a tap device has several queues without other programs.
    let tap = "tap,id=net0,ifname=guest0,queues=4,vhost=off,script=no,downscript=no";
    command.args([
        "-netdev",
        tap,
        "-netdev",
        "hubport,id=net1,hubid=1",
        "-netdev",
        "hubport,id=net2,hubid=2",
    ]);
    let devices = [
        ("virtio-net-pci", 1, "mq=on,vectors=10,rss=on,packed=off"),
        ("e1000e", 0, "mac=52:54:00:00:00:02"),
        ("vmxnet3", 0, "mac=52:54:00:00:00:03"),
    ];
    for (number, (model, node, more)) in (0..).zip(devices) {
        let port = format!("pcie-root-port,id=port{number},bus=node{node},chassis={}", number + 1);
        let device = format!("{model},netdev=net{number},bus=port{number},romfile=,{more}");
        command.args(["-device", &port, "-device", &device]);
    }
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(image);
    command.args(["-append", "console=ttyS0 loglevel=5 panic=-1 mitigations=off nowatchdog rdinit=/init"]);
    command
}
