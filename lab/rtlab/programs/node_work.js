// Buffers, compression, JSON and maps: the parts of Node.js that use malloc beside V8's own heap.   node node_work.js ROUNDS
// Prints one checksum, the same each time.
'use strict'
const crypto = require('crypto')
const zlib = require('zlib')

const rounds = Number(process.argv[2])
let state = 42
const random = (limit) => (state = (state * 48271) % 2147483647) % limit
const digest = crypto.createHash('sha256')

function buffers () {
  const kept = []
  for (let i = 0; i < 6000; i++) {
    const block = Buffer.alloc(4096 + random(20000), i & 255)
    if (i % 5 === 0) kept.push(block)
    if (kept.length > 300) kept.splice(random(kept.length), 1)
  }
  return String(kept.reduce((sum, block) => sum + block.length, 0))
}

function compression () {
  const text = Buffer.from(Array.from({ length: 4000 }, () => 'word' + random(900)).join(' '))
  let result = ''
  for (let i = 0; i < 12; i++) result += zlib.inflateSync(zlib.deflateSync(text, { level: 1 + i % 6 })).length
  return result
}

function documents () {
  const map = new Map()
  for (let i = 0; i < 20000; i++) map.set('key' + random(9000), { i, name: 'n'.repeat(random(30)) })
  return JSON.stringify(JSON.parse(JSON.stringify([...map])))
}

for (let i = 0; i < rounds; i++) for (const part of [buffers, compression, documents]) digest.update(part())
console.log('node: checksum ' + digest.digest('hex').slice(0, 16))
