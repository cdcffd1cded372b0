//! Tests of the list of public prices, which a file can replace.

use neuraxis_core::{Cost, CountLabel, MicroUsd, ModelRef, TokenCount, Usage};

use super::*;

pub(super) const LIST: &str = "checked = \"2031-01-01\"\n[prices.\"openai/gpt-9\"]\nprompt = 3.0\ncompletion = 9.0\nsource = \"https://example.com\"\n";

fn cost(config: &Config, model: &str) -> Option<Cost> {
    let usage = Usage {
        prompt: TokenCount::measured(1_000),
        ..Usage::default()
    };
    let model = ModelRef::new("openai", model);
    config.policy().cost(&usage, &model, &model)
}

#[test]
fn a_configured_price_list_replaces_the_built_in_one() {
    let machine = Machine::new();
    assert!(cost(&machine.load().unwrap(), "gpt-5.5").is_some());
    let machine = machine
        .with_file("user/prices.toml", LIST)
        .with_file("user/neuraxis.toml", "[price_list]\nfile = 'prices.toml'\n");
    let config = machine.load().unwrap();
    let estimated = Cost {
        amount: MicroUsd(3_000),
        label: CountLabel::Estimated,
    };
    assert_eq!(cost(&config, "gpt-9"), Some(estimated));
    assert_eq!(cost(&config, "gpt-9-2031-02-03"), Some(estimated));
    assert_eq!(cost(&config, "gpt-5.5"), None);
    assert_eq!(config.policy().price_list().checked(), "2031-01-01");
}

#[test]
fn configured_prices_take_precedence_over_the_list_and_are_not_estimates() {
    let machine = Machine::new().with_file(
        "user/neuraxis.toml",
        "[prices.'openai/*']\nprompt = 1.0\ncompletion = 2.0\n",
    );
    let measured = Cost {
        amount: MicroUsd(1_000),
        label: CountLabel::Measured,
    };
    assert_eq!(cost(&machine.load().unwrap(), "gpt-5.5"), Some(measured));
}

#[test]
fn an_unusable_price_list_is_named_with_its_file_and_error() {
    let machine = Machine::new()
        .with_file("user/prices.toml", "checked = 1")
        .with_file("user/neuraxis.toml", "[price_list]\nfile = 'prices.toml'\n");
    let complaint = machine.complaint();
    assert!(complaint.contains("prices.toml"), "{complaint}");
    assert!(complaint.contains("line 1, column"), "{complaint}");
    let machine =
        Machine::new().with_file("user/neuraxis.toml", "[price_list]\nfile = 'none.toml'\n");
    let complaint = machine.complaint();
    assert!(complaint.contains("none.toml"), "{complaint}");
    assert!(
        complaint.contains("cannot read the price list"),
        "{complaint}"
    );
}

#[test]
fn a_configured_price_list_is_shown_and_protected_as_a_program_file() {
    let machine = Machine::new()
        .with_file("work/prices.toml", LIST)
        .with_file(FOUND, "[price_list]\nfile = 'prices.toml'\n");
    let config = machine.load().unwrap();
    let file = machine.folder.path().join("work/prices.toml");
    let settings = config.settings();
    let shown = settings.iter().find(|it| it.key == "price_list.file");
    let shown = shown.unwrap();
    assert_eq!(shown.value, format!("{:?}", file.display().to_string()));
    assert_eq!(shown.origin.to_string(), "neuraxis.toml:2");
    let known = neuraxis_tools::ProgramFiles::default();
    let own = config.own_files(&machine.environment, known);
    assert!(format!("{own:?}").contains("prices.toml"), "{own:?}");
}

#[test]
fn trusting_a_project_covers_only_the_current_content_of_its_price_list() {
    let naming = "[price_list]\nfile = 'prices.toml'\n";
    let machine = Machine::new()
        .with_file("work/prices.toml", LIST)
        .with_file(FOUND, naming);
    let standing = |machine: &Machine| {
        let config = machine.load().unwrap();
        let found = config.found().unwrap();
        (found.trust(), cost(&config, "gpt-9").is_some())
    };
    assert_eq!(standing(&machine), (Trust::Trusted, true));

    let machine = machine.with_file("work/prices.toml", &LIST.replace("9.0", "0.0"));
    assert_eq!(standing(&machine), (Trust::Changed, false));
    let notices = machine.load().unwrap().notices().join("\n");
    let expected = "./neuraxis.toml or its list of prices was changed since it was trusted";
    assert!(notices.contains(expected), "{notices}");
    fs::remove_file(machine.folder.path().join("work/prices.toml")).unwrap();
    assert_eq!(standing(&machine), (Trust::Changed, false));
    let machine = machine.with_file("work/prices.toml", LIST);
    assert_eq!(standing(&machine), (Trust::Trusted, true));
}

#[test]
fn a_price_list_created_after_its_project_was_trusted_is_not_trusted() {
    let machine = Machine::new().with_file(FOUND, "[price_list]\nfile = 'prices.toml'\n");
    let complaint = machine.complaint();
    assert!(
        complaint.contains("cannot read the price list"),
        "{complaint}"
    );
    let machine = machine.with_file("work/prices.toml", LIST);
    let config = machine.load().unwrap();
    assert_eq!(config.found().unwrap().trust(), Trust::Changed);
    assert_eq!(cost(&config, "gpt-9"), None);
}

