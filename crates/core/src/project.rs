//! Names that the machine still uses; what they name stands in [`log`](crate::log).

pub(crate) use crate::log::{assign_ids, chosen_call};
