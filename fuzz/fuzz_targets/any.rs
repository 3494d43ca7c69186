//! One target of `posthaste::fuzz`, by its name in `POSTHASTE_FUZZ_TARGET`. Everything but this line is built by `tests/run`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| posthaste::fuzz::chosen(bytes));
