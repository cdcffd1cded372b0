// Chatting: sending, streaming, stopping, adding messages to a run, losing the connection, returning.

import assert from "node:assert/strict";
import { ask, choose, focused, go, has, hide, hold, listen, over, say, sees, stalled, tab, takeWord, PHONE, WIDE } from "./world.mjs";

const WORDS = Array.from({ length: 120 }, (_, at) => `word${at}`);

/** Returns the last answer on the page. */
const answer = (page) => page.locator(".turn:last-child .reply:last-child > .md").innerText();

export async function sends_and_streams(world) {
  for (const [name, viewport, colorScheme] of [["wide-light", WIDE, "light"], ["wide-dark", WIDE, "dark"], ["phone-light", PHONE, "light"], ["phone-dark", PHONE, "dark"]]) {
    const page = await world.open({ viewport, colorScheme });
    assert.equal(new URL(page.url()).hash, "", "the token left the address");
    if (viewport === PHONE) {
      // The narrow page has room for only one control, which summarizes the choice.
      await sees(page, ".choices-word", "chat · moderate");
      assert.equal(await page.locator("[aria-label=Mode]").isVisible(), false);
      await choose(page, "Mode", "exploratory");
      await sees(page, ".choices-word", "chat · exploratory");
      await world.picture(page, `choices-${name}`);
      await world.accessible(page, `choices ${name}`);
      await choose(page, "Mode", "moderate");
      await page.click(".choices-word");
    }
    await world.picture(page, `welcome-${name}`);
    await world.accessible(page, `welcome ${name}`);
    await ask(page, "markdown please");
    await sees(page, ".reasoning summary", "Reasoning · ~");
    const shown = page.locator(".turn .md");
    for (const element of ["h4", "strong", "em", "del", "ol li ul li", "table thead th", "figure.code pre code", ".code-word", ".code-comment", ".code-string", "blockquote a[rel~=noopener]", ".tick.done"]) assert.ok(await shown.locator(element).count(), `${element} in ${name}`);
    await page.click(".code .button");
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^fn main\(\) \{/);
    await page.click("[aria-label='Copy the answer']");
    await page.waitForSelector("[aria-label='Copy the answer'].done");
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^## What the plan is/);
    const html = await page.evaluate(async () => (await (await navigator.clipboard.read())[0].getType("text/html")).text());
    assert.match(html, /<table[^]*<th[^]*changed[^]*<td/, "as an office takes it");
    assert.doesNotMatch(html, /<button|<svg/);
    assert.match(await page.locator(".facts").innerText(), /scripted[^]*tokens[^]*\$0\.0/);
    await page.click(".reasoning summary");
    await sees(page, ".reasoning .md strong", "everything");
    await world.picture(page, `answer-${name}`);
    await world.accessible(page, `answer ${name}`);
    await page.context().close();
  }
  const page = await world.open();
  await say(page, "slow please");
  await sees(page, ".reply .md", "word5");
  assert.ok(!(await answer(page)).includes("word119"), "it is shown as it comes");
  await over(page, 1);
  assert.deepEqual((await answer(page)).split(/\s+/), WORDS);
  await sees(page, "#announcements", "The answer is complete");
}

export async function reloads_in_mid_stream(world) {
  const page = await world.open();
  await say(page, "slow please");
  await sees(page, ".reply .md", "word3");
  await page.reload();
  await sees(page, ".reply .md", "word40");
  assert.equal(await page.locator(".turn-foot .facts").count(), 0, "the run is still at work");
  await over(page, 1);
  assert.deepEqual((await answer(page)).split(/\s+/), WORDS);
  assert.equal((await world.api("/runs")).runs.length, 1);
  await page.reload();
  await over(page, 1);
  assert.deepEqual((await answer(page)).split(/\s+/), WORDS, "and it is there when it is over");
}

/** An image of one red pixel. */
const POINT = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==", "base64");

