//! The tools that need nothing but this machine.

use std::sync::Arc;

use neuraxis_ports::{Clock, Tool};

use crate::ask_user::ask_user;
use crate::calculate::calculate;
use crate::current_time::current_time;
use crate::function::DefinitionError;
use crate::health::system_health;
use crate::update_plan::update_plan;

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
