// What users hear, and where the focus is, without seeing the page or with much of it enlarged.

import assert from "node:assert/strict";
import { ask, choose, focused, go, listen, over, say, sees, WIDE } from "./world.mjs";

/** The size of a page of 1280 by 1024 pixels at a zoom of 400 %. */
const ENLARGED = { width: 320, height: 256 };

/** Waits until something was announced that contains this text. */
function hears(page, text) {
  return page.waitForFunction((wanted) => window.told.some((told) => told.includes(wanted)), text);
}

export async function describes_a_question_by_its_reasons(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await page.clock.install();
  const reason = "Changes of files are looked at first.";
  const causes = "The conversation contains untrusted content: review this call carefully.";
  await page.route("**/api/v1/approvals?*", async (route) => {
    const response = await route.fetch();
    const { approvals, ...more } = await response.json();
    const at = await page.evaluate(() => new Date(Date.now() + 3_600_000).toISOString());
    for (const { request } of approvals) Object.assign(request, { causes: ["untrusted_content"], expires_at: at });
    await route.fulfill({ response, json: { ...more, approvals } });
  });
  await say(page, "write a note");
  await page.waitForSelector(".ask .answers");
  const described = await page.locator(".ask").evaluate((node) => node.getAttribute("aria-describedby").split(" ").map((id) => document.getElementById(id).textContent));
  assert.ok(described[0].includes(reason), described[0]);
  assert.equal(described[1], causes);
  assert.equal(await page.locator(".ask [aria-label='Copy: Full arguments']").count(), 1, "the box is told from others");
  // A minute before it closes, the question says so.
  await listen(page);
  await page.clock.fastForward("58:30");
  assert.equal(await page.locator(".ask .hint >> text=less than a minute").count(), 0);
  await page.clock.fastForward("00:31");
  await sees(page, ".ask .warn", "less than a minute is left");
  await page.clock.runFor(100);
  await hears(page, "write_file: its question closes in a minute");
  await world.accessible(page, "a question that is about to close");
}

export async function leads_to_the_answer(world) {
  const page = await world.open();
  await listen(page);
  await ask(page, "private matters");
  await hears(page, "The answer is complete: I may not read that.");
  const headings = (selector) => page.locator(`${selector} :is(h2, h3)`).allTextContents();
  assert.deepEqual(await headings(".turn"), ["private matters", "Answer"]);
  const isBeforeAnswer = await page.locator(".reply h3").evaluate((heading) => heading.nextElementSibling.textContent.includes("I may not read that."));
  assert.ok(isBeforeAnswer, "the heading leads past the calls");
  await page.evaluate(() => { window.told = []; });
  await ask(page, "markdown please");
  await hears(page, "The answer is complete");
  assert.ok(await page.evaluate(() => window.told.every((told) => !told.includes("What the plan is"))), "a long answer is not read out");
  // The page is in English; what was written in it may be in any language, except the page's own words in between.
  for (const selector of [".turn .bubble", ".reply > .md", ".session-list .title"]) assert.equal(await page.locator(selector).first().getAttribute("lang"), "", selector);
  assert.equal(await page.locator(".code figcaption").getAttribute("lang"), "en");
  assert.equal(await page.getByRole("group", { name: "Code, rust" }).count(), 1, "a box that takes the focus has a role that can have a name");
  // A message during a run, and the messages before a session, are told from what the model says.
  await say(page, "endless please");
  await sees(page, ".turn:last-child .reply .md", "word3");
  assert.equal(await page.getByRole("button", { name: "Send to the run in progress" }).getAttribute("title"), "Send to the run in progress");
  await say(page, "finish it");
  await page.getByRole("group", { name: "Added to the run" }).waitFor();
  await page.click("[aria-label='Stop the run']");
  await over(page, 3);
  const session = new URL(page.url()).hash.split("/").at(-1);
  const { runs } = await world.api(`/sessions/${session}`);
  const forked = await world.api(`/runs/${runs[0].run_id}/fork`, { message: "private again" });
  assert.ok(forked.session_id, JSON.stringify(forked));
  await go(page, `#/sessions/${forked.session_id}`);
  await page.waitForSelector(".before");
  assert.deepEqual(await headings(".before"), ["private matters", "Answer"]);
  await world.accessible(page, "a conversation from before the session");
}

export async function shows_where_the_focus_is(world) {
  for (let at = 0; at < 30; at += 1) await world.api("/sessions", { id: `many-${String(at).padStart(2, "0")}` });
  const page = await world.open({ viewport: { width: 1000, height: 500 } });
  await page.emulateMedia({ forcedColors: "active" });
  await page.focus("#message");
  const outline = await page.locator(".composer-box").evaluate((node) => getComputedStyle(node).outlineStyle);
  assert.equal(outline, "solid", "the field in which the user writes is marked");
  await page.emulateMedia({ forcedColors: "none" });
  // Going back through the list scrolls each entry to below its heading, which stays at the top.
  await page.locator(".session-list a").nth(28).focus();
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press("Shift+Tab");
    const [beneath, top] = await page.evaluate(() => {
      const heading = document.activeElement.closest("section")?.querySelector("h2");
      return heading ? [heading.getBoundingClientRect().bottom, document.activeElement.getBoundingClientRect().top] : [0, 0];
    });
    assert.ok(top >= beneath - 1, `${top} is beneath ${beneath}`);
  }
}

