//! Random numbers that a seed reproduces.

use std::sync::Mutex;

/// Numbers by SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug)]
pub(crate) struct Dice(Mutex<u64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// Returns a number below the given one.
    pub(crate) fn below(&self, most: u32) -> u32 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        u32::try_from(mixed % u64::from(most.max(1))).unwrap()
    }

    /// Returns `true` with this chance in percent.
    pub(crate) fn percent(&self, chance: u32) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn one_of<T: Copy>(&self, choices: &[T]) -> T {
        let most = u32::try_from(choices.len()).unwrap();
        choices[usize::try_from(self.below(most)).unwrap()]
    }
}
