//! What every implementation of a port must guarantee, with one test suite per port.
//!
//! A suite is a module of rules: async functions named after the rule, which panic if it is broken. A macro of this
//! crate mounts a whole suite in an adapter's `tests` folder, with one test per rule. The adapter needs `tokio` as a
//! dev-dependency:
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
//! The expression is evaluated once per test, inside an async function, so setup code may use `await`. Not for what
//! only one adapter guarantees, such as a wire format: that is tested in the adapter.

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

/// How long the suites wait before an operation is considered hung.
const PROMPTLY: Duration = Duration::from_secs(10);

/// Waits for an operation that must not hang.
#[expect(clippy::expect_used, reason = "a suite reports failures by panicking")]
async fn promptly<T>(complaint: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PROMPTLY, future)
        .await
        .expect(complaint)
}

/// Mounts rules as tests. The macro of each suite uses it.
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
