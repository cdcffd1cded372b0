//! Recognizes conversions between units: "5 miles in km", and "how many seconds are in a day".

use super::after;
use super::expression::number;
use crate::question::is_among;

/// Units that the tool knows by these names. Names of other things, such as "in" for inches, are left out.
const UNITS: &str = "mm cm m km inch inches ft foot feet yard yards mile miles \
    meter meters metre metres kilometer kilometers kilometre kilometres centimeter centimeters millimeter millimeters \
    mg g kg gram grams kilogram kilograms oz ounce ounces lb lbs pound pounds \
    ml liter liters litre litres gallon gallons celsius fahrenheit kelvin mph km/h \
    second seconds minute minutes hour hours day days week weeks year years";

/// Units whose names are written in this case only.
const SYMBOLS: &str = "C F K °C °F KB MB GB TB KiB MiB GiB TiB";

/// Words between a quantity and the unit that is asked for.
const BETWEEN: [&str; 4] = ["to", "in", "into", "as"];

/// Words between the unit that is asked for and a quantity.
const OF_QUANTITY: [&str; 6] = ["are there in", "are in", "is in", "in", "are", "is"];

/// Returns a conversion as the tool writes it, if the whole text is one.
pub(super) fn of(text: &str) -> Option<String> {
    let (quantity, target) = match after(text, "how many") {
        Some(rest) => {
            let (target, rest) = unit(rest.trim_start())?;
            let rest = rest.trim_start();
            let rest = OF_QUANTITY.iter().find_map(|words| after(rest, words))?;
            let (quantity, rest) = quantity(rest.trim_start())?;
            (quantity, Some(target).filter(|_| rest.is_empty()))
        }
        None => {
            let (quantity, rest) = quantity(text)?;
            let rest = rest.trim_start();
            let rest = BETWEEN.iter().find_map(|word| after(rest, word))?;
            let (target, rest) = unit(rest.trim_start())?;
            (quantity, Some(target).filter(|_| rest.is_empty()))
        }
    };
    Some(format!("{quantity} to {}", target?))
}

/// Splits a text after a number with its unit; "a day" is one day.
fn quantity(text: &str) -> Option<(String, &str)> {
    let (sign, text) = match text.strip_prefix(['-', '−']) {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let one = || {
        let rest = ["a", "an", "one"].iter().find_map(|word| after(text, word));
        rest.map(|rest| ("1", rest))
    };
    let (number, rest) = number(text).or_else(one)?;
    let rest = rest.trim_start();
    let rest = after(rest, "degrees").unwrap_or(rest);
    let (unit, rest) = unit(rest.trim_start())?;
    Some((format!("{sign}{number} {unit}"), rest))
}

/// Splits a text after the unit with which it begins.
fn unit(text: &str) -> Option<(String, &str)> {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    let lower = word.to_lowercase();
    let name = match is_among(word, SYMBOLS) {
        true => word.to_owned(),
        false => Some(lower).filter(|lower| is_among(lower, UNITS))?,
    };
    Some((name, rest))
}
