//! The section `temperatures`.

use serde::Serialize;

use super::one_digit;
use crate::built_in::health::report::Findings;
use crate::summary::{MAX_QUOTED_CHARS, one_line};

/// A sensor that is within this many degrees of its critical temperature needs attention.
const TEMPERATURE_WARNING_MARGIN_CELSIUS: f64 = 5.0;
/// The temperature above which a sensor without a known critical temperature needs attention.
const TEMPERATURE_WARNING_CELSIUS: f64 = 90.0;

/// The maximum number of sensors that are listed, hottest first.
const MAX_SENSORS: usize = 32;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::built_in::health) struct Sensor {
    label: String,
    celsius: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    critical_celsius: Option<f64>,
}

impl Sensor {
    /// Returns `None` for a sensor without a usable reading.
    pub(in crate::built_in::health) fn new(
        label: &str,
        celsius: Option<f32>,
        critical: Option<f32>,
    ) -> Option<Self> {
        let celsius = celsius.filter(|celsius| celsius.is_finite())?;
        let critical = critical.filter(|critical| critical.is_finite() && *critical > 0.0);
        Some(Self {
            label: one_line(label, MAX_QUOTED_CHARS),
            celsius: one_digit(celsius.into()),
            critical_celsius: critical.map(|critical| one_digit(critical.into())),
        })
    }

    fn is_hot(&self) -> bool {
        match self.critical_celsius {
            Some(critical) => self.celsius >= critical - TEMPERATURE_WARNING_MARGIN_CELSIUS,
            None => self.celsius > TEMPERATURE_WARNING_CELSIUS,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(in crate::built_in::health) struct Temperatures(Vec<Sensor>);

impl Temperatures {
    /// Keeps the hottest sensors. Returns `None` if there are no sensors.
    pub(in crate::built_in::health) fn of_sensors(mut sensors: Vec<Sensor>) -> Option<Self> {
        sensors.sort_by(|left, right| right.celsius.total_cmp(&left.celsius));
        sensors.truncate(MAX_SENSORS);
        (!sensors.is_empty()).then_some(Self(sensors))
    }
}

impl Findings for Temperatures {
    fn summary(&self) -> String {
        match self.0.first() {
            Some(hottest) => format!(
                "the hottest sensor is {} at {:.0} °C",
                hottest.label, hottest.celsius
            ),
            None => "no sensors".to_owned(),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let hot = self.0.iter().filter(|sensor| sensor.is_hot());
        hot.map(|sensor| match sensor.critical_celsius {
            Some(critical) => {
                format!(
                    "{} is at {:.0} °C; its critical temperature is {critical:.0} °C.",
                    sensor.label, sensor.celsius
                )
            }
            None => format!("{} is at {:.0} °C.", sensor.label, sensor.celsius),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensors(sensors: &[(&str, f32, Option<f32>)]) -> Temperatures {
        let made = sensors
            .iter()
            .filter_map(|(label, celsius, critical)| Sensor::new(label, Some(*celsius), *critical));
        Temperatures::of_sensors(made.collect()).unwrap()
    }

    #[test]
    fn the_hottest_sensor_is_named() {
        let found = sensors(&[("Disk", 31.0, None), ("Package", 55.4, Some(100.0))]);
        assert_eq!(found.summary(), "the hottest sensor is Package at 55 °C");
        assert!(found.warnings().is_empty());
    }

    #[test]
    fn a_sensor_near_its_critical_temperature_gives_a_warning() {
        let found = sensors(&[
            ("Package", 95.0, Some(100.0)),
            ("Disk", 94.0, Some(100.0)),
            ("Board", 90.5, None),
        ]);
        let expected = [
            "Package is at 95 °C; its critical temperature is 100 °C.",
            "Board is at 90 °C.",
        ];
        assert_eq!(found.warnings(), expected);
    }

    #[test]
    fn sensors_without_a_usable_reading_are_excluded() {
        assert_eq!(Sensor::new("a", None, None), None);
        assert_eq!(Sensor::new("b", Some(f32::NAN), None), None);
        assert_eq!(Temperatures::of_sensors(Vec::new()), None);
    }
}
