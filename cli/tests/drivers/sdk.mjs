// A lock without a server, on the SDK for Node: the name of a lock says what becomes of it.
import { Busy, Failed, Granted, NotHeld, Unreachable, run } from '../../../drivers/sdk/node/locklab-driver.mjs'

class Lock {
  last = Promise.resolve()

  constructor(hello) {
    if (hello.client === 'echo') {
      const servers = hello.servers.map(({ host, port }) => `${host} ${port}`).join(',')
      const said = [hello.topology, servers, hello.user ?? 'None', hello.password ?? 'None', hello.master ?? 'None', hello.tls]
      throw new Failed(said.join('; '))
    }
    if (hello.client === 'away') throw new Unreachable('nobody there')
  }

  async acquire(call) {
    console.log('a library that prints')
    this.released?.lost('after its release')
    switch (call.lock) {
      case 'busy':
        throw new Busy()
      case 'failed':
        throw new Failed('no')
      case 'odd':
        throw new NotHeld()
      case 'throws':
        throw new TypeError('a mistake')
      case 'loses':
        call.lost('gone')
        break
      case 'renews':
        call.extended(5000, 1)
        break
      case 'fenced':
        call.sent()
        return new Granted('fenced', { token: 17, leaseMs: 900 })
      case 'waits':
        await new Promise((_, given) => call.signal.addEventListener('abort', () => given(call.signal.reason)))
    }
    const held = { call }
    if (call.kind === 'queued') {
      const before = this.last
      this.last = new Promise((over) => (held.over = over))
      await before
    } else await new Promise(setImmediate)
    return held
  }

  async release(held) {
    if (held === 'fenced') throw new NotHeld()
    if (held.call.lock === 'breaks') {
      held.call.lock = 'works again'
      throw new Error('lost')
    }
    held.over?.()
    this.released = held.call
  }
}

// `queued` excludes here, so that a loop of `plain` sees two holders and one of `queued` does not.
const kinds = ['plain', 'queued', 'semaphore']
run(Lock, { name: 'scripted', version: '1.0', kinds, leaseless: ['semaphore'], watchdogMs: (hello) => hello.watchdogMs, features: ['cancel'] })