#[test]
fn a_project_price_list_outside_its_folder_is_reported_and_not_opened() {
    for file in ["../user/prices.toml", "./../work/prices.toml"] {
        let naming = format!("[price_list]\nfile = '{file}'\n");
        let machine = Machine::new()
            .with_file("user/prices.toml", LIST)
            .with_file("work/prices.toml", LIST)
            .with_untrusted(&naming);
        let config = machine.load().unwrap();
        let found = config.found().unwrap();
        assert!(!found.covers_prices(), "{file}");
        let [change] = found.changes() else {
            panic!("not one change: {found:?}")
        };
        let expected = ["cannot be used: ", "can only name a list in its own folder"];
        for part in expected {
            assert!(change.meaning.contains(part), "{change:?}");
        }
        let complaint = machine.with_file(FOUND, &naming).complaint();
        assert!(
            complaint.contains("or name it in your own configuration"),
            "{complaint}"
        );
    }
    let machine = Machine::new()
        .with_file("work/prices.toml", LIST)
        .with_untrusted("[price_list]\nfile = './prices.toml'\n");
    assert!(machine.load().unwrap().found().unwrap().covers_prices());
}

#[cfg(unix)]
#[test]
fn a_project_price_list_behind_a_symlink_is_not_opened() {
    for file in ["list.toml", "lists/prices.toml"] {
        let machine = Machine::new()
            .with_file("user/prices.toml", LIST)
            .with_untrusted(&format!("[price_list]\nfile = '{file}'\n"));
        let folder = machine.folder.path();
        std::os::unix::fs::symlink(folder.join("user"), folder.join("work/lists")).unwrap();
        let list = folder.join("user/prices.toml");
        std::os::unix::fs::symlink(list, folder.join("work/list.toml")).unwrap();
        let config = machine.load().unwrap();
        assert!(!config.found().unwrap().covers_prices(), "{file}");
    }
}

#[test]
fn an_unreadable_project_price_list_is_reported_with_the_reason() {
    let naming = "[price_list]\nfile = 'prices.toml'\n";
    let machine = Machine::new();
    let list = machine.folder.path().join("work/prices.toml");
    fs::write(&list, [0xff]).unwrap();
    let machine = machine.with_file(FOUND, naming);
    let complaint = machine.complaint();
    assert!(
        complaint.contains("line 1, column 1 is not UTF-8"),
        "{complaint}"
    );
    fs::remove_file(&list).unwrap();
    fs::create_dir(&list).unwrap();
    let complaint = machine.complaint();
    assert!(
        complaint.contains("it is not a regular file"),
        "{complaint}"
    );
}

#[test]
fn an_untrusted_project_reports_its_price_list_fault_in_the_words_of_the_error() {
    let naming = "[price_list]\nfile = 'prices.toml'\n";
    for list in [None, Some("checked = 1")] {
        let mut machine = Machine::new();
        if let Some(list) = list {
            machine = machine.with_file("work/prices.toml", list);
        }
        let machine = machine.with_untrusted(naming);
        let config = machine.load().unwrap();
        let found = config.found().unwrap();
        let fault = found.price_list_fault().unwrap();
        let [change] = found.changes() else {
            panic!("not one change: {found:?}")
        };
        assert_eq!(change.meaning, format!("cannot be used: {fault}"));
        assert_eq!(machine.with_file(FOUND, naming).complaint(), fault);
    }
    let usable = Machine::new()
        .with_file("work/prices.toml", LIST)
        .with_untrusted(naming);
    let config = usable.load().unwrap();
    assert_eq!(config.found().unwrap().price_list_fault(), None);
}

#[test]
fn a_model_without_a_price_causes_a_notice_when_cost_is_limited() {
    let told = |text: &str| {
        let machine = Machine::new().with_file("user/neuraxis.toml", text);
        machine.load().unwrap().notices().to_vec()
    };
    let model = "[models.reasoning]\nprovider = 'openai'\nmodel = 'mine'\n";
    for section in ["modes.moderate", "plans.team.day"] {
        let limited = format!("{model}[{section}]\nmax_cost_micro_usd = 5\n");
        let notices = told(&limited);
        let [notice] = notices.as_slice() else {
            panic!("not one notice: {notices:?}")
        };
        assert!(notice.contains("neuraxis.toml:1: "), "{notice}");
        let expected = "no price is known for openai/mine";
        assert!(notice.contains(expected), "{notice}");
        let price = "[prices.'openai/*']\nprompt = 1.0\ncompletion = 1.0\n";
        assert_eq!(told(&format!("{limited}{price}")), [""; 0]);
        let listed = limited.replace("mine", "gpt-5.5");
        assert_eq!(told(&listed), [""; 0], "the public list knows it");
        let free = limited.replace("'openai'\nmodel = 'mine'", "'offline'");
        assert_eq!(told(&free), [""; 0], "rules cost nothing");
    }
    assert_eq!(told(model), [""; 0], "nothing is limited");
}

#[test]
fn a_price_for_an_unknown_provider_causes_a_notice_with_a_suggestion() {
    let text = "[prices.'opnai/gpt-9']\nprompt = 1.0\ncompletion = 1.0\n";
    let machine = Machine::new().with_file("user/neuraxis.toml", text);
    let config = machine.load().unwrap();
    let notices = config.notices().join("\n");
    assert!(notices.contains("neuraxis.toml:1: "), "{notices}");
    assert!(notices.contains("did you mean openai?"), "{notices}");
    assert_eq!(config.price_notices(), config.notices());
}

#[test]
fn an_untrusted_project_cannot_set_a_price_list() {
    let machine = Machine::new()
        .with_file("work/prices.toml", LIST)
        .with_untrusted("[price_list]\nfile = 'prices.toml'\n");
    assert_eq!(cost(&machine.load().unwrap(), "gpt-9"), None);
}
