//! The median of measurements.

/// Returns the median, or zero for an empty list.
pub(crate) fn median<T: Copy + Ord + Default>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
