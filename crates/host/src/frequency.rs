//! The clock frequency of a core at one moment, if the kernel controls it.

use crate::files::Root;

/// MHz of a core as the kernel's governor sees it: the frequency that was set, or on x86 the mean over the
/// last tick (<https://docs.kernel.org/admin-guide/pm/cpufreq.html>, `scaling_cur_freq`). `None` if the kernel
/// does not control the frequency, as in most virtual machines.
pub(crate) fn mhz(root: &Root, cpu: u32) -> Option<f64> {
    let khz = root.number(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")).ok()?;
    Some(f64::from(khz) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kilohertz_are_read_where_there_are_any() {
        let machine = tempfile::tempdir().unwrap();
        let folder = machine.path().join("sys/devices/system/cpu/cpu1/cpufreq");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("scaling_cur_freq"), "2499998\n").unwrap();
        let root = Root::at(machine.path());
        assert_eq!(mhz(&root, 1), Some(2499.998));
        assert_eq!(mhz(&root, 0), None);
    }
}
