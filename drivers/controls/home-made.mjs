#!/usr/bin/env node
// Locks as teams write them, each wrong in one thing, and told to nobody: controls that an audit must convict. The modes are those of
// home_made.py: `renewer-dies`, `never-renews` (a second argument is the lease that it claims, in milliseconds), `release-without-owner-check`,
// `get-compare-del`, `setnx-expire`, `renew-without-owner-check`.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Busy, NotHeld, run } from '../sdk/node/locklab-driver.mjs'
import { Redis } from '../sdk/node/resp.mjs'

const DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
const [mode, lease = '3000'] = process.argv.slice(2)
const leaseMs = Number(lease)
const renews = ['renewer-dies', 'renew-without-owner-check'].includes(mode)

class Lock {
  async connect(hello) {
    this.redis = new Redis(hello)
    await this.redis.command('PING')
  }

  async acquire(call) {
    const value = randomUUID()
    while (!(await this.take(call.lock, value, call.leaseMs ?? leaseMs))) {
      if (call.leftMs() === 0) throw new Busy()
      await sleep(Math.min(call.leftMs(), 10))
    }
    if (call.leaseMs || !renews) return [call.lock, value, null]
    const timer = setInterval(() => {
      const dies = () => mode === 'renewer-dies' && clearInterval(timer)
      this.redis.command('PEXPIRE', call.lock, leaseMs).catch(dies)
    }, 1000)
    return [call.lock, value, timer]
  }

  async take(lock, value, ms) {
    if (mode !== 'setnx-expire') return (await this.redis.command('SET', lock, value, 'NX', 'PX', ms)) === 'OK'
    return (await this.redis.command('SETNX', lock, value)) === 1 && (await this.redis.command('PEXPIRE', lock, ms)) === 1
  }

  async release([lock, value, timer]) {
    clearInterval(timer)
    if (mode === 'release-without-owner-check') await this.redis.command('DEL', lock)
    else if (mode !== 'get-compare-del') await this.redis.command('EVAL', DELETE, 1, lock, value)
    else if ((await this.redis.command('GET', lock)) === value) await this.redis.command('DEL', lock)
  }
}

if (mode === 'renew-without-owner-check') {
  Lock.prototype.extend = async function ([lock], ms) {
    if ((await this.redis.command('PEXPIRE', lock, ms)) !== 1) throw new NotHeld()
  }
}

const watchdogMs = renews || mode === 'never-renews' ? leaseMs : undefined
run(Lock, { name: mode, version: '1.0', kinds: ['plain'], topologies: ['single'], watchdogMs, features: ['release_blind'] })
