// Deciding about calls: exactly what would run, the token, denying, remembering, other arguments; tools' questions; and keys.

import assert from "node:assert/strict";
import { approve, ask, choose, focused, go, hide, listen, over, say, sees, takeWord, PHONE, WIDE } from "./world.mjs";

const question = async (page, text) => {
  await say(page, text);
  await page.waitForSelector(".ask .answers");
};

export async function approves_with_the_token(world) {
  const page = await world.open({ token: false });
  await choose(page, "Channel", "code_task");
  await question(page, "write a note");
  await sees(page, ".ask .diff .added", "+An old line.");
  await page.click("text=All arguments");
  assert.equal(JSON.parse(await page.locator(".ask .exact pre").innerText()).content, "# Notes\n\nAn old line.\n");
  await sees(page, ".ask .token", "server.token");
  await world.accessible(page, "a question");
  await page.click(".ask .primary");
  await sees(page, ".ask [role=alert]", "needs the token");
  await page.fill(".ask [type=password]", "wrong");
  await page.click(".ask .primary");
  await sees(page, ".ask [role=alert]", "does not accept");
  assert.equal(world.file("notes.md"), undefined, "nothing ran");
  assert.match(await page.getAttribute("#message", "placeholder"), /^Decide above/);
  await world.picture(page, "question-wide-light");
  await page.fill(".ask [type=password]", world.token);
  assert.ok(await page.isHidden(".ask [role=alert]"), "it is said of the one before");
  await page.selectOption(".ask .remember select", { label: "Every call of write_file in this session" });
  await page.click(".ask .primary");
  await over(page, 1);
  await page.waitForSelector("#message[placeholder^=Ask]");
  assert.equal(world.file("notes.md"), "# Notes\n\nAn old line.\n");
  await sees(page, ".line-note", "remembered for this session");
  // Usage received over two connections is counted once.
  const { used } = (await world.api("/runs")).runs[0];
  await sees(page, ".facts", `$${(used.cost_micro_usd / 1_000_000).toFixed(5)}`);
  await ask(page, "write it again");
  assert.equal(await page.locator(".ask").count(), 0, "it was remembered");
  // Other arguments are sent exactly, to the last digit.
  await question(page, "patch it");
  await sees(page, ".ask .diff .removed", "-An old line.");
  // They are filled in before the field is opened, so a user who opens it and types immediately edits these.
  const patch = await page.inputValue(".ask textarea");
  assert.match(JSON.parse(patch).patch, /A new line\./);
  await page.click("text=Edit the arguments");
  await page.fill(".ask textarea", "{");
  await page.click(".ask .primary");
  await sees(page, ".ask [role=alert]", "not JSON");
  await page.fill(".ask textarea", patch.replace("A new line.", "Another line."));
  await page.click(".ask .primary");
  await over(page, 3);
  assert.match(world.file("notes.md"), /Another line\.\nAnd one more\./);
  await page.click(".turn:last-child .call summary");
  await sees(page, ".call-body .diff .added", "Another line.");
  await world.picture(page, "changed-wide-light");
  // The run shows how long it waited, and the decision.
  await page.click(".turn:last-child .actions a");
  await page.waitForSelector(".bar.wait");
  await page.click(".bar-row:has(.bar.wait)");
  await sees(page, ".detail dt", "Waited");
  await sees(page, ".detail dd", "needs approval");
  await sees(page, ".detail dd", "rule writes (neuraxis.toml:15)");
  await sees(page, ".detail .line-note", "Approved by a user, with edited arguments");
  await sees(page, ".legend li", "Waiting");
  await world.picture(page, "waited-wide-light");
}

/** Shows a question about a call that the server does not know. */
const shown = (page, name, args, plan) => page.evaluate(async ([tool, given, limits]) => {
  const { ApprovalView } = await import("/assets/approval.js");
  const view = new ApprovalView({ run_id: "r", request: { tool_call_id: "c", name: tool, arguments: JSON.stringify(given), reason: "Asked." } }, { plan: limits });
  document.querySelector(".turns").replaceChildren(view.node);
}, [name, args, plan]);

