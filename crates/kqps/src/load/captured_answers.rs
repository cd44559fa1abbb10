//! The records of captured answers, for examples of answers that differ from them. A dataset has only their digests, so the
//! capture is read again.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use kqps_capture::{Event, Kind, Reader, Settings};
use kqps_dataset::Digest;
use kqps_message::presentation::answer_text;
use kqps_message::{Header, edns};
use kqps_observation::{Difference, Example};

/// Puts the records of captured answers into the examples that have the digest of one. A capture that cannot be read
/// again, such as a pipe, leaves the examples as they are: with the digest.
pub(super) fn fill_in(differences: &mut [Difference], path: &Path, settings: &Settings) {
    let mut wanted: BTreeMap<String, Vec<&mut Example>> = BTreeMap::new();
    for example in differences.iter_mut().flat_map(|difference| &mut difference.examples) {
        if let Some(digest) = example.digest.clone() {
            wanted.entry(digest).or_default().push(example);
        }
    }
    if wanted.is_empty() {
        return;
    }
    let source = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|facts| facts.is_file()));
    let reader = source.and_then(|source| Reader::new(source, settings).ok());
    if let Some(mut reader) = reader {
        let mut scratch = Vec::new();
        while !wanted.is_empty()
            && let Ok(Some(event)) = reader.next()
        {
            let Event::Message(message) = event else { continue };
            if message.kind != Kind::Response {
                continue;
            }
            let Some(rcode) =
                Header::from_bytes(message.bytes).map(|header| edns::rcode(header, message.bytes))
            else {
                continue;
            };
            let digest = Digest::of_reply(message.bytes, rcode, &mut scratch);
            let Some((digest, records)) = digest.zip(answer_text(message.bytes)) else { continue };
            for example in wanted.remove(&format!("{:016x}", digest.number())).into_iter().flatten() {
                example.expected = format!("{}, {records}", example.expected);
            }
        }
    }
    for (digest, examples) in wanted {
        for example in examples {
            example.expected = format!("{}, records with digest {digest}", example.expected);
        }
    }
}
