//! Which traces are exported. Decided once per run by its trace id, so that every process that drives the run decides
//! the same.

use neuraxis_core::TraceContext;

/// The number of random bits in a trace id according to W3C Trace Context, level 2; these bits of a UUIDv7 are random.
const RANDOM_BITS: u32 = 56;

/// The variable that names the sampler.
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";

/// The variable that holds the sampler's argument.
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// Which traces are exported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The share of traces starting here that are exported, from 0 (none) to 1 (all).
    pub ratio: f64,
    /// Whether a trace that a request brings along follows the decision of the process that started it.
    pub follows_parent: bool,
}

impl Default for Sampling {
    /// Exports all traces that start here; others follow the decision of the process that started them.
    fn default() -> Self {
        Self {
            ratio: 1.0,
            follows_parent: true,
        }
    }
}

/// The sampling variables are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is {value:?}: {expected}")]
pub struct SamplingError {
    variable: &'static str,
    value: String,
    expected: &'static str,
}

impl Sampling {
    /// Reads OpenTelemetry's sampling variables; `None` if they are not set.
    ///
    /// # Errors
    ///
    /// A [`SamplingError`] that names the variable and the values it accepts.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SamplingError> {
        let said = |name| variable(name).filter(|value| !value.trim().is_empty());
        let Some(sampler) = said(SAMPLER) else {
            return Ok(None);
        };
        let (kind, follows_parent) = match sampler.trim().strip_prefix("parentbased_") {
            Some(kind) => (kind, true),
            None => (sampler.trim(), false),
        };
        let ratio = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => match said(SAMPLER_ARG) {
                None => 1.0,
                Some(value) => share(&value).ok_or(SamplingError {
                    variable: SAMPLER_ARG,
                    value,
                    expected: "expected a number from 0 to 1",
                })?,
            },
            _ => {
                return Err(SamplingError {
                    variable: SAMPLER,
                    value: sampler,
                    expected: "expected always_on, always_off or traceidratio, optionally prefixed with parentbased_",
                });
            }
        };
        Ok(Some(Self {
            ratio,
            follows_parent,
        }))
    }

    /// Returns whether a trace is exported.
    #[must_use]
    pub fn samples(self, trace_id: u128, parent: Option<&TraceContext>) -> bool {
        match parent {
            Some(parent) if self.follows_parent => parent.sampled,
            // A ratio of 1 exports all traces, even if the fraction is rounded to 1.
            _ => self.ratio >= 1.0 || fraction(trace_id) < self.ratio,
        }
    }
}

fn share(text: &str) -> Option<f64> {
    let ratio: f64 = text.trim().parse().ok()?;
    (0.0..=1.0).contains(&ratio).then_some(ratio)
}

/// Returns the position of a trace id within the range of all ids, from 0 to 1.
fn fraction(trace_id: u128) -> f64 {
    let all = 1_u64 << RANDOM_BITS;
    let random = (trace_id & u128::from(all - 1)) as u64;
    random as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sampler: &str, arg: &str) -> Result<Option<Sampling>, SamplingError> {
        Sampling::from_variables(|name| match name {
            SAMPLER => Some(sampler.to_owned()),
            SAMPLER_ARG => Some(arg.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn the_opentelemetry_variables_set_the_sampling() {
        let sampling = |ratio, follows_parent| {
            Ok(Some(Sampling {
                ratio,
                follows_parent,
            }))
        };
        assert_eq!(of("", ""), Ok(None));
        assert_eq!(of("always_on", ""), sampling(1.0, false));
        assert_eq!(of("always_off", ""), sampling(0.0, false));
        assert_eq!(of("traceidratio", "0.25"), sampling(0.25, false));
        assert_eq!(of("parentbased_traceidratio", ""), sampling(1.0, true));
        assert_eq!(of("parentbased_always_off", ""), sampling(0.0, true));
        for (sampler, arg) in [
            ("jaeger_remote", ""),
            ("traceidratio", "2"),
            ("traceidratio", "x"),
        ] {
            let error = of(sampler, arg).unwrap_err().to_string();
            assert!(error.starts_with("OTEL_TRACES_SAMPLER"), "{error}");
        }
    }

    #[test]
    fn the_sampled_share_is_the_configured_one_despite_time_ordered_ids() {
        let sampling = Sampling {
            ratio: 0.25,
            follows_parent: true,
        };
        // Like a UUIDv7: the time, the version, the variant, and 62 random bits.
        let id = |number: u64| {
            let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2;
            (0x0190_0000_0000_7000_u128 << 64) | u128::from(random | 1 << 63)
        };
        let sampled = (0..10_000).filter(|number| sampling.samples(id(*number), None));
        let share = sampled.count() as f64 / 10_000.0;
        assert!((0.22..0.28).contains(&share), "{share}");
    }

    #[test]
    fn a_client_supplied_trace_follows_its_sampling_unless_disabled() {
        let mut parent = TraceContext {
            trace_id: u128::MAX,
            span_id: 1,
            sampled: true,
            state: None,
        };
        let none = Sampling {
            ratio: 0.0,
            follows_parent: true,
        };
        assert!(none.samples(parent.trace_id, Some(&parent)));
        parent.sampled = false;
        assert!(!Sampling::default().samples(parent.trace_id, Some(&parent)));
        let alone = Sampling {
            follows_parent: false,
            ..Sampling::default()
        };
        assert!(alone.samples(parent.trace_id, Some(&parent)));
    }
}
