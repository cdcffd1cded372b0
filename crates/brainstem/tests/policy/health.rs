//! Models that fail, and which role serves instead.

use std::time::Duration;

use neuraxis_brainstem::{CallOutcome, Health, Policy, Request, Serving};
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{Channel, Decision, JsonText, LlmErrorKind, Mode, Role};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

struct World {
    policy: Policy,
    decision: Decision,
    health: Health,
    seconds: i64,
}

impl World {
    fn new() -> Self {
        let policy = Policy::built_in();
        let request = Request::new(
            &Mode::MODERATE,
            &Channel::CHAT,
            "Compare and explain TCP and UDP.",
        );
        let decision = policy.evaluate_request(&request).unwrap();
        Self {
            policy,
            decision,
            health: Health::default(),
            seconds: 0,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.seconds).unwrap()
    }

    fn observe(&mut self, outcome: CallOutcome) {
        self.observe_after(Duration::ZERO, outcome);
    }

    fn observe_after(&mut self, took: Duration, outcome: CallOutcome) {
        let (now, role) = (self.now(), &Role::REASONING);
        self.policy
            .observe(&mut self.health, role, outcome, took, now);
    }

    fn serving(&mut self) -> Serving {
        let now = self.now();
        self.policy
            .serving(&mut self.health, &self.decision, &Role::REASONING, now)
    }

    fn degraded(&self) -> usize {
        self.health.degraded().count()
    }
}

#[test]
fn the_remaining_downgrade_time_is_reported_in_whole_seconds() {
    let mut world = World::new();
    let now = Timestamp::from_nanosecond(1_532_086_404).unwrap();
    for _ in 0..3 {
        let outcome = CallOutcome::TimedOut;
        let (role, took) = (&Role::REASONING, Duration::ZERO);
        world
            .policy
            .observe(&mut world.health, role, outcome, took, now);
    }
    let told = world.serving().reason.unwrap();
    assert!(told.ends_with(" in 31 s."), "{told}");
}

#[test]
fn consecutive_failures_downgrade_a_role_until_a_probe_succeeds() {
    let mut world = World::new();
    world.observe(CallOutcome::TimedOut);
    world.observe(CallOutcome::TimedOut);
    assert_eq!(
        (world.degraded(), world.serving().role),
        (0, Role::REASONING)
    );
    world.observe(CallOutcome::TimedOut);
    let degraded: Vec<_> = world.health.degraded().collect();
    assert_eq!(degraded[0].role, Role::REASONING);
    assert_eq!(
        degraded[0].reason,
        "its model did not answer in time 3 times"
    );
    assert_eq!(degraded[0].until, Timestamp::from_second(30).unwrap());

    let serving = world.serving();
    assert_eq!((serving.role, serving.is_probe), (Role::ROUTER, false));
    assert_eq!(
        serving.reason.unwrap(),
        "Role router serves, because the model of role reasoning failed 3 times; that model is tried again in 30 s."
    );

    world.seconds = 30;
    let probe = world.serving();
    assert_eq!((probe.role, probe.is_probe), (Role::REASONING, true));
    assert_eq!(world.serving().role, Role::ROUTER, "one probe at a time");
    world.observe(CallOutcome::Failed);
    assert_eq!(
        world.health.degraded().next().unwrap().until,
        Timestamp::from_second(30 + 60).unwrap(),
        "twice as long"
    );

    world.seconds = 90;
    assert!(world.serving().is_probe);
    world.observe(CallOutcome::Served);
    assert_eq!(world.degraded(), 0);
    assert_eq!(
        world.serving(),
        Serving {
            role: Role::REASONING,
            is_probe: false,
            reason: None
        }
    );
}

#[test]
fn distant_failures_and_late_outcomes_of_old_calls_do_not_count() {
    let mut world = World::new();
    for minute in 0..10 {
        world.seconds = minute * 121;
        world.observe(CallOutcome::Failed);
    }
    assert_eq!(world.degraded(), 0);
    for _ in 0..3 {
        world.observe(CallOutcome::Failed);
    }
    let until = world.health.degraded().next().unwrap().until;
    world.observe(CallOutcome::Failed);
    assert_eq!(world.health.degraded().next().unwrap().until, until);
}

