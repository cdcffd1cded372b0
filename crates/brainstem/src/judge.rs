//! Judges a tool call.
//!
//! The strictest answer decides, in this order:
//!
//! 1. A tool that is not on offer is denied, and so is a tool that its mode denies. Nothing lifts that.
//! 2. Among the rules that match, deny beats ask, and ask beats allow. A rule that allows overrides an ask of the mode.
//!    Each part of a command is judged separately. If the effect of a call cannot be determined, a rule that may match
//!    asks.
//! 3. A layer above (a key, a session or an agent) may set a permission for a mode. No rule goes below that floor.
//! 4. After untrusted content, calls that write or reach out get at least the permission that the mode sets for that
//!    case.
//! 5. A user's remembered answer settles an ask that may be remembered, and nothing else. After untrusted content, only
//!    an answer about a named host counts, and only for a tool that only reads.

mod finding;

use std::collections::BTreeSet;

use neuraxis_core::{AskCause, Decision, Grant, Grants, Mode, Remember, RuleRef, Verdict, Vetting};

use crate::config::Permission;
use crate::policy::Policy;
use crate::remembered::{covers, covers_part, definition_of, kept_after_untrusted, needs};
use crate::request::Call;
use crate::rules::{Facts, Fit, Part, Rule, ToolAnswers};
use crate::trust::could_be_abused;
pub use finding::ReasonCache;
use finding::{Cause, Finding};

/// A verdict with everything that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judgment {
    /// Whether the call may run.
    pub verdict: Verdict,
    /// The reasons, one sentence each; the first one decided.
    pub reasons: Vec<String>,
    /// The rule that decided, if one did.
    pub rule: Option<RuleRef>,
    /// The remembered answer that decided, if one did.
    pub grant: Option<u32>,
}

impl Policy {
    /// Judges one call under a decision. Deny beats ask, and ask beats allow.
    ///
    /// What cannot be judged is denied: a tool that the decision does not offer, or a mode that this policy does not
    /// have, for example after a change of policy.
    #[must_use]
    pub fn judge(&self, decision: &Decision, call: &Call<'_>) -> Verdict {
        self.assess(decision, call).verdict(decision, call)
    }

    /// Like [`judge`](Self::judge), but returns everything that led to the verdict.
    #[must_use]
    pub fn explain(&self, decision: &Decision, call: &Call<'_>) -> Judgment {
        let assessment = self.assess(decision, call);
        let sentence = |finding: &Finding<'_>| finding.sentence(decision, call);
        let decided = assessment.decided();
        let mut reasons = vec![sentence(decided)];
        for finding in assessment.findings() {
            let sentence = sentence(finding);
            if !reasons.contains(&sentence) {
                reasons.push(sentence);
            }
        }
        Judgment {
            rule: decided.rule(),
            grant: assessment.grant,
            verdict: assessment.verdict(decision, call),
            reasons,
        }
    }

    /// Answers the loop's question whether a call may run. Like [`judge`](Self::judge), but also returns the sentence,
    /// the rule and the remembered answer that decided, the class that the call runs with, and whether its result is
    /// untrusted content. `reasons` caches the reasons of earlier calls under the same decision.
    #[must_use]
    pub fn vet(&self, decision: &Decision, call: &Call<'_>, reasons: &mut ReasonCache) -> Vetting {
        let assessment = self.assess(decision, call);
        let class = call.tool.class;
        let vetting = match assessment.verdict(decision, call) {
            Verdict::Allow => {
                let decided = assessment.decided();
                let sentence = || decided.sentence(decision, call);
                Vetting::Run {
                    class,
                    untrusted: false,
                    reason: Some(match (assessment.grant, &decided.cause) {
                        (Some(grant), _) => {
                            format!("Remembered answer {grant} allows it for the session.").into()
                        }
                        (None, Cause::Mode(_)) if !call.tool.annotations.confined => {
                            reasons.get(&call.tool.name, sentence)
                        }
                        (None, _) => sentence().into(),
                    }),
                    rule: decided.rule(),
                    grant: assessment.grant,
                }
            }
            verdict => Vetting::from_verdict(verdict, class),
        };
        if self.brings_untrusted(call.tool, call.arguments) {
            vetting.bringing_untrusted()
        } else {
            vetting
        }
    }

