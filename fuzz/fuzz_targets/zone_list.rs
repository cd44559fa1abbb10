//! The target `zone_list` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kqps_fuzz::zone_list(bytes));
