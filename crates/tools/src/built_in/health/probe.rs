//! Measures the machine with `sysinfo`.

use sysinfo::{
    Components, CpuRefreshKind, Disks as MountedDisks, MINIMUM_CPU_UPDATE_INTERVAL,
    MemoryRefreshKind, ProcessRefreshKind, ProcessesToUpdate, System,
};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::sections::{
    Cpu, Disk, Disks, Load, Memory, Process, Processes, Sensor, Temperatures, Uptime,
};
use super::{SECTION_TIMEOUT, Section};

/// Runs a reading where it may block, within a time limit. A reading that takes longer is abandoned.
pub(super) async fn blocking<Read: Send + 'static>(
    read: impl FnOnce() -> Result<Read, String> + Send + 'static,
) -> Result<Read, String> {
    match timeout(SECTION_TIMEOUT, spawn_blocking(read)).await {
        Ok(Ok(result)) => result,
        Ok(Err(failed)) => Err(format!("reading failed: {failed}")),
        Err(_) => Err(format!(
            "reading took longer than {} seconds",
            SECTION_TIMEOUT.as_secs()
        )),
    }
}

/// Measurements that require two looks at the machine, a moment apart: the load of cores and processes.
#[derive(Debug)]
pub(super) struct Sample(Result<System, String>);

impl Sample {
    /// Takes the sample for those of the sections that need it, unless it has already been taken.
    pub(super) async fn once<'a>(sample: &'a mut Option<Self>, sections: &[Section]) -> &'a Self {
        let taken = match sample.take() {
            Some(taken) => taken,
            None => Self(sample_system(sections.contains(&Section::Processes)).await),
        };
        sample.insert(taken)
    }
}

impl Sample {
    pub(super) fn cpu(&self) -> Result<Cpu, String> {
        let system = self.0.as_ref().map_err(Clone::clone)?;
        let per_core: Vec<_> = system.cpus().iter().map(sysinfo::Cpu::usage).collect();
        let model = system
            .cpus()
            .first()
            .map(sysinfo::Cpu::brand)
            .unwrap_or_default();
        if per_core.is_empty() {
            return Err("this system does not report its processors".to_owned());
        }
        Ok(Cpu::new(
            system.global_cpu_usage(),
            &per_core,
            model,
            System::physical_core_count().ok(),
        ))
    }

    pub(super) fn processes(&self) -> Result<Processes, String> {
        let system = self.0.as_ref().map_err(Clone::clone)?;
        // On Linux, the threads of a process may be listed separately.
        let whole = system
            .processes()
            .values()
            .filter(|process| process.thread_kind().is_none());
        let processes = whole.map(|process| {
            let name = process.name().to_string_lossy();
            Process::new(
                &name,
                process.pid().as_u32(),
                process.cpu_usage(),
                process.memory(),
            )
        });
        let processes: Vec<_> = processes.collect();
        if processes.is_empty() {
            return Err("this system does not report its processes".to_owned());
        }
        Ok(Processes::top(processes))
    }
}

async fn sample_system(with_processes: bool) -> Result<System, String> {
    let mut system = blocking(move || {
        let mut system = System::new().map_err(|error| error.to_string())?;
        refresh(&mut system, with_processes);
        Ok(system)
    })
    .await?;
    sleep(MINIMUM_CPU_UPDATE_INTERVAL).await;
    blocking(move || {
        refresh(&mut system, with_processes);
        Ok(system)
    })
    .await
}

fn refresh(system: &mut System, with_processes: bool) {
    system.refresh_cpu_usage();
    if with_processes {
        let what = ProcessRefreshKind::nothing()
            .without_tasks()
            .with_cpu()
            .with_memory();
        system.refresh_processes_specifics(ProcessesToUpdate::All, true, what);
    }
}

pub(super) fn memory() -> Result<Memory, String> {
    let mut system = System::new().map_err(|error| error.to_string())?;
    system.refresh_memory_specifics(MemoryRefreshKind::everything());
    if system.total_memory() == 0 {
        return Err("this system does not report its memory".to_owned());
    }
    Ok(Memory::new(
        system.total_memory(),
        system.used_memory(),
        system.available_memory(),
        system.total_swap(),
        system.used_swap(),
    ))
}

pub(super) fn disks() -> Result<Disks, String> {
    let mounted = MountedDisks::new_with_refreshed_list().map_err(|error| error.to_string())?;
    // Containers mount single files, such as /etc/hosts, from the host's disk.
    let folders = mounted.iter().filter(|disk| !disk.mount_point().is_file());
    let disks = Disks::of_mounts(folders.map(disk).collect());
    if disks.is_empty() {
        Err("no disks were found".to_owned())
    } else {
        Ok(disks)
    }
}

fn disk(mounted: &sysinfo::Disk) -> Disk {
    let disk = Disk::new(
        mounted.mount_point().to_string_lossy().into_owned(),
        mounted.name().to_string_lossy().into_owned(),
        mounted.file_system().to_string_lossy().into_owned(),
        mounted.total_space(),
        mounted.available_space(),
    );
    if mounted.is_read_only() {
        disk.read_only()
    } else {
        disk
    }
}

pub(super) fn temperatures() -> Result<Temperatures, String> {
    let components = Components::new_with_refreshed_list().map_err(|error| error.to_string())?;
    let sensors = components.iter().filter_map(|component| {
        Sensor::new(
            component.label(),
            component.temperature(),
            component.critical(),
        )
    });
    Temperatures::of_sensors(sensors.collect())
        .ok_or_else(|| "this machine has no readable temperature sensors".to_owned())
}

pub(super) fn load() -> Result<Load, String> {
    if cfg!(windows) {
        return Err("Windows has no load averages".to_owned());
    }
    let load = System::load_average().map_err(|error| error.to_string())?;
    let mut system = System::new().map_err(|error| error.to_string())?;
    system.refresh_cpu_list(CpuRefreshKind::nothing());
    Ok(Load::new(
        [load.one, load.five, load.fifteen],
        system.cpus().len(),
    ))
}

pub(super) fn uptime() -> Result<Uptime, String> {
    let seconds = System::uptime().map_err(|error| error.to_string())?;
    let booted_at_unix_seconds = System::boot_time().map_err(|error| error.to_string())?;
    Ok(Uptime {
        seconds,
        booted_at_unix_seconds,
    })
}
