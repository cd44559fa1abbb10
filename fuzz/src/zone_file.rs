//! The target for master files: any bytes, cut into any pieces.

use std::io;
use std::path::Path;

use kqps_message::name;
use kqps_zone::master::{self, ERRORS_MAX, Reading};

/// Takes any bytes as a master file. The first byte selects how they are cut into pieces, which must change
/// nothing. The file can include the bytes after its last byte 0xff.
pub fn zone_file(bytes: &[u8]) {
    let Some((&choice, content)) = bytes.split_first() else { return };
    let cut = content.iter().rposition(|&byte| byte == 0xff).unwrap_or(content.len());
    let (text, included) = (&content[..cut], content.get(cut + 1..).unwrap_or_default());
    let open = |path: &Path| {
        if path.ends_with("none") {
            Err(io::Error::from(io::ErrorKind::NotFound))
        } else {
            Ok(included.to_vec())
        }
    };
    let whole = master::Options {
        threads: 1,
        piece_bytes: usize::MAX,
        generated_max: 20,
        depth_max: 2,
        open: &open,
        advance: &|_| {},
    };
    let pieces = master::Options {
        threads: 1 + usize::from(choice & 1),
        piece_bytes: usize::from(choice >> 1) * 4,
        ..whole
    };
    let read = |options| master::read(text, Path::new("zone"), b"\x07example\0", options);
    let (whole, pieces) = (read(&whole), read(&pieces));
    is_sound(&whole);
    assert_eq!(whole.errors, pieces.errors);
    assert_eq!(whole.more_errors, pieces.more_errors);
    if !whole.more_errors {
        assert_eq!(whole.warnings, pieces.warnings);
        let records = |reading: &Reading| {
            let records = reading.batches.iter().flat_map(|batch| batch.records());
            records.map(|(_, record)| format!("{record:?}")).collect::<Vec<_>>()
        };
        assert_eq!(records(&whole), records(&pieces));
    }
}

/// Every record fits into a message, and every error can be printed.
fn is_sound(reading: &Reading) {
    for (_, record) in reading.batches.iter().flat_map(|batch| batch.records()) {
        assert_eq!(name::end(record.owner, 0), Some(record.owner.len()));
        assert!(i32::try_from(record.ttl_s).is_ok() && record.line > 0);
    }
    assert!(reading.errors.len() <= ERRORS_MAX && reading.warnings.len() <= ERRORS_MAX);
    for remark in reading.errors.iter().chain(&reading.warnings) {
        let said = remark.to_string();
        assert!(remark.line > 0 && remark.column > 0 && !said.contains(char::is_control), "{said}");
    }
}
