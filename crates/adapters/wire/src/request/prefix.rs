//! Keeps the encoded beginning of conversations, so that each request encodes only what is new.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use neuraxis_core::{LlmError, Message};

use super::json::JsonWriter;

/// The most bytes of encoded conversations that a client keeps, and the most conversations.
const MAX_BYTES: usize = 32 * 1024 * 1024;
const MAX_PREFIXES: usize = 1_024;

/// The room that a conversation begins with, in bytes and messages: a prompt and a question. Thousands of runs may wait for
/// their first reply, and each keeps it.
const FIRST_BYTES: usize = 256;
const FIRST_MESSAGES: usize = 4;

/// How many conversations there must be before those that ended are looked for.
const FIRST_SWEEP: usize = 16;

/// The place of a message by which a conversation is known again in a later run: the first may be a prompt, which each run
/// has of its own.
const EARLY: usize = 1;

/// How a protocol writes messages: the rules of one request.
pub trait MessageEncoder: Debug + Clone {
    /// Returns how many messages, from the first on, these rules write as `old` ones did; `usize::MAX` for all.
    fn same_until(&self, old: &Self) -> usize;

    /// Writes a message that comes after others, with what has to stand between it and them. What is written may depend on
    /// the message, those before it and these rules, and on nothing else.
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
    messages: Vec<Written>,
    /// The messages as JSON, with what stands between them.
    bytes: Vec<u8>,
    rules: Option<R>,
    used: u64,
}

/// A message that is encoded.
#[derive(Debug)]
struct Written {
    /// It is recognized by its address in memory. A weak pointer keeps that address from being used for another message, and
    /// lets the message itself go when its run does.
    message: Weak<Message>,
    /// Where it ends in the bytes.
    end: usize,
}

impl Written {
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
    /// Returns what the messages are in the request.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns where what is written of the first messages ends in [`bytes`](Self::bytes): 0 of none of them.
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

    /// Drops what other rules would write differently.
    fn follow(&mut self, rules: &R) {
        if let Some(old) = &self.rules {
            self.truncate(rules.same_until(old));
        }
        self.rules = Some(rules.clone());
    }

    /// Keeps the beginning that is written of these messages, too. Another copy of a message is told by what is written of
    /// it, since the one that was encoded may be gone.
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

    /// Encodes what is new of the messages, and again what other rules would write differently.
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
            self.messages.push(Written {
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

    /// The conversation's last message: its key, since what a run asks next begins with all that it asked before.
    fn key(&self) -> Option<usize> {
        self.messages.last().map(Written::address)
    }

    /// What a later run of the session is known by: it has the same history, but other copies of the prompt before it and
    /// of what the earlier run said.
    fn early_key(&self) -> Option<usize> {
        self.messages.get(EARLY).map(Written::address)
    }

    /// Tells whether nobody has the conversation any more: no run that is at work on it, no store that keeps its history
    /// for the next one.
    fn has_ended(&self) -> bool {
        let known = [self.messages.last(), self.messages.get(EARLY)];
        let is_gone = |written: &Written| written.message.strong_count() == 0;
        known.into_iter().flatten().all(is_gone)
    }
}

/// The conversations that were encoded lately, so that each request of a run encodes only what is new: at most 1,024 of
/// them, and at most 32 MiB.
#[derive(Debug)]
pub struct PrefixCache<R> {
    kept: Mutex<Kept<R>>,
    max_bytes: usize,
}

impl<R: MessageEncoder> Default for PrefixCache<R> {
    fn default() -> Self {
        Self::with_room(MAX_BYTES)
    }
}

#[derive(Debug)]
struct Kept<R> {
    /// By the address of their last message.
    prefixes: HashMap<usize, Box<Prefix<R>>>,
    /// The keys of those that were kept last, by the address of an early message: thousands are kept, and a run that begins
    /// looks at none but its own.
    by_early: HashMap<usize, usize>,
    bytes: usize,
    clock: u64,
    sweep_at: usize,
}

impl<R: MessageEncoder> PrefixCache<R> {
    pub(crate) fn with_room(max_bytes: usize) -> Self {
        let kept = Kept {
            prefixes: HashMap::new(),
            by_early: HashMap::new(),
            bytes: 0,
            clock: 0,
            sweep_at: FIRST_SWEEP,
        };
        Self {
            kept: Mutex::new(kept),
            max_bytes,
        }
    }

    /// Returns the messages encoded; the longest beginning that is kept is taken out, to be given back by
    /// [`keep`](Self::keep).
    ///
    /// # Errors
    ///
    /// What the rules fail with.
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

    /// Keeps an encoded conversation for the request that goes on with it.
    pub fn keep(&self, mut prefix: Box<Prefix<R>>) {
        let Some(key) = prefix.key() else { return };
        if prefix.bytes.len() > self.max_bytes {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        prefix.used = kept.clock;
        kept.bytes += prefix.bytes.len();
        if let Some(early) = prefix.early_key() {
            kept.by_early.insert(early, key);
        }
        if let Some(old) = kept.prefixes.insert(key, prefix) {
            kept.bytes -= old.bytes.len();
        }
        kept.make_room(self.max_bytes);
    }

    fn take(&self, messages: &[Arc<Message>]) -> Option<Box<Prefix<R>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let key = messages.iter().rev().find_map(|message| {
            let key = Arc::as_ptr(message).addr();
            let prefix = kept.prefixes.get(&key)?;
            prefix.is_of(messages).then_some(key)
        })?;
        kept.take(key)
    }

    /// Takes the conversation out that was kept last of an earlier run of the same session.
    fn take_of_earlier_run(&self, messages: &[Arc<Message>]) -> Option<Box<Prefix<R>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let early = Arc::as_ptr(messages.get(EARLY)?).addr();
        let key = *kept.by_early.get(&early)?;
        kept.take(key)
    }
}

impl<R: MessageEncoder> Kept<R> {
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

    /// Forgets the conversations that a rule names.
    fn forget(&mut self, goes: impl Fn(&Prefix<R>) -> bool) {
        let prefixes = self.prefixes.extract_if(|_, prefix| goes(prefix));
        self.bytes -= prefixes
            .map(|(_, prefix)| prefix.bytes.len())
            .sum::<usize>();
        let prefixes = &self.prefixes;
        self.by_early.retain(|_, key| prefixes.contains_key(key));
    }

    fn make_room(&mut self, max_bytes: usize) {
        if self.prefixes.len() >= self.sweep_at || self.bytes > max_bytes {
            self.forget(Prefix::has_ended);
            self.sweep_at = (2 * self.prefixes.len()).max(FIRST_SWEEP);
        }
        while self.bytes > max_bytes || self.prefixes.len() > MAX_PREFIXES {
            self.forget_oldest();
        }
    }

    /// Forgets those that were not used for longest: one in eight, since to find them takes a look at each, which would be
    /// much for every new conversation.
    fn forget_oldest(&mut self) {
        let mut used: Vec<u64> = self.prefixes.values().map(|prefix| prefix.used).collect();
        used.sort_unstable();
        let newest_to_go = used.get(used.len() / 8).copied().unwrap_or(self.clock);
        self.forget(|prefix| prefix.used <= newest_to_go);
    }
}

#[cfg(test)]
mod tests;
