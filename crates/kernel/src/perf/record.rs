//! Records of a ring, read from their bytes (`perf_event_open(2)`, "Ring-buffer records").

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;

/// Values of a call chain from here on are markers of what follows (`enum perf_callchain_context`).
const PERF_CONTEXT_MAX: u64 = -4095_i64 as u64;
const PERF_CONTEXT_KERNEL: u64 = -128_i64 as u64;
const PERF_CONTEXT_USER: u64 = -512_i64 as u64;

/// The registers that hold the first three arguments of a system call, as a mask (`asm/perf_regs.h`).
#[cfg(target_arch = "x86_64")]
pub(super) const ARGUMENTS: u64 = 1 << 3 | 1 << 4 | 1 << 5;
#[cfg(target_arch = "aarch64")]
pub(super) const ARGUMENTS: u64 = 0b111;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const ARGUMENTS: u64 = 0;

/// The layout of the samples of one opened event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The kernel's number of the event.
    pub(super) id: u64,
    /// The event's place in the list of the caller.
    pub(super) event: usize,
    pub(super) has_arguments: bool,
}

/// A record of a ring.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// The number of samples that the kernel dropped, because the ring was full.
    Lost(u64),
}

/// A sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The event, as its place in the list that [`super::Sampler::begin`] got.
    pub event: usize,
    /// The process that ran, as this process's PID namespace numbers it; 0 for an idle core.
    pub pid: u32,
    /// The thread that ran.
    pub tid: u32,
    /// The time, nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The fields of a tracepoint, from its common ones on; their places are in the event's file `format`.
    pub raw: &'a [u8],
    /// The first three arguments of the system call that the thread is in. `None` if the event has none.
    pub arguments: Option<[u64; 3]>,
    stack: &'a [u8],
}

/// An instruction in a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// In the kernel, at this address.
    Kernel(u64),
    /// In the program, at this address.
    User(u64),
}

impl Sample<'_> {
    /// The call chain, innermost first: the frames of the kernel, then those of the program. A program without frame
    /// pointers has one or a few wrong ones.
    pub fn frames(&self) -> impl Iterator<Item = Frame> + '_ {
        let words = self.stack.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        let mut in_kernel = None;
        words.filter_map(move |word| {
            if word >= PERF_CONTEXT_MAX {
                in_kernel = match word {
                    PERF_CONTEXT_KERNEL => Some(true),
                    PERF_CONTEXT_USER => Some(false),
                    // Guests of a hypervisor.
                    _ => None,
                };
                return None;
            }
            in_kernel.map(|in_kernel| if in_kernel { Frame::Kernel(word) } else { Frame::User(word) })
        })
    }
}

/// Reads a record with its header. `shapes` are in the order of their numbers. `None` for other records and for events
/// that are not among the shapes.
pub(super) fn parse<'a>(record: &'a [u8], shapes: &[Shape]) -> Option<Record<'a>> {
    let mut rest = Reader(record);
    let kind = rest.word32()?;
    rest.take(4)?;
    match kind {
        PERF_RECORD_LOST => {
            rest.word()?;
            rest.word().map(Record::Lost)
        }
        PERF_RECORD_SAMPLE => {
            let id = rest.word()?;
            let shape = shapes[shapes.binary_search_by_key(&id, |shape| shape.id).ok()?];
            let (pid, tid, time_ns) = (rest.word32()?, rest.word32()?, rest.word()?);
            let frames = usize::try_from(rest.word()?).ok()?;
            let stack = rest.take(frames.checked_mul(8)?)?;
            let raw_bytes = rest.word32()? as usize;
            let raw = rest.take(raw_bytes)?;
            let arguments = if shape.has_arguments { rest.arguments() } else { None };
            Some(Record::Sample(Sample { event: shape.event, pid, tid, time_ns, raw, arguments, stack }))
        }
        _ => None,
    }
}

/// The rest of a record.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }

    fn word32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    /// The registers, in the order of their numbers; none if the thread has no user mode, as threads of the kernel.
    fn arguments(&mut self) -> Option<[u64; 3]> {
        if self.word()? == 0 {
            return None;
        }
        let registers = [self.word()?, self.word()?, self.word()?];
        // On x86-64 these are RDX, RSI and RDI.
        let [first, second, third] = registers;
        Some(if cfg!(target_arch = "x86_64") { [third, second, first] } else { registers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of these words; the first is its type, and the header's size is not read.
    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend((8 + body.len() as u16).to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn sample(id: u64, frames: &[u64], raw: &[u8], registers: &[u64]) -> Vec<u8> {
        let mut body = id.to_ne_bytes().to_vec();
        body.extend([7u32.to_ne_bytes(), 9u32.to_ne_bytes()].concat());
        body.extend(1234u64.to_ne_bytes());
        body.extend((frames.len() as u64).to_ne_bytes());
        body.extend(frames.iter().flat_map(|frame| frame.to_ne_bytes()));
        body.extend((raw.len() as u32).to_ne_bytes());
        body.extend(raw);
        body.extend(registers.iter().flat_map(|word| word.to_ne_bytes()));
        record(PERF_RECORD_SAMPLE, &body)
    }

    const SHAPES: [Shape; 2] =
        [Shape { id: 5, event: 0, has_arguments: false }, Shape { id: 8, event: 1, has_arguments: true }];

    #[test]
    fn a_sample_is_read_with_its_stack_its_fields_and_its_arguments() {
        let frames = [PERF_CONTEXT_KERNEL, 0xffff_ffff_8100_0000, PERF_CONTEXT_USER, 0x1000, 0x2000];
        let bytes = sample(8, &frames, &[1, 2, 3, 4], &[2, 30, 20, 10]);
        let Some(Record::Sample(read)) = parse(&bytes, &SHAPES) else { panic!() };
        assert_eq!((read.event, read.pid, read.tid, read.time_ns), (1, 7, 9, 1234));
        let stack: Vec<Frame> = read.frames().collect();
        let wanted = [Frame::Kernel(0xffff_ffff_8100_0000), Frame::User(0x1000), Frame::User(0x2000)];
        assert_eq!((stack.as_slice(), read.raw), (wanted.as_slice(), [1, 2, 3, 4].as_slice()));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(read.arguments, Some([10, 20, 30]));
        }
    }

    #[test]
    fn samples_of_kernel_threads_and_of_plain_events_have_no_arguments() {
        for bytes in [sample(8, &[], &[0; 4], &[0]), sample(5, &[], &[0; 4], &[])] {
            let Some(Record::Sample(read)) = parse(&bytes, &SHAPES) else { panic!() };
            assert_eq!((read.arguments, read.frames().count()), (None, 0));
        }
    }

    #[test]
    fn losses_are_counted_and_the_rest_is_left_out() {
        let body = [5u64.to_ne_bytes(), 17u64.to_ne_bytes()].concat();
        assert!(matches!(parse(&record(PERF_RECORD_LOST, &body), &SHAPES), Some(Record::Lost(17))));
        assert!(parse(&record(3, &body), &SHAPES).is_none());
        let whole = sample(8, &[1, 2, 3], &[0; 4], &[0]);
        assert!(parse(&sample(6, &[], &[0; 4], &[]), &SHAPES).is_none(), "an event of somebody else");
        for cut in 0..whole.len() - 8 {
            assert!(parse(&whole[..cut], &SHAPES).is_none(), "{cut}");
        }
    }
}