export async function shows_all_that_would_run(world) {
  const page = await world.open();
  const patch = "--- a/readme.md\n+++ b/readme.md\n@@ -1 +1 @@\n-a\n+b\n";
  await shown(page, "apply_patch", { patch });
  assert.equal(await page.locator(".ask .diff .added").count(), 1);
  assert.deepEqual(await page.locator(".ask .diff .line[role]").evaluateAll((lines) => lines.map((line) => [line.role, line.textContent])), [["deletion", "-a"], ["insertion", "+b"]]);
  const v4a = "*** Begin Patch\n*** Update File: readme.md\n*** Move to: new.md\n@@\n-a\n+b\n*** Delete File: old.md\n*** End Patch";
  await shown(page, "apply_patch", { patch: v4a.replaceAll("\n", "\r\n") });
  assert.deepEqual(await page.locator(".ask .diff .path").allInnerTexts(), ["new.md", "old.md"]);
  assert.deepEqual(await page.locator(".ask .diff .minus").allInnerTexts(), ["−1", "deleted"]);
  assert.equal(await page.locator(".ask .diff .line").allInnerTexts().then((lines) => lines.join("\n")), v4a);
  // The path is preceded by the information that folders are created with it.
  for (const folders of [true, false]) {
    await shown(page, "write_file", { path: "a/b.md", content: "b\n", create_folders: folders });
    assert.equal(await page.locator(".ask .diff .path").innerText(), "a/b.md");
    assert.equal(await page.locator(".ask .diffs > .line-note").count(), Number(folders));
  }
  // Arguments that look like a change of a file, but contain more or belong to another tool.
  for (const [name, args] of [["shop__order", { command: "rm -rf /", patch }], ["shop__order", { patch }], ["apply_patch", { patch, command: "rm -rf /" }], ["write_file", { path: "a", content: "b", mode: "rm -rf /" }], ["write_file", { path: "a", content: "b", create_folders: "rm -rf /" }]]) {
    await shown(page, name, args);
    assert.equal(await page.locator(".ask .diff").count(), 0, name);
    assert.deepEqual(JSON.parse(await page.locator(".ask .exact pre").innerText()), args);
    assert.ok(await page.isVisible(".ask .exact pre"));
    assert.ok(await page.isHidden(".ask .unseen"));
  }
  // A multi-line string is also shown as plain text.
  const script = { command: "set -e\nmake test\n", wait: true };
  await shown(page, "shop__order", script);
  assert.equal(await page.locator(".ask .whole pre").textContent(), script.command);
  assert.deepEqual(JSON.parse(await page.locator(".ask .exact pre").innerText()), script);
  await world.picture(page, "question-script-wide-light");
  await world.accessible(page, "a question about a script");
  // The plan whose budget its run uses, if there is one.
  assert.equal(await page.locator(".ask > .hint").count(), 0);
  await shown(page, "shop__order", script, "basic");
  assert.equal(await page.locator(".ask > .hint").innerText(), "The run's usage counts toward the plan basic");
  // A long file is shown in full, and long lines can be read to their end.
  const lines = Array.from({ length: 1000 }, (_, at) => `line ${at}`);
  await shown(page, "write_file", { path: "a.sh", content: [`# ${"x".repeat(1000)}; rm -rf /`, ...lines].join("\n") });
  assert.equal(await page.locator(".ask .diff .line").count(), 1001);
  assert.ok(await page.locator(".ask .diff pre").evaluate((pre) => pre.scrollWidth <= pre.clientWidth), "nothing stands beyond the edge");
  assert.ok(await page.isHidden(".ask .unseen"));
  await world.picture(page, "question-long-wide-light");
  // If rendering would take too long, the page says so before the user decides.
  await shown(page, "write_file", { path: "a.sh", content: "x\n".repeat(6000) });
  assert.ok(await page.isVisible(".ask .unseen"));
  await world.accessible(page, "a question that is not shown as a whole");
  await world.picture(page, "question-unseen-wide-light");
  await page.click("text=Show the other 1,000 lines");
  assert.equal(await page.locator(".ask .diff .line").count(), 6000);
  await focused(page, ".ask .diff pre");
  assert.ok(await page.isHidden(".ask .unseen"));
}

export async function goes_on_with_what_a_client_brings(world) {
  const { status, run_id: run, pending } = await world.api("/sessions/house/turns", { message: "door please", tools: [{ name: "open_door" }] });
  assert.equal(status, "waiting");
  const page = await world.open({ token: false, hash: "#/sessions/house" });
  await sees(page, ".call .note", "waiting for a client");
  await sees(page, ".turn-state", "Waiting for a client");
  assert.match(await page.title(), /^Waiting for a client · /);
  await world.api(`/runs/${run}/tools/${pending[0].tool_call_id}`, { result: "It is open." });
  await sees(page, ".reply .md", "word3");
  await sees(page, ".turn-state", "Working…");
}

