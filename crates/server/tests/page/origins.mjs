// A front end served from another origin: the browser lets it send requests if its origin is configured, and keys identify the caller.

import assert from "node:assert/strict";

/** The front end's own code: it sends a request using the AG-UI protocol. */
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
  // Until the server has noticed the key and refuses requests without one.
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

  // The same page from an origin that is not configured.
  await page.goto(world.frontEnd.replace("127.0.0.1", "localhost"));
  const refused = await page.evaluate(ASK, { server: world.server, key });
  assert.ok(refused.refused, JSON.stringify(refused));
  await context.close();
}
