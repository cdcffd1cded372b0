//! What the encoder writes.
