// The screenshots in the documentation: one conversation, from a user's question to the run as a waterfall.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { choose, over, say, sees } from "./world.mjs";

const VIEWPORT = { width: 1000, height: 700 };

const SLUG = `import re


def slug(title):
    words = re.findall(r"[a-z0-9]+", title.lower())
    return " ".join(words)
`;

const TEST = `import unittest

from slug import slug


class TestSlug(unittest.TestCase):
    def test_words_are_joined(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")
`;

/** Takes the page's picture in the light and the dark theme. */
async function both(world, page, name) {
  await page.mouse.move(0, 0);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await world.picture(page, `docs-${name}-${colorScheme}`);
  }
}

export async function draws_the_pictures_of_the_documents(world) {
  const folder = process.env.FOLDER;
  fs.writeFileSync(path.join(folder, "slug.py"), SLUG);
  fs.writeFileSync(path.join(folder, "test_slug.py"), TEST);
  const page = await world.open({ viewport: VIEWPORT });
  await choose(page, "Channel", "code_task");
  await say(page, "Fix the failing test, please.");
  await page.waitForSelector(".ask .answers");
  await sees(page, ".ask .diff .added", '"-".join(words)');
  await both(world, page, "question");
  await page.click(".ask .primary");
  await over(page, 1);
  assert.match(world.file("slug.py"), /"-"/);
  await page.click(".turn:last-child .actions a");
  await page.waitForSelector(".bar.wait");
  await both(world, page, "run");
}
