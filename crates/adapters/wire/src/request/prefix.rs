//! Caches the encoded beginning of conversations, so each request encodes only what is new.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use neuraxis_core::{LlmError, Message};

use super::json::JsonWriter;

/// The maximum number of bytes of encoded conversations that a client keeps, and the maximum number of conversations.
const MAX_BYTES: usize = 32 * 1024 * 1024;
const MAX_PREFIXES: usize = 1_024;

/// The initial capacity of a conversation, in bytes and messages: a prompt and a question. Thousands of runs may be
/// waiting for their first reply, and each holds it.
const FIRST_BYTES: usize = 256;
const FIRST_MESSAGES: usize = 4;

/// The minimum number of conversations before ended ones are removed.
const FIRST_SWEEP: usize = 16;

/// The index of a message that identifies a conversation in a later run: the first one may be a prompt, of which each
/// run has its own copy.
const EARLY: usize = 1;

/// Writes messages in a protocol's form, by the rules of one request.
pub trait MessageEncoder: Debug + Clone {
    /// Returns how many messages, from the first on, these rules write the same as `old` did; `usize::MAX` for all.
    fn same_until(&self, old: &Self) -> usize;

    /// Writes a message that follows others, with the separator between it and them. The output may depend only on the
    /// message, those before it and these rules.
    ///
    /// # Errors
    ///
    /// [`BadRequest`](neuraxis_core::LlmErrorKind::BadRequest) for a message that the protocol cannot express.
    fn write(
        &self,
        message: &Message,
        before: &[Arc<Message>],
        json: &mut JsonWriter<'_>,
    ) -> Result<(), LlmError>;
}

/// An encoded conversation, or the beginning of one.
#[derive(Debug)]
pub struct Prefix<R> {
    messages: Vec<EncodedMessage>,
    /// The messages as JSON, with the separators between them.
    bytes: Vec<u8>,
    rules: Option<R>,
    used: u64,
}

/// An encoded message.
#[derive(Debug)]
struct EncodedMessage {
    /// Identifies the message by its address in memory. A weak pointer keeps that address from being reused for another
    /// message, and lets the message be freed with its run.
    message: Weak<Message>,
    /// Where it ends in the bytes.
    end: usize,
}

impl EncodedMessage {
    fn address(&self) -> usize {
        self.message.as_ptr().addr()
    }

    fn is(&self, message: &Arc<Message>) -> bool {
        self.message.as_ptr() == Arc::as_ptr(message)
    }
}

impl<R> Default for Prefix<R> {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            bytes: Vec::new(),
            rules: None,
            used: 0,
        }
    }
}

impl<R: MessageEncoder> Prefix<R> {
    /// Returns the encoded messages.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns where the first `messages` messages end in [`bytes`](Self::bytes): 0 for none.
    #[must_use]
    pub fn end_of(&self, messages: usize) -> usize {
        let last = messages.checked_sub(1);
        last.and_then(|last| self.messages.get(last))
            .map_or(0, |written| written.end)
    }

    fn is_of(&self, messages: &[Arc<Message>]) -> bool {
        let known = self.messages.iter();
        self.messages.len() <= messages.len()
            && known
                .zip(messages)
                .all(|(known, message)| known.is(message))
    }

    /// Drops the messages that other rules would write differently.
    fn follow(&mut self, rules: &R) {
        if let Some(old) = &self.rules {
            self.truncate(rules.same_until(old));
        }
        self.rules = Some(rules.clone());
    }

    /// Keeps only the beginning that these messages share with it. Another copy of a message is recognized by its
    /// encoded bytes, since the one that was encoded may be gone.
    fn share(&mut self, messages: &[Arc<Message>], rules: &R) -> Result<(), LlmError> {
        self.follow(rules);
        let mut written = Vec::new();
        let mut start = 0;
        for (index, message) in messages.iter().enumerate() {
            let Some(known) = self.messages.get_mut(index) else {
                return Ok(());
            };
            let end = known.end;
            if !known.is(message) {
                written.clear();
                let before = messages.get(..index).unwrap_or_default();
                rules.write(message, before, &mut JsonWriter::new(&mut written))?;
                if self.bytes.get(start..end) != Some(&written) {
                    self.truncate(index);
                    return Ok(());
                }
                known.message = Arc::downgrade(message);
            }
            start = end;
        }
        self.truncate(messages.len());
        Ok(())
    }

    /// Encodes the new messages, and again those that other rules would write differently.
    fn extend(&mut self, messages: &[Arc<Message>], rules: &R) -> Result<(), LlmError> {
        self.follow(rules);
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(FIRST_BYTES);
            self.messages.reserve(FIRST_MESSAGES);
        }
        for index in self.messages.len()..messages.len() {
            let (before, rest) = messages.split_at(index);
            let Some(message) = rest.first() else { break };
            rules.write(message, before, &mut JsonWriter::new(&mut self.bytes))?;
            self.messages.push(EncodedMessage {
                message: Arc::downgrade(message),
                end: self.bytes.len(),
            });
        }
        Ok(())
    }

    fn truncate(&mut self, count: usize) {
        if count >= self.messages.len() {
            return;
        }
        self.messages.truncate(count);
        self.bytes.truncate(self.end_of(count));
    }

    /// Returns the conversation's key, its last message: the run's next request begins with everything in this one.
    fn key(&self) -> Option<usize> {
        self.messages.last().map(EncodedMessage::address)
    }

    /// Returns the key for a later run of the session: it has the same history, but other copies of the prompt before
    /// it and of the earlier run's messages.
    fn early_key(&self) -> Option<usize> {
        self.messages.get(EARLY).map(EncodedMessage::address)
    }

    /// Returns whether the conversation is no longer in use, by a run at work on it or by a store that keeps its
    /// history for the next one.
    fn has_ended(&self) -> bool {
        let known = [self.messages.last(), self.messages.get(EARLY)];
        let is_gone = |written: &EncodedMessage| written.message.strong_count() == 0;
        known.into_iter().flatten().all(is_gone)
    }
}

