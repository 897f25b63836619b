// For `node --import`: the console's scripts are modules, though no package.json beside them says so.

import { register } from "node:module";

const hooks = `
export async function resolve(name, context, next) {
  const found = await next(name, context);
  return found.url.includes("/console/static/") ? { ...found, format: "module" } : found;
}`;

register(`data:text/javascript,${encodeURIComponent(hooks)}`);
