// The connections of the peers that lock through ioredis, as its documentation sets them up, with one difference: a command ends after 5 s. It has no
// such limit by itself, and a call would end when the kernel gives up a connection that says nothing.

import { readFileSync } from 'node:fs'

/**
 * One client per independent master, else one for all. `ioredis` is the module; `broken()` counts the connections that broke so far: ioredis sends
 * what was under way again, so that an answer after such a break may be about its own first copy.
 */
export async function connect({ Redis, Cluster }, hello) {
  const tls = hello.tls ? { ca: hello.tlsCa ? readFileSync(hello.tlsCa) : undefined } : undefined
  const shared = { username: hello.user ?? undefined, password: hello.password ?? undefined, tls, commandTimeout: 5000 }
  const made = () => {
    switch (hello.topology) {
      case 'cluster':
        return [new Cluster(hello.servers, { redisOptions: shared })]
      case 'sentinel':
        return [new Redis({ sentinels: hello.servers, name: hello.master, ...shared, sentinelTLS: tls, enableTLSForSentinelMode: hello.tls })]
      default:
        return hello.servers.map((server) => new Redis({ ...server, ...shared }))
    }
  }
  const clients = made()
  let breaks = 0
  for (const client of clients) {
    client.on('error', (error) => console.error(String(error)))
    client.on(hello.topology === 'cluster' ? '-node' : 'close', () => breaks++)
  }
  // Of several masters some may be away.
  await Promise.any(clients.map((client) => client.ping()))
  return { clients, broken: () => breaks }
}
