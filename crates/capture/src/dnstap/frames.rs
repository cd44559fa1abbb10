//! Frame Streams: frames after their lengths, between control frames (the protocol of the library `fstrm`).
//!
//! A stream in one direction is START, data frames and STOP. What a sender wrote to a socket also has READY before and
//! perhaps the receiver's ACCEPT and FINISH. Streams may follow each other, and a stream may lack its STOP, as if its
//! writer was killed.

use std::io::{self, BufRead};

use crate::error::CaptureError;

/// The longest data frame that is read, bytes. It has room for two messages of DNS of 65,535 bytes each, and for what
/// servers add: identity, version, policy, and extra bytes without a limit. Longer frames are passed over.
pub(super) const FRAME_BYTES_MOST: u32 = 1 << 20;

/// The longest control frame, bytes, as `fstrm` limits it.
pub(super) const CONTROL_BYTES_MOST: u32 = 512;

/// The length of no frame, which announces a control frame.
const ESCAPE: u32 = 0;

/// Types of control frames.
const ACCEPT: u32 = 1;
const START: u32 = 2;
const STOP: u32 = 3;
const READY: u32 = 4;
const FINISH: u32 = 5;

/// The type of the only field of control frames.
const CONTENT_TYPE: u32 = 1;

const DNSTAP: &[u8] = b"protobuf:dnstap.Dnstap";

pub(super) struct Frames {
    /// The place of the next frame in the stream, in bytes from its beginning.
    offset: u64,
    current: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    Started,
    Stopped,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self { offset: 0, current: Vec::new(), state: State::Begun }
    }

    /// The data frame that was read last. It is empty, and so a bad one, if it was too long to be read.
    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }

    /// Reads the next data frame. Returns false at the end.
    pub(super) fn next(&mut self, source: &mut dyn BufRead) -> Result<bool, CaptureError> {
        loop {
            let offset = self.offset;
            let Some(bytes) = self.length(source, offset)? else {
                return match self.state {
                    State::Begun => Err(damaged(offset, "it ends before a START frame")),
                    State::Started | State::Stopped => Ok(false),
                };
            };
            if bytes == ESCAPE {
                self.control(source, offset)?;
                continue;
            }
            if self.state != State::Started {
                return Err(damaged(offset, "a data frame is not between START and STOP"));
            }
            if bytes > FRAME_BYTES_MOST {
                self.pass(source, offset, bytes)?;
            } else {
                self.frame(source, offset, bytes)?;
            }
            return Ok(true);
        }
    }

    /// Reads and obeys a control frame that begins at `offset` with its escape.
    fn control(&mut self, source: &mut dyn BufRead, offset: u64) -> Result<(), CaptureError> {
        let Some(bytes) = self.length(source, offset)? else { return Err(cut(offset)) };
        if bytes > CONTROL_BYTES_MOST {
            let what = format!("a control frame has {bytes} bytes, more than {CONTROL_BYTES_MOST}");
            return Err(CaptureError::Damaged { offset, what });
        }
        self.frame(source, offset, bytes)?;
        let mut rest = &self.current[..];
        let kind = word(&mut rest).ok_or_else(|| damaged(offset, "a control frame has no type"))?;
        match kind {
            START | READY | ACCEPT => {
                let is_dnstap = is_dnstap(rest)
                    .ok_or_else(|| damaged(offset, "the fields of a control frame contradict its length"))?;
                if !is_dnstap {
                    return Err(damaged(offset, "the frames are not of the type protobuf:dnstap.Dnstap"));
                }
                if kind == START {
                    self.state = State::Started;
                }
            }
            STOP => self.state = State::Stopped,
            FINISH => {}
            _ => return Err(damaged(offset, "the type of a control frame is unknown")),
        }
        Ok(())
    }

    /// Reads the length of the frame that begins at `offset`; `None` if the stream ends before it.
    fn length(&mut self, source: &mut dyn BufRead, offset: u64) -> Result<Option<u32>, CaptureError> {
        let mut length = [0; 4];
        match fill(source, &mut length)? {
            0 => Ok(None),
            4 => {
                self.offset += 4;
                Ok(Some(u32::from_be_bytes(length)))
            }
            _ => Err(cut(offset)),
        }
    }

    /// Passes over a frame that begins at `offset`.
    fn pass(&mut self, source: &mut dyn BufRead, offset: u64, bytes: u32) -> Result<(), CaptureError> {
        self.current.clear();
        let mut left = bytes as usize;
        while left > 0 {
            let here = match source.fill_buf() {
                Ok([]) => return Err(cut(offset)),
                Ok(here) => here.len().min(left),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            source.consume(here);
            left -= here;
        }
        self.offset += u64::from(bytes);
        Ok(())
    }

    /// Reads the bytes of the frame that begins at `offset`.
    fn frame(&mut self, source: &mut dyn BufRead, offset: u64, bytes: u32) -> Result<(), CaptureError> {
        self.current.resize(bytes as usize, 0);
        if fill(source, &mut self.current)? < self.current.len() {
            return Err(cut(offset));
        }
        self.offset += u64::from(bytes);
        Ok(())
    }
}

/// Whether the fields of a control frame allow the type of dnstap. They do if they name no type. `None` if they cannot
/// be read.
fn is_dnstap(fields: &[u8]) -> Option<bool> {
    let (mut rest, mut is_named) = (fields, false);
    while !rest.is_empty() {
        if word(&mut rest)? != CONTENT_TYPE {
            return None;
        }
        let bytes = word(&mut rest)? as usize;
        let (content_type, behind) = rest.split_at_checked(bytes)?;
        if content_type == DNSTAP {
            is_named = true;
        }
        rest = behind;
    }
    Some(is_named || fields.is_empty())
}

/// Takes a number of four bytes off the front.
fn word(bytes: &mut &[u8]) -> Option<u32> {
    let (word, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*word))
}

/// Reads until `into` is full or the stream ends. Returns the number of bytes.
fn fill(source: &mut dyn BufRead, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match source.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn damaged(offset: u64, what: &str) -> CaptureError {
    CaptureError::Damaged { offset, what: what.to_owned() }
}

fn cut(offset: u64) -> CaptureError {
    CaptureError::cut(offset, "it ends within the frame that begins there")
}
