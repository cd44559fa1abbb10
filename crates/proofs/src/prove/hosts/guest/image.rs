//! The guest's file system in memory: busybox, ethtool and kqps with their libraries, the modules, and three scripts.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use kqps_programs::shell;

use super::kernel::Kernel;

/// The script that the kernel runs. It makes the guest ready, and runs each line that comes by the second serial port.
/// Its functions show settings without kqps.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /var/lib /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t tmpfs tmp /tmp
/bin/busybox --install -s /bin
export PATH=/scripts:/programs:/bin HOME=/root

# What ethtool shows, without the most that the device can have.
now() { ethtool $1 $2 | sed '1,/^Current/d'; }
# The queues that the table of RSS names.
table() { ethtool -x $1 | sed -n 's/^ \+[0-9]*: *//p' | tr -s ' ' '\n' | sort -u; }
# The fields in the hash of a kind of packets.
fields() { ethtool -n $1 rx-flow-hash $2 | sed 1d; }
# The cores of the interrupts whose handlers match, and other cores for them.
irqs() { awk -v handler="$1" '$NF ~ handler { print $1 + 0 }' /proc/interrupts; }
cores() { for irq in $(irqs "$1"); do cat /proc/irq/$irq/smp_affinity_list; done; }
place() { for irq in $(irqs "$1"); do echo $2 >/proc/irq/$irq/smp_affinity_list; done; }

while read -r module; do insmod "/modules/$module" || echo "cannot load $module"; done </modules/order
ip link set lo up
for device in eth0 eth1 eth2; do ip link set $device up; done
stty -F /dev/ttyS1 raw -echo
# A signal makes the shell forget the part of a line that it has read. The end of an orphan signals the first process, so
# another one reads.
(
    echo "@@@ 0"
    while IFS= read -r line; do
        (eval "$line") </dev/null
        status=$?
        echo
        echo "@@@ $status"
    done
) </dev/ttyS1 >/dev/ttyS1 2>&1
poweroff -f
"#;

/// Prints every setting of a device as ethtool and the kernel's files have it, and the sysctls that are changed here.
const VALUES: &str = r#"#!/bin/sh
for what in -l -g -c -x -k; do
    echo "ethtool $what: $(ethtool $what $1 2>&1)"
done
for flow in udp4 udp6; do
    echo "hash of $flow: $(ethtool -n $1 rx-flow-hash $flow 2>&1)"
done
cd /sys/class/net/$1
for file in queues/rx-*/rps_cpus queues/tx-*/xps_cpus napi_defer_hard_irqs gro_flush_timeout threaded; do
    echo "$file: $(cat $file 2>&1)"
done
for irq in $(ls device/msi_irqs device/../msi_irqs 2>/dev/null | sort -n | uniq); do
    [ -e /proc/irq/$irq/smp_affinity_list ] || continue
    echo "irq $(awk -v irq=$irq: '$1 == irq { print $NF }' /proc/interrupts): $(cat /proc/irq/$irq/smp_affinity_list)"
done
cd /proc/sys
for file in net/core/rmem_max net/core/netdev_max_backlog net/core/busy_read kernel/numa_balancing; do
    echo "$file: $(cat $file 2>&1)"
done
"#;

/// Runs a command of kqps, and kills it when the journal has a number of records: at least so many if the command adds
/// them, at most so many if it removes them.
const KILLED_AT: &str = r#"#!/bin/sh
has() {
    set -- "$1" "$2" /var/lib/kqps/tuning/*/*/*.json
    [ -e "$3" ] || set -- "$1" "$2"
    [ $(($# - 2)) $1 $2 ]
}
relation=$1 records=$2
shift 2
"$@" >/tmp/said 2>&1 &
pid=$!
looks=0
until has $relation $records || [ $looks -ge 300000 ]; do looks=$((looks + 1)); done
kill -9 $pid
wait $pid
echo "status $? after $looks looks"
"#;

/// Makes the image of the guest below `folder`, and returns its path.
pub(super) fn make(folder: &Path, kqps: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let root = folder.join("image");
    let found = |name: &str| shell::find(name).with_context(|| format!("there is no program {name}"));
    let (busybox, ethtool) = (found("busybox")?, found("ethtool")?);
    let programs = [("bin/busybox", &*busybox), ("programs/ethtool", &*ethtool), ("programs/kqps", kqps)];
    for (to, file) in programs {
        copy(file, &root.join(to))?;
        for library in libraries(file)? {
            copy(&library, &root.join(library.strip_prefix("/").unwrap_or(&library)))?;
        }
    }
    let mut order = String::new();
    for module in &kernel.modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        copy(module, &root.join("modules").join(name.as_ref()))?;
        writeln!(order, "{name}")?;
    }
    fs::create_dir_all(root.join("modules"))?;
    fs::write(root.join("modules/order"), order)?;
    for (name, text) in [("init", INIT), ("scripts/values", VALUES), ("scripts/killed-at", KILLED_AT)] {
        script(&root.join(name), text)?;
    }
    let image = folder.join("image.cpio");
    let mut pack = Command::new("sh");
    pack.args(["-c", "find . | busybox cpio --quiet -o -H newc >\"$0\""]).arg(&image).current_dir(&root);
    shell::read(&mut pack)?;
    fs::remove_dir_all(root)?;
    Ok(image)
}

fn script(file: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(file.parent().context("a file is in a folder")?)?;
    fs::write(file, text)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// The shared libraries of a program, its loader among them. A static program has none.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    // The status is 1 for a static program.
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    Ok(listed(&String::from_utf8_lossy(&output.stdout)))
}

/// The files that ldd(1) lists.
fn listed(text: &str) -> Vec<PathBuf> {
    let file = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    text.lines().filter(|line| line.starts_with(['\t', ' '])).filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_files() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let wanted = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(listed(text), wanted);
        assert_eq!(listed("\tstatically linked\n"), [] as [PathBuf; 0]);
    }
}
