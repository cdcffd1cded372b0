// The list of sessions: titles and the search.

import assert from "node:assert/strict";
import { PHONE, WIDE, focused, go, hold, listen, over, say, sees, tab } from "./world.mjs";

const HOSTILE_TITLE = "<b>Trip</b> 🧭 & \u202eplan";
const RIGHT_TO_LEFT = "رحلة إلى الجبال في الصيف مع العائلة والأصدقاء";

const field = "#rename-text";

/** Gives the session of a page's conversation a title, by the button above the conversation. */
async function rename(page, title) {
  await page.click("text=Rename");
  await page.fill(field, title);
  await page.press(field, "Enter");
}

export async function renames_sessions(world) {
  await world.api("/sessions/first/turns", { message: "markdown please\n\nand the rest" });
  await world.api("/sessions/second/turns", { message: "private matters" });
  const page = await world.open({ hash: "#/sessions/second", token: false });
  await over(page, 1);
  const names = page.locator(".session-list .title");
  await sees(page, ".session-list", "markdown please");
  await listen(page);
  // In the list, by keyboard.
  await page.focus("[aria-label='Rename markdown please']");
  await page.keyboard.press("Enter");
  await focused(page, field);
  assert.equal(await page.inputValue(field), "markdown please", "it begins with the present name");
  await world.accessible(page, "the dialog for a title");
  await world.picture(page, "rename-wide-light");
  await page.keyboard.type("Not this");
  await page.keyboard.press("Escape");
  await focused(page, "[aria-label='Rename markdown please']");
  await page.keyboard.press("Enter");
  const held = await hold(page, "**/api/v1/sessions/first");
  await page.keyboard.type("  The  plan ");
  await page.keyboard.press("Enter");
  // It is shown before the server has it.
  const saving = await held.asked;
  assert.deepEqual(await names.allInnerTexts(), ["private matters", "The plan"]);
  await focused(page, "[aria-label='Rename The plan']");
  await saving.continue();
  await page.waitForFunction(() => window.told.includes("Renamed to The plan"));
  const stored = async (id) => (await world.api("/sessions")).sessions.find((session) => session.id === id).title;
  assert.equal(await stored("first"), "The plan");
  assert.equal(await page.title(), "private matters · Neuraxis");
  // Above the conversation, with characters that would be more than text elsewhere.
  await rename(page, HOSTILE_TITLE);
  const shown = HOSTILE_TITLE.replace("\u202e", "U+202E");
  assert.deepEqual(await names.allInnerTexts(), [shown, "The plan"]);
  assert.equal(await page.title(), `${shown} · Neuraxis`);
  assert.equal(await page.locator(".chat h1:not(.hidden)").innerText(), shown);
  await page.waitForFunction(() => window.told.some((text) => text.startsWith("Renamed to <b>")));
  assert.equal(await stored("second"), HOSTILE_TITLE);
  await focused(page, ".chat-tools .button");
  await page.reload();
  await over(page, 1);
  await sees(page, ".session-list", shown);
  assert.deepEqual(await names.allInnerTexts(), [shown, "The plan"]);
  assert.equal(await page.locator(".chat h1:not(.hidden)").innerText(), shown);
  assert.equal(await page.locator(".session-list b").count(), 0);
  await world.accessible(page, "a session with a title");
  await world.picture(page, "titled-wide-light");
  // Another tab shows it when its user returns to it.
  const other = await tab(world, page, "#/sessions/second");
  await sees(other, ".session-list", shown);
  // A reload in progress, which has the former title, does not bring that back.
  await listen(page);
  const reload = await hold(page, "**/api/v1/sessions?limit=40");
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  const loading = await reload.asked;
  await rename(page, "Elsewhere");
  await sees(page, ".session-list", "Elsewhere");
  await loading.continue();
  await page.waitForFunction(() => window.told.includes("Renamed to Elsewhere"));
  assert.deepEqual(await names.allInnerTexts(), ["Elsewhere", "The plan"]);
  // A tab that is not in front may get no animation frames.
  await other.bringToFront();
  await other.evaluate(() => dispatchEvent(new Event("focus")));
  await sees(other, ".session-list", "Elsewhere");
  await other.waitForFunction(() => document.title === "Elsewhere · Neuraxis");
  await page.bringToFront();
  // Without a title, the first message is its name again.
  await rename(page, " ");
  await page.waitForFunction(() => document.title === "private matters · Neuraxis");
  assert.deepEqual(await names.allInnerTexts(), ["private matters", "The plan"]);
  await page.reload();
  await sees(page, ".session-list", "private matters");
  assert.equal(await stored("second"), undefined);
  assert.equal(await page.locator(".chat h1:not(.hidden)").count(), 0, "the message itself is beneath it");
}

