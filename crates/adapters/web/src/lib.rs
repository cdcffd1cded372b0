//! Tools that access the web: [`web_fetch`] reads pages, and [`web_search`] finds them.
//!
//! **For** an agent that looks things up. `web_fetch` turns web pages into Markdown and PDFs into text, and returns
//! text documents unchanged; long documents are returned in pages. It connects only to public addresses, whatever a
//! URL, a redirect or a host name says. It respects `robots.txt`, sends one request at a time to each host, and reads
//! documents in a separate process. `web_search` uses any [`WebSearch`](neuraxis_ports::WebSearch); SearXNG, Brave and
//! Tavily are included.
//!
//! **Not for** deciding whether a call may run: policy rules about hosts judge the URL of a call, so a redirect to
//! another host is returned to the model instead of being followed. Nor for pages that only a browser can show, for
//! forms, or for anything but reading.
//!
//! Both tools reach outside this machine, so their results taint the conversation.
//!
//! ```
//! use neuraxis_core::ToolClass;
//! use neuraxis_web::{WebConfig, web_fetch};
//!
//! let mut config = WebConfig::default();
//! // A wiki in your own network; everything else there stays out of reach.
//! config.allow_hosts = vec!["wiki.corp.example:443".parse()?];
//! let tool = web_fetch(&config)?;
//! assert_eq!(tool.spec().class, ToolClass::ReadOnly);
//! assert!(tool.spec().annotations.open_world);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program that reads PDFs must call [`run_convert_helper`] first in its `main`.

mod config;
mod convert;
mod error;
mod fetch;
mod guard;
mod lru_cache;
mod named_locks;
mod page;
mod robots;
mod search;
mod tool;

pub use config::WebConfig;
pub use convert::{ConvertError, run_convert_helper, use_convert_helper};
pub use error::FetchError;
pub use guard::{AllowedHost, BlockedAddress, InvalidHost, NameLookup, SystemLookup};
pub use search::{SearchConfig, SearchConfigError, SearchProvider, web_search};
pub use tool::{web_fetch, web_fetch_with};
