// Several processes accept on one socket that the first hands to them.
const cluster = require('cluster'), http = require('http');
if (cluster.isPrimary) {
    let up = 0;
    cluster.fork();
    cluster.fork();
    cluster.on('listening', async (_, a) => {
        if (++up < 2) return;
        const t = await Promise.all(
            [1, 2, 3, 4].map(() => fetch(`http://127.0.0.1:${a.port}/`).then((r) => r.text())));
        console.log(t.join());
        cluster.disconnect(() => console.log('down'));
    });
} else
    http.createServer((q, r) => {
            r.setHeader('connection', 'close');
            r.end('ok');
        })
        .listen(0, '127.0.0.1');
