//! The tool `update_plan`.

use std::sync::Arc;

use neuraxis_core::{JsonText, ToolClass, ToolOutput, ToolSignal};
use neuraxis_ports::{Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::function::{DefinitionError, FunctionTool};
use crate::summary::{MAX_QUOTED_CHARS, count, one_line};

/// The maximum number of steps in a plan.
const PLAN_MAX_STEPS: usize = 50;
/// The maximum length of a step, in characters.
const PLAN_MAX_STEP_CHARS: usize = 500;

const DESCRIPTION: &str = "Records the plan for the task, so the user can see what is done and what remains. Use it \
    for tasks with several steps: once before you begin, and again whenever a step is done or the plan changes. Always \
    pass all steps: the list replaces the previous one. Keep one step in progress at a time.";

/// Creates `update_plan`: the plan that is stored with the session.
///
/// A turn that does nothing else does not count toward the turn limit.
///
/// # Errors
///
/// The errors of [`FunctionTool::new`], which the current definition never causes.
pub fn update_plan() -> Result<Arc<dyn Tool>, DefinitionError> {
    let tool = FunctionTool::with_output(
        "update_plan",
        DESCRIPTION,
        |mut plan: Plan, _ctx| async move { update(&mut plan) },
    )?;
    let tool = tool.class(ToolClass::ReadOnly).non_iterative();
    Ok(tool.never_blocks().build())
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// All steps, in order, at most 50. An empty list clears the plan.
    steps: Vec<PlanStep>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanStep {
    /// What to do, in one line.
    step: String,
    /// The status of the step.
    status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Done,
    // A synonym of done that models are used to.
    Completed,
}

#[derive(Debug, Serialize)]
struct Updated {
    pending: u64,
    in_progress: u64,
    done: u64,
    summary: String,
}

fn update(plan: &mut Plan) -> Result<ToolOutput, ToolError> {
    check(plan)?;
    for step in &mut plan.steps {
        if step.status == Status::Completed {
            step.status = Status::Done;
        }
    }
    let encode =
        |failed| ToolError::permanent(format!("the plan cannot be written as JSON: {failed}"));
    let mut output = ToolOutput::new(JsonText::encode(&report(plan)).map_err(encode)?);
    let plan = JsonText::encode(&*plan).map_err(encode)?;
    output.signal = Some(ToolSignal::Plan { plan });
    Ok(output)
}

fn check(plan: &Plan) -> Result<(), ToolError> {
    if plan.steps.len() > PLAN_MAX_STEPS {
        return Err(ToolError::permanent(format!(
            "the plan has {} steps, but at most {PLAN_MAX_STEPS} are allowed; combine some",
            plan.steps.len()
        )));
    }
    for (number, step) in (1..).zip(&plan.steps) {
        if step.step.trim().is_empty() {
            let message = format!("step {number} is empty; say what to do");
            return Err(ToolError::permanent(message));
        }
        if step.step.chars().nth(PLAN_MAX_STEP_CHARS).is_some() {
            return Err(ToolError::permanent(format!(
                "step {number} is longer than {PLAN_MAX_STEP_CHARS} characters; shorten it"
            )));
        }
    }
    Ok(())
}

fn report(plan: &Plan) -> Updated {
    let number = |status| {
        plan.steps
            .iter()
            .filter(|step| step.status == status)
            .count() as u64
    };
    let done = number(Status::Done);
    let current = plan
        .steps
        .iter()
        .find(|step| step.status == Status::InProgress);
    let now = current.map_or_else(String::new, |step| {
        format!(" Now: {}", one_line(&step.step, MAX_QUOTED_CHARS))
    });
    let summary = match plan.steps.len() as u64 {
        0 => "The plan is empty.".to_owned(),
        all => format!(
            "The plan has {}, {done} done.{now}",
            count(all, "step", "steps")
        ),
    };
    Updated {
        pending: number(Status::Pending),
        in_progress: number(Status::InProgress),
        done,
        summary,
    }
}
