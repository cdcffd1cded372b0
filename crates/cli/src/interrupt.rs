//! Ctrl-C and the other signals that end a process: the first one stops the work in an orderly way.
//!
//! SIGTERM comes from process managers, and SIGHUP when the terminal goes away. Both are handled like Ctrl-C. Signals
//! that the parent process set to be ignored, such as SIGHUP under `nohup`, stay ignored.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::progress;
use crate::terminal;

/// How long the work may take to end after a signal. The sender kills the process sooner or later.
const GRACE: Duration = Duration::from_secs(5);

/// How long after the first signal a duplicate of it may arrive, since it is sent to the process and to its group. A
/// second key press within this time is ignored.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(200);

/// The signal that told the process to end.
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

    /// Returns the signal's number, which is the same on all systems that have the signal.
    const fn number(self) -> u8 {
        match self {
            Self::Interrupt => 2,
            Self::Terminate => 15,
            Self::HangUp => 1,
        }
    }

    /// Returns the exit code of a command that this signal ended, by the convention of shells.
    pub(crate) const fn exit_code(self) -> u8 {
        128 + self.number()
    }

    /// Returns the word that is shown to the user.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupted",
            Self::Terminate => "terminated",
            Self::HangUp => "hung up",
        }
    }

    /// Returns the recorded reason for cancelling a run.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupted",
            Self::Terminate => "the process was told to end",
            Self::HangUp => "the terminal went away",
        }
    }
}

/// Receives signals from when it is created until it is dropped; outside that time they go unnoticed. Once one was
/// created, these signals no longer end the process, permanently.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    streams: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    /// Starts listening.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let handled = Signal::ALL.into_iter().filter(|it| !is_ignored(*it));
        let streams = handled.map(|it| {
            let kind = SignalKind::from_raw(i32::from(it.number()));
            Ok((it, signal(kind)?))
        });
        Ok(Self {
            streams: streams.collect::<io::Result<_>>()?,
        })
    }

    /// Starts listening.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Discards signals of one kind that have already arrived. A signal that another listener received at this moment
    /// may still be on its way to this listener, so polling for it is not enough: it would arrive later.
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

    /// Discards signals of one kind that have already arrived.
    #[cfg(not(unix))]
    pub(crate) fn forget(&mut self, _signal: Signal) -> io::Result<()> {
        Ok(())
    }

    /// Returns the next signal that has already arrived.
    pub(crate) fn try_next(&mut self) -> Option<Signal> {
        self.next().now_or_never()
    }

    /// Returns the next signal. Never returns if signals are not available.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no signal.
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

    /// Returns the next signal. Never returns if signals are not available.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Returns whether the parent process set this signal to be ignored.
#[cfg(target_os = "linux")]
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal.number() - 1)) != 0)
}

/// If that cannot be known, a lost terminal ends the process as usual, because `nohup` must work.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_ignored(signal: Signal) -> bool {
    signal == Signal::HangUp
}

/// Records whether the process was told to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    /// The number of the signal; 0 for none.
    number: Arc<AtomicU8>,
}

impl Interrupt {
    /// Calls `stop` on the first signal, and ends the process on a second Ctrl-C.
    pub(crate) fn watch(stop: impl Fn(Signal) + Send + 'static) -> Self {
        let interrupt = Self::default();
        let handle = interrupt.clone();
        // If listening fails, signals end the process immediately.
        if let Ok(signals) = Signals::listen() {
            tokio::spawn(handle.handle_signals(signals, stop, |_| NextCtrlC::Exits));
        }
        interrupt
    }

    /// Calls `stop` on the first signal, calls `hint` on a second Ctrl-C to say that the work is ending, and ends the
    /// process on the third. Listens until the returned value is dropped; the process continues afterwards.
    pub(crate) fn listen(
        stop: impl Fn(Signal) + Send + 'static,
        hint: impl Fn() + Send + 'static,
    ) -> SignalGuard {
        let interrupt = Self::default();
        let handle = interrupt.clone();
        let on_ctrl_c = move |count| match count {
            0 => {
                hint();
                NextCtrlC::Waits
            }
            _ => NextCtrlC::Exits,
        };
        let signals = Signals::listen().ok();
        let task =
            signals.map(|signals| tokio::spawn(handle.handle_signals(signals, stop, on_ctrl_c)));
        SignalGuard { interrupt, task }
    }

    async fn handle_signals(
        self,
        mut signals: Signals,
        stop: impl Fn(Signal),
        on_ctrl_c: impl Fn(u8) -> NextCtrlC,
    ) {
        let first = signals.next().await;
        let duplicates_until = Instant::now() + DUPLICATE_WINDOW;
        self.number.store(first.number(), Ordering::SeqCst);
        stop(first);
        let mut ctrl_c = 0;
        let grace = tokio::time::sleep(GRACE);
        tokio::pin!(grace);
        loop {
            tokio::select! {
                signal = signals.next() => {
                    // Other signals may arrive twice, at any interval.
                    if signal == Signal::Interrupt && Instant::now() >= duplicates_until {
                        match on_ctrl_c(ctrl_c) {
                            NextCtrlC::Waits => ctrl_c += 1,
                            NextCtrlC::Exits => exit(first),
                        }
                    }
                }
                // After Ctrl-C the user can press it again.
                () = &mut grace, if first != Signal::Interrupt => exit(first),
            }
        }
    }

    /// Records a Ctrl-C that arrived as a key press instead of a signal.
    pub(crate) fn record_ctrl_c(&self) {
        let number = Signal::Interrupt.number();
        self.number.store(number, Ordering::SeqCst);
    }

    /// Returns the signal that told the process to end, if any.
    pub(crate) fn signal(&self) -> Option<Signal> {
        let number = self.number.load(Ordering::SeqCst);
        Signal::ALL.into_iter().find(|it| it.number() == number)
    }
}

/// The effect of another Ctrl-C.
enum NextCtrlC {
    Waits,
    Exits,
}

/// Ends the process immediately.
fn exit(signal: Signal) -> ! {
    progress::end();
    terminal::restore();
    std::process::exit(i32::from(signal.exit_code()))
}

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct SignalGuard {
    pub(crate) interrupt: Interrupt,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
