// What users hear, and where the focus is, without seeing the page or with much of it enlarged.

import assert from "node:assert/strict";
import { ask, choose, over, say, sees } from "./world.mjs";

/** The size of a page of 1280 by 1024 pixels at a zoom of 400 %. */
const ENLARGED = { width: 320, height: 256 };

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
