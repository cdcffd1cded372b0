// Visibility and layout: scrolling, widths, and which controls can be pressed.

import assert from "node:assert/strict";
import { ask, choose, focused, go, over, say, sees, PHONE, WIDE } from "./world.mjs";

const scrolled = (page) => page.locator(".chat .scroller").evaluate((node) => ({ top: node.scrollTop, below: node.scrollHeight - node.scrollTop - node.clientHeight }));

export async function leaves_whoever_goes_back_where_they_are(world) {
  const page = await world.open({ viewport: { width: 500, height: 400 } });
  await say(page, "endless please");
  await sees(page, ".reply .md", "word60");
  assert.ok((await scrolled(page)).below < 2, "the end is followed");
  await page.mouse.move(250, 150);
  // Less than a line: a slow movement on a trackpad.
  await page.mouse.wheel(0, -12);
  await page.waitForFunction(() => !document.querySelector(".to-end").hidden);
  const { top } = await scrolled(page);
  await sees(page, ".reply .md", "word80");
  assert.equal((await scrolled(page)).top, top);
  // A user who returns to the end follows it again.
  await page.mouse.wheel(0, 4000);
  await page.waitForFunction(() => document.querySelector(".to-end").hidden);
  await sees(page, ".reply .md", "word120");
  assert.ok((await scrolled(page)).below < 2);
  // So does one whose window grows, which scrolls without the user's action.
  await page.setViewportSize({ width: 500, height: 600 });
  await sees(page, ".reply .md", "word140");
  assert.ok((await scrolled(page)).below < 2);
  await page.click("[aria-label='Stop the run']");
  await over(page, 1);
}

export async function follows_the_end_in_the_same_frame(world) {
  const page = await world.open({ viewport: { width: 500, height: 400 } });
  await page.evaluate(() => {
    window.behind = [];
    const scroller = document.querySelector(".chat .scroller");
    // It is notified after the page's own observer, and before anything is drawn.
    new ResizeObserver(() => window.behind.push(Math.round(scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight))).observe(document.querySelector(".turns"));
  });
  await ask(page, "markdown please");
  await ask(page, "slow please");
  const behind = await page.evaluate(() => window.behind);
  assert.ok(behind.length > 5);
  assert.deepEqual(behind.filter((it) => it > 1), [], "nothing grows out of sight");
}

export async function shows_questions_from_the_first(world) {
  const isWhole = (node) => {
    const { top, bottom } = node.getBoundingClientRect();
    const { top: above, bottom: below } = node.closest(".scroller").getBoundingClientRect();
    return top >= above && bottom <= below;
  };
  for (const [name, viewport] of [["wide", WIDE], ["phone", PHONE]]) {
    const page = await world.open({ viewport });
    await choose(page, "Channel", "code_task");
    await say(page, "three calls");
    await page.locator(".ask").nth(2).waitFor();
    for (let is = false; !is;) is = await page.locator(".ask h3").first().evaluate(isWhole);
    const covers = () => page.evaluate(() => {
      const button = document.querySelector(".to-end").getBoundingClientRect();
      return button.width > 0 && [...document.querySelectorAll(".ask")].map((node) => node.getBoundingClientRect()).some(({ top, bottom }) => top < button.bottom && bottom > button.top);
    });
    assert.ok(!(await covers()), "nothing stands over what is asked");
    for (const by of [-60, 30, 30, 30, 30, 30]) {
      await page.locator(".scroller").evaluate((node, ms) => new Promise((done) => { node.scrollBy(0, ms); requestAnimationFrame(() => requestAnimationFrame(done)); }), by);
      assert.ok(!(await covers()), "wherever it is");
    }
    await page.locator(".ask").first().evaluate((node) => node.scrollIntoView({ block: "start" }));
    assert.equal(await page.evaluate(() => document.body.scrollTop + document.documentElement.scrollTop), 0, "the page itself stays where it is");
    assert.equal(await page.evaluate(() => document.body.scrollHeight - document.body.clientHeight), 0, "and cannot be scrolled");
    await world.picture(page, `questions-first-${name}-light`);
    for (let left = 3; left > 0; left -= 1) {
      await page.locator(".ask .danger").first().click();
      await page.waitForFunction((count) => document.querySelectorAll(".ask .answers").length < count, left);
    }
    // Once everything is decided, the end is followed again.
    await over(page, 1);
    await page.waitForFunction(() => document.querySelector(".to-end").hidden);
    assert.ok((await scrolled(page)).below < 2);
    await page.context().close();
  }
}

