//! Tests of the cache of encoded conversations.

use neuraxis_testkit::messages;

use super::*;
use crate::chat::{Dialect, ReasoningEcho, Rules};

type PrefixCache = super::PrefixCache<Rules>;

fn conversation(count: usize) -> Vec<Arc<Message>> {
    let message = |index: usize| match index % 3 {
        0 => Message::user(format!("question {index}")),
        1 => messages::calls([("c", "look", "{}")]),
        _ => messages::result("c", "look", "1"),
    };
    (0..count).map(|index| Arc::new(message(index))).collect()
}

fn rules(messages: &[Arc<Message>]) -> Rules {
    Rules::new(Dialect::standard("llama"), false, messages)
}

/// Encodes and keeps; returns the bytes and how many messages were reused.
fn ask(cache: &PrefixCache, messages: &[Arc<Message>]) -> (Vec<u8>, usize) {
    let known = {
        let kept = cache.entries.lock().unwrap();
        let mut keys = messages.iter().map(|message| Arc::as_ptr(message).addr());
        let prefixes = keys.by_ref().filter_map(|key| kept.prefixes.get(&key));
        let fitting = prefixes.filter(|prefix| prefix.is_of(messages));
        fitting
            .map(|prefix| prefix.messages.len())
            .max()
            .unwrap_or(0)
    };
    let prefix = cache.encoded(messages, &rules(messages)).unwrap();
    let bytes = prefix.bytes().to_vec();
    cache.store(prefix);
    (bytes, known)
}

fn count(cache: &PrefixCache) -> usize {
    cache.entries.lock().unwrap().prefixes.len()
}

#[test]
fn each_request_of_a_run_encodes_only_what_is_new() {
    let cache = PrefixCache::default();
    let all = conversation(30);
    let mut before = Vec::new();
    for (length, expected) in [(1, 0), (3, 1), (5, 3), (30, 5), (30, 30)] {
        let (bytes, known) = ask(&cache, &all[..length]);
        assert_eq!(known, expected);
        assert!(bytes.starts_with(&before), "the beginning changed");
        before = bytes;
    }
    assert_eq!(count(&cache), 1);
    let fresh = ask(&PrefixCache::default(), &all).0;
    assert_eq!(before, fresh);
}

#[test]
fn the_end_of_each_encoded_message_is_known() {
    let all = conversation(5);
    let prefix = |count: usize| {
        let messages = &all[..count];
        let encoded = PrefixCache::default().encoded(messages, &rules(messages));
        encoded.unwrap()
    };
    let whole = prefix(5);
    for count in 0..=5 {
        let end = whole.end_of(count);
        assert_eq!(whole.bytes()[..end], *prefix(count).bytes(), "{count}");
    }
}

#[test]
fn a_branching_conversation_is_encoded_correctly() {
    let cache = PrefixCache::default();
    let all = conversation(6);
    ask(&cache, &all);
    let mut branch = all[..3].to_vec();
    branch.push(Arc::new(Message::user("something else")));
    assert_eq!(ask(&cache, &branch), ask(&PrefixCache::default(), &branch));
    let mut other_start = all.clone();
    other_start[0] = Arc::new(Message::user("another question"));
    let (bytes, known) = ask(&cache, &other_start);
    assert_eq!(known, 0);
    assert_eq!(bytes, ask(&PrefixCache::default(), &other_start).0);
}

#[test]
fn a_dropped_message_is_never_mistaken_for_a_new_one() {
    let cache = PrefixCache::default();
    for round in 0..100 {
        let message = [Arc::new(Message::user(format!("round {round}")))];
        let text = String::from_utf8(ask(&cache, &message).0).unwrap();
        assert!(text.contains(&format!("round {round}\"")), "{text}");
    }
    // Ended conversations were removed on the way.
    assert!(count(&cache) <= FIRST_SWEEP, "{}", count(&cache));
}

#[test]
fn the_cache_stays_within_its_size_and_keeps_recent_entries() {
    let cache = PrefixCache::with_max_bytes(500);
    let conversations: Vec<_> = (0..20).map(|_| conversation(3)).collect();
    for conversation in &conversations {
        ask(&cache, conversation);
        assert!(cache.entries.lock().unwrap().bytes <= 500);
    }
    assert!((1..5).contains(&count(&cache)), "{}", count(&cache));
    assert_eq!(ask(&cache, &conversations[19]).1, 3);
    assert_eq!(ask(&cache, &conversations[0]).1, 0);
    let sum: usize = {
        let kept = cache.entries.lock().unwrap();
        kept.prefixes
            .values()
            .map(|prefix| prefix.bytes.len())
            .sum()
    };
    assert_eq!(cache.entries.lock().unwrap().bytes, sum);
}