export async function cuts_no_name_off(world) {
  const title = "A title of a session that is as long as some that models and users give, with its difference from others at the end";
  await world.api("/sessions", { id: "titled" });
  await fetch(`${world.server}/api/v1/sessions/titled`, { method: "PATCH", headers: { "content-type": "application/json" }, body: JSON.stringify({ title }) });
  const page = await world.open({ viewport: ENLARGED });
  await choose(page, "Channel", "code_task");
  await ask(page, "exits please");
  const cut = (selector) => page.locator(selector).first().evaluate((node) => node.scrollWidth - node.clientWidth);
  await page.locator(".tool-name").first().evaluate((node) => { node.textContent = "shop__look_up_the_opening_hours_of_all_branches"; });
  await page.locator(".call .note").first().evaluate((node) => { node.textContent = "waiting for someone with permission to decide"; });
  for (const selector of [".tool-name", ".call .note", ".call-details > summary"]) assert.ok((await cut(selector)) <= 0, `${selector} is cut off`);
  await world.accessible(page, "a call with a long name");
  await page.locator(".call").first().scrollIntoViewIfNeeded();
  await world.picture(page, "long-names-enlarged-light");
  await page.click("#unfold");
  await sees(page, ".session-list .title", title);
  const lines = await page.locator(".session-list .title", { hasText: title.slice(0, 20) }).evaluate((node) => node.getBoundingClientRect().height / Number.parseFloat(getComputedStyle(node).lineHeight));
  assert.ok(lines > 1.5, `a long title has ${lines} lines`);
  await world.accessible(page, "a long title in the list");
  await world.picture(page, "long-title-enlarged-light");
}

export async function names_each_view_and_lets_keys_scroll_it(world) {
  for (let at = 0; at < 3; at += 1) await world.api("/sessions/talk/turns", { message: "many please" });
  const page = await world.open({ viewport: { width: 1000, height: 400 } });
  await page.click(".session-list a");
  await over(page, 3);
  await focused(page, "#message");
  assert.equal(await page.locator(".composer").getAttribute("aria-label"), "many please");
  await page.click(".side-foot >> text=All runs");
  await page.waitForSelector(".runs tbody tr");
  await focused(page, ".page[aria-label=Runs]");
  await page.setViewportSize({ width: 1000, height: 200 });
  await page.keyboard.press("PageDown");
  await page.waitForFunction(() => document.querySelector(".page").scrollTop > 0);
  await page.setViewportSize(WIDE);
  await page.locator(".runs a").first().click();
  await page.waitForFunction(() => document.title === "Run: many please · Neuraxis");
  await page.waitForSelector(".bar-row");
  await page.focus("#tab-timeline");
  await page.keyboard.press("End");
  await focused(page, "#tab-decision[aria-selected=true]");
  await page.keyboard.press("Home");
  await focused(page, "#tab-timeline[aria-selected=true]");
  // Why a run ended is not in a tooltip alone.
  await go(page, "#/");
  await say(page, "endless please");
  await sees(page, ".reply .md", "word3");
  await page.click("[aria-label='Stop the run']");
  await over(page, 1);
  await page.click(".actions a");
  await sees(page, ".run-head .status", "interrupted, cancelled");
  await sees(page, ".run-head .facts-list", "Endedcancelled");
  await world.accessible(page, "a run that was stopped");
}

export async function announces_that_another_session_waits(world) {
  await world.api("/sessions/talk/turns", { message: "markdown please" });
  const page = await world.open({ token: false, hash: "#/stats" });
  await page.waitForSelector(".session-list li");
  await listen(page);
  await world.api("/sessions/talk/turns", { message: "write a note", channel: "code_task" });
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await hears(page, "markdown please waits for input");
  const listed = page.waitForResponse("**/api/v1/sessions?*");
  await page.evaluate(() => { window.told = []; dispatchEvent(new Event("focus")); });
  await (await listed).finished();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  assert.deepEqual(await page.evaluate(() => window.told.filter(Boolean)), [], "once");
}

export async function moves_nothing_if_that_is_not_wanted(world) {
  const page = await world.open();
  await page.emulateMedia({ reducedMotion: "reduce" });
  await say(page, "endless please");
  await sees(page, ".reply .md", "word3");
  await page.waitForSelector(".turn-state .spins");
  assert.deepEqual(await page.evaluate(() => document.getAnimations().map(({ animationName }) => animationName)), []);
  await page.click("[aria-label='Stop the run']");
  await over(page, 1);
}

export async function draws_what_has_a_meaning_with_contrast(world) {
  for (const colorScheme of ["light", "dark"]) {
    const page = await world.open({ colorScheme });
    const ratios = await page.evaluate(() => {
      const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      const luminance = (color) => {
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const node = document.body.appendChild(document.createElement("i"));
      const found = [];
      const compare = (name, color, ground) => {
        const [high, low] = [luminance(color), luminance(ground)].sort((a, b) => b - a);
        found.push([name, (high + 0.05) / (low + 0.05)]);
      };
      const resolved = (name) => { node.style.color = `var(--${name})`; return getComputedStyle(node).color; };
      for (const name of ["model", "tool", "failed", "strong-line"]) for (const ground of ["bg", "side", "raised"]) compare(`${name} on ${ground}`, resolved(name), resolved(ground));
      node.className = "bar wait";
      compare("wait on bg", /rgba?\([^)]*\)/.exec(getComputedStyle(node).backgroundImage)[0], resolved("bg"));
      return found;
    });
    assert.deepEqual(ratios.filter(([, ratio]) => ratio < 3), [], colorScheme);
  }
}
