//! What the sections of the report hold, and what it means. Plain data: nothing here touches the machine.

mod cpu;
mod disks;
mod load;
mod memory;
mod processes;
mod temperatures;
mod uptime;

pub(super) use cpu::Cpu;
pub use disks::DISK_WARNING_PERCENT;
pub(super) use disks::{Disk, Disks};
pub use load::LOAD_WARNING_PER_CORE;
pub(super) use load::Load;
pub use memory::MEMORY_WARNING_PERCENT;
pub(super) use memory::Memory;
pub(super) use processes::{Process, Processes};
pub(super) use temperatures::{Sensor, Temperatures};
pub use temperatures::{TEMPERATURE_WARNING_CELSIUS, TEMPERATURE_WARNING_MARGIN_CELSIUS};
pub(super) use uptime::Uptime;

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
