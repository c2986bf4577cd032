const t = require('node:test');
t('a', () => {});
t('b', async () => {});