export async function waits_for_the_other_questions(world) {
  const page = await world.open({ token: false });
  await choose(page, "Channel", "code_task");
  await question(page, "three calls");
  const card = (at) => page.locator(".call").nth(at).locator(".ask");
  await card(2).waitFor();
  assert.equal(await page.locator(".ask .token:visible").count(), 3);
  await card(1).locator(".primary").click();
  await sees(page, ".ask [role=alert]", "needs the token");
  for (const token of ["wrong", world.token]) {
    await card(2).locator("[type=password]").fill(token);
    await card(2).locator(".danger").click();
    if (token === "wrong") await sees(page, ".ask [role=alert]", "does not accept");
  }
  await sees(page, ".line-note", "Asked because of");
  const notes = (at) => page.locator(".call").nth(at).locator(".line-note").allInnerTexts();
  const denied = ["Denied by a user", "Asked because of rule writes (neuraxis.toml:15)"];
  assert.deepEqual(await notes(2), denied);
  assert.equal(await page.locator(".ask :is(.token, [role=alert]):visible").count(), 0, "nothing asks for what was entered");
  assert.equal(await page.locator(".turn-state").innerText(), "Waiting for you");
  await world.picture(page, "questions-wide-light");
  // The questions are loaded even after repeated failures, although no record repeats that the run waits.
  await page.route("**/api/v1/approvals?*", (route) => route.fulfill({ status: 503, json: { title: "Not now" } }), { times: 1 });
  await page.reload();
  await card(0).waitFor();
  assert.equal(await page.locator(".ask").count(), 2);
  assert.equal(await page.locator(".turn-state").innerText(), "Waiting for you");
  await card(1).locator(".primary").click();
  await card(1).waitFor({ state: "detached" });
  await sees(page, ".call-below .line-note", "Approved by a user");
  await card(0).locator(".danger").click();
  await over(page, 1);
  assert.equal(await page.locator(".turn-state").innerText(), "");
  // The verdict on the approved call does not concern the first.
  assert.deepEqual(await notes(0), denied);
  // Questions that were settled are not requested again.
  const asked = [];
  page.on("request", (request) => request.url().includes("/approvals") && asked.push(request.url()));
  await page.reload();
  await over(page, 1);
  await ask(page, "private matters");
  assert.deepEqual(asked, []);
}

export async function denies_with_a_reason(world) {
  for (const [name, viewport, colorScheme] of [["wide-dark", WIDE, "dark"], ["phone-light", PHONE, "light"]]) {
    const page = await world.open({ viewport, colorScheme });
    await choose(page, "Channel", "code_task");
    await question(page, "write a note");
    // A question is shown again after a reload.
    await page.reload();
    await page.waitForSelector(".ask .answers");
    await world.picture(page, `question-${name}`);
    await world.accessible(page, `a question ${name}`);
    await page.fill(".ask [aria-label='Reason for denying']", "not today");
    assert.equal(await takeWord(page, ".ask [aria-label='Reason for denying']"), false, "an Enter that takes a word decides nothing");
    await page.click(".ask .danger");
    await over(page, 1);
    await sees(page, ".line-note", "Denied by a user: not today");
    await sees(page, ".line-note.refused", "not today");
    // The reason for asking differs from the reason for denying.
    const notes = await page.locator(".call-below .line-note").allInnerTexts();
    assert.deepEqual(notes, ["Denied by a user: not today", "Asked because of rule writes (neuraxis.toml:15)"]);
    await world.picture(page, `denied-${name}`);
    assert.equal(world.file("notes.md"), undefined);
    await page.context().close();
  }
}

