//! Randomness that can be had again.

/// The seed of a test's random numbers: what `POSTHASTE_TEST_SEED` says, else another one each time. A test that fails
/// shows what it printed, and this prints the seed.
pub fn seed() -> u64 {
    let given = std::env::var("POSTHASTE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("POSTHASTE_TEST_SEED={seed}");
    seed
}
