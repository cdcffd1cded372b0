// Runs one scenario, named on the command line, in a real browser against the real server. On failure, reports the reason and exits with 1.

import * as chat from "./chat.mjs";
import * as decisions from "./decisions.mjs";
import * as heard from "./heard.mjs";
import * as hostile from "./hostile.mjs";
import * as layout from "./layout.mjs";
import * as origins from "./origins.mjs";
import * as pictures from "./pictures.mjs";
import * as runs from "./runs.mjs";
import * as sessions from "./sessions.mjs";
import { World } from "./world.mjs";

const scenarios = { ...chat, ...decisions, ...heard, ...hostile, ...layout, ...origins, ...pictures, ...runs, ...sessions };
const name = process.argv[2];
const world = await World.start();
let code = 0;
try {
  if (!scenarios[name]) throw new Error(`there is no scenario ${name}`);
  await scenarios[name](world);
  await world.close();
} catch (error) {
  console.error(error);
  for (const context of world.browser.contexts()) for (const page of context.pages()) await world.picture(page, `failed-${name}`);
  console.error(world.faults.join("\n"));
  code = 1;
} finally {
  await world.stop();
}
process.exit(code);
