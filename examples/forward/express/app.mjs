// express.mjs: a web service of its own, made with Express, before a box: its users never see the box or its key.
// Bodies go through as they come, in both directions. Who a user is, is said by a header here: put your own
// sign-in there.
import { once } from "node:events";
import { pipeline } from "node:stream/promises";
import express from "express";
import { ApiError, Box } from "runbox-sdk";

const box = new Box(process.env.BOX_URL, process.env.BOX_KEY);
const app = express();
const workspace = (req) => box.workspace({ tenant: "forward", user: req.get("x-user") ?? "" });

/** Aborts when the user leaves; so does the command. */
function leaving(res) {
  const abort = new AbortController();
  res.on("close", () => abort.abort());
  return abort.signal;
}

async function send(res, name, data) {
  const room = res.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  if (!room && !res.destroyed) await Promise.race([once(res, "drain"), once(res, "close")]);
}

app.post("/run", express.json(), async (req, res) => {
  const live = await workspace(req).stream(req.body.command, { signal: leaving(res) });
  res.type("text/event-stream");
  for await (const event of live) {
    if (event.kind === "output") await send(res, event.stream, { text: event.text });
    else await send(res, "exit", { exit_code: event.exitCode });
  }
  res.end();
});

app.put("/files/*path", async (req, res) => {
  const length = req.get("content-length");
  const options = length === undefined ? {} : { size: Number(length) };
  const { path, size } = await workspace(req).write(req.params.path.join("/"), req, options);
  res.json({ path, size });
});

app.get("/archive", async (req, res) => {
  const tar = await workspace(req).archive("", { signal: leaving(res) });
  await pipeline(tar, res.type("application/x-tar"));
});

app.use((err, req, res, next) => {
  if (res.headersSent || res.destroyed) res.destroy(); // too late to say it
  else if (err instanceof ApiError) res.status(err.status).json({ code: err.code });
  else if (err.name === "TransportError") res.status(502).json({ code: "unreachable" });
  else next(err);
});

const server = app.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