export async function keeps_a_title_that_could_not_be_saved(world) {
  await world.api("/sessions/first/turns", { message: "markdown please" });
  const page = await world.open({ hash: "#/sessions/first", token: false });
  await over(page, 1);
  await sees(page, ".session-list", "markdown please");
  const requests = [];
  page.on("request", (request) => request.method() === "PATCH" && requests.push(request.postDataJSON()));
  // What is too long is not sent. A character counts once, however it is encoded.
  await rename(page, "🧭".repeat(201));
  await sees(page, "dialog .error", "can have 200 characters. This one has 201");
  await page.keyboard.press("Escape");
  // Nor is what changes nothing.
  await rename(page, "markdown please");
  await rename(page, "");
  assert.deepEqual(requests, []);
  await page.route("**/api/v1/sessions/first", (route) => route.fulfill({ status: 503, json: { title: "The store failed", detail: "The database is locked." } }), { times: 1 });
  await rename(page, "🧭".repeat(200));
  await sees(page, "dialog .error", "The database is locked.");
  assert.equal(await page.inputValue(field), "🧭".repeat(200), "what was written is not lost");
  assert.equal(await page.locator(".session-list .title").innerText(), "markdown please", "the list shows what is stored");
  await world.accessible(page, "a title that could not be saved");
  await world.picture(page, "rename-failed-wide-light");
  await page.press(field, "Enter");
  await sees(page, ".session-list", "🧭🧭🧭");
  await page.waitForFunction(() => document.title.startsWith("🧭"));
  assert.equal(await page.locator("dialog").count(), 0);
  assert.deepEqual(requests, [{ title: "🧭".repeat(200) }, { title: "🧭".repeat(200) }]);
  await rename(page, "A long title in many words, ".repeat(7));
  await sees(page, ".session-list", "A long title");
  await world.accessible(page, "a long title");
  await world.picture(page, "titled-long-wide-light");
}

export async function renames_on_a_phone(world) {
  await world.api("/sessions/first/turns", { message: "markdown please" });
  await world.api("/sessions/second/turns", { message: "Find out why the nightly build of the payments service fails" });
  for (const colorScheme of ["light", "dark"]) {
    const page = await world.open({ viewport: PHONE, colorScheme, hash: "#/sessions/first", token: false });
    await over(page, 1);
    await page.tap("text=Rename");
    await page.fill(field, RIGHT_TO_LEFT);
    await world.accessible(page, "the dialog for a title on a phone");
    await world.picture(page, `rename-phone-${colorScheme}`);
    await page.tap("dialog >> text=Save");
    await sees(page, "#where", RIGHT_TO_LEFT);
    await world.picture(page, `titled-phone-${colorScheme}`);
    await page.tap("#unfold");
    await sees(page, ".session-list", RIGHT_TO_LEFT);
    // A title that runs from right to left is cut at its end, and not at its beginning.
    assert.equal(await page.locator(".session-list .title").last().evaluate((title) => getComputedStyle(title).direction), "rtl");
    await page.tap("[aria-label^='Rename Find out why']");
    await page.fill(field, `The nightly build, ${colorScheme}`);
    await page.press(field, "Enter");
    await sees(page, ".session-list", `The nightly build, ${colorScheme}`);
    await world.accessible(page, "the list with titles on a phone");
    await world.picture(page, `titled-list-phone-${colorScheme}`);
    await page.fill(".sessions [type=search]", "payments");
    await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 1 && !document.querySelector(".searching"));
    await world.picture(page, `search-phone-${colorScheme}`);
    await page.context().close();
    await fetch(`${world.server}/api/v1/sessions/second`, { method: "PATCH", headers: { "content-type": "application/json" }, body: JSON.stringify({ title: null }) });
  }
}

