//! The waiting listeners of one feed, and what they wait for. Their wakers stay in place, so that a piece of text costs
//! no more than a check of each.

use std::task::Waker;

use smallvec::SmallVec;

/// What a listener waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// Nothing: it was woken, and has not read yet.
    Nothing,
    /// A record, or the end.
    Records,
    /// Text as well.
    Anything,
}

/// A listener, from its first read on.
#[derive(Debug)]
struct Waiting {
    awaited: Awaited,
    waker: Waker,
}

/// The listeners of one feed, each by its place.
#[derive(Debug, Default)]
pub(super) struct Waitings(Vec<Option<Waiting>>);

/// Wakers that were taken out under the lock of a feed, to be woken or dropped once it is released: either may run the
/// listener's code, which takes the lock itself.
#[derive(Debug)]
#[must_use = "listeners that are not woken wait forever"]
pub(super) struct Wakers(SmallVec<[Waker; 1]>);

impl Wakers {
    /// Wakes all of them.
    pub(super) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

impl Waitings {
    /// Notes what a listener waits for, and gives it a place if it has none. Returns its previous waker, if that was a
    /// different one.
    pub(super) fn wait(
        &mut self,
        place: &mut Option<usize>,
        awaited: Awaited,
        waker: &Waker,
    ) -> Option<Waker> {
        let place = *place.get_or_insert_with(|| self.free_place());
        let waiting = self.0.get_mut(place)?;
        if let Some(waiting) = waiting
            && waiting.waker.will_wake(waker)
        {
            waiting.awaited = awaited;
            return None;
        }
        let waker = waker.clone();
        let before = waiting.replace(Waiting { awaited, waker });
        before.map(|before| before.waker)
    }

    /// Returns whether a listener waits for text with this same waker, and nothing has come since it last read.
    pub(super) fn still_waits(&self, place: Option<usize>, waker: &Waker) -> bool {
        let waiting = place.and_then(|place| self.0.get(place)?.as_ref());
        waiting.is_some_and(|waiting| {
            waiting.awaited == Awaited::Anything && waiting.waker.will_wake(waker)
        })
    }

    fn free_place(&mut self) -> usize {
        let free = self.0.iter().position(Option::is_none);
        free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        })
    }

    /// Forgets a listener, and returns its waker.
    pub(super) fn leave(&mut self, place: usize) -> Option<Waker> {
        let left = self.0.get_mut(place)?.take();
        left.map(|left| left.waker)
    }

    /// Returns the wakers of the listeners that wait for text.
    pub(super) fn for_text(&mut self) -> Wakers {
        self.of(|awaited| awaited == Awaited::Anything)
    }

    /// Returns the wakers of all waiting listeners.
    pub(super) fn all(&mut self) -> Wakers {
        self.of(|awaited| awaited != Awaited::Nothing)
    }

    fn of(&mut self, is_meant: impl Fn(Awaited) -> bool) -> Wakers {
        let waiting = self.0.iter_mut().flatten();
        let meant = waiting.filter(|waiting| is_meant(waiting.awaited));
        let wakers = meant.map(|waiting| {
            waiting.awaited = Awaited::Nothing;
            waiting.waker.clone()
        });
        Wakers(wakers.collect())
    }
}
