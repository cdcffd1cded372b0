//! The API described in OpenAPI 3.1, generated from the routes that answer.
//!
//! A route is added to [`DescribedRouter`] together with its [`Operation`], so every route has a description. Schemas are
//! generated from the types that are sent and read, and problems from the constants that are answered with. Only the
//! list of problems that a route can return is written by hand, and the tests check every answer against the document.
//!
//! Third-party protocols are described as far as this server reads and writes them itself; for the Model Context
//! Protocol, which a library handles, only the route is listed. The page is not described.

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

/// The path of the document.
const PLACE: &str = "/openapi.json";

/// An operation with its path and method.
#[derive(Debug)]
struct DescribedRoute {
    path: &'static str,
    method: Method,
    operation: Operation,
}

/// Routes with their descriptions.
#[derive(Debug)]
pub(crate) struct DescribedRouter<S> {
    router: Router<S>,
    routes: Vec<DescribedRoute>,
}

impl<S: Clone + Send + Sync + 'static> DescribedRouter<S> {
    /// Creates an empty set.
    pub(crate) fn new() -> Self {
        Self {
            router: Router::new(),
            routes: Vec::new(),
        }
    }

    /// Adds a route for GET.
    pub(crate) fn get<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(Method::GET, MethodFilter::GET, path, handler, operation)
    }

    /// Adds a route for POST.
    pub(crate) fn post<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(Method::POST, MethodFilter::POST, path, handler, operation)
    }

    /// Adds a route for DELETE.
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
        self.routes.push(DescribedRoute {
            path,
            method,
            operation,
        });
        self
    }

    /// Adds the routes of another part of the API.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.routes.extend(other.routes);
        self
    }

    /// Returns the router, including the document, which is generated on first request.
    pub(crate) fn into_router(mut self) -> Router<S> {
        let itself = operation("read_openapi", Tag::Server, "Returns this document.")
            .answers::<serde_json::Map<String, serde_json::Value>>("The document.");
        self.routes.push(DescribedRoute {
            path: PLACE,
            method: Method::GET,
            operation: itself,
        });
        let routes = self.routes;
        let text = Arc::new(LazyLock::new(move || {
            Bytes::from(document(&routes).to_string())
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
