//! The catalog of this moment: the tools that an engine was built with, and those that come and go.
//!
//! A catalog is never changed. When a source says that its tools did, the next one who looks makes another, and whoever
//! has the one before keeps it. Not for offering tools: that is decided for each request.

use std::sync::{Arc, PoisonError, RwLock};

use neuraxis_brainstem::Policy;
use neuraxis_core::SERVER_SEPARATOR;
use neuraxis_ports::ToolSource;

use crate::catalog::ToolCatalog;
use crate::foreign_tool::ForeignTool;

/// Where catalogs come from.
#[derive(Debug)]
pub(crate) struct Catalogs {
    /// The tools that are always there. Their names are never another's.
    base: ToolCatalog,
    sources: Vec<Arc<dyn ToolSource>>,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    /// The versions of the sources that it was made of.
    made_of: Vec<u64>,
    catalog: Arc<ToolCatalog>,
}

impl Catalogs {
    pub(crate) fn new(base: ToolCatalog, sources: Vec<Arc<dyn ToolSource>>) -> Self {
        // A source that has no tools yet is of version 0.
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

    /// Returns the catalog of this moment, and makes it if a source changed since the last one was.
    pub(crate) fn current(&self, policy: &Policy) -> Arc<ToolCatalog> {
        // The versions are read before the tools are: what changes in between is seen the next time.
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

    /// Names the source that a tool is of, if that one has no tools now and no other tool is called so.
    pub(crate) fn source_without_tools(&self, tool: &str) -> Option<&str> {
        if self.base.specs().any(|own| own.name.as_str() == tool) {
            return None;
        }
        let source = self.sources.iter().find(|it| is_of(it.name(), tool))?;
        source.tools().is_empty().then(|| source.name())
    }

    /// Tells whether there is a source that has had no tools yet.
    pub(crate) fn awaits_any(&self) -> bool {
        self.sources.iter().any(|source| source.version() == 0)
    }

    /// Tells whether a tool is of a source that has had none yet.
    pub(crate) fn awaits(&self, tool: &str) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|source| source.version() == 0 && is_of(source.name(), tool))
    }
}

/// Tells by its name whether a tool is of a source.
fn is_of(source: &str, tool: &str) -> bool {
    let rest = tool.strip_prefix(source);
    rest.is_some_and(|rest| rest.starts_with(SERVER_SEPARATOR))
}

/// Adds the tools of a source. One that cannot be added is left out and told of: it is no fault of the run that starts.
fn add(catalog: &mut ToolCatalog, source: &dyn ToolSource, policy: &Policy) {
    let server = source.name();
    for tool in source.tools() {
        let added = ForeignTool::new(server, tool, policy);
        let added = added.and_then(|tool| catalog.add(Arc::new(tool)));
        if let Err(error) = added {
            tracing::warn!(server, %error, "a tool is left out");
        }
    }
}
