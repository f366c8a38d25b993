// Start a recipe and print the set points that it gives: node recipe.mjs URL RECIPE. Ctrl-C stops the recipe.
// Needs Node 20 or newer, and no package.

const [url, recipe] = process.argv.slice(2);
if (!recipe) {
  console.error("usage: node recipe.mjs URL RECIPE");
  process.exit(2);
}
const api = `${url}/_svc/api/0.0.1`;
const environment = "environment_1";

async function call(service, body = {}) {
  const answer = await fetch(`${api}/service/${environment}/${service}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.ERROR);
  return said.message;
}

// Each line is a message, the number of dropped ones, or a heartbeat. The stream ends with the connection.
async function* lines(topics) {
  const query = new URLSearchParams(topics.map((name) => ["topic", name]));
  const answer = await fetch(`${api}/stream?${query}`, { headers: { Accept: "application/x-ndjson" } });
  if (!answer.ok) throw new Error((await answer.json()).ERROR);
  let rest = "";
  for await (const text of answer.body.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

try {
  console.log(await call("start_recipe", { recipe_id: recipe, by: "recipe.mjs" }));
  process.once("SIGINT", async () => {
    console.log(await call("stop_recipe", { by: "recipe.mjs" }));
    process.exit();
  });
  const { results } = await (await fetch(`${api}/topic`)).json();
  const topics = results.filter((name) => name.startsWith(`${environment}/desired/`) && !name.includes("/recipe_"));
  const last = {};
  for (;;) {
    try {
      for await (const { topic, value } of lines(topics)) {
        if (!topic || value === last[topic]) continue;  // a set point is published again while it holds
        last[topic] = value;
        if (value !== null) console.log(new Date().toISOString(), topic, value);
      }
    } catch (error) {
      console.error(String(error));
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));  // growd restarts, or the network is away
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
