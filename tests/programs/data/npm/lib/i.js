exports.twice = (n) => 2 * n;
