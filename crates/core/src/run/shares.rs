//! How a budget is divided among the agents that one agent started (loop rule 10).

/// Returns how much of the remaining budget one of several agents may still use, given how much each has used so far.
///
/// The remainder first goes to the agents that used least until all have the same, so an agent that used much gets
/// nothing before the others have caught up. What cannot be divided evenly goes to the first of them, one unit each.
/// The shares together never exceed the remainder. An agent that stays within its share leaves the others' shares
/// unchanged, and what an agent did not use increases the others' shares once it has ended and is no longer included.
pub(super) fn part_of(left: u64, used: &[u64], at: usize) -> u64 {
    let Some(own) = used.get(at).copied() else {
        return 0;
    };
    let mut sorted = used.to_vec();
    sorted.sort_unstable();
    let (mut base, mut rest, mut sharing) = (0, left, 0_u64);
    for next in sorted {
        let gap = next.saturating_sub(base).saturating_mul(sharing);
        if gap > rest {
            break;
        }
        (base, rest, sharing) = (next, rest - gap, sharing + 1);
    }
    if own > base {
        return 0;
    }
    let (each, more) = (rest / sharing.max(1), rest % sharing.max(1));
    let earlier = used.iter().take(at).filter(|used| **used <= base).count();
    let is_first = u64::try_from(earlier).is_ok_and(|earlier| earlier < more);
    (base - own)
        .saturating_add(each)
        .saturating_add(u64::from(is_first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(left: u64, used: &[u64]) -> Vec<u64> {
        let agents = 0..used.len();
        agents.map(|at| part_of(left, used, at)).collect()
    }

    #[test]
    fn the_remainder_goes_to_those_who_used_least_and_then_to_the_first() {
        assert_eq!(parts(10, &[0, 0]), [5, 5]);
        assert_eq!(parts(11, &[0, 0]), [6, 5]);
        assert_eq!(parts(2, &[0, 0, 0]), [1, 1, 0]);
        assert_eq!(parts(10, &[8, 0]), [1, 9]);
        assert_eq!(parts(3, &[8, 0, 1]), [0, 2, 1]);
        assert_eq!(parts(0, &[1, 1]), [0, 0]);
        assert_eq!(parts(7, &[3]), [7]);
        assert_eq!(part_of(7, &[], 0), 0);
        let most = part_of(u64::MAX, &[u64::MAX, 0], 1);
        assert_eq!(most, u64::MAX);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_what_is_left_and_are_balanced(left in 0_u64..1_000, used in prop::collection::vec(0_u64..50, 1..8)) {
            let parts = parts(left, &used);
            prop_assert_eq!(parts.iter().sum::<u64>(), left);
            let ends: Vec<u64> = parts.iter().zip(&used).map(|(part, used)| part + used).collect();
            for (end, part) in ends.iter().zip(&parts) {
                let is_fair = *part == 0 || ends.iter().all(|other| *end <= other + 1);
                prop_assert!(is_fair, "{ends:?} of {parts:?}");
            }
        }

        #[test]
        fn using_one_share_leaves_the_other_shares_unchanged(
            left in 0_u64..200,
            mut used in prop::collection::vec(0_u64..20, 2..6),
            order in prop::collection::vec(0_usize..6, 0..200),
        ) {
            let mut left = left;
            for at in order {
                let at = at % used.len();
                let before = parts(left, &used);
                if before[at] == 0 {
                    continue;
                }
                used[at] += 1;
                left -= 1;
                let mut expected = before;
                expected[at] -= 1;
                prop_assert_eq!(parts(left, &used), expected);
            }
        }

        #[test]
        fn an_unused_share_returns_to_the_others(
            left in 0_u64..200,
            used in prop::collection::vec(0_u64..20, 2..6),
            ended in 0_usize..6,
        ) {
            let ended = ended % used.len();
            let before = parts(left, &used);
            let mut others = used.clone();
            others.remove(ended);
            let after = parts(left, &others);
            prop_assert_eq!(after.iter().sum::<u64>(), left);
            let kept = before.iter().enumerate().filter(|(at, _)| *at != ended);
            for ((_, before), after) in kept.zip(&after) {
                prop_assert!(after >= before, "{before} became {after}");
            }
        }
    }
}
