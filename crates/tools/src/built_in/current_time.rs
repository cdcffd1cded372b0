//! The tool `current_time`.

use std::sync::Arc;

use jiff::tz::{self, TimeZone};
use jiff::{Timestamp, Zoned};
use neuraxis_core::ToolClass;
use neuraxis_ports::{Clock, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::function::{DefinitionError, FunctionTool};
use crate::suggest::nearest;

const DESCRIPTION: &str = "Returns the current date, time, weekday, time zone and UTC offset. Use it whenever the \
    answer depends on the current date or time, or to convert \"now\" to another time zone. Never guess the date.";

/// Creates `current_time`: the date and time, in this machine's time zone or any other.
///
/// The time zone data is built in, so the tool works on a machine that has none.
///
/// # Errors
///
/// The errors of [`FunctionTool::new`], which the current definition never causes.
pub fn current_time(clock: Arc<dyn Clock>) -> Result<Arc<dyn Tool>, DefinitionError> {
    let tool = FunctionTool::new(
        "current_time",
        DESCRIPTION,
        move |arguments: Arguments, _ctx| {
            let now = clock.now();
            async move { Ok(describe(now, zone(arguments.time_zone.as_deref())?)) }
        },
    )?;
    // This machine's time zone is a small file that is read at most every few minutes; everything else is in memory.
    Ok(tool.class(ToolClass::ReadOnly).never_blocks().build())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// An IANA time zone name, such as `Europe/Berlin` or `UTC`. Default: this machine's time zone.
    time_zone: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct CurrentTime {
    /// RFC 3339, to the second.
    time: String,
    time_zone: String,
    utc_offset: String,
    weekday: String,
    unix_seconds: i64,
    summary: String,
}

fn zone(name: Option<&str>) -> Result<TimeZone, ToolError> {
    // Some models pass an empty string instead of omitting it.
    match name.filter(|name| !name.trim().is_empty()) {
        // A machine that does not state its time zone is treated as being on UTC.
        None => Ok(TimeZone::try_system().unwrap_or(TimeZone::UTC)),
        Some(name) => TimeZone::get(name)
            .or_else(|error| zone_of_city(name).ok_or(error))
            .map_err(|_| unknown_zone(name)),
    }
}

/// Finds the time zone named after a city, which models and users often give instead of the zone: `Tokyo`, `new york`.
fn zone_of_city(name: &str) -> Option<TimeZone> {
    let place = name.trim().replace(' ', "_");
    let mut known = tz::db().available().map(|known| known.to_string());
    let zone = known.find(|known| {
        let mut parts = known.rsplit('/');
        let is_city = parts
            .next()
            .is_some_and(|city| city.eq_ignore_ascii_case(&place));
        is_city && parts.next().is_some()
    })?;
    TimeZone::get(&zone).ok()
}

fn unknown_zone(name: &str) -> ToolError {
    let names = tz::db().available().map(|name| name.to_string());
    let hint = match nearest(name, names) {
        Some(known) => format!("did you mean {known}?"),
        None => "use an IANA name such as Europe/Berlin, or leave time_zone out".to_owned(),
    };
    ToolError::permanent(format!("there is no time zone {name:?}; {hint}"))
}

fn describe(now: Timestamp, zone: TimeZone) -> CurrentTime {
    let unix_seconds = now.as_second();
    let now: Zoned = now.to_zoned(zone);
    let utc_offset = now.strftime("%:z").to_string();
    // A time zone that is known only by its offset, or was installed without its name, is named by its offset.
    let time_zone = now
        .time_zone()
        .iana_name()
        .map_or_else(|| format!("UTC{utc_offset}"), str::to_owned);
    let clause = now.strftime("%A, %-d %B %Y, %H:%M:%S");
    CurrentTime {
        time: now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        weekday: now.strftime("%A").to_string(),
        summary: format!("It is {clause} in {time_zone} (UTC{utc_offset})."),
        time_zone,
        utc_offset,
        unix_seconds,
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    #[test]
    fn a_zone_without_a_name_is_named_by_its_offset() {
        let zone = TimeZone::fixed(Offset::constant(-3));
        let told = describe(Timestamp::UNIX_EPOCH, zone);
        assert_eq!(told.time_zone, "UTC-03:00");
        assert_eq!(told.time, "1969-12-31T21:00:00-03:00");
    }
}
