//! Tools that reach the web: [`web_fetch`] reads pages, and [`web_search`] finds them.
//!
//! **For** an agent that looks things up. `web_fetch` makes Markdown of web pages, text of PDFs, and gives texts as they are,
//! page by page where they are long. It connects to public addresses alone, whatever a URL, a redirect or a name says; reads
//! `robots.txt`; asks a host for one thing at a time; and reads documents in a process of its own. `web_search` asks any
//! [`WebSearch`](neuraxis_ports::WebSearch); SearXNG, Brave and Tavily come along.
//!
//! **Not for** deciding whether a call may run: rules about hosts judge the URL of a call, and a redirect to another host is
//! given back to the model for that reason. Not for pages that only a browser can show, for forms, or for anything but reading.
//!
//! Both tools reach outside this machine, so that what they return taints the conversation.
//!
//! ```
//! use neuraxis_core::ToolClass;
//! use neuraxis_web::{WebConfig, web_fetch};
//!
//! let mut config = WebConfig::default();
//! // A wiki of one's own network; everything else there stays out of reach.
//! config.allow_hosts = vec!["wiki.corp.example:443".parse()?];
//! let tool = web_fetch(&config)?;
//! assert_eq!(tool.spec().class, ToolClass::ReadOnly);
//! assert!(tool.spec().annotations.open_world);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program that reads PDFs calls [`run_convert_helper`] first in its `main`.

mod config;
mod convert;
mod error;
mod fetch;
mod guard;
mod page;
mod recent;
mod robots;
mod search;
mod tool;
mod turns;

pub use config::WebConfig;
pub use convert::{ConvertError, run_convert_helper, use_convert_helper};
pub use error::FetchError;
pub use guard::{AllowedHost, BlockedAddress, InvalidHost, NameLookup, SystemLookup};
pub use search::{SearchConfig, SearchConfigError, SearchProvider, web_search};
pub use tool::{web_fetch, web_fetch_with};
