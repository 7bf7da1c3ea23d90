// The driver protocol of locklab: with this file a driver is only what its lock library needs.
//
// One file, nothing but Node itself, version 18 or newer. The author writes a class and hands it to `run`:
//
//     class Lock {
//       async connect(hello) { … }            // to hello.servers; Unreachable: nobody answers
//       async acquire(call) { … }             // returns what the other methods need of a held lock
//       async release(held) { … }
//       async extend(held, leaseMs) { … }     // may be left out
//       held(held) { … }                      // may be left out: what the library believes, without asking a server
//     }
//     run(Lock, { name: 'my-lock', version: '1.0', kinds: ['plain'], topologies: ['single'] })
//
// A promise is fulfilled when the server has done it, and else rejected with `Busy`, `NotHeld`, `Failed` (certainly not done) or `Unknown`;
// anything else counts as unknown. Standard output belongs to the protocol: what console.log prints goes to standard error.
import { Buffer } from 'node:buffer'
import process from 'node:process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { deflateSync } from 'node:zlib'

const PROTOCOL = 1
const SHAPES = { redis: 'single', 'redis-sentinel': 'sentinel', 'redis-cluster': 'cluster', redlock: 'masters' }
const SECURE = { rediss: 'redis', 'rediss-sentinel': 'redis-sentinel', 'rediss-cluster': 'redis-cluster', redlocks: 'redlock' }
const SHARED_KINDS = ['read', 'semaphore', 'permits']
const LONGEST_WAIT_MS = 60_000
const FAILED_PAUSE_MS = 10
const ENDINGS = {
  acquire: ['busy', 'failed', 'unknown'],
  release: ['not_held', 'failed', 'unknown'],
  extend: ['not_held', 'failed', 'unknown'],
}

/** How a call ended that did not do what was asked. */
export class Ending extends Error {
  ending = 'unknown'
  more = {}
}

/** Certainly not acquired within the wait: another has it. */
export class Busy extends Ending {
  ending = 'busy'
}

/** This grant did not have the lock when the server looked. */
export class NotHeld extends Ending {
  ending = 'not_held'
}

/** It certainly did not happen. */
export class Failed extends Ending {
  ending = 'failed'
}

/** It may or may not have happened: an answer was lost, a connection broke. */
export class Unknown extends Ending {}

/** While connecting: no server answered. */
export class Unreachable extends Failed {
  more = { unreachable: true }
}

/** While connecting: the library has nothing to lock with on such servers. */
export class NotApplicable extends Failed {
  more = { not_applicable: true }
}

/** A held lock with what else the library says of it: its fencing token, a lease shorter than the one asked for. */
export class Granted {
  constructor(held, { token, leaseMs } = {}) {
    Object.assign(this, { held, token, leaseMs })
  }
}

/** Where the servers are and what is wished for. */
export class Hello {
  constructor(request) {
    const options = request.options ?? {}
    this.target = request.target
    this.client = request.client ?? 'c1'
    this.seed = request.seed ?? 0
    this.durability = options.durability ?? 'none'
    this.watchdogMs = options.watchdog_ms ?? null
    const [scheme, all = ''] = this.target.split('://')
    const [rest, settings] = all.split('?')
    this.tls = scheme in SECURE
    // One of `single`, `sentinel`, `cluster`, `masters`.
    this.topology = SHAPES[SECURE[scheme] ?? scheme]
    if (!this.topology) throw new Failed(`no target is a ${scheme}://`)
    const at = rest.lastIndexOf('@')
    const [user, password] = rest.slice(0, Math.max(at, 0)).split(':').map(decodeURIComponent)
    this.user = user || null
    this.password = password || null
    const [hosts, path] = rest.slice(at + 1).split('/')
    // Of a sentinel group those of the sentinels, and `master` is the group's name.
    this.servers = hosts.split(',').map(address)
    this.master = this.topology === 'sentinel' ? path : null
    // The file of the authority that signed the servers' certificates, where it is not one of the machine's own.
    this.tlsCa = new URLSearchParams(settings).get('tls-ca')
  }
}

function address(text) {
  const [, host, port] = /^(.*?)(?::(\d+))?$/.exec(text)
  return { host: host.replace(/^\[|\]$/g, ''), port: Number(port ?? 6379) }
}