    fn assess<'a>(&'a self, decision: &'a Decision, call: &'a Call<'_>) -> Assessment<'a> {
        let tool = call.tool;
        if !decision.offers(&tool.name) {
            let rule = self.rule_denying(tool, &decision.mode, &decision.channel);
            let answers = self.modes.get(&decision.mode).map(|mode| &mode.tools);
            let denying = answers.filter(|answers| answers.answer(tool) == Permission::Deny);
            let by_mode = denying.map_or(Cause::NotOffered, Cause::Mode);
            let cause = rule.map_or(by_mode, Cause::Rule);
            return Assessment::of(Finding::deny(cause));
        }
        let Some(mode) = self.modes.get(&decision.mode) else {
            return Assessment::of(Finding::deny(Cause::NoSuchMode));
        };
        let answer = mode.tools.answer(tool);
        let by_mode = Finding {
            answer,
            cause: Cause::Mode(&mode.tools),
            remember: mode.remember,
        };
        if answer == Permission::Deny {
            return Assessment::of(by_mode);
        }
        let facts = Facts::new(call.arguments, call.root)
            .owned_by(call.owner)
            .with_functions(&self.functions);
        let mut assessment = self.by_rules(decision, call, &facts, by_mode);
        for floor in self
            .floors
            .iter()
            .filter(|floor| floor.mode == decision.mode)
        {
            let answer = floor.answers.answer(tool);
            if answer > Permission::Allow {
                assessment.add(Finding {
                    answer,
                    cause: Cause::Floor(floor.layer, &floor.answers),
                    remember: mode.remember,
                });
            }
        }
        if tool.annotations.destructive {
            // Allowing "all calls of this tool" would cover too much when a call may destroy something.
            for finding in assessment.findings_mut() {
                finding.remember = finding.remember.min(Remember::Arguments);
            }
        }
        if mode.after_untrusted > Permission::Allow && could_be_abused(tool) {
            let kept = kept_after_untrusted(tool, &facts);
            if call.is_tainted(decision) {
                assessment.add(Finding {
                    answer: mode.after_untrusted,
                    cause: Cause::Untrusted,
                    remember: kept.min(mode.remember),
                });
            } else if assessment.question_is_rememberable() && self.brings(tool, &facts) {
                // The result makes the tool's next call ask again, so an offer to remember more of the answer could not
                // be kept.
                for finding in assessment.findings_mut() {
                    finding.remember = finding.remember.min(kept);
                }
            }
        }
        if let Some(remembered) = call.remembered {
            self.recall(remembered, call, &facts, &mut assessment);
        }
        assessment
    }

    fn by_rules<'a>(
        &'a self,
        decision: &Decision,
        call: &Call<'_>,
        facts: &Facts<'_>,
        by_mode: Finding<'a>,
    ) -> Assessment<'a> {
        let rules = self
            .rules
            .about(call.tool, &decision.mode, &decision.channel);
        if rules.is_empty() {
            return Assessment::of(by_mode);
        }
        let by_part = rules.iter().any(|rule| rule.asks_for_commands());
        let parts = if by_part { facts.parts() } else { None };
        let Some(parts) = parts else {
            return Assessment::of(strictest(&rules, facts, None, &by_mode));
        };
        let mut findings = parts.iter().enumerate().map(|(index, part)| {
            let mut finding = strictest(&rules, facts, Some(part), &by_mode);
            finding.cause = finding.cause.of_part(index, part);
            finding
        });
        let first = findings.next();
        let first = first.unwrap_or_else(|| Finding::deny(Cause::Nothing));
        Assessment {
            first,
            more: findings.collect(),
            grant: None,
        }
    }

    /// Lets remembered answers settle the asks, if all of them may be remembered.
    fn recall(
        &self,
        remembered: &Grants,
        call: &Call<'_>,
        facts: &Facts<'_>,
        assessment: &mut Assessment<'_>,
    ) {
        if !assessment.question_is_rememberable() {
            return;
        }
        let grants = remembered
            .grants()
            .iter()
            .filter(|grant| grant.tool == call.tool.name && grant.policy_hash == self.hash());
        let most = assessment.remember();
        let mut grants = grants
            .filter(|grant| needs(&grant.scope) <= most)
            .peekable();
        if grants.peek().is_none() {
            return;
        }
        let definition = definition_of(call.tool, call.root);
        let grants: Vec<_> = grants
            .filter(|grant| grant.definition == definition)
            .collect();
        let whole = grants
            .iter()
            .find(|grant| covers(&grant.scope, call, facts));
        let part_wise = || {
            let parts = facts.parts()?;
            let covering = |part: &Part| {
                let covers = |grant: &&&Grant| covers_part(&grant.scope, part, facts);
                grants.iter().find(covers)
            };
            let covered = |part: &Part, index: usize| {
                assessment.allows_part(index) || covering(part).is_some()
            };
            let all = parts
                .iter()
                .enumerate()
                .all(|(index, part)| covered(part, index));
            all.then(|| parts.iter().find_map(covering)).flatten()
        };
        assessment.grant = whole.or_else(part_wise).map(|grant| grant.id);
    }
}

