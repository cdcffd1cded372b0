//! How the id of a run tells which request began it.

use neuraxis_core::uuid::{Builder, Uuid, Variant, Version};
use neuraxis_core::{ContentHash, IdempotencyKey, RunId, SessionId};

/// The bits of a run's id that do not tell its time.
const BESIDE_THE_TIME: u128 = (1 << 80) - 1;

/// Returns what the ids of the run of a request have beside their time.
pub(super) fn tail(session: &SessionId, key: &IdempotencyKey) -> u128 {
    // Neither can hold a line break.
    let text = format!("{session}\n{}", key.as_str());
    let hash = ContentHash::of(text.as_bytes());
    let digits = hash.as_bytes().iter().take(16);
    let number = digits.fold(0, |number, byte| (number << 8) | u128::from(*byte));
    let marked = Builder::from_u128(number)
        .with_version(Version::Custom)
        .with_variant(Variant::RFC4122);
    marked.into_uuid().as_u128() & BESIDE_THE_TIME
}

/// Gives an id that begins with a time another tail.
pub(super) fn with_tail(id: Uuid, tail: u128) -> Uuid {
    Uuid::from_u128((id.as_u128() & !BESIDE_THE_TIME) | tail)
}

pub(super) fn has_tail(run: RunId, tail: u128) -> bool {
    run.0.as_u128() & BESIDE_THE_TIME == tail
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_by_id_stay_lists_by_time(
            ids in prop::collection::vec((any::<u128>(), "[!-~]{1,255}"), 2),
            session in "[A-Za-z0-9._:-]{1,128}",
        ) {
            let made = |(id, key): &(u128, String)| {
                let id = Uuid::from_u128(*id);
                (id, with_tail(id, tail_of(&session, key)))
            };
            let (one, other) = (made(&ids[0]), made(&ids[1]));
            let time = |id: Uuid| id.as_u128() >> 80;
            prop_assert_eq!(time(one.0), time(one.1));
            if time(one.0) != time(other.0) {
                prop_assert_eq!(one.0 < other.0, one.1 < other.1);
            }
            let known = tail_of(&session, &ids[0].1);
            prop_assert!(has_tail(RunId(one.1), known));
            prop_assert_eq!(has_tail(RunId(other.1), known), ids[0].1 == ids[1].1);
        }
    }

    fn tail_of(session: &str, key: &str) -> u128 {
        tail(&session.parse().unwrap(), &key.parse().unwrap())
    }

    #[test]
    fn an_id_keeps_its_time_and_is_marked_as_one_of_its_own_making() {
        let made: Uuid = "01932c07-209d-7abc-8def-0123456789ab".parse().unwrap();
        let known = tail_of("main", "booking-17");
        let id = with_tail(made, known);
        assert!(id.to_string().starts_with("01932c07-209d-8"), "{id}");
        assert_eq!(id.get_version(), Some(Version::Custom));
        assert_eq!(id.get_variant(), Variant::RFC4122);
        assert!(has_tail(RunId(id), known));
        assert!(!has_tail(RunId(made), known));
        let later: Uuid = "01932c07-209e-7000-8000-000000000000".parse().unwrap();
        assert!(id < later && id > with_tail(Uuid::nil(), known));
    }

    #[test]
    fn session_and_key_both_count_and_nothing_runs_together() {
        let all = [
            tail_of("main", "a"),
            tail_of("main", "b"),
            tail_of("maina", "b"),
            tail_of("other", "a"),
            tail_of("m", "aina"),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(!all.iter().skip(place + 1).any(|other| other == one));
        }
        assert_eq!(tail_of("main", "a"), tail_of("main", "a"));
    }
}
