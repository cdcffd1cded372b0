//! Runs of Neuraxis as durable executions of [Restate](https://restate.dev).
//!
//! **For** runs that outgrow one process. [`RestateDispatcher`] hands runs over where requests are taken; a [`Worker`] takes them
//! up. A session is a virtual object of Restate, so that its runs are driven one at a time; a run is an invocation of it; each
//! answer that the run waited for is a step of the invocation's journal, done once its records are in the session store. A
//! run that waits for a person is an invocation that waits for a signal: it needs no process meanwhile.
//!
//! **Not for** keeping anything: the records in the store, which servers and workers share, are the truth. A step in flight
//! when its worker dies is done again by Restate, and what that means is up to the run's log: a call is made again only if its
//! class allows, and otherwise told as unknown. The journal holds names of steps, and no content.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use neuraxis_engine::Orchestrator;
//! use neuraxis_restate::{RestateConfig, RestateDispatcher, Worker};
//!
//! # async fn wire(server: neuraxis_engine::OrchestratorBuilder, worker: Orchestrator) -> Result<(), Box<dyn std::error::Error>> {
//! let restate = RestateConfig::default();
//! // Where requests are taken:
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
