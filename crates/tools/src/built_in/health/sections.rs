//! What the sections of the report hold, and what it means. Plain data: nothing here touches the machine.

mod cpu;
mod disks;
mod load;
mod memory;
mod processes;
mod temperatures;

pub(super) use cpu::Cpu;
pub(super) use disks::{Disk, Disks};
pub(super) use load::{Load, Uptime};
pub(super) use memory::Memory;
pub(super) use processes::{Process, Processes};
pub(super) use temperatures::{Sensor, Temperatures};

/// Rounds to one digit, so that a share or a temperature does not come with digits that mean nothing.
fn one_digit(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Returns how much of a whole a part is, in percent to one digit; of nothing it is 0.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        one_digit(part as f64 / whole as f64 * 100.0)
    }
}
