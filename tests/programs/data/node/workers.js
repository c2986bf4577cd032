// Workers that share memory, processes, signals.
const {Worker, isMainThread, parentPort, workerData} = require('worker_threads'),
                                         cp = require('child_process'), os = require('os');
if (!isMainThread) {
    Atomics.add(new Int32Array(workerData), 0, 5);
    parentPort.postMessage(os.type());
} else if (process.argv[2] === 'child') {
    process.on('message', (m) => {
        process.send(m * 2);
        process.disconnect();
    });
} else
    (async () => {
        const shared = new SharedArrayBuffer(4);
        const one = () => new Promise(
            (ok, no) => new Worker(__filename, {workerData: shared}).on('message', ok).on('error', no));
        console.log(...await Promise.all([one(), one(), one(), one()]), new Int32Array(shared)[0]);
        const c = cp.fork(__filename, ['child']);
        c.send(21);
        c.on('message', (m) => console.log('child', m));
        await new Promise((ok) => c.on('exit', (code) => {
            console.log('exit', code);
            ok();
        }));
        console.log(
            cp.execSync('echo $((3 + 4))').toString().trim(),
            cp.spawnSync('sh', ['-c', 'kill -9 $$']).signal);
        try {
            cp.execSync('exit 3', {stdio: 'ignore'});
        } catch (e) { console.log('status', e.status); }
        process.on('SIGUSR2', () => {
            console.log('usr2');
            clearInterval(t);
        });
        const t = setInterval(() => {}, 1000);
        process.kill(process.pid, 'SIGUSR2');
    })();