export async function lays_a_run_out_on_a_laptop(world) {
  const page = await world.open({ viewport: { width: 1024, height: 700 } });
  await choose(page, "Channel", "code_task");
  await ask(page, "plan it");
  await page.click(".actions a");
  await page.waitForSelector(".bar.tool");
  const apart = () => page.evaluate(() => {
    const boxes = [...document.querySelectorAll(".ticks span")].map((tick) => tick.getBoundingClientRect()).filter(({ width }) => width > 0);
    return boxes.every(({ left }, at) => at === 0 || left > boxes[at - 1].right);
  });
  assert.ok(await apart(), "times stand beside each other");
  await page.locator(".bar-row").nth(1).click();
  await page.waitForSelector(".detail");
  const [bars, detail] = await page.evaluate(() => [".bars", ".aside"].map((each) => document.querySelector(each).getBoundingClientRect().toJSON()));
  assert.ok(detail.left === bars.left && detail.right === bars.right, "what a bar stands for has the whole width");
  assert.ok(detail.bottom <= 700, "and is in sight");
  assert.ok(await page.locator(".bar-row[aria-pressed=true]").evaluate((row) => row.getBoundingClientRect().bottom <= document.querySelector(".aside").getBoundingClientRect().top), "it does not hide its bar");
  assert.ok(await apart());
  await world.picture(page, "run-laptop-light");
  await world.accessible(page, "a run on a laptop");
  await go(page, "#/runs");
  await page.waitForSelector(".runs tbody tr");
  for (const width of [1024, 1190, 1360]) {
    await page.setViewportSize({ width, height: 700 });
    assert.ok(await page.locator(".runs").evaluate((table) => table.scrollWidth <= table.clientWidth), `no column is cut at ${width}`);
    assert.ok(await page.locator(".runs td").first().evaluate((cell) => cell.clientWidth > 120), `the message has room at ${width}`);
    await world.picture(page, `runs-${width}-light`);
  }
}

export async function says_what_the_numbers_of_a_run_count_on_a_narrow_screen(world) {
  await world.api("/sessions/counted/turns", { message: "Count what this takes" });
  const { used } = (await world.api("/runs?session=counted")).runs[0];
  const page = await world.open({ hash: "#/runs", token: false });
  const cells = page.locator(".runs tbody tr", { hasText: "Count what this takes" }).locator("td");
  await cells.first().waitFor();
  await page.setViewportSize({ width: 1024, height: 700 });
  const told = await cells.allInnerTexts();
  assert.ok(told.includes(`${used.llm_calls} model call${used.llm_calls === 1 ? "" : "s"}`), told);
  assert.ok(told.includes("0 tools"), told);
}

export async function gives_titles_the_room_there_is(world) {
  const text = "Find out why the nightly build of the payments service fails on the second of the month";
  await world.api("/sessions/long/turns", { message: text });
  const page = await world.open({ hash: "#/runs", token: false });
  await sees(page, ".session-list", "Find out why");
  await page.mouse.move(700, 500);
  const ends = () => page.evaluate(() => [".session-list .title", ".session-list li", ".session-list .button"].map((each) => document.querySelector(each).getBoundingClientRect()).map(({ left, right }) => [left, right]));
  let [title, entry, bin] = await ends();
  assert.ok(entry[1] - title[1] < 12, `a title goes to the end: ${title} ${entry}`);
  assert.ok((await page.locator(".session-list a").getAttribute("title")).startsWith(text.slice(0, 70)), "and is told in full");
  assert.equal(await page.locator(".side-foot [aria-current=page]").innerText(), "All runs");
  await world.picture(page, "titles-wide-light");
  await page.hover(".session-list li");
  [title, entry, bin] = await ends();
  assert.ok(title[1] <= bin[0], "it makes room for the button");
  await world.picture(page, "titles-hover-wide-light");
  await page.click(".side-foot >> text=Statistics");
  await sees(page, ".side-foot [aria-current=page]", "Statistics");
  await page.click(".session-list a");
  await over(page, 1);
  assert.equal(await page.locator(".side-foot [aria-current]").count(), 0);
  await world.accessible(page, "a session with a long title");
  // On a narrow window, opening the list moves the focus into it, disables what it covers, and a link to the current view closes it.
  await page.setViewportSize({ width: 500, height: 700 });
  await page.focus("#unfold");
  await page.keyboard.press("Enter");
  await focused(page, ".sessions [type=search]");
  assert.ok(await page.locator("#stage").evaluate((stage) => stage.inert));
  await page.focus(".session-list .current a");
  await page.keyboard.press("Enter");
  await focused(page, "#unfold");
  await page.keyboard.press("Enter");
  await focused(page, ".sessions [type=search]");
  await page.setViewportSize(WIDE);
  await page.waitForFunction(() => !document.getElementById("stage").inert);
}

