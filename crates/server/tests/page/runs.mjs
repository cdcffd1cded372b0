// Inspecting runs: the list, the waterfall, the log with its filters, the replay.

import assert from "node:assert/strict";
import { approve, ask, choose, go, has, hold, over, say, sees, PHONE, WIDE } from "./world.mjs";

export async function shows_what_a_run_did(world) {
  for (const [name, viewport, colorScheme] of [["wide-light", WIDE, "light"], ["wide-dark", WIDE, "dark"], ["phone-light", PHONE, "light"], ["phone-dark", PHONE, "dark"]]) {
    const page = await world.open({ viewport, colorScheme });
    await choose(page, "Channel", "code_task");
    await ask(page, "plan it");
    await sees(page, ".group summary", "3 tool calls · 2 done · 1 failed");
    assert.doesNotMatch(await page.locator(".turn").innerText(), /not tried again/, "what is for the log stands in the log");
    await page.click(".group > summary");
    assert.equal(await page.locator(".group .call").first().isVisible(), false, "it can be folded away");
    await page.click(".group > summary");
    await world.picture(page, `calls-${name}`);
    await world.accessible(page, `calls ${name}`);
    await page.click(".actions a");
    await page.waitForFunction(() => document.querySelectorAll(".bar-row").length === 9);
    assert.equal(await page.locator(".bar.model").count(), 4);
    assert.equal(await page.locator(".bar.failed").count(), 1);
    await sees(page, ".bar-name", "failed: read_file");
    await sees(page, ".bar-facts", "1,200 → ");
    await sees(page, ".facts-list", "$0.0");
    await world.picture(page, `waterfall-${name}`);
    await world.accessible(page, `waterfall ${name}`);
    await sees(page, ".legend li", "paler until its first output");
    // A bar shows its details beside the others, and links to its record.
    await page.click(".bar-row >> nth=6");
    await sees(page, ".detail .sent.tool", "not_found");
    await sees(page, ".detail dd", "scripted");
    await sees(page, ".detail dt", "Started after");
    await sees(page, ".detail .sent.assistant", "update_plan");
    await page.click("text=/earlier messages/");
    await sees(page, ".detail .sent.user", "plan it");
    await world.picture(page, `detail-model-${name}`);
    await world.accessible(page, `details of a model call ${name}`);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".detail").count(), 0);
    assert.ok(await has(page, ".bar-row"), "where it was opened from");
    await page.click(".bar-row >> nth=1");
    await sees(page, ".detail dd", "may run");
    await sees(page, ".detail .why", "because it reads");
    await sees(page, ".detail pre", "Look at the project");
    assert.equal(await page.locator(".bar-row").count(), 9, "the others stay");
    await world.picture(page, `detail-tool-${name}`);
    await world.accessible(page, `details of a tool ${name}`);
    await page.click("[aria-label='Show the record in the events'], .detail >> text=Record");
    await page.waitForSelector(".log details[open]");
    await sees(page, ".log details[open] pre", "\"type\": \"tool_call\"");
    await page.selectOption("[aria-label=Kind]", "tool_result");
    assert.equal(await page.locator(".log > li").count(), 5);
    await page.fill(".filters [type=search]", "missing.txt");
    await page.waitForFunction(() => document.querySelectorAll(".log > li").length === 1);
    await sees(page, "#announcements", "1 of ");
    await world.accessible(page, `events ${name}`);
    await world.picture(page, `events-${name}`);
    await page.focus("[role=tab][aria-selected=true]");
    await page.keyboard.press("ArrowRight");
    await sees(page, ".stage .md", "The first two steps are done");
    await page.fill(".slider", "1");
    await page.waitForFunction(() => document.querySelectorAll(".stage .call").length === 0);
    await page.click("[aria-label='Step forward']");
    await page.click("[aria-label='Step forward']");
    await page.waitForFunction(() => document.querySelectorAll(".stage .call").length === 1);
    await sees(page, ".stage .bubble", "plan it");
    await sees(page, "#announcements", "3 of ");
    await world.accessible(page, `replay ${name}`);
    await world.picture(page, `replay-${name}`);
    await page.goto(`${world.url}/#/runs`);
    await page.waitForSelector(".runs tbody tr");
    await world.accessible(page, `runs ${name}`);
    await world.picture(page, `runs-${name}`);
    await page.goto(`${world.url}/#/stats`);
    await page.waitForSelector(".stats tbody tr");
    assert.equal(await page.locator(".stats .table").count(), 5);
    await sees(page, ".stats .facts-list", "Model calls");
    await page.selectOption("[aria-label=Time]", "0");
    await page.waitForSelector(".stats-bar span");
    await sees(page, "#announcements", "Statistics: All time");
    const places = await page.locator(".stats table").evaluateAll((tables) => tables.map((table) => [...table.rows[0].cells].map((cell) => Math.round(cell.getBoundingClientRect().right)).join()));
    assert.equal(new Set(places).size, 1, `the columns of all tables stand beneath each other: ${places.join(" ")}`);
    await world.accessible(page, `stats ${name}`);
    await world.picture(page, `stats-${name}`);
    await page.context().close();
  }
}

