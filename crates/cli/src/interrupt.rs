//! Ctrl-C, and what else tells a process to end: the first one stops the work in an orderly way.
//!
//! SIGTERM comes from whoever manages processes, SIGHUP when the terminal goes away. Both are heard as Ctrl-C is. A signal
//! that whoever started the process wants ignored, such as SIGHUP under `nohup`, is not listened for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::progress;
use crate::terminal;

/// How long the work may take to end once the process was told to. Whoever told it kills it sooner or later.
const GRACE: Duration = Duration::from_secs(5);

/// How soon after the first signal another one comes by itself: to the process, and to its group. Who presses a key twice so fast
/// has to press it once more.
const BY_ITSELF: Duration = Duration::from_millis(200);

/// What told the process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    HangUp,
}

impl Signal {
    const ALL: [Self; 3] = [Self::Interrupt, Self::Terminate, Self::HangUp];

    /// Returns its number, which is the same on every system that has it.
    const fn number(self) -> u8 {
        match self {
            Self::Interrupt => 2,
            Self::Terminate => 15,
            Self::HangUp => 1,
        }
    }

    /// Returns the exit code of a command that it ended, as shells tell it.
    pub(crate) const fn exit_code(self) -> u8 {
        128 + self.number()
    }

    /// Returns what the user is told.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupted",
            Self::Terminate => "terminated",
            Self::HangUp => "hung up",
        }
    }

    /// Says why a run was cancelled, for the record.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupted",
            Self::Terminate => "the process was told to end",
            Self::HangUp => "the terminal went away",
        }
    }
}

/// Hears the signals from when it was made on; until then, and again once it is dropped, nobody does. Making one keeps
/// them from ending the process, for good.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    streams: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    /// Begins to listen.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let heard = Signal::ALL.into_iter().filter(|it| !is_ignored(*it));
        let streams = heard.map(|it| {
            let kind = SignalKind::from_raw(i32::from(it.number()));
            Ok((it, signal(kind)?))
        });
        Ok(Self {
            streams: streams.collect::<io::Result<_>>()?,
        })
    }

    /// Begins to listen.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Forgets those of one kind that came already. One that another listener heard this very moment may only now be on its way
    /// to this one, so that to look for it is not enough: it would be heard later.
    #[cfg(unix)]
    pub(crate) fn forget(&mut self, signal: Signal) -> io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal as listen};

        for (kind, stream) in &mut self.streams {
            if *kind == signal {
                *stream = listen(SignalKind::from_raw(i32::from(signal.number())))?;
            }
        }
        Ok(())
    }

    /// Forgets those of one kind that came already.
    #[cfg(not(unix))]
    pub(crate) fn forget(&mut self, _signal: Signal) -> io::Result<()> {
        Ok(())
    }

    /// Returns the next one of those that came already.
    pub(crate) fn heard(&mut self) -> Option<Signal> {
        self.next().now_or_never()
    }

    /// Returns the next one; never, where there are none.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses none.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// Returns the next one; never, where there are none.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Tells whether whoever started the process wants a signal ignored.
#[cfg(target_os = "linux")]
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal.number() - 1)) != 0)
}

/// Where that cannot be known, a lost terminal ends the process as it always does: `nohup` has to work.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_ignored(signal: Signal) -> bool {
    signal == Signal::HangUp
}

/// Knows whether the process was told to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    /// The number of the signal; 0 for none.
    happened: Arc<AtomicU8>,
}

impl Interrupt {
    /// Stops the work with `stop` on the first signal, and ends the process on a second Ctrl-C.
    pub(crate) fn watch(stop: impl Fn(Signal) + Send + 'static) -> Self {
        let interrupt = Self::default();
        let heard = interrupt.clone();
        // Where they cannot be listened for, they end the process at once.
        if let Ok(signals) = Signals::listen() {
            tokio::spawn(heard.hear(signals, stop, |_| Again::Ends));
        }
        interrupt
    }

    /// Stops the work with `stop` on the first signal, says with `hint` on a second Ctrl-C that it is ending, and ends the
    /// process on the third. Listens until the listening is dropped; the process lives on.
    pub(crate) fn listen(
        stop: impl Fn(Signal) + Send + 'static,
        hint: impl Fn() + Send + 'static,
    ) -> Listening {
        let interrupt = Self::default();
        let heard = interrupt.clone();
        let again = move |count| match count {
            0 => {
                hint();
                Again::IsHeard
            }
            _ => Again::Ends,
        };
        let signals = Signals::listen().ok();
        let task = signals.map(|signals| tokio::spawn(heard.hear(signals, stop, again)));
        Listening { interrupt, task }
    }

    async fn hear(self, mut signals: Signals, stop: impl Fn(Signal), again: impl Fn(u8) -> Again) {
        let first = signals.next().await;
        let by_itself = Instant::now() + BY_ITSELF;
        self.happened.store(first.number(), Ordering::SeqCst);
        stop(first);
        let mut ctrl_c = 0;
        let grace = tokio::time::sleep(GRACE);
        tokio::pin!(grace);
        loop {
            tokio::select! {
                signal = signals.next() => {
                    // Others come twice by themselves, however late.
                    if signal == Signal::Interrupt && Instant::now() >= by_itself {
                        match again(ctrl_c) {
                            Again::IsHeard => ctrl_c += 1,
                            Again::Ends => leave(first),
                        }
                    }
                }
                // A person who pressed Ctrl-C can do so again.
                () = &mut grace, if first != Signal::Interrupt => leave(first),
            }
        }
    }

    /// Notes a Ctrl-C that came as a key and not as a signal.
    pub(crate) fn note(&self) {
        let number = Signal::Interrupt.number();
        self.happened.store(number, Ordering::SeqCst);
    }

    /// Returns what told the process to end, if anything did.
    pub(crate) fn happened(&self) -> Option<Signal> {
        let number = self.happened.load(Ordering::SeqCst);
        Signal::ALL.into_iter().find(|it| it.number() == number)
    }
}

/// What another Ctrl-C does.
enum Again {
    IsHeard,
    Ends,
}

/// Ends the process at once.
fn leave(signal: Signal) -> ! {
    progress::end();
    terminal::restore();
    std::process::exit(i32::from(signal.exit_code()))
}

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) interrupt: Interrupt,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
