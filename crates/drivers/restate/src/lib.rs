//! Runs of Neuraxis as durable executions of [Restate](https://restate.dev).
//!
//! **For** runs that outgrow one process. [`RestateDispatcher`] hands runs over in the processes that accept requests;
//! a [`Worker`] drives them. A session is a virtual object of Restate, so its runs are driven one at a time. A run is
//! an invocation of that object. Each answer that the run waited for is a step in the invocation's journal, and the
//! step is complete once its records are in the session store. A run that waits for approval is an invocation that
//! waits for a signal, and needs no process in the meantime.
//!
//! **Not for** storage: the records in the store, which servers and workers share, are the source of truth. If a worker
//! dies during a step, Restate repeats the step, and the run's log decides what that means: a call is repeated only if
//! its class allows it, and otherwise its outcome is reported as unknown. The journal holds the names of steps, but no
//! content.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use neuraxis_engine::Orchestrator;
//! use neuraxis_restate::{RestateConfig, RestateDispatcher, Worker};
//!
//! # async fn wire(server: neuraxis_engine::OrchestratorBuilder, worker: Orchestrator) -> Result<(), Box<dyn std::error::Error>> {
//! let restate = RestateConfig::default();
//! // Where requests are accepted:
//! let server = server.dispatcher(Arc::new(RestateDispatcher::new(&restate)?)).build()?;
//! // Where runs are driven, on the same store:
//! let worker = Worker::bind(&restate, worker.runs()).await?;
//! worker.serve(std::future::pending()).await;
//! # let _ = server;
//! # Ok(())
//! # }
//! ```

mod admin;
mod cancel_watch;
mod config;
mod deployment;
mod dispatcher;
mod object;
mod refusals;
mod registration;
mod worker;

pub use admin::{AdminError, Registered, Restate};
pub use config::{ConfigFault, RestateConfig};
pub use dispatcher::RestateDispatcher;
pub use worker::{Worker, WorkerError};
