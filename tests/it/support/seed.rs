//! Randomness that can be had again.

/// The seed of a test's random numbers: what `POSTHASTE_TEST_SEED` says, else another one each time. A test that fails
/// shows what it printed, and this prints the seed.
pub fn seed() -> u64 {
    let given = std::env::var("POSTHASTE_TEST_SEED").ok();
    let seed = given.map_or_else(rand::random, |text| text.parse().expect("POSTHASTE_TEST_SEED is a number"));
    println!("POSTHASTE_TEST_SEED={seed}");
    seed
}