#[test]
fn consecutive_failures_of_slow_calls_still_count_together() {
    let mut world = World::new();
    for _ in 0..3 {
        assert_eq!(world.degraded(), 0);
        world.seconds += 181;
        world.observe_after(Duration::from_secs(180), CallOutcome::TimedOut);
    }
    assert_eq!(world.degraded(), 1);
}

#[test]
fn slow_calls_that_fail_together_do_not_count_with_a_much_later_failure() {
    let mut world = World::new();
    for _ in 0..2 {
        world.observe_after(Duration::from_secs(180), CallOutcome::TimedOut);
    }
    world.seconds += 121;
    world.observe(CallOutcome::Failed);
    assert_eq!(world.degraded(), 0);
}

#[test]
fn the_requested_role_serves_when_all_roles_are_degraded() {
    let mut world = World::new();
    let now = world.now();
    for role in [Role::ROUTER, Role::CODING, Role::REASONING] {
        for _ in 0..3 {
            let (failed, took) = (CallOutcome::Failed, Duration::ZERO);
            world
                .policy
                .observe(&mut world.health, &role, failed, took, now);
        }
    }
    let serving = world.serving();
    assert_eq!((serving.role, serving.is_probe), (Role::REASONING, false));
    assert!(
        serving
            .reason
            .unwrap()
            .contains("because no other role may")
    );
}

#[test]
fn a_probe_without_an_outcome_is_repeated_after_a_timeout() {
    let mut world = World::new();
    for _ in 0..3 {
        world.observe(CallOutcome::Failed);
    }
    world.seconds = 31;
    assert!(world.serving().is_probe);
    world.seconds = 31 + 599;
    assert!(!world.serving().is_probe);
    world.seconds = 31 + 600;
    assert!(world.serving().is_probe);
}

#[test]
fn an_abandoned_probe_is_repeated_immediately_and_a_failed_one_is_not() {
    let mut world = World::new();
    for _ in 0..3 {
        world.observe(CallOutcome::Failed);
    }
    world.seconds = 31;
    assert!(world.serving().is_probe);
    world.health.abandon_probe(&Role::REASONING);
    assert!(world.serving().is_probe);
    world.observe(CallOutcome::Failed);
    world.health.abandon_probe(&Role::REASONING);
    assert!(!world.serving().is_probe);
    world.health.abandon_probe(&Role::ROUTER);
    assert_eq!(world.degraded(), 1);
}

#[test]
fn only_failures_of_the_server_count_against_it() {
    for (kind, expected) in [
        (LlmErrorKind::Timeout, CallOutcome::TimedOut),
        (LlmErrorKind::Connection, CallOutcome::Failed),
        (LlmErrorKind::server(Some(500)), CallOutcome::Failed),
        (LlmErrorKind::BadRequest, CallOutcome::Served),
        (LlmErrorKind::Unauthorized, CallOutcome::Served),
        (LlmErrorKind::Cancelled, CallOutcome::Served),
    ] {
        assert_eq!(CallOutcome::of(&kind), expected, "{kind:?}");
    }
}

#[test]
fn health_is_read_back_as_it_was_written() {
    let mut world = World::new();
    for _ in 0..3 {
        world.observe(CallOutcome::Failed);
    }
    let text = JsonText::encode(&world.health).unwrap();
    assert_eq!(text.decode::<Health>().unwrap(), world.health);
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_serving_role_is_always_allowed_and_a_reply_restores_health(
        events in prop::collection::vec((0..3_u8, 0..200_i64), 0..60),
    ) {
        let mut world = World::new();
        for (event, wait) in events {
            world.seconds += wait;
            match event {
                0 => world.observe(CallOutcome::TimedOut),
                1 => world.observe(CallOutcome::Failed),
                _ => {
                    let serving = world.serving();
                    prop_assert!(world.decision.allowed_roles.contains(&serving.role));
                }
            }
            for degraded in world.health.degraded() {
                let left = degraded.until.duration_since(world.now());
                prop_assert!(left.unsigned_abs() <= Duration::from_secs(600) || left.is_negative());
            }
        }
        world.observe(CallOutcome::Served);
        prop_assert_eq!(world.degraded(), 0);
    }
}