export async function answers_what_a_tool_asks(world) {
  const page = await world.open({ token: false });
  const field = (label) => page.locator(".ask").getByLabel(label);
  await say(page, "shop for me");
  await page.waitForSelector(".ask .asked-field");
  await sees(page, ".ask h3", "shop asks you");
  await sees(page, ".ask .stranger", "Which one?");
  await sees(page, ".ask .line-note", "comes from the tool");
  assert.equal(await field("Pages").inputValue(), "3");
  await world.accessible(page, "a question of a tool");
  // The run still waits for it after the connection was lost.
  world.cut();
  await sees(page, ".turn-state", "Connection lost");
  world.mend();
  await page.waitForFunction(() => !document.querySelector(".turn-state").textContent.includes("Connection lost"));
  assert.equal(await page.locator(".turn-state").innerText(), "Waiting for you");
  await world.picture(page, "asked-wide-light");
  // It is shown again after a reload.
  await page.reload();
  await page.waitForSelector(".ask .asked-field");
  // The browser asks for required fields, and nothing is sent before.
  await field("Name").press("Enter");
  assert.equal(await page.locator(".ask [role=alert]").isVisible(), false);
  await field("Size").selectOption({ label: "Large" });
  await field("Ribbon").check();
  await field("Gift").selectOption({ label: "Yes" });
  await field("Name").fill("Adelaide");
  await field("Name").press("Enter");
  await sees(page, ".ask [role=alert]", "needs the token");
  await page.fill(".ask [type=password]", world.token);
  await page.press(".ask [type=password]", "Enter");
  await page.keyboard.press("Enter");
  await sees(page, ".ask [role=alert]", "at most 5 characters");
  assert.equal(await field("Name").evaluate((node) => node === document.activeElement), true, "the field at fault has the focus");
  await page.keyboard.press("ControlOrMeta+A");
  await page.keyboard.type("Ada");
  await page.keyboard.press("Enter");
  await over(page, 1);
  assert.equal(await page.locator(".ask").count(), 0);
  await sees(page, ".call-below .line-note", "Its question was answered");
  await page.click(".turn .call summary");
  for (const part of ["action:accept", "name:Ada", "pages:3", "gift:true", "size:l", "extras:[r]"]) await sees(page, ".call-body", part);
  for (const [name, viewport, colorScheme] of [["wide-dark", WIDE, "dark"], ["phone-light", PHONE, "light"]]) {
    const other = await world.open({ viewport, colorScheme });
    await say(other, "shop for me");
    await other.waitForSelector(".ask .asked-field");
    await world.picture(other, `asked-${name}`);
    await world.accessible(other, `a question of a tool ${name}`);
    await other.click(".ask .danger");
    await over(other, 1);
    await sees(other, ".call-below .line-note", "Its question was declined");
    await other.context().close();
  }
}

export async function says_of_a_key_that_may_not_decide_that_it_may_not(world) {
  const page = await world.open();
  await page.route("**/api/v1/policy", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), scopes: ["turns", "read"] } });
  });
  await page.reload();
  await choose(page, "Channel", "code_task");
  await say(page, "write a note");
  await sees(page, ".ask .line-note", "cannot decide");
  assert.equal(await page.locator(".ask :is(.answers, .edit, .remember)").count(), 0);
  // A user who cannot decide is not told that the run waits for them.
  assert.equal(await page.locator(".turn-state").innerText(), "Waiting for someone with permission to decide");
  assert.equal(await page.locator(".call .note").innerText(), "waiting for someone with permission to decide");
  assert.equal(await page.locator(".call .note").getAttribute("aria-hidden"), "true", "it is heard once");
  await sees(page, "#announcements", "write_file waits for someone with permission to decide");
  await page.waitForFunction(() => document.title === "Waiting for someone with permission to decide · write a note · Neuraxis");
  await world.accessible(page, "a question that the key may not decide");
}

export async function asks_again_for_what_could_not_be_loaded(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  const refuse = (status) => page.route("**/api/v1/approvals?*", (route) => route.fulfill({ status, json: { title: "Not now", detail: `status ${status}` } }), { times: 1 });
  await refuse(503);
  await question(page, "write a note");
  await sees(page, ".turn-state", "Waiting for you");
  assert.doesNotMatch(await page.locator(".turn-state").innerText(), /could not/);
  await refuse(403);
  await page.reload();
  await sees(page, ".turn-state", "could not be loaded: status 403");
  await world.accessible(page, "a question that could not be loaded");
  await world.picture(page, "question-not-loaded");
  await page.click(".turn-state button");
  await page.waitForSelector(".ask .answers");
  assert.equal(await page.locator(".turn-state").innerText(), "Waiting for you");
}