export async function searches_all_sessions(world) {
  await world.api("/sessions/old/turns", { message: `markdown please\n\n${"and more ".repeat(30)} the needle` });
  await world.api("/sessions/old/turns", { message: "finish, and mind the WALRUS" });
  for (let at = 0; at < 45; at += 1) await world.api("/sessions", { id: `many-${at}` });
  await world.api("/sessions/new/turns", { message: "private matters" });
  const page = await world.open({ token: false, hash: "#/stats" });
  await sees(page, ".session-list", "private matters");
  const search = ".sessions [type=search]";
  const names = page.locator(".session-list .title");
  const found = (...expected) => page.waitForFunction((names) => !document.querySelector(".searching") && JSON.stringify([...document.querySelectorAll(".session-list .title")].map((title) => title.textContent)) === names, JSON.stringify(expected));
  const asked = [];
  page.on("request", (request) => /[?&]q=/.test(request.url()) && asked.push(new URL(request.url()).searchParams.get("q")));
  assert.equal(await names.filter({ hasText: "markdown" }).count(), 0, "it is not loaded");
  // By any message of the session, and by any of its text.
  await listen(page);
  await page.focus(search);
  await page.keyboard.type("walrus");
  await found("markdown please");
  assert.deepEqual(asked, ["walrus"], "one request for all that was typed");
  await page.waitForFunction(() => window.told.includes("1 session"));
  await world.accessible(page, "what a search found");
  await world.picture(page, "search-wide-light");
  await page.fill(search, "the needle");
  await found("markdown please");
  // By the beginning of an id.
  await page.fill(search, "many-1");
  await page.waitForFunction(() => !document.querySelector(".searching") && document.querySelectorAll(".session-list li").length === 11);
  await page.fill(search, "<i>nothing</i>");
  await sees(page, ".session-list .empty", "No sessions contain “<i>nothing</i>”.");
  await page.waitForFunction(() => window.told.some((text) => text.startsWith("No sessions contain")));
  await world.accessible(page, "a search without a result");
  await world.picture(page, "search-nothing-wide-light");
  // Escape ends the search, and only that.
  await page.keyboard.press("Escape");
  assert.equal(await page.inputValue(search), "");
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 40);
  assert.ok(await page.evaluate((where) => document.activeElement.matches(where), search));
  // What is found is opened, called by its name, and renamed, although it is not loaded.
  await page.fill(search, "walrus");
  await found("markdown please");
  await page.click(".session-list a");
  await over(page, 2);
  await page.waitForFunction(() => document.title === "markdown please · Neuraxis");
  await page.press(search, "Escape");
  await rename(page, "The walrus");
  await page.waitForFunction(() => document.title === "The walrus · Neuraxis");
  await page.reload();
  await over(page, 2);
  await page.waitForFunction(() => document.title === "The walrus · Neuraxis");
  await page.fill(search, "the WALRUS");
  await found("The walrus");
  await page.setViewportSize(WIDE);
  await page.emulateMedia({ colorScheme: "dark" });
  await world.picture(page, "search-wide-dark");
}

