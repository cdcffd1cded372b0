//! The contents of the report's sections, and their interpretation. Plain data: nothing here accesses the machine.

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

/// Rounds to one decimal place, so that a percentage or a temperature has no meaningless digits.
fn one_digit(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Returns the share of a part in percent, to one decimal place; 0 if the whole is 0.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        one_digit(part as f64 / whole as f64 * 100.0)
    }
}