export async function follows_a_run_again_that_it_had_to_leave(world) {
  const page = await world.open();
  await say(page, "endless please");
  await sees(page, ".reply .md", "word3");
  await page.route("**/runs/*/events", (route) => route.fulfill({ status: 401, json: { title: "Unauthorized", detail: "this key has ended" } }));
  world.cut();
  await sees(page, ".turn-state", "Connection lost");
  world.mend();
  await page.route("**/api/v1/sessions?*", (route) => route.fulfill({ status: 401, json: { title: "Unauthorized" } }));
  const listed = page.waitForResponse("**/api/v1/sessions?*");
  await page.click("dialog >> text=Not now");
  await sees(page, ".failure", "no longer follows the run");
  await sees(page, ".failure", "this key has ended");
  await listed;
  await sees(page, ".session-list .error", "Unauthorized");
  assert.equal(await page.locator("dialog").count(), 0, "nobody is asked twice");
  await page.unroute("**/api/v1/sessions?*");
  assert.equal(await page.locator("text=Send again").count(), 0, "it is at work");
  assert.equal(await page.inputValue("#message"), "", "and was said");
  await world.accessible(page, "a run that is not followed");
  await world.picture(page, "not-followed");
  await page.unroute("**/runs/*/events");
  await page.click("text=Follow again");
  await focused(page, ".scroller");
  await sees(page, ".turn-state", "Working…");
  assert.equal(await page.locator(".failure").count(), 0);
  await page.click("[aria-label='Stop the run']");
  await over(page, 1);
  assert.equal((await page.locator(".turn .reply .md").last().innerText()).split("word3 ").length, 2, "nothing came twice");

  // A run that has ended meanwhile leaves *Stop* to the run that is now in progress.
  await say(page, "endless once more");
  await sees(page, ".turn:last-child .reply .md", "word3");
  await page.route("**/runs/*/events", (route) => route.fulfill({ status: 401, json: { title: "Unauthorized", detail: "this key has ended" } }));
  world.cut();
  await sees(page, ".turn-state", "Connection lost");
  const lost = (await world.api("/runs")).runs[0].run_id;
  await world.api(`/runs/${lost}/cancel`, {});
  world.mend();
  await page.click("dialog >> text=Not now");
  await sees(page, ".failure", "no longer follows the run");
  await page.unroute("**/runs/*/events");
  await say(page, "endless for the third time");
  await sees(page, ".turn:last-child .reply .md", "word3");
  await page.click("text=Follow again");
  await over(page, 2);
  await page.click("[aria-label='Stop the run']");
  await over(page, 3);
}

export async function asks_for_a_key(world) {
  const page = await world.open({ token: false });
  const key = world.key("--owner", "ada", "--scope", "turns,read");
  while ((await world.api("/policy")).status !== 401);
  await page.reload();
  await page.waitForSelector("dialog[open]");
  await sees(page, "#key-detail", "requires a key");
  await sees(page, "dialog p", "Ask the operator of this server for yours.");
  assert.doesNotMatch(await page.innerText("dialog"), /header/, "that is for programs");
  await world.accessible(page, "the question for a key");
  await world.picture(page, "key-wide-light");
  await page.fill("#key-field", key);
  await page.press("#key-field", "Enter");
  await choose(page, "Channel", "code_task");
  await say(page, "write a note");
  // The page says what the key does not allow.
  await sees(page, ".ask .line-note", "scope approve");
  assert.equal(await page.locator("dialog").count(), 0);
  assert.equal(world.file("notes.md"), undefined);
  assert.ok(!(await page.content()).includes(key));
}

export async function decides_with_a_key_that_a_proxy_adds(world) {
  const page = await world.open({ token: false });
  const [reads, decides] = ["turns,read", "turns,read,approve"].map((scopes) => world.key("--owner", "ada", "--scope", scopes));
  while ((await world.api("/policy")).status !== 401);
  let added = decides;
  await page.route("**/api/**", (route) => route.continue({ headers: { ...route.request().headers(), authorization: `Bearer ${added}` } }));
  await page.reload();
  await choose(page, "Channel", "code_task");
  await question(page, "write a note");
  assert.ok(await page.isHidden(".ask .token"), "this tab needs no key");
  await page.click(".ask .primary");
  await over(page, 1);
  assert.equal(world.file("notes.md"), "# Notes\n\nAn old line.\n");
  added = reads;
  await page.reload();
  await choose(page, "Channel", "code_task");
  await say(page, "write it again");
  await sees(page, ".ask .line-note", "cannot decide");
}

