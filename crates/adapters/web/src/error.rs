//! Why a document could not be fetched, in words that a model can act on.

use std::time::Duration;

use neuraxis_ports::ToolError;

use crate::convert::ConvertError;
use crate::guard::BlockedAddress;

/// Why a document could not be fetched. Each message begins with a word that names the kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL is invalid.
    #[error("invalid_url: {why}; give a complete URL, such as https://example.org/page")]
    Url {
        /// What is wrong with it.
        why: String,
    },
    /// The address may not be reached.
    #[error(transparent)]
    Blocked(#[from] BlockedAddress),
    /// The site does not want the page to be fetched.
    #[error("robots: {host} asks programs not to fetch this page (robots.txt); use another source")]
    Robots {
        /// The name of the host.
        host: String,
    },
    /// Whether the site allows it cannot be determined.
    #[error(
        "robots: it is unknown whether programs may fetch this page: the robots.txt of {host} answers with status {status}"
    )]
    RobotsUnknown {
        /// The name of the host.
        host: String,
        /// The status of its answer.
        status: u16,
    },
    /// The site's rules cannot be read: they are compressed although that was not requested.
    #[error(
        "robots: it is unknown whether programs may fetch this page: {host} sent its robots.txt compressed ({found}) although it was asked not to; use another source"
    )]
    RobotsEncoded {
        /// The name of the host.
        host: String,
        /// The compression method.
        found: String,
    },
    /// The document is on another host, which policy must judge by its own address.
    #[error(
        "redirected: the page has moved to another site, and the redirect was not followed; if that site is acceptable, fetch {to}"
    )]
    Redirected {
        /// Its URL on that host.
        to: String,
    },
    /// There are too many redirects.
    #[error("redirects: the page redirects too often; {most} redirects were followed")]
    TooManyRedirects {
        /// The number of redirects that are followed.
        most: u32,
    },
    /// A redirect names no URL.
    #[error(
        "redirect: {host} redirects the page to something that is not a URL: {why}; use another source"
    )]
    InvalidRedirect {
        /// The name of the host.
        host: String,
        /// What is wrong with the target, which is not repeated.
        why: String,
    },
    /// The site's answer is an error status.
    #[error("http_status: {host} answers with status {status}{}", after(*retry_after))]
    Status {
        /// The name of the host.
        host: String,
        /// The status.
        status: u16,
        /// When to try again, if the site says so.
        retry_after: Option<Duration>,
    },
    /// The document's type is not text.
    #[error(
        "content_type: {found} cannot be read as text; web pages, PDF, plain text, Markdown, JSON and XML can"
    )]
    ContentType {
        /// The type, as the site names it.
        found: String,
    },
    /// The document is compressed although that was not requested.
    #[error(
        "content_encoding: the site sent the page compressed ({found}) although it was asked not to; use another source"
    )]
    Encoded {
        /// The compression method.
        found: String,
    },
    /// The document is too long, and cannot be read in part.
    #[error("too_large: the document has more than {most} bytes")]
    TooLarge {
        /// The maximum number of bytes.
        most: u64,
    },
    /// The site is too slow.
    #[error(
        "timeout: the site did not send the whole page within {}",
        neuraxis_core::duration_text::text(within)
    )]
    Timeout {
        /// The time limit.
        within: Duration,
    },
    /// Other requests to the same site are in progress, and the call's turn did not come in time.
    #[error(
        "busy: other requests to {host} are in progress, and each site gets one request at a time; try again once they have finished"
    )]
    Busy {
        /// The name of the host.
        host: String,
    },
    /// The site cannot be reached.
    #[error("unreachable: {host}: {why}")]
    Connection {
        /// The name of the host.
        host: String,
        /// The innermost cause, without the URL.
        why: String,
    },
    /// The document could not be converted to text.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The document has fewer pages.
    #[error("no_such_page: there is no page {page}; the document has {pages}, counted from 1")]
    NoSuchPage {
        /// The requested page.
        page: usize,
        /// The number of pages.
        pages: usize,
    },
    /// This program cannot fetch anything.
    #[error("no_client: cannot set up connections: {why}")]
    Client {
        /// The innermost cause.
        why: String,
    },
}

fn after(retry_after: Option<Duration>) -> String {
    let said = retry_after.map(|wait| format!("; try again in {} seconds", wait.as_secs()));
    said.unwrap_or_default()
}

impl FetchError {
    /// Returns whether the same call may succeed later.
    fn is_temporary(&self) -> bool {
        match self {
            Self::Timeout { .. }
            | Self::Busy { .. }
            | Self::Connection { .. }
            | Self::RobotsUnknown { .. } => true,
            Self::Status { status, .. } => *status == 408 || *status == 429 || *status >= 500,
            _ => false,
        }
    }
}

/// The engine never retries permanent errors; it may retry temporary ones.
impl FetchError {
    pub(crate) fn into_tool_error(self) -> ToolError {
        if self.is_temporary() {
            return ToolError::temporary(self);
        }
        ToolError::permanent(self)
    }
}