export async function is_pressed_by_fingers(world) {
  const page = await world.open({ viewport: PHONE });
  const small = async (what) => {
    const found = await page.evaluate(() => [...document.querySelectorAll("button, a.button, summary, .session-list a, .field:not(textarea)")]
      .filter((node) => node.checkVisibility({ visibilityProperty: true }))
      .map((node) => [node.ariaLabel || node.textContent || node.className, node.getBoundingClientRect()])
      .filter(([, { width, height }]) => width > 0 && (width < 32 || height < 36))
      .map(([name, { width, height }]) => `${name}: ${Math.round(width)} × ${Math.round(height)}`));
    assert.deepEqual(found, [], what);
  };
  await small("the welcome");
  await choose(page, "Channel", "code_task");
  await say(page, "write a note");
  await page.waitForSelector(".ask .answers");
  await small("a question");
  await page.tap(".ask .danger");
  await over(page, 1);
  await focused(page, ".scroller");
  await page.route("**/turns", (route) => route.fulfill({ status: 504 }), { times: 1 });
  await say(page, "markdown please");
  await page.tap("text=Send again");
  await over(page, 2);
  await focused(page, ".scroller");
  await say(page, "endless please");
  await sees(page, ".turn:last-child .reply .md", "word3");
  await page.tap("[aria-label='Stop the run']");
  await over(page, 3);
  await focused(page, "[aria-label='Send']");
  await ask(page, "plan it");
  await small("answers");
  await world.picture(page, "fingers-phone-light");
  await world.accessible(page, "what is pressed by fingers");
  await page.click("#unfold");
  // Focusing a field would open a keyboard.
  await focused(page, "[aria-label='Close the list']");
  await page.waitForSelector(".session-list li");
  await small("the list");
  await world.picture(page, "fingers-list-phone-light");
  await page.click("[aria-label='Close the list']");
  // In landscape, the list is visible, and no invisible control there can be pressed.
  await page.setViewportSize({ width: PHONE.height, height: PHONE.width });
  await page.waitForFunction(() => getComputedStyle(document.querySelector(".session-list li .button")).opacity === "1");
  await world.picture(page, "fingers-list-landscape-light");
  await page.setViewportSize(PHONE);
  await page.locator(".actions a").last().click();
  await page.waitForSelector(".bar.tool");
  await small("a run");
  await page.locator(".bar-row").nth(1).click();
  await small("what a bar stands for");
  await page.click("[aria-label='Close the details']");
  await page.click("#tab-log");
  await small("its records");
}

export async function begins_lines_where_fingers_write(world) {
  const page = await world.open({ viewport: PHONE });
  await page.focus("#message");
  await page.keyboard.type("Dear Ada,");
  await page.keyboard.press("Enter");
  await page.keyboard.type("all is well.");
  assert.equal(await page.inputValue("#message"), "Dear Ada,\nall is well.");
  assert.equal(await page.locator(".turn").count(), 0);
  await page.keyboard.press("Control+Enter");
  await over(page, 1);
  await page.click("[aria-label='Edit the message and ask again']");
  await page.keyboard.press("Enter");
  assert.equal(await page.inputValue(".edit-message textarea"), "Dear Ada,\nall is well.\n");
  assert.equal(await page.locator(".turn").count(), 1);
}

export async function says_how_a_command_ended(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await ask(page, "exits please");
  assert.deepEqual(await page.locator(".call .note").allInnerTexts(), ["exit 3", ""]);
  assert.deepEqual(await page.locator(".call .mark").allTextContents(), ["ended with an error:", "done:"]);
  assert.deepEqual(await page.locator(".call .note").evaluateAll((notes) => notes.map((note) => note.ariaHidden)), [null, null]);
  assert.equal(await page.locator(".call .mark use").first().getAttribute("href"), "#icon-warn");
  await sees(page, ".group summary", "2 tool calls · 1 done · 1 ended with an error");
  await world.picture(page, "exits-wide-light");
  await world.accessible(page, "a command that failed");
}

