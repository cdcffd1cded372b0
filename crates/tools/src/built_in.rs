//! The tools that need only this machine.

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

/// Creates the tools that need only this machine: [`current_time`], [`calculate`], [`ask_user`], [`update_plan`] and
/// [`system_health`].
///
/// # Errors
///
/// The errors of [`FunctionTool::new`](crate::FunctionTool::new), which the current definitions never cause.
pub fn built_in(clock: Arc<dyn Clock>) -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
    Ok(vec![
        current_time(clock)?,
        calculate()?,
        ask_user()?,
        update_plan()?,
        system_health()?,
    ])
}
