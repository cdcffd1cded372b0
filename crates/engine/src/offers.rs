//! The lists of tools that runs are offered.

use std::sync::{Arc, Mutex, PoisonError};

use neuraxis_brainstem::works_on_files;
use neuraxis_core::{ToolName, ToolSpec};

use crate::catalog::ToolCatalog;

/// How many lists are kept. There is one per set of tools that some mode and channel offer.
const MOST: usize = 64;

/// The lists of tools that runs were offered lately. Runs with the same tools share one list: it need not be copied, and
/// adapters recognize it as one that they have encoded already.
#[derive(Debug, Default)]
pub(crate) struct Offers(Mutex<Vec<Offer>>);

/// A list of tools that runs are offered.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) tools: Arc<[ToolSpec]>,
    /// Whether any of them works on files of this machine.
    pub(crate) works_on_files: bool,
}

impl Offers {
    /// Returns the named tools of a catalog, in the order of the names.
    pub(crate) fn list(&self, catalog: &ToolCatalog, names: &[ToolName]) -> Offer {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |offer: &&Offer| offer.tools.iter().map(|spec| &spec.name).eq(names);
        if let Some(offer) = kept.iter().find(is_it) {
            return offer.clone();
        }
        let tools = names.iter().filter_map(|name| catalog.tool(name));
        let tools: Arc<[ToolSpec]> = tools.map(|tool| tool.spec().clone()).collect();
        let offer = Offer {
            works_on_files: tools.iter().any(works_on_files),
            tools,
        };
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push(offer.clone());
        offer
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_testkit::{ScriptedTool, spec};

    use super::*;

    fn names(names: &[&str]) -> Vec<ToolName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn runs_with_the_same_tools_share_one_list_in_the_order_of_their_decision() {
        let mut catalog = ToolCatalog::default();
        for name in ["look", "read"] {
            let tool = ScriptedTool::echoing(spec(name));
            catalog.add(Arc::new(tool)).unwrap();
        }
        let offers = Offers::default();
        let list = |of: &[&str]| offers.list(&catalog, &names(of)).tools;
        let both = list(&["read", "look"]);
        assert_eq!(both.first().map(|spec| spec.name.as_str()), Some("read"));
        assert!(Arc::ptr_eq(&both, &list(&["read", "look"])));
        assert_eq!(list(&["look"]).len(), 1);
        assert!(list(&["gone"]).is_empty());
    }

    #[test]
    fn only_so_many_lists_are_kept() {
        let offers = Offers::default();
        for number in 0..2 * MOST {
            offers.list(&ToolCatalog::default(), &names(&[&format!("t{number}")]));
        }
        assert_eq!(offers.0.lock().unwrap().len(), MOST);
    }
}
