//! Spans of what is asked of the database on the way of a request. What runs do themselves has spans that are made of their
//! records, so that there is none outside of a span.

use std::ops::{Deref, DerefMut};

use neuraxis_ports::SPAN_TARGET;
use tracing::Span;

/// Begins the span of an operation; none where nobody is in a span, or nobody exports them.
pub(crate) fn span(operation: &'static str) -> Span {
    if Span::current().is_none() {
        return Span::none();
    }
    tracing::debug_span!(
        target: SPAN_TARGET,
        "store",
        otel.name = %format_args!("store {operation}"),
        otel.kind = "client",
        db.operation.name = operation,
    )
}

/// Something that is used as long as a span lasts.
#[derive(Debug)]
pub(crate) struct Traced<T> {
    used: T,
    _span: Span,
}

impl<T> Traced<T> {
    pub(crate) const fn new(used: T, span: Span) -> Self {
        Self { used, _span: span }
    }
}

impl<T> Deref for Traced<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.used
    }
}

impl<T> DerefMut for Traced<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.used
    }
}
