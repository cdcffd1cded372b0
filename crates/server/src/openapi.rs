//! The API in the form of OpenAPI 3.1, made of the very routes that answer.
//!
//! A route is added to [`Described`] with its [`Operation`], so that none is without a description. The schemas are made of
//! the types that are sent and read, and the problems of the constants that are answered with: only which of them a route
//! can answer with is said by hand, and the tests hold every answer they get against the document.
//!
//! Protocols of others are described as far as this server reads and writes them itself; of the Model Context Protocol, which
//! a library speaks, that there is such a route. Not for the page, which people look at.

mod document;
mod operation;
mod schemas;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::handler::Handler;
use axum::http::{Method, header};
use axum::routing::{MethodFilter, get, on};

pub(crate) use operation::{Operation, Pointers, Problems, Tag, operation};

use document::document;

/// Where the document is found.
const PLACE: &str = "/openapi.json";

/// An operation with where it is.
#[derive(Debug)]
struct Placed {
    path: &'static str,
    method: Method,
    operation: Operation,
}

/// Routes with what they do.
#[derive(Debug)]
pub(crate) struct Described<S> {
    router: Router<S>,
    placed: Vec<Placed>,
}

impl<S: Clone + Send + Sync + 'static> Described<S> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            router: Router::new(),
            placed: Vec::new(),
        }
    }

    /// Adds what is read.
    pub(crate) fn get<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(Method::GET, MethodFilter::GET, path, handler, operation)
    }

    /// Adds what is done.
    pub(crate) fn post<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(Method::POST, MethodFilter::POST, path, handler, operation)
    }

    /// Adds what is removed.
    pub(crate) fn delete<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let filter = MethodFilter::DELETE;
        self.route(Method::DELETE, filter, path, handler, operation)
    }

    fn route<H, T>(
        mut self,
        method: Method,
        filter: MethodFilter,
        path: &'static str,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.router = self.router.route(path, on(filter, handler));
        self.placed.push(Placed {
            path,
            method,
            operation,
        });
        self
    }

    /// Adds those of another part of the API.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.placed.extend(other.placed);
        self
    }

    /// Returns what answers, the document included. It is made when it is first asked for.
    pub(crate) fn into_router(mut self) -> Router<S> {
        let itself = operation("read_openapi", Tag::Server, "Returns this document.")
            .answers::<serde_json::Map<String, serde_json::Value>>("The document.");
        self.placed.push(Placed {
            path: PLACE,
            method: Method::GET,
            operation: itself,
        });
        let placed = self.placed;
        let text = Arc::new(LazyLock::new(move || {
            Bytes::from(document(&placed).to_string())
        }));
        let answer = async move || {
            let document: Bytes = LazyLock::force(&text).clone();
            ([(header::CONTENT_TYPE, "application/json")], document)
        };
        self.router.route(PLACE, get(answer))
    }
}

#[cfg(test)]
mod tests;
