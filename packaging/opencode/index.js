// The plugin as a package: the hooks that `lukasa install opencode` writes, and its MCP server.

import { Lukasa as hooks } from "./hooks.js"
import servers from "./servers.json" with { type: "json" }

export const Lukasa = async (input) => ({
  ...(await hooks(input)),
  // A server of the same name in the person's settings stays as it is.
  config: async (config) => {
    config.mcp = { ...servers, ...config.mcp }
  },
})
