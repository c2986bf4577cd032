"""Node and npm: workers, processes, sockets, an install from local folders: inside and bare, with known results."""


def node(twin, code, files=None):
    return twin.run("node main.js", {"main.js": code, **(files or {})})[0].splitlines()


def test_workers_and_processes(twin):
    assert node(twin, r"""
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads"), cp = require("child_process"), os = require("os");
if (!isMainThread) { Atomics.add(new Int32Array(workerData), 0, 5); parentPort.postMessage(os.type()); }
else if (process.argv[2] === "child") { process.on("message", (m) => { process.send(m * 2); process.disconnect(); }); }
else (async () => {
  const shared = new SharedArrayBuffer(4);
  const one = () => new Promise((ok, no) => new Worker(__filename, { workerData: shared }).on("message", ok).on("error", no));
  console.log(...await Promise.all([one(), one(), one(), one()]), new Int32Array(shared)[0]);
  const c = cp.fork(__filename, ["child"]); c.send(21); c.on("message", (m) => console.log("child", m));
  await new Promise((ok) => c.on("exit", (code) => { console.log("exit", code); ok(); }));
  console.log(cp.execSync("echo $((3 + 4))").toString().trim(), cp.spawnSync("sh", ["-c", "kill -9 $$"]).signal);
  try { cp.execSync("exit 3", { stdio: "ignore" }); } catch (e) { console.log("status", e.status); }
  process.on("SIGUSR2", () => { console.log("usr2"); clearInterval(t); }); const t = setInterval(() => {}, 1000); process.kill(process.pid, "SIGUSR2");
})();
""") == ["Linux Linux Linux Linux 20", "child 42", "exit 0", "7 SIGKILL", "status 3", "usr2"]


def test_files_and_sockets(twin):
    assert node(twin, r"""
const fs = require("fs"), net = require("net"), http = require("http"), zlib = require("zlib"), crypto = require("crypto"), dns = require("dns").promises;
(async () => {
  await fs.promises.writeFile("a", "x".repeat(100000)); await fs.promises.cp("a", "b"); console.log(fs.statSync("b").size, fs.readdirSync(".").join());
  const w = fs.watch("."); const seen = new Promise((ok) => w.on("change", (_, n) => n === "watched" && ok(n))); fs.writeFileSync("watched", ""); console.log(await seen); w.close();
  const s = http.createServer((q, r) => q.pipe(zlib.createGzip()).pipe(r.writeHead(200, { "content-encoding": "gzip" }))).listen(0, "127.0.0.1"); await new Promise((ok) => s.on("listening", ok));
  const texts = await Promise.all([...Array(20).keys()].map((n) => fetch(`http://127.0.0.1:${s.address().port}/`, { method: "POST", body: "body" + n }).then((r) => r.text()))); console.log(texts[19]); s.close(); s.closeAllConnections();
  const u = net.createServer((c) => c.end("unix")).listen("sock"); await new Promise((ok) => u.on("listening", ok));
  await new Promise((ok) => net.connect("sock").on("data", (d) => console.log(d.toString())).on("close", ok)); u.close();
  console.log(crypto.scryptSync("p", "s", 16).toString("hex").slice(0, 8), (await dns.lookup("localhost")).address.length > 2, crypto.randomBytes(8).length);
  const m = await WebAssembly.instantiate(Uint8Array.from([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11])); console.log(m.instance.exports.add(40, 2));
  let h = 0; for (let i = 0; i < 5e6; i++) h = (h * 31 + i) | 0; console.log(h);
})();
""")[:4] == ["100000 a,b,main.js", "watched", "body19", "unix"]


def test_cluster(twin):
    """Several processes accept on one socket that the first hands to them."""
    assert node(twin, r"""
const cluster = require("cluster"), http = require("http");
if (cluster.isPrimary) {
  let up = 0; cluster.fork(); cluster.fork();
  cluster.on("listening", async (_, a) => { if (++up < 2) return;
    const t = await Promise.all([1, 2, 3, 4].map(() => fetch(`http://127.0.0.1:${a.port}/`).then((r) => r.text()))); console.log(t.join()); cluster.disconnect(() => console.log("down")); });
} else http.createServer((q, r) => { r.setHeader("connection", "close"); r.end("ok"); }).listen(0, "127.0.0.1");
""") == ["ok,ok,ok,ok", "down"]


def test_npm(twin):
    """npm pack, an install from a tarball and from a folder with an install script, npx, npm run, npm ci. No network is asked."""
    out, inside, _ = twin.run(r"""
        set -e; export npm_config_offline=true npm_config_install_links=true npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
        (cd lib && npm pack --silent); cd app; npm install --silent ../lib/lib-1.2.3.tgz ../tool
        cat node_modules/tool/built; node -p 'require("lib").twice(21)'; npx --no-install tool-cmd; npm run --silent hello
        npm ls --depth=0 2>/dev/null | grep -c lib@; rm -r node_modules; npm ci --silent; node -p 'require("lib").twice(4)'
        npm test --silent 2>&1 | grep -E '^# (pass|fail)' || npm test --silent 2>&1 | grep -E '(pass|fail) [0-9]' | cut -c3-
        """, {"lib/package.json": '{"name":"lib","version":"1.2.3","main":"i.js"}', "lib/i.js": "exports.twice = (n) => 2 * n;",
              "tool/package.json": '{"name":"tool","version":"1.0.0","bin":{"tool-cmd":"cmd.js"},"scripts":{"install":"node -e \\"fs.writeFileSync(\'built\',\'built \'+process.env.npm_lifecycle_event+\'\\\\n\')\\""}}',
              "tool/cmd.js": "#!/usr/bin/env node\nconsole.log('tool runs');\n",
              "app/package.json": '{"name":"app","version":"0.0.1","private":true,"scripts":{"prehello":"echo pre","hello":"echo hi; sh -c \'echo from $npm_package_name\'","test":"node --test"}}',
              "app/x.test.js": "const t = require('node:test'); t('a', () => {}); t('b', async () => {});\n"})
    lines = out.splitlines()
    assert lines[1:9] == ["built install", "42", "tool runs", "pre", "hi", "from app", "1", "8"] and any("pass 2" in line for line in lines), out
    assert (inside / "app" / "node_modules" / "tool" / "built").exists()
