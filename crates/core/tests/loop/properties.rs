//! Properties that hold in every case: with hostile models, tools, users and drivers, in any order, with crashes in
//! between.
//!
//! `plan` describes what may happen, `world` makes it happen to a run and keeps track of what a driver would, and
//! `invariants` checks the run after every step. The same seed is used unless `PROPTEST_RNG_SEED` names another;
//! `PROPTEST_CASES` sets the number of cases.

mod assembling;
mod invariants;
mod plan;
mod world;

use neuraxis_core::RunStatus;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use plan::Event;
use world::World;

/// More answers than any run of these plans can ask for.
const MOST_ANSWERS: usize = 2_000;

fn config() -> ProptestConfig {
    let mut config = ProptestConfig {
        failure_persistence: None,
        // A run that never ends is slow to shrink: a rough example in time is better than none.
        max_shrink_time: 10_000,
        ..ProptestConfig::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0x6e65_7572_6178_6973);
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_run_stays_valid_can_be_restored_and_ends(
        plan in plan::run(),
        events in prop::collection::vec(plan::event(), 0..40),
        answers in prop::collection::vec(plan::answer(), 1..8),
    ) {
        let mut world = World::start(&plan);
        for event in &events {
            world.meet(event);
        }
        for answer in answers.iter().cycle().take(MOST_ANSWERS) {
            if world.status().is_ended() {
                break;
            }
            world.meet(&Event::Answer(answer.without_retry()));
        }
        prop_assert!(world.status().is_ended(), "the run never ends: {:?}", world.kinds());
        world.check_end();
    }

    #[test]
    fn a_run_whose_effects_are_only_answered_ends_with_every_call_answered(
        plan in plan::run(),
        answers in prop::collection::vec(plan::answer(), 1..12),
    ) {
        let mut world = World::start(&plan);
        for answer in answers.iter().cycle().take(MOST_ANSWERS) {
            if world.status().is_ended() {
                break;
            }
            prop_assert!(world.has_open(), "nothing is asked for, and the run has not ended");
            world.meet(&Event::Answer(answer.without_retry()));
        }
        prop_assert!(matches!(world.status(), RunStatus::Done | RunStatus::Failed));
        world.check_end();
    }
}