/// Returns the strictest answer of the rules to one part of a call, or the mode's permission if none matches.
fn strictest<'a>(
    rules: &[&'a Rule],
    facts: &Facts<'_>,
    part: Option<&Part>,
    by_mode: &Finding<'a>,
) -> Finding<'a> {
    let mut strictest: Option<Finding<'a>> = None;
    for rule in rules {
        if strictest
            .as_ref()
            .is_some_and(|found| found.answer == Permission::Deny)
        {
            break;
        }
        let finding = match rule.fits(facts, part) {
            Fit::No => continue,
            Fit::Yes => Finding {
                answer: rule.answer,
                cause: Cause::Rule(rule),
                remember: rule
                    .remember
                    .map_or(by_mode.remember, |most| most.min(by_mode.remember)),
            },
            Fit::Unclear(why) => Finding {
                answer: Permission::Ask,
                cause: Cause::Unclear(rule, why),
                remember: Remember::Never,
            },
        };
        match &mut strictest {
            // If several rules ask, the most cautious one limits how much may be remembered.
            Some(found) if found.answer == finding.answer => {
                found.remember = found.remember.min(finding.remember);
            }
            Some(found) if found.answer > finding.answer => {}
            _ => strictest = Some(finding),
        }
    }
    strictest.unwrap_or_else(|| by_mode.clone())
}

/// All findings about a call; most calls have one.
struct Assessment<'a> {
    first: Finding<'a>,
    /// One finding for each further part that was judged, then those that apply to the call as a whole.
    more: Vec<Finding<'a>>,
    grant: Option<u32>,
}

impl<'a> Assessment<'a> {
    const fn of(finding: Finding<'a>) -> Self {
        Self {
            first: finding,
            more: Vec::new(),
            grant: None,
        }
    }

    fn add(&mut self, finding: Finding<'a>) {
        self.more.push(finding);
    }

    fn findings(&self) -> impl Iterator<Item = &Finding<'a>> + Clone {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn findings_mut(&mut self) -> impl Iterator<Item = &mut Finding<'a>> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }

    /// Returns the first of the strictest findings.
    fn decided(&self) -> &Finding<'a> {
        self.more.iter().fold(&self.first, |found, finding| {
            if finding.answer > found.answer {
                finding
            } else {
                found
            }
        })
    }

    /// Returns whether the call asks the user and the answer may be remembered.
    fn question_is_rememberable(&self) -> bool {
        self.decided().answer == Permission::Ask && self.remember() > Remember::Never
    }

    /// Returns how much of one answer to all the asks may be remembered.
    fn remember(&self) -> Remember {
        let asking = self
            .findings()
            .filter(|finding| finding.answer == Permission::Ask);
        asking
            .map(|finding| finding.remember)
            .min()
            .unwrap_or_default()
    }

    /// Returns whether a part of the command needs no answer from the user and no finding on the call as a whole asks.
    fn allows_part(&self, index: usize) -> bool {
        let of_part = |finding: &&Finding<'_>| finding.cause.part() == Some(index);
        let is_allowed = |finding: &Finding<'_>| finding.answer == Permission::Allow;
        let mut above = self
            .findings()
            .filter(|finding| finding.cause.part().is_none());
        self.findings().find(of_part).is_some_and(is_allowed) && above.all(is_allowed)
    }

    /// Explains why the user is asked. Always names untrusted content: a user who allowed the same call before would
    /// wonder why it asks again.
    fn question(&self, decided: &Finding<'a>, decision: &Decision, call: &Call<'_>) -> String {
        let reason = decided.sentence(decision, call);
        let mut findings = self.findings();
        let is_about_taint = |finding: &Finding<'_>| matches!(finding.cause, Cause::Untrusted);
        match findings.find(|finding| is_about_taint(finding)) {
            Some(taint) if taint.answer == Permission::Ask && !is_about_taint(decided) => {
                format!("{reason} {}", taint.sentence(decision, call))
            }
            _ => reason,
        }
    }

    /// Returns the causes of the ask, each kind once.
    fn causes(&self) -> Vec<AskCause> {
        let asking = self
            .findings()
            .filter(|finding| finding.answer == Permission::Ask);
        let causes: BTreeSet<AskCause> = asking
            .filter_map(|finding| finding.cause.ask_cause())
            .collect();
        causes.into_iter().collect()
    }

    fn verdict(&self, decision: &Decision, call: &Call<'_>) -> Verdict {
        let decided = self.decided();
        match decided.answer {
            Permission::Allow => Verdict::Allow,
            Permission::Ask if self.grant.is_some() => Verdict::Allow,
            Permission::Ask => Verdict::Ask {
                reason: self.question(decided, decision, call),
                causes: self.causes(),
                rule: decided.rule(),
                remember: self.remember(),
            },
            Permission::Deny => Verdict::Deny {
                reason: decided.sentence(decision, call),
                rule: decided.rule(),
            },
        }
    }
}

/// The strictest permissions that a layer above sets for a mode.
#[derive(Debug, Clone)]
pub(crate) struct Floor {
    pub(crate) layer: &'static str,
    pub(crate) mode: Mode,
    pub(crate) answers: ToolAnswers,
}
