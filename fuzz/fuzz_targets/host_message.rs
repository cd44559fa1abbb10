//! The target `host_message` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kqps_fuzz::host_message(bytes));