export async function says_when_and_that_it_was_copied(world) {
  const page = await world.open();
  await ask(page, "markdown please");
  const time = page.locator(".turn-foot time");
  assert.match(await time.innerText(), /^\d\d?:\d\d/);
  assert.match(await time.getAttribute("title"), /^Started on .*\d{4}/);
  const said = await page.evaluate(async () => (await import("/assets/format.js")).clock(new Date(2020, 5, 1)));
  assert.match(said, /2020/, "a year that is another one is told");
  const sign = () => page.locator(".code .button use").getAttribute("href");
  assert.equal(await sign(), "#icon-copy");
  await page.click(".code .button");
  await page.waitForFunction(() => document.querySelector(".code .button.done use")?.getAttribute("href") === "#icon-check");
  await world.picture(page, "copied-wide-light");
  await page.waitForFunction(() => document.querySelector(".code .button use").getAttribute("href") === "#icon-copy");
  // A button that disappears when pressed leaves the focus where the user writes.
  await go(page, "#/");
  await page.click(".chip");
  await focused(page, "#message");
}

export async function says_for_how_long_a_run_works(world) {
  const page = await world.open();
  await say(page, "endless please");
  await sees(page, ".reply .md", "word3");
  assert.equal(await page.locator(".elapsed").innerText(), "");
  // Announcements made while a dialog is open are heard once it is closed.
  await page.click("[aria-label='Key or token of this tab']");
  const told = await page.evaluate(async () => {
    const { announce } = await import("/assets/dom.js");
    for (const text of ["Behind it", "Behind it", "Over"]) announce(text);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return document.getElementById("announcements").textContent;
  });
  assert.equal(told, "");
  await page.keyboard.press("Escape");
  await sees(page, "#announcements", "Behind it. Over");
  await sees(page, "#announcements", "Working… 1");
  await page.waitForFunction(() => /^\d+ s$/.test(document.querySelector(".elapsed").textContent));
  const seconds = () => page.evaluate(() => Number.parseFloat(document.querySelector(".elapsed").textContent));
  const first = await seconds();
  await page.waitForFunction((before) => Number.parseFloat(document.querySelector(".elapsed").textContent) > before, first);
  await world.picture(page, "elapsed-wide-light");
  // A later visitor sees the same.
  await page.reload();
  await page.waitForFunction((before) => Number.parseFloat(document.querySelector(".elapsed")?.textContent) > before, first);
  await page.click("[aria-label='Stop the run']");
  await over(page, 1);
  assert.equal(await page.locator(".turn-state").innerText(), "");
  // A clock ahead of the server's or behind it makes no difference.
  for (const by of [600_000, -3_600_000]) {
    await page.addInitScript((ms) => {
      const now = Date.now.bind(Date);
      Date.now = () => now() + ms;
    }, by);
    await page.reload();
    await page.waitForSelector(".turn-foot .facts");
    const before = await page.locator(".turn").count();
    await say(page, "endless please");
    await page.waitForFunction((count) => document.querySelectorAll(".turn").length > count && /^\d+ s$/.test([...document.querySelectorAll(".elapsed")].at(-1)?.textContent), before);
    await page.click("[aria-label='Stop the run']");
    await over(page, before + 1);
  }
}

export async function offers_nothing_for_a_session_that_is_not_there(world) {
  await world.api("/sessions/talk/turns", { message: "markdown please" });
  const page = await world.open({ token: false });
  await go(page, "#/sessions/nobody");
  await sees(page, ".failure", "No such session");
  assert.equal(await page.locator(".failure button").count(), 0, "trying again would not help");
  assert.ok(await page.isHidden(".chat-tools"), "there is nothing to be exported");
  // A retry is offered if it may help, and it works.
  await page.route("**/api/v1/sessions/talk", (route) => route.fulfill({ status: 503, json: { title: "Not now" } }), { times: 1 });
  await go(page, "#/sessions/talk");
  await page.click(".failure >> text=Try again");
  await over(page, 1);
  assert.ok(await page.isVisible(".chat-tools"));
}

