// A Redis client of one connection, for one server: enough for a lock, and nothing to install. Your driver uses your library's own.
import { connect } from 'node:net'
import { Failed, Unknown } from './locklab-driver.mjs'

export class Redis {
  #hello
  #timeoutMs
  #socket = null
  #waiting = []
  #read = Buffer.alloc(0)

  constructor(hello, timeoutMs = 2000) {
    this.#hello = hello
    this.#timeoutMs = timeoutMs
  }

  /** The reply: a number, text or null. `Failed`: the server was not asked, or said no; `Unknown`: nobody knows. */
  async command(...words) {
    try {
      this.#socket ??= this.#open()
      await this.#socket
    } catch (error) {
      this.#socket = null
      throw error instanceof Failed ? error : new Failed(`not sent: ${error.message}`, { cause: error })
    }
    return this.#ask(await this.#socket, words)
  }

  async #open() {
    const socket = connect({ ...this.#hello.servers[0], noDelay: true })
    await new Promise((connected, failed) => socket.once('connect', connected).once('error', failed))
    socket.on('data', (bytes) => this.#take(bytes))
    socket.on('error', () => {})
    socket.on('close', () => this.#broken())
    const { user, password } = this.#hello
    if (password) await this.#ask(socket, ['AUTH', user ?? 'default', password])
    return socket
  }

  #ask(socket, words) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => socket.destroy(), this.#timeoutMs)
      this.#waiting.push({ resolve, reject, timer })
      const parts = words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`)
      socket.write(`*${parts.length}\r\n${parts.join('')}`)
    })
  }

  #broken() {
    this.#socket = null
    this.#read = Buffer.alloc(0)
    for (const { reject, timer } of this.#waiting.splice(0)) {
      clearTimeout(timer)
      reject(new Unknown('the connection broke, or no answer came'))
    }
  }

  #take(bytes) {
    this.#read = Buffer.concat([this.#read, bytes])
    for (let reply = this.#next(); reply; reply = this.#next()) {
      this.#read = this.#read.subarray(reply.length)
      const { resolve, reject, timer } = this.#waiting.shift()
      clearTimeout(timer)
      if (reply.value instanceof Failed) reject(reply.value)
      else resolve(reply.value)
    }
  }

  /** The first whole reply of what was read, and its length. */
  #next() {
    const end = this.#read.indexOf('\r\n')
    if (end < 0) return null
    const [kind, rest, length] = [String.fromCharCode(this.#read[0]), this.#read.toString('utf8', 1, end), end + 2]
    if (kind === '-') return { value: new Failed(rest), length }
    if (kind === '+') return { value: rest, length }
    if (kind === ':') return { value: Number(rest), length }
    if (rest === '-1') return { value: null, length }
    const whole = length + Number(rest) + 2
    return this.#read.length < whole ? null : { value: this.#read.toString('utf8', length, whole - 2), length: whole }
  }
}
