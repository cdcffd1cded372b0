//! The error messages about invalid policies.

use std::fmt::Write;

use neuraxis_brainstem::{Policy, PolicyConfig};

const CASES: &[&str] = &[
    "[modes.moderate\nmax_turns = 5",
    "[modes.moderate]\nmax_turn = 5",
    "[modes.moderate]\nmax_turns = \"five\"",
    "[modes.moderate]\nmax_turns = -1",
    "[modes.moderate.tools]\nwriting = \"ask\"",
    "[modes.moderate.tools]\nread_only = \"maybe\"",
    "[channels.chat]\nopening = \"slowly\"",
    "[rules]\nallow = []",
    "[rules.\"no good\"]\nanswer = 'ask'",
    "[rules.r]\ntools = ['*']",
    "[rules.r]\nanswer = 'ask'",
    "[rules.r]\nanswer = 'ask'\ntools = []",
    "[rules.r]\nanswer = 'ask'\ntools = ['run_[']",
    "[rules.r]\nanswer = 'ask'\ntools = ['*']\nmodes = ['modrate']",
    "[rules.r]\nanswer = 'ask'\ntools = ['*']\nchannels = ['chatt']",
    "[rules.r]\nanswer = 'ask'\ntools = ['*']\ncommands = ['git ** push']",
    "[rules.r]\nanswer = 'deny'\ntools = ['*']\ncommands = ['git push 2>&1']",
    "[rules.r]\nanswer = 'deny'\ntools = ['*']\ncommands = ['git push && ls']",
    "[rules.r]\nanswer = 'deny'\ntools = ['*']\ncommands = [\"psql -c 'drop *'\"]",
    "[rules.r]\nanswer = 'ask'\ntools = ['*']\nhosts = ['exa*mple.org']",
    "[rules.r]\nanswer = 'ask'\ntools = ['*']\npaths = ['src/[']",
    "[rules.r]\nanswer = 'ask'\ntools = ['*']\npaths = ['src']\nhosts = ['a.org']\narguments = ['x']",
    "[rules.r]\nanswer = 'allow'\ntools = ['*']\noutside_root = true",
    "[rules.r]\nanswer = 'deny'\ntools = ['*']\noutside_root = false",
    "[rules.r]\nanswer = 'deny'\ntools = ['*']\nremember = 'tool'",
    "[rules.a]\nanswer = 'deny'\ntools = ['web_fetch']\n[rules.b]\nanswer = 'allow'\ntools = ['web_fetch']\nhosts = ['docs.rs']",
    "[rules.r]\nanswer = 'deny'\ntools = ['run_command']\ncommands = ['curl']\nmatch = [{ command = 'wget x' }]",
    "[rules.r]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ['git status']\nnot_match = [{ command = 'git status' }]",
    "[rules.r]\nanswer = 'deny'\ntools = ['*']\nmatch = [{ command = 'x' }]",
    "[trust.github]\nclass = 'read_only'",
    "[taint]\ntools = ['[']",
    "[health]\nfailures = 0",
    "[health]\ndegraded_for = '1h'",
    "[prices.gpt]\nprompt = 1.0",
    "[prices.'openai/gpt']\nprompt = -1.0",
    "[prices.'openai/gpt']\nprompt = nan",
    "[plans.free.day]\nmax_tokens = 0",
    "[modes.moderate]\napproval_expires = '0s'",
    "[channels.chat]\nsimple_role = 'rooter'",
    "[channels.chat]\nclarify = 'sometimes'",
    "[channels.chat.escalate]\nafter_failures = 3",
    "[modes.\"no good\"]\nmax_turns = 5",
    "[channels.\"\\u001b[31m\"]\nrole = \"router\"",
    "[modes.moderat]\nmax_turns = 5",
    "[modes.moderate]\nroles = [\"resoning\"]",
    "[modes.moderate]\nroles = []",
    "[modes.moderate]\nmax_turns = 0",
    "[modes.moderate]\ntool_timeout = \"10us\"",
    "[modes.moderate]\nmax_output_tokens = 0",
    "[modes.moderate]\ntemperature = 2.5",
    "[modes.moderate]\ntemperature = nan",
    "[modes.moderate.tools]\nread_only = \"deny\"\nidempotent = \"deny\"\nirreversible = \"deny\"",
    "[channels.code_tsk]\ntools = [\"read_file\"]",
    "[channels.billing]\ntools = [\"invoice_*\"]",
    "[channels.chat]\nrole = \"resoning\"",
    "[channels.chat]\nprofile = \"main\"",
    "[channels.chat]\nprofile = \"research_supervisor\"",
    "[channels.chat]\nagent = \"reseacher\"",
    "[agents.\"no good\"]\nrole = \"coding\"",
    "[agents.mine]\nrole = \"coder\"",
    "[agents.mine]\nafter_calls_role = \"rooter\"",
    "[agents.mine]\ncompaction = { summarize = { role = \"rooter\" } }",
    "[agents.mine]\ncompaction = \"summarize\"",
    "[agents.mine]\nmax_turns = 0",
    "[agents.mine]\ntemperature = 3",
    "[agents.mine]\nmax_output_tokens = 0",
    "[agents.mine]\nparallel_agents = 0",
    "[agents.mine]\ntool_retries = 9",
    "[agents.mine]\ntools = [\"read_[\"]",
    "[agents.mine]\nagents = [\"reseacher\"]",
    "[agents.mine]\nfan_out = \"a b\"",
    "[agents.mine]\ntool_name = \"a b\"",
    "[agents.mine]\nparalel = \"all\"",
    "[agents.mine]\nparallel = \"some\"",
    "[agents.mine]\nno_calls = { remind = { prompt = \"Call submit.\" } }",
    "[agents.mine.results.read_file]\nmax_char = 3",
    "[agents.a]\ntool_name = \"ask\"\n[agents.b]\ntool_name = \"ask\"\n[agents.c]\nagents = [\"a\", \"b\"]",
    "[channels.chat]\ntools = [\"read_[\"]",
    "[channels.chat]\ntools = [\"{a,b\"]",
    "[channels.chat]\ntools = [\"\"]",
    "[channels.chat]\nallowed_modes = [\"explorative\"]",
    "[channels.chat]\nallowed_modes = []",
    "[channels.chat.when.yolo]\ntools = []",
    "[channels.deep_research.when.moderate]\ntools = []",
    "[channels.code_task.when.conservative]\nroles = [\"coder\"]",
    "[channels.chat]\nopening = { gather = { role = \"router\", tool = \"system_health\", default_arguments = \"{}\" } }",
    "[channels.chat]\nopening = { gather = { role = \"rooter\", tool = \"calculate\", default_arguments = \"{}\" } }",
    "[channels.chat]\nopening = { gather = { role = \"router\", tool = \"calculate\", default_arguments = \"[1]\" } }",
    "[channels.chat]\nopening = { gather = { role = \"router\", tool = \"no good\", default_arguments = \"{}\" } }",
    "[channels.chat]\nopening = { gather = { role = \"router\", tool = \"calculate\" } }",
    "[plans.free]\nmax_cost_micro_usd = 0",
];

#[test]
fn an_invalid_policy_is_refused_with_the_key_and_a_way_out() {
    let mut listing = String::new();
    for case in CASES {
        let policy = PolicyConfig::from_toml(case).and_then(Policy::layered);
        let message = policy.map(drop).unwrap_err().to_string();
        assert!(
            !message.contains(|letter: char| letter.is_control() && letter != '\n'),
            "{message:?}"
        );
        writeln!(listing, "{case}\n  -> {message}\n").unwrap();
    }
    insta::assert_snapshot!(listing);
}