export async function lays_each_text_out_in_its_own_direction(world) {
  const page = await world.open();
  const text = "\u0645\u0631\u062d\u0628\u0627 `let a = 1;` \u0628\u0643\n\nHello.\n\n# \u0639\u0646\u0648\u0627\u0646\n\n- \u0648\u0627\u062d\u062f\n- \u0627\u062b\u0646\u0627\u0646\n\n  ```js\n  let a = [1];\n  ```\n\n- One\n\n> \u0627\u0642\u062a\u0628\u0627\u0633\n\n| \u0623\u062d\u062f\u062b\u0646 | wider | wider |\n| - | -: | :-: |\n| \u0628 | 2 | 3 |\n| c. | 2 | 3 |\n\n1. One\n2. \u0627\u062b\u0646\u0627\u0646";
  const sides = await page.evaluate(async (markdown) => {
    const { render } = await import("/assets/markdown.js");
    const node = document.createElement("div");
    node.className = "md";
    document.querySelector(".turns").replaceChildren(node);
    render(node, markdown);
    /** Returns the side of an element at which its text starts. */
    const sideOf = (element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      const [text, box] = [range.getClientRects()[0], element.getBoundingClientRect()];
      const [before, after] = [text.left - box.left, box.right - text.right];
      return Math.abs(before - after) < 2 ? "center" : before < after ? "left" : "right";
    };
    const sides = (selector) => [...node.querySelectorAll(selector)].map(sideOf);
    const direction = (selector) => getComputedStyle(node.querySelector(selector)).direction;
    return {
      paragraphs: sides(":scope > p"), heading: sides("h3"), items: sides("li"), code: sideOf(node.querySelector("li pre code")), quoted: sides("blockquote p"), number: sides("td.right"),
      lists: [direction("ul"), direction("ol")], codes: [direction("li pre"), direction("p code")], quotation: getComputedStyle(node.querySelector("blockquote")).borderRightWidth,
      cells: sides("td"), table: sideOf(node.querySelector(".table")), columns: node.querySelector("td").getBoundingClientRect().left > node.querySelectorAll("td")[1].getBoundingClientRect().left,
    };
  }, text);
  assert.deepEqual(sides, {
    paragraphs: ["right", "left"], heading: ["right"], items: ["right", "right", "right", "left", "left"], code: "left", quoted: ["right"], number: ["right", "right"],
    lists: ["rtl", "ltr"], codes: ["ltr", "ltr"], quotation: "3px", cells: ["right", "right", "center", "right", "right", "center"], table: "right", columns: true,
  });
  await world.picture(page, "directions-wide-light");
}

export async function says_by_lines_what_colors_do_not_say(world) {
  const page = await world.open();
  await choose(page, "Channel", "code_task");
  await ask(page, "plan it");
  await ask(page, "markdown please");
  await page.emulateMedia({ forcedColors: "active" });
  // Found and inspected in one step: lists are redrawn, and an element that is no longer in the document has no style.
  const look = async (selector) => (await page.waitForFunction((wanted) => {
    const node = document.querySelector(wanted);
    if (!node) return undefined;
    const { backgroundColor, backgroundImage, borderTopStyle, borderTopWidth, outlineStyle, outlineWidth } = getComputedStyle(node);
    return { fill: `${backgroundColor} ${backgroundImage} ${borderTopStyle}`, line: borderTopWidth, outline: outlineStyle === "none" ? "" : outlineWidth };
  }, selector)).jsonValue();
  assert.equal((await look(".bubble")).line, "1px");
  assert.equal((await look(".session-list .current")).outline, "2px");
  assert.notEqual((await look(".tick.done")).fill, (await look(".tick:not(.done)")).fill);
  await world.picture(page, "forced-colors-chat");
  await page.locator(".actions a").first().click();
  await page.click(".bar-row >> nth=1");
  const bars = await Promise.all([".bar.model", ".bar.tool", ".bar.failed"].map(look));
  assert.deepEqual(bars.map(({ line }) => line), ["1px", "1px", "1px"]);
  assert.equal(new Set(bars.map(({ fill }) => fill)).size, 3, "they are told apart");
  assert.equal((await look(".bar-row[aria-pressed=true]")).outline, "2px");
  await world.picture(page, "forced-colors-waterfall");
  await page.evaluate(() => { location.hash = "#/stats"; });
  await page.waitForSelector(".stats-bar i");
  assert.notEqual((await look(".stats-bar span")).fill, (await look(".stats-bar i")).fill);
  await world.picture(page, "forced-colors-statistics");
}

