//! `current_time`.

use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_ports::Tool;
use neuraxis_tools::current_time;
use serde_json::{Value, json};

use crate::support::{FixedClock, call, context};

fn tool() -> Arc<dyn Tool> {
    current_time(Arc::new(FixedClock(
        "2025-07-01T22:30:15.999Z".parse().unwrap(),
    )))
    .unwrap()
}

async fn told(arguments: Value) -> Value {
    call(tool().as_ref(), arguments, context()).await.unwrap()
}

async fn refusal(zone: &str) -> String {
    call(tool().as_ref(), json!({ "time_zone": zone }), context())
        .await
        .unwrap_err()
        .message
}

#[tokio::test]
async fn the_time_in_a_zone_has_offset_weekday_and_a_sentence() {
    let expected = json!({
        "time": "2025-07-02T00:30:15+02:00",
        "time_zone": "Europe/Berlin",
        "utc_offset": "+02:00",
        "weekday": "Wednesday",
        "unix_seconds": 1_751_409_015,
        "summary": "It is Wednesday, 2 July 2025, 00:30:15 in Europe/Berlin (UTC+02:00).",
    });
    assert_eq!(
        told(json!({ "time_zone": "Europe/Berlin" })).await,
        expected
    );
}

#[tokio::test]
async fn zones_with_unusual_offsets_and_utc_are_known() {
    assert_eq!(
        told(json!({ "time_zone": "Asia/Kathmandu" })).await["time"],
        "2025-07-02T04:15:15+05:45"
    );
    assert_eq!(
        told(json!({ "time_zone": "UTC" })).await["time"],
        "2025-07-01T22:30:15+00:00"
    );
}

#[tokio::test]
async fn without_a_zone_the_time_is_given_in_the_zone_of_the_machine() {
    for arguments in [
        json!({}),
        json!({ "time_zone": null }),
        json!({ "time_zone": "" }),
    ] {
        let told = told(arguments).await;
        assert_eq!(told["unix_seconds"], 1_751_409_015);
        let time: Timestamp = told["time"].as_str().unwrap().parse().unwrap();
        assert_eq!(time.as_second(), 1_751_409_015);
        assert!(!told["time_zone"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_city_selects_the_zone_named_after_it() {
    for (city, zone) in [
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
    ] {
        let told = told(json!({ "time_zone": city })).await;
        assert_eq!(told["time_zone"], zone);
    }
}

#[tokio::test]
async fn an_unknown_zone_is_refused_with_the_closest_one() {
    assert_eq!(
        refusal("Europe/Pariss").await,
        "there is no time zone \"Europe/Pariss\"; did you mean Europe/Paris?"
    );
}

#[tokio::test]
async fn a_zone_that_resembles_none_is_refused_with_an_example() {
    let message = refusal("../../etc/passwd").await;
    assert!(
        message.ends_with("use an IANA name such as Europe/Berlin, or leave time_zone out"),
        "{message}"
    );
}