export async function attaches_files(world) {
  const page = await world.open();
  // A file that the server refuses is refused again, and leaves no session behind.
  await page.setInputFiles("#files", [{ name: "odd.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0, 1, 2]) }]);
  const deleted = page.waitForResponse((response) => response.request().method() === "DELETE");
  await say(page, "look at this");
  await deleted;
  for (const told of ["A file cannot be sent", "odd.bin cannot be sent: it is of an unknown kind"]) await sees(page, ".failure", told);
  assert.equal(await page.locator("text=Send again").count(), 0);
  await sees(page, ".session-list", "No sessions yet");
  assert.deepEqual((await world.api("/sessions")).sessions, []);
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#message").value === "look at this");
  await page.fill("#message", "");
  await page.setInputFiles("#files", [
    { name: "list.txt", mimeType: "text/plain", buffer: Buffer.from("Milk.") },
    { name: "point.png", mimeType: "image/png", buffer: POINT },
    { name: "other.txt", mimeType: "text/plain", buffer: Buffer.from("Not this.") },
    { name: "large.txt", mimeType: "text/plain", buffer: Buffer.alloc(8 * 1024 * 1024, "a") },
  ]);
  await sees(page, ".composer .line-note", "large.txt: a file can be up to 7.0 MiB");
  assert.equal(await page.textContent("#announcements"), "", "its line is heard, and nothing twice");
  // The message is not sent without it unless the user removes it.
  await say(page, "private matters");
  await sees(page, ".composer .line-note", "Remove the files that cannot be sent");
  await page.click("[aria-label='Remove large.txt']");
  await page.click("[aria-label='Remove other.txt']");
  await focused(page, "[aria-label='Remove point.png']");
  // Nor without files beyond the limit, which can be removed all at once.
  await page.setInputFiles("#files", Array.from({ length: 21 }, (_, at) => ({ name: `${at < 18 ? "" : "a long name of a file ".repeat(8)}${at}.csv`, mimeType: "text/csv", buffer: Buffer.from("1") })));
  await sees(page, ".composer .line-note", "18.csv: a message can have up to 20 files and 15.0 MiB in total");
  await page.fill("#message", "a\n".repeat(20));
  for (const viewport of [PHONE, { width: 1360, height: 500 }, WIDE]) {
    await page.setViewportSize(viewport);
    assert.ok(await page.locator("[aria-label='Send']").evaluate((node) => node.getBoundingClientRect().bottom <= innerHeight), "many files push nothing out of sight");
  }
  await page.click("text=Remove files that cannot be sent");
  assert.equal(await page.locator(".composer .file").count(), 20);
  for (let at = 0; at < 18; at += 1) await page.click(`[aria-label='Remove ${at}.csv']`);
  // Files that no model accepts are reported by name before anything is sent.
  await page.setInputFiles("#files", [
    { name: "letter.docx", mimeType: "application/octet-stream", buffer: Buffer.from("PK\u0003\u0004 and more") },
    { name: "bill.xls", mimeType: "application/vnd.ms-excel", buffer: Buffer.from([0xd0, 0xcf, 0x11, 0xe0, 0xa1]) },
    { name: "archive.zip", mimeType: "application/zip", buffer: Buffer.from("PK\u0003\u0004 and more") },
    { name: "empty.txt", mimeType: "text/plain", buffer: Buffer.alloc(0) },
    { name: "orders.csv", mimeType: "text/csv", buffer: Buffer.from([0x4d, 0xfc, 0x6c, 0x6c, 0x65, 0x72]) },
  ]);
  for (const why of ["letter.docx: it is a Word document", "bill.xls: it is an Excel workbook", "archive.zip: it is an archive", "empty.txt: it is empty", "orders.csv: it is text, but not in UTF-8"]) await sees(page, ".composer .line-note", why);
  await world.picture(page, "files-refused");
  for (const name of ["letter.docx", "bill.xls", "archive.zip", "empty.txt", "orders.csv"]) await page.click(`[aria-label='Remove ${name}']`);
  assert.equal(await page.locator(".composer .line-note:visible", { hasText: "orders.csv" }).count(), 0);
  assert.equal(await page.locator(".composer .file").count(), 2);
  await world.picture(page, "files-attached");
  await world.accessible(page, "files attached");
  const held = await hold(page, "**/api/v1/sessions");
  await say(page, "private matters");
  const making = await held.asked;
  assert.deepEqual(await page.locator(".turn .said .file").allTextContents(), ["list.txt5 B", "point.png70 B"], "they are there at once");
  await making.continue();
  await over(page, 1);
  assert.equal(await page.locator(".composer .file").count(), 0);
  await sees(page, ".turn .said .file", "list.txt");
  const attached = ".turn .said img[src^='data:image/png']";
  assert.equal(await page.locator(attached).count(), 1);
  await page.reload();
  await over(page, 1);
  assert.equal(await page.locator(attached).count(), 1, "it is there after a reload");
  // An attached text can be expanded, and is not part of the user's message.
  assert.equal(await page.locator(".turn .bubble").innerText(), "private matters");
  await page.click(".turn .said .file");
  await sees(page, ".turn .said pre", "Milk.");
  await world.picture(page, "files-unfolded");
  await page.click("[aria-label='Send the message again']");
  await over(page, 2);
  assert.equal(await page.locator(attached).count(), 2, "and goes along when the message is sent again");
  assert.deepEqual(await page.locator(attached).evaluateAll((images) => images.map(({ alt }) => alt)), Array(2).fill("An attached image, image/png"));
  await world.picture(page, "files-sent");
  assert.deepEqual(await page.locator(".turn .bubble").allInnerTexts(), ["private matters", "private matters"]);
  const { runs } = await world.api("/runs");
  assert.equal(runs.length, 2);
  const other = await world.open({ token: false, hash: "#/runs" });
  await sees(other, ".runs tbody", "private matters");
  assert.deepEqual(await other.locator(".runs tbody a").evaluateAll((links) => links.map(({ title, textContent }) => [title, textContent])), Array(2).fill(["private matters", "private matters"]));
  await go(other, `#/runs/${runs[0].run_id}`);
  await sees(other, ".run-head h1", "private matters");
  assert.equal(await other.locator(".run-head h1").innerText(), "private matters");
  await other.context().close();
  const { history } = await world.api(`/sessions/${runs[0].session_id}`);
  const [first, again] = history.filter(({ role }) => role === "user").map(({ parts }) => parts);
  assert.ok(JSON.stringify(first).includes("Milk."));
  assert.deepEqual(again, first, "the same is sent again");
  // A message that the server refuses returns to the input field.
  await page.setInputFiles("#files", [{ name: "again.txt", mimeType: "text/plain", buffer: Buffer.from("Again.") }]);
  const full = { status: 503, contentType: "application/problem+json", body: JSON.stringify({ type: "/errors/too-many-runs", title: "Too many runs" }) };
  await page.route("**/turns", (route) => route.fulfill(full), { times: 3 });
  await say(page, "look at this");
  await sees(page, ".failure", "Too many runs");
  assert.equal(await page.inputValue("#message"), "look at this");
  await sees(page, ".composer .file", "again.txt");
  // When it is sent again from its turn, it leaves the field, unless it is refused again.
  const { asked } = await hold(page, "**/turns");
  await page.click("text=Send again");
  const sending = await asked;
  assert.equal(await page.inputValue("#message"), "");
  assert.equal(await page.locator(".composer .file").count(), 0);
  assert.equal(await page.locator(".failure").count(), 0, "it stands there once, however often it is tried");
  await sending.continue();
  await page.waitForSelector(".failure");
  assert.equal(await page.inputValue("#message"), "look at this");
  // Later changes in the field stay.
  await page.fill("#message", "look at that");
  const last = await hold(page, "**/turns");
  await page.click("text=Send again");
  await (await last.asked).continue();
  await page.waitForSelector(".failure");
  assert.equal(await page.inputValue("#message"), "look at that");
  await page.click("[aria-label='Remove again.txt']");
  await page.fill("#message", "");
  // Pasted cells include a picture of themselves, which is ignored; a picture alone is attached.
  const pasted = (texts) => page.evaluate((all) => {
    const clipboardData = new DataTransfer();
    for (const [type, text] of all) clipboardData.setData(type, text);
    clipboardData.items.add(new File([new Uint8Array([1, 2])], "image.png", { type: "image/png" }));
    const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
    document.querySelector("#message").dispatchEvent(event);
    return [event.defaultPrevented, document.querySelectorAll(".composer .file").length];
  }, texts);
  assert.deepEqual(await pasted([["text/plain", "A1\tB1"], ["text/html", "<td>A1</td>"]]), [false, 0]);
  assert.deepEqual(await pasted([]), [true, 1]);
  // A file dropped outside its target does not replace the page.
  const isKept = await page.evaluate(() => ["dragover", "drop"].map((kind) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["x"], "beside.txt"));
    return !document.querySelector(".scroller").dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
  }));
  assert.deepEqual(isKept, [true, true]);
  assert.equal(await page.locator(".composer .file").count(), 1);
}

export async function sends_all_that_was_pasted_or_nothing(world) {
  const page = await world.open();
  const paste = async (length) => {
    await page.evaluate((count) => navigator.clipboard.writeText(`markdown please ${"x ".repeat(count / 2)}the end`), length);
    await page.focus("#message");
    await page.keyboard.press("ControlOrMeta+V");
  };
  await paste(600_000);
  await page.press("#message", "Enter");
  await over(page, 1);
  const [{ run_id: run }] = (await world.api("/runs")).runs;
  const records = await (await fetch(`${world.server}/api/v1/runs/${run}/events`)).text();
  assert.ok(records.includes("x the end"), "all of it went");
  // A text longer than any model accepts stays in the field, and the page says so.
  await paste(4_000_000);
  await page.press("#message", "Enter");
  await sees(page, ".composer [role=alert]", "4,000,000 characters");
  assert.ok((await page.inputValue("#message")).endsWith("the end"));
  assert.equal(await page.locator(".turn").count(), 1);
  // Files without text are not a message, which is reported too.
  await page.fill("#message", "");
  assert.ok(await page.isHidden(".composer-box > [role=alert]"));
  await go(page, "#/");
  await page.waitForSelector(".welcome");
  await page.setInputFiles("#files", [{ name: "list.txt", mimeType: "text/plain", buffer: Buffer.from("Milk.") }]);
  await page.press("#message", "Enter");
  await sees(page, ".composer [role=alert]", "with the files");
  await world.accessible(page, "a message that was not sent");
  await world.picture(page, "not-sent-wide-light");
}

export async function keeps_what_is_read_where_it_is_while_it_grows(world) {
  const page = await world.open();
  const lines = (from, to) => Array.from({ length: to - from }, (_, at) => `let line${from + at} = "${from + at}"; // a comment`).join("\n");
  const grown = await page.evaluate(async ([text, more, last]) => {
    const { Growing } = await import("/assets/markdown.js");
    const node = document.createElement("div");
    node.className = "md";
    document.querySelector(".turns").replaceChildren(node);
    const growing = new Growing(node);
    const grow = (whole) => { growing.set(whole); growing.layOut(); };
    grow(text);
    const pre = node.querySelector("pre");
    pre.scrollTop = 70;
    const word = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
    while (!word.nextNode().data.includes("comment"));
    getSelection().selectAllChildren(word.currentNode.parentNode);
    const selected = getSelection().toString();
    const button = node.querySelector("button");
    grow(text + more);
    const found = { isSame: pre.isConnected && button.isConnected, top: pre.scrollTop, selected, stays: getSelection().toString() };
    pre.scrollTop = pre.scrollHeight;
    grow(text + more + last);
    return { ...found, fromEnd: pre.scrollHeight - pre.scrollTop - pre.clientHeight, text: pre.textContent };
  }, [`Look:\n\n\`\`\`js\n${lines(0, 200)}\nlet ha`, `lf = 1;\n${lines(200, 300)}`, "\nlet end = 1;\n```\n"]);
  assert.equal(grown.isSame, true);
  assert.equal(grown.top, 70);
  assert.match(grown.selected, /a comment/);
  assert.equal(grown.stays, grown.selected);
  assert.ok(grown.fromEnd < 4, `who read its end stays there: ${grown.fromEnd}`);
  assert.match(grown.text, /\nlet half = 1;\n[^]*\nlet end = 1;$/);
  await page.click(".code button");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), grown.text, "all of it is copied");
  // The same holds for a tool's output, whose end is shown.
  await page.evaluate(async () => {
    const { ToolView } = await import("/assets/tool.js");
    const view = new ToolView("run_command", "{}");
    document.querySelector(".turns").replaceChildren(view.node);
    view.setState("running");
    let offset = 0;
    window.printed = (from, to) => {
      for (let at = from; at < to; at += 1) {
        const text = `line ${at} of what it prints\n`;
        view.print({ attempt: 1, offset, text });
        offset += text.length;
      }
    };
    window.printed(0, 6000);
  });
  await page.click(".call summary");
  const pre = page.locator("[aria-label='Output so far']");
  await sees(page, ".call-body pre", "line 5999 of");
  assert.ok(await pre.evaluate((node) => node.scrollTop > 0 && node.scrollHeight - node.scrollTop - node.clientHeight < 4));
  await world.picture(page, "output-so-far");
  await pre.evaluate((node) => { node.scrollTop = 100; window.printed(6000, 6100); });
  await sees(page, ".call-body pre", "line 6099 of");
  assert.equal(await pre.evaluate((node) => node.scrollTop), 100);
  await page.evaluate(() => window.printed(6100, 12_000));
  await sees(page, ".call-body pre", "line 11999 of");
  assert.ok((await pre.innerText()).length <= 50_000);
}

