// node-redlock: a script that sets every name unless one is there, on each master; a majority decides. One server is a majority of one.
//
// Settings are the library's own but for the number of retries, which stands in for a longest wait: it has none in time. A lock without a lease is
// kept by `using`, which extends it 0.5 s before its end and aborts a signal when it cannot.
import { readFileSync } from 'node:fs'
import * as ioredis from 'ioredis'
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock'
import { Busy, Failed, Granted, NotHeld, Unknown, now, run } from '../../sdk/node/locklab-driver.mjs'
import { connect } from '../ioredis.mjs'

const RETRY_DELAY_MS = 200
const WATCHDOG_MS = 5000

/** Says what the library keeps to itself: when the attempt began that succeeded, and which of the extensions of `using` worked. */
class Seen extends Redlock {
  #begun = new Map()

  constructor(clients, call) {
    super(clients)
    this.call = call
  }

  async _attemptOperation(script, keys, args) {
    this.#begun.set(args[0], now())
    return super._attemptOperation(script, keys, args)
  }

  /** `attempts` goes on into the lock. */
  async _execute(script, keys, args, settings) {
    try {
      const done = await super._execute(script, keys, args, settings)
      done.attempts.sentNs = this.#begun.get(args[0])
      return done
    } finally {
      this.#begun.delete(args[0])
    }
  }

  async extend(lock, leaseMs, settings) {
    const sentNs = now()
    const extended = await super.extend(lock, leaseMs, settings)
    this.call?.extended(leaseMs, sentNs)
    return extended
  }
}

class Lock {
  constructor(hello) {
    this.watchdogMs = hello.watchdogMs ?? WATCHDOG_MS
  }

  async connect(hello) {
    Object.assign(this, await connect(ioredis, hello))
    this.redlock = new Seen(this.clients)
  }

  async acquire(call) {
    const broken = this.broken()
    const retryCount = call.waitMs === null ? -1 : call.waitMs === 0 ? 0 : Math.ceil(call.waitMs / RETRY_DELAY_MS) + 1
    try {
      if (call.leaseMs === null) return await this.renewed(call, { retryCount })
      const lock = await this.redlock.acquire(call.locks, call.leaseMs, { retryCount })
      call.sent(lock.attempts.sentNs)
      // What the clocks may differ by is not promised: the library's own figures. Its `expiration` counts from the call, whatever the wait was.
      return new Granted({ lock }, { leaseMs: call.leaseMs - Math.round(0.01 * call.leaseMs) - 2 })
    } catch (error) {
      if (this.broken() === broken && (await refusals(error)) === 'all') throw new Busy()
      throw new Unknown(String(error), { cause: error })
    }
  }

  /** Held by `using` until `release` lets its routine end. */
  async renewed(call, settings) {
    const held = {}
    await new Promise((granted, refused) => {
      const routine = (signal) => {
        signal.addEventListener('abort', () => call.lost(signal.error))
        granted()
        return new Promise((over) => (held.end = over))
      }
      held.over = new Seen(this.clients, call).using(call.locks, this.watchdogMs, settings, routine)
      held.over.catch(refused)
    })
    return held
  }

  async release(held) {
    held.end?.()
    await given(held.over ?? held.lock.release())
  }

  async extend(held, leaseMs) {
    if (!held.lock) throw new Failed('it is extended by `using`')
    held.lock = await given(held.lock.extend(leaseMs))
  }

  held({ lock }) {
    return lock ? lock.expiration > Date.now() : true
  }
}

/** Of the votes of a call that found no majority: whether `all` said that the lock is another's, or `some` failed, or `none` was asked. */
async function refusals(error) {
  if (!(error instanceof ExecutionError)) throw error
  const attempts = await Promise.all(error.attempts)
  const votes = attempts.flatMap((attempt) => [...attempt.votesAgainst.values()])
  if (votes.length === 0) return 'none'
  return votes.every((vote) => vote instanceof ResourceLockedError) ? 'all' : 'some'
}

async function given(result) {
  try {
    return await result
  } catch (error) {
    const refused = await refusals(error)
    if (refused === 'all') throw new NotHeld()
    throw refused === 'none' ? new Failed(error.message) : error
  }
}

const pinned = JSON.parse(readFileSync(new URL('package.json', import.meta.url))).dependencies
run(Lock, {
  name: 'node-redlock',
  version: pinned.redlock,
  // Of a cluster it sends one script with every name, which have to be in one slot.
  kinds: (hello) => (hello.topology === 'cluster' ? ['plain', 'redlock'] : ['plain', 'redlock', 'multi']),
  topologies: ['single', 'sentinel', 'cluster', 'masters'],
  watchdogMs: (hello) => hello.watchdogMs ?? WATCHDOG_MS,
  features: ['redlock', 'renewals', 'owner_moves'],
})
