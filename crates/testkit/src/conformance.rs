//! What every implementation of a port must keep to, as one suite a port.
//!
//! A suite is a module of rules, async functions named after what they demand, which panic where it is not so. A macro
//! of the crate mounts a whole suite, one test a rule, in an adapter's `tests` folder; the adapter needs `tokio` among
//! its dev-dependencies:
//!
//! ```
//! # use neuraxis_testkit::VirtualClock;
//! mod the_virtual_clock_is_a_clock {
//!     use neuraxis_testkit::VirtualClock;
//!
//!     neuraxis_testkit::clock_suite!(VirtualClock::new());
//! }
//! ```
//!
//! The expression is evaluated once a test, inside an async function, so that setting up may await.
//! Not for what only one adapter promises, such as a wire format: that is tested beside it.

pub mod approver;
pub mod clock;
pub mod ids;
pub mod live_feed;
pub mod llm_client;
pub mod session_store;
pub mod tool;
pub mod trace_sink;
pub mod web_search;

use std::time::Duration;

/// How long the suites wait before they call something hung.
const PROMPTLY: Duration = Duration::from_secs(10);

/// Waits for what must not hang.
#[expect(clippy::expect_used, reason = "a suite tells what is wrong by a panic")]
async fn promptly<T>(complaint: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PROMPTLY, future)
        .await
        .expect(complaint)
}

/// Mounts rules as tests. Used by the macro of each suite.
#[doc(hidden)]
#[macro_export]
macro_rules! mount_rules {
    (@ $suite:tt $mark:tt $subject:expr, [$($rule:ident)*]) => {
        $($crate::mount_rules! { @one $suite $mark $subject, $rule })*
    };
    (@one $suite:tt ($($why:literal)?) $subject:expr, $rule:ident) => {
        $(#[ignore = $why])?
        #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $rule() {
            $crate::mount_rules! { @call $suite $rule $subject }
        }
    };
    (@call ($($suite:tt)*) $rule:ident $subject:expr) => {
        $($suite)*::$rule($subject).await;
    };
    ($suite:ident, $subject:expr, [$($rule:ident)*]) => {
        $crate::mount_rules! { @ ($crate::conformance::$suite) () $subject, [$($rule)*] }
    };
    ($suite:ident::$part:ident, $subject:expr, [$($rule:ident)*]) => {
        $crate::mount_rules! { @ ($crate::conformance::$suite::$part) () $subject, [$($rule)*] }
    };
    ($mark:tt $suite:ident::$part:ident, $subject:expr, [$($rule:ident)*]) => {
        $crate::mount_rules! { @ ($crate::conformance::$suite::$part) $mark $subject, [$($rule)*] }
    };
}
