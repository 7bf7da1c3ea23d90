#!/usr/bin/env node
// A driver of the lock `SET key value NX PX lease`. Put your own library in the place of its commands.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Busy, NotHeld, run } from './locklab-driver.mjs'
import { Redis } from './resp.mjs'

const DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
const EXPIRE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"

class Lock {
  async connect(hello) {
    this.redis = new Redis(hello)
    await this.redis.command('PING')
  }

  async acquire(call) {
    const value = randomUUID()
    for (;;) {
      call.sent()
      if ((await this.redis.command('SET', call.lock, value, 'NX', 'PX', call.leaseMs)) === 'OK') return [call.lock, value]
      if (call.leftMs() === 0 || call.signal.aborted) throw new Busy()
      await sleep(Math.min(call.leftMs(), 10))
    }
  }

  async release(held) {
    if ((await this.redis.command('EVAL', DELETE, 1, ...held)) === 0) throw new NotHeld()
  }

  async extend(held, leaseMs) {
    if ((await this.redis.command('EVAL', EXPIRE, 1, ...held, leaseMs)) === 0) throw new NotHeld()
  }

  held() {
    return true // until its release, whatever the server knows
  }
}

run(Lock, { name: 'set-nx-px', version: '1.0', kinds: ['plain'], topologies: ['single'], features: ['cancel'] })