export async function survives_a_lost_connection(world) {
  const page = await world.open();
  await page.evaluate(() => {
    window.listening = 0;
    for (const [name, by] of [["addEventListener", 1], ["removeEventListener", -1]]) {
      const own = window[name].bind(window);
      window[name] = (kind, ...more) => { window.listening += kind === "online" ? by : 0; own(kind, ...more); };
    }
  });
  await say(page, "slow please");
  await sees(page, ".reply .md", "word3");
  world.cut();
  await sees(page, ".turn-state", "Connection lost");
  await world.picture(page, "connection-lost");
  await page.route("**/api/v1/runs/*/events", (route) => route.fulfill({ status: 429, json: { title: "Too many requests" } }), { times: 1 });
  await sees(page, ".turn-state", "Too many requests; trying again");
  world.mend();
  await over(page, 1);
  assert.deepEqual((await answer(page)).split(/\s+/), WORDS);
  const { runs } = await world.api("/runs");
  assert.equal(runs.length, 1, "the message was not sent twice");
  assert.equal(await page.evaluate(() => window.listening), 0, "nothing of a pause is left");
  // Each loss is counted separately, and announced, if data arrived in between.
  await say(page, "endless please");
  for (const word of ["word3", "word20"]) {
    await sees(page, ".turn:last-child .reply .md", word);
    await page.evaluate(() => { document.getElementById("announcements").textContent = ""; });
    world.cut();
    await sees(page, ".turn:last-child .turn-state", "trying again (1)");
    await sees(page, "#announcements", "Connection lost");
    world.mend();
  }
  // One kind of loss is not mistaken for another.
  await sees(page, ".turn:last-child .reply .md", "word60");
  await page.route("**/api/v1/runs/*/events", (route) => route.fulfill({ status: 429, json: { title: "Too many requests" } }), { times: 1 });
  await hide(page, true);
  await hide(page, false);
  await sees(page, "#announcements", "Too many requests; the page tries again");
  // The failure to send is shown for as long as the server is unreachable.
  world.cut();
  await say(page, "and more");
  await sees(page, ".notice", "cannot be reached");
  assert.equal(await page.inputValue("#message"), "and more");
  world.mend();
  await page.waitForFunction(() => !document.querySelector(".notice .failure"));
  await page.click("[aria-label='Stop the run']");
  await over(page, 2);
}

/** Lets the server take the next turn, and drops its answer to the page. */
const losesAnswer = (world, page) => page.route("**/turns", async (route) => {
  const headers = await route.request().allHeaders();
  const kept = Object.fromEntries(["accept", "content-type", "idempotency-key"].map((name) => [name, headers[name]]));
  await fetch(`${world.server}${new URL(route.request().url()).pathname}`, { method: "POST", headers: kept, body: route.request().postData() });
  await route.fulfill({ status: 504, contentType: "text/html", body: "<h1>504</h1>" });
}, { times: 1 });

export async function sends_once_whatever_becomes_of_the_request(world) {
  const page = await world.open();
  await page.clock.install();
  await ask(page, "private matters");
  // A request without an answer is repeated.
  await (await stalled(page, "**/turns", () => say(page, "finish it"))).loses();
  await over(page, 2);
  // A message written meanwhile waits, and the pending one can be dropped.
  await stalled(page, "**/turns", () => say(page, "plan it"));
  await say(page, "and more");
  await sees(page, ".composer [role=alert]", "still being sent");
  assert.equal(await page.inputValue("#message"), "and more");
  await page.fill("#message", "");
  await page.click("[aria-label='Stop the run']");
  await sees(page, ".turn:last-child .failure", "Stopped before the server answered");
  await world.picture(page, "let-go-wide-light");
  await world.accessible(page, "a message that was let go of");
  await page.waitForFunction(() => document.querySelector("#message").value === "plan it");
  // Each attempt replaces the previous one.
  world.cut();
  for (let tries = 0; tries < 2; tries += 1) {
    await page.evaluate(() => document.querySelector(".turn .failure").classList.add("before"));
    await page.press("#message", "Enter");
    await page.waitForSelector(".turn .failure:not(.before)");
  }
  assert.equal(await page.locator(".turn").count(), 3);
  world.mend();
  // An accepted message is not accepted again, although its answer was lost.
  await losesAnswer(world, page);
  await page.press("#message", "Enter");
  await sees(page, ".turn:last-child .failure", "status 504");
  await page.click("text=Send again");
  await sees(page, ".notice", "already has this message");
  await over(page, 3);
  assert.deepEqual(await page.locator(".turn .said .bubble").allInnerTexts(), ["private matters", "finish it", "plan it"]);
  assert.equal((await world.api("/runs")).runs.length, 3);
  assert.equal(await page.inputValue("#message"), "");
  // Sent deliberately once more, it is accepted.
  await ask(page, "plan it");
  assert.equal((await world.api("/runs")).runs.length, 4);
  // Nor is it added to its own run, which is shown in progress when the user returns.
  await losesAnswer(world, page);
  await say(page, "endless please");
  await sees(page, ".turn:last-child .failure", "status 504");
  await hide(page, true);
  await hide(page, false);
  await sees(page, ".turn:last-child .reply .md", "word3");
  await page.press("#message", "Enter");
  await sees(page, ".notice", "already has this message");
  assert.equal(await page.locator(".turn").count(), 5);
  assert.equal(await page.locator(".steered").count(), 0);
  await page.click("[aria-label='Stop the run']");
  await over(page, 5);
  // The same text is a new message if the conversation has continued since.
  await losesAnswer(world, page);
  await say(page, "finish it");
  await sees(page, ".turn:last-child .failure", "status 504");
  await hide(page, true);
  await hide(page, false);
  await over(page, 6);
  await page.fill("#message", "");
  await ask(page, "private matters");
  await ask(page, "finish it");
  assert.equal((await world.api("/runs")).runs.length, 8);
  // An answer that starts and then stalls is treated as a failure.
  await page.evaluate(async () => {
    const { get } = await import("/assets/api.js");
    const own = window.fetch;
    window.told = [200, 503].map((status) => {
      window.fetch = async () => new Response(new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode("{")) }), { status });
      return get("/runs").catch((problem) => problem.message);
    });
    window.fetch = own;
  });
  await page.clock.fastForward(31_000);
  assert.deepEqual(await page.evaluate(() => Promise.all(window.told)), ["The server's answer was cut off.", "the server answered with status 503"]);
}

