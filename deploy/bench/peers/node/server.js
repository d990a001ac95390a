// A reference to measure dted beside: a consumer invoice as a service with Fastify, PostgreSQL and OpenSSL issues it, one
// process a core. It has no rules, no retries, no contingency.
import cluster from 'node:cluster'
import { createPrivateKey, randomUUID, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import Fastify from 'fastify'
import pg from 'pg'
import { Pool } from 'undici'

const env = process.env
if (cluster.isPrimary) {
  for (let i = 0; i < availableParallelism(); i++) cluster.fork()
  cluster.on('exit', () => process.exit(1))
} else {
  await serve()
}

async function serve() {
  const signature = promisify(sign) // in a thread of libuv's pool
  const key = createPrivateKey(readFileSync(env.PEER_KEY))
  const form = JSON.parse(readFileSync(env.PEER_FORM))
  const tokens = new Map(env.PEER_TOKENS.split(' ').map((token, i) => [token, i + 1]))
  const [host, database] = ['host', 'dbname'].map((name) => env.PEER_DB.match(`${name}=(\\S+)`)[1])
  const db = new pg.Pool({ host, database, user: 'peer', max: 16 / availableParallelism() })
  const mh = new Pool(env.PEER_MH, { connections: 16 })
  const auth = await login()

  async function login() {
    const body = new URLSearchParams({ user: env.PEER_NIT, pwd: env.PEER_PASSWORD }).toString()
    const headers = { 'content-type': 'application/x-www-form-urlencoded', 'user-agent': 'dtepeer' }
    const answer = await (await mh.request({ method: 'POST', path: '/seguridad/auth', headers, body })).body.json()
    if (!answer.body?.token) throw new Error('no token: ' + JSON.stringify(answer))
    return answer.body.token
  }

  // store numbers, signs and commits a document in one transaction.
  async function store(d, point) {
    const client = await db.connect()
    try {
      await client.query('BEGIN')
      const { rows } = await client.query({ name: 'number', text: 'UPDATE series SET last = last + 1 WHERE point = $1 RETURNING last', values: [point] })
      const sold = 'P' + String(point).padStart(3, '0')
      const code = randomUUID().toUpperCase()
      const number = `DTE-01-${env.PEER_ESTABLISHMENT}${sold}-${rows[0].last.padStart(15, '0')}`
      const now = new Date(Date.now() - 6 * 3600e3).toISOString() // El Salvador's
      d.identificacion = { ...form.identificacion, numeroControl: number, codigoGeneracion: code, fecEmi: now.slice(0, 10), horEmi: now.slice(11, 19) }
      d.emisor = { ...form.emisor, codEstable: env.PEER_ESTABLISHMENT, codPuntoVenta: sold }
      const text = Buffer.from('{"alg":"RS512"}').toString('base64url') + '.' + Buffer.from(JSON.stringify(d)).toString('base64url')
      const jws = text + '.' + (await signature('sha512', Buffer.from(text), key)).toString('base64url')
      await client.query({ name: 'store', text: 'INSERT INTO document (code, number, jws) VALUES ($1, $2, $3)', values: [code, number, jws] })
      await client.query('COMMIT')
      return { codigoGeneracion: code, numeroControl: number, estado: 'PROCESSED', dteJson: d, dteFirmado: jws }
    } catch (err) {
      await client.query('ROLLBACK')
      throw err
    } finally {
      client.release()
    }
  }

  // send sends a document to MH, and returns its seal.
  async function send(record) {
    const body = JSON.stringify({
      ambiente: '00', idEnvio: 1, version: form.identificacion.version, tipoDte: '01',
      documento: record.dteFirmado, codigoGeneracion: record.codigoGeneracion,
    })
    const headers = { 'content-type': 'application/json', 'user-agent': 'dtepeer', authorization: auth }
    const answer = await (await mh.request({ method: 'POST', path: '/fesv/recepciondte', headers, body })).body.json()
    if (answer.estado !== 'PROCESADO') throw new Error('MH refuses: ' + JSON.stringify(answer))
    return answer.selloRecibido
  }

  const app = Fastify()
  app.post('/dte/dte01', async (req, reply) => {
    const point = tokens.get(req.headers['x-api-token'])
    if (!point) throw new Error('unknown token')
    const record = await store(fill(form, req.body), point)
    record.selloRecibido = await send(record)
    await db.query({ name: 'seal', text: 'UPDATE document SET estado = $2, sello = $3 WHERE code = $1', values: [record.codigoGeneracion, record.estado, record.selloRecibido] })
    reply.code(201)
    return { status: 'success', data: record }
  })
  const [address, port] = env.PEER_LISTEN.split(':')
  await app.listen({ host: address, port: Number(port) })
}

// fill fills a copy of the form with a sale: whole quantities, prices with VAT in them. Amounts are counted in 1e-8 USD.
function fill(form, sale) {
  let [total, discount, vat] = [0n, 0n, 0n]
  const cuerpoDocumento = sale.items.map((item, i) => {
    const off = fixed(item.montoDescu ?? 0)
    const taxed = BigInt(item.cantidad) * fixed(item.precioUnitario) - off
    if (item.cantidad <= 0 || taxed < 0n) throw new Error(`items[${i}]: no such sale`)
    const within = (taxed * 26n + 113n) / 226n // half up
    total += taxed
    discount += off
    vat += within
    return {
      numItem: i + 1, tipoItem: 1, numeroDocumento: null, cantidad: item.cantidad, codigo: item.codigo, codTributo: null, uniMedida: 59,
      descripcion: item.descripcion, precioUni: item.precioUnitario, montoDescu: item.montoDescu ?? 0, ventaNoSuj: 0, ventaExenta: 0,
      ventaGravada: plain(taxed), tributos: null, psv: 0, noGravado: 0, ivaItem: plain(within),
    }
  })
  const paid = plain(cents(total))
  return {
    ...form,
    receptor: { ...form.receptor, ...sale.receptor },
    cuerpoDocumento,
    // The words are the form's: all sales of the measurement have one total.
    resumen: {
      ...form.resumen, totalGravada: paid, subTotalVentas: paid, subTotal: paid, montoTotalOperacion: paid, totalPagar: paid,
      totalDescu: plain(discount), totalIva: plain(cents(vat)), condicionOperacion: sale.condicionOperacion,
      pagos: [{ ...form.resumen.pagos[0], montoPago: paid }],
    },
  }
}

function fixed(n) {
  return BigInt(Math.round(n * 1e8))
}

function plain(n) {
  return Number(n) / 1e8
}

// cents rounds half up.
function cents(n) {
  return ((n + 500000n) / 1000000n) * 1000000n
}
