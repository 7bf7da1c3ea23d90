#!/usr/bin/env node
// A lock as teams write it, which loses its exclusion and tells nobody: a control that an audit must convict.
//
// `renewer-dies`: an interval of each hold sends PEXPIRE each second, and ends at its first error. `never-renews`: says that it renews, and
// does not; a second argument is the lease that it claims, in milliseconds.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Busy, run } from '../sdk/node/locklab-driver.mjs'
import { Redis } from '../sdk/node/resp.mjs'

const DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
const [mode, lease = '3000'] = process.argv.slice(2)
const leaseMs = Number(lease)

class Lock {
  async connect(hello) {
    this.redis = new Redis(hello)
    await this.redis.command('PING')
  }

  async acquire(call) {
    const value = randomUUID()
    while ((await this.redis.command('SET', call.lock, value, 'NX', 'PX', call.leaseMs ?? leaseMs)) !== 'OK') {
      if (call.leftMs() === 0) throw new Busy()
      await sleep(Math.min(call.leftMs(), 10))
    }
    if (call.leaseMs || mode !== 'renewer-dies') return [call.lock, value, null]
    const timer = setInterval(() => {
      this.redis.command('PEXPIRE', call.lock, leaseMs).catch(() => clearInterval(timer))
    }, 1000)
    return [call.lock, value, timer]
  }

  async release([lock, value, timer]) {
    clearInterval(timer)
    await this.redis.command('EVAL', DELETE, 1, lock, value)
  }
}

run(Lock, { name: mode, version: '1.0', kinds: ['plain'], topologies: ['single'], watchdogMs: leaseMs, features: ['release_blind'] })