#[test]
fn of_too_many_conversations_the_oldest_eighth_is_evicted() {
    let cache = PrefixCache::default();
    let conversations: Vec<_> = (0..=MAX_PREFIXES).map(|_| conversation(1)).collect();
    let (newest, others) = conversations.split_last().unwrap();
    for conversation in others {
        ask(&cache, conversation);
    }
    assert_eq!(count(&cache), MAX_PREFIXES);
    // After another request, the first of them is no longer the oldest.
    assert_eq!(ask(&cache, &others[0]).1, 1);
    ask(&cache, newest);
    assert_eq!(count(&cache), MAX_PREFIXES - MAX_PREFIXES / 8);
    let is_kept = |conversation| ask(&cache, conversation).1 == 1;
    assert!(is_kept(newest) && is_kept(&others[0]));
    assert!(!is_kept(&others[1]));
}

#[test]
fn a_conversation_larger_than_the_cache_is_not_stored() {
    let cache = PrefixCache::with_max_bytes(10);
    ask(&cache, &conversation(3));
    assert_eq!(count(&cache), 0);
}

#[test]
fn changed_rules_apply_to_previously_encoded_messages() {
    let echo = |late: bool, messages: &[Arc<Message>]| {
        let mut dialect = Dialect::standard("llama");
        dialect.reasoning_echo = ReasoningEcho::SameTurn;
        Rules::new(dialect, late, messages)
    };
    let mut all = conversation(3);
    all.push(Arc::new(Message::system("late")));
    let cache = PrefixCache::default();
    for late in [false, true] {
        let rules = echo(late, &all);
        let kept = cache.encoded(&all, &rules).unwrap();
        let fresh = PrefixCache::default().encoded(&all, &rules).unwrap();
        assert_eq!(kept.bytes(), fresh.bytes());
        cache.store(kept);
    }
}

/// Writes like ordinary rules, and counts the bytes.
#[derive(Debug, Clone, Default)]
struct Counting(Arc<std::sync::atomic::AtomicUsize>);

impl Counting {
    fn taken(&self) -> usize {
        self.0.swap(0, std::sync::atomic::Ordering::Relaxed)
    }
}

impl MessageEncoder for Counting {
    fn same_until(&self, _: &Self) -> usize {
        usize::MAX
    }

    fn write(
        &self,
        message: &Message,
        before: &[Arc<Message>],
        json: &mut JsonWriter<'_>,
    ) -> Result<(), LlmError> {
        let mut bytes = Vec::new();
        rules(before).write(message, before, &mut JsonWriter::new(&mut bytes))?;
        self.0
            .fetch_add(bytes.len(), std::sync::atomic::Ordering::Relaxed);
        json.bytes(&bytes);
        Ok(())
    }
}

#[test]
fn a_later_run_of_a_session_encodes_little_more_than_what_is_new() {
    let cache = super::PrefixCache::<Counting>::default();
    let rules = Counting::default();
    let copy = |message: &Message| Arc::new(message.clone());
    let prompt = Message::system("Be brief.");
    let mut history = conversation(300);
    let mut cost = Vec::new();
    for run in 0..20 {
        let mut messages = vec![copy(&prompt)];
        messages.extend(history.iter().cloned());
        let question = Message::user(format!("and {run}?"));
        messages.push(copy(&question));
        let first = cache.encoded(&messages, &rules).unwrap();
        cache.store(first);
        messages.push(Arc::new(messages::calls([("c", "look", "{}")])));
        messages.push(Arc::new(messages::result("c", "look", "1")));
        let whole = cache.encoded(&messages, &rules).unwrap();
        cost.push(rules.taken());
        let fresh = super::PrefixCache::default().encoded(&messages, &rules);
        assert_eq!(whole.bytes(), fresh.unwrap().bytes());
        rules.taken();
        cache.store(whole);
        // The run's messages are read back from its log: different copies.
        history.extend(messages.iter().skip(history.len() + 1).map(|it| copy(it)));
    }
    let (first, later) = cost.split_first().unwrap();
    assert!(
        *first > 10_000 && later.iter().all(|cost| *cost < 1_000),
        "{cost:?}"
    );
    assert_eq!(cache.entries.lock().unwrap().prefixes.len(), 1);
}

#[test]
fn a_later_run_with_different_messages_is_encoded_correctly() {
    let cache = PrefixCache::default();
    let all = conversation(9);
    ask(&cache, &all);
    for place in [0, 2, 8] {
        let mut other = all.clone();
        other[place] = Arc::new(Message::system("something else"));
        let fresh = ask(&PrefixCache::default(), &other);
        assert_eq!(ask(&cache, &other).0, fresh.0, "{place}");
    }
    let shorter = [Arc::new(Message::user("question 0")), all[1].clone()];
    let fresh = ask(&PrefixCache::default(), &shorter);
    assert_eq!(ask(&cache, &shorter).0, fresh.0);
    ask(&cache, &all);
    drop(all);
    for _ in 0..FIRST_SWEEP {
        ask(&cache, &conversation(1));
    }
    assert!(count(&cache) <= FIRST_SWEEP, "nobody has it any more");
}
