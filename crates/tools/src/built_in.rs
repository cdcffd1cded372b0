//! The tools that need nothing but this machine.

mod ask_user;
mod calculate;
mod current_time;
mod health;
mod update_plan;

use std::sync::Arc;

use neuraxis_ports::{Clock, Tool};

use crate::function::DefinitionError;

pub use ask_user::ask_user;
pub use calculate::calculate;
pub use current_time::current_time;
pub use health::system_health;
pub use update_plan::update_plan;

/// Makes the tools that need nothing but this machine: [`current_time`], [`calculate`], [`ask_user`], [`update_plan`] and
/// [`system_health`].
///
/// # Errors
///
/// As [`FunctionTool::new`](crate::FunctionTool::new); not with the definitions as they stand.
pub fn built_in(clock: Arc<dyn Clock>) -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
    Ok(vec![
        current_time(clock)?,
        calculate()?,
        ask_user()?,
        update_plan()?,
        system_health()?,
    ])
}
