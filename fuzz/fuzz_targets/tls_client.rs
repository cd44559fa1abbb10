//! The target `tls_client` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kqps_fuzz::tls_client(bytes));