export async function tells_who_answers_in_the_place_of_the_server(world) {
  const page = await world.open();
  await ask(page, "private matters");
  const portal = (status) => (route) => route.fulfill({ status, contentType: "text/html", body: "<!doctype html><title>WLAN</title>" });
  await page.route("**/api/v1/**", portal(200));
  await say(page, "finish it");
  await sees(page, ".turn .failure", "such as a network's sign-in page");
  await page.unroute("**/api/v1/**");
  await page.press("#message", "Enter");
  await over(page, 2);
  // When the user returns, the page loads what it could not load before, including the choices.
  await page.route("**/api/v1/sessions/*", portal(404), { times: 1 });
  await page.route("**/api/v1/policy", portal(502), { times: 1 });
  await page.reload();
  await sees(page, ".notice .failure", "such as a network's sign-in page");
  assert.equal(await page.locator(".notice >> text=Try again").count(), 1);
  assert.equal(await page.locator(".choice option").count(), 0);
  await hide(page, true);
  await hide(page, false);
  await over(page, 2);
  await page.locator(".choice option").first().waitFor({ state: "attached" });
  // A message sent before the session could be loaded is shown once.
  await page.route("**/api/v1/sessions/*", portal(502), { times: 1 });
  await page.reload();
  await sees(page, ".notice .failure", "status 502");
  await ask(page, "finish it");
  await hide(page, true);
  await hide(page, false);
  await ask(page, "private matters");
  assert.deepEqual(await page.locator(".turn .said .bubble").allInnerTexts(), ["finish it", "private matters"]);
  // A file of the page that could not be loaded is reported too.
  await page.route("**/assets/diff.js", (route) => route.abort(), { times: 1 });
  await page.reload();
  await sees(page, "#main", "reload the page");
  await world.accessible(page, "a page that did not arrive");
}

export async function follows_nothing_from_a_view_that_was_left(world) {
  const page = await world.open();
  await say(page, "endless please");
  await sees(page, ".reply .md", "word3");
  const [{ run_id: run, session_id: session }] = (await world.api("/runs")).runs;
  await go(page, "#/stats");
  await sees(page, "h1", "Statistics");
  // A browser allows six connections per host: if these were not closed, no further data would arrive.
  for (let at = 0; at < 4; at += 1) {
    for (const where of [`/sessions/${session}`, `/runs/${run}`]) {
      const { asked } = await hold(page, `**/api/v1${where}`);
      await go(page, `#${where}`);
      const loading = await asked;
      await go(page, "#/stats");
      await sees(page, "h1", "Statistics");
      await loading.continue();
    }
  }
  await go(page, "#/runs");
  await sees(page, ".runs tbody tr", "endless please");
  // A view that stays open is followed.
  await go(page, `#/sessions/${session}`);
  await sees(page, ".reply .md", "word");
  await page.click("[aria-label='Stop the run']");
  await over(page, 1);
}

export async function leaves_connections_to_the_tab_that_is_seen(world) {
  const first = await world.open();
  await choose(first, "Channel", "code_task");
  // A browser allows six connections per host, however many tabs it has.
  for (let at = 0; at < 6; at += 1) {
    const page = at === 0 ? first : await tab(world, first);
    await say(page, "write a note");
    await page.waitForSelector(".ask .answers");
    await hide(page, true);
  }
  const last = await tab(world, first);
  await ask(last, "private matters");
  await first.click(".ask .primary");
  await sees(first, ".ask", "Approved");
  assert.equal(await first.locator(".turn-foot .facts").count(), 0);
  await hide(first, false);
  await over(first, 1);
  await sees(first, ".reply .md", "The note is written.");
}

export async function misses_and_repeats_nothing_while_nobody_looks(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await ask(page, "private matters");
  const other = await tab(world, page, new URL(page.url()).hash);
  await over(other, 1);
  // After the user returns, everything said and printed is received again from its start.
  const comesBack = async (selector, texts) => {
    for (const [before, meanwhile] of texts) {
      await sees(page, selector, before);
      await hide(page, true);
      await sees(other, selector, meanwhile);
      await hide(page, false);
    }
    await sees(page, selector, texts.at(-1)[1]);
    return page.locator(selector).last().innerText();
  };
  await say(page, "print it");
  await sees(page, ".turn:nth-child(2) .call", "run_command");
  // It discovers the run when it becomes visible.
  await hide(other, true);
  await hide(other, false);
  for (const each of [page, other]) await each.click(".turn:nth-child(2) .call summary");
  const printed = await comesBack("[aria-label='Output so far']", [["lïne 3\n", "lïne 8\n"], ["lïne 10\n", "lïne 15\n"], ["lïne 17\n", "lïne 22\n"]]);
  const lines = printed.trimEnd().split("\n");
  assert.deepEqual(lines, Array.from(lines, (_, at) => `lïne ${at}`));
  await world.picture(page, "printed-while-nobody-looked");
  await page.click("[aria-label='Stop the run']");
  await over(page, 2);
  await over(other, 2);
  await say(page, "accents please");
  await sees(page, ".turn:nth-child(3) .reply .md", "wörd3");
  await hide(other, true);
  await hide(other, false);
  const said = await comesBack(".turn:nth-child(3) .reply > .md", [["wörd5", "wörd20"], ["wörd25", "wörd40"], ["wörd45", "wörd60"]]);
  // The last word may be incomplete.
  const whole = said.split(/\s+/).slice(0, -1);
  assert.deepEqual(whole, Array.from(whole, (_, at) => `wörd${at}`));
  await page.click("[aria-label='Stop the run']");
  await over(page, 3);
}

export async function shows_what_another_tab_begins(world) {
  const page = await world.open();
  await ask(page, "private matters");
  const { hash } = new URL(page.url());
  const other = await tab(world, page, hash);
  await over(other, 1);
  await say(page, "endless please");
  await sees(page, ".reply .md", "word3");
  // Runs not shown yet are shown before the message is sent.
  await say(other, "plan it");
  await sees(other, ".notice .failure", "Your message was not sent");
  assert.equal(await other.inputValue("#message"), "plan it");
  await sees(other, ".turn:nth-child(2) .reply .md", "word3");
  assert.equal(await other.locator(".turn").count(), 2);
  await other.waitForSelector(".session-list .spins");
  await world.picture(other, "begun-elsewhere");
  await world.accessible(other, "a run that was begun elsewhere");
  await other.click("[aria-label='Stop the run']");
  await over(other, 2);
  await over(page, 2);
  // The other run starts while the message is being sent.
  const { asked } = await hold(other, "**/turns");
  const attach = (name) => other.setInputFiles("#files", [{ name, mimeType: "text/plain", buffer: Buffer.from("Milk.") }]);
  await attach("first.txt");
  await other.press("#message", "Enter");
  const taken = await asked;
  // Nothing is lost if the user writes more meanwhile, and typing continues where it was.
  await other.fill("#message", "and then ths");
  await other.press("#message", "ArrowLeft");
  await attach("second.txt");
  await say(page, "endless again");
  await sees(page, ".turn:nth-child(3) .reply .md", "word3");
  await taken.continue();
  await sees(other, ".notice .failure", "Your message was not sent");
  await sees(other, ".turn:nth-child(3) .reply .md", "word3");
  await other.locator("#message").pressSequentially("i");
  assert.equal(await other.inputValue("#message"), "plan it\n\nand then this");
  assert.match((await other.locator(".composer .file").allTextContents()).join(), /first\.txt.*second\.txt/);
  await world.picture(other, "makes-way");
  await world.accessible(other, "a message that made way");
  for (const name of ["first.txt", "second.txt"]) await other.click(`[aria-label='Remove ${name}']`);
  await page.click("[aria-label='Stop the run']");
  await over(other, 3);
  await ask(other, "plan it");
  // When the user returns, the run is shown without a message being sent, and the list shows it too.
  await hide(page, true);
  await hide(page, false);
  await over(page, 4);
  assert.deepEqual(await page.locator(".turn .said .bubble").allTextContents(), ["private matters", "endless please", "endless again", "plan it"]);
  await hide(page, true);
  await say(other, "endless once more");
  await sees(other, ".turn:nth-child(5) .reply .md", "word3");
  assert.equal(await page.locator(".session-list .spins").count(), 0);
  await hide(page, false);
  await page.waitForSelector(".session-list .spins");
  await sees(page, ".turn:nth-child(5) .reply .md", "word3");
  await page.click("[aria-label='Stop the run']");
  await over(page, 5);
  assert.equal((await world.api("/runs")).runs.length, 5);
}

