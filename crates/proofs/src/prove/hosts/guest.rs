//! Tuning with the drivers of network cards: a guest in QEMU with two memory nodes has a virtio device of four queues,
//! an Intel 82574 (e1000e) and a vmxnet3 device. `kqps host apply` changes all that their drivers can set, ethtool and
//! the kernel's files show it, and `kqps host undo` brings every value back, byte for byte. The same if kqps is killed
//! anywhere. No packet passes, and no step measures a time: the guest is emulated.

mod cards;
mod console;
mod image;
mod kernel;
mod killed;
mod machine;
mod nodes;
mod values;
mod way;

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::super::{Bench, Size};
use super::packages;
use cards::DRIVERS;
use console::Guest;

/// Programs that this part runs or puts into the guest, each with its Debian package.
const PROGRAMS: [(&str, &str); 4] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("ethtool", "ethtool"),
    ("depmod", "kmod"),
];

/// The name of this part.
pub(super) const NAME: &str = "guest";

/// The name of a proof in the guest, and its function.
type Step = (&'static str, fn(&Bench, &mut Guest) -> Result<()>);

const STEPS: [Step; 4] =
    [("nodes", nodes::prove), ("cards", cards::prove), ("way", way::prove), ("kills", killed::prove)];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    ensure!(cfg!(target_arch = "x86_64"), "the guest is an x86-64 machine, and runs the kqps of this host");
    packages::need(&PROGRAMS)?;
    let folder = bench.folder.path();
    let kernel = kernel::unpack(folder, &DRIVERS)?;
    eprintln!("the guest has Linux {}", kernel.version);
    let image = image::make(folder, &bench.kqps.program, &kernel)?;
    let mut guest = Guest::boot(machine::command(&kernel.file, &image), folder)?;
    let proved = steps(bench, &mut guest);
    if proved.is_err() {
        eprintln!("{}", guest.log());
    }
    proved
}

fn steps(bench: &Bench, guest: &mut Guest) -> Result<()> {
    for (name, prove) in STEPS {
        let began = Instant::now();
        prove(bench, guest).with_context(|| name.to_owned())?;
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Whether a part of the proof takes its short form.
fn is_small(bench: &Bench) -> bool {
    bench.size == Size::Small
}