/** What an acquire asks for, and where its library says what becomes of the lock. */
export class Call {
  #driver
  #grant
  #sentNs
  #until
  // What is said before the harness knows the grant waits here; null once it does.
  #early = []
  #over = false

  constructor(driver, request, grant) {
    this.#driver = driver
    this.#grant = grant
    this.locks = request.locks ?? [request.lock]
    this.lock = this.locks[0]
    this.kind = request.kind
    // Somebody new where nobody is named. At a release or an extend: who does it, which another owner may with the feature `owner_moves`.
    this.owner = request.owner ?? `somebody-${driver.number()}`
    // null: no bound; 0: one try.
    this.waitMs = request.wait_ms ?? null
    // null: the library renews the lock until it is released.
    this.leaseMs = request.lease_ms ?? null
    this.permits = request.permits ?? 1
    // Aborted by `cancel`, which a driver with the feature of that name passes on.
    this.aborter = new AbortController()
    this.signal = this.aborter.signal
    this.#until = this.waitMs === null ? Infinity : performance.now() + this.waitMs
  }

  /** The milliseconds of the wait that are left, 0 if it is over, Infinity without a bound. */
  leftMs() {
    return Math.max(0, this.#until - performance.now())
  }

  /** An attempt is sent, now or at this `now()`: the lease of a grant counts from the last one. Where it is never called, nobody knows. */
  sent(sentNs = now()) {
    this.#sentNs = sentNs
  }

  /** The library has notified its caller that the lock is gone. */
  lost(reason = '') {
    this.#say({ event: 'lost', grant: this.#grant, reason: String(reason), at_mono_ns: now() })
  }

  /** The library has renewed the lock; `sentNs` is when that was sent, by `now()`, and without it no lease is lengthened. */
  extended(leaseMs, sentNs) {
    this.#say({ event: 'extended', grant: this.#grant, lease_ms: leaseMs, at_mono_ns: sentNs })
  }

  /** For the SDK: the harness knows the grant from here on. */
  grants(id, { token, leaseMs }) {
    this.#driver.line({ id, ok: { grant: this.#grant, token, sent_mono_ns: this.#sentNs, returned_mono_ns: now(), lease_ms: leaseMs } })
    for (const event of this.#early) this.#driver.line(event)
    this.#early = null
  }

  /** For the SDK: the grant is released, and nothing is said of it any more. */
  over() {
    this.#over = true
  }

  #say(event) {
    if (this.#over || this.#grant === undefined) return
    if (this.#early) this.#early.push(event)
    else this.#driver.line(event)
  }
}

/** Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. */
export function now() {
  return Number(process.hrtime.bigint())
}

/**
 * Speaks the protocol until `bye` or the end of the input, then ends the process. `watchdogMs` is the lease that the library renews by itself;
 * without it an acquire without a lease fails. `features` are those that only the author knows: `open_busy`, `release_blind`, `reentrant`,
 * `redlock`, and `cancel` where `acquire` heeds `call.signal`. These two and `kinds` may be functions of the `Hello`. Permits of the kinds in
 * `leaseless` have no lease.
 */
export function run(Lock, { name, version, kinds, topologies, watchdogMs, features = [], leaseless, language = 'javascript' }) {
  const said = { protocol: PROTOCOL, name, version, language, kinds, topologies, leaseless }
  new Driver(Lock, said, { watchdogMs, features }).serve()
}

class Driver {
  #Lock
  #ofHello
  #numbers = 0
  #grants = new Map()
  #waiting = new Map()

  constructor(Lock, said, ofHello) {
    this.#Lock = Lock
    this.#ofHello = ofHello
    this.said = said
    this.lock = null
  }

  number() {
    return ++this.#numbers
  }

  line(fields) {
    process.stdout.write(JSON.stringify(fields) + '\n')
  }

  serve() {
    for (const print of ['log', 'info', 'debug']) console[print] = console.error
    const lines = createInterface({ input: process.stdin })
    lines.on('line', (line) => {
      let request
      try {
        request = JSON.parse(line)
        if (!Number.isInteger(request.id)) throw new TypeError('no id')
      } catch (error) {
        process.stderr.write(`not a request (${error}): ${line}\n`, () => process.exit(1))
        return
      }
      if (request.op === 'bye') {
        process.stdout.write(JSON.stringify({ id: request.id, ok: {} }) + '\n', () => process.exit(0))
        return
      }
      this.#answer(request)
    })
    lines.on('close', () => process.stdout.write('', () => process.exit(process.exitCode ?? 0)))
  }

  async #answer(request) {
    const { id, op } = request
    try {
      if (!Object.hasOwn(this.#ops, op)) throw new Failed(`no \`${op}\` here`)
      if (!this.lock && op !== 'hello') throw new Failed('the first request is hello')
      const body = await this.#ops[op](request)
      if (body) this.line({ id, ok: body })
    } catch (error) {
      const [ending, body] = ended(op, error)
      this.line({ id, [ending]: body })
    }
  }

  #ops = {
    hello: async (request) => {
      if (this.lock) throw new Failed('hello was said already')
      if (request.protocol !== PROTOCOL) throw new Failed(`this driver speaks version ${PROTOCOL}`)
      const hello = new Hello(request)
      const { name, topologies } = this.said
      if (topologies && !topologies.includes(hello.topology)) {
        throw new NotApplicable(`${name} does not work on \`${hello.topology}\`, but on ${topologies.join(', ')}`)
      }
      let lock
      try {
        lock = new this.#Lock(hello)
        await lock.connect?.(hello)
      } catch (error) {
        if (error instanceof Ending) throw error
        throw error.code in { ECONNREFUSED: 1, ETIMEDOUT: 1, EHOSTUNREACH: 1 } ? new Unreachable(text(error)) : new Failed(text(error))
      }
      const valueOf = (value) => (typeof value === 'function' ? value(hello) : value)
      const has = ['extend', 'held'].filter((method) => method in lock)
      this.said.kinds = valueOf(this.said.kinds)
      this.watchdogMs = valueOf(this.#ofHello.watchdogMs) ?? null
      this.said.features = [...new Set([...has, 'load', 'prefix', 'overlap', 'mono', 'block', ...valueOf(this.#ofHello.features)])]
      this.hello = hello
      this.lock = lock
      return { ...this.said, watchdog_ms: this.watchdogMs ?? undefined }
    },

    acquire: async (request) => {
      const kind = request.kind ?? this.said.kinds[0]
      this.check(kind, request.lease_ms)
      const grant = `g${this.number()}`
      const call = new Call(this, { ...request, kind }, grant)
      this.#waiting.set(request.id, call)
      try {
        const got = granted(await this.lock.acquire(call))
        this.#grants.set(grant, { call, held: got.held })
        call.grants(request.id, got)
      } finally {
        this.#waiting.delete(request.id)
      }
    },

    release: async (request) => {
      const { call, held } = this.#grant(request)
      const forget = () => {
        call.over()
        this.#grants.delete(request.grant)
      }
      try {
        await this.lock.release(held)
      } catch (error) {
        if (error instanceof NotHeld) forget()
        throw error
      }
      forget()
      return {}
    },

    extend: async (request) => {
      if (!this.lock.extend) throw new Failed('this library cannot extend')
      await this.lock.extend(this.#grant(request).held, request.lease_ms)
      return {}
    },

    held: async (request) => {
      if (!this.lock.held) throw new Failed('this library cannot be asked')
      const known = this.#grants.get(request.grant)
      return { held: known !== undefined && Boolean(await this.lock.held(known.held)) }
    },

    cancel: async (request) => {
      if (!this.said.features.includes('cancel')) throw new Failed('calls of this library cannot be cancelled')
      this.#waiting.get(request.of)?.aborter.abort()
      return {}
    },

    // The event loop alone: what runs in other threads goes on.
    block: (request) => {
      const began = now()
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, request.for_ms)
      return { blocked_ns: now() - began }
    },

    load: (request) => new Loop(this, request).run(),
  }

  check(kind, leaseMs) {
    const { kinds, leaseless = [] } = this.said
    if (!kinds.includes(kind)) throw new Failed(`no kind \`${kind}\` here, but ${kinds.join(', ')}`)
    if ((leaseMs ?? null) === null && this.watchdogMs === null && !leaseless.includes(kind)) throw new Failed('this library does not renew: a lease is needed')
  }

  #grant({ grant, owner }) {
    const known = this.#grants.get(grant)
    if (!known) throw new NotHeld()
    known.call.owner = owner ?? known.call.owner
    return known
  }
}

function granted(got) {
  return got instanceof Granted ? got : new Granted(got)
}

/** The ending of a call that was rejected, and its body. */
function ended(op, error) {
  let ending = error instanceof Ending ? error.ending : 'unknown'
  if (!(ENDINGS[op] ?? ['failed', 'unknown']).includes(ending)) ending = 'unknown'
  // Perhaps a mistake of the author's: the log says where.
  if (!(error instanceof Ending)) console.error(error)
  return [ending, ['busy', 'not_held'].includes(ending) ? {} : { error: text(error), ...error?.more }]
}

function text(error) {
  return error instanceof Ending ? error.message || error.constructor.name : String(error)
}

/** A `load`: tasks that acquire and release as fast as they can, and what was seen of that in a window of time. */
class Loop {
  #acquires = new Histogram()
  #releases = new Histogram()
  #handoffs = new Histogram()
  #others = new Histogram()
  #endings = { failed: 0, unknown: 0 }
  // By lock: who has it, and the last release: whose, when it was sent, and what its task waits on.
  #holders = new Map()
  #released = new Map()
  #overlap

  constructor(driver, request) {
    this.driver = driver
    this.workload = request.workload
    if (!['cycles', 'contended', 'chain'].includes(this.workload)) {
      throw new Failed(`no workload \`${this.workload}\` here, but cycles, contended and chain`)
    }
    this.kind = request.kind ?? driver.said.kinds[0]
    this.leaseMs = request.lease_ms ?? null
    driver.check(this.kind, this.leaseMs)
    this.tasks = request.tasks ?? 0
    const count = this.workload === 'cycles' ? (request.locks ?? this.tasks) : 1
    this.measureMs = request.measure_ms ?? 0
    if (Math.min(this.tasks, count, this.measureMs) < 1) {
      throw new Failed('a load needs `tasks`, `locks` and `measure_ms`, each at least 1')
    }
    this.warmupMs = request.warmup_ms ?? 0
    this.holdUs = request.hold_us ?? 0
    this.thinkUs = request.think_us ?? 0
    const prefix = `${request.prefix ?? 'locklab-load:'}${driver.hello.client}:${process.pid}:${driver.number()}:`
    this.names = Array.from({ length: count }, (_, number) => prefix + number)
    this.perTask = new Array(this.tasks).fill(0)
  }

  async run() {
    this.begin = now() + this.warmupMs * 1e6
    this.end = this.begin + this.measureMs * 1e6
    const numbers = Array.from({ length: this.tasks }, (_, number) => number)
    const [cpuNs] = await Promise.all([this.#watch(), ...numbers.map((number) => this.#task(number))])
    const body = {
      cycles: this.perTask.reduce((sum, cycles) => sum + cycles, 0),
      ...this.#endings,
      elapsed_ns: this.measureMs * 1e6,
      client_cpu_ns: cpuNs,
      per_task: this.perTask,
      acquire_hist: this.#acquires.text(),
      release_hist: this.#releases.text(),
      overlap: this.#overlap,
    }
    if (this.workload === 'cycles') return body
    return { ...body, handoff_hist: this.#handoffs.text(), handoff_other_hist: this.#others.text() }
  }

  async #watch() {
    await pauseUntil(this.begin)
    const cpu = process.cpuUsage()
    await pauseUntil(this.end)
    const { user, system } = process.cpuUsage(cpu)
    return (user + system) * 1000
  }

  #counts(at) {
    return this.begin <= at && at < this.end
  }

  async #task(number) {
    let own = this.names.filter((_, place) => place % this.tasks === number)
    if (own.length === 0) own = [this.names[number % this.names.length]]
    for (let turn = 0; now() < this.end; turn++) await this.#cycle(number, own[turn % own.length])
  }

  async #cycle(number, name) {
    const leftMs = Math.floor((this.end - now()) / 1e6) + 5_000
    const call = new Call(this.driver, {
      lock: name,
      locks: this.kind === 'multi' ? [name] : undefined,
      kind: this.kind,
      owner: `t${number}`,
      wait_ms: Math.min(leftMs, LONGEST_WAIT_MS),
      lease_ms: this.leaseMs,
    })
    const sent = now()
    let got
    try {
      got = granted(await this.driver.lock.acquire(call))
    } catch (error) {
      return this.#failed('acquire', error)
    }
    const at = now()
    this.#granted(number, name, at)
    await pauseUs(this.holdUs)
    if (this.#holders.get(name) === number) this.#holders.delete(name)
    const releasing = now()
    const nextHasIt = new Promise((has) => this.#released.set(name, { number, sent: releasing, has }))
    try {
      await this.driver.lock.release(got.held)
    } catch (error) {
      return this.#failed('release', error)
    }
    const done = now()
    if (this.#counts(done)) {
      this.perTask[number] += 1
      this.#acquires.record(at - sent)
      this.#releases.record(done - releasing)
    }
    if (this.workload === 'chain' && this.tasks > 1) {
      const over = new AbortController()
      await Promise.race([nextHasIt, pauseUntil(this.end, over.signal)])
      over.abort()
    }
    await pauseUs(this.thinkUs)
  }

  async #failed(op, error) {
    const [ending] = ended(op, error)
    if (this.#counts(now())) this.#endings[ending === 'unknown' ? 'unknown' : 'failed'] += 1
    await sleep(FAILED_PAUSE_MS)
  }

  #granted(number, name, at) {
    const before = this.#holders.get(name)
    if (before !== undefined && !SHARED_KINDS.includes(this.kind)) this.#overlap ??= `tasks ${before} and ${number} had ${name} at once`
    this.#holders.set(name, number)
    const last = this.#released.get(name)
    this.#released.delete(name)
    if (!last) return
    last.has()
    if (!this.#counts(at)) return
    this.#handoffs.record(at - last.sent)
    if (last.number !== number) this.#others.record(at - last.sent)
  }
}

/** Until a moment of `now()`; given up without an error where its signal says so. */
function pauseUntil(at, signal) {
  return sleep(Math.max(0, at - now()) / 1e6, undefined, { signal }).catch(() => {})
}

/** Timers count in milliseconds: what is shorter ends at the next turns of the event loop. */
async function pauseUs(us) {
  if (us === 0) return
  const until = now() + us * 1000
  if (us >= 2000) await sleep(us / 1000 - 1)
  while (now() < until) await new Promise(setImmediate)
}

/** Counts of nanoseconds as an HdrHistogram of three digits. */
class Histogram {
  static HIGHEST = 3_600_000_000_000
  static HALF_BITS = 10
  #counts = new Map()

  record(value) {
    const bounded = Math.min(Math.max(Math.trunc(value), 0), Histogram.HIGHEST)
    const bits = bounded < 1 ? 0 : Math.floor(Math.log2(bounded)) + 1
    const bucket = Math.max(0, bits - Histogram.HALF_BITS - 1)
    const index = bucket * 2 ** Histogram.HALF_BITS + Math.floor(bounded / 2 ** bucket)
    this.#counts.set(index, (this.#counts.get(index) ?? 0) + 1)
  }

  /** V2, compressed, in base64. */
  text() {
    const payload = []
    let following = 0
    for (const [index, count] of [...this.#counts].sort(([a], [b]) => a - b)) {
      // A run of empty buckets is its length, negative.
      if (index > following) zigzag(payload, following - index)
      zigzag(payload, count)
      following = index + 1
    }
    const head = Buffer.alloc(40)
    head.writeInt32BE(0x1c849313, 0)
    head.writeInt32BE(payload.length, 4)
    head.writeInt32BE(0, 8)
    head.writeInt32BE(3, 12)
    head.writeBigInt64BE(1n, 16)
    head.writeBigInt64BE(BigInt(Histogram.HIGHEST), 24)
    head.writeDoubleBE(1, 32)
    const packed = deflateSync(Buffer.concat([head, Buffer.from(payload)]))
    const front = Buffer.alloc(8)
    front.writeInt32BE(0x1c849314, 0)
    front.writeInt32BE(packed.length, 4)
    return Buffer.concat([front, packed]).toString('base64')
  }
}

function zigzag(to, value) {
  let left = value >= 0 ? value * 2 : -value * 2 - 1
  while (left > 0x7f) {
    to.push((left % 128) + 128)
    left = Math.floor(left / 128)
  }
  to.push(left)
}
