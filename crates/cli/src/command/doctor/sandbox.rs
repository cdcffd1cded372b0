//! What keeps a command inside the project on this machine.

use neuraxis::tools::{SandboxFeature, SandboxFeatures, sandbox_features};

use super::check::{Check, Outcome};
use super::surroundings::SUBJECT;

const NAME: &str = "sandbox";

/// Tells which parts of the sandbox there are, one by one, or why no command is run.
pub(super) fn all() -> Vec<Check> {
    match sandbox_features() {
        Ok(features) => found(features),
        Err(why) => {
            let detail = format!("commands cannot be confined, so run_command runs none: {why}");
            vec![Check::new(SUBJECT, NAME, Outcome::Warning, detail).fix(
                "boot a kernel with Landlock (Linux 5.13 or newer; 6.2 without namespaces), or go on without commands",
            )]
        }
    }
}

fn found(features: &SandboxFeatures) -> Vec<Check> {
    let there = SandboxFeature::ALL.into_iter();
    let there = there.filter(|feature| features.has(*feature));
    let there: String = there.map(|feature| format!(", {feature}")).collect();
    let landlock = format!("Landlock {}{there}", features.landlock);
    let missing = features.missing.iter().map(|(feature, why)| {
        let detail = format!("no {feature} ({why}): {}", feature.without());
        Check::new(SUBJECT, NAME, Outcome::Warning, detail).fix(match feature {
            SandboxFeature::SystemCalls => "run it on x86_64 or aarch64, with a kernel that has seccomp filters",
            _ => "let users make namespaces (sysctl user.max_user_namespaces; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0)",
        })
    });
    let mut checks = vec![Check::new(SUBJECT, NAME, Outcome::Ok, landlock)];
    checks.extend(missing);
    checks
}
