// A front end that is served from elsewhere: the browser lets it ask where the configuration names its origin, and keys say who
// asks.

import assert from "node:assert/strict";

/** What the front end's own code does: it asks by the protocol of AG-UI. */
const ASK = async ({ server, key }) => {
  const message = { id: "m1", role: "user", content: "hello" };
  const body = JSON.stringify({ threadId: "t1", runId: "r1", messages: [message] });
  const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  try {
    const answer = await fetch(`${server}/agui`, { method: "POST", headers, body });
    return { status: answer.status, id: answer.headers.get("x-request-id"), text: await answer.text() };
  } catch (error) {
    return { refused: error.message };
  }
};

export async function lets_a_front_end_of_a_named_origin_ask(world) {
  const key = world.key("--owner", "ada");
  // From the moment on at which the server knows of it, it answers nobody else.
  while ((await fetch(`${world.server}/api/v1/sessions`)).status !== 401);
  const context = await world.browser.newContext();
  const page = await context.newPage();
  await page.goto(world.frontEnd);
  const told = await page.evaluate(ASK, { server: world.server, key });
  assert.equal(told.status, 200, JSON.stringify(told));
  assert.ok(told.id, "the page reads the id of its request");
  assert.match(told.text, /"type":"RUN_FINISHED"/);
  const without = await page.evaluate(ASK, { server: world.server });
  assert.equal(without.status, 401, JSON.stringify(without));
  assert.match(without.text, /key-needed/);

  // The same page from an origin that nobody named.
  await page.goto(world.frontEnd.replace("127.0.0.1", "localhost"));
  const refused = await page.evaluate(ASK, { server: world.server, key });
  assert.ok(refused.refused, JSON.stringify(refused));
  await context.close();
}
