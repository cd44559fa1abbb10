//! The kernel's events about locks and scheduling, and where their fields are
//! (<https://docs.kernel.org/trace/events.html>).

use kqps_kernel::tracefs;

/// An event, by its number and the fields that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tracepoint<const N: usize> {
    pub(super) id: u64,
    fields: [Field; N],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset: usize,
    bytes: usize,
}

impl<const N: usize> Tracepoint<N> {
    /// Reads where these fields of an event are. Returns the reason if there is no such event here.
    pub(super) fn find(event: &str, fields: [&str; N]) -> Result<Self, String> {
        let of = |error| format!("the kernel's trace event {event}: {error}");
        let id = tracefs::event_id(event).map_err(of)?;
        let format = tracefs::read(&format!("events/{event}/format")).map_err(of)?;
        let found: Option<Vec<Field>> = fields.iter().map(|name| field(&format, name)).collect();
        let found = found.and_then(|found| found.try_into().ok());
        let fields = found.ok_or_else(|| format!("the format of {event} is not understood"))?;
        Ok(Self { id, fields })
    }

    /// The values of the fields in a sample; `None` if the sample is too short.
    pub(super) fn values(&self, raw: &[u8]) -> Option<[u64; N]> {
        let mut values = [0; N];
        for (value, field) in values.iter_mut().zip(&self.fields) {
            *value = field.value(raw)?;
        }
        Some(values)
    }
}

impl Field {
    fn value(self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..self.offset + self.bytes)?;
        match *bytes {
            [byte] => Some(u64::from(byte)),
            [a, b] => Some(u64::from(u16::from_ne_bytes([a, b]))),
            [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([a, b, c, d]))),
            _ => bytes.try_into().ok().map(u64::from_ne_bytes),
        }
    }
}

/// A field in the text of a format: `field:pid_t prev_pid; offset:24; size:4; signed:1;`, with tabs between.
fn field(format: &str, name: &str) -> Option<Field> {
    let is_named = |line: &&str| {
        let declared = line.trim().strip_prefix("field:").and_then(|rest| rest.split_once(';'));
        declared.is_some_and(|(declared, _)| declared.rsplit(' ').next() == Some(name))
    };
    let line = format.lines().find(is_named)?;
    let number = |key: &str| {
        let (_, rest) = line.split_once(key)?;
        rest.split_once(';')?.0.parse().ok()
    };
    let bytes = number("size:").filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8))?;
    Some(Field { offset: number("offset:")?, bytes })
}

/// The events of a profile.
#[derive(Clone, Debug)]
pub(super) struct Tracepoints {
    /// The lock, and its kind as flags.
    pub(super) lock_begins: Tracepoint<2>,
    /// The lock.
    pub(super) lock_ends: Tracepoint<1>,
    /// The state of the thread that leaves the core, and the thread that gets it.
    pub(super) switch: Tracepoint<2>,
    /// The thread that becomes ready.
    pub(super) wakeup: Tracepoint<1>,
}

impl Tracepoints {
    /// Finds all of them. Returns the reason if this process may not, or if the kernel is older than Linux 5.19.
    pub(super) fn find() -> Result<Self, String> {
        Ok(Self {
            lock_begins: Tracepoint::find("lock/contention_begin", ["lock_addr", "flags"])?,
            lock_ends: Tracepoint::find("lock/contention_end", ["lock_addr"])?,
            switch: Tracepoint::find("sched/sched_switch", ["prev_state", "next_pid"])?,
            wakeup: Tracepoint::find("sched/sched_wakeup", ["pid"])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n";

    #[test]
    fn fields_are_where_the_format_says() {
        let of = |name| field(SWITCH, name).map(|field| (field.offset, field.bytes));
        assert_eq!([of("prev_state"), of("next_pid")], [Some((32, 8)), Some((56, 4))]);
        assert_eq!([of("pid"), of("prev_comm[16]")], [None, None], "no part of a name, and no text");
        let fields = ["prev_state", "next_pid"].map(|name| field(SWITCH, name).unwrap());
        let tracepoint = Tracepoint { id: 316, fields };
        let mut raw = vec![0; 64];
        raw[32..40].copy_from_slice(&0x100u64.to_ne_bytes());
        raw[56..60].copy_from_slice(&77u32.to_ne_bytes());
        assert_eq!(tracepoint.values(&raw), Some([0x100, 77]));
        assert_eq!(tracepoint.values(&raw[..58]), None);
    }
}
