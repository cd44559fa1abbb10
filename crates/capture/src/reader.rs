//! The reader of a capture of any format.

use std::fmt;
use std::io::Read;

use crate::compression;
use crate::container::Container;
use crate::counts::Counts;
use crate::dnstap::Taps;
use crate::error::CaptureError;
use crate::foreign::{FIRST_BYTES, Foreign};
use crate::format::{Format, MAGIC_BYTES};
use crate::message::Event;
use crate::packets::Packets;
use crate::settings::Settings;
use crate::window::Window;

/// Reads a capture, message by message, in the order of its packets.
///
/// Its memory does not grow with the capture: 3 MiB for what was read, for copies and for packets with doubtful times;
/// 11 MiB for connections of TCP, of which 4 MiB are bytes that wait; to decompress zstd up to twice the window of a frame,
/// which is 8 MiB for usual levels and 128 MiB for the highest ones; and, if fragments of very many long datagrams wait for
/// each other, up to 24 MiB for these.
pub struct Reader {
    source: Source,
    counts: Counts,
    /// Whether the end or an error was returned.
    is_over: bool,
}

enum Source {
    Packets(Box<Packets>),
    Taps(Box<Taps>, Window),
}

impl Reader {
    /// Begins to read. The first bytes of `source`, which may be a pipe, say how it is compressed (gzip, zstd) and
    /// which format it has (pcap, pcapng, dnstap in Frame Streams).
    pub fn new(source: impl Read + Send + 'static, settings: &Settings) -> Result<Self, CaptureError> {
        let mut window = compression::open(Box::new(source))?;
        window.have(MAGIC_BYTES)?;
        let format = Format::from_first_bytes(window.here());
        check_foreign(&mut window, format)?;
        let source = match format {
            Some(Format::Pcap) => {
                let container = Container::pcap(&mut window)?;
                Source::Packets(Box::new(Packets::new(window, container, settings)))
            }
            Some(Format::Pcapng) => {
                Source::Packets(Box::new(Packets::new(window, Container::pcapng(), settings)))
            }
            Some(Format::Taps) => Source::Taps(Box::new(Taps::new(settings)), window),
            None => {
                let (first, packing) = (in_words(window.here()), window.packing());
                return Err(CaptureError::NotACapture { first, packing });
            }
        };
        Ok(Self { source, counts: Counts::default(), is_over: false })
    }

    /// The next event, or `None` at the end. After an error there is nothing more to read.
    #[allow(clippy::should_implement_trait, reason = "an event is borrowed from the reader")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, CaptureError> {
        if self.is_over {
            return Ok(None);
        }
        let event = match &mut self.source {
            Source::Packets(packets) => packets.next(&mut self.counts),
            Source::Taps(taps, window) => taps.next(window, &mut self.counts),
        };
        self.is_over = !matches!(event, Ok(Some(_)));
        event
    }

    /// The counts of the packets that were read so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// Checks that the file is of no format that is known and not read. One of these may begin as a stream of dnstap does.
fn check_foreign(window: &mut Window, format: Option<Format>) -> Result<(), CaptureError> {
    let of: fn(&[u8]) -> Option<Foreign> = match format {
        None => Foreign::from_first_bytes,
        Some(Format::Taps) => Foreign::like_taps,
        Some(Format::Pcap | Format::Pcapng) => return Ok(()),
    };
    window.have(FIRST_BYTES)?;
    of(window.here())
        .map_or(Ok(()), |format| Err(CaptureError::Foreign { format, packing: window.packing() }))
}

/// The first bytes of a file, for an error.
fn in_words(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "it is empty".to_owned();
    }
    let shown: Vec<String> = bytes.iter().take(MAGIC_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("it begins with the bytes {}", shown.join(" "))
}
