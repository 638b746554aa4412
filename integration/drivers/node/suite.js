// The Node.js driver against cqld: see ../README.md.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const cassandra = require('cassandra-driver');
const { types, policies } = cassandra;

const points = process.env.CQLD_CONTACT_POINTS.split(',');
const dc = process.env.CQLD_DATACENTER || 'datacenter1';
const nodes = Number(process.env.CQLD_NODES || 1);
const rf = Number(process.env.CQLD_RF || 1);
const ks = process.env.CQLD_KEYSPACE || 'drv_node';

function newClient(credentials) {
  return new cassandra.Client({
    contactPoints: points,
    credentials,
    sslOptions: process.env.CQLD_TLS_CA ? { ca: [fs.readFileSync(process.env.CQLD_TLS_CA)], rejectUnauthorized: true } : undefined,
    localDataCenter: dc,
    queryOptions: { consistency: types.consistencies.quorum, prepare: true },
    policies: { loadBalancing: new policies.loadBalancing.TokenAwarePolicy(new policies.loadBalancing.DCAwareRoundRobinPolicy(dc)) },
    encoding: { useUndefinedAsUnset: true },
  });
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// plain makes driver values comparable: long numbers, dates and ids as text.
function plain(v) {
  if (v === null || v === undefined) return null;
  if (Buffer.isBuffer(v)) return '0x' + v.toString('hex');
  if (v instanceof Date) return v.toISOString();
  if (v instanceof Set) return [...v].map(plain);
  if (v instanceof Map) return [...v].map(([k, w]) => [plain(k), plain(w)]);
  if (Array.isArray(v)) return v.map(plain);
  if (typeof v === 'object' && v.constructor !== Object) return v.toString();
  if (typeof v === 'object') return Object.entries(v).map(([k, w]) => [k, plain(w)]);
  return v;
}

class Suite {
  async run() {
    this.client = newClient();
    let failed = false;
    for (const name of 'connect schema types collections nulls named paging batch metadata tokens events alter errors tracing drop'.split(' ')) {
      try {
        await this[name]();
        console.log(`ok ${name}`);
      } catch (e) {
        failed = true;
        console.log(`fail ${name} ${String(e.stack || e).replace(/\s+/g, ' ').slice(0, 600)}`);
      }
    }
    await this.client.shutdown();
    return failed ? 1 : 0;
  }

  async connect() {
    await this.client.connect();
    assert.equal(this.client.hosts.length, nodes, 'nodes seen');
    for (const h of this.client.hosts.values()) {
      assert.equal(h.datacenter, dc);
      assert.ok(h.isUp());
    }
  }

  async schema() {
    await this.client.execute(`DROP KEYSPACE IF EXISTS ${ks}`, [], { prepare: false });
    await this.client.execute(`CREATE KEYSPACE ${ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': ${rf}}`, [], { prepare: false });
    const began = Date.now();
    for (let i = 0; i < 5; i++) await this.ddl(`CREATE TABLE ${ks}.quick${i} (k int PRIMARY KEY)`);
    assert.ok(Date.now() - began < 10000, 'five CREATE TABLE are quick');
  }

  ddl(text) {
    return this.client.execute(text, [], { prepare: false });
  }

  async types() {
    const columns = 'a ascii, bi bigint, bl blob, bo boolean, da date, de decimal, dou double, du duration, f float, i inet, n int, sm smallint, te text, ti time, ts timestamp, tu timeuuid, ty tinyint, u uuid, vc varchar, vi varint';
    await this.ddl(`CREATE TABLE ${ks}.types (k int PRIMARY KEY, ${columns})`);
    const names = columns.split(', ').map((c) => c.split(' ')[0]);
    const insert = `INSERT INTO ${ks}.types (k, ${names.join(', ')}) VALUES (?${', ?'.repeat(names.length)})`;
    const rows = [
      ['ascii', types.Long.MAX_VALUE, Buffer.from([0, 255]), true, types.LocalDate.fromString('2020-02-29'), types.BigDecimal.fromString('123.450'), 1.5e300,
        new types.Duration(14, 3, 5000), 1.5, types.InetAddress.fromString('127.0.0.1'), 2147483647, 32767, 'Grüße 世界', types.LocalTime.fromString('23:59:59.999999999'),
        new Date('2020-01-02T03:04:05.678Z'), types.TimeUuid.fromString('50554d6e-29bb-11e5-b345-feff819cdc9f'), 127,
        types.Uuid.fromString('123e4567-e89b-42d3-a456-426614174000'), 'v', types.Integer.fromString('1' + '0'.repeat(30))],
      ['', types.Long.MIN_VALUE, Buffer.alloc(0), false, types.LocalDate.fromString('1969-12-31'), types.BigDecimal.fromString('-0.0000000001'), -Infinity,
        new types.Duration(-1, -2, -3), -0.5, types.InetAddress.fromString('2001:db8::1'), -2147483648, -32768, '', types.LocalTime.fromString('00:00:00'),
        new Date('1969-12-31T23:59:59Z'), types.TimeUuid.fromString('00000000-0000-1000-8000-000000000000'), -128,
        types.Uuid.fromString('00000000-0000-0000-0000-000000000000'), '', types.Integer.fromString('-1' + '0'.repeat(30))],
    ];
    for (let k = 0; k < rows.length; k++) await this.client.execute(insert, [k, ...rows[k]]);
    for (let k = 0; k < rows.length; k++) {
      const row = (await this.client.execute(`SELECT * FROM ${ks}.types WHERE k = ?`, [k])).first();
      names.forEach((n, i) => assert.deepEqual(plain(row[n]), plain(rows[k][i]), n));
    }
  }

  async collections() {
    await this.ddl(`CREATE TABLE ${ks}.collections (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, fl frozen<list<int>>, fm frozen<map<text, frozen<set<text>>>>)`);
    const insert = `INSERT INTO ${ks}.collections (k, l, s, m, fl) VALUES (?, ?, ?, ?, ?)`;
    const select = async (k) => (await this.client.execute(`SELECT * FROM ${ks}.collections WHERE k = ?`, [k])).first();
    await this.client.execute(insert, [1, [3, 1, 3], ['b', 'a'], { x: 1, y: 2 }, [9, 8]]);
    let row = await select(1);
    assert.deepEqual(plain([row.l, row.s, row.m, row.fl]), [[3, 1, 3], ['a', 'b'], [['x', 1], ['y', 2]], [9, 8]]);
    await this.client.execute(`UPDATE ${ks}.collections SET l = l + ?, s = s - ?, m[?] = ? WHERE k = ?`, [[7], ['a'], 'z', 26, 1]);
    await this.client.execute(`UPDATE ${ks}.collections SET fm = ? WHERE k = 1`, [{ a: ['p', 'q'], b: ['r'] }]);
    row = await select(1);
    assert.deepEqual(plain([row.l, row.s, row.m, row.fm]), [[3, 1, 3, 7], ['b'], [['x', 1], ['y', 2], ['z', 26]], [['a', ['p', 'q']], ['b', ['r']]]]);
    await this.client.execute(insert, [2, [], [], {}, []]);
    row = await select(2);
    // The driver itself reads an empty frozen list as null.
    assert.deepEqual([row.l, row.s, row.m], [null, null, null]);
  }

  async nulls() {
    await this.ddl(`CREATE TABLE ${ks}.nulls (k int PRIMARY KEY, a text, b int)`);
    const insert = `INSERT INTO ${ks}.nulls (k, a, b) VALUES (?, ?, ?)`;
    const select = async () => {
      const r = (await this.client.execute(`SELECT a, b FROM ${ks}.nulls WHERE k = 1`)).first();
      return [r.a, r.b];
    };
    await this.client.execute(insert, [1, 'a', 1]);
    await this.client.execute(insert, [1, types.unset, 2]);
    assert.deepEqual(await select(), ['a', 2]);
    await this.client.execute(insert, [1, null, undefined]);
    assert.deepEqual(await select(), [null, 2]);
    await this.client.execute(insert, [1, '', null]);
    assert.deepEqual(await select(), ['', null]);
  }

  async named() {
    await this.client.execute(`INSERT INTO ${ks}.nulls (k, a, b) VALUES (:k, :a, :b)`, { b: 5, a: 'named', k: 7 });
    const row = (await this.client.execute(`SELECT a, b FROM ${ks}.nulls WHERE k = :key`, { key: 7 })).first();
    assert.deepEqual([row.a, row.b], ['named', 5]);
  }

  async paging() {
    await this.ddl(`CREATE TABLE ${ks}.paging (k int, c int, v text, PRIMARY KEY (k, c))`);
    await Promise.all(Array.from({ length: 500 }, (_, i) => this.client.execute(`INSERT INTO ${ks}.paging (k, c, v) VALUES (?, ?, ?)`, [i % 5, i, `v${i}`])));
    const seen = [];
    for await (const row of this.client.stream(`SELECT k, c FROM ${ks}.paging`, [], { fetchSize: 37, autoPage: true })) seen.push(row.c);
    assert.deepEqual(seen.sort((a, b) => a - b), Array.from({ length: 500 }, (_, i) => i));
    const first = await this.client.execute(`SELECT c FROM ${ks}.paging WHERE k = 1`, [], { fetchSize: 10 });
    const rest = await this.client.execute(`SELECT c FROM ${ks}.paging WHERE k = 1`, [], { fetchSize: 1000, pageState: first.pageState });
    assert.equal(first.rows.length, 10);
    assert.deepEqual([...first.rows, ...rest.rows].map((r) => r.c), Array.from({ length: 100 }, (_, i) => 1 + 5 * i));
  }

  async batch() {
    for (const [logged, a, b] of [[false, 20, 21], [true, 22, 22]]) {
      await this.client.batch([
        { query: `INSERT INTO ${ks}.nulls (k, a, b) VALUES (?, ?, ?)`, params: [a, 'x', 1] },
        { query: `UPDATE ${ks}.nulls SET b = ? WHERE k = ?`, params: [9, b] },
      ], { prepare: true, logged });
      assert.equal((await this.client.execute(`SELECT b FROM ${ks}.nulls WHERE k = ?`, [b])).first().b, 9);
    }
  }

  async metadata() {
    await this.ddl(`CREATE TABLE ${ks}.meta (a int, b text, c int, d list<int>, s int STATIC, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'noted'`);
    const table = await this.client.metadata.getTable(ks, 'meta');
    assert.deepEqual(table.partitionKeys.map((c) => c.name), ['a', 'b']);
    assert.deepEqual(table.clusteringKeys.map((c) => c.name), ['c']);
    assert.deepEqual(table.clusteringOrder, ['DESC']);
    assert.equal(table.comment, 'noted');
    assert.equal(table.columnsByName.s.isStatic, true);
  }

  async tokens() {
    const tokens = this.client.hosts.values().flatMap((h) => h.tokens);
    assert.equal(tokens.length, 16 * nodes, 'tokens');
    await this.ddl(`CREATE TABLE ${ks}.tokens (k text PRIMARY KEY)`);
    for (const key of ['theo', 'Grüße', 'a key of more than sixteen bytes é']) {
      await this.client.execute(`INSERT INTO ${ks}.tokens (k) VALUES (?)`, [key]);
      const row = (await this.client.execute(`SELECT token(k) AS t FROM ${ks}.tokens WHERE k = ?`, [key])).first();
      assert.equal(this.client.metadata.newToken(Buffer.from(key)).toString(), row.t.toString(), key);
      assert.equal(this.client.getReplicas(ks, Buffer.from(key)).length, rf, 'replicas');
    }
  }

  async events() {
    const other = newClient();
    try {
      await other.connect();
      const before = await this.client.metadata.getTable(ks, 'seen');
      assert.equal(before, null);
      await other.execute(`CREATE TABLE ${ks}.seen (k int PRIMARY KEY)`, [], { prepare: false });
      await this.until(async () => (await this.client.metadata.getTable(ks, 'seen')) !== null, 'the table another session made');
      await other.execute(`ALTER TABLE ${ks}.seen ADD v int`, [], { prepare: false });
      // The driver keeps a table's metadata until an event says that it changed.
      await this.until(async () => (await this.client.metadata.getTable(ks, 'seen')).columnsByName.v !== undefined, 'the column another session added');
    } finally {
      await other.shutdown();
    }
  }

  async until(condition, what) {
    for (let i = 0; i < 200; i++) {
      if (await condition()) return;
      await sleep(50);
    }
    throw new Error(`not seen: ${what}`);
  }

  async alter() {
    await this.ddl(`CREATE TABLE ${ks}.altered (k int PRIMARY KEY, a int)`);
    await this.client.execute(`INSERT INTO ${ks}.altered (k, a) VALUES (1, 2)`);
    await this.client.execute(`SELECT * FROM ${ks}.altered`);
    await this.ddl(`ALTER TABLE ${ks}.altered ADD aa text`);
    await this.client.execute(`UPDATE ${ks}.altered SET aa = 'new' WHERE k = 1`);
    for (let i = 0; i < 3 * nodes; i++) {
      const row = (await this.client.execute(`SELECT * FROM ${ks}.altered`)).first();
      assert.deepEqual([row.k, row.a, row.aa], [1, 2, 'new']);
    }
  }

  async errors() {
    for (const [text, code] of [['SELEC', 0x2000], [`SELECT * FROM ${ks}.nosuch`, 0x2200], [`CREATE TABLE ${ks}.altered (k int PRIMARY KEY)`, 0x2400]]) {
      await assert.rejects(this.ddl(text), (e) => e.code === code, text);
    }
  }

  async tracing() {
    const result = await this.client.execute(`SELECT * FROM ${ks}.nulls WHERE k = 7`, [], { traceQuery: true });
    const trace = await this.client.metadata.getTrace(result.info.traceId);
    assert.ok(trace.events.length > 0 && trace.duration !== null);
  }

  async drop() {
    await this.ddl(`DROP KEYSPACE ${ks}`);
  }
}

async function failover() {
  const client = newClient();
  await client.connect();
  await client.execute(`DROP KEYSPACE IF EXISTS ${ks}`, [], { prepare: false });
  await client.execute(`CREATE KEYSPACE ${ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': ${rf}}`, [], { prepare: false });
  await client.execute(`CREATE TABLE ${ks}.acked (id int PRIMARY KEY)`, [], { prepare: false });
  const options = { prepare: true, isIdempotent: true };
  const present = async (id) => (await client.execute(`SELECT id FROM ${ks}.acked WHERE id = ?`, [id], options)).rowLength === 1;
  let stop = false;
  process.stdin.resume().on('end', () => { stop = true; });
  console.log('ready');
  const acked = [];
  for (let id = 0; !stop; id++) {
    try {
      await client.execute(`INSERT INTO ${ks}.acked (id) VALUES (?)`, [id], options);
      acked.push(id);
      console.log(`acked ${Date.now()} ${id}`);
      if (id % 10 === 0 && !(await present(id))) console.log(`missing ${id}`);
    } catch (e) {
      console.log(`error ${Date.now()} ${String(e).replace(/\s+/g, ' ')}`);
    }
    await sleep(2);
  }
  for (const id of acked) if (!(await present(id))) console.log(`missing ${id}`);
  console.log('done');
  await client.execute(`DROP KEYSPACE ${ks}`, [], { prepare: false });
  await client.shutdown();
  return 0;
}

// login connects with correct and with wrong credentials.
async function login() {
  const username = process.env.CQLD_USER;
  let failed = 0;
  const check = async (name, run) => {
    try {
      await run();
      console.log(`ok ${name}`);
    } catch (e) {
      failed = 1;
      console.log(`fail ${name} ${String(e.stack || e).replace(/\s+/g, ' ').slice(0, 600)}`);
    }
  };
  const refused = async (user) => {
    const client = newClient({ username: user, password: 'wrong' });
    try {
      await assert.rejects(client.connect(), (e) => {
        for (const error of Object.values(e.innerErrors)) {
          assert.equal(error.name, 'AuthenticationError');
          assert.ok(error.message.includes(`Provided username ${user} and/or password are incorrect`), error.message);
        }
        return true;
      });
    } finally {
      await client.shutdown();
    }
  };
  await check('correct', async () => {
    const client = newClient({ username, password: process.env.CQLD_PASSWORD });
    await client.connect();
    assert.equal((await client.execute('SELECT key FROM system.local')).first().key, 'local');
    const definition = (text) => client.execute(text, [], { prepare: false });
    await definition(`DROP KEYSPACE IF EXISTS ${ks}`);
    await definition(`CREATE KEYSPACE ${ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': ${rf}}`);
    await definition(`CREATE TABLE ${ks}.t (k int PRIMARY KEY, v text)`);
    await client.execute(`INSERT INTO ${ks}.t (k, v) VALUES (?, ?)`, [1, 'written']);
    assert.equal((await client.execute(`SELECT v FROM ${ks}.t WHERE k = ?`, [1])).first().v, 'written');
    await definition(`DROP KEYSPACE ${ks}`);
    await client.shutdown();
  });
  await check('wrong', () => refused(username));
  await check('unknown', () => refused('no_such_role'));
  return failed;
}

const programs = { suite: () => new Suite().run(), failover, login };
programs[process.argv[2]]().then((code) => process.exit(code), (e) => { console.error(e); process.exit(2); });
