//! The table of results.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::measure::{Memory, Pair};
use crate::workload::Workload;

/// The results, one row per workload.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<(Workload, Vec<Pair>)>,
    memory: Option<Memory>,
}

impl Table {
    pub(crate) fn add(&mut self, workload: Workload, pairs: Vec<Pair>) {
        self.rows.push((workload, pairs));
    }

    pub(crate) const fn memory(&mut self, memory: Memory) {
        self.memory = Some(memory);
    }

    fn median_of(&self, workload: Workload, side: impl Fn(&Pair) -> f64) -> Option<f64> {
        let (_, pairs) = self.rows.iter().find(|(other, _)| *other == workload)?;
        Some(median(pairs.iter().map(side).collect()))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| processor time of one run | by hand | Neuraxis | ratio (least to most) |"
        )?;
        writeln!(f, "| --- | ---: | ---: | ---: |")?;
        for (workload, pairs) in &self.rows {
            let by_hand = median(pairs.iter().map(|pair| micros(pair.by_hand)).collect());
            let by_neuraxis = median(pairs.iter().map(|pair| micros(pair.by_neuraxis)).collect());
            let mut ratios: Vec<f64> = pairs.iter().map(ratio).collect();
            ratios.sort_by(f64::total_cmp);
            let (least, most) = (
                ratios.first().unwrap_or(&0.0),
                ratios.last().unwrap_or(&0.0),
            );
            let middle = median(ratios.clone());
            let name = workload.name();
            writeln!(
                f,
                "| {name} | {by_hand:.0} µs | {by_neuraxis:.0} µs | {middle:.2} ({least:.2} to {most:.2}) |"
            )?;
        }
        if let Some(Memory {
            by_hand,
            by_neuraxis,
        }) = self.memory
        {
            let times = by_neuraxis as f64 / by_hand.max(1) as f64;
            let kib = |bytes: u64| bytes as f64 / 1_024.0;
            let (hand, ours) = (kib(by_hand), kib(by_neuraxis));
            writeln!(
                f,
                "| memory of one waiting run | {hand:.1} KiB | {ours:.1} KiB | {times:.2} |"
            )?;
        }
        for (name, side) in [
            ("by hand", by_hand_side as fn(&Pair) -> f64),
            ("Neuraxis", by_neuraxis_side),
        ] {
            let t40 = self.median_of(Workload::Turns40, side);
            let t80 = self.median_of(Workload::Turns80, side);
            if let (Some(t40), Some(t80)) = (t40, t80) {
                writeln!(
                    f,
                    "\n80 turns take {:.2} times what 40 take ({name}).",
                    t80 / t40
                )?;
            }
        }
        Ok(())
    }
}

/// Stores the last table under `target/`.
pub(crate) fn save(text: &str) -> Result<()> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    fs::create_dir_all(&target)?;
    fs::write(target.join("bench.md"), text)?;
    eprintln!("kept in target/bench.md");
    Ok(())
}

fn by_hand_side(pair: &Pair) -> f64 {
    micros(pair.by_hand)
}

fn by_neuraxis_side(pair: &Pair) -> f64 {
    micros(pair.by_neuraxis)
}

fn ratio(pair: &Pair) -> f64 {
    micros(pair.by_neuraxis) / micros(pair.by_hand)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
