//! One target of `posthaste::fuzz`, by its name in `POSTHASTE_FUZZ_TARGET`.

#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let wanted = std::env::var("POSTHASTE_FUZZ_TARGET").unwrap_or_default();
        let names = posthaste::fuzz::TARGETS.map(|(name, _)| name);
        let found = posthaste::fuzz::TARGETS.into_iter().find(|(name, _)| *name == wanted);
        found.unwrap_or_else(|| panic!("POSTHASTE_FUZZ_TARGET is one of {}", names.join(", "))).1
    });
    target(bytes);
});