export async function takes_another_key_in_the_place_of_one(world) {
  const page = await world.open({ token: false });
  const [short, full] = ["approve", "turns,read"].map((scopes) => world.key("--owner", "ada", "--scope", scopes));
  while ((await world.api("/policy")).status !== 401);
  await page.reload();
  await page.fill("#key-field", short);
  await page.press("#key-field", "Enter");
  await sees(page, ".failure", "needs a key with the scope read");
  assert.equal(await page.locator("text=Try again").count(), 0, "what is not allowed stays so");
  await page.click("text=Use another key");
  await world.accessible(page, "the question for another key");
  await page.keyboard.press("Escape");
  await page.fill("#message", "private matters");
  await page.click(".side-foot [aria-label='Key or token of this tab']");
  await sees(page, "dialog h2", "Key of this tab");
  await page.fill("#key-field", full);
  await Promise.all([page.waitForEvent("load"), page.press("#key-field", "Enter")]);
  await page.locator(".choice option").first().waitFor({ state: "attached" });
  assert.equal(await page.locator(".failure").count(), 0);
  assert.equal(await page.inputValue("#message"), "private matters", "what was being written is there still");
  await page.press("#message", "Enter");
  await over(page, 1);
  await world.picture(page, "key-button-wide-light");
}

export async function says_whose_a_session_is_that_takes_no_turn(world) {
  const page = await world.open();
  const key = world.key("--owner", "ada");
  while ((await world.api("/policy")).status !== 401);
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
  await fetch(`${world.server}/api/v1/sessions/hers/turns`, { method: "POST", headers, body: JSON.stringify({ message: "private matters" }) });
  await go(page, "#/sessions/hers");
  await over(page, 1);
  await say(page, "and I");
  await sees(page, ".failure", "belongs to another user");
  assert.equal(await page.locator("text=Send again").count(), 0, "it would not help");
  await world.accessible(page, "a session of somebody else's");
}

export async function offers_a_key_what_it_may_choose(world) {
  const page = await world.open({ token: false });
  const agents = () => page.locator("[aria-label=Agent] option").allInnerTexts();
  assert.equal((await agents())[0], "Default agent");
  const key = world.key("--owner", "ada", "--scope", "turns,read", "--agents", "deep_research");
  while ((await world.api("/policy")).status !== 401);
  await page.reload();
  await page.fill("#key-field", key);
  await page.press("#key-field", "Enter");
  await page.locator("[aria-label=Agent] option").first().waitFor({ state: "attached" });
  assert.deepEqual(await agents(), ["deep research"]);
  await ask(page, "private matters");
  assert.equal(await page.locator(".failure").count(), 0);
}

export async function decides_by_keyboard_one_after_the_other(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await question(page, "three calls");
  await page.locator(".ask").nth(2).waitFor();
  await sees(page, "#announcements", "3 calls wait for your approval");
  const groups = await page.locator(".ask").evaluateAll((nodes) => nodes.map((node) => document.getElementById(node.getAttribute("aria-labelledby")).textContent));
  assert.deepEqual(groups.map((name) => name.split("? ")[1]), ["notes.md", "guarded/plan.txt", "other.md"]);
  assert.equal(await page.title(), "Waiting for you · three calls · Neuraxis");
  await sees(page, ".session-list .current", "waiting");
  await page.locator(".ask .primary").first().focus();
  const open = () => page.locator(".ask .answers").count();
  const focused = () => page.evaluate(() => [document.activeElement.className, document.activeElement.querySelector("h3 code")?.textContent]);
  for (const [left, name] of [[2, "read_file"], [1, "write_file"]]) {
    await page.keyboard.press("Enter");
    await page.waitForFunction((count) => document.querySelectorAll(".ask .answers").length === count && document.activeElement.matches(".ask"), left);
    assert.deepEqual(await focused(), ["ask", name]);
    if (left === 2) await world.picture(page, "questions-by-keyboard-wide-light");
    // Pressing a key once too often decides nothing.
    await page.keyboard.press("Enter");
    assert.equal(await open(), left);
    await page.locator(".ask:focus .primary").focus();
  }
  await page.keyboard.press("Enter");
  await over(page, 1);
  assert.equal(await page.evaluate(() => document.activeElement.matches(".scroller")), true);
  await page.waitForFunction(() => document.title === "three calls · Neuraxis");
  await page.waitForFunction(() => !document.querySelector(".session-list .tag"));
  assert.equal(world.file("other.md"), "Other.\n");
  // If the decision is made elsewhere meanwhile, the page says so, and the focus stays in the conversation.
  await question(page, "write a note");
  await page.focus(".ask [aria-label='Reason for denying']");
  await page.keyboard.type("No, because");
  await listen(page);
  await approve(world);
  await focused(page, ".scroller");
  await page.waitForFunction(() => window.told.some((text) => text.includes("write_file: Approved by a user")));
  // Nor is the focus lost if the response to a decision is lost.
  await question(page, "write a note");
  await page.route("**/approvals/*", (route) => route.fulfill({ status: 503 }), { times: 1 });
  await page.focus(".ask .primary");
  await page.keyboard.press("Enter");
  await sees(page, ".ask [role=alert]", "503");
  await focused(page, ".ask .primary");
  await page.route("**/approvals/*", async (route) => {
    await approve(world);
    await page.waitForFunction(() => !document.querySelector(".ask"));
    await route.fulfill({ status: 504 });
  }, { times: 1 });
  await page.keyboard.press("Enter");
  await focused(page, ".scroller");
  await page.waitForFunction(() => window.told.some((text) => text.includes("It has already been decided")));
}

