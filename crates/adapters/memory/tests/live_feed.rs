//! The feed follows the rules of its port.

use neuraxis_memory::MemoryLiveFeed;

fn two() -> [MemoryLiveFeed; 2] {
    let one = MemoryLiveFeed::new();
    let other = one.sibling();
    [one, other]
}

neuraxis_testkit::live_feed_suite!(two());
