// Preloaded into a Node agent (NODE_OPTIONS=--require): notes where each TCP connection goes, one `host:port` a line,
// in the file that CONNECTIONS_LOG names, and refuses every host but this one. Child processes of Node inherit it.
'use strict';
const fs = require('node:fs');
const net = require('node:net');

const HERE = new Set(['127.0.0.1', '::1', 'localhost']);
const connect = net.Socket.prototype.connect;

net.Socket.prototype.connect = function (...args) {
  // Node's own callers hand over [options, callback] as one array.
  const given = Array.isArray(args[0]) ? args[0][0] : args[0];
  const options = typeof given === 'object' && given !== null ? given : { port: given, host: args[1] };
  if (options.path || typeof options.port === 'undefined' || Number.isNaN(Number(options.port))) {
    return connect.apply(this, args); // a socket file
  }
  const host = typeof options.host === 'string' ? options.host : 'localhost';
  fs.appendFileSync(process.env.CONNECTIONS_LOG, `${host}:${options.port}\n`);
  if (!HERE.has(host)) {
    process.nextTick(() => this.destroy(new Error('only loopback in this test')));
    return this;
  }
  return connect.apply(this, args);
};