export async function keeps_what_is_being_written(world) {
  const page = await world.open();
  await page.fill("#message", "for a new one");
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#message")?.value === "for a new one");
  await ask(page, "private matters");
  const { hash } = new URL(page.url());
  assert.equal(await page.inputValue("#message"), "");
  await page.fill("#message", "first line\nsecond line");
  await page.click(".actions a");
  await page.waitForSelector(".bar-row");
  await page.goBack();
  await over(page, 1);
  assert.equal(await page.inputValue("#message"), "first line\nsecond line");
  await go(page, "#/");
  await page.waitForSelector(".welcome");
  assert.equal(await page.inputValue("#message"), "", "each session has its own");
  await go(page, hash);
  await over(page, 1);
  await page.reload();
  await over(page, 1);
  assert.equal(await page.inputValue("#message"), "first line\nsecond line");
  await page.fill("#message", "");
  await page.reload();
  await over(page, 1);
  assert.equal(await page.inputValue("#message"), "");
  // The message is still being sent.
  await stalled(page, "**/turns", () => say(page, "into the tunnel"));
  await go(page, "#/stats");
  await sees(page, "h1", "Statistics");
  await go(page, hash);
  await over(page, 1);
  assert.equal(await page.inputValue("#message"), "", "this tab still sends it");
  await page.reload();
  await over(page, 1);
  assert.equal(await page.inputValue("#message"), "into the tunnel");
  await ask(page, "finish it");
  await page.reload();
  await over(page, 2);
  assert.equal(await page.inputValue("#message"), "");
  // If the browser stores nothing, the page keeps it in memory.
  await page.addInitScript(() => {
    for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { get: () => { throw new DOMException("refused", "SecurityError"); } });
  });
  await page.reload();
  await over(page, 2);
  await page.fill("#message", "kept");
  await go(page, "#/stats");
  await sees(page, "h1", "Statistics");
  await go(page, hash);
  await over(page, 2);
  assert.equal(await page.inputValue("#message"), "kept");
}

export async function stays_where_the_person_went(world) {
  const page = await world.open();
  const { asked } = await hold(page, "**/api/v1/sessions");
  await say(page, "markdown please");
  const making = await asked;
  await go(page, "#/runs");
  await sees(page, "h1", "Runs");
  const taken = page.waitForResponse((response) => response.url().endsWith("/turns"));
  await making.continue();
  await taken;
  await sees(page, ".session-list", "markdown please");
  assert.equal(new URL(page.url()).hash, "#/runs");
  assert.equal(await page.locator(".session-list .current").count(), 0);
  // The message was not lost.
  await page.click(".session-list li a");
  await over(page, 1);
  await sees(page, ".turn .bubble", "markdown please");
}

export async function stops_steers_and_goes_on_by_keyboard(world) {
  const page = await world.open();
  await page.focus("#message");
  await page.keyboard.type("endless");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("please");
  assert.equal(await page.inputValue("#message"), "endless\nplease");
  assert.equal(await takeWord(page, "#message"), false, "an Enter that takes a word sends nothing");
  await page.keyboard.press("Enter");
  await sees(page, ".reply .md", "word3");
  await page.keyboard.type("and this");
  await page.keyboard.press("Enter");
  await sees(page, ".steered .bubble", "and this");
  await page.focus("[aria-label='Stop the run']");
  await page.keyboard.press("Enter");
  await sees(page, ".line-note", "stopped on the page");
  await over(page, 1);
  assert.ok(await has(page, "#message"), "the focus does not go with the button");
  await sees(page, "#announcements", "Ended: cancelled");
  await sees(page, "h1", "endless");
  assert.equal((await world.api("/runs")).runs[0].status, "interrupted");
  // The partial answer is shown once, as after a reload.
  const did = await page.locator(".did").innerText();
  assert.equal(did.split("word2 ").length, 2, did);
  await page.reload();
  await over(page, 1);
  assert.equal(await page.locator(".did").innerText(), did);
  await page.click("[aria-label='Send the message again']");
  await sees(page, ".turn:nth-child(2) .md", "word3");
  await page.click("[aria-label='Send the message again']");
  await sees(page, ".notice .failure", "A run is in progress");
  assert.equal(await page.locator(".turn").count(), 2);
  await page.click("[aria-label='Stop the run']");
  await over(page, 2);
  // From the top of the page, everything is reachable with Tab, and the focused element has an outline.
  await page.evaluate(() => document.activeElement.blur());
  const reached = new Set();
  for (let step = 0; step < 40; step += 1) {
    await page.keyboard.press("Tab");
    const [name, isSeen] = await page.evaluate(() => {
      const node = document.activeElement;
      // After the last element, the focus moves to the browser itself.
      if (node === document.body) return ["the browser", true];
      const outlined = node.classList.contains("message") ? node.closest(".composer-box") : node;
      const style = getComputedStyle(outlined);
      return [node.id || node.ariaLabel || node.textContent.trim(), style.outlineStyle !== "none" || style.boxShadow !== "none"];
    });
    assert.ok(isSeen, `${name} shows that it has the focus`);
    reached.add(name);
  }
  for (const name of ["Skip to the content", "New session", "message", "Agent", "Channel", "Mode", "Why?", "Send"]) assert.ok(reached.has(name), `${name} is reached: ${[...reached]}`);
}

/** Returns the content of the last turn in order: a message in brackets, a note after a dash, a reply by its first word. The heading of an
 *  answer is only heard. */
const order = (page) => page.locator(".turn").last().evaluate((turn) => [...turn.querySelectorAll(".agent > *")].map((node) => {
  const [text] = node.innerText.trim().replace(/^Answer\n+/, "").split("\n");
  if (node.matches(".steered")) return `[${text}]`;
  return node.matches(".line-note") ? `- ${text}` : text.split(" ")[0];
}).filter(Boolean));

export async function shows_what_no_model_heard_behind_what_was_said(world) {
  const page = await world.open();
  await say(page, "endless please");
  await sees(page, ".reply .md", "word3");
  await say(page, "IN GERMAN");
  await sees(page, ".steered .bubble", "IN GERMAN");
  assert.deepEqual(await order(page), ["word0", "[IN GERMAN]"]);
  await page.reload();
  await sees(page, ".reply .md", "word20");
  assert.deepEqual(await order(page), ["word0", "[IN GERMAN]"], "after a reload in the middle of it");
  await page.click("[aria-label='Stop the run']");
  await over(page, 1);
  const stopped = ["word0", "[IN GERMAN]", "- Stopped: stopped on the page", "- Ended: cancelled"];
  assert.deepEqual(await order(page), stopped);
  await world.picture(page, "unheard-wide-light");
  await page.reload();
  await over(page, 1);
  assert.deepEqual(await order(page), stopped);
  const { history } = await world.api(`/sessions/${new URL(page.url()).hash.split("/").at(-1)}`);
  assert.deepEqual(history.map(({ role }) => role), ["user", "assistant", "user"], "as the next model is told it");
}

