//! What the decoder makes of events, one by one.
