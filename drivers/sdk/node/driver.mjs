#!/usr/bin/env node
// A driver of the lock `SET key value NX PX lease`, whose holder is told before the lease ends. Put your own library in the place of its commands.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Busy, NotHeld, run } from './locklab-driver.mjs'
import { Redis } from './resp.mjs'

const DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
const EXPIRE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"

class Held {
  constructor(call) {
    this.call = call
    this.key = [call.lock, randomUUID()]
  }

  // False: the answer came when the lease was over. A tenth of it is kept for a timer that is late.
  keep(sentMs, leaseMs) {
    clearTimeout(this.timer)
    const leftMs = sentMs + 0.9 * leaseMs - performance.now()
    this.lost = leftMs <= 0
    if (!this.lost) this.timer = setTimeout(() => this.tell(), leftMs)
    return !this.lost
  }

  tell() {
    this.lost = true
    this.call.lost('the lease ends')
  }
}

class Lock {
  async connect(hello) {
    this.redis = new Redis(hello)
    await this.redis.command('PING')
  }

  async acquire(call) {
    const held = new Held(call)
    for (;;) {
      call.sent()
      const sentMs = performance.now()
      if ((await this.redis.command('SET', ...held.key, 'NX', 'PX', call.leaseMs)) === 'OK') {
        if (held.keep(sentMs, call.leaseMs)) return held
        await this.redis.command('EVAL', DELETE, 1, ...held.key)
      }
      if (call.leftMs() === 0 || call.signal.aborted) throw new Busy()
      await sleep(Math.min(call.leftMs(), 10))
    }
  }

  async release(held) {
    clearTimeout(held.timer)
    if ((await this.redis.command('EVAL', DELETE, 1, ...held.key)) === 0) throw new NotHeld()
  }

  async extend(held, leaseMs) {
    const sentMs = performance.now()
    const extended = (await this.redis.command('EVAL', EXPIRE, 1, ...held.key, leaseMs)) === 1
    if (!extended || held.lost || !held.keep(sentMs, leaseMs)) throw new NotHeld()
  }

  held(held) {
    return !held.lost // until it was told, whatever the server knows
  }
}

run(Lock, { name: 'set-nx-px', version: '1.0', kinds: ['plain'], topologies: ['single'], features: ['cancel', 'lost'] })
