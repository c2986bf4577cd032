require('fs').writeFileSync('built', 'built ' + process.env.npm_lifecycle_event + '\n');