export async function says_in_its_title_that_a_run_waits_while_nobody_looks(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await ask(page, "private matters");
  // A hidden page receives nothing of these runs: neither a question about a call nor a tool's question.
  for (const [message, card] of [["write a note", ".ask .answers"], ["shop for me", ".ask .asked-field"]]) {
    await say(page, message);
    await hide(page, true);
    await page.waitForFunction(() => document.title === "Waiting for you · private matters · Neuraxis");
    assert.equal(await page.locator(".ask").count(), 0);
    await hide(page, false);
    await page.waitForSelector(card);
    await page.click(".ask .danger");
    await page.waitForFunction(() => document.title === "private matters · Neuraxis");
    await page.waitForFunction(() => !document.querySelector(".turn-state:not(:empty)"));
  }
}

export async function says_in_its_title_that_a_run_waits_no_more_once_that_was_decided_elsewhere(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await question(page, "write a note");
  await page.waitForFunction(() => document.title === "Waiting for you · write a note · Neuraxis");
  await hide(page, true);
  await approve(world);
  // The page polls at its own pace.
  await page.waitForFunction(() => document.title === "write a note · Neuraxis", undefined, { timeout: 60_000 });
  await page.waitForFunction(() => !document.querySelector(".session-list .tag, .session-list .spins"), undefined, { timeout: 60_000 });
  assert.equal(await page.locator(".ask .answers").count(), 1, "its view stands still");
  await hide(page, false);
  await over(page, 1);
  assert.equal(await page.title(), "write a note · Neuraxis");
}

export async function leads_to_what_waits_however_old_it_is(world) {
  world.api("/sessions/old/turns", { message: "write a note", channel: "code_task" });
  while ((await world.api("/approvals")).approvals.length === 0) await new Promise((done) => setTimeout(done, 50));
  await world.api("/sessions/new/turns", { message: "markdown please" });
  const page = await world.open({ viewport: PHONE });
  // The newest sessions do not include it any more, and open questions may come in pages.
  await page.route("**/api/v1/sessions?limit=40", async (route) => {
    const { sessions } = await world.api("/sessions");
    await route.fulfill({ json: { sessions: sessions.filter(({ id }) => id === "new"), next: "0~new" } });
  });
  await page.route("**/api/v1/approvals", (route) => route.fulfill({ json: { approvals: [], next: "first" } }));
  await page.route("**/api/v1/approvals?after=first", async (route) => route.fulfill({ json: await world.api("/approvals") }));
  await page.reload();
  await sees(page, "#unfold", "1");
  assert.equal(await page.getAttribute("#unfold", "aria-label"), "Open the list of sessions; 1 of them waits for input");
  await world.accessible(page, "a sign that something waits");
  await page.click("#unfold");
  await sees(page, ".session-list section:first-child h2", "Waiting for you · 1");
  await sees(page, ".session-list section:first-child .title", "write a note");
  assert.equal(await page.locator(".session-list li").count(), 2);
  await world.accessible(page, "the list with what waits");
  await world.picture(page, "waiting-phone-light");
  await page.click("text=write a note");
  await page.waitForSelector(".ask .answers");
  await page.click(".ask .primary");
  await over(page, 1);
  await page.waitForFunction(() => document.querySelector("#waiting").hidden && document.querySelectorAll(".session-list li").length === 1);
}
