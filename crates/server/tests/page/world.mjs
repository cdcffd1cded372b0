// Shared code of the scenarios: a server with a scripted model in a separate folder, a way to cut its connections, and a browser whose
// pages are monitored for errors, policy violations and requests to other hosts.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import net from "node:net";
import path from "node:path";
import readline from "node:readline";
import { startModel } from "./model.mjs";

const { SERVER, PACKAGES, CHROMIUM, FOLDER, SCREENSHOTS } = process.env;
const require = createRequire(path.join(PACKAGES, "x"));
const { chromium } = require("playwright-core");
const AXE = fs.readFileSync(path.join(PACKAGES, "axe-core/axe.min.js"), "utf8");

const FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split(" ");

/** A third party's host name that points to this machine. */
export const REBOUND = "rebound.example";

export const WIDE = { width: 1360, height: 860 };
export const PHONE = { width: 390, height: 844 };

/** The time limit on anything, in milliseconds. */
const PATIENCE = 20_000;

const CONFIG = (model, frontEnd) => `[server]
modes = ["conservative", "moderate", "exploratory"]
origins = ["${frontEnd}"]

[models.reasoning]
provider = "openai"
api = "chat"
base_url = "${model}"
model = "scripted"

[prices."openai/*"]
prompt = 0.25
completion = 2.0

[rules.writes]
answer = "ask"
tools = ["write_file", "apply_patch"]
reason = "Changes of files are looked at first."

[rules.private]
answer = "deny"
tools = ["read_file"]
paths = ["private/**"]
reason = "That folder is private."

[rules.guarded]
answer = "ask"
tools = ["read_file"]
paths = ["guarded/**"]

[rules.prints]
answer = "allow"
tools = ["run_command"]

[tools]
commands = "unconfined"

[mcp.servers.shop]
command = "/bin/sh"
args = ["shop.sh"]

[trust.shop]
tools = ["shop__*"]
class = "read_only"
open_world = false
destructive = false
`;

const AROUND = { cwd: FOLDER, env: { HOME: FOLDER, NEURAXIS_TOOLS__ROOT: FOLDER, PATH: "/usr/bin:/bin" } };

export class World {
  static async start() {
    const world = new World();
    world.model = await startModel();
    await world.serveFrontEnd();
    fs.writeFileSync(path.join(FOLDER, "neuraxis.toml"), CONFIG(world.model.url, world.frontEnd));
    const log = fs.openSync(path.join(FOLDER, "log"), "w");
    world.child = spawn(SERVER, ["--config", "neuraxis.toml", "--listen", "127.0.0.1:0"], { ...AROUND, stdio: ["ignore", "pipe", log] });
    const [line] = await Promise.race([once(readline.createInterface({ input: world.child.stdout }), "line"), once(world.child, "exit").then(() => [""])]);
    world.server = line.replace("listening on ", "");
    assert.match(world.server, /^http:/, `the server did not start: ${world.log()}`);
    await world.interpose();
    world.browser = await chromium.launch({ executablePath: CHROMIUM, args: [...FLAGS, `--host-resolver-rules=MAP ${REBOUND} 127.0.0.1`] });
    world.faults = [];
    return world;
  }

  /** Serves the empty page of a third-party front end, from a configured origin. */
  async serveFrontEnd() {
    this.elsewhere = http.createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>front end</title>"));
    await new Promise((done) => this.elsewhere.listen(0, "127.0.0.1", done));
    this.frontEnd = `http://127.0.0.1:${this.elsewhere.address().port}`;
  }

  /** Inserts a proxy that can cut connections. */
  async interpose() {
    const { hostname, port } = new URL(this.server);
    this.pipes = new Set();
    this.proxy = net.createServer((client) => {
      if (this.isCut) return client.destroy();
      const server = net.connect(Number(port), hostname);
      for (const [one, other] of [[client, server], [server, client]]) {
        one.pipe(other);
        one.on("error", () => other.destroy());
        one.on("close", () => other.destroy());
        this.pipes.add(one);
      }
      return undefined;
    });
    await new Promise((done) => this.proxy.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${this.proxy.address().port}`;
  }

  cut() {
    this.isCut = true;
    for (const pipe of this.pipes) pipe.destroy();
    this.pipes.clear();
  }

  mend() {
    this.isCut = false;
  }

  get token() {
    return fs.readFileSync(path.join(FOLDER, ".local/share/neuraxis/server.token"), "utf8").trim();
  }

  /** Creates a key; from then on the server requires one. */
  key(...options) {
    return execFileSync(SERVER, ["--config", "neuraxis.toml", "keys", "create", ...options], { ...AROUND, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  }

  file(name) {
    try {
      return fs.readFileSync(path.join(FOLDER, name), "utf8");
    } catch {
      return undefined;
    }
  }

  log() {
    return this.file("log");
  }

  /** Sends a request directly to the server. */
  async api(where, body) {
    const init = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    return (await fetch(`${this.server}/api/v1${where}`, init)).json();
  }

  /** Opens the page in a separate browser context. `token: false` leaves the token out of the address. */
  async open({ viewport = WIDE, colorScheme = "light", token = true, hash = "" } = {}) {
    const isPhone = viewport === PHONE;
    const context = await this.browser.newContext({ viewport, colorScheme, isMobile: isPhone, hasTouch: isPhone, permissions: ["clipboard-read", "clipboard-write"] });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    page.on("pageerror", (error) => this.faults.push(`error on the page: ${error.stack}`));
    page.on("console", (message) => {
      const text = message.text();
      // The page itself reports failed requests.
      if (message.type() === "error" && !text.startsWith("Failed to load resource")) this.faults.push(`console: ${text}`);
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(`${this.url}/`) && !request.url().startsWith("data:")) this.faults.push(`a request to elsewhere: ${request.url()}`);
    });
    await page.addInitScript(() => {
      window.violations = [];
      addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
    });
    await page.goto(`${this.url}/${token ? `#token=${this.token}` : hash}`);
    await page.waitForSelector(".choice option, .page", { state: "attached" });
    return page;
  }

  /** Fails on any serious accessibility violation. */
  async accessible(page, what) {
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => window.axe.run());
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(serious.map(({ id, nodes }) => `${what}: ${id}: ${nodes.map((node) => node.html.slice(0, 200)).join(" ")}`), []);
    const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(tooWide <= 0, `${what} is wider than the screen`);
  }

  async picture(page, name) {
    fs.mkdirSync(SCREENSHOTS, { recursive: true });
    await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`) });
  }

  async close() {
    for (const context of this.browser.contexts()) {
      for (const page of context.pages()) this.faults.push(...(await page.evaluate(() => window.violations ?? [])).map((it) => `a violation of the policy: ${it}`));
    }
    assert.deepEqual(this.faults, []);
    assert.ok(!this.log().includes(this.token), "the log holds the token");
  }

  async stop() {
    await this.browser?.close();
    this.elsewhere?.close();
    this.proxy?.close();
    this.model?.close();
    this.child?.kill("SIGKILL");
  }
}