/** Starts a run that waits for an approval, and inspects it. */
async function looks_at_one_that_waits(world, page, text) {
  await say(page, text);
  await page.waitForSelector(".ask .answers");
  await go(page, `#/runs/${(await world.api("/runs")).runs[0].run_id}`);
  await sees(page, ".status", "waiting");
}

export async function lets_a_run_at_work_grow_with_the_clock(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await looks_at_one_that_waits(world, page, "write a note");
  await page.waitForSelector(".bar.wait.open");
  await sees(page, ".bar-detail", "notes.md · waiting for approval");
  await sees(page, ".run-head a", "Decide in the session");
  await page.evaluate(() => { window.kept = [...document.querySelectorAll(".bar-row")]; });
  // Twice, so that it grows with the clock and not with new records.
  for (let time = 0; time < 2; time += 1) {
    const shown = await page.evaluate(() => {
      const waits = document.querySelector(".bar.wait.open").closest(".bar-row").querySelector(".bar-took");
      window.grows = [waits, [...document.querySelectorAll(".run-head .facts-list > div")].findIndex((fact) => fact.firstChild.textContent === "Took")];
      window.told = () => [window.grows[0].textContent, document.querySelectorAll(".run-head dd")[window.grows[1]].textContent];
      return window.told();
    });
    await page.waitForFunction((before) => window.told().every((text, at) => / s$/.test(text) && text !== before[at]), shown);
  }
  assert.ok(await page.evaluate(() => window.kept.every((row) => row.isConnected)), "what may be pressed stays");
  await go(page, "#/runs");
  await sees(page, ".runs td", " s…");
  await go(page, `#/runs/${(await world.api("/runs")).runs[0].run_id}`);
  await approve(world);
  await sees(page, ".status", "done");
  await sees(page, ".run-head a", "Open the session");
  await page.waitForFunction(() => !document.querySelector(".bar.open"));
}

export async function leaves_what_is_read_of_a_run_at_work(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await looks_at_one_that_waits(world, page, "write a note");
  await page.click("#tab-log");
  await sees(page, ".log .kind", "approval_requested");
  await page.click(".log > li:nth-child(2) summary");
  await page.waitForSelector(".log details[open] pre");
  await page.evaluate(() => { window.kept = [document.activeElement, ...document.querySelectorAll(".log > li, .filters option")]; });
  await approve(world);
  await sees(page, ".log .kind", "final");
  assert.deepEqual(await page.evaluate(() => [window.kept.every((node) => node.isConnected), document.activeElement === window.kept[0]]), [true, true]);
  assert.equal(await page.locator(".log details[open] pre").count(), 1, "it stays unfolded");
  const kinds = await page.locator("[aria-label=Kind] option").evaluateAll((options) => options.map((option) => option.value));
  assert.ok(kinds.includes("final"));
  assert.deepEqual(kinds, [...kinds].sort());
  const seqs = (await page.locator(".log .seq").allTextContents()).map(Number);
  assert.deepEqual(seqs, seqs.map((_, at) => at + 1), "in their order");
  await page.selectOption("[aria-label=Kind]", "tool_result");
  assert.equal(await page.locator(".log > li").count(), 1);
  await page.selectOption("[aria-label=Kind]", "");
  assert.equal(await page.locator(".log > li").count(), seqs.length);
  await page.fill(".filters [type=search]", "nothing is like this");
  await sees(page, ".empty", "No matching records.");
  await world.accessible(page, "a log without a record");
}

