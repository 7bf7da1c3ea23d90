// redis-semaphore: SET NX PX tried anew every 10 ms (`Mutex`), a sorted set of holders (`Semaphore`), and both by a majority of masters (`Redlock…`).
//
// Settings are the library's own: it renews by itself at 0.8 of the lease. With a lease that is asked for, `refreshInterval: 0` leaves that out. A lock is
// extended as its documentation does it, by a second object with the identifier of the first. Its keys begin with `mutex:` and `semaphore:`.
import { readFileSync } from 'node:fs'
import * as ioredis from 'ioredis'
import semaphores from 'redis-semaphore'
import { Busy, Failed, NotHeld, Unknown, now, run } from '../../sdk/node/locklab-driver.mjs'
import { connect } from '../ioredis.mjs'

const WATCHDOG_MS = 10_000
const { Mutex, RedlockMutex, RedlockSemaphore, Semaphore } = semaphores

class Lock {
  constructor(hello) {
    this.masters = hello.topology === 'masters'
    this.watchdogMs = hello.watchdogMs ?? WATCHDOG_MS
  }

  async connect(hello) {
    Object.assign(this, await connect(ioredis, hello))
  }

  /** The library's object for a call. */
  make(call, options) {
    const place = this.masters || call.kind === 'redlock' ? this.clients : this.clients[0]
    const [One, Many] = place === this.clients ? [RedlockMutex, RedlockSemaphore] : [Mutex, Semaphore]
    return call.kind === 'semaphore' ? new Many(place, call.lock, call.permits, options) : new One(place, call.lock, options)
  }

  async acquire(call) {
    const lease = call.leaseMs === null ? { lockTimeout: this.watchdogMs } : { lockTimeout: call.leaseMs, refreshInterval: 0 }
    const wait = call.waitMs === 0 ? { acquireAttemptsLimit: 1 } : { acquireTimeout: call.waitMs ?? Infinity }
    const lock = this.make(call, { ...lease, ...wait, onLockLost: (error) => call.lost(error.message) })
    this.see(call, lock)
    const broken = this.broken()
    try {
      if (await lock.tryAcquire(call.signal)) return { call, lock }
    } catch (error) {
      // The library looks at the signal between its attempts.
      if (error === call.signal.reason) throw new Failed('cancelled')
      throw error
    }
    if (this.broken() !== broken) throw new Unknown('not acquired, after a command that was sent again')
    throw new Busy()
  }

  /** Says which renewals worked: the library keeps that to itself. */
  see(call, lock) {
    const refresh = lock._refresh
    lock._refresh = async () => {
      const sentNs = now()
      const refreshed = await refresh.call(lock)
      if (refreshed) call.extended(this.watchdogMs, sentNs)
      return refreshed
    }
  }

  async release({ lock }) {
    await lock.release()
  }

  async extend({ call, lock }, leaseMs) {
    const options = { identifier: lock.identifier, acquiredExternally: true, lockTimeout: leaseMs, refreshInterval: 0 }
    if (!(await this.make(call, options).tryAcquire())) throw new NotHeld()
  }

  held({ lock }) {
    return lock.isAcquired
  }
}

const pinned = JSON.parse(readFileSync(new URL('package.json', import.meta.url))).dependencies
run(Lock, {
  name: 'redis-semaphore',
  version: pinned['redis-semaphore'],
  kinds: ['plain', 'redlock', 'semaphore'],
  topologies: ['single', 'sentinel', 'cluster', 'masters'],
  watchdogMs: (hello) => hello.watchdogMs ?? WATCHDOG_MS,
  features: ['cancel', 'redlock', 'release_blind', 'renewals', 'owner_moves'],
})
