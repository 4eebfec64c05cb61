// Loaded on Node 20 only. One module of the suite imports fs.globSync, which came
// with Node 22, for a command that is never run here: it gets an fs that has it.
import { register } from 'node:module';

const hooks = `
  import fs from 'node:fs';
  const wrapped = 'troupe:fs';
  const names = Object.keys(fs).filter((name) => name !== 'default' && name !== 'globSync');
  const source = "import fs from 'node:fs'; export default fs; export const { " + names.join(', ') + " } = fs;"
    + "export function globSync() { throw new Error('fs.globSync came with Node 22'); }";
  export const resolve = (name, context, next) =>
    name === 'fs' && context.parentURL?.includes('/@modelcontextprotocol/conformance/') ? { url: wrapped, shortCircuit: true } : next(name, context);
  export const load = (url, context, next) =>
    url === wrapped ? { format: 'module', shortCircuit: true, source } : next(url, context);
`;
register('data:text/javascript,' + encodeURIComponent(hooks));
