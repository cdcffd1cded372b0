//! The outcomes of jobs, each at the place of its job.

use neuraxis_ports::StoreError;
use sqlx::Error;

use super::operation::Done;
use crate::error::Failure;

pub(super) type Outcomes = Vec<Result<Done, StoreError>>;

/// Returns the outcomes of jobs about which nothing is known yet: unless each gets its own, none is acknowledged.
pub(super) fn no_outcomes(jobs: usize) -> Outcomes {
    (0..jobs).map(|_| Err(lost())).collect()
}

/// Returns the error of a job that got no outcome of its own, which only a defect can cause. It may be tried again: what
/// was stored anyway is recognized.
pub(super) fn lost() -> StoreError {
    StoreError::Unavailable("a defect: the writer lost the outcome of a job".to_owned())
}

/// Puts the outcomes of jobs at the jobs' places.
pub(super) fn set_outcomes(all: &mut Outcomes, places: Vec<usize>, outcomes: Outcomes) {
    for (place, outcome) in places.into_iter().zip(outcomes) {
        if let Some(it) = all.get_mut(place) {
            *it = outcome;
        }
    }
}

/// Turns a refusal by the store's rules into an outcome; an error of the database ends the transaction.
pub(super) fn outcome(result: Result<Done, Failure>) -> Result<Result<Done, StoreError>, Error> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(Failure::Refused(error)) => Ok(Err(error)),
        Err(Failure::Database(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_an_outcome_of_its_own_is_not_acknowledged() {
        let mut outcomes = no_outcomes(3);
        set_outcomes(&mut outcomes, vec![2, 0], vec![Ok(Done::Counted(7))]);
        let [first, second, third] = outcomes.as_slice() else {
            panic!("{outcomes:?}");
        };
        assert!(matches!(third, Ok(Done::Counted(7))), "{third:?}");
        for lost in [first, second] {
            assert!(
                matches!(lost, Err(error) if error.is_retryable()),
                "{lost:?}"
            );
        }
    }
}
