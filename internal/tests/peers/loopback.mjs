// Loaded before a Node server that listens on every interface: it gets the
// loopback one instead. With PORT_FD set, the address of the first server that
// listens is written there.
//
// The hook sits below listen(), where the address has been looked up, so that
// listening stays synchronous: callers ask for the port right after it.
import fs from 'node:fs';
import net from 'node:net';

const everywhere = new Set(['', '::', '0.0.0.0']);
const inner = net.Server.prototype._listen2;
if (typeof inner !== 'function') throw new Error('this version of Node listens in another way: loopback.mjs does not fit');

let fd = Number(process.env.PORT_FD ?? 0);
delete process.env.PORT_FD;

net.Server.prototype._listen2 = function (address, port, family, ...rest) {
  const tcp = typeof port === 'number' && port >= 0 && family !== -1;
  if (tcp && everywhere.has(address ?? '')) [address, family] = ['127.0.0.1', 4];
  const result = inner.call(this, address, port, family, ...rest);
  if (tcp && fd > 0 && this.address()) {
    fs.writeSync(fd, `${this.address().address}:${this.address().port}\n`);
    fs.closeSync(fd);
    fd = 0;
  }
  return result;
};
