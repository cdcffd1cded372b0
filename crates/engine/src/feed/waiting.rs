//! The listeners of one feed that wait, and what for. Their wakers stay in place, so that a piece of text costs no more than a
//! look at each.

use std::task::Waker;

/// What a listener waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// Nothing: it was woken, and has not looked yet.
    Nothing,
    /// A record, or the end.
    Records,
    /// Text, too.
    Anything,
}

/// A listener, from its first look on.
#[derive(Debug)]
struct Waiting {
    awaited: Awaited,
    waker: Waker,
}

/// The listeners of one feed, each by its place.
#[derive(Debug, Default)]
pub(super) struct Waitings(Vec<Option<Waiting>>);

impl Waitings {
    /// Notes what a listener waits for, and returns its place; the first time it has none.
    pub(super) fn wait(&mut self, place: Option<usize>, awaited: Awaited, waker: &Waker) -> usize {
        let place = place.unwrap_or_else(|| self.free_place());
        match self.0.get_mut(place) {
            Some(Some(waiting)) => {
                waiting.awaited = awaited;
                waiting.waker.clone_from(waker);
            }
            Some(free) => {
                let waker = waker.clone();
                *free = Some(Waiting { awaited, waker });
            }
            None => {}
        }
        place
    }

    fn free_place(&mut self) -> usize {
        let free = self.0.iter().position(Option::is_none);
        free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        })
    }

    /// Forgets a listener.
    pub(super) fn leave(&mut self, place: usize) {
        if let Some(left) = self.0.get_mut(place) {
            *left = None;
        }
    }

    /// Wakes those who wait for text.
    pub(super) fn wake_for_text(&mut self) {
        self.wake(|awaited| awaited == Awaited::Anything);
    }

    /// Wakes all who wait.
    pub(super) fn wake_all(&mut self) {
        self.wake(|awaited| awaited != Awaited::Nothing);
    }

    fn wake(&mut self, is_meant: impl Fn(Awaited) -> bool) {
        for waiting in self.0.iter_mut().flatten() {
            if is_meant(waiting.awaited) {
                waiting.awaited = Awaited::Nothing;
                waiting.waker.wake_by_ref();
            }
        }
    }
}