function once(emitter, name) {
  return new Promise((done) => emitter.once(name, (...all) => done(all)));
}

/** Chooses an agent, a channel or a mode, which a narrow page collapses. */
export async function choose(page, name, value) {
  const field = page.locator(`[aria-label=${name}]`);
  await field.locator("option").first().waitFor({ state: "attached" });
  if (!(await field.isVisible()) && (await page.locator(".choices-word").isVisible())) await page.click(".choices-word");
  await field.selectOption(value);
}

/** Sends a message on the page. On a phone, Enter starts a new line. */
export async function say(page, text) {
  await page.fill("#message", text);
  if (page.viewportSize().width === PHONE.width) await page.click(".composer-row .primary");
  else await page.press("#message", "Enter");
}

/** Presses Enter as an input method does to accept a word. Returns whether the page handled it. */
export function takeWord(page, selector) {
  const told = [{ isComposing: true }, { keyCode: 229 }];
  return page.locator(selector).evaluate((field, all) => all.some((more) => !field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...more }))), told);
}

/** Waits until this many turns have ended. */
export async function over(page, count) {
  await page.waitForFunction((wanted) => document.querySelectorAll(".turn-foot .facts").length >= wanted, count, { timeout: PATIENCE });
}

/** Sends a message and waits for the end of its turn. */
export async function ask(page, text) {
  const before = await page.locator(".turn-foot .facts").count();
  await say(page, text);
  await over(page, before + 1);
}

/** Whether the element matching the selector has the focus. */
export function has(page, selector) {
  return page.evaluate((where) => document.activeElement.matches(where), selector);
}

/** Waits until the element matching the selector has the focus. */
export async function focused(page, selector) {
  await page.waitForFunction((where) => document.activeElement.matches(where), selector, { timeout: PATIENCE });
}

/** Records all screen reader announcements in `window.told`. */
export async function listen(page) {
  await page.evaluate(() => {
    window.told = [];
    const region = document.getElementById("announcements");
    new MutationObserver(() => window.told.push(region.textContent)).observe(region, { childList: true });
  });
}

/** Waits for a text somewhere on the page. */
export async function sees(page, selector, text) {
  await page.waitForFunction(([where, what]) => [...document.querySelectorAll(where)].some((node) => node.textContent.includes(what)), [selector, text], { timeout: PATIENCE });
}

/** Holds back the next request to an address. `asked` resolves when it is made, with a function that releases it (`continue`). */
export async function hold(page, address) {
  let catches;
  const asked = new Promise((done) => (catches = done));
  await page.route(address, (route) => catches({ continue: () => route.fallback() }), { times: 1 });
  return { asked };
}

/** Leaves the next request to an address, which `act` makes, unanswered. `loses` makes the page, whose clock is installed, time out. */
export async function stalled(page, address, act) {
  const { asked } = await hold(page, address);
  await act();
  await asked;
  return { loses: () => page.clock.fastForward(31_000) };
}

/** Navigates to another view by the address, without reloading the page. */
export async function go(page, hash) {
  await page.evaluate((where) => { location.hash = where; }, hash);
}

/** Opens another tab of a page's browser at an address. */
export async function tab(world, page, hash) {
  const other = await page.context().newPage();
  await other.goto(`${world.url}/#token=${world.token}`);
  await other.waitForSelector(".choice option", { state: "attached" });
  if (hash) await go(other, hash);
  return other;
}

/** Makes a page believe that it is hidden, or visible again. */
export async function hide(page, isHidden) {
  await page.evaluate((is) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
}

/** Approves the call that a run waits for. */
export async function approve(world) {
  const [{ run_id: run, question, request }] = (await world.api("/approvals")).approvals;
  const headers = { "content-type": "application/json", authorization: `Bearer ${world.token}` };
  const answer = await fetch(`${world.server}/api/v1/runs/${run}/approvals/${request.tool_call_id}`, { method: "POST", headers, body: JSON.stringify({ decision: "approve", question }) });
  assert.ok(answer.ok, `${answer.status}`);
}