export async function says_nothing_of_a_run_before_it_is_known(world) {
  await world.api("/sessions/talk/turns", { message: "markdown please" });
  const [{ run_id: run }] = (await world.api("/runs")).runs;
  const page = await world.open({ token: false, hash: "#/stats" });
  const { asked } = await hold(page, "**/api/v1/runs/*/events");
  await go(page, `#/runs/${run}`);
  const loading = await asked;
  await sees(page, ".run-head h1", "markdown please");
  assert.ok(await page.isVisible("#main .skeleton"));
  assert.ok(await page.isHidden("[role=tablist]"));
  await world.picture(page, "run-loading-wide-light");
  await loading.continue();
  await page.waitForSelector(".bar.model");
  assert.equal(await page.locator("#main .skeleton").count(), 0);
  await go(page, "#/runs/00000000-0000-7000-8000-000000000000");
  await sees(page, ".failure", "No such run");
  assert.ok(await page.isHidden("[role=tablist]"));
  assert.ok(!(await page.innerText("#main")).includes("No model or tool was called"), "nothing is said of what is not there");
  await world.picture(page, "run-none-wide-light");
  await world.accessible(page, "a run that is not there");
}

export async function says_how_a_run_at_work_stands(world) {
  const { run_id: run, pending } = await world.api("/sessions/house/turns", { message: "door please", tools: [{ name: "open_door" }] });
  const page = await world.open({ token: false, hash: `#/runs/${run}` });
  await sees(page, ".run-head .status", "waiting");
  await page.focus(".run-head button");
  await world.api(`/runs/${run}/tools/${pending[0].tool_call_id}`, { result: "It is open." });
  await sees(page, ".run-head .status", "running");
  assert.equal(await page.evaluate(() => document.activeElement.title), "Save the records as JSON Lines", "what has the focus stays");
  await world.picture(page, "run-at-work-wide-light");
  await world.api(`/runs/${run}/cancel`, {});
  await sees(page, ".run-head .status", "interrupted");
}

export async function replays_a_run_at_work_to_where_it_is(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await looks_at_one_that_waits(world, page, "write a note");
  await page.click("#tab-replay");
  await sees(page, ".replay-word", ": waiting");
  await approve(world);
  await sees(page, ".stage .md", "The note is written.");
  await page.waitForFunction(() => document.querySelector(".slider").value === document.querySelector(".slider").max);
  // A user who scrolled back stays there.
  await go(page, "#/");
  await choose(page, "Channel", "code_task");
  await looks_at_one_that_waits(world, page, "write another");
  await page.click("#tab-replay");
  await sees(page, ".replay-word", ": waiting");
  await page.click("[aria-label='Step back']");
  const [at, last] = await page.evaluate(() => [document.querySelector(".slider").value, document.querySelector(".slider").max]);
  assert.equal(Number(at), Number(last) - 1);
  await approve(world);
  await sees(page, ".status", "done");
  await page.waitForFunction((before) => Number(document.querySelector(".slider").max) > before, Number(last));
  assert.equal(await page.inputValue(".slider"), at);
}

export async function says_how_long_it_took(world) {
  const page = await world.open();
  const said = await page.evaluate(async () => {
    const { duration } = await import("/assets/format.js");
    return [999, 1000, 59_499, 59_500, 119_400, 119_600, 3_599_600, 7_260_000].map(duration);
  });
  assert.deepEqual(said, ["999 ms", "1.0 s", "59 s", "1 min 0 s", "1 min 59 s", "2 min 0 s", "1 h 0 min", "2 h 1 min"]);
}

