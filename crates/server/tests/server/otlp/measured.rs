//! Final metric values: the last value of each series of each process, added up.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};

use super::receiver::text;

/// Metrics in the order of arrival, all of them cumulative.
pub(super) struct Measured(pub(super) Vec<Metric>);

/// The value of a series and its number of measurements.
type Point = (f64, u64);

impl Measured {
    pub(super) fn names(&self) -> BTreeSet<&str> {
        self.0.iter().map(|metric| metric.name.as_str()).collect()
    }

    pub(super) fn unit(&self, name: &str) -> &str {
        let metric = self.0.iter().find(|metric| metric.name == name);
        &metric
            .unwrap_or_else(|| panic!("{name} is not among {:?}", self.names()))
            .unit
    }

    /// Returns the sum of all series that have these labels.
    pub(super) fn total(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.points(name, labels).iter().map(|(sum, _)| sum).sum()
    }

    /// Returns the number of measurements of such a series.
    pub(super) fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.points(name, labels)
            .iter()
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns the highest bucket bound of a histogram.
    pub(super) fn last_bound(&self, name: &str) -> f64 {
        let metrics = self.0.iter().filter(|metric| metric.name == name);
        let mut bounds = metrics.filter_map(|metric| match metric.data.as_ref()? {
            Data::Histogram(measured) => measured.data_points.first()?.explicit_bounds.last(),
            _ => None,
        });
        *bounds.next().unwrap()
    }

    fn points(&self, name: &str, labels: &[(&str, &str)]) -> Vec<Point> {
        let has = |attributes: &[KeyValue]| {
            labels
                .iter()
                .all(|(key, value)| text(attributes, key).as_deref() == Some(*value))
        };
        // Processes are distinguished by their start time.
        let mut last: BTreeMap<(u64, String), Point> = BTreeMap::new();
        for metric in self.0.iter().filter(|metric| metric.name == name) {
            for (began, attributes, point) in points_of(metric) {
                if has(&attributes) {
                    last.insert((began, format!("{attributes:?}")), point);
                }
            }
        }
        last.into_values().collect()
    }
}

fn points_of(metric: &Metric) -> Vec<(u64, Vec<KeyValue>, Point)> {
    let number = |point: &NumberDataPoint| {
        let value = match point.value {
            Some(Value::AsInt(number)) => number as f64,
            Some(Value::AsDouble(number)) => number,
            None => 0.0,
        };
        (
            point.start_time_unix_nano,
            point.attributes.clone(),
            (value, 1),
        )
    };
    match metric.data.clone() {
        Some(Data::Sum(sum)) => sum.data_points.iter().map(number).collect(),
        Some(Data::Gauge(gauge)) => gauge.data_points.iter().map(number).collect(),
        Some(Data::Histogram(histogram)) => {
            let points = histogram.data_points.into_iter();
            let measured = points.map(|point| {
                let value = (point.sum.unwrap_or_default(), point.count);
                (point.start_time_unix_nano, point.attributes, value)
            });
            measured.collect()
        }
        _ => Vec::new(),
    }
}