export async function breaks_no_word_of_a_table(world) {
  for (const viewport of [WIDE, PHONE]) {
    const page = await world.open({ viewport });
    const lines = await page.evaluate(async () => {
      const { render } = await import("/assets/markdown.js");
      const node = Object.assign(document.createElement("div"), { className: "md" });
      document.querySelector(".notice").replaceChildren(node);
      const long = "It has everything that a small company needs and more than that. ".repeat(6);
      render(node, `| Plan | For | Costs | What it is | \n| --- | --- | --- | --- |\n| Basic | Team | \`monthly\` | ${long} |\n| Other | All | https://example.com/${"a".repeat(300)} | ${long} |`);
      const heights = [...node.querySelectorAll("tbody tr:first-child td")].map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return new Set([...range.getClientRects()].map(({ top }) => Math.round(top / 8))).size;
      });
      const { offsetWidth: width } = node.querySelector("table");
      const ofWord = ["", "`"].map((tick) => {
        const table = document.createElement("div");
        node.after(table);
        table.className = "md";
        render(table, `| a | b |\n| - | - |\n| ${tick}${"a".repeat(300)}${tick} | b |`);
        const { scrollWidth, clientWidth } = table.querySelector("td");
        const wide = Math.max(table.querySelector("table").offsetWidth, scrollWidth > clientWidth ? scrollWidth : 0);
        table.remove();
        return wide;
      });
      return { heights: heights.slice(0, 3), width, ofWord };
    });
    assert.deepEqual(lines.heights, [1, 1, 1], "each word stands on one line");
    assert.ok(lines.width < 1200, `an address does not make it as wide as itself: ${lines.width}`);
    assert.ok(lines.ofWord.every((width) => width < 900), `nor does a word: ${lines.ofWord}`);
    await world.picture(page, `table-${viewport === PHONE ? "phone" : "wide"}`);
    await world.accessible(page, "a table");
  }
}

export async function has_room_however_large_it_is(world) {
  const page = await world.open({ viewport: { width: 320, height: 256 } });
  await choose(page, "Channel", "code_task");
  await ask(page, "plan it");
  await say(page, "write a note");
  await page.waitForSelector(".ask .answers");
  await page.fill("#message", "a\n".repeat(12));
  const box = (selector) => page.locator(selector).evaluate((node) => node.getBoundingClientRect().toJSON());
  assert.ok((await box(".chat .scroller")).height > 70, "what is asked can be read");
  for (const name of ["Send to the run in progress", "Stop the run"]) assert.ok((await box(`[aria-label='${name}']`)).bottom < 256, `${name} is in sight`);
  await world.picture(page, "low-light");
  await world.accessible(page, "a low page");
  // The page uses the user's font size, which can also make the layout narrow.
  await page.setViewportSize({ width: 900, height: 700 });
  const browser = await page.context().newCDPSession(page);
  await browser.send("Page.setFontSizes", { fontSizes: { standard: 32, fixed: 26 } });
  await page.waitForFunction(() => getComputedStyle(document.querySelector("#message")).fontSize === "32px");
  assert.ok(await page.isVisible("#unfold"));
  await world.picture(page, "large-letters-light");
  await world.accessible(page, "large letters");
  // In print, all content is shown.
  await page.emulateMedia({ media: "print" });
  const [seen, whole] = await page.locator(".chat .scroller").evaluate((node) => [node.clientHeight, node.scrollHeight]);
  assert.ok(whole > 400 && seen === whole, `${seen} of ${whole} pixels are printed`);
  assert.equal(await page.isVisible("#message"), false);
  const cut = await page.locator(".turn .bubble").first().evaluate(async (bubble) => {
    const { render } = await import("/assets/markdown.js");
    const node = document.createElement("div");
    node.className = "md";
    render(node, `\`\`\`js\n${`${"let a = 1; ".repeat(40)}\n`.repeat(100)}\`\`\``);
    bubble.before(node);
    bubble.textContent = "word\n".repeat(100);
    return [bubble, node.querySelector("pre")].map((all) => [all.scrollHeight - all.clientHeight, all.scrollWidth - all.clientWidth]);
  });
  assert.deepEqual(cut, [[0, 0], [0, 0]], "neither a long message nor code is cut off");
}
