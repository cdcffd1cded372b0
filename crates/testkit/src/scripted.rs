//! What the fakes share: scripted answers, and a lock that remains usable after a panic.

use std::collections::VecDeque;
use std::future;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The scripted answers of a fake, in order.
#[derive(Debug)]
pub(crate) struct Answers<T>(Mutex<VecDeque<Answer<T>>>);

#[derive(Debug)]
enum Answer<T> {
    Says(T),
    Panic,
    Silence,
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Answers<T> {
    pub(crate) fn says(&self, answer: T) {
        lock(&self.0).push_back(Answer::Says(answer));
    }

    pub(crate) fn panic(&self) {
        lock(&self.0).push_back(Answer::Panic);
    }

    pub(crate) fn silence(&self) {
        lock(&self.0).push_back(Answer::Silence);
    }

    #[expect(clippy::panic, reason = "the test asks for a fake that panics")]
    pub(crate) async fn next(&self, otherwise: T) -> T {
        let answer = lock(&self.0).pop_front();
        match answer {
            Some(Answer::Says(answer)) => answer,
            Some(Answer::Panic) => panic!("as the test wants it"),
            Some(Answer::Silence) => future::pending().await,
            None => otherwise,
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