export async function says_how_sure_a_cost_is(world) {
  const page = await world.open();
  const stop = async () => {
    await sees(page, ".reply .md", "word3");
    await page.click("[aria-label='Stop the run']");
    await over(page, 1);
  };
  const lastCell = () => page.locator(".runs tbody tr").first().locator("td").last().innerText();
  // The usage of a stopped call is unknown.
  await say(page, "endless please");
  await stop();
  assert.doesNotMatch(await page.locator(".facts").innerText(), /\$/);
  await page.click(".actions a");
  await sees(page, ".facts-list", "Costunknown");
  await sees(page, ".facts-list", "0+ → 0+");
  await go(page, "#/runs");
  await sees(page, ".runs tbody", "endless please");
  await sees(page, ".runs td", "0+ tokens");
  assert.equal(await lastCell(), "");
  // Together with the cost of an earlier call, the sum is a lower bound.
  const { run_id: run, pending } = await world.api("/sessions/house/turns", { message: "door please", tools: [{ name: "open_door" }] });
  await world.api(`/runs/${run}/tools/${pending[0].tool_call_id}`, { result: "It is open." });
  await go(page, "#/sessions/house");
  await stop();
  const facts = await page.locator(".facts").innerText();
  assert.match(facts, /\$0\.0\d+\+/);
  await page.click(".actions a");
  await page.waitForFunction(() => /\$0\.0\d+\+/.test(document.querySelector(".facts-list")?.textContent));
  await world.picture(page, "cost-wide-light");
  await go(page, "#/runs");
  await sees(page, ".runs tbody", "door please");
  assert.match(await lastCell(), /^\$0\.0\d+\+$/);
}

export async function shows_agents_within_agents(world) {
  const page = await world.open({ colorScheme: "dark" });
  await choose(page, "Mode", "exploratory");
  await choose(page, "Channel", "deep_research");
  await ask(page, "research it");
  await sees(page, ".sub-agent summary", "The first half");
  assert.equal(await page.locator(".sub-agent").count(), 2);
  await sees(page, ".turn .md", "Both halves are known.");
  await world.accessible(page, "agents within agents");
  await world.picture(page, "agents-wide-dark");
  await page.click(".actions a");
  await page.waitForSelector(".bar.tool");
  assert.deepEqual(await page.locator(".bar-row:has(.bar-agent)").evaluateAll((rows) => rows.map((row) => [row.querySelector(".bar-agent").textContent, row.title.split("\n")[0]]).sort()),
    [["a1", "a1: The first half"], ["a2", "a2: The second half"]]);
  await page.click(".bar-row:has(.bar-agent)");
  await sees(page, ".detail .hint", " half");
  await world.accessible(page, "what a sub-agent did");
  await world.picture(page, "agents-waterfall-wide-dark");
  await page.keyboard.press("Escape");
  const indents = await page.locator(".bar-name").evaluateAll((names) => names.map((name) => name.style.paddingInlineStart));
  assert.ok(new Set(indents).size > 1, "what sub-agents do is indented");
  const count = await page.locator(".bar-row").count();
  await page.click("[aria-label='Calls made by research']");
  assert.equal(await page.locator(".bar-row").count(), count - 2, "and can be folded away");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-expanded")), "false");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".bar-row").count(), count);
  await world.picture(page, "agents-waterfall-wide-dark");
}

export async function shows_more_runs_once(world) {
  for (let at = 0; at < 55; at += 1) await world.api("/sessions/many/turns", { message: `number ${at}` });
  const page = await world.open({ hash: "#/runs", token: false });
  const rows = page.locator(".runs tbody tr");
  await sees(page, ".runs tbody tr", "number 54");
  assert.equal(await rows.count(), 50);
  const { asked } = await hold(page, "**/api/v1/runs?limit=50&after=*");
  await page.click(".page >> text=Show more");
  await page.click(".page >> text=Show more");
  await (await asked).continue();
  await sees(page, ".runs tbody tr", "number 0");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "number 4", "the focus is at the first of them");
  assert.equal(await rows.count(), 55);
}