export async function follows_a_search_to_its_end(world) {
  await world.api("/sessions/first/turns", { message: "markdown please" });
  const page = await world.open({ token: false, hash: "#/stats" });
  await sees(page, ".session-list", "markdown please");
  const search = ".sessions [type=search]";
  const session = (id, at = "2026-01-01T00:00:00Z") => ({ id, created_at: at, first_message: `said in ${id}` });
  const many = Array.from({ length: 20 }, (_, at) => session(`s${at}`));
  // Pages may be empty, and yet be followed by others.
  const pages = { "": { sessions: [], next: "a" }, a: { sessions: [], next: "b" }, b: { sessions: many, next: "c" }, c: { sessions: [session("last")] } };
  await page.route("**/api/v1/sessions?limit=20&q=rare*", (route) => route.fulfill({ json: pages[new URL(route.request().url()).searchParams.get("after") ?? ""] }));
  await page.route("**/api/v1/sessions?limit=20&prefix=rare", (route) => route.fulfill({ json: { sessions: [session("rare-id", "2025-12-31T00:00:00Z")] } }));
  await page.fill(search, "rare");
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 21);
  await sees(page, "#announcements", "21 sessions, and maybe more");
  await page.click("text=Show more");
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 22);
  await focused(page, ".session-list a");
  assert.equal(await page.locator(".session-list .title").last().innerText(), "said in rare-id", "the oldest is the last");
  assert.ok(await page.isHidden("text=Show more"));
  // The answer to an earlier search no longer counts.
  const held = await hold(page, "**/api/v1/sessions?limit=20&q=rare*");
  await page.fill(search, "rare ");
  await page.fill(search, "rare1");
  const late = await held.asked;
  await sees(page, ".session-list .searching", "Searching all sessions");
  await world.picture(page, "searching-wide-light");
  await page.fill(search, "markdown");
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 1 && !document.querySelector(".searching"));
  await late.continue().catch(() => {});
  assert.equal(await page.locator(".session-list .title").innerText(), "markdown please");
  // A failure is shown beneath what was found, and the search can be continued.
  await page.route("**/api/v1/sessions?limit=20&q=please*", (route) => route.fulfill({ status: 429, json: { title: "Too many requests", detail: "Wait a moment." } }), { times: 1 });
  await page.fill(search, "please");
  await sees(page, ".session-list .error", "The search failed: Wait a moment.");
  assert.equal(await page.locator(".session-list li").count(), 1);
  await world.accessible(page, "a search that failed");
  await page.click("text=Show more");
  await page.waitForFunction(() => !document.querySelector(".searching") && document.querySelectorAll(".session-list li").length === 1);
  assert.ok(await page.isHidden("text=Show more"));
}

export async function lists_first_what_was_used_last(world) {
  await world.api("/sessions/first/turns", { message: "markdown please" });
  for (let at = 0; at < 45; at += 1) await world.api("/sessions", { id: `many-${at}` });
  await world.api("/sessions/second/turns", { message: "private matters" });
  const page = await world.open({ token: false, hash: "#/sessions/second" });
  await over(page, 1);
  await sees(page, ".session-list", "many-44");
  const names = page.locator(".session-list .title");
  const isFirst = (name) => page.waitForFunction((name) => document.querySelector(".session-list .title")?.textContent === name, name);
  await isFirst("private matters");
  assert.equal(await names.filter({ hasText: "markdown" }).count(), 0, "it is not loaded");
  // A session that is used elsewhere comes to the front, and the others stay.
  await world.api("/sessions/first/turns", { message: "finish it" });
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await isFirst("markdown please");
  await page.click("text=Show more");
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 47);
  assert.equal(new Set(await names.allInnerTexts()).size, 47, "each is shown once");
  // A title moves nothing.
  await rename(page, "The plan");
  await sees(page, ".session-list", "The plan");
  const reloaded = page.waitForResponse((response) => response.url().includes("/api/v1/sessions?limit="));
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await reloaded;
  assert.deepEqual((await names.allInnerTexts()).slice(0, 2), ["markdown please", "The plan"]);
  await say(page, "plan it");
  await over(page, 2);
  await isFirst("The plan");
}

export async function reads_a_long_session_page_by_page(world) {
  for (let at = 0; at < 4; at += 1) await world.api("/sessions/long/turns", { message: `finish ${at}` });
  const page = await world.open({ token: false, hash: "#/stats" });
  await page.route("**/api/v1/sessions/long", (route) => route.continue({ url: `${route.request().url()}?limit=3` }));
  const later = [];
  page.on("request", (request) => request.url().includes("/sessions/long?") && later.push(request.url()));
  await go(page, "#/sessions/long");
  await over(page, 4);
  assert.equal(later.length, 1, "the second page is the last");
  for (let at = 0; at < 4; at += 1) await sees(page, ".chat", `finish ${at}`);
}
