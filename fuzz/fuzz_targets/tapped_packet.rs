//! The target `tapped_packet` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kqps_fuzz::tapped_packet(bytes));