export async function shows_a_message_where_a_model_heard_it(world) {
  const page = await world.open();
  const shown = async (...events) => {
    await page.evaluate(async (all) => {
      const { TurnView } = await import("/assets/turn.js");
      const turn = new TurnView({ runId: "r", text: "asked" });
      document.querySelector(".turns").replaceChildren(turn.node);
      all.forEach((event, at) => turn.apply({ run_id: "r", agent: "a0", seq: at + 1, ...event }));
    }, events);
    return order(page);
  };
  const said = (text) => ({ type: "steered", message: { role: "user", parts: [{ type: "text", text }] } });
  const grows = (index, text) => ({ type: "text_delta", seq: undefined, content_index: index, attempt: 1, block: 0, offset: 0, text });
  const replied = (index, text, ...calls) => ({ type: "llm_call", purpose: "turn", content_index: index, reply: { parts: [{ type: "text", text }, ...calls] } });
  const call = { type: "tool_call", name: "calculate", arguments: "{}" };
  const result = { type: "tool_result", tool_call_id: "call_r_a0_0_0", name: "calculate", value: "1" };
  const failed = (index) => ({ type: "llm_failed", purpose: "turn", content_index: index, attempt: 1, next: "none", error: { kind: "server", message: "out of luck" } });
  const broke = (unheard, content = "") => ({ type: "run_failed", content, unheard, finish_reason: { failed: "out of luck" } });
  const limit = (unheard, content) => ({ type: "final", content, unheard, finish_reason: "max_turns" });
  // While the model writes, and afterward from the records.
  for (const live of [[grows(0, "one")], []]) {
    assert.deepEqual(await shown(...live, said("M"), replied(0, "one"), grows(1, "two"), replied(1, "two"), { type: "final", content: "two", finish_reason: "stop" }), ["one", "[M]", "two"]);
    const [, ...ended] = await shown(...live, said("M"), failed(0), broke(1));
    assert.equal(ended[0], "[M]", `a failure: ${ended}`);
    assert.ok(ended.includes("- Failed: out of luck"), `in one word: ${ended}`);
    assert.deepEqual((await shown(...live, said("M"), replied(0, "one"), limit(1, "one"))).slice(0, 2), ["one", "[M]"]);
    assert.deepEqual((await shown(...live, said("M"), limit(1, "so far"))).slice(0, 2), ["so", "[M]"]);
    // A reply that was partly received from a server that died is received again, after the run was resumed.
    const resumed = { type: "resumed", reason: "whatever the log says" };
    assert.deepEqual(await shown(...live, resumed, grows(0, "one"), replied(0, "one"), { type: "final", content: "one", finish_reason: "stop" }), ["- Resumed", "one"]);
    const released = { ...resumed, released: true };
    assert.deepEqual(await shown(...live, released, replied(0, "one"), { type: "final", content: "one", finish_reason: "stop" }), ["- Resumed after a stop", "one"]);
  }
  // Between calls and their results, for the next reply.
  assert.deepEqual((await shown(replied(0, "one", call), said("M"), result, grows(1, "two"), said("N"), { type: "cancelled", cut: { text: "two" } }, { type: "final", content: "one two", unheard: 1, finish_reason: "cancelled" })).slice(0, 5), ["one", "[M]", "two", "[N]", "- Stopped"]);
  // For a message that the model received, the answer is a new reply.
  assert.deepEqual((await shown(grows(0, "one"), said("M"), replied(0, "one"), said("N"), limit(1, "late"))).slice(0, 4), ["one", "[M]", "late", "[N]"]);
  // The message came between the calls, and no model was called afterward.
  assert.deepEqual((await shown(replied(0, "one", call), said("M"), result, limit(1, "late"))).slice(0, 3), ["one", "late", "[M]"]);
}

export async function shows_earlier_turns_without_a_jump(world) {
  for (let at = 0; at < 26; at += 1) await world.api("/sessions/long/turns", { message: `markdown ${at}` });
  const page = await world.open({ token: false, hash: "#/sessions/long" });
  await over(page, 12);
  const top = (text) => page.locator(`.bubble:text-is("${text}")`).evaluate((bubble) => bubble.getBoundingClientRect().top);
  const scroller = page.locator(".chat .scroller");
  for (const [first, count, focus] of [["markdown 14", 24, "BUTTON"], ["markdown 2", 26, "DIV"]]) {
    // With the button visible, as for a user who presses it.
    await scroller.evaluate((node) => { node.scrollTop = 0; });
    await page.waitForFunction(() => !document.querySelector(".to-end").hidden);
    const before = await top(first);
    await page.focus(".earlier button");
    await page.keyboard.press("Enter");
    await over(page, count);
    assert.ok(Math.abs((await top(first)) - before) < 5, "what was read stays where it was");
    assert.equal(await page.evaluate(() => document.activeElement.tagName), focus);
  }
  // After looking at a run, the user returns to the same place, with the earlier turns loaded.
  const link = page.locator(".turn:has(.bubble:text-is('markdown 5')) .actions a");
  await link.scrollIntoViewIfNeeded();
  await page.waitForTimeout(100);
  const before = await top("markdown 5");
  await link.click();
  await page.waitForSelector(".bar-row");
  await page.goBack();
  await over(page, 26);
  await page.waitForFunction((was) => Math.abs([...document.querySelectorAll(".bubble")].find((node) => node.textContent === "markdown 5").getBoundingClientRect().top - was) < 5, before);
  // When the phone is turned or the window narrowed, the reading position stays.
  await page.evaluate(() => {
    window.readNow = () => {
      const { top } = document.querySelector(".scroller").getBoundingClientRect();
      return [...document.querySelectorAll(".turn :is(.bubble, p, li, pre)")].findIndex((node) => node.getBoundingClientRect().bottom > top);
    };
  });
  const first = await scroller.evaluate((node) => new Promise((done) => { node.scrollBy(0, 300); requestAnimationFrame(() => requestAnimationFrame(() => done(window.readNow()))); }));
  for (const size of [{ width: 360, height: 740 }, { width: 740, height: 360 }]) {
    await page.setViewportSize(size);
    await page.waitForFunction(([wide, at]) => innerWidth === wide && Math.abs(window.readNow() - at) <= 1, [size.width, first]);
  }
  await page.click(".to-end");
  await page.waitForFunction(() => document.querySelector(".to-end").hidden);
  await focused(page, ".scroller");
  // A new view of the session starts at its end.
  await go(page, "#/");
  await page.waitForSelector(".welcome");
  await go(page, "#/sessions/long");
  await over(page, 12);
  await page.waitForFunction(() => document.querySelector(".to-end").hidden);
}

export async function takes_nothing_that_is_over_for_news(world) {
  const turn = (message) => world.api("/sessions/long/turns", { message, channel: "code_task" });
  await turn("plan it");
  for (let at = 0; at < 12; at += 1) await turn(`markdown ${at}`);
  await turn("finish it");
  const page = await world.open({ token: false, hash: "#/stats" });
  await listen(page);
  await go(page, "#/sessions/long");
  await over(page, 12);
  assert.equal(await page.locator(".plan-panel .tag").innerText(), "3/3");
  await page.click(".earlier button");
  await over(page, 14);
  assert.equal(await page.locator(".plan-panel .tag").innerText(), "3/3", "an old plan is none of now");
  await page.click(".turn:last-child .actions a");
  await page.click("#tab-replay");
  await sees(page, ".stage .md", "That was all.");
  assert.deepEqual(await page.evaluate(() => window.told.filter(Boolean)), []);
}

export async function explains_the_choice(world) {
  const page = await world.open();
  await choose(page, "Mode", "conservative");
  await page.click("text=Why?");
  await sees(page, ".explained dd", "conservative");
  await sees(page, ".explained li", "Mode conservative");
  await choose(page, "Channel", "code_task");
  await sees(page, ".explained dd", "code_task");
  await world.accessible(page, "the explained decision");
  await world.picture(page, "decision");
  for (const place of ["#message", "[aria-controls=explained]"]) {
    await page.focus(place);
    await page.keyboard.press("Escape");
    assert.ok(await page.isHidden(".explained"), place);
    assert.ok(await has(page, place));
    await page.click("text=Why?");
  }
  await page.click("text=Why?");
  await choose(page, "Mode", "moderate");
  await ask(page, "private please");
  await sees(page, ".line-note.refused", "That folder is private.");
  await sees(page, ".line-note.refused", "Rule private (neuraxis.toml");
  await world.picture(page, "refused");
  await ask(page, "plan it");
  await page.click(".plan-panel summary");
  assert.equal(await page.locator(".plan-panel [data-status=done]").count(), 2);
  await ask(page, "break it");
  await sees(page, ".line-note.error", "This could not be finished: the model server failed with status 500; try again in a moment.");
  assert.equal(await page.locator(".turn").last().locator("[aria-label='Copy the answer']").count(), 0, "there is none");
  await world.picture(page, "failed-model");
}

export async function sends_what_was_chosen_before_the_choices_are_there(world) {
  const page = await world.open();
  await choose(page, "Mode", "conservative");
  const held = await hold(page, "**/api/v1/policy");
  await page.reload();
  const loading = await held.asked;
  const taken = page.waitForRequest("**/turns");
  await ask(page, "markdown please");
  assert.deepEqual((await taken).postDataJSON(), { message: "markdown please", channel: "chat", mode: "conservative" });
  await loading.continue();
  await page.locator("[aria-label=Mode] option").first().waitFor({ state: "attached" });
  assert.equal(await page.inputValue("[aria-label=Mode]"), "conservative");
}

