//! The target `player_framing` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kqps_fuzz::player_framing(bytes));
