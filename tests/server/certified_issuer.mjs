// Runs the certified issuer `oidc-provider` for the tests: node certified_issuer.mjs <its module> <configuration as JSON>.
// Ends when its standard input does, so that it never outlives who started it.
import { pathToFileURL } from "node:url";

const [module, given] = process.argv.slice(2);
const { port, people, resources, idTokensAlone, ...configuration } = JSON.parse(given);
const { Provider } = await import(pathToFileURL(module).href);

const claimsOf = (name) => people[name] ?? {};
const provider = new Provider(`http://127.0.0.1:${port}`, {
  ...configuration,
  conformIdTokenClaims: !idTokensAlone,
  // As many issuers are set up: the groups come with the scope of that name.
  claims: { openid: ["sub"], profile: ["name"], groups: ["groups"] },
  cookies: { keys: ["of the tests"] },
  findAccount: (_ctx, name) => ({ accountId: name, claims: () => ({ sub: name, ...claimsOf(name) }) }),
  extraTokenClaims: (_ctx, token) => ({ groups: claimsOf(token.accountId ?? token.clientId).groups }),
  features: {
    devInteractions: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_ctx, resource) => {
        const { seconds, algorithm } = resources[resource];
        return {
          scope: "use",
          audience: resource,
          accessTokenFormat: "jwt",
          accessTokenTTL: seconds,
          jwt: { sign: { alg: algorithm } },
        };
      },
    },
  },
});
const server = provider.listen(port, "127.0.0.1", () => console.log("listens"));
process.stdin.resume().on("end", () => {
  server.closeAllConnections();
  server.close(() => process.exit(0));
});