export async function chooses_for_its_own_tab_alone(world) {
  const page = await world.open();
  await choose(page, "Mode", "conservative");
  await ask(page, "private matters");
  const other = await tab(world, page);
  assert.equal(await other.inputValue("[aria-label=Mode]"), "conservative", "a new tab begins with what was chosen last");
  await choose(other, "Mode", "exploratory");
  // Choices made in another tab affect neither another view, nor a reload, nor a tab in which the user has not chosen.
  await go(page, "#/");
  await page.waitForSelector(".welcome");
  await page.locator("[aria-label=Mode] option").first().waitFor({ state: "attached" });
  assert.equal(await page.inputValue("[aria-label=Mode]"), "conservative");
  await page.reload();
  const taken = page.waitForRequest("**/turns");
  await ask(page, "private matters");
  assert.equal((await taken).postDataJSON().mode, "conservative");
  const third = await tab(world, page);
  await choose(other, "Mode", "moderate");
  await third.reload();
  await third.locator("[aria-label=Mode] option").first().waitFor({ state: "attached" });
  assert.equal(await third.inputValue("[aria-label=Mode]"), "exploratory");
}

export async function finds_and_deletes_sessions(world) {
  for (let at = 0; at < 45; at += 1) await world.api("/sessions", { id: `many-${String(at).padStart(2, "0")}` });
  await world.api("/sessions/talk/turns", { message: "markdown please" });
  const page = await world.open({ viewport: PHONE });
  const counted = [];
  page.on("request", (request) => request.url().includes("/api/v1/runs") && counted.push(request.url()));
  await page.click("#unfold");
  const entries = page.locator(".session-list li");
  await sees(page, ".session-list", "markdown please");
  assert.equal(await entries.count(), 40);
  // A session that is not loaded is found by its id, and disappears once it is deleted.
  await page.fill(".sessions [type=search]", "many-00");
  await page.click("[aria-label='Delete many-00']");
  await page.click("dialog .danger");
  await sees(page, ".session-list .empty", "No sessions contain “many-00”.");
  await page.fill(".sessions [type=search]", "many-00-");
  await sees(page, "#announcements", "No sessions contain “many-00-”.");
  const held = await hold(page, "**/api/v1/sessions?limit=40");
  await page.reload();
  const loading = await held.asked;
  await page.waitForSelector("#message");
  assert.equal(await page.locator(".session-list .skeleton").count(), 1, "it says nothing of what it does not know yet");
  assert.equal(await page.locator(".session-list .empty").count(), 0);
  await loading.continue();
  await page.click("#unfold");
  await sees(page, ".session-list", "markdown please");
  await page.dblclick("text=Show more");
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 45);
  await focused(page, ".session-list a");
  // Changes leave the other entries, and the focus, where they are.
  await world.api("/sessions", { id: "newest" });
  await page.focus("a[href$=many-02]");
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await sees(page, ".session-list", "newest");
  assert.equal(await entries.count(), 46);
  assert.match(await page.evaluate(() => document.activeElement.getAttribute("href")), /many-02$/);
  assert.deepEqual(counted, [], "the list tells all that is shown of sessions");
  // A rate-limited request removes nothing.
  await world.api("/sessions", { id: "newer" });
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await sees(page, ".session-list", "newer");
  assert.equal(await entries.count(), 47);
  await page.route("**/api/v1/sessions?*", (route) => route.fulfill({ status: 429, json: { title: "Too many requests" } }), { times: 1 });
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await sees(page, ".session-list .error", "Too many requests");
  assert.equal(await entries.count(), 47);
  await page.fill(".sessions [type=search]", "MARKDOWN");
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 1);
  await world.accessible(page, "the list of sessions");
  await world.picture(page, "sessions-phone-light");
  await page.fill(".sessions [type=search]", "many-0");
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 9);
  await page.click("[aria-label='Delete many-03']");
  await world.accessible(page, "the question before deleting");
  await page.click("dialog >> text=Keep it");
  assert.equal(await entries.count(), 9);
  // The list is redrawn behind the dialog, and the focus returns to the same entry.
  await page.click("[aria-label='Delete many-03']");
  await world.api("/sessions", { id: "many-0-new" });
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 10);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement.matches("[aria-label='Delete many-03']"));
  await page.click("[aria-label='Delete many-03']");
  const { asked } = await hold(page, "**/api/v1/sessions/many-03");
  await page.click("dialog .danger");
  const deleting = await asked;
  assert.ok(await page.isDisabled("dialog .danger"), "it is asked for once");
  await deleting.continue();
  await page.waitForFunction(() => document.querySelectorAll(".session-list li").length === 9);
  await page.waitForFunction(() => document.activeElement.matches("a[href$=many-02]"));
  assert.equal((await world.api("/sessions/many-03")).status, 404);
  // For a waiting session, the page says what to do.
  assert.equal((await world.api("/sessions/asks/turns", { message: "write please", channel: "code_task" })).status, "waiting");
  await page.fill(".sessions [type=search]", "asks");
  await page.click("[aria-label='Delete asks'], [aria-label='Delete write please']");
  await page.click("dialog .danger");
  await sees(page, "dialog .error", "Open the session and press Stop");
}

export async function calls_sessions_by_their_first_message(world) {
  const turn = (session, message) => world.api(`/sessions/${session}/turns`, { message });
  await turn("old", "private matters");
  await turn("old", "markdown please");
  await turn("new", "finish it");
  await turn("old", "exact words");
  for (let at = 0; at < 10; at += 1) await turn(`many-${at}`, `finish ${at}${at === 3 ? " \u0130STANBUL, I\u011eDIR, cafe\u0301, \u0939\u093f" : ""}`);
  const page = await world.open({ token: false, hash: "#/stats" });
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  await page.reload();
  await page.waitForSelector("text=private matters");
  const names = page.locator(".session-list .title");
  assert.equal(await names.count(), 12);
  assert.deepEqual((await names.allInnerTexts()).slice(-2), ["private matters", "finish it"], "the one that was used last comes first");
  assert.equal(requests.filter((url) => /\/api\/v1\/(sessions|runs|approvals)/.test(url)).length, 1, "one request names all");
  await page.fill(".sessions [type=search]", "finish 0");
  assert.deepEqual(await names.allInnerTexts(), ["finish 0"]);
  for (const [words, count] of [["istanbul", 1], ["\u0131\u011fd\u0131r", 1], ["caf\u00e9", 1], ["\u0939\u093f", 1], ["\u0939\u0941", 0]]) {
    await page.fill(".sessions [type=search]", words);
    assert.equal(await names.count(), count, words);
  }
  const cut = await page.evaluate(async () => (await import("/assets/format.js")).oneLine("\u{1f600}".repeat(60), 80));
  assert.equal(cut, `${"\u{1f600}".repeat(39)}…`);
  // A session that is not in the list is named too.
  await page.route("**/api/v1/sessions?limit=40", (route) => route.fulfill({ json: { sessions: [], next: "0~more" } }));
  await page.reload();
  await go(page, "#/sessions/old");
  await over(page, 3);
  await page.waitForFunction(() => document.title === "private matters · Neuraxis");
}

export async function does_not_begin_a_deleted_session_anew(world) {
  const page = await world.open();
  await ask(page, "markdown please");
  const [session] = (await world.api("/sessions")).sessions;
  await fetch(`${world.server}/api/v1/sessions/${session.id}`, { method: "DELETE" });
  await say(page, "plan it");
  await sees(page, ".failure", "deleted elsewhere");
  assert.equal(await page.inputValue("#message"), "plan it", "what was said is not lost");
  assert.equal((await world.api("/sessions")).sessions.length, 0);
}

