//! The API described in OpenAPI 3.1, generated from the routes that answer.
//!
//! A route is added to [`DescribedRouter`] together with its [`Operation`] and with who may use it, so every route has
//! both. Schemas are generated from the types that are sent and read, and problems from the constants that are answered
//! with. Only the list of problems that a route can return is written by hand, and the tests check every answer against
//! the document.
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
use axum::routing::{MethodFilter, on};

pub(crate) use operation::{Operation, Pointers, Problems, Tag, operation};

use crate::caller::{Admission, Admissions};
use document::document;

/// The path of the document.
const PLACE: &str = "/openapi.json";

/// A method, and the filter for requests with it.
type Verb = (Method, MethodFilter);

const GET: Verb = (Method::GET, MethodFilter::GET);
const POST: Verb = (Method::POST, MethodFilter::POST);
const PATCH: Verb = (Method::PATCH, MethodFilter::PATCH);
const DELETE: Verb = (Method::DELETE, MethodFilter::DELETE);

/// An operation with its path and method.
#[derive(Debug)]
struct DescribedRoute {
    path: &'static str,
    method: Method,
    operation: Operation,
}

/// Routes with their descriptions and with who may use them.
#[derive(Debug)]
pub(crate) struct DescribedRouter<S> {
    router: Router<S>,
    routes: Vec<DescribedRoute>,
    admissions: Admissions,
}

impl<S: Clone + Send + Sync + 'static> DescribedRouter<S> {
    /// Creates an empty set.
    pub(crate) fn new() -> Self {
        Self {
            router: Router::new(),
            routes: Vec::new(),
            admissions: Admissions::default(),
        }
    }

    /// Adds a route for GET.
    pub(crate) fn get<H, T>(
        self,
        path: &'static str,
        admission: impl Into<Admission>,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.described(GET, path, admission.into(), handler, operation)
    }

    /// Adds a route for POST.
    pub(crate) fn post<H, T>(
        self,
        path: &'static str,
        admission: impl Into<Admission>,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.described(POST, path, admission.into(), handler, operation)
    }

    /// Adds a route for PATCH.
    pub(crate) fn patch<H, T>(
        self,
        path: &'static str,
        admission: impl Into<Admission>,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.described(PATCH, path, admission.into(), handler, operation)
    }

    /// Adds a route for DELETE.
    pub(crate) fn delete<H, T>(
        self,
        path: &'static str,
        admission: impl Into<Admission>,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.described(DELETE, path, admission.into(), handler, operation)
    }

    /// Adds a route for GET that is not part of the API, such as a page.
    pub(crate) fn get_undescribed<H, T>(
        self,
        path: &'static str,
        admission: impl Into<Admission>,
        handler: H,
    ) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(GET, path, admission.into(), handler)
    }

    fn described<H, T>(
        self,
        verb: Verb,
        path: &'static str,
        admission: Admission,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let (method, _) = verb.clone();
        let mut router = self.route(verb, path, admission, handler);
        let operation = match admission {
            Admission::Open => operation.needs_no_key(),
            Admission::Scope(_) => operation,
        };
        router.routes.push(DescribedRoute {
            path,
            method,
            operation,
        });
        router
    }

    fn route<H, T>(
        mut self,
        (method, filter): Verb,
        path: &'static str,
        admission: Admission,
        handler: H,
    ) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.router = self.router.route(path, on(filter, handler));
        self.admissions.add(path, method, admission);
        self
    }

    /// Adds the routes of another part of the API.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.routes.extend(other.routes);
        self.admissions.extend(other.admissions);
        self
    }

    /// Returns the router, including the document, which is generated on first request, and who may use its routes.
    pub(crate) fn into_router(mut self) -> (Router<S>, Admissions) {
        let itself = operation("read_openapi", Tag::Server, "Returns this document.")
            .answers::<serde_json::Map<String, serde_json::Value>>("The document.")
            .needs_no_key();
        self.routes.push(DescribedRoute {
            path: PLACE,
            method: Method::GET,
            operation: itself,
        });
        let routes = std::mem::take(&mut self.routes);
        let text = Arc::new(LazyLock::new(move || {
            Bytes::from(document(&routes).to_string())
        }));
        let answer = async move || {
            let document: Bytes = LazyLock::force(&text).clone();
            ([(header::CONTENT_TYPE, "application/json")], document)
        };
        // It contains nothing about this server but its version.
        let all = self.get_undescribed(PLACE, Admission::Open, answer);
        (all.router, all.admissions)
    }
}

#[cfg(test)]
mod tests;
