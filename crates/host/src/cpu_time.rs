//! How each core spent its time, from `/proc/stat`.

use std::collections::BTreeMap;

use kqps_observation::host::CpuFacts;

/// The unit of `/proc/stat` and `/proc/PID/stat`, `USER_HZ`: 100 on every architecture that kqps runs on.
pub(crate) const TICKS_PER_S: f64 = 100.0;

/// The columns of a core since boot, in ticks. <https://docs.kernel.org/filesystems/proc.html>, 1.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    cpu: u32,
    /// Includes `nice`.
    user: u64,
    system: u64,
    /// Includes `iowait`, which is idle time too.
    idle: u64,
    irq: u64,
    softirq: u64,
    steal: u64,
}

/// Parses the columns of all cores that are online.
pub(crate) fn parse(text: &str) -> Vec<CpuTicks> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<CpuTicks> {
    let (cpu, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
    let cpu = cpu.parse().ok()?;
    let columns: Vec<u64> = rest.split_whitespace().map_while(|column| column.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = columns[..] else { return None };
    Some(CpuTicks { cpu, user: user + nice, system, idle: idle + iowait, irq, softirq, steal })
}

/// The shares of each core between two readings. A core that was not there both times is left out.
pub(crate) fn shares(before: &[CpuTicks], after: &[CpuTicks]) -> Vec<CpuFacts> {
    differences(before, after).map(|spent| spent.shares()).collect()
}

/// Core → CPU seconds in which it was busy within `wall_s` seconds, without the time of interrupts if the kernel
/// measures it. A core that was not there both times is left out.
///
/// This uses idle time, which is exact to one tick. It does not use the columns of busy time, since they are
/// samples. A kernel that measures interrupt time does not charge it to the interrupted thread, so this
/// function subtracts it. A kernel that only samples leaves `irq` at zero, and charges the interrupt to the
/// thread that ran.
pub(crate) fn busy_s(before: &[CpuTicks], after: &[CpuTicks], wall_s: f64) -> BTreeMap<u32, f64> {
    let measures_interrupts = after.iter().any(|ticks| ticks.irq > 0);
    let not_busy_s = |spent: &CpuTicks| {
        let interrupts = if measures_interrupts { spent.irq + spent.softirq } else { 0 };
        (spent.idle + spent.steal + interrupts) as f64 / TICKS_PER_S
    };
    differences(before, after).map(|spent| (spent.cpu, wall_s - not_busy_s(&spent))).collect()
}

fn differences(before: &[CpuTicks], after: &[CpuTicks]) -> impl Iterator<Item = CpuTicks> {
    after.iter().filter_map(|after| {
        let before = before.iter().find(|before| before.cpu == after.cpu)?;
        Some(after.since(before))
    })
}

impl CpuTicks {
    /// The core's number.
    pub(crate) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Saturating, because idle time may go back by a tick when a core wakes up between two readings.
    fn since(&self, before: &Self) -> Self {
        Self {
            cpu: self.cpu,
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            idle: self.idle.saturating_sub(before.idle),
            irq: self.irq.saturating_sub(before.irq),
            softirq: self.softirq.saturating_sub(before.softirq),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    fn shares(&self) -> CpuFacts {
        let all = self.user + self.system + self.idle + self.irq + self.softirq + self.steal;
        let share = |ticks: u64| if all == 0 { 0.0 } else { ticks as f64 / all as f64 };
        CpuFacts {
            cpu: self.cpu,
            user: share(self.user),
            system: share(self.system),
            irq: share(self.irq),
            softirq: share(self.softirq),
            steal: share(self.steal),
            idle: share(self.idle),
            frequency_mhz: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  1 1 1 1 1 1 1 1 1 1
cpu0 100 10 50 1000 40 0 20 5 0 0
cpu1 0 0 0 2000 0 0 0 0 0 0
intr 316964 0 0
";
    const AFTER: &str = "cpu  1 1 1 1 1 1 1 1 1 1
cpu0 140 20 70 1010 50 0 30 5 0 0
cpu1 0 0 10 2090 0 0 0 0 0 0
";

    #[test]
    fn shares_add_up_and_leave_out_the_sum_line() {
        let cpus = shares(&parse(BEFORE), &parse(AFTER));
        assert_eq!(cpus.len(), 2);
        let wanted =
            CpuFacts { cpu: 0, user: 0.5, system: 0.2, softirq: 0.1, idle: 0.2, ..Default::default() };
        assert_eq!(cpus[0], wanted);
    }

    #[test]
    fn busy_time_is_what_was_not_idle() {
        let busy = busy_s(&parse(BEFORE), &parse(AFTER), 1.0);
        assert!((busy[&0] - 0.8).abs() < 1e-9);
        assert!((busy[&1] - 0.1).abs() < 1e-9);
        assert_eq!(busy.len(), 2);
        assert_eq!(busy_s(&parse(BEFORE)[..1], &parse(AFTER), 1.0).len(), 1, "core 1 was not there before");
    }

    #[test]
    fn measured_interrupts_are_the_work_of_no_thread() {
        let measured = |text: &str| {
            parse(&text.replace(" 0 20 5 0 0", " 7 20 5 0 0").replace(" 0 30 5 0 0", " 17 30 5 0 0"))
        };
        let busy = busy_s(&measured(BEFORE), &measured(AFTER), 1.0);
        assert!((busy[&0] - 0.6).abs() < 1e-9);
    }
}