export async function goes_on_in_a_new_session(world) {
  const page = await world.open();
  await ask(page, "markdown please");
  const old = new URL(page.url()).hash;
  await page.click("[aria-label='Continue in a new session from here']");
  await world.accessible(page, "the question before a fork");
  await page.fill("#fork-text", "slow please");
  await page.keyboard.press("Tab");
  await page.click("dialog .primary");
  await page.waitForFunction((hash) => location.hash !== hash, old);
  await page.waitForSelector(".session-list .current .spins");
  await sees(page, ".session-list .current", "slow please");
  assert.equal(await page.locator(".turn-foot .facts").count(), 0, "the list tells of it while it works");
  await over(page, 1);
  await sees(page, ".before .bubble", "markdown please");
  await sees(page, ".before .md", "what I found");
  await sees(page, ".turn .bubble", "slow please");
  assert.equal(await page.locator(".turn").count(), 1);
  await world.picture(page, "fork");
  assert.equal((await world.api("/sessions")).sessions.length, 2);
}

export async function asks_again_with_another_message(world) {
  const page = await world.open();
  await ask(page, "markdown please");
  await ask(page, "private matters");
  const old = new URL(page.url()).hash;
  const edit = (at) => page.locator("[aria-label='Edit the message and ask again']").nth(at);
  await edit(1).click();
  await page.keyboard.type(", again");
  await page.keyboard.press("Escape");
  await sees(page, ".turn:nth-child(2) .bubble", "private matters");
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), "Edit the message and ask again");
  await edit(1).click();
  await page.fill(".edit-message textarea", "plan it");
  assert.equal(await takeWord(page, ".edit-message textarea"), false, "an Enter that takes a word asks nothing");
  await world.accessible(page, "a message that is edited");
  await world.picture(page, "edit-wide-light");
  const held = await hold(page, /\/api\/v1\/sessions\/[^/]+$/);
  await page.keyboard.press("Enter");
  await page.waitForFunction((hash) => location.hash !== hash, old);
  // The list shows the new session even if its run ends before anything follows it.
  const opening = await held.asked;
  while ((await world.api("/runs?limit=1")).runs[0].status !== "done");
  await opening.continue();
  await over(page, 1);
  await sees(page, ".session-list .current .title", "plan it");
  await sees(page, ".turn .bubble", "plan it");
  await sees(page, ".before .bubble", "markdown please");
  assert.doesNotMatch(await page.locator(".chat").innerText(), /private/, "it goes on from what was said before the message");
  // An edited message can be edited again.
  const edited = new URL(page.url()).hash;
  await edit(0).click();
  await page.fill(".edit-message textarea", "finish it");
  await page.keyboard.press("Enter");
  await page.waitForFunction((hash) => location.hash !== hash, edited);
  await over(page, 1);
  await sees(page, ".turn .bubble", "finish it");
  await sees(page, ".before .bubble", "markdown please");
  assert.doesNotMatch(await page.locator(".chat").innerText(), /plan it/);
  // No conversation precedes the first message.
  await page.goto(`${world.url}/${old}`);
  await over(page, 2);
  await edit(0).click();
  await page.fill(".edit-message textarea", "private matters, please");
  await page.click("text=Ask again");
  await page.waitForFunction((hash) => location.hash !== hash, old);
  await over(page, 1);
  await sees(page, ".turn .bubble", "private matters, please");
  assert.equal(await page.locator(".before").count(), 0);
  assert.equal((await world.api("/sessions")).sessions.length, 4);
}

export async function asks_again_with_the_files_of_the_message(world) {
  const page = await world.open();
  await ask(page, "markdown please");
  // A refused message leaves nothing to continue from.
  await page.setInputFiles("#files", [{ name: "odd.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0, 1, 2]) }]);
  await say(page, "look at this");
  await sees(page, ".failure", "odd.bin cannot be sent");
  await page.click("[aria-label='Remove odd.bin']");
  await page.setInputFiles("#files", [{ name: "point.png", mimeType: "image/png", buffer: POINT }]);
  await ask(page, "private matters");
  const old = new URL(page.url()).hash;
  await page.locator("[aria-label='Edit the message and ask again']").last().click();
  await page.fill(".edit-message textarea", "plan it");
  await page.keyboard.press("Enter");
  await page.waitForFunction((hash) => location.hash !== hash, old);
  await sees(page, ".before .bubble", "markdown please");
  await over(page, 1);
  await sees(page, ".turn .bubble", "plan it");
  assert.equal(await page.locator(".turn .said img[src^='data:image/png']").count(), 1);
  assert.doesNotMatch(await page.locator(".chat").innerText(), /private|look at this/);
}

export async function forks_once_however_often_it_is_asked(world) {
  const page = await world.open();
  await ask(page, "markdown please");
  await ask(page, "private matters");
  const old = new URL(page.url()).hash;
  const forks = [];
  page.on("request", (request) => request.url().endsWith("/fork") && forks.push(request));
  let held = await hold(page, "**/fork");
  await page.locator("[aria-label='Edit the message and ask again']").nth(1).click();
  await page.fill(".edit-message textarea", "plan it");
  await page.keyboard.press("Enter");
  const edited = await held.asked;
  await page.keyboard.press("Enter");
  assert.ok(await page.isDisabled(".edit-message .primary"));
  await world.accessible(page, "a message that is asked again");
  await edited.continue();
  await page.waitForFunction((hash) => location.hash !== hash, old);
  await sees(page, ".before .bubble", "markdown please");
  await over(page, 1);
  assert.equal(forks.length, 1);
  const next = new URL(page.url()).hash;
  // A refused message can be changed and sent again.
  held = await hold(page, "**/fork");
  await page.click("[aria-label='Continue in a new session from here']");
  await page.click("dialog .primary");
  const refused = await held.asked;
  assert.ok(await page.isDisabled("dialog .primary"));
  assert.ok(await page.isDisabled("#fork-text"));
  await refused.continue();
  await sees(page, "dialog .error", "add a new message");
  await page.fill("#fork-text", "markdown please");
  await page.click("dialog .primary");
  await page.waitForFunction((hash) => location.hash !== hash, next);
  await over(page, 1);
  assert.equal(forks.length, 3);
  assert.equal((await world.api("/sessions")).sessions.length, 3);
}

export async function keeps_conversations_and_runs_as_files(world) {
  const page = await world.open();
  await ask(page, "private matters");
  const saved = async (click) => {
    const [download] = await Promise.all([page.waitForEvent("download"), click()]);
    const parts = [];
    for await (const part of await download.createReadStream()) parts.push(part);
    return [download.suggestedFilename(), Buffer.concat(parts).toString("utf8")];
  };
  const [name, markdown] = await saved(() => page.click(".chat-tools >> text=Export"));
  assert.equal(name, "private matters.md");
  assert.match(markdown, /^# private matters\n\n## User\n\nprivate matters\n\n## Assistant\n\n\*\*Called `read_file`\*\*\n\n```json\n[^]*diary\.txt[^]*\*\*Result of `read_file`\*\*[^]*I may not read that\.\n$/);
  await page.click(".actions a");
  await page.waitForSelector(".bar-row");
  const [file, lines] = await saved(() => page.click(".run-head button"));
  assert.match(file, /^run-[0-9a-f-]+\.jsonl$/);
  const records = lines.trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(records.map((record) => record.seq), records.map((_, at) => at + 1));
  assert.equal(records.at(-1).type, "final");
  // In many scripts, combining marks form words.
  const [{ session_id: session }] = (await world.api("/runs")).runs;
  for (const title of ["\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902", "\u0e17\u0e35\u0e48\u0e2d\u0e22\u0e39\u0e48", "cafe\u0301 au lait"]) {
    const [named] = await saved(() => page.evaluate(async ([session, title]) => (await import("/assets/export.js")).saveConversation(session, title), [session, title]));
    assert.equal(named, `${title}.md`);
  }
}

export async function lists_how_a_run_ends_that_nothing_here_follows(world) {
  const turn = world.api("/sessions/elsewhere/turns", { message: "endless please" });
  const page = await world.open({ hash: "#/stats", token: false });
  const looks = [];
  await sees(page, ".session-list a", "running");
  page.on("request", (request) => looks.push(new URL(request.url()).pathname));
  const [{ run_id: run }] = (await world.api("/runs")).runs;
  await world.api(`/runs/${run}/cancel`, { reason: "over" });
  await turn;
  await page.waitForFunction(() => !document.querySelector(".session-list .spins"));
  assert.deepEqual([...new Set(looks)], ["/api/v1/sessions"], "all that looks again asks for is the list");
}
