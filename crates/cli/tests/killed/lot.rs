//! Chance that can be repeated.

/// A stream of numbers drawn from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Lot(u64);

impl Lot {
    /// From `NETFERRY_SEED`, or a new one; says which, for the report of a failed test.
    pub(crate) fn of_this_run() -> Lot {
        let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
        let seed = match std::env::var("NETFERRY_SEED") {
            Ok(text) => text.parse().expect("NETFERRY_SEED is a number"),
            Err(_) => now(),
        };
        println!("NETFERRY_SEED={seed}");
        Lot(seed)
    }

    /// Another stream, for somebody who draws at his own pace.
    pub(crate) fn split(&mut self) -> Lot {
        Lot(self.draw())
    }

    /// One of `0..below`.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.draw() % below
    }

    /// The next number (splitmix64).
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
