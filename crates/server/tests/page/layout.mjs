// What is in sight and how it is laid out: scrolling, widths, what can be pressed.

import assert from "node:assert/strict";
import { over, say, sees } from "./world.mjs";

const scrolled = (page) => page.locator(".chat .scroller").evaluate((node) => ({ top: node.scrollTop, below: node.scrollHeight - node.scrollTop - node.clientHeight }));

export async function leaves_whoever_goes_back_where_they_are(world) {
  const page = await world.open({ viewport: { width: 500, height: 400 } });
  await say(page, "endless please");
  await sees(page, ".reply .md", "word60");
  assert.ok((await scrolled(page)).below < 2, "the end is followed");
  await page.mouse.move(250, 150);
  // Less than a line: a slow hand on a trackpad.
  await page.mouse.wheel(0, -12);
  await page.waitForFunction(() => !document.querySelector(".to-end").hidden);
  const { top } = await scrolled(page);
  await sees(page, ".reply .md", "word80");
  assert.equal((await scrolled(page)).top, top);
  // Who comes back to the end follows it again.
  await page.mouse.wheel(0, 4000);
  await page.waitForFunction(() => document.querySelector(".to-end").hidden);
  await sees(page, ".reply .md", "word120");
  assert.ok((await scrolled(page)).below < 2);
  // So does whoever has room made for them, which moves what is seen without anybody's wish.
  await page.setViewportSize({ width: 500, height: 600 });
  await sees(page, ".reply .md", "word140");
  assert.ok((await scrolled(page)).below < 2);
  await page.click("[aria-label='Stop the run']");
  await over(page, 1);
}
