//! The current catalog: the tools that an engine was built with, and those of sources, whose tools can change.
//!
//! A catalog never changes. When a source reports new tools, the next access builds a new catalog, and holders of the
//! old one keep it. Not for offering tools, which is decided for each request.

use std::sync::{Arc, PoisonError, RwLock};

use neuraxis_brainstem::Policy;
use neuraxis_core::SERVER_SEPARATOR;
use neuraxis_ports::ToolSource;

use crate::catalog::ToolCatalog;
use crate::foreign_tool::ForeignTool;

/// Builds catalogs.
#[derive(Debug)]
pub(crate) struct Catalogs {
    /// The permanent tools. No source can add a tool with one of their names.
    base: ToolCatalog,
    sources: Vec<Arc<dyn ToolSource>>,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    /// The versions of the sources from which the catalog was built.
    made_of: Vec<u64>,
    catalog: Arc<ToolCatalog>,
}

impl Catalogs {
    pub(crate) fn new(base: ToolCatalog, sources: Vec<Arc<dyn ToolSource>>) -> Self {
        // A source that has had no tools yet has version 0.
        let current = Current {
            made_of: vec![0; sources.len()],
            catalog: Arc::new(base.clone()),
        };
        Self {
            base,
            sources,
            current: RwLock::new(current),
        }
    }

    /// Returns the current catalog, and rebuilds it if a source has changed since the last one was built.
    pub(crate) fn current(&self, policy: &Policy) -> Arc<ToolCatalog> {
        // Versions are read before tools, so a change in between is noticed the next time.
        let is_current = |current: &Current| {
            let made_of = current.made_of.iter().copied();
            self.sources
                .iter()
                .map(|source| source.version())
                .eq(made_of)
        };
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if is_current(&current) {
            return Arc::clone(&current.catalog);
        }
        drop(current);
        let made_of: Vec<u64> = self.sources.iter().map(|it| it.version()).collect();
        let mut catalog = self.base.clone();
        for source in &self.sources {
            add(&mut catalog, source.as_ref(), policy);
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let is_older = made_of.iter().zip(&current.made_of).any(|(a, b)| a < b);
        if current.made_of != made_of && !is_older {
            catalog.set_version(current.catalog.version() + 1);
            *current = Current {
                made_of,
                catalog: Arc::new(catalog),
            };
        }
        Arc::clone(&current.catalog)
    }

    /// Returns the source that a tool belongs to, if that source has no tools now and no other tool has this name.
    pub(crate) fn source_without_tools(&self, tool: &str) -> Option<&str> {
        if self.base.specs().any(|own| own.name.as_str() == tool) {
            return None;
        }
        let source = self.sources.iter().find(|it| is_of(it.name(), tool))?;
        source.tools().is_empty().then(|| source.name())
    }

    /// Returns `true` if any source has not had tools yet.
    pub(crate) fn awaits_any(&self) -> bool {
        self.sources.iter().any(|source| source.version() == 0)
    }

    /// Returns `true` if a tool belongs to a source that has not had tools yet.
    pub(crate) fn awaits(&self, tool: &str) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|source| source.version() == 0 && is_of(source.name(), tool))
    }
}

/// Returns `true` if a tool belongs to a source, judged by the tool's name.
fn is_of(source: &str, tool: &str) -> bool {
    let rest = tool.strip_prefix(source);
    rest.is_some_and(|rest| rest.starts_with(SERVER_SEPARATOR))
}

/// Adds the tools of a source. An invalid tool is left out with a warning, because the run that is starting is not at
/// fault.
fn add(catalog: &mut ToolCatalog, source: &dyn ToolSource, policy: &Policy) {
    let server = source.name();
    for tool in source.tools() {
        let added = ForeignTool::new(server, tool, policy);
        let added = added.and_then(|tool| catalog.add(Arc::new(tool)));
        if let Err(error) = added {
            tracing::warn!(server, %error, "skipped an invalid tool");
        }
    }
}