/// Recently encoded conversations, so each request of a run encodes only what is new: at most 1,024 of them, and at
/// most 32 MiB.
#[derive(Debug)]
pub struct PrefixCache<R> {
    entries: Mutex<Entries<R>>,
    max_bytes: usize,
}

impl<R: MessageEncoder> Default for PrefixCache<R> {
    fn default() -> Self {
        Self::with_max_bytes(MAX_BYTES)
    }
}

#[derive(Debug)]
struct Entries<R> {
    /// By the address of their last message.
    prefixes: HashMap<usize, Box<Prefix<R>>>,
    /// The keys of the most recently stored ones, by the address of an early message: of the many that are stored, a
    /// new run looks only at its own.
    by_early: HashMap<usize, usize>,
    bytes: usize,
    clock: u64,
    sweep_at: usize,
}

impl<R: MessageEncoder> PrefixCache<R> {
    pub(crate) fn with_max_bytes(max_bytes: usize) -> Self {
        let entries = Entries {
            prefixes: HashMap::new(),
            by_early: HashMap::new(),
            bytes: 0,
            clock: 0,
            sweep_at: FIRST_SWEEP,
        };
        Self {
            entries: Mutex::new(entries),
            max_bytes,
        }
    }

    /// Returns the encoded messages. Takes the longest matching beginning out of the cache; return it with
    /// [`store`](Self::store).
    ///
    /// # Errors
    ///
    /// The errors of the rules.
    pub fn encoded(
        &self,
        messages: &[Arc<Message>],
        rules: &R,
    ) -> Result<Box<Prefix<R>>, LlmError> {
        let mut prefix = match self.take(messages) {
            Some(prefix) => prefix,
            None => match self.take_of_earlier_run(messages) {
                Some(mut prefix) => {
                    prefix.share(messages, rules)?;
                    prefix
                }
                None => Box::default(),
            },
        };
        prefix.extend(messages, rules)?;
        Ok(prefix)
    }

    /// Stores an encoded conversation for the request that continues it.
    pub fn store(&self, mut prefix: Box<Prefix<R>>) {
        let Some(key) = prefix.key() else { return };
        if prefix.bytes.len() > self.max_bytes {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.clock += 1;
        prefix.used = entries.clock;
        entries.bytes += prefix.bytes.len();
        if let Some(early) = prefix.early_key() {
            entries.by_early.insert(early, key);
        }
        if let Some(old) = entries.prefixes.insert(key, prefix) {
            entries.bytes -= old.bytes.len();
        }
        entries.evict(self.max_bytes);
    }

    fn take(&self, messages: &[Arc<Message>]) -> Option<Box<Prefix<R>>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let key = messages.iter().rev().find_map(|message| {
            let key = Arc::as_ptr(message).addr();
            let prefix = entries.prefixes.get(&key)?;
            prefix.is_of(messages).then_some(key)
        })?;
        entries.take(key)
    }

    /// Takes out the most recently stored conversation of an earlier run of the same session.
    fn take_of_earlier_run(&self, messages: &[Arc<Message>]) -> Option<Box<Prefix<R>>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let early = Arc::as_ptr(messages.get(EARLY)?).addr();
        let key = *entries.by_early.get(&early)?;
        entries.take(key)
    }
}

impl<R: MessageEncoder> Entries<R> {
    fn take(&mut self, key: usize) -> Option<Box<Prefix<R>>> {
        let prefix = self.prefixes.remove(&key)?;
        self.bytes -= prefix.bytes.len();
        if let Some(early) = prefix.early_key()
            && self.by_early.get(&early) == Some(&key)
        {
            self.by_early.remove(&early);
        }
        Some(prefix)
    }

    /// Removes the conversations for which `should_go` returns `true`.
    fn remove_if(&mut self, should_go: impl Fn(&Prefix<R>) -> bool) {
        let prefixes = self.prefixes.extract_if(|_, prefix| should_go(prefix));
        self.bytes -= prefixes
            .map(|(_, prefix)| prefix.bytes.len())
            .sum::<usize>();
        let prefixes = &self.prefixes;
        self.by_early.retain(|_, key| prefixes.contains_key(key));
    }

    fn evict(&mut self, max_bytes: usize) {
        if self.prefixes.len() >= self.sweep_at || self.bytes > max_bytes {
            self.remove_if(Prefix::has_ended);
            self.sweep_at = (2 * self.prefixes.len()).max(FIRST_SWEEP);
        }
        while self.bytes > max_bytes || self.prefixes.len() > MAX_PREFIXES {
            self.evict_oldest();
        }
    }

    /// Removes the least recently used ones: one in eight, since finding them reads every entry, which would be too
    /// much for every new conversation.
    fn evict_oldest(&mut self) {
        let mut used: Vec<u64> = self.prefixes.values().map(|prefix| prefix.used).collect();
        used.sort_unstable();
        let newest_to_go = used.get(used.len() / 8).copied().unwrap_or(self.clock);
        self.remove_if(|prefix| prefix.used <= newest_to_go);
    }
}

#[cfg(test)]
mod tests;
